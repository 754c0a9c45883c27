"""Methods that report on the daemon and its roots, and those that add, remove and control roots."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from memoryd.control.methods.method_types import (
    GatheredResult,
    Method,
    Name,
    NoParameters,
    Option,
    Request,
    Result,
    member,
    parameter,
)
from memoryd.control.methods.shared import RootsRequest
from memoryd.control.methods.upkeep import JobRows, LockRow
from memoryd.layouts.registry import LAYOUT_CHOICES

# --- status and checks


class PingResult(Result, kw_only=True):
    """The daemon that answers."""

    pid: Annotated[int, member("process id of the daemon")]
    version: Annotated[str, member("its version")]
    instance: Annotated[str, member("a new id for every start")]
    uptime_s: Annotated[float, member("seconds since it started")]


class Counts(Struct):
    """Numbers of findings by severity."""

    error: int = 0
    warning: int = 0
    info: int = 0


class WatchRow(Struct):
    """The watch of a root: by events or scans, and the number of directories watched and wanted."""

    mode: str
    wanted: int
    held: int


class Rescan(Struct):
    """A scan made because events may have been lost; `at` is UTC with `Z`."""

    at: str
    reason: str


class LimitRow(Struct, kw_only=True):
    """The level of a file with a limit: `kind` is hard or soft, `level` ok, near or over; `hint` is advice."""

    file: str
    count: int
    max_count: int | None
    bytes: int
    max_bytes: int | None
    kind: str
    level: str
    hint: str | UnsetType = UNSET


class BackupCount(Struct):
    """The number of backups of a root, and the time of the newest (UTC with `Z`)."""

    count: int = 0
    newest: str | None = None


class ProgressRow(Struct):
    """Long work that goes on: its step, and how much of it is done, in `unit`; `rate` is per second, `left_s` the
    seconds it still takes at that rate. Both are null while it is too early to tell."""

    step: str
    unit: str
    done: int
    total: int
    percent: int
    elapsed_s: float
    rate: float | None
    left_s: float | None


class RootRow(Struct, kw_only=True):
    """One root. `lag_ms` is the age of the oldest change that is not in the index yet, `busy_with` the current step of
    work, `progress` how far it is if it takes long. In state scanning, counts are of what has been read so far."""

    name: str
    path: str
    layout: str | None
    mode: str
    state: str
    reasons: list[str]
    memories: int = 0
    archived: int = 0
    files: int = 0
    bytes: int = 0
    findings: Counts
    watch: WatchRow
    last_scan: str | None = None
    rescans: list[Rescan]
    generation: int = 0
    lag_ms: int = 0
    locks: list[LockRow]
    limits: list[LimitRow]
    backups: BackupCount
    busy_with: str | None = None
    progress: ProgressRow | None = None


class Resources(Struct):
    """The resources used by the daemon."""

    rss_bytes: int
    open_fds: int
    threads: int
    cpu_s: float
    wakeups: int


class StatusResult(Result, kw_only=True):
    """The daemon and its roots."""

    state: Annotated[str, member("the worst state of any root")]
    pid: Annotated[int, member("process id of the daemon")]
    version: Annotated[str, member("its version")]
    instance: Annotated[str, member("a new id for every start")]
    uptime_s: Annotated[float, member("seconds since it started")]
    roots: Annotated[
        list[RootRow], member("[{name, path, layout, mode, state, reasons[], memories, archived, files, ...}]")
    ]
    jobs: JobRows
    resources: Annotated[Resources, member("{rss_bytes, open_fds, threads, cpu_s, wakeups}")]
    notice: Annotated[str | None, member("what went wrong with the last reload")]


class SyncRequest(RootsRequest, kw_only=True):
    """The root to bring up to date, how far, and the time limit."""

    search_only: Annotated[
        bool, parameter("return once changes can be found; index files follow a moment later", Option("--search-only"))
    ] = False
    timeout_ms: Annotated[
        Annotated[int, Meta(ge=0, le=600_000)] | None,
        parameter("give up after this long (default: 60 s)", Option("--timeout", "SECONDS", scale=1000)),
    ] = None


class SyncedRoot(Result, kw_only=True):
    """One root that is up to date. `scanned`: the whole root was scanned, because events alone could not be trusted. If
    `written` is false, `reason` says why its index files were not written."""

    generation: int
    waited_ms: int
    scanned: bool
    written: bool
    reason: str | UnsetType = UNSET


class SyncResult(GatheredResult, kw_only=True):
    """The roots that are up to date."""

    roots: Annotated[dict[str, SyncedRoot], member("{NAME: {generation, waited_ms, scanned, written?}}")]


class FindingRow(Struct, kw_only=True):
    """One problem or remark about a file or a memory."""

    root: str
    code: str
    severity: str
    path: str
    message: str
    fixable: bool
    line: int | UnsetType = UNSET
    id: str | UnsetType = UNSET


class CheckResult(GatheredResult, kw_only=True):
    """All findings."""

    findings: Annotated[list[FindingRow], member("[{root, code, severity, path, line?, id?, message, fixable}]")]
    summary: Annotated[Counts, member("{error, warning, info}")]


STATUS: tuple[Method, ...] = (
    Method(
        "ping",
        ("ping",),
        "Check that the daemon answers.",
        "It answers at once, even while a root is busy.",
        "memoryd ping",
        NoParameters,
        PingResult,
        waits_s=10,
    ),
    Method(
        "status",
        ("status",),
        "Show the state of the daemon and its roots.",
        "One line for each root, with its worst reason; the whole state of a root that is named or the only one: "
        "reasons, counts, index, watch, locks, limits and backups. --json has all of this, and the schedule, for every "
        "root. It shows what the workers last published and never waits.",
        "memoryd status agents",
        RootsRequest,
        StatusResult,
        waits_s=10,
    ),
    Method(
        "sync",
        ("sync",),
        "Wait until every change made so far is in the indexes on disk.",
        "A barrier: whatever was written before the call is indexed when it returns. It fails with a "
        "timeout rather than report a stale index. Where all roots are meant, those that are paused, missing or "
        "suspect are named beside the others, and it exits with 1.",
        "memoryd sync agents --timeout 5",
        SyncRequest,
        SyncResult,
        kind="job",
        waits_s=60,
    ),
    Method(
        "check",
        ("check",),
        "Check every memory file and list what is wrong.",
        "Like fsck for memories: reads everything, changes nothing. Exits with 1 when there is an "
        "error or a warning. With --offline PATH it reads a directory itself and needs no daemon.",
        "memoryd check agents",
        RootsRequest,
        CheckResult,
        kind="job",
        waits_s=600,
    ),
)

# --- roots

RootName = Annotated[Name | None, parameter("the root's name", Option("argument"))]
RootPath = Annotated[
    Name | None,
    parameter("the root's directory, instead of its name", Option("--path", "DIR", local_path=True)),
]


class RootRequest(Request, kw_only=True):
    """One root, by its name or its directory."""

    name: RootName = None
    path: RootPath = None


class RootAddRequest(Request, kw_only=True):
    """A directory to add as a root."""

    path: Annotated[Name, parameter("the directory", Option("argument", local_path=True))]
    name: Annotated[Name | None, parameter("a short name (default: from the path)", Option("--name", "NAME"))] = None
    layout: Annotated[
        Name | None, parameter("its layout (default: detected)", Option("--layout", choices=LAYOUT_CHOICES))
    ] = None


class RootsResult(GatheredResult, kw_only=True):
    """The requested roots."""

    roots: Annotated[list[RootRow], member("the roots, each as in `status`")]


def _on_one_root(verb: str, summary: str, description: str) -> Method:
    """Return the row of a method that changes one root, by its name or its path."""
    return Method(
        f"root.{verb}",
        ("root", verb),
        summary,
        description,
        f"memoryd root {verb} agents",
        RootRequest,
        RootsResult,
        kind="control",
        mutates=True,
        one_of=("name", "path"),
        waits_s=60,
    )


ROOTS: tuple[Method, ...] = (
    Method(
        "root.list",
        ("root", "list"),
        "List the roots.",
        "A root is one watched directory with one layout.",
        "memoryd root list",
        RootRequest,
        RootsResult,
    ),
    Method(
        "root.add",
        ("root", "add"),
        "Add a directory as a root.",
        "It is also added to the configuration file, whose comments are kept.",
        "memoryd root add ~/.claude/agents/memories --layout jsonl-store",
        RootAddRequest,
        RootsResult,
        kind="control",
        mutates=True,
        waits_s=60,
    ),
    _on_one_root(
        "remove",
        "Remove a root; its files stay.",
        "It is also removed from the configuration file, whose comments are kept.",
    ),
    _on_one_root(
        "pause",
        "Pause a root until it is resumed.",
        "Nothing is read or written there meanwhile; a `sync` on it is refused.",
    ),
    _on_one_root(
        "resume",
        "Resume a paused root, or accept the current contents of a suspect root.",
        "A root whose directory was replaced or emptied is suspect: nothing is written there until its files are "
        "back, or until this command accepts its current contents.",
    ),
    _on_one_root(
        "confirm",
        "Let memoryd write in a root whose layout was detected.",
        "Until then it only observes: `status` shows how the layout was recognised, `plan` what would be done. A root "
        'with `mode = "observe"` stays as it is until that line is removed.',
    ),
)
