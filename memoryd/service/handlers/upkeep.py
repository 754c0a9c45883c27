"""Methods that run jobs in one root or all, and methods on the schedule and the journal."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from msgspec import UNSET, UnsetType, structs

from memoryd.control.methods.method_types import GatheredResult, Request, Result
from memoryd.control.methods.recovery import (
    BackupCreateResult,
    BackupRestoreRequest,
    BackupsResult,
    FileRestoreRequest,
    HistoryEntry,
    HistoryListRequest,
    HistoryListResult,
    UndoRequest,
)
from memoryd.control.methods.shared import ActionRow, ChangeResult, PlanRow, RootsRequest
from memoryd.control.methods.status import CheckResult, Counts, SyncedRoot, SyncResult
from memoryd.control.methods.upkeep import (
    ArchiveRequest,
    JobResult,
    JobRow,
    JobsListRequest,
    JobsResult,
    JobsRunRequest,
    JobsRunResult,
    LockClearRequest,
    LockClearResult,
    LockRow,
    LocksResult,
    PlannedResult,
    PlanResult,
    ReindexResult,
    RepairResult,
    RootPlan,
)
from memoryd.core.dates import iso
from memoryd.core.lock_staleness import CLEARED
from memoryd.disk.journal import Entry
from memoryd.engine.jobs import Job
from memoryd.engine.worker import Worker
from memoryd.errors import ConflictError, GuardError, NotFoundError, PausedError, RootMissingError, UsageError
from memoryd.service.daemon import Daemon
from memoryd.service.futures import gather, of_type
from memoryd.service.handlers.base import Handlers, Table
from memoryd.service.roots import Broken

FutureResult = Future[Result]
Merge = Callable[[Mapping[str, Result]], GatheredResult]
Errors = tuple[type[BaseException], ...]
NOT_SERVED = (PausedError, RootMissingError, GuardError)  # of roots that are paused, missing or suspect


def upkeep_handlers(daemon: Daemon) -> Table:
    """Return the handlers of methods on upkeep, backups, locks, the schedule and the journal."""
    methods = UpkeepHandlers(daemon)
    return {
        "sync": methods.job("sync", _merge_synced, excused=NOT_SERVED),
        "check": methods.job("check", _merge_checks),
        "plan": methods.plan,
        "archive": methods.archive,
        "repair": methods.job("repair", _merge_repairs),
        "dedupe": methods.job("dedupe", _merge_changes),
        "reindex": methods.job("reindex", _merge_reindexed),
        "backup.list": methods.job("backup.list", _merge_backups, in_any=True),
        "backup.create": methods.job("backup.create", _merge_created_backups),
        "backup.verify": methods.job("backup.verify", _merge_backups, in_any=True),
        "backup.restore": methods.restore,
        "file.restore": methods.restore_file,
        "lock.list": methods.job("lock.list", lambda results: LocksResult(locks=_locks(results))),
        "lock.clear": methods.clear_locks,
        "jobs.list": methods.list_jobs,
        "jobs.run": methods.run_job,
        "history.list": methods.history,
        "undo": methods.undo,
    }


class UpkeepHandlers(Handlers):
    """Methods that run jobs, and methods on the schedule and the journal."""

    def _submit(self, job: str, request: Request, root: str | None) -> dict[str, FutureResult]:
        futures = {worker.name: worker.submit(Job(job, request)) for worker in self._roots.named(root)}
        return futures | {each.name: _failed(each) for each in self._roots.broken(root)}

    def job(
        self, name: str, merge: Merge, *, excused: Errors = (BaseException,), in_any: bool = False
    ) -> Callable[[RootsRequest], FutureResult]:
        """Return a handler that runs a job in one root or all, and merges the results as `gather` does."""

        def run(request: RootsRequest) -> FutureResult:
            return gather(self._submit(name, request, request.root), merge, excused=excused, in_any=in_any)

        return run

    def plan(self, request: RootsRequest) -> FutureResult:
        """Return what scheduled upkeep would do."""

        workers = {worker.name: worker for worker in self._roots.named(request.root)}

        def merge(results: Mapping[str, Result]) -> PlanResult:  # runs on a worker's thread, which must not wait
            by_root = of_type(results, PlannedResult)
            return PlanResult(roots=[self._root_plan(workers[name], each.actions) for name, each in by_root.items()])

        return gather(self._submit("plan", request, request.root), merge)

    def _root_plan(self, worker: Worker, actions: list[ActionRow]) -> RootPlan:
        rows = self._roots.job_rows(self._roots.current(worker))
        due = {row.name: row.next_run for row in rows}
        return RootPlan(worker.name, actions, due, {row.name: row.waits for row in rows if row.waits} or UNSET)

    def archive(self, request: ArchiveRequest) -> FutureResult:
        """Archive the memories that are due, or those with the given ids in the roots that have them."""
        workers = self._roots.named(request.root)
        if not request.ids or len(workers) == 1:
            return gather(self._submit("archive", request, request.root), _merge_changes)

        def owners(found: list[Worker]) -> dict[Worker, list[str]]:
            ids: dict[Worker, list[str]] = {}
            flushed = self.flush_all(found)
            for identity in request.ids or ():
                ids.setdefault(self.owner("archive", identity, flushed), []).append(identity)
            return ids

        ids = self.read(request.root, owners)
        jobs = {each: Job("archive", structs.replace(request, ids=named)) for each, named in ids.items()}
        return gather({each.name: each.submit(job) for each, job in jobs.items()}, _merge_changes)

    def restore(self, request: BackupRestoreRequest) -> FutureResult:
        """Restore files of one root from a backup. Raises UsageError if there are several roots and none is named."""
        if len(self._roots.named(request.root)) > 1:
            raise UsageError("specify the root to restore", hint="as in `memoryd backup restore ROOT --file FILE`")
        return gather(self._submit("backup.restore", request, request.root), _merge_changes)

    def restore_file(self, request: FileRestoreRequest) -> FutureResult:
        """Restore a file by its path. Raises NotFoundError if it is in no root, and UsageError for a whole root."""
        root, file = self._locate(request.file)
        if root is None:
            roots = ", ".join(each.status.path for each in self._roots.all())
            raise NotFoundError(f"{file} is in no watched root", hint=f"the roots are: {roots}")
        if not file:
            raise UsageError(f"{request.file} is a root, not a file", hint=f"`memoryd backup restore {root} --at ID`")
        at, lost_only, dry_run = request.at, request.lost_only, request.dry_run
        return self.restore(BackupRestoreRequest(root=root, file=file, at=at, lost_only=lost_only, dry_run=dry_run))

    def _locate(self, path: str) -> tuple[str | None, str]:
        """Return the root of a path (None if it is in none) and the path relative to it. Links on the way to the root
        are followed."""
        path = os.path.abspath(path)
        resolved = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        places = {each.name: each.status.path for each in self._roots.all()}
        for name, directory in (places | {each.name: each.path for each in self._roots.broken(None)}).items():
            for base, full in ((directory, path), (os.path.realpath(directory), resolved)):
                if f"{full}/".startswith(f"{base}/"):
                    return name, full[len(base) + 1 :]
        return None, path

    def clear_locks(self, request: LockClearRequest) -> FutureResult:
        """Remove the locks of dead processes, or the lock at a given path."""

        def merge(results: Mapping[str, Result]) -> LockClearResult:
            locks = _locks(results)
            return LockClearResult(locks=locks, cleared=[each.path for each in locks if each.action in CLEARED])

        root, path = request.root, request.path
        if path is not None and root is None:
            root, _ = self._locate(path)
            if root is None and request.force and len(self._roots.all()) > 1:
                raise UsageError(f"specify the root of {path}", hint="`memoryd lock list` shows the locks of each root")
        return gather(self._submit("lock.clear", request, root), merge)

    def run_job(self, request: JobsRunRequest) -> FutureResult:
        """Run a scheduled job now, in every root that has it."""
        workers = self._roots.named(request.root)
        if request.root is None and any(worker.has_job(request.name) for worker in workers):
            workers = [worker for worker in workers if worker.has_job(request.name)]
        futures = {worker.name: worker.run_now(request.name) for worker in workers}

        def merge(results: Mapping[str, Result]) -> JobsRunResult:
            current = map(self._roots.current, workers)
            rows = [row for w in current for row in self._roots.job_rows(w) if row.name == request.name]
            return _jobs_run_result(rows, results)

        return gather(futures, merge)

    def undo(self, request: UndoRequest) -> FutureResult:
        """Undo a change. Raises NotFoundError, and ConflictError if several roots have the receipt."""
        receipt = request.receipt
        owners = self.read(request.root, lambda found: [worker for worker in found if _entry(worker, receipt)])
        if not owners:
            raise NotFoundError(f"no root has a change {receipt}", hint="`memoryd history` lists the receipts")
        if len(owners) > 1:
            names = ", ".join(worker.name for worker in owners)
            raise ConflictError(f"{receipt} is in more than one root: {names}", hint="name it with --root")
        return gather(self._submit("undo", request, owners[0].name), _merge_changes)

    # --- schedule and journal

    def list_jobs(self, request: JobsListRequest) -> JobsResult:
        """Return the schedule."""
        rows = [row for worker in self._roots.named(request.root) for row in self._roots.job_rows(worker)]
        return JobsResult(jobs=[row for row in rows if request.name in (None, row.name)])

    def history(self, request: HistoryListRequest) -> HistoryListResult:
        """Return the newest changes. Raises NotFoundError for an unknown receipt."""
        limit, wanted = request.limit or 50, request.receipt

        def entries_of(worker: Worker) -> list[Entry]:
            return worker.store.journal.entries(limit) if wanted is None else _entry(worker, wanted)

        entries = self.read(request.root, lambda found: [(each, entry) for each in found for entry in entries_of(each)])
        if wanted is not None and not entries:
            raise NotFoundError(f"no root has a change {wanted}", hint="`memoryd history` lists the receipts")
        entries.sort(key=lambda pair: pair[1].at, reverse=True)
        return HistoryListResult(entries=[history_entry(worker.name, entry) for worker, entry in entries[:limit]])


def _failed(root: Broken) -> FutureResult:
    answer: FutureResult = Future()
    answer.set_exception(root.error())
    return answer


def _entry(worker: Worker, receipt: str) -> list[Entry]:
    try:
        return [worker.store.journal.entry(receipt)]
    except NotFoundError:
        return []


def history_entry(root: str, entry: Entry) -> HistoryEntry:
    """Return a change as `history` shows it."""
    return HistoryEntry(
        root=root,
        receipt=entry.receipt,
        at=iso(entry.at),
        operation=entry.operation,
        by=entry.by,
        summary=entry.summary,
        undone=entry.state == "undone",
        state=entry.state,
        paths=list(entry.paths),
    )


def _locks(results: Mapping[str, Result]) -> list[LockRow]:
    """Return the locks of all roots, each with its root."""
    by_root = of_type(results, LocksResult)
    return [structs.replace(row, root=name) for name, each in by_root.items() for row in each.locks]


def _merge_synced(results: Mapping[str, Result]) -> SyncResult:
    return SyncResult(roots=of_type(results, SyncedRoot))


def _merge_checks(results: Mapping[str, Result]) -> CheckResult:
    by_root = of_type(results, CheckResult).values()
    counts = (sum(getattr(each.summary, name) for each in by_root) for name in Counts.__struct_fields__)
    return CheckResult(findings=[row for each in by_root for row in each.findings], summary=Counts(*counts))


def _merge_reindexed(results: Mapping[str, Result]) -> ReindexResult:
    by_root = of_type(results, ReindexResult)
    counts = [each.memories for each in by_root.values() if each.memories is not UNSET]
    names = {name: "" if len(by_root) == 1 else f"{name}/" for name in by_root}
    written = [f"{names[name]}{path}" for name, each in by_root.items() for path in each.written or ()]
    plan = _merge_changes(results).plan
    return ReindexResult(plan=plan, memories=sum(counts), written=written) if counts else ReindexResult(plan=plan)


def _merge_backups(results: Mapping[str, Result]) -> BackupsResult:
    return BackupsResult(backups=[row for each in of_type(results, BackupsResult).values() for row in each.backups])


def _merge_created_backups(results: Mapping[str, Result]) -> BackupCreateResult:
    by_root = of_type(results, BackupCreateResult)
    created = [structs.replace(row, root=name) for name, each in by_root.items() for row in each.created]
    return BackupCreateResult(backups=_merge_backups(results).backups, created=created)


def _merge_changes(results: Mapping[str, Result]) -> ChangeResult:
    """Merge the plans of several roots. `receipt` is set if exactly one root was changed, `receipts` if several were;
    other members are copied if the job ran in one root only."""
    changes = of_type(results, ChangeResult)
    plan = PlanRow(_actions(changes))
    single = len(changes) == 1
    merged = structs.replace(next(iter(changes.values())), plan=plan) if single else ChangeResult(plan=plan)
    merged.receipt, merged.receipts = _receipts(changes)
    return merged


def _merge_repairs(results: Mapping[str, Result]) -> RepairResult:
    """Merge the repairs of several roots, and list the changes of all."""
    merged, by_root = _merge_changes(results), of_type(results, RepairResult)
    rows = [structs.replace(row, root=name) for name, each in by_root.items() for row in each.changes or ()]
    return RepairResult(plan=merged.plan, receipt=merged.receipt, receipts=merged.receipts, changes=rows or UNSET)


def _jobs_run_result(jobs: list[JobRow], results: Mapping[str, Result]) -> JobsRunResult:
    changes = {name: each for name, each in results.items() if isinstance(each, ChangeResult)}
    members = JobResult.__struct_fields__  # those that the result of a job lacks stay UNSET
    by_root = {
        name: JobResult(**{member: getattr(each, member, UNSET) for member in members})
        for name, each in results.items()
    }
    merged = JobsRunResult(jobs=jobs, plan=PlanRow(_actions(changes)), results=by_root)
    merged.receipt, merged.receipts = _receipts(changes)
    if len(by_root) == 1:
        [only] = by_root.values()
        merged.waiting, merged.created, merged.backups = only.waiting, only.created, only.backups
        merged.locks, merged.forgotten_blobs = only.locks, only.forgotten_blobs
    return merged


def _actions(changes: Mapping[str, ChangeResult]) -> list[ActionRow]:
    """Return the actions of all plans, each with its root."""
    return [structs.replace(action, root=name) for name, each in changes.items() for action in each.plan.actions]


def _receipts(changes: Mapping[str, ChangeResult]) -> tuple[str | UnsetType, dict[str, str] | UnsetType]:
    """Return (receipt of the only change, receipts of several changes by root); UNSET for the one that is absent."""
    receipts = {name: each.receipt for name, each in changes.items() if each.receipt is not UNSET}
    return next(iter(receipts.values())) if len(receipts) == 1 else UNSET, receipts if len(receipts) > 1 else UNSET
