"""The worker of one root: one thread, one inbox, and the only writer of its root.

Watcher, timetable and control socket only put things into the inbox; the worker does them one at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from memoryd.control.methods.method_types import Result
from memoryd.control.methods.status import SyncedRoot, SyncRequest
from memoryd.engine.commands import Commands
from memoryd.engine.inbox import HALF_WRITTEN_S, Inbox, Pace, refuse
from memoryd.engine.interfaces import Change, Clock, Tell, Timetable, Watcher
from memoryd.engine.job_runner import JobRunner
from memoryd.engine.jobs import Job, require_job, runnable
from memoryd.engine.memories import STORING, Memories
from memoryd.engine.root import Root
from memoryd.engine.settler import Batch
from memoryd.engine.status import RootStatus
from memoryd.errors import MemorydError, ShuttingDownError
from memoryd.log import get_logger
from memoryd.operations.locks import is_lock_free
from memoryd.search.embedding.embedder import Embedder
from memoryd.store import Store

__all__ = ["Pace", "Worker"]

log = get_logger(__name__)

QUICK = frozenset({*STORING, "sync", "catch-up"})  # commands that hold up no search that waits for vectors


class Worker:
    """The worker of one root. `tell(topic, event)` publishes and must not block. `step` names the current
    work."""

    def __init__(
        self,
        store: Store,
        pace: Pace,
        clock: Clock,
        watcher: Watcher,
        timetable: Timetable,
        tell: Tell,
        *,
        embedder: Embedder | None = None,
    ) -> None:
        self.store = store
        self.name = store.name
        self._clock = clock
        store.idle_callback = self._while_locked
        store.urgent_callback = self._between_parts
        store.lock_watch.monotonic = store.progress.monotonic = clock.monotonic
        self.root = Root(store, clock, watcher, timetable, tell, embedder=embedder)
        self.inbox = Inbox(pace, clock, self.root.next_due, lambda: self.root.last_change)
        self.inbox.decline = self._decline
        self.commands = Commands(self.root, self.inbox, clock, tell)
        self.runner = JobRunner(store, clock, timetable, tell, self.commands.run, self.root.trouble)
        self._handing_over = threading.Lock()
        self._successor: Callable[[Job], object] | None = refuse  # takes what this worker does not begin
        self._waiting: list[Job] = []  # for a successor
        self._restarts = False
        self.ready = threading.Event()  # the first check is complete, whatever its result
        self.step = "starting"
        self._thread = threading.Thread(target=self._run, name=f"memoryd-{store.name}", daemon=True)

    # --- for any thread, never blocking

    def start(self) -> None:
        """Start the thread, which first checks the root. Raises RuntimeError if the system has no more threads: then
        the worker has ended, and what it was asked to do waits for `hand_over`."""
        try:
            self._thread.start()
        except RuntimeError:
            self.stop(0, restarts=True)
            self.inbox.decline_all()
            self.store.close()
            self.ready.set()
            raise

    def touch(self, path: str | None, kind: Change = Change.MODIFIED) -> bool:
        """Note a possible change of this path; None means anywhere. Returns True if a scan was due already."""
        if path is not None and not self.root.cares_for(path):
            return False
        if kind is Change.GONE:
            self.root.note_delete(path)
        appended = self.store.file_rules.append_only  # probably by whole lines
        alone = not self.store.index.foreign_versions  # else the other program writes the index first
        return self.inbox.touch(path, at_once=kind is Change.COMPLETE or appended, early=alone)

    def request_rescan(self, reason: str) -> None:
        """Scan everything next: events may have been lost."""
        log.info("rescan", root=self.name, reason=reason)
        self.root.health.doubts.append((self._clock.wall(), reason))
        self.inbox.touch(None)

    def look_soon(self) -> None:
        """Look at the path of the root next."""
        self.root.deadlines.look = 0.0
        self.inbox.recheck()

    def note_read(self, path: str, identity: str) -> None:
        """Note that a memory was read, to be counted in its file later."""
        self.memories.reads.note(path, identity)
        self.inbox.recheck()

    def submit(self, job: Job) -> Future[Result]:
        """Queue a command. The future holds its result or its error."""
        return self.inbox.submit(job)

    def enqueue_scheduled(self, name: str) -> None:
        """Queue a scheduled job; at most one of each name waits. A sweep where there is no lock needs no thread."""
        idle = name == "locks" and self.root.health.may_run(name) and is_lock_free(self.store)
        if idle and self.runner.note_idle_run(name):
            return
        self.inbox.enqueue_scheduled(name)

    def run_now(self, name: str) -> Future[Result]:
        """Run a job at once, as the schedule would."""
        require_job(self.store, name)
        return self.submit(Job(name, recorded=True))

    def has_job(self, name: str) -> bool:
        """True if the root's layout has this job."""
        return name in runnable(self.store)

    def pause(self) -> Future[Result]:
        """Pause the root before its next work begins, until it is resumed. The future is done when it rests."""
        self.root.health.paused = True
        return self.submit(Job("pause"))

    def resume(self) -> Future[Result]:
        """End a pause and accept a suspect root as it is. The future is done when the root has been looked at."""
        self.root.health.paused = False
        return self.submit(Job("resume"))

    def confirm(self) -> Future[Result]:
        """Confirm the recognised layout."""
        return self.submit(Job("confirm"))

    def stop(self, timeout_s: float, *, restarts: bool = False) -> bool:
        """Refuse what waits and let running work finish. False if it did not finish in time. If the root `restarts`,
        commands wait for `hand_over` instead."""
        if restarts:
            self._restarts, self._successor = True, None
        self.inbox.end()
        self.store.stopping.set()
        if self._thread.ident is None:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def hand_over(self, successor: Callable[[Job], object]) -> None:
        """Give the commands that this worker did not begin to `successor`, and those that still come, in their order.
        None is given while a lock is held: what waits for a refused command may submit another one."""
        while True:
            with self._handing_over:
                waiting, self._waiting = self._waiting, []
                if not waiting:
                    self._successor = successor
                    return
            for job in waiting:
                successor(job)

    def _decline(self, job: Job) -> None:
        with self._handing_over:
            successor = self._successor
            if successor is None:
                self._waiting.append(job)
        if successor is not None:
            successor(job)

    @property
    def status(self) -> RootStatus:
        """The last published status."""
        return self.root.status

    @property
    def memories(self) -> Memories:
        """Single memories of the root; `counts` is for any thread."""
        return self.root.memories

    def lag_ms(self, monotonic: float) -> int:
        """Return the age in milliseconds of the oldest change that is not indexed yet."""
        times = (self.inbox.pending_since(), self.root.health.unindexed_since, self.memories.behind)
        oldest = min((at for at in times if at is not None), default=monotonic)
        return max(0, round((monotonic - oldest) * 1000))

    def flush(self, *, vectors: bool) -> list[Future[Result]]:
        """Before the catalogue is read: return a future for memories that it still lacks (until then `lag_ms` reports
        them), and with `vectors` for those whose vectors a sync left for later, or none."""
        waits = self.memories.behind is not None or (vectors and self.root.backfill.deferred)
        return [self.submit(Job("catch-up"))] if waits else []

    @property
    def progress(self) -> tuple[int, str, int]:
        """A value that changes while the thread works, and every minute while it has nothing to do. For any thread."""
        return self.inbox.turns, self.step, self.store.progress.done

    @property
    def alive(self) -> bool:
        """True if the thread is running."""
        return self._thread.is_alive()

    @property
    def ends(self) -> bool:
        """True if the store is closed or about to be."""
        return self.inbox.ends

    # --- the thread

    def _run(self) -> None:
        try:
            self._guarded(self.root.begin)
            self._after()
            self.ready.set()
            while not self.inbox.ends:
                self.step = "idle"
                self._guarded(self._turn)
        finally:
            self.ready.set()
            self.inbox.decline_all()
            self.root.end()

    def _guarded(self, work: Callable[[], object]) -> None:
        """Keep the worker alive: one bad file or a failing disk must not end it."""
        try:
            work()
        except ShuttingDownError:
            return  # it waited for a lock when the end came
        except (OSError, MemorydError) as error:
            self.root.trouble(error)
        except Exception:
            log.exception("unexpected", root=self.name, step=self.step)
            self.root.trouble(None)

    def _turn(self) -> None:
        """Wait for the next work and do it."""
        turn = self.inbox.next()
        if turn is None:
            return
        if not turn.closed and (turn.command is None or turn.command.name not in QUICK):
            self.root.make_deferred_vectors()
        if turn.command is not None:
            self._perform(turn.command)
        elif turn.closed:
            self._begin_indexing()
            self._index_closed(turn.closed)
        elif turn.batch is not None:
            self._begin_indexing()
            self._index_batch(turn.batch)
        elif turn.scheduled is not None:
            self._perform_scheduled(turn.scheduled)
        self.step = "upkeep"
        self.root.on_timer()
        self._after()

    def _after(self) -> None:
        """Do what an answer did not have to wait for, and queue what else this turn leaves to do."""
        while self.root.unsettled:
            self.touch(self.root.unsettled.pop())
        if self.root.wants_limits:
            self.root.wants_limits = False
            if self.store.policy.schedule.get("limits") != "off":
                self.enqueue_scheduled("limits")
        if self.store.unsaved_versions.backup_wanted:
            self.store.unsaved_versions.backup_wanted = False
            self.enqueue_scheduled("backup")

    def _begin_indexing(self) -> None:
        """Look at the path first, so that no change is followed in a directory that was moved away."""
        self.step = "indexing"
        if self._clock.monotonic() >= self.root.deadlines.look:
            self.root.look()

    def _index_batch(self, batch: Batch) -> None:
        began = self._clock.monotonic()
        waiting = self.root.process(None if batch.everything else batch.paths, batch.oldest)
        self.inbox.note_duration(self._clock.monotonic() - began)
        self.inbox.defer(waiting, self._clock.monotonic() + HALF_WRITTEN_S)

    def _index_closed(self, paths: frozenset[str]) -> None:
        """Make closed files searchable at once. The batch that follows when the root has settled writes the index
        files, and looks again at what could not be parsed."""
        began = self._clock.monotonic()
        self.root.index_for_search(paths, began)
        self.inbox.note_closed_duration(self._clock.monotonic() - began)

    # --- running commands and jobs

    def _perform(self, job: Job) -> None:
        """Run a command and answer it, with its failure as well. Waiting syncs share one, which begins after each of
        them was submitted and does as much as any of them wants."""
        self.step = job.name
        same = self.inbox.take(_is_sync) if job.name == "sync" else []
        jobs = [each for each in (job, *same) if each.begin()]
        if not jobs:
            return
        job = next((each for each in same if not each.request_as(SyncRequest).search_only), job)
        perform = self.runner.recorded if job.recorded else self.runner.attempt
        try:
            result, error = perform(job)
        except (OSError, MemorydError) as refused:  # a journal error: reported to the caller, too
            result, error = Result(), self.root.trouble(refused)
        if self._restarts and isinstance(error, ShuttingDownError):  # nothing was done that cannot be repeated
            self.inbox.put_back(jobs)
            return
        for each in jobs:
            each.answer(result, error)

    def _while_locked(self) -> None:
        """While another program holds the lock, answer read-only commands."""
        for job in self.inbox.take(lambda job: job.name == "catch-up"):
            if job.begin():
                job.answer(self.commands.run(job), None)

    def _between_parts(self) -> None:
        """While a large index is rendered or written, make closed files searchable, and answer commands that want no
        more. Where the root is paused or no longer in place, that would end what runs or close the directory:
        everything waits."""
        if not self.root.is_served():
            return
        closed, syncs = self.inbox.take_closed(), self.inbox.take(_is_search_sync)
        if closed:
            self._index_closed(closed)
        if syncs:
            self._sync_between_parts(syncs)
        if self.ready.is_set():  # what waits for the first scan waits for its result as well
            self._while_locked()

    def _sync_between_parts(self, syncs: list[Job]) -> None:
        """Answer syncs for the search alone, or let them wait if only a scan will do."""
        done: SyncedRoot | None = None
        try:
            began, pending = self._clock.monotonic(), self.commands.pending()
            if pending is not None and self.root.is_served():
                done = self.commands.sync_search(began, pending)
        finally:
            if done is None:
                self.inbox.put_back(syncs)
        for job in syncs:
            if done is not None and job.begin():
                job.answer(done, None)

    def _perform_scheduled(self, job: Job) -> None:
        self.step = job.name
        if job.name == "rescan":
            self.commands.rescan()
        elif self.root.health.may_run(job.name):
            with self.store.unattended():
                self.runner.recorded(job)


def _is_sync(job: Job) -> bool:
    return job.name == "sync"


def _is_search_sync(job: Job) -> bool:
    return _is_sync(job) and job.request_as(SyncRequest).search_only
