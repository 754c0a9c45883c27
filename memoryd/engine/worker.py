"""One root, one thread, one inbox: the only writer of its root.

Watcher, timetable and control socket only put things into the inbox; here they become work, one thing at a
time, so that backup, archive, lock clearing and indexing can never interleave.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from memoryd.engine.clock import Clock
from memoryd.engine.hints import Hints, Tell
from memoryd.engine.jobs import OWN, QUIET_JOBS, WRITING_JOBS, Job, require_job
from memoryd.engine.memories import STORING, Memories
from memoryd.engine.performing import Performing
from memoryd.engine.settle import Settler
from memoryd.engine.status import RootStatus
from memoryd.engine.tending import Tending
from memoryd.errors import MemorydError, ShuttingDownError
from memoryd.log import get_logger
from memoryd.search.embedding.embedder import Embedder
from memoryd.store import Store

log = get_logger(__name__)

LONGEST_WAIT_S = 2.0  # how long the loop sleeps at most; a look at the root's path costs one stat


@dataclass(frozen=True, slots=True)
class Pace:
    """Quiet times in seconds (CONTRACT: settle decides when a change is indexed; upkeep waits longer)."""

    settle_s: float = 0.1
    settle_cap_s: float = 1.0
    quiet_s: float = 10.0
    quiet_cap_s: float = 60.0


class Worker:
    """`tell(topic, event)` publishes; it must not block."""

    def __init__(
        self, store: Store, pace: Pace, clock: Clock, hints: Hints, tell: Tell, embedder: Embedder | None = None
    ) -> None:
        self.store = store
        self.name = store.name
        self._pace = pace
        self._clock = clock
        self._hints = hints
        self._tell = tell
        self._condition = threading.Condition()
        self._settler = Settler(pace.settle_s, pace.settle_cap_s)
        self._commands: deque[Job] = deque()
        self._scheduled: dict[str, Job] = {}
        self._stopping = False
        self._indexed_last = False
        store.meanwhile = self._meanwhile
        self._tending = Tending(store, clock, hints, tell, embedder)
        self._performing = Performing(store, clock, hints, tell, self._tending.trouble)
        self.ready = threading.Event()  # the first look is over, whatever it showed
        self.step = "starting"
        self.progress = 0
        self._thread = threading.Thread(target=self._run, name=f"memoryd-{store.name}", daemon=True)

    # --- doors: any thread, never blocking

    def start(self) -> None:
        self._thread.start()

    def touch(self, path: str | None, deleted: bool) -> None:
        """Something may have changed; None means anywhere."""
        if path is not None and not self._tending.cares_for(path):
            return
        if deleted:
            self._tending.note_delete()
        with self._condition:
            if path is None:
                self._settler.touch_all(self._clock.monotonic())
            else:
                self._settler.touch(path, self._clock.monotonic())
            self._condition.notify()

    def doubt(self, reason: str) -> None:
        """Events may have been lost: the next thing is a full scan."""
        log.info("rescan", root=self.name, reason=reason)
        with self._condition:
            self._settler.touch_all(self._clock.monotonic())
            self._tending.health.doubts.append((self._clock.wall(), reason))
            self._condition.notify()

    def submit(self, job: Job) -> Future[dict[str, Any]]:
        with self._condition:
            if self._stopping:
                job.future.set_exception(_shutting_down())
            else:
                self._commands.append(job)
                self._condition.notify()
        return job.future

    def fall_due(self, name: str) -> None:
        """A scheduled job: one of each name waits at a time."""
        with self._condition:
            if name not in self._scheduled and not self._stopping:
                self._scheduled[name] = Job(name, by="schedule", due=self._clock.monotonic())
                self._condition.notify()

    def require(self, name: str) -> None:
        """The error that answers what cannot be looked at as the root is."""
        self._tending.health.require(name)

    def pause(self) -> Future[dict[str, Any]]:
        """Takes hold before the next thing is begun; the future is done when the root rests."""
        self._tending.health.paused = True
        return self.submit(Job("pause"))

    def resume(self) -> Future[dict[str, Any]]:
        """End a pause; a suspect root is accepted as it is. The future is done when it has been looked at."""
        self._tending.health.paused = False
        return self.submit(Job("resume"))

    def stop(self, timeout_s: float) -> bool:
        """Refuse what waits, let what runs come to its end; False when it did not in time."""
        with self._condition:
            self._stopping = True
            self._condition.notify()
        self.store.halted.set()
        if self._thread.ident is None:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def status(self) -> RootStatus:
        return self._tending.status

    @property
    def memories(self) -> Memories:
        """Of it `note_read` and `counts` are for any thread."""
        return self._tending.memories

    def lag_ms(self, monotonic: float) -> int:
        """Age of the oldest change that is not in the index yet."""
        times = (self._settler.pending_since(), self._tending.health.unindexed_since, self.memories.behind)
        oldest = min((at for at in times if at is not None), default=monotonic)
        return max(0, round((monotonic - oldest) * 1000))

    def catch_up(self) -> list[Future[dict[str, Any]]]:
        """Before somebody looks into the catalogue: none where what was stored through memoryd is there, else when it
        will be. Until then `lag_ms` tells it."""
        return [self.submit(Job("catch-up"))] if self.memories.behind is not None else []

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    # --- the thread

    def _run(self) -> None:
        try:
            self._guarded(self._tending.begin)
            self.ready.set()
            while not self._stopping:
                self._guarded(self._turn)
                self.progress += 1
        finally:
            self.ready.set()
            self._refuse_all()
            self._tending.end()

    def _guarded(self, work: Callable[[], object]) -> None:
        """One bad file or a failing disk must not end the worker of a root."""
        try:
            work()
        except ShuttingDownError:
            return  # it waited for a lock when the end came
        except (OSError, sqlite3.Error, MemorydError) as error:
            self._tending.trouble(error)
        except Exception:
            log.exception("unexpected", root=self.name, step=self.step)
            self._tending.trouble(None)

    def _turn(self) -> None:
        """Wait for the next thing and do it."""
        with self._condition:
            while not self._something_due():
                # Not `wait_for`: each hint that arrives may bring the next due time forward.
                self._condition.wait(self._wait_s())
            if self._stopping:
                return
            command = self._commands.popleft() if self._commands else None
            # By turns: changes that never cease, or an index that starves for the lock, must not hold up a job.
            job = None if command or not self._indexed_last else self._scheduled_due()
            batch = None if command or job else self._settler.ready(self._clock.monotonic())
            job = job or (None if command or batch else self._scheduled_due())
            self._indexed_last = batch is not None or (command is not None and self._indexed_last)
        if command is not None:
            self._perform(command)
        elif batch is not None:
            self.step = "indexing"
            began = self._clock.monotonic()
            waiting = self._tending.take_in(None if batch.everything else batch.paths, batch.oldest)
            with self._condition:
                self._settler.took(self._clock.monotonic() - began)
            self._look_again(waiting)
        elif job is not None:
            self._perform_scheduled(job)
        self.step = "idle"
        self._tending.tick()
        while self._tending.unsettled:
            self.touch(self._tending.unsettled.pop(), deleted=False)
        if self._tending.wants_limits:
            self._tending.wants_limits = False
            if self.store.policy.schedule.get("limits") != "off":
                self.fall_due("limits")

    def _something_due(self) -> bool:
        now = self._clock.monotonic()
        due = self._settler.next_due()
        return bool(
            self._stopping
            or self._commands
            or (due is not None and due <= now)
            or self._peek_scheduled(now)
            or self._tending.next_due() <= now
        )

    def _wait_s(self) -> float:
        now = self._clock.monotonic()
        times = [self._tending.next_due(), now + LONGEST_WAIT_S]
        due = self._settler.next_due()
        times += [due] if due is not None else []
        return max(0.0, min(times) - now)

    def _peek_scheduled(self, now: float) -> str | None:
        """The first scheduled job that may run now. Destructive ones wait for a pause of the writers, but not
        for ever."""
        for name, job in self._scheduled.items():
            quiet = now - self._tending.last_change >= self._pace.quiet_s
            if name not in QUIET_JOBS or quiet or now - job.due >= self._pace.quiet_cap_s:
                return name
        return None

    def _scheduled_due(self) -> Job | None:
        name = self._peek_scheduled(self._clock.monotonic())
        return self._scheduled.pop(name) if name is not None else None

    def _look_again(self, waiting: tuple[str, ...]) -> None:
        """Half-written files are looked at again when their writer has had two seconds."""
        until = self._clock.monotonic() + 2.05
        with self._condition:
            for path in waiting:
                self._settler.defer(path, until)

    # --- performing

    def _perform(self, job: Job) -> None:
        """A command: its outcome is the reply, its failure as well. Syncs that wait share one scan: it begins
        after each of them came."""
        self.step = job.name
        same = self._take_all("sync") if job.name == "sync" else []
        jobs = [each for each in (job, *same) if each.future.set_running_or_notify_cancel()]
        if not jobs:
            return
        if job.recorded:
            self._performing.start(job)
        with self.store.unhurried() if job.name in STORING else nullcontext():  # others look at the lock file as well
            result, error = self._performing.attempt(job, self._own if job.name in OWN else self._tending.operate)
            if job.recorded:
                self._performing.record(job, error)
            for each in jobs:
                each.answer(result, error)

    def _take_all(self, name: str) -> list[Job]:
        with self._condition:
            same = [job for job in self._commands if job.name == name]
            self._commands = deque(job for job in self._commands if job.name != name)
        return same

    def _meanwhile(self) -> None:
        """While somebody else has the lock: whoever only wants to look does not wait for that."""
        for job in self._take_all("catch-up"):
            if job.future.set_running_or_notify_cancel():
                job.answer(self._own(job), None)

    def _perform_scheduled(self, job: Job) -> None:
        self.step = job.name
        if job.name == "rescan" or not self._tending.health.may_run(job.name, writes=job.name in WRITING_JOBS):
            if job.name == "rescan":
                self._rescan()
            return
        self._performing.start(job)
        _, error = self._performing.attempt(job, self._tending.operate)
        self._performing.record(job, error)

    def _own(self, job: Job) -> dict[str, Any]:
        if job.name == "sync":
            return self._sync(float(job.params.get("timeout_s", 60.0)))
        if job.name == "reindex":
            return self._tending.reindex(dry_run=bool(job.params.get("dry_run")))
        tending, memories = self._tending, self.memories
        looks = {"resume": tending.resume, "pause": tending.rest, "catch-up": memories.catch_up, "rescan": self._rescan}
        looks[job.name]()
        return {}

    def _rescan(self) -> None:
        self._look_again(self._tending.take_in(None, self._clock.monotonic()))

    def _sync(self, timeout_s: float) -> dict[str, Any]:
        with self._condition:
            self._settler.ready(float("inf"))  # the scan that begins now sees what these hints are about
        try:
            result, waiting = self._tending.sync(timeout_s)
        except BaseException:
            with self._condition:
                self._settler.touch_all(self._clock.monotonic())
            raise
        self._look_again(waiting)
        return result

    def run_now(self, name: str) -> Future[dict[str, Any]]:
        """`jobs run`: as the schedule would, but at once and by command."""
        require_job(self.store, name)
        return self.submit(Job(name, {"as_job": True}, recorded=True))

    def _refuse_all(self) -> None:
        with self._condition:
            self._stopping = True
            left, self._commands = list(self._commands), deque()
        for job in left:
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(_shutting_down())


def _shutting_down() -> ShuttingDownError:
    return ShuttingDownError("memoryd is shutting down", hint="try again when it has started anew")
