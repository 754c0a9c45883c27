"""Jobs: what is asked of a root, as values, and the table of the operation behind each. `job_runner` runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from msgspec import UNSET, Struct, field

from memoryd.control.methods.method_types import NoParameters, Request, Result
from memoryd.control.methods.recovery import (
    BackupCreateRequest,
    BackupCreateResult,
    BackupListRequest,
    BackupRestoreRequest,
    BackupRow,
    BackupsResult,
    RestoreResult,
    UndoRequest,
)
from memoryd.control.methods.shared import ActionRow, ChangeResult
from memoryd.control.methods.status import CheckResult
from memoryd.control.methods.upkeep import (
    ArchiveRequest,
    ChangeRow,
    DedupeRequest,
    JobResult,
    LockClearRequest,
    LockListRequest,
    LocksResult,
    PlannedResult,
    RepairRequest,
    RepairResult,
    UpkeepRequest,
)
from memoryd.core.defaults import JOBS
from memoryd.core.lock_staleness import State
from memoryd.core.schedule import Off, parse_schedule
from memoryd.disk.journal import Entry
from memoryd.errors import NotFoundError, UsageError
from memoryd.operations.backup import create_backups, list_backups, prune_state
from memoryd.operations.check import check, count_findings, finding_row
from memoryd.operations.index_files import plan_index
from memoryd.operations.locks import clear_lock, is_lock, list_locks, lock_row, sweep_locks
from memoryd.operations.permissions import tighten
from memoryd.operations.repair import repair
from memoryd.operations.restore import restore
from memoryd.operations.restore_lost import restore_lost
from memoryd.operations.undo import undo
from memoryd.operations.upkeep import archive, dedupe, enforce_limits, plan_row, prune
from memoryd.store import Store
from memoryd.store.commit import Committed
from memoryd.store.layout_views import local_zone

# Destructive upkeep waits for a pause of the writers.
QUIET_JOBS = ("archive", "limits", "prune", "dedupe")
# Commands and jobs that only read: they may run on a root that must not be written to.
READ_ONLY = ("check", "plan", "backup.list", "backup.verify", "lock.list", "sync", "rescan", "verify", "memory.get")

R = TypeVar("R", bound=Request)


class Job(Struct):
    """Work of one root. `request` holds the parameters of a command; `by` is command or schedule; `due` (monotonic) is
    when a scheduled one fell due; `recorded` ones are written down among the job times."""

    name: str
    request: Request = field(default_factory=NoParameters)
    by: str = "command"
    due: float = 0.0
    recorded: bool = False
    future: Future[Result] = field(default_factory=Future)

    def begin(self) -> bool:
        """Mark the job as running; False if its caller has cancelled it. A started job may be started again."""
        return self.future.running() or self.future.set_running_or_notify_cancel()

    def refuse(self, error: BaseException) -> None:
        """Fail a job that has not started."""
        if self.begin():
            self.future.set_exception(error)

    def answer(self, result: Result, error: BaseException | None) -> None:
        """End it with its result, or with the error that stands in its place."""
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)

    @property
    def dry_run(self) -> bool:
        """True if nothing may be changed."""
        return bool(getattr(self.request, "dry_run", False))

    def request_as(self, kind: type[R]) -> R:
        """Return the request as its type; for a scheduled job, which has none, what is taken when nothing is given."""
        return self.request if isinstance(self.request, kind) else kind()


Operation = Callable[[Store, Job, float], Result]


def _changed(done: Committed) -> ChangeResult:
    return ChangeResult(
        plan=plan_row(done.plan),
        waiting=done.plan.waiting or UNSET,
        receipt=UNSET if done.receipt is None else done.receipt,
    )


def _archive(store: Store, job: Job, now: float) -> Result:
    request = job.request_as(ArchiveRequest)
    if not request.ids and "archive" not in runnable(store) and "prune" in runnable(store):
        return _prune(store, job, now)  # how memories leave that layout unasked
    return _changed(archive(store, now, by=job.by, ids=request.ids or None, dry_run=request.dry_run))


def _limits(store: Store, job: Job, now: float) -> Result:
    return _changed(enforce_limits(store, now, by=job.by, dry_run=job.dry_run))


def _prune(store: Store, job: Job, now: float) -> Result:
    return _changed(prune(store, now, by=job.by, dry_run=job.dry_run))


def _dedupe(store: Store, job: Job, now: float) -> Result:
    request = job.request_as(DedupeRequest)
    done = dedupe(store, now, by=job.by, threshold=request.threshold, dry_run=request.dry_run, as_job=job.recorded)
    return _changed(done)


def _repair(store: Store, job: Job, now: float) -> Result:
    request = job.request_as(RepairRequest)
    done = repair(store, now, codes=request.codes or None, dry_run=request.dry_run)
    changes = [_change_row(store.journal.entry(receipt)) for receipt in done.receipts]
    return RepairResult(plan=plan_row(done.plan), receipt=done.receipt or UNSET, changes=changes or UNSET)


def _change_row(entry: Entry) -> ChangeRow:
    return ChangeRow(receipt=entry.receipt, operation=entry.operation, undoable=bool(entry.steps))


def _permissions(store: Store, job: Job, now: float) -> Result:
    return _changed(tighten(store, now, by=job.by, dry_run=job.dry_run))


def _backup_create(store: Store, job: Job, now: float) -> Result:
    request = job.request_as(BackupCreateRequest)
    made = create_backups(store, now, file=request.file, dry_run=request.dry_run)
    return BackupCreateResult(created=made, backups=list_backups(store, now, file=request.file))


def _backup_job(store: Store, job: Job, now: float) -> Result:
    del job
    made, listed = create_backups(store, now), list_backups(store, now)
    return JobResult(created=made, backups=listed, forgotten_blobs=prune_state(store))


def _backup_list(store: Store, job: Job, now: float) -> Result:
    return BackupsResult(backups=_backups(store, job, now, verify=False))


def _backup_verify(store: Store, job: Job, now: float) -> Result:
    return BackupsResult(backups=_backups(store, job, now, verify=True))


def _backups(store: Store, job: Job, now: float, *, verify: bool) -> list[BackupRow]:
    request = job.request_as(BackupListRequest)
    found = list_backups(store, now, file=request.file, verify=verify)
    if request.at is None:
        return found
    named = [each for each in found if each.id == request.at or each.id.endswith(f".{request.at}")]
    if not named:
        hint = f"`memoryd backup list {store.name}` shows the ids"
        raise NotFoundError(f"root {store.name}: no backup has the id {request.at}", hint=hint)
    return named


def _verify(store: Store, job: Job, now: float) -> Result:
    return JobResult(backups=_backups(store, job, now, verify=True), forgotten_blobs=prune_state(store))


def _restore(store: Store, job: Job, now: float) -> Result:
    request = job.request_as(BackupRestoreRequest)
    operation = partial(restore_lost, zone=local_zone(now)) if request.lost_only else restore
    done, restored = operation(store, now, file=request.file, at=request.at, dry_run=request.dry_run)
    return RestoreResult(
        plan=plan_row(done.plan),
        waiting=done.plan.waiting or UNSET,
        receipt=UNSET if done.receipt is None else done.receipt,
        file=restored.file,
        files=restored.files,
        backup=restored.backup,
        lost=restored.difference.lost,
        gained=restored.difference.gained,
        diff=restored.difference.text if request.dry_run else UNSET,
    )


def _undo(store: Store, job: Job, now: float) -> Result:
    request = job.request_as(UndoRequest)
    return _changed(undo(store, request.receipt, now, dry_run=request.dry_run))


def _check(store: Store, job: Job, now: float) -> Result:
    del job
    found = check(store, now)
    return CheckResult(findings=[finding_row(store.name, each) for each in found], summary=count_findings(found))


def _locks(store: Store, job: Job, now: float) -> Result:
    swept = sweep_locks(store, now, by=job.by, watch=job.by == "schedule")
    return LocksResult(locks=[lock_row(report) for report in swept])


def _lock_list(store: Store, job: Job, now: float) -> Result:
    path, found = job.request_as(LockListRequest).path, list_locks(store, now)
    wanted = [report for report in found if path is None or is_lock(store, report.path, path)]
    return LocksResult(locks=[lock_row(report) for report in wanted])


def _lock_clear(store: Store, job: Job, now: float) -> Result:
    request = job.request_as(LockClearRequest)
    return LocksResult(
        locks=[lock_row(report) for report in clear_lock(store, now, path=request.path, force=request.force)]
    )


def _plan(store: Store, job: Job, now: float) -> Result:
    """Plan what each scheduled job would do now; nothing is changed and no lock is taken. A root that only observes is
    told also what else would be written as soon as that is allowed."""
    del job
    every: dict[str, tuple[Operation, Request]] = {
        "archive": (_archive, ArchiveRequest(dry_run=True)),
        "limits": (_limits, UpkeepRequest(dry_run=True)),
        "prune": (_prune, UpkeepRequest(dry_run=True)),
        "dedupe": (_dedupe, DedupeRequest(dry_run=True)),
        "permissions": (_permissions, UpkeepRequest(dry_run=True)),
    }
    waits = store.observes and store.foreign_reason is None
    actions = _first_writes(store, now) if waits else []
    for name, (operation, request) in every.items():
        if is_scheduled(store, name):
            planned = operation(store, Job(name, request, by="plan"), now)
            assert isinstance(planned, ChangeResult)
            for action in planned.plan.actions:
                action.job = name
            actions += planned.plan.actions
    return PlannedResult(actions=actions)


def _first_writes(store: Store, now: float) -> list[ActionRow]:
    """Return the index files, stale locks and backups that wait in a root that memoryd only observes."""
    index = plan_index(store, now)
    locks = list_locks(store, now) if is_scheduled(store, "locks") else []
    stale = [each for each in locks if each.state is State.STALE]
    copies = create_backups(store, now, dry_run=True) if is_scheduled(store, "backup") else []
    due = [each for each in copies if each.outcome == "due"]
    return [
        *(ActionRow(kind="write", path=path, ids=[], why="brings the index up to date") for path in index),
        *(
            ActionRow(kind="remove", path=each.path, ids=[], why=f"stale lock: {each.evidence}", job="locks")
            for each in stale
        ),
        *(ActionRow(kind="copy", path=each.file or ".", ids=[], why="not backed up yet", job="backup") for each in due),
    ]


OPERATIONS: Mapping[str, Operation] = {
    "archive": _archive,
    "limits": _limits,
    "prune": _prune,
    "dedupe": _dedupe,
    "repair": _repair,
    "permissions": _permissions,
    "backup": _backup_job,
    "backup.create": _backup_create,
    "backup.list": _backup_list,
    "backup.verify": _backup_verify,
    "backup.restore": _restore,
    "undo": _undo,
    "check": _check,
    "plan": _plan,
    "locks": _locks,
    "lock.list": _lock_list,
    "lock.clear": _lock_clear,
    "verify": _verify,
}


def runnable(store: Store) -> tuple[str, ...]:
    """Return the scheduled jobs that apply to the root's layout."""
    return store.layout.jobs if store.layout else ("rescan",)


def is_scheduled(store: Store, name: str) -> bool:
    """True if the root's layout has the job, and the schedule does not turn it off."""
    return name in runnable(store) and not isinstance(parse_schedule(store.policy.schedule.get(name, "off")), Off)


def require_job(store: Store, name: str) -> None:
    """Raise UsageError for a job that the root's layout does not have."""
    if name not in runnable(store):
        known = ", ".join(runnable(store))
        problem = "is not a job of its layout" if name in JOBS else "is not a job"
        raise UsageError(f"root {store.name}: {name} {problem}", hint=f"its jobs are {known}")
