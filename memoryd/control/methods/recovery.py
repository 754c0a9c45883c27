"""Methods of recovery: backups, and the journal of what memoryd changed."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from memoryd.control.methods.method_types import (
    GatheredResult,
    Method,
    Name,
    Option,
    Request,
    Result,
    member,
    parameter,
)
from memoryd.control.methods.shared import ChangeResult, DryRun, RootOption, RootsRequest

File = Annotated[Name | None, parameter("only this memory file, relative to its root", Option("--file", "FILE"))]

At = Annotated[Name | None, parameter("this backup, by the id that `backup list` shows", Option("--at", "ID"))]
LostOnly = Annotated[bool, parameter("only add the memories that the file has lost", Option("--lost-only"))]

# --- backups


class BackupRow(Struct, kw_only=True):
    """One backup of a file, or a snapshot of all files of a root (`file` is null, `files` their number). `reason`: why
    a file is in quarantine; `problem`: why a backup is not valid."""

    root: str
    id: str
    file: str | None
    files: int | UnsetType = UNSET
    taken: str | None
    bytes: int
    sha256: str | None
    valid: bool
    pinned: bool | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    problem: str | UnsetType = UNSET


class CreatedBackup(Struct, kw_only=True):
    """The outcome of a backup of one file: made, equal, empty, same memories, or due in a dry run."""

    root: str | UnsetType = UNSET
    file: str | None
    outcome: str
    id: str | UnsetType | None = UNSET
    files: int | UnsetType = UNSET


class BackupListRequest(RootsRequest, kw_only=True):
    """The backups to list or verify."""

    file: File = None
    at: At = None


class BackupCreateRequest(RootsRequest, kw_only=True):
    """The files to back up."""

    file: File = None
    dry_run: DryRun = False


class BackupRestoreRequest(BackupListRequest, kw_only=True):
    """The file to restore, and the backup."""

    lost_only: LostOnly = False
    dry_run: DryRun = False


class FileRestoreRequest(Request, kw_only=True):
    """The file to restore, by its path, and the backup."""

    file: Annotated[Name, parameter("path of the memory file", Option("argument", local_path=True))]
    at: At = None
    lost_only: LostOnly = False
    dry_run: DryRun = False


class BackupsResult(GatheredResult, kw_only=True):
    """The existing backups."""

    backups: Annotated[list[BackupRow], member("[{id, root, file, taken, bytes, sha256, valid}]")]


class BackupCreateResult(BackupsResult, kw_only=True):
    """The existing backups, and the outcome for each file."""

    created: Annotated[list[CreatedBackup], member("[{root, file, outcome, id}]: what became of each file")]


class RestoreResult(ChangeResult, kw_only=True):
    """The restored files, or in a dry run those that would be."""

    file: Annotated[str | UnsetType, member("the file, or the first of several")] = UNSET
    files: Annotated[int | UnsetType, member("how many files")] = UNSET
    backup: Annotated[str | UnsetType, member("id of the backup")] = UNSET
    lost: Annotated[int | UnsetType, member("lines only in the live files")] = UNSET
    gained: Annotated[int | UnsetType, member("lines only in the backup")] = UNSET
    diff: Annotated[str | UnsetType, member("unified difference, for a dry run")] = UNSET


BACKUPS: tuple[Method, ...] = (
    Method(
        "backup.list",
        ("backup", "list"),
        "List the backups.",
        "Newest first for every file, with the id that --at takes.",
        "memoryd backup list agents --file learnings.jsonl",
        BackupListRequest,
        BackupsResult,
    ),
    Method(
        "backup.create",
        ("backup", "create"),
        "Take a backup now.",
        "A file equal to its newest valid backup is skipped; a less readable file never replaces a good backup.",
        "memoryd backup create agents",
        BackupCreateRequest,
        BackupCreateResult,
        kind="job",
        mutates=True,
        waits_s=600,
    ),
    Method(
        "backup.verify",
        ("backup", "verify"),
        "Read every backup and compare it with its hash.",
        "Exits with 1 when one is damaged.",
        "memoryd backup verify agents",
        BackupListRequest,
        BackupsResult,
        kind="job",
        waits_s=600,
    ),
    Method(
        "backup.restore",
        ("backup", "restore"),
        "Restore a file from a backup.",
        "Takes the newest valid backup that differs from the file and holds no fewer memories (after a loss, no fewer "
        "than before it), else the newest one that differs and holds any; --at names another. The current file is "
        "backed up first, so a restore can be undone. --dry-run shows the difference.",
        "memoryd backup restore agents --file learnings.jsonl --dry-run",
        BackupRestoreRequest,
        RestoreResult,
        kind="job",
        mutates=True,
        waits_s=600,
    ),
    Method(
        "file.restore",
        ("restore",),
        "Restore a file, or only what it has lost, from a backup.",
        "FILE may be in any watched root. The whole file is restored as by `backup restore`. With --lost-only nothing "
        "in the file changes: memories that a backup has and the root has not, neither in a file nor in the archive "
        "or the trash, are added byte for byte. They are taken from the newest backup that has any (after a reported "
        "loss, of those with no fewer memories than before it); --at names another. What memoryd itself removed "
        "(archive, limits, prune, dedupe, forget, undo) stays out, as far back as `memoryd history` reaches: the plan "
        "says what and why. A memory whose id is still there counts as changed, not as lost; one that an agent "
        "deleted on purpose, or stored under another id, as lost. A session or user document that cannot be read can "
        "only be restored whole; where a file of json-files holds another memory now, the lost one gets a new file.",
        "memoryd restore ~/memories/learnings.jsonl --lost-only --dry-run",
        FileRestoreRequest,
        RestoreResult,
        kind="job",
        mutates=True,
        waits_s=600,
    ),
)

# --- history and undo


class HistoryEntry(Struct, kw_only=True):
    """One change that memoryd made; `at` is UTC with `Z`."""

    root: str
    receipt: str
    at: str
    operation: str
    by: str
    summary: str
    undone: bool
    state: str
    paths: list[str]


class HistoryListRequest(RootsRequest, kw_only=True):
    """The journal entries to show."""

    receipt: Annotated[Name | None, parameter("only this entry", Option("--receipt", "RECEIPT"))] = None
    limit: Annotated[
        Annotated[int, Meta(ge=1, le=10_000)] | None,
        parameter("maximum number of entries (default: 50)", Option("--limit", "N")),
    ] = None


class HistoryListResult(Result, kw_only=True):
    """The newest changes."""

    entries: Annotated[list[HistoryEntry], member("[{receipt, at, root, operation, by, summary, undone}]")]


class UndoRequest(Request, kw_only=True):
    """The change to undo."""

    receipt: Annotated[Name, parameter("the receipt, as `history` shows it", Option("argument"))]
    root: RootOption = None
    dry_run: DryRun = False


HISTORY: tuple[Method, ...] = (
    Method(
        "history.list",
        ("history",),
        "Show the journal of what memoryd changed.",
        "Newest first. Every entry has the receipt that `undo` takes.",
        "memoryd history agents",
        HistoryListRequest,
        HistoryListResult,
    ),
    Method(
        "undo",
        ("undo",),
        "Undo a change.",
        "Restores byte for byte, or memory by memory if the file has changed since. Refused if one of these memories "
        "has changed.",
        "memoryd undo 20261123-en4s6yt --dry-run",
        UndoRequest,
        ChangeResult,
        kind="job",
        mutates=True,
        waits_s=600,
    ),
)
