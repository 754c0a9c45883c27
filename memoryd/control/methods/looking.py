"""Methods that look: is the daemon there, how are its roots, what is wrong."""

from __future__ import annotations

from memoryd.control.methods.shared import JOBS, ROOT
from memoryd.control.methods.table import Field, Method, Param

METHODS: tuple[Method, ...] = (
    Method(
        "ping",
        ("ping",),
        "Ask whether the daemon is alive.",
        "Answered at once, also while a root is busy.",
        "memoryd ping",
        (),
        (
            Field("pid", "int", "process id of the daemon"),
            Field("version", "str", "its version"),
            Field("instance", "str", "a new id for every start"),
            Field("uptime_s", "float", "seconds since it started"),
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
            Field("state", "str", "the worst state of any root"),
            Field("pid", "int", "process id of the daemon"),
            Field("version", "str", "its version"),
            Field("uptime_s", "float", "seconds since it started"),
            Field(
                "roots",
                "list",
                "[{name, path, layout, mode, state, reasons[], memories, archived, files, ...}]",
            ),
            JOBS,
            Field("resources", "object", "{rss_bytes, open_fds, threads, cpu_s}"),
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
        (Field("roots", "object", "{NAME: {generation, waited_ms, written?}}"),),
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
            Field("findings", "list", "[{root, code, severity, path, line?, id?, message, fixable}]"),
            Field("summary", "object", "{error, warning, info}"),
        ),
        "job",
        False,
        waits_s=600,
    ),
)
