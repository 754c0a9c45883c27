"""Commands and scheduled jobs of one root, as it carries them out. `job_runner` records and reports them."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import UNSET, to_builtins

from memoryd.control.methods.method_types import Result
from memoryd.control.methods.recovery import BackupRestoreRequest
from memoryd.control.methods.shared import ChangeResult, PlanRow
from memoryd.control.methods.status import SyncedRoot, SyncRequest
from memoryd.control.methods.upkeep import LocksResult, ReindexResult
from memoryd.engine.backfill import VectorsDue
from memoryd.engine.inbox import HALF_WRITTEN_S, Inbox
from memoryd.engine.interfaces import Clock, Tell
from memoryd.engine.jobs import OPERATIONS, READ_ONLY, Job
from memoryd.engine.memories import STORING
from memoryd.engine.root import Root
from memoryd.errors import TimeoutExpiredError
from memoryd.log import get_logger
from memoryd.operations.index_ownership import reclaim
from memoryd.operations.root_check import create_root, remove_new_root

log = get_logger(__name__)

SYNC_S = 60.0  # default time limit of a sync


class Commands:
    """The commands of one root. Used by the thread that owns the root."""

    def __init__(self, root: Root, inbox: Inbox, clock: Clock, tell: Tell) -> None:
        self._root = root
        self._store = root.store
        self._inbox = inbox
        self._clock = clock
        self._tell = tell

    def run(self, job: Job) -> Result:
        """Carry out a command or a scheduled job, and return its result."""
        match job.name:
            case "sync":
                return self._sync(job.request_as(SyncRequest))
            case "reindex":
                return self.reindex(dry_run=job.dry_run)
            case "rescan":
                self.rescan()
            case "catch-up":
                self._root.memories.catch_up()
                self._root.make_deferred_vectors()
            case "pause":
                self._root.pause()
            case "resume":
                self._root.resume()
            case "confirm":
                self._root.confirm()
            case _:
                return self._operate(job)
        return Result()

    def rescan(self) -> None:
        """Scan everything."""
        began = self._clock.monotonic()
        self._inbox.defer(self._root.process(None, began), self._clock.monotonic() + HALF_WRITTEN_S)

    def reindex(self, *, dry_run: bool) -> ReindexResult:
        """Drop the catalogue, and build it and the index anew from the files."""
        self._root.health.require("reindex")
        if dry_run:
            return ReindexResult(plan=PlanRow([]))
        self._store.catalogue.clear()
        reclaim(self._store)
        self._root.read_anew()
        done = self._root.write_index(force=True, wait_s=self._store.policy.lock_wait_s)
        return ReindexResult(plan=PlanRow([]), memories=done.result.memories, written=list(done.written))

    # --- sync

    def _sync(self, request: SyncRequest) -> SyncedRoot:
        """Index what changed before this call: the paths that events named if all of these have arrived, or else what a
        scan finds. For the search alone, known paths do not have to wait for the index files."""
        began = self._clock.monotonic()
        if request.search_only and (pending := self.pending()) is not None:
            return self.sync_search(began, pending)
        in_order = self._root.health.watch.await_events()
        paths = self._inbox.take_hints()
        try:
            timeout_s = SYNC_S if request.timeout_ms is None else request.timeout_ms / 1000
            waiting = self.sync_files(timeout_s, paths if in_order else None)
        except BaseException:
            self._inbox.touch(None)
            raise
        self._inbox.defer(waiting, self._clock.monotonic() + HALF_WRITTEN_S)
        scanned = not in_order or paths is None
        return self._synced(began, scanned=scanned, reason=self._root.health.index_blocked_reason)

    def pending(self) -> frozenset[str] | None:
        """Return all paths that changed before this call; None if events do not name them all."""
        return self._inbox.pending() if self._root.health.watch.await_events() else None

    def sync_search(self, began: float, pending: Collection[str]) -> SyncedRoot:
        """Make what changed at these paths searchable; the index files follow."""
        if not self._root.is_served():
            self._root.look()
        self._root.health.require("sync")
        self._root.index_for_search(pending, self._clock.monotonic())
        return self._synced(began, scanned=False, reason="only search was asked for; the index files follow")

    def sync_files(self, timeout_s: float, paths: Collection[str] | None) -> tuple[str, ...]:
        """Read what changed (None: scan) and put the index on disk. Returns half-written files. Raises
        TimeoutExpiredError if that takes longer; never returns a stale ok."""
        root, began = self._root, self._clock.monotonic()
        root.look()
        root.health.require("sync")
        root.memories.write_reads()
        root.deadlines.detect = 0.0
        waiting = root.read(paths, began, VectorsDue.AFTER_SEARCH)
        root.health.require("sync")
        if self._store.layout is not None:
            self._force_index(began, timeout_s)
        root.backfill.notify(VectorsDue.BEFORE_SEARCH)
        return waiting or ()

    def _force_index(self, began: float, timeout_s: float) -> None:
        while True:
            left = timeout_s - (self._clock.monotonic() - began)
            done = self._root.write_index(force=True, wait_s=max(0.0, left))
            if done.delay_reason is None:
                return
            if self._clock.monotonic() - began >= timeout_s:
                raise TimeoutExpiredError(
                    f"root {self._store.name}: not in the index after {timeout_s:g} s: {done.delay_reason}",
                    hint="`memoryd lock list` shows who holds it",
                )

    def _synced(self, began: float, *, scanned: bool, reason: str | None) -> SyncedRoot:
        return SyncedRoot(
            generation=self._root.status.generation,
            waited_ms=round((self._clock.monotonic() - began) * 1000),
            scanned=scanned,
            written=not reason,
            reason=reason or UNSET,
        )

    # --- operations on the store

    def _operate(self, job: Job) -> Result:
        if job.name not in STORING or not self._root.is_served():
            self._root.look()  # a directory moved away since then would take the new memory with it
        health = self._root.health
        waits_for_first = health.check.state == "missing" and not health.paused
        if job.name == "memory.add" and waits_for_first and create_root(self._store):
            return self._first_memory(job)
        return self._perform(job)

    def _first_memory(self, job: Job) -> Result:
        """Store a memory in a root that was created for it; remove the root again if that fails."""
        log.info("root created", root=self._store.name, path=self._store.path)
        self._root.look()
        try:
            return self._perform(job)
        except BaseException:
            remove_new_root(self._store)
            self._root.look()
            raise

    def _perform(self, job: Job) -> Result:
        root = self._root
        root.health.require(job.name, dry_run=job.dry_run)
        if job.name in STORING:
            root.recover_once()
            return root.memories.perform(job)
        root.memories.catch_up()
        if job.name in ("check", "verify") or job.request_as(BackupRestoreRequest).lost_only:
            root.scan(verify=job.name == "verify")
            root.health.require(job.name)
        if job.name not in READ_ONLY:
            root.recover_once()
        result = OPERATIONS[job.name](self._store, job, self._clock.wall())
        if job.name.startswith("backup") and self._store.attached:
            root.note_backups()
        if isinstance(result, ChangeResult) and result.receipt is not UNSET:
            root.note_backups()
            self._report(job, result.receipt, result.plan)
            root.read_own_change()
        if job.name in ("locks", "lock.clear") and isinstance(result, LocksResult):
            root.health.note_cleared(result.locks)
        root.publish()
        return result

    def _report(self, job: Job, receipt: str, plan: PlanRow) -> None:
        """Report a change."""
        self._root.health.note_recovery()
        event = {"root": self._store.name, "operation": job.name, "receipt": receipt}
        log.info("changed", **event, by=job.by)
        self._tell("change", {**event, "plan": to_builtins(plan)})
