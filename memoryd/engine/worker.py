"""One root, one thread, one inbox: the only writer of its root.

Watcher, timetable and control socket only put things into the inbox; here they become work, one thing at a time. A
memory that is to be stored may be stored by the thread that brings it, which then has the turn.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from functools import partial
from typing import Any

from memoryd.engine.clock import Clock
from memoryd.engine.hints import Hints, Tell
from memoryd.engine.inbox import Inbox, Pace
from memoryd.engine.jobs import OWN, WRITING_JOBS, Job, require_job
from memoryd.engine.memories import STORING, Memories
from memoryd.engine.performing import Performing
from memoryd.engine.settle import Batch
from memoryd.engine.status import RootStatus
from memoryd.engine.tending import Tending
from memoryd.errors import MemorydError, ShuttingDownError
from memoryd.log import get_logger
from memoryd.search.embedding.embedder import Embedder
from memoryd.store import Store
from memoryd.store.lockable import WouldWaitError

__all__ = ["Pace", "Worker"]

log = get_logger(__name__)


class Worker:
    """`tell(topic, event)` publishes; it must not block."""

    def __init__(
        self, store: Store, pace: Pace, clock: Clock, hints: Hints, tell: Tell, embedder: Embedder | None = None
    ) -> None:
        self.store = store
        self.name = store.name
        self._clock = clock
        store.meanwhile = self._meanwhile
        self._tending = Tending(store, clock, hints, tell, embedder)
        self._performing = Performing(store, clock, hints, tell, self._tending.trouble)
        self._inbox = Inbox(pace, clock, self._tending.next_due, lambda: self._tending.reading.last_change)
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
        self._inbox.touch(path)

    def doubt(self, reason: str) -> None:
        """Events may have been lost: the next thing is a full scan."""
        log.info("rescan", root=self.name, reason=reason)
        self._tending.health.doubts.append((self._clock.wall(), reason))
        self._inbox.touch(None)

    def submit(self, job: Job) -> Future[dict[str, Any]]:
        return self._inbox.submit(job)

    def fall_due(self, name: str) -> None:
        """A scheduled job: one of each name waits at a time."""
        self._inbox.fall_due(name)

    def run_now(self, name: str) -> Future[dict[str, Any]]:
        """`jobs run`: as the schedule would, but at once and by command."""
        require_job(self.store, name)
        return self.submit(Job(name, {"as_job": True}, recorded=True))

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

    def confirm(self) -> Future[dict[str, Any]]:
        """The layout that was recognised is the right one."""
        return self.submit(Job("confirm"))

    def stop(self, timeout_s: float) -> bool:
        """Refuse what waits, let what runs come to its end; False when it did not in time."""
        self._inbox.end()
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
        times = (self._inbox.pending_since(), self._tending.health.unindexed_since, self.memories.behind)
        oldest = min((at for at in times if at is not None), default=monotonic)
        return max(0, round((monotonic - oldest) * 1000))

    def catch_up(self) -> list[Future[dict[str, Any]]]:
        """Before somebody looks into the catalogue: none where what was stored through memoryd is there, else when it
        will be. Until then `lag_ms` tells it."""
        return [self.submit(Job("catch-up"))] if self.memories.behind is not None else []

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def ends(self) -> bool:
        """Its store is closed, or soon will be."""
        return self._inbox.ends

    # --- a thread that borrows the turn

    def store_now(self, job: Job) -> None:
        """Done before this returns, where the worker rests and no other program has the lock: a change of threads costs
        half as much as storing. Else as `submit`."""
        if not self._inbox.borrow():
            self.submit(job)
            return
        try:
            self._guarded(partial(self._store_at_once, job))
            self.step = "idle"
            self._after()
        finally:
            self.progress += 1
            self._inbox.give_back()

    def _store_at_once(self, job: Job) -> None:
        try:
            with self.store.at_once():
                self._perform(job)
        except WouldWaitError:
            self._inbox.submit(job, first=True)

    # --- the thread

    def _run(self) -> None:
        try:
            self._guarded(self._tending.begin)
            self.ready.set()
            while not self._inbox.ends:
                self._guarded(self._turn)
                self.progress += 1
        finally:
            self.ready.set()
            self._inbox.refuse_all()
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
        turn = self._inbox.next()
        if turn is None:
            return
        if turn.command is not None:
            self._perform(turn.command)
        elif turn.batch is not None:
            self._take_in(turn.batch)
        elif turn.scheduled is not None:
            self._perform_scheduled(turn.scheduled)
        self.step = "idle"
        self._tending.tick()
        self._after()

    def _after(self) -> None:
        """What the work of a turn leaves to do, for a later one."""
        while self._tending.unsettled:
            self.touch(self._tending.unsettled.pop(), deleted=False)
        if self._tending.reading.wants_limits:
            self._tending.reading.wants_limits = False
            if self.store.policy.schedule.get("limits") != "off":
                self.fall_due("limits")

    def _take_in(self, batch: Batch) -> None:
        self.step = "indexing"
        began = self._clock.monotonic()
        waiting = self._tending.reading.take_in(None if batch.everything else batch.paths, batch.oldest)
        self._inbox.took(self._clock.monotonic() - began)
        self._look_again(waiting)

    def _look_again(self, waiting: tuple[str, ...]) -> None:
        """Half-written files are looked at again when their writer has had two seconds."""
        self._inbox.defer(waiting, self._clock.monotonic() + 2.05)

    # --- performing

    def _perform(self, job: Job) -> None:
        """A command: its outcome is the reply, its failure as well. Syncs that wait share one scan: it begins
        after each of them came."""
        self.step = job.name
        same = self._inbox.take_all("sync") if job.name == "sync" else []
        jobs = [each for each in (job, *same) if each.begin()]
        if not jobs:
            return
        work = self._own if job.name in OWN else self._tending.operate
        perform = self._performing.recorded if job.recorded else self._performing.attempt
        with self.store.unhurried() if job.name in STORING else nullcontext():  # others look at the lock file as well
            try:
                result, error = perform(job, work)
            except (OSError, sqlite3.Error, MemorydError) as refused:  # by the journal: whoever asked is told that, too
                result, error = {}, self._tending.trouble(refused)
            for each in jobs:
                each.answer(result, error)

    def _meanwhile(self) -> None:
        """While somebody else has the lock: whoever only wants to look does not wait for that."""
        for job in self._inbox.take_all("catch-up"):
            if job.begin():
                job.answer(self._own(job), None)

    def _perform_scheduled(self, job: Job) -> None:
        self.step = job.name
        if job.name == "rescan" or not self._tending.health.may_run(job.name, writes=job.name in WRITING_JOBS):
            if job.name == "rescan":
                self._rescan()
            return
        self._performing.recorded(job, self._tending.operate)

    def _own(self, job: Job) -> dict[str, Any]:
        if job.name == "sync":
            return self._sync(float(job.params.get("timeout_s", 60.0)))
        if job.name == "reindex":
            return self._tending.reading.reindex(dry_run=bool(job.params.get("dry_run")))
        tending, memories = self._tending, self.memories
        looks = {
            "confirm": tending.confirm,
            "resume": tending.resume,
            "pause": tending.rest,
            "catch-up": memories.catch_up,
            "rescan": self._rescan,
        }
        looks[job.name]()
        return {}

    def _rescan(self) -> None:
        self._look_again(self._tending.reading.take_in(None, self._clock.monotonic()))

    def _sync(self, timeout_s: float) -> dict[str, Any]:
        self._inbox.forget_hints()
        try:
            result, waiting = self._tending.reading.sync(timeout_s)
        except BaseException:
            self._inbox.touch(None)
            raise
        self._look_again(waiting)
        return result
