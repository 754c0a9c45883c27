"""Every key of the configuration: how it is read, and what it means in one line.

One table serves reading, messages and the commented file that `init` writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memoryd.config import values
from memoryd.config.schema import EMBEDDERS, LAYOUT_CHOICES, SECRETS
from memoryd.config.values import Reader
from memoryd.core.policy import JOBS, Mode

YEARS = 36_500  # a hundred, in days
DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Key:
    read: Reader
    meaning: str


DAEMON: Mapping[str, Key] = {
    "log_level": Key(values.choice("debug", "info", "warning", "error"), "debug, info, warning or error"),
    "log_format": Key(values.choice("auto", "console", "json"), "auto: console on a terminal, else JSON lines"),
    "settle_ms": Key(values.integer(0, 60_000), "quiet time before a change is indexed, in milliseconds"),
    "settle_cap_ms": Key(values.integer(1, 600_000), "but never later than this after the first change"),
    "quiet_s": Key(values.number(0, 3600), "quiet time that scheduled upkeep waits for, in seconds"),
    "quiet_cap_s": Key(values.number(0, DAY_S), "but never later than this after it is due"),
    "max_clients": Key(values.integer(1, 4096), "connections to the control socket at one time"),
}

SEARCH: Mapping[str, Key] = {
    "embedder": Key(
        values.choice(*EMBEDDERS),
        "what makes vectors: static (shipped), minilm (better, slow; extra `minilm`), endpoint (a server), or off",
    ),
}

ENDPOINT: Mapping[str, Key] = {
    "url": Key(values.url, "address of an API like OpenAI's (Ollama, vLLM, a cloud); texts of memories are sent there"),
    "model": Key(values.words, "its model for embeddings"),
    "key_env": Key(values.words, "the environment variable that holds its key, where it wants one"),
    "size": Key(values.integer(1, 8192), "how many numbers its vectors have"),
}

# The keys of [defaults], each of which may stand in a [[root]] too.
POLICY: Mapping[str, Key] = {
    "mode": Key(values.choice(*Mode), "maintain, or observe: report the same things, write nothing unattended"),
    "backups": Key(
        values.integer(1, 1000), "how many backups of each file are kept, spread over hours, days and weeks"
    ),
    "archive_learnings_after_days": Key(values.number(0, YEARS), "days without access"),
    "archive_tasks_after_days": Key(values.number(0, YEARS), "days after completion"),
    "keep_importance": Key(
        values.choices("high", "medium", "low"), "learnings of these importances are never archived by age"
    ),
    "lock_stale_after_s": Key(
        values.number(1, 30 * DAY_S), "a lock is left over when it is older and its process is dead"
    ),
    "lock_unreadable_after_s": Key(
        values.number(1, 30 * DAY_S), "the same for a lock that names no process and that nobody holds"
    ),
    "lock_wait_s": Key(values.number(0, 3600), "how long to wait for a lock that somebody holds"),
    "final_newline": Key(values.choice("always", "keep", "never"), "always, keep or never; without it lines get glued"),
    "fix_permissions": Key(values.flag, "close files and folders that are open to other users"),
    "archive_flag": Key(values.flag, "json-files: set archived on what is old, of no relevance and hardly used"),
    "archive_sessions": Key(values.flag, "session-files: move whole sessions to the archive by age"),
    "archive_sessions_after_days": Key(values.number(0, YEARS), "days after the last change of a session"),
    "sensitive_words": Key(values.flag, "markdown-topics: report also words that often stand beside secrets"),
    "secrets_second_opinion": Key(values.flag, "what is stored is held against betterleaks too (extra `secrets`)"),
    "score_keyword": Key(values.number(0, 1000), "markdown-topics: points for each word asked for that is found"),
    "score_context": Key(values.number(0, 1000), "points for one that is in the topic's path"),
    "score_tag": Key(values.number(0, 1000), "points for each tag that is asked for"),
    "score_recency": Key(values.number(0, 1000), "points for a memory of today"),
    "score_decay": Key(values.number(0, 100), "how fast these fall: by e to the minus this, each day"),
    "score_uses": Key(values.number(0, 1000), "points for every five uses"),
    "ignore": Key(values.globs, "files and folders that are left alone: `*.draft.md`, `private/`, `notes/old/**`"),
    "newer_index": Key(
        values.choice("read-only", "rebuild"),
        "an index of a newer version: leave the root as it is, or rebuild it",
    ),
    "timezone": Key(values.timezone, "for cron lines"),
}

# By layout when it is not set, so it has no default of its own.
SECRETS_KEY = Key(
    values.choice(*SECRETS), "what `add` refuses to store: seed, literal, shapes or off; default: by layout"
)

SCHEDULE: Mapping[str, Key] = {
    "archive": Key(values.schedule("archive"), "move what is old or done into the archive"),
    "limits": Key(values.schedule("limits"), "act on limits of size and count"),
    "prune": Key(values.schedule("prune"), "move old entries of markdown topics into the archive"),
    "dedupe": Key(values.schedule("dedupe"), "find duplicates"),
    "backup": Key(values.schedule("backup"), "back up what has changed"),
    "locks": Key(values.schedule("locks"), "clear the locks of dead processes"),
    "permissions": Key(values.schedule("permissions"), "close what is open to other users"),
    "verify": Key(values.schedule("verify"), "check backups and index against the files"),
    "rescan": Key(values.schedule("rescan"), "look for changes that no event told; adaptive: at its own pace"),
}
assert tuple(SCHEDULE) == JOBS, "each job has its line in the configuration"

ROOT: Mapping[str, Key] = {
    "name": Key(values.words, "how commands call it; default: the last parts of the path"),
    "path": Key(values.words, "the directory; ~ is expanded"),
    "layout": Key(values.choice(*LAYOUT_CHOICES), ", ".join(LAYOUT_CHOICES)),
    "project": Key(values.words, "instead of path: the project that memory_path is relative to"),
    "memory_path": Key(values.words, 'the directory within the project; default "memory"'),
}

MEMORY_CONFIGURATION: Mapping[str, Key] = {
    "external_path": Key(values.words, "wins when set; made when missing; relative means relative to project"),
}
