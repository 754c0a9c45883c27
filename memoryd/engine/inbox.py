"""Pending work of one root.

Watcher, timetable and control socket add work and never block; the worker takes it one at a time, so that backup,
archive, lock clearing and indexing can never interleave. File changes settle first, see `Settler`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import NamedTuple

from msgspec import Struct

from memoryd.control.methods.method_types import Result
from memoryd.engine.interfaces import Clock
from memoryd.engine.jobs import QUIET_JOBS, Job
from memoryd.engine.settler import Batch, Settler
from memoryd.errors import ShuttingDownError

HALF_WRITTEN_S = 2.05  # until half-written files are read again: their writer has had two seconds
MAX_WAIT_S = 60.0  # longest sleep of the worker loop, in case a due time was brought forward without a wake-up


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
