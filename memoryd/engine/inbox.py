"""What waits for one root, and whose turn it is.

Watcher, timetable and control socket put things in and never block; whoever has the turn takes them out one at a time,
so that backup, archive, lock clearing and indexing can never interleave. The turn is the root's own worker's; while it
rests and nothing waits, somebody else may borrow it for one thing.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple

from memoryd.engine.clock import Clock
from memoryd.engine.jobs import QUIET_JOBS, Job
from memoryd.engine.settle import Batch, Settler
from memoryd.errors import ShuttingDownError

LONGEST_WAIT_S = 2.0  # how long the loop sleeps at most; a look at the root's path costs one stat


@dataclass(frozen=True, slots=True)
class Pace:
    """Quiet times in seconds (CONTRACT: settle decides when a change is indexed; upkeep waits longer)."""

    settle_s: float = 0.1
    settle_cap_s: float = 1.0
    quiet_s: float = 10.0
    quiet_cap_s: float = 60.0


class Turn(NamedTuple):
    """What comes next: one of the three, or none where something else is due."""

    command: Job | None = None
    batch: Batch | None = None
    scheduled: Job | None = None


class Inbox:
    """`due` tells when (monotonic) whoever has the turn has something else to do, `last_change` when the root last
    changed; both are asked by any thread."""

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
        self._taken = True  # the worker begins with its first look
        self._sleeps_until = float("inf")
        self._ends = False

    # --- doors: any thread, never blocking

    def touch(self, path: str | None) -> None:
        """Something may have changed; None means anywhere."""
        with self._changed:
            if path is None:
                self._settler.touch_all(self._clock.monotonic())
            else:
                self._settler.touch(path, self._clock.monotonic())
            self._wake()

    def submit(self, job: Job, *, first: bool = False) -> Future[dict[str, Any]]:
        with self._changed:
            if self._ends:
                job.refuse(_shutting_down())
            else:
                (self._commands.appendleft if first else self._commands.append)(job)
                self._wake()
        return job.future

    def fall_due(self, name: str) -> None:
        """A scheduled job: one of each name waits at a time."""
        with self._changed:
            if name not in self._scheduled and not self._ends:
                self._scheduled[name] = Job(name, by="schedule", due=self._clock.monotonic())
                self._wake()

    def end(self) -> None:
        """Nothing is taken in any more, and no turn begins."""
        with self._changed:
            self._ends = True
            self._changed.notify_all()

    def refuse_all(self) -> None:
        """Whoever still waits is told that nothing comes."""
        self.end()
        for job in self._take(lambda _: True):
            job.refuse(_shutting_down())

    @property
    def ends(self) -> bool:
        return self._ends

    def pending_since(self) -> float | None:
        """When the first change was hinted at that nobody has looked at yet."""
        return self._settler.pending_since()

    # --- the turn

    def next(self) -> Turn | None:
        """The worker's: gives its turn back, and waits until it has it again and there is something to do. None at the
        end, and then the turn is nobody else's any more."""
        with self._changed:
            self._taken = False
            while self._taken or not self._something_due():
                # Not `wait_for`: each hint that arrives may bring the next due time forward.
                self._sleep()
            self._taken = True
            self._sleeps_until = float("inf")
            return None if self._ends else self._pick()

    def borrow(self) -> bool:
        """True: the worker rests, and does so until `give_back`."""
        with self._changed:
            if self._taken or self._something_due():
                return False
            self._taken = True
            return True

    def give_back(self) -> None:
        with self._changed:
            self._taken = False
            self._wake()

    def _sleep(self) -> None:
        if self._taken:
            self._sleeps_until = float("inf")
            self._changed.wait()
        else:
            self._sleeps_until = self._wakes_at()
            self._changed.wait(max(0.0, self._sleeps_until - self._clock.monotonic()))

    def _wake(self) -> None:
        """The worker, where it would sleep too long: it and whoever brought something compete for the processor."""
        if not self._taken and self._wakes_at() < self._sleeps_until:
            self._changed.notify()

    def _wakes_at(self) -> float:
        now = self._clock.monotonic()
        if self._ends or self._commands or self._peek_scheduled(now):
            return now
        due = self._settler.next_due()
        return min(now + LONGEST_WAIT_S, self._due(), now + LONGEST_WAIT_S if due is None else due)

    def _something_due(self) -> bool:
        return self._wakes_at() <= self._clock.monotonic()

    def _pick(self) -> Turn:
        if self._commands:
            return Turn(command=self._commands.popleft())
        now = self._clock.monotonic()
        # By turns: changes that never cease, or an index that starves for the lock, must not hold up a job.
        job = self._scheduled_due(now) if self._indexed_last else None
        batch = None if job else self._settler.ready(now)
        self._indexed_last = batch is not None
        return Turn(batch=batch, scheduled=job or (None if batch else self._scheduled_due(now)))

    def _peek_scheduled(self, now: float) -> str | None:
        """The first scheduled job that may run now. Destructive ones wait for a pause of the writers, but not
        for ever."""
        for name, job in self._scheduled.items():
            quiet = now - self._last_change() >= self._pace.quiet_s
            if name not in QUIET_JOBS or quiet or now - job.due >= self._pace.quiet_cap_s:
                return name
        return None

    def _scheduled_due(self, now: float) -> Job | None:
        name = self._peek_scheduled(now)
        return self._scheduled.pop(name) if name is not None else None

    # --- for whoever has the turn

    def took(self, seconds: float) -> None:
        """How long the last batch was under work."""
        with self._changed:
            self._settler.took(seconds)

    def defer(self, paths: Iterable[str], until: float) -> None:
        """Look at them again then."""
        with self._changed:
            for path in paths:
                self._settler.defer(path, until)

    def forget_hints(self) -> None:
        """A scan that begins now sees what they are about."""
        with self._changed:
            self._settler.ready(float("inf"))

    def take_all(self, name: str) -> list[Job]:
        """Every command of that name that waits."""
        return self._take(lambda job: job.name == name)

    def _take(self, wanted: Callable[[Job], bool]) -> list[Job]:
        with self._changed:
            taken = [job for job in self._commands if wanted(job)]
            self._commands = deque(job for job in self._commands if not wanted(job))
        return taken


def _shutting_down() -> ShuttingDownError:
    return ShuttingDownError("memoryd is shutting down", hint="try again when it has started anew")
