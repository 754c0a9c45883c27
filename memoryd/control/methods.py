"""The one table of control methods.

The server checks parameters by it, the command line and its help are built from it, and
`rpc.discover` prints it. Adding a command is adding a row here (and a view in cli/views.py when
the plain rendering of its result will not do). Pure data: imports nothing but the standard library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["read", "job", "control"]
Type = Literal["str", "int", "float", "bool", "list", "object"]

TOPICS = ("change", "root", "job", "finding", "health", "log")
LEVELS = ("debug", "info", "warning", "error")
JOB_NAMES = ("archive", "limits", "prune", "dedupe", "backup", "locks", "permissions", "verify", "rescan")
LAYOUTS = ("auto", "json-files", "markdown-topics", "user-document", "session-files", "jsonl-store")


@dataclass(frozen=True, slots=True)
class Param:
    """One named parameter. `cli` is "argument", an option flag such as "--file", or None for protocol
    only. `scale` turns the option's unit into the parameter's (seconds into ms); giving the option
    also sets the boolean parameters named in `implies`."""

    name: str
    type: Type
    help: str
    cli: str | None = None
    required: bool = False
    repeatable: bool = False
    choices: tuple[str, ...] = ()
    placeholder: str | None = None
    scale: int = 1
    implies: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    local_path: bool = False  # the client makes it absolute: the daemon has another working directory


@dataclass(frozen=True, slots=True)
class Field:
    """One documented member of a result."""

    name: str
    type: Type
    help: str


@dataclass(frozen=True, slots=True)
class Method:
    """One row. `kind`: "read" answers from what is published, "job" goes through a root's inbox,
    "control" concerns the daemon itself. `one_of`: at least one of these parameters must be given.
    `waits_s`: how long a client waits for the reply when the caller names no time of its own."""

    name: str
    command: tuple[str, ...] | None
    summary: str
    description: str
    example: str
    params: tuple[Param, ...]
    result: tuple[Field, ...]
    kind: Kind
    mutates: bool
    one_of: tuple[str, ...] = ()
    waits_s: float = 30

    def param(self, name: str) -> Param | None:
        return next((param for param in self.params if param.name == name), None)


F = Field
ROOT = Param("root", "str", "only this root (its name)", cli="argument")
ROOT_OPTION = Param("root", "str", "only this root (its name)", cli="--root", placeholder="ROOT")
DRY_RUN = Param("dry_run", "bool", "decide and show, change nothing", cli="--dry-run")
FILE = Param("file", "str", "only this memory file, relative to its root", cli="--file", placeholder="FILE")
AT = Param("at", "str", "this backup, by the id that `backup list` shows", cli="--at", placeholder="ID")
NAME = Param("name", "str", "the root's name", cli="argument")
PATH = Param(
    "path",
    "str",
    "the root's directory, instead of its name",
    cli="--path",
    placeholder="DIR",
    local_path=True,
)
PLAN = F("plan", "object", "actions[{kind, path, ids[], why}]")
RECEIPT = F("receipt", "str", "id of the change that was made; absent for a dry run or when nothing changed")
ROOTS = F("roots", "list", "the roots, each as in `status`")
BACKUPS = F("backups", "list", "[{id, root, file, taken, bytes, sha256, valid}]")
LOCKS = F("locks", "list", "[{root, path, pid?, age_s, state: held|stale|unprovable, evidence}]")
JOBS = F("jobs", "list", "[{name, root, schedule, last_run, last_result, next_run}]")

METHODS: tuple[Method, ...] = (
    Method(
        "ping",
        ("ping",),
        "Ask whether the daemon is alive.",
        "Answered at once, also while a root is busy.",
        "memoryd ping",
        (),
        (
            F("pid", "int", "process id of the daemon"),
            F("version", "str", "its version"),
            F("instance", "str", "a new id for every start"),
            F("uptime_s", "float", "seconds since it started"),
        ),
        "read",
        False,
        waits_s=10,
    ),
    Method(
        "status",
        ("status",),
        "Show how the daemon and its roots are.",
        "One look at every root: state and reasons, counts, freshness of the index, locks, limits, backups "
        "and the schedule. It reads what the workers last published and waits for nobody.",
        "memoryd status agents",
        (ROOT,),
        (
            F("state", "str", "the worst state of any root"),
            F("pid", "int", "process id of the daemon"),
            F("version", "str", "its version"),
            F("uptime_s", "float", "seconds since it started"),
            F(
                "roots",
                "list",
                "[{name, path, layout, mode, state, reasons[], memories, archived, files, ...}]",
            ),
            JOBS,
            F("resources", "object", "{rss_bytes, open_fds, threads, cpu_s}"),
        ),
        "read",
        False,
        waits_s=10,
    ),
    Method(
        "sync",
        ("sync",),
        "Wait until every change made so far is in the indices on disk.",
        "A barrier: whatever was written before the call is indexed when it returns. It fails with a "
        "timeout rather than answer with something stale.",
        "memoryd sync agents --timeout 5",
        (
            ROOT,
            Param(
                "timeout_ms",
                "int",
                "give up after this long (default 60 s)",
                cli="--timeout",
                placeholder="SECONDS",
                scale=1000,
                minimum=0,
                maximum=600_000,
            ),
        ),
        (F("roots", "object", "{NAME: {generation, waited_ms, written?}}"),),
        "job",
        False,
        waits_s=60,
    ),
    Method(
        "check",
        ("check",),
        "Check every memory file and list what is wrong.",
        "A file system check for memories: reads everything, changes nothing. Exits with 1 when there is an "
        "error or a warning. With --offline PATH it reads a directory itself and needs no daemon.",
        "memoryd check agents",
        (ROOT,),
        (
            F("findings", "list", "[{root, code, severity, path, line?, id?, message, fixable}]"),
            F("summary", "object", "{error, warning, info}"),
        ),
        "job",
        False,
        waits_s=600,
    ),
    Method(
        "plan",
        ("plan",),
        "Show what the scheduled upkeep would do now, and why.",
        "Memory by memory, with the rule that makes it due. Nothing is changed.",
        "memoryd plan agents",
        (ROOT,),
        (F("roots", "list", "[{name, actions[{kind, path, ids[], why}], due}]"),),
        "job",
        False,
        waits_s=600,
    ),
    Method(
        "archive",
        ("archive",),
        "Archive what is due now, or the memories named.",
        "Without ids: what the age rules make due. With ids: exactly those. A backup is taken first, and the "
        "receipt can be given to `undo`.",
        "memoryd archive --root agents --dry-run",
        (
            Param(
                "ids",
                "list",
                "ids of the memories to archive",
                cli="argument",
                repeatable=True,
                placeholder="ID",
            ),
            ROOT_OPTION,
            DRY_RUN,
        ),
        (PLAN, RECEIPT),
        "job",
        True,
        waits_s=600,
    ),
    Method(
        "reindex",
        ("reindex",),
        "Read every memory file again and write the index anew.",
        "The index is a cache; this makes it from the files alone. Needed only when something outside has "
        "tampered with memoryd's state.",
        "memoryd reindex agents",
        (ROOT, DRY_RUN),
        (PLAN, RECEIPT),
        "job",
        True,
        waits_s=600,
    ),
    Method(
        "backup.list",
        ("backup", "list"),
        "List the backups.",
        "Newest first for every file, with the id that --at takes.",
        "memoryd backup list agents --file learnings.jsonl",
        (ROOT, FILE, AT),
        (BACKUPS,),
        "read",
        False,
    ),
    Method(
        "backup.create",
        ("backup", "create"),
        "Take a backup now.",
        "A file equal to its newest valid backup is skipped; a file that reads worse never pushes a good "
        "backup out.",
        "memoryd backup create agents",
        (ROOT, FILE, DRY_RUN),
        (BACKUPS, PLAN, RECEIPT),
        "job",
        True,
        waits_s=600,
    ),
    Method(
        "backup.verify",
        ("backup", "verify"),
        "Read every backup and compare it with its hash.",
        "Exits with 1 when one is damaged.",
        "memoryd backup verify agents",
        (ROOT, FILE, AT),
        (BACKUPS,),
        "job",
        False,
        waits_s=600,
    ),
    Method(
        "backup.restore",
        ("backup", "restore"),
        "Bring a file back from a backup.",
        "Takes the newest valid backup unless --at names another. The present file is backed up first, so a "
        "restore can be undone. --dry-run shows the difference.",
        "memoryd backup restore agents --file learnings.jsonl --dry-run",
        (ROOT, FILE, AT, DRY_RUN),
        (PLAN, F("diff", "str", "unified difference, for a dry run"), RECEIPT),
        "job",
        True,
        waits_s=600,
    ),
    Method(
        "lock.list",
        ("lock", "list"),
        "Show the locks in the roots and who holds them.",
        "For each: holder, age, verdict and the evidence for it.",
        "memoryd lock list",
        (ROOT, Param("path", "str", "only this lock", cli="--path", placeholder="PATH")),
        (LOCKS,),
        "read",
        False,
    ),
    Method(
        "lock.clear",
        ("lock", "clear"),
        "Remove the locks whose holder is provably dead.",
        "--force PATH removes one named lock whose holder cannot be proved dead, after showing the evidence. "
        "A lock that somebody really holds is never removed.",
        "memoryd lock clear agents",
        (
            ROOT,
            Param(
                "path",
                "str",
                "remove this one lock although its holder cannot be proved dead",
                cli="--force",
                placeholder="PATH",
                implies=("force",),
            ),
            Param("force", "bool", "with `path`: remove it without proof of death"),
        ),
        (LOCKS, F("cleared", "list", "paths of the locks that were removed"), RECEIPT),
        "job",
        True,
        waits_s=60,
    ),
    Method(
        "jobs.list",
        ("jobs", "list"),
        "Show the schedule: last run, result and next run.",
        "Missed and failed runs stay visible here.",
        "memoryd jobs",
        (
            Param("name", "str", "only this job", cli="--name", choices=JOB_NAMES),
            ROOT,
        ),
        (JOBS,),
        "read",
        False,
    ),
    Method(
        "jobs.run",
        ("jobs", "run"),
        "Run one scheduled job now.",
        "The same work the schedule would start, with the same safety, and its result in the reply.",
        "memoryd jobs run archive agents",
        (
            Param("name", "str", "the job", cli="argument", required=True, choices=JOB_NAMES),
            ROOT,
        ),
        (JOBS,),
        "job",
        True,
        waits_s=600,
    ),
    Method(
        "history.list",
        ("history",),
        "Show the journal of what memoryd changed.",
        "Newest first. Every entry has the receipt that `undo` takes.",
        "memoryd history agents",
        (
            ROOT,
            Param("receipt", "str", "only this entry", cli="--receipt", placeholder="RECEIPT"),
            Param(
                "limit",
                "int",
                "at most so many entries",
                cli="--limit",
                placeholder="N",
                minimum=1,
                maximum=10_000,
            ),
        ),
        (F("entries", "list", "[{receipt, at, root, operation, by, summary, undone}]"),),
        "read",
        False,
    ),
    Method(
        "undo",
        ("undo",),
        "Take a change back.",
        "Byte for byte, or not at all: when the file has changed since, it says what changed.",
        "memoryd undo r-000012 --dry-run",
        (
            Param("receipt", "str", "the receipt, as `history` shows it", cli="argument", required=True),
            ROOT_OPTION,
            DRY_RUN,
        ),
        (PLAN, F("diff", "str", "unified difference, for a dry run"), RECEIPT),
        "job",
        True,
        waits_s=600,
    ),
    Method(
        "root.list",
        ("root", "list"),
        "List the roots.",
        "A root is one watched directory with one layout.",
        "memoryd root list",
        (NAME, PATH),
        (ROOTS,),
        "read",
        False,
    ),
    Method(
        "root.add",
        ("root", "add"),
        "Tend another directory from now on.",
        "Also written into the configuration file, whose comments stay as they are.",
        "memoryd root add ~/.claude/agents/memories --name agents --layout jsonl-store",
        (
            Param("path", "str", "the directory", cli="argument", required=True, local_path=True),
            Param("name", "str", "a short name (default: from the path)", cli="--name", placeholder="NAME"),
            Param("layout", "str", "its layout (default: detected)", cli="--layout", choices=LAYOUTS),
        ),
        (ROOTS,),
        "control",
        True,
        waits_s=60,
    ),
    Method(
        "root.remove",
        ("root", "remove"),
        "Stop tending a directory; its files stay.",
        "Also taken out of the configuration file, whose comments stay as they are.",
        "memoryd root remove agents",
        (NAME, PATH),
        (ROOTS,),
        "control",
        True,
        one_of=("name", "path"),
        waits_s=60,
    ),
    Method(
        "root.pause",
        ("root", "pause"),
        "Leave a directory alone until it is resumed.",
        "Nothing is read or written there meanwhile; a `sync` on it is refused.",
        "memoryd root pause agents",
        (NAME, PATH),
        (ROOTS,),
        "control",
        True,
        one_of=("name", "path"),
        waits_s=60,
    ),
    Method(
        "root.resume",
        ("root", "resume"),
        "Resume a paused root, or accept what a suspect one holds now.",
        "A root whose directory was replaced or emptied is suspect: nothing is written there until it is "
        "plainly the same again, or until this says that it is right as it is.",
        "memoryd root resume agents",
        (NAME, PATH),
        (ROOTS,),
        "control",
        True,
        one_of=("name", "path"),
        waits_s=60,
    ),
    Method(
        "subscribe",
        None,
        "Receive `event` notifications on this connection.",
        "Notifications are `event {topic, at, root?, ...}`. A slow reader loses the oldest events; the next "
        "one then carries `dropped`, their number.",
        '{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"topics":["change"]}}',
        (Param("topics", "list", "the topics (default: all)", choices=TOPICS),),
        (F("topics", "list", "every topic this connection now receives"),),
        "control",
        False,
    ),
    Method(
        "unsubscribe",
        None,
        "Stop receiving events of these topics.",
        "Without topics: of all.",
        '{"jsonrpc":"2.0","id":2,"method":"unsubscribe","params":{}}',
        (Param("topics", "list", "the topics (default: all)", choices=TOPICS),),
        (F("topics", "list", "every topic this connection still receives"),),
        "control",
        False,
    ),
    Method(
        "config.show",
        ("config", "show"),
        "Show the configuration in force and where each value comes from.",
        "Defaults, the file and the command line, already merged.",
        "memoryd config show",
        (),
        (
            F("path", "str", "the configuration file in use, if any"),
            F("daemon", "object", "{KEY: {value, origin}}"),
            F("roots", "object", "{NAME: {KEY: {value, origin}}}"),
        ),
        "read",
        False,
    ),
    Method(
        "config.validate",
        ("config", "validate"),
        "Check the configuration file without using it.",
        "Exits with 78 and names file, line and key when it cannot be used.",
        "memoryd config validate",
        (),
        (
            F("added", "list", "what a reload would add"),
            F("changed", "list", "what it would change"),
            F("removed", "list", "what it would remove"),
        ),
        "read",
        False,
    ),
    Method(
        "config.reload",
        ("reload",),
        "Read the configuration file again and apply it.",
        "As a whole or not at all: when anything in it is wrong, the running configuration stays.",
        "memoryd reload --dry-run",
        (DRY_RUN,),
        (
            F("added", "list", "what was added"),
            F("changed", "list", "what was changed"),
            F("removed", "list", "what was removed"),
        ),
        "control",
        True,
        waits_s=60,
    ),
    Method(
        "log.level",
        ("log-level",),
        "Set, or show, how much the daemon logs.",
        "Until the next start or reload; without a level it shows the present one.",
        "memoryd log-level debug",
        (Param("level", "str", "the level", cli="argument", choices=LEVELS),),
        (F("level", "str", "the level in force"),),
        "control",
        True,
    ),
    Method(
        "metrics",
        ("metrics",),
        "Print the daemon's metrics as Prometheus text.",
        "For a node exporter's text file directory, or to look at.",
        "memoryd metrics",
        (),
        (F("text", "str", "Prometheus text format 0.0.4"),),
        "read",
        False,
    ),
    Method(
        "shutdown",
        ("stop",),
        "Stop the daemon and wait until it is gone.",
        "Running work comes to a safe end first; it takes at most a few seconds.",
        "memoryd stop",
        (),
        (F("stopping", "bool", "true"), F("pid", "int", "process id of the daemon")),
        "control",
        True,
    ),
    Method(
        "rpc.discover",
        None,
        "Describe the protocol as an OpenRPC document.",
        "Made from the table that also builds the command line.",
        '{"jsonrpc":"2.0","id":1,"method":"rpc.discover"}',
        (),
        (F("openrpc", "str", "version of the OpenRPC format"), F("methods", "list", "the methods")),
        "read",
        False,
    ),
)

TABLE: dict[str, Method] = {method.name: method for method in METHODS}


def by_command(words: tuple[str, ...]) -> Method | None:
    """The method behind a command line such as ("backup", "list")."""
    return next((method for method in METHODS if method.command == words), None)


def groups() -> dict[str, tuple[Method, ...]]:
    """Commands of two words by their first: {"backup": (...), ...}."""
    found: dict[str, list[Method]] = {}
    for method in METHODS:
        if method.command and len(method.command) == 2:
            found.setdefault(method.command[0], []).append(method)
    return {word: tuple(methods) for word, methods in found.items()}


def example_params(method: Method) -> dict[str, Any]:
    """Required parameters with a plausible value, for documentation and tests."""
    return {p.name: (p.choices[0] if p.choices else p.name) for p in method.params if p.required}
