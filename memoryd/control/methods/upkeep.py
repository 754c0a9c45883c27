"""Methods of upkeep: the plan and its operations, the schedule, and left-over locks."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from memoryd.control.methods.method_types import (
    GatheredResult,
    JobName,
    Method,
    Name,
    Option,
    Request,
    Result,
    member,
    parameter,
)
from memoryd.control.methods.recovery import BackupRow, CreatedBackup
from memoryd.control.methods.shared import ActionRow, ChangeResult, DryRun, PlanRow, Root, RootOption, RootsRequest

# --- the plan and its operations


class RootPlan(Struct):
    """The plan of scheduled upkeep for one root; `due` is the next run of each job. `waits`: the jobs that run at once
    when writing is allowed, each with what forbids it."""

    name: str
    actions: list[ActionRow]
    due: dict[str, str | None]
    waits: dict[str, str] | UnsetType = UNSET


class PlannedResult(Result, kw_only=True):
    """The plan of one root, before it is combined with the others."""

    actions: list[ActionRow]


class PlanResult(GatheredResult, kw_only=True):
    """The plans of scheduled upkeep."""

    roots: Annotated[list[RootPlan], member("[{name, actions[{kind, path, ids[], why}], due}]")]


class UpkeepRequest(RootsRequest, kw_only=True):
    """The request of a job that has no parameters of its own."""

    dry_run: DryRun = False


class ArchiveRequest(Request, kw_only=True):
    """The memories to archive: those named, or those that are due."""

    ids: Annotated[list[str] | None, parameter("ids of the memories to archive", Option("argument", "ID"))] = None
    root: RootOption = None
    dry_run: DryRun = False


class RepairRequest(RootsRequest, kw_only=True):
    """The findings to repair."""

    codes: Annotated[
        list[str] | None,
        parameter(
            "only findings with this code, or rebuild-from-archive; repeatable; corrupt-file and emptied-file are "
            "repaired only if named here",
            Option("--code", "CODE"),
        ),
    ] = None
    dry_run: DryRun = False


class ChangeRow(Struct, kw_only=True):
    """One change that was made. `undoable` is false if no memory file was changed, as when a lock was cleared."""

    root: str | UnsetType = UNSET
    receipt: str
    operation: str
    undoable: bool


class RepairResult(ChangeResult, kw_only=True):
    """The repairs, and each change that they made: there may be several in one root."""

    changes: Annotated[
        list[ChangeRow] | UnsetType, member("every change that was made: [{root, receipt, operation, undoable}]")
    ] = UNSET


class DedupeRequest(RootsRequest, kw_only=True):
    """The similarity above which memories are merged."""

    threshold: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        parameter(
            "minimum similarity of duplicates, from 0 to 1 (default: 0.85; user-document: 0.95)",
            Option("--threshold", "X"),
        ),
    ] = None
    dry_run: DryRun = False


class ReindexResult(ChangeResult, kw_only=True):
    """The files read and written again."""

    memories: Annotated[int | UnsetType, member("how many memories there are, in all roots")] = UNSET
    written: Annotated[
        list[str] | UnsetType, member("the index files that changed; of several roots each with its root")
    ] = UNSET


UPKEEP: tuple[Method, ...] = (
    Method(
        "plan",
        ("plan",),
        "Show what the scheduled upkeep would do now, and why.",
        "Lists each memory with the rule that makes it due. Changes nothing.",
        "memoryd plan agents",
        RootsRequest,
        PlanResult,
        kind="job",
        waits_s=600,
    ),
    Method(
        "archive",
        ("archive",),
        "Archive what is due now, or the memories named.",
        "Without ids: what is due by the age rules. With ids: exactly those. A backup is taken first, and the "
        "receipt can be given to `undo`.",
        "memoryd archive --root agents --dry-run",
        ArchiveRequest,
        ChangeResult,
        kind="job",
        mutates=True,
        waits_s=600,
    ),
    Method(
        "repair",
        ("repair",),
        "Fix the findings marked fixable.",
        "Exact edits only: the original is kept in quarantine, the change can be undone, and the same repair is tried "
        "at most three times on the same bytes. Without --code every safe fix is made. corrupt-file and emptied-file "
        "restore what is missing from the newest backup, and are repaired only if named with --code. `--code "
        "rebuild-from-archive` is the last resort for a jsonl-store: it moves archived memories back into a lost file.",
        "memoryd repair agents --code joined-lines --dry-run",
        RepairRequest,
        RepairResult,
        kind="job",
        mutates=True,
        waits_s=600,
    ),
    Method(
        "dedupe",
        ("dedupe",),
        "Merge duplicates.",
        "By the rules of each layout; memories that are only similar are reported and kept.",
        "memoryd dedupe agents --dry-run",
        DedupeRequest,
        ChangeResult,
        kind="job",
        mutates=True,
        waits_s=600,
    ),
    Method(
        "reindex",
        ("reindex",),
        "Read every memory file again and rebuild the index.",
        "The index is a cache; this builds it from the files alone. Needed only after another program has "
        "changed memoryd's state.",
        "memoryd reindex agents",
        UpkeepRequest,
        ReindexResult,
        kind="job",
        mutates=True,
        waits_s=600,
    ),
)

# --- locks


class LockRow(Struct, kw_only=True):
    """One lock as found: `age_s` seconds old, `state` held, stale or unprovable. `action` is what was done to it."""

    root: str | UnsetType = UNSET
    path: str
    pid: int | UnsetType = UNSET
    age_s: float
    state: str
    evidence: str
    action: str | UnsetType = UNSET


class LockListRequest(RootsRequest, kw_only=True):
    """The locks to show."""

    path: Annotated[Name | None, parameter("only this lock", Option("--path", "PATH"))] = None


class LockClearRequest(RootsRequest, kw_only=True):
    """The locks to clear."""

    path: Annotated[
        Name | None,
        parameter(
            "only this lock; by force even if its holder cannot be proved dead",
            Option("--force", "PATH", implies=("force",)),
        ),
    ] = None
    force: Annotated[bool, parameter("with `path`: remove the lock without proof that its holder is dead")] = False


class LocksResult(GatheredResult, kw_only=True):
    """The existing locks."""

    locks: Annotated[list[LockRow], member("[{root, path, pid?, age_s, state: held|stale|unprovable, evidence}]")]


class LockClearResult(LocksResult, kw_only=True):
    """The locks before the call, and which of them were removed."""

    cleared: Annotated[list[str], member("paths of the locks that were removed")]


LOCKS: tuple[Method, ...] = (
    Method(
        "lock.list",
        ("lock", "list"),
        "Show the locks in the roots and who holds them.",
        "For each lock: holder, age, verdict and evidence. `memoryd lock` alone means `memoryd lock list`.",
        "memoryd lock list",
        LockListRequest,
        LocksResult,
    ),
    Method(
        "lock.clear",
        ("lock", "clear"),
        "Remove the locks whose holder is provably dead.",
        "--force PATH removes one named lock whose holder cannot be proved dead, after showing the evidence. "
        "A lock that is really held is never removed.",
        "memoryd lock clear agents",
        LockClearRequest,
        LockClearResult,
        kind="job",
        mutates=True,
        waits_s=60,
    ),
)

# --- the schedule


class JobRow(Struct, kw_only=True):
    """One scheduled job of a root; the times are UTC with `Z`. `waits`: what forbids the job to write; it runs at once
    when that is over."""

    name: str
    root: str
    schedule: str
    last_run: str | None
    last_result: str | None
    last_error: str | None
    next_run: str | None
    waits: str | UnsetType = UNSET
    runs: int
    failures: int
    missed: int


JobRows = Annotated[list[JobRow], member("[{name, root, schedule, last_run, last_result, next_run}]")]


class JobsListRequest(Request, kw_only=True):
    """The jobs to show."""

    name: Annotated[JobName | None, parameter("only this job", Option("--name"))] = None
    root: Root = None


class JobsRunRequest(Request, kw_only=True):
    """The job to run."""

    name: Annotated[JobName, parameter("the job", Option("argument"))]
    root: Root = None


class JobsResult(Result, kw_only=True):
    """The schedule."""

    jobs: JobRows


class JobResult(GatheredResult, kw_only=True):
    """The result of a job in one root."""

    plan: PlanRow | UnsetType = UNSET
    waiting: int | UnsetType = UNSET
    receipt: str | UnsetType = UNSET
    created: list[CreatedBackup] | UnsetType = UNSET
    backups: list[BackupRow] | UnsetType = UNSET
    locks: list[LockRow] | UnsetType = UNSET
    forgotten_blobs: int | UnsetType = UNSET


class JobsRunResult(JobResult, kw_only=True):
    """The results of a job by root. If it ran in a single root, its members are repeated at the top level."""

    jobs: JobRows
    receipts: Annotated[dict[str, str] | UnsetType, member("{NAME: receipt} where several roots were changed")] = UNSET
    results: Annotated[dict[str, JobResult], member("{NAME: what the job did there}")]


JOBS: tuple[Method, ...] = (
    Method(
        "jobs.list",
        ("jobs", "list"),
        "Show the schedule: last run, result and next run.",
        "Missed and failed runs are listed too. `memoryd jobs` alone means `memoryd jobs list`.",
        "memoryd jobs",
        JobsListRequest,
        JobsResult,
    ),
    Method(
        "jobs.run",
        ("jobs", "run"),
        "Run one scheduled job now.",
        "Runs exactly as scheduled and prints the result.",
        "memoryd jobs run archive agents",
        JobsRunRequest,
        JobsRunResult,
        kind="job",
        mutates=True,
        waits_s=600,
    ),
)
