"""Pending work of one root.

Watcher, timetable and control socket add work and never block; the worker takes it one at a time, so that backup,
archive, lock clearing and indexing can never interleave. File changes settle first (`Settler`): many of them become one
batch, soon but not too soon.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple

from memoryd.control.methods.method_types import Result
from memoryd.engine.interfaces import Clock
from memoryd.engine.jobs import QUIET_JOBS, Job
from memoryd.engine.settler import Batch, Settler
from memoryd.errors import ShuttingDownError

MAX_WAIT_S = 60.0  # longest sleep of the worker loop, in case a due time was brought forward without a wake-up


@dataclass(frozen=True, slots=True)
class Pace:
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
    `last_change` when the root last changed; any thread may call both."""

    def __init__(self, pace: Pace, clock: Clock, due: Callable[[], float], last_change: Callable[[], float]) -> None:
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
        self._ends = False

    # --- for any thread, never blocking

    def touch(self, path: str | None, *, at_once: bool = False) -> None:
        """Note a possible change of this path; None means anywhere. `at_once`: it is probably complete."""
        with self._changed:
            if path is None:
                self._settler.touch_all(self._clock.monotonic())
            else:
                self._settler.touch(path, self._clock.monotonic(), at_once=at_once)
            self._wake()

    def submit(self, job: Job) -> Future[Result]:
        """Add a command."""
        with self._changed:
            if self._ends:
                job.refuse(_shutting_down())
            else:
                self._commands.append(job)
                self._wake()
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

    def end(self) -> None:
        """Accept no more work and start no further task."""
        with self._changed:
            self._ends = True
            self._changed.notify_all()

    def refuse_all(self) -> None:
        """Answer every waiting command with ShuttingDownError."""
        self.end()
        for job in self._take(lambda _: True):
            job.refuse(_shutting_down())

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
            while not self._something_due():
                # Not `wait_for`: each hint that arrives may bring the next due time forward.
                self._sleep()
            return None if self._ends else self._pick()

    def _sleep(self) -> None:
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

    def _peek_scheduled(self, now: float) -> str | None:
        """Return the first scheduled job that may run now. Destructive ones wait for a pause of the writers, but not
        indefinitely."""
        return next((name for name, job in self._scheduled.items() if self._runs_at(job) <= now), None)

    def _runs_at(self, job: Job) -> float:
        if job.name not in QUIET_JOBS:
            return job.due
        return min(self._last_change() + self._pace.quiet_s, job.due + self._pace.quiet_cap_s)

    def _scheduled_due(self, now: float) -> Job | None:
        name = self._peek_scheduled(now)
        return self._scheduled.pop(name) if name is not None else None

    # --- for the worker

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

    def take_all(self, name: str) -> list[Job]:
        """Take every waiting command of that name."""
        return self._take(lambda job: job.name == name)

    def _take(self, wanted: Callable[[Job], bool]) -> list[Job]:
        with self._changed:
            taken = [job for job in self._commands if wanted(job)]
            self._commands = deque(job for job in self._commands if not wanted(job))
        return taken


def _shutting_down() -> ShuttingDownError:
    return ShuttingDownError("memoryd is shutting down", hint="try again after it has started")
