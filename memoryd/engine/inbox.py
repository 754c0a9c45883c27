"""Pending work of one root, and when it is due.

Watcher, timetable and control socket add work and never block; the worker takes it one at a time, so that backup,
archive, lock clearing and indexing can never interleave. File changes settle first (`Settler`): a closed file is due at
once to be searchable, and many changes become one batch for the index files, soon but not too soon. What runs by the
clock has `Deadlines`: a full scan is the truth; how often it runs depends on its cost and on how reliable events are.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import NamedTuple

from msgspec import Struct

from memoryd.control.methods.method_types import Result
from memoryd.core.index import IndexWriter
from memoryd.core.schedule import Adaptive, Every, parse_schedule
from memoryd.engine.interfaces import Clock
from memoryd.engine.jobs import QUIET_JOBS, Job
from memoryd.errors import ShuttingDownError

MAX_WAIT_S = 60.0  # longest sleep of the worker loop, in case a due time was brought forward without a wake-up
EARLY_S = 0.01  # after a change on its own the index files wait only this long, and a part of what writing them takes
CLOSED_PAUSE = 4.0  # making closed files searchable takes at most a fifth of the time
LOOK_S = 2.0  # between two looks at the root's path while something is wrong with it
CALM_LOOK_S = 60.0  # and while events cover it: it is looked at when its path has changed, see `Health.has_moved`
DUTY = 30_000.0  # scans may use 1/DUTY of the time: 0.1 ms/s for three roots, half of what an idle daemon may use
MIN_SCAN_S, MAX_SCAN_S = 30.0, 3600.0
BLIND_SCAN_S = 5.0  # between scans while events are unreliable
BLIND_DUTY = 50.0
# Between two layout detections in a root without a layout: the pause doubles while irrelevant files change.
MIN_DETECT_S, MAX_DETECT_S = 0.25, 60.0
LATE_S = 0.5  # between two checks of a replaced inode
MAX_TROUBLE_S = 5.0  # between two scans while a disk refuses
MERGE_QUIET_S = 0.5  # after a change, before segments of the full-text index are merged
MERGE_PAUSE_S = 0.05  # between two merge steps: an arriving change goes first
NEVER = float("inf")


class Deadlines(Struct):
    """Due times of one root, in monotonic seconds: check of the root's path, layout detection, full scan, delayed
    index, check of replaced inodes, merge of the full-text index. NEVER if not scheduled."""

    look: float = 0.0
    detect: float = 0.0
    scan: float = NEVER
    index: float = NEVER
    late: float = NEVER
    merge: float = NEVER
    _scan_cost_s: float = 0.0
    _detect_pause_s: float = MIN_DETECT_S

    def next_due(self) -> float:
        """Return the earliest due time; layout detection runs with the scan."""
        return min(self.look, self.scan, self.index, self.late, self.merge)

    def rest(self) -> None:
        """Cancel all but the check of the path: the root is missing, suspect or paused."""
        self.scan = self.index = self.late = self.merge = NEVER

    def merge_fulltext(self, now: float, catalogue: IndexWriter) -> None:
        """Merge segments of the full-text index if that is due, a little at a time."""
        if now >= self.merge:
            self.merge = now + MERGE_PAUSE_S if catalogue.tidy() else NEVER
        elif self.merge == NEVER and catalogue.can_tidy:
            self.merge = now + MERGE_QUIET_S

    def hold_off(self, now: float, pause_s: float, *, looks: bool) -> None:
        """Retry after a pause, since the disk fails. `looks`: look at the path at once; if a look failed, not again."""
        self.look, self.index = now if looks else self.look, now + pause_s
        self.scan = max(now + pause_s, min(self.scan, now + MAX_TROUBLE_S))

    def scanned(self, began: float, now: float) -> None:
        """Note the duration of a full scan or a layout detection."""
        self._scan_cost_s = now - began

    def schedule_scan(self, now: float, schedule: str, *, reliable: bool) -> None:
        """Set when the next full scan is due. `schedule` is the configured one; `reliable`: events cover
        every directory."""
        parsed = parse_schedule(schedule)
        if not reliable:
            self.scan = now + max(BLIND_SCAN_S, BLIND_DUTY * self._scan_cost_s)
        elif isinstance(parsed, Adaptive):
            self.scan = now + min(MAX_SCAN_S, max(MIN_SCAN_S, DUTY * self._scan_cost_s))
        else:
            self.scan = now + parsed.seconds if isinstance(parsed, Every) else NEVER

    def may_detect(self, now: float) -> bool:
        """True if layout detection is due; otherwise the next scan does it."""
        if now >= self.detect:
            return True
        self.scan = min(self.scan, self.detect)
        return False

    def not_detected(self, began: float, now: float) -> None:
        """Schedule the next layout detection after one that found none."""
        self.scanned(began, now)
        calm = began - self.detect > self._detect_pause_s
        pause = MIN_DETECT_S if calm else min(MAX_DETECT_S, 2 * self._detect_pause_s)
        self._detect_pause_s = max(pause, BLIND_DUTY * self._scan_cost_s)
        self.detect = now + self._detect_pause_s


class Batch(Struct, frozen=True):
    """Paths to process now. `everything` means scan the whole root; `paths` then contains deferred ones only.

    `paths` are relative POSIX paths; `oldest` is the monotonic time of the first touch in the batch.
    """

    paths: frozenset[str]
    everything: bool
    oldest: float


class Pace(Struct, frozen=True):
    """Quiet times in seconds: `settle_*` before index files are written, `quiet_*` before upkeep that waits for a
    pause."""

    settle_s: float = 0.1
    settle_cap_s: float = 1.0
    quiet_s: float = 10.0
    quiet_cap_s: float = 60.0


class NextWork(NamedTuple):
    """The worker's next task: one of the four, or none if only a deadline is due. `closed` are files to make
    searchable."""

    command: Job | None = None
    closed: frozenset[str] = frozenset()
    batch: Batch | None = None
    scheduled: Job | None = None


class Settler:
    """Collect changed paths and decide when a batch is due. Time is an argument, in seconds of a monotonic clock. Not
    thread-safe: the caller locks.

    A writer rarely makes one event. A batch is due when its root has been quiet for `quiet_s`, and in any case `cap_s`
    after its first touch, so that a writer that never pauses cannot delay the index indefinitely. The index is to be
    on disk by then, so a batch under the cap begins earlier by the duration of the last ones. A change on its own,
    after twice the quiet time and with no file left open, waits much less: that makes no more batches.

    More than `max_paths` paths, or more than `max_per_dir` in one directory, become a scan of everything: a
    scan costs microseconds a file, while a burst of thousands of paths would cost memory and as many single
    checks.

    A file that is probably complete, such as a closed one, is due at once, to be made searchable, and stays in the
    batch. After that took a while, the next one waits `CLOSED_PAUSE` times as long.

    `everything`: the open batch is a scan.
    """

    def __init__(self, quiet_s: float = 0.1, cap_s: float = 1.0, max_paths: int = 512, max_per_dir: int = 128) -> None:
        self.quiet_s = quiet_s
        self.cap_s = cap_s
        self.max_paths = max_paths
        self.max_per_dir = max_per_dir
        self._lead = 0.0
        self._paths: set[str] = set()
        self._per_dir: Counter[str] = Counter()
        self.everything = False
        self._first: float | None = None
        self._last = 0.0
        self._alone = False  # the open batch began after a pause
        self._open: set[str] = set()  # its paths that may not be complete
        self._deferred: dict[str, float] = {}
        self._closed: set[str] = set()
        self._closed_due = 0.0

    def touch(self, path: str, now: float, *, at_once: bool = False, early: bool = True) -> None:
        """Note a possible change at `path`. An earlier deferral of it ends: the batch looks sooner. `early`: the batch
        may be due before the quiet time is over if the file is complete (`at_once`)."""
        self._mark(now)
        self._deferred.pop(path, None)
        if self.everything:
            return
        if at_once:
            self._closed.add(path)
        (self._open.discard if at_once and early else self._open.add)(path)
        if path in self._paths:
            return
        self._paths.add(path)
        directory = path.rpartition("/")[0]
        self._per_dir[directory] += 1
        if len(self._paths) > self.max_paths or self._per_dir[directory] > self.max_per_dir:
            self._collapse()

    def touch_all(self, now: float) -> None:
        """Note that anything may have changed (overflow, a directory came or went): a scan is wanted."""
        self._mark(now)
        self._collapse()

    def defer(self, path: str, until: float) -> None:
        """Process `path` again at `until`: a half-written file whose writer is still at work.

        A path in the open batch is processed sooner anyway; of two deferrals the earlier one applies.
        """
        if path in self._paths:
            return
        self._deferred[path] = min(until, self._deferred.get(path, until))

    def note_duration(self, seconds: float) -> None:
        """Note the duration of a batch. One slow batch is remembered for a while, with half again in reserve, but never
        more than half of the cap: a slow disk must not split a burst into many small batches."""
        self._lead = min(self.cap_s / 2, max(1.5 * seconds, 0.9 * self._lead))

    def note_closed_duration(self, now: float, seconds: float) -> None:
        """Note how long it took to make closed files searchable, until `now`."""
        self._closed_due = now + CLOSED_PAUSE * seconds

    def closed_is_due(self, now: float) -> bool:
        """True if there are closed files to make searchable now."""
        return bool(self._closed) and now >= self._closed_due

    def closed(self, now: float) -> frozenset[str]:
        """Remove and return the closed files to make searchable now."""
        if not self.closed_is_due(now):
            return frozenset()
        taken = frozenset(self._closed)
        self._closed.clear()
        return taken

    def pending(self) -> frozenset[str] | None:
        """Return all paths that wait, deferred ones included; None if anything may have changed. They stay in their
        batch, but the closed ones need not be taken any more."""
        self._closed.clear()
        return None if self.everything else frozenset(self._paths | self._deferred.keys())

    def ready(self, now: float) -> Batch | None:
        """Remove and return the batch that is due; None while there is none or the root is not quiet yet."""
        ripe = {path: until for path, until in self._deferred.items() if until <= now}
        due = self._batch_due()
        open_is_due = due is not None and due <= now
        if not ripe and not open_is_due:
            return None
        starts = list(ripe.values())
        paths, everything = set(ripe), False
        for path in ripe:
            del self._deferred[path]
        if open_is_due:
            assert self._first is not None
            starts.append(self._first)
            paths |= self._paths
            everything = self.everything
            self._reset()
        return Batch(frozenset(paths), everything, min(starts))

    def next_due(self) -> float | None:
        """Return when `ready` or `closed` will first return something if nothing else happens."""
        times = list(self._deferred.values())
        due = self._batch_due()
        if due is not None:
            times.append(due)
        if self._closed:
            times.append(self._closed_due)
        return min(times, default=None)

    def pending_since(self) -> float | None:
        """Return the first touch that is not in a batch yet; deferred paths do not count."""
        return self._first

    def _mark(self, now: float) -> None:
        if self._first is None:
            self._alone = now - self._last >= 2 * self.quiet_s
            self._first = now
            self._last = now
        self._last = max(now, self._last)

    def _batch_due(self) -> float | None:
        if self._first is None:
            return None
        quiet_s = self.quiet_s
        if self._alone and not (self._open or self.everything):
            quiet_s = min(quiet_s, EARLY_S + self._lead / 4)
        return min(self._last + quiet_s, self._first + max(self.quiet_s, self.cap_s - self._lead))

    def _collapse(self) -> None:
        self.everything = True
        self._forget_paths()

    def _reset(self) -> None:
        self.everything = False
        self._first = None
        self._forget_paths()

    def _forget_paths(self) -> None:
        self._open.clear()
        self._closed.clear()
        self._paths.clear()
        self._per_dir.clear()


class Inbox:
    """The pending work of one root. `due` returns when (monotonic) the worker has other work,
    `last_change` when the root last changed; any thread may call both. `decline` takes what comes after the end."""

    def __init__(self, pace: Pace, clock: Clock, due: Callable[[], float], last_change: Callable[[], float]) -> None:
        self.decline: Callable[[Job], object] = refuse
        self._pace = pace
        self._clock = clock
        self._due = due
        self._last_change = last_change
        self._changed = threading.Condition()
        self._settler = Settler(pace.settle_s, pace.settle_cap_s)
        self._commands: deque[Job] = deque()
        self._scheduled: dict[str, Job] = {}
        self._indexed_last = False
        self._sleeps_until: float | None = None  # None while the worker is awake
        self._in_parts = False  # the worker looks for urgent work between the parts of a long one
        self._ends = False
        self._closed_done = threading.Event()  # unset from when a closed file wakes the worker until it can be found
        self._closed_done.set()
        self.turns = 0  # how often the worker has looked for work, at least every MAX_WAIT_S

    # --- for any thread, never blocking

    def touch(self, path: str | None, *, at_once: bool = False, early: bool = True) -> bool:
        """Note a possible change of this path; None means anywhere. `at_once`: it is probably complete. `early`: then
        the index files need not wait for the whole quiet time. Returns True if a scan was due already."""
        with self._changed:
            now, scan_was_due = self._clock.monotonic(), self._settler.everything
            if path is None:
                self._settler.touch_all(now)
            else:
                self._settler.touch(path, now, at_once=at_once, early=early)
            if (self._in_parts or self._sleeps_until is not None) and self._settler.closed_is_due(now):
                self._closed_done.clear()
            self._wake()
        return scan_was_due

    def submit(self, job: Job) -> Future[Result]:
        """Add a command."""
        with self._changed:
            accepted = not self._ends
            if accepted:
                self._commands.append(job)
                self._wake()
        if not accepted:
            self.decline(job)
        return job.future

    def enqueue_scheduled(self, name: str) -> None:
        """Add a scheduled job; at most one of each name waits."""
        with self._changed:
            if name not in self._scheduled and not self._ends:
                self._scheduled[name] = Job(name, by="schedule", due=self._clock.monotonic())
                self._wake()

    def recheck(self) -> None:
        """Wake the worker if something is due sooner than when it fell asleep."""
        with self._changed:
            self._wake()

    def await_closed(self, timeout_s: float) -> bool:
        """Wait until files that were closed while the worker had nothing more urgent to do can be found. False if the
        time is up."""
        return self._closed_done.is_set() or self._closed_done.wait(timeout_s)

    def end(self) -> None:
        """Accept no more work and start no further task."""
        with self._changed:
            self._ends = True
            self._closed_done.set()
            self._changed.notify_all()

    def decline_all(self) -> None:
        """Accept no more work and decline every waiting command."""
        self.end()
        for job in self.take(lambda _: True):
            self.decline(job)

    @property
    def ends(self) -> bool:
        """True if no more work is accepted."""
        return self._ends

    def pending_since(self) -> float | None:
        """Return the time of the first change that has not been processed."""
        return self._settler.pending_since()

    # --- waiting

    def next(self) -> NextWork | None:
        """Wait until work is due, and take it. None at the end."""
        with self._changed:
            self._in_parts = False
            while not self._something_due():
                # Not `wait_for`: each hint that arrives may bring the next due time forward.
                self._sleep()
                self.turns += 1
            self.turns += 1
            return None if self._ends else self._pick()

    def _sleep(self) -> None:
        self._closed_done.set()
        self._sleeps_until = self._wakes_at()
        self._changed.wait(max(0.0, self._sleeps_until - self._clock.monotonic()))
        self._sleeps_until = None

    def _wake(self) -> None:
        """Wake the worker only if it would sleep too long; otherwise it would compete with the caller for the CPU."""
        if self._sleeps_until is not None and self._wakes_at() < self._sleeps_until:
            self._changed.notify()

    def _wakes_at(self) -> float:
        now = self._clock.monotonic()
        if self._ends or self._commands:
            return now
        due = self._settler.next_due()
        at = now + MAX_WAIT_S
        return min([at, self._due(), at if due is None else due, *map(self._runs_at, self._scheduled.values())])

    def _something_due(self) -> bool:
        return self._wakes_at() <= self._clock.monotonic()

    def _pick(self) -> NextWork:
        if self._commands:
            return NextWork(command=self._commands.popleft())
        now = self._clock.monotonic()
        closed = self._settler.closed(now)
        if closed:
            return NextWork(closed=closed)
        # Alternate: changes without end, or an index that cannot get the lock, must not hold up a job.
        job = self._scheduled_due(now) if self._indexed_last else None
        batch = None if job else self._settler.ready(now)
        self._indexed_last = batch is not None
        return NextWork(batch=batch, scheduled=job or (None if batch else self._scheduled_due(now)))

    def _runs_at(self, job: Job) -> float:
        """Return when a scheduled job may run. Destructive ones wait for a pause of the writers, but not
        indefinitely."""
        if job.name not in QUIET_JOBS:
            return job.due
        return min(self._last_change() + self._pace.quiet_s, job.due + self._pace.quiet_cap_s)

    def _scheduled_due(self, now: float) -> Job | None:
        name = next((name for name, job in self._scheduled.items() if self._runs_at(job) <= now), None)
        return self._scheduled.pop(name) if name is not None else None

    # --- for the worker

    def take_closed(self) -> frozenset[str]:
        """Take the closed files that are due to be made searchable, between two parts of long work."""
        self._in_parts = True
        with self._changed:
            return self._settler.closed(self._clock.monotonic())

    def note_duration(self, seconds: float) -> None:
        """Note the duration of the last batch, in seconds."""
        with self._changed:
            self._settler.note_duration(seconds)

    def defer(self, paths: Iterable[str], until: float) -> None:
        """Process these paths again at `until` (monotonic)."""
        with self._changed:
            for path in paths:
                self._settler.defer(path, until)

    def note_closed_duration(self, seconds: float) -> None:
        """Note how long it took to make closed files searchable, in seconds."""
        with self._changed:
            self._settler.note_closed_duration(self._clock.monotonic(), seconds)
            self._closed_done.set()

    def take_hints(self) -> frozenset[str] | None:
        """Take the pending paths, settled or not; None if anything may have changed."""
        with self._changed:
            batch = self._settler.ready(float("inf"))
        if batch is None:
            return frozenset()
        return None if batch.everything else batch.paths

    def pending(self) -> frozenset[str] | None:
        """Return the pending paths, settled or not, and keep them; None if anything may have changed."""
        with self._changed:
            return self._settler.pending()

    def put_back(self, jobs: Iterable[Job]) -> None:
        """Let these commands wait again, before all others."""
        with self._changed:
            self._commands.extendleft(jobs)

    def take(self, wanted: Callable[[Job], bool]) -> list[Job]:
        """Take every waiting command that is wanted."""
        if not self._commands:
            return []
        with self._changed:
            taken = [job for job in self._commands if wanted(job)]
            self._commands = deque(job for job in self._commands if not wanted(job))
        return taken


def refuse(job: Job) -> None:
    """Answer a command with ShuttingDownError."""
    job.refuse(ShuttingDownError("memoryd is shutting down", hint="try again after it has started"))
