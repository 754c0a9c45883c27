"""Every key of the configuration: the check of its value, and its meaning in one line.

One table serves checks, messages, `memoryd help keys` and the commented file that `init` writes. The keys of
a single layout are declared in that layout. Defaults are in `settings` (daemon, search) and `core.defaults` (roots).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from msgspec import Struct

from memoryd.config import checks
from memoryd.config.checks import Check
from memoryd.config.settings import EMBEDDERS, SECRETS
from memoryd.core.defaults import DAY, JOBS, Mode
from memoryd.core.query import Rerank
from memoryd.layouts.registry import LAYOUT_CHOICES, LAYOUTS

YEARS = 36_500  # a hundred years in days


class Key(Struct, frozen=True):
    """One key; `meaning` is a line for people."""

    check: Check
    meaning: str


DAEMON: Mapping[str, Key] = {
    "log_level": Key(checks.choice("debug", "info", "warning", "error"), "debug, info, warning or error"),
    "log_format": Key(checks.choice("auto", "console", "json"), "auto: console on a terminal, else JSON lines"),
    "settle_ms": Key(checks.integer(0, 60_000), "quiet time before index files are written in a burst, in ms"),
    "settle_cap_ms": Key(checks.integer(1, 600_000), "upper bound on that wait, counted from the first change"),
    "quiet_s": Key(checks.number(0, 3600), "quiet time that scheduled upkeep waits for, in seconds"),
    "quiet_cap_s": Key(checks.number(0, DAY), "upper bound on that wait, counted from when it is due"),
    "max_clients": Key(checks.integer(1, 4096), "connections to the control socket at one time"),
}

SEARCH: Mapping[str, Key] = {
    "embedder": Key(
        checks.choice(*EMBEDDERS),
        "source of embeddings: static (included), minilm (better, slow; extra `minilm`), endpoint (a server), or off",
    ),
    "rerank": Key(
        checks.choice("auto", *get_args(Rerank)),
        "rank the best 20 results of a search again: minilm (better, slower; extra `minilm`), auto (with embedder = "
        '"minilm" by the included vectors, in milliseconds), or off',
    ),
}

ENDPOINT: Mapping[str, Key] = {
    "url": Key(
        checks.url, "base URL of an OpenAI-compatible API (Ollama, vLLM, a cloud); receives the texts of memories"
    ),
    "model": Key(checks.words, "the embedding model of the server"),
    "key_env": Key(checks.words, "environment variable that holds the API key, if the server needs one"),
    "size": Key(checks.integer(1, 8192), "dimensions of its vectors"),
}


def _options() -> dict[str, Key]:
    """Return the keys that single layouts add, as the layouts declare them."""
    return {
        name: Key(
            checks.flag if option.kind == "flag" else checks.number(option.low, option.high),
            f"{layout.name}: {option.help}",
        )
        for layout in LAYOUTS.values()
        for name, option in layout.options.items()
    }


# The keys of [defaults], each of which is also allowed in a [[root]].
POLICY: Mapping[str, Key] = {
    "mode": Key(checks.choice(*Mode), "maintain, or observe: report the same, write nothing unattended"),
    "backups": Key(
        checks.integer(1, 1000), "how many backups of each file are kept, spread over hours, days and weeks"
    ),
    "archive_learnings_after_days": Key(checks.number(0, YEARS), "days without access before a learning is archived"),
    "archive_tasks_after_days": Key(checks.number(0, YEARS), "days after completion before a task is archived"),
    "keep_importance": Key(
        checks.choices("high", "medium", "low"), "learnings of these importances are never archived by age"
    ),
    "lock_stale_after_s": Key(checks.number(1, 30 * DAY), "age at which a lock of a dead process is stale, in seconds"),
    "lock_unreadable_after_s": Key(
        checks.number(1, 30 * DAY), "age at which an unheld lock that names no process is stale, in seconds"
    ),
    "lock_wait_s": Key(checks.number(0, 3600), "how long to wait for a lock that is held, in seconds"),
    "final_newline": Key(
        checks.choice("always", "keep", "never"), "always, keep or never; without one, appended lines can be joined"
    ),
    "fix_permissions": Key(checks.flag, "remove the access of other users to files and directories"),
    "secrets_second_opinion": Key(checks.flag, "also scan new memories with betterleaks (extra `secrets`)"),
    "ignore": Key(checks.globs, "files and directories to ignore: `*.draft.md`, `private/`, `notes/old/**`"),
    "newer_index": Key(
        checks.choice("read-only", "rebuild"),
        "what to do when a newer version wrote the index: read-only or rebuild",
    ),
    "timezone": Key(
        checks.timezone, "time zone of cron schedules (default UTC) and of new entries' dates (default local)"
    ),
    **_options(),
}

# By layout when it is not set, so it has no default of its own.
SECRETS_KEY = Key(
    checks.choice(*SECRETS), "what `add` refuses to store: seed, literal, shapes or off; default: by layout"
)

SCHEDULE: Mapping[str, Key] = {
    "archive": Key(checks.schedule("archive"), "archive old memories and completed tasks"),
    "limits": Key(checks.schedule("limits"), "enforce limits of size and count"),
    "prune": Key(checks.schedule("prune"), "move old entries of markdown topics into the archive"),
    "dedupe": Key(checks.schedule("dedupe"), "merge duplicates within a session; report others"),
    "backup": Key(checks.schedule("backup"), "back up what has changed"),
    "locks": Key(checks.schedule("locks"), "clear the locks of dead processes"),
    "permissions": Key(checks.schedule("permissions"), "remove the access of other users"),
    "verify": Key(checks.schedule("verify"), "check backups and index against the files"),
    "rescan": Key(
        checks.schedule("rescan"), "find changes that produced no event; adaptive: interval follows scan cost"
    ),
}
assert tuple(SCHEDULE) == JOBS, "each job has its line in the configuration"

ROOT: Mapping[str, Key] = {
    "name": Key(checks.words, "name in commands; default: the last parts of the path"),
    "path": Key(checks.words, "the directory; ~ is expanded"),
    "layout": Key(checks.choice(*LAYOUT_CHOICES), ", ".join(LAYOUT_CHOICES)),
    "project": Key(checks.words, "instead of path: the project that memory_path is relative to"),
    "memory_path": Key(checks.words, 'the directory within the project; default "memory"'),
}

MEMORY_CONFIGURATION: Mapping[str, Key] = {
    "external_path": Key(checks.words, "takes precedence; created when missing; relative to project unless absolute"),
}
