"""Policy: the settings of one root and their defaults (ages, counts, sizes, schedules). Values only.

Their names and checks in the configuration file are in `config.keys`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from memoryd.core.spans import sha256

KB = 1024
MB = 1024 * 1024
DAY = 86_400


class Mode(StrEnum):
    """The permission of memoryd to write in a root by itself."""

    MAINTAIN = "maintain"  # keep the index current, run jobs by schedule
    OBSERVE = "observe"  # report only; write nothing unless a command asks for it


class LimitKind(StrEnum):
    """The effect of a limit: HARD refuses more memories, SOFT moves the oldest to the archive or is only reported."""

    HARD = "hard"
    SOFT = "soft"


class Limit(Struct, frozen=True):
    """A limit per file: size in bytes and number of memories, each None if unlimited. Seed 004, "Storage Limits"."""

    kind: LimitKind
    max_bytes: int | None
    max_count: int | None


JOBS = ("archive", "limits", "prune", "dedupe", "backup", "locks", "permissions", "verify", "rescan")

DEFAULT_SCHEDULE: Mapping[str, str] = {
    "archive": "every 6h",
    "limits": "every 1h",
    "prune": "every 6h",
    "dedupe": "every 6h",
    "backup": "every 1d",
    "locks": "every 10s",
    "permissions": "every 1d",
    "verify": "every 7d",
    "rescan": "adaptive",
}

# Settings that do not affect which memories are due: a run with other values of these still counts.
_NO_RULES = re.compile(
    r"schedule|timezone|backups|final_newline|fix_permissions|newer_index|(score|lock|secrets|sensitive)_?.*"
)


class Policy(Struct, frozen=True):
    """The settings of one root. `limits` overrides limits of the layout by file name; None removes a limit."""

    mode: Mode = Mode.MAINTAIN
    backups: int = 5
    archive_learnings_after_days: float = 90
    archive_tasks_after_days: float = 30
    keep_importance: tuple[str, ...] = ()
    archive_flag: bool = False  # json-files: set `archived` on memories that are old, irrelevant and rarely used
    archive_sessions: bool = False  # session-files: move whole sessions to the archive by age
    archive_sessions_after_days: float = 60
    sensitive_words: bool = False  # markdown-topics: also report words that often appear beside secrets
    secrets: str | None = None  # check of new memories: "seed" | "literal" | "shapes" | "off"; None: by layout
    secrets_second_opinion: bool = False  # also scan with betterleaks (the extra `secrets`)
    lock_stale_after_s: float = 30
    lock_unreadable_after_s: float = 300
    lock_wait_s: float = 10
    score_keyword: float = 3  # markdown-topics: weights of the ranking, from seed 001
    score_context: float = 5
    score_tag: float = 2
    score_recency: float = 1  # for a memory of today
    score_decay: float = 0.1  # daily decay rate of recency: exp(-rate * days)
    score_uses: float = 1  # for every five uses
    final_newline: str = "always"  # "always" | "keep" | "never"
    fix_permissions: bool = True
    ignore: tuple[str, ...] = ()  # globs of ignored paths; see `core.ignore`
    newer_index: str = "read-only"  # "read-only" | "rebuild" (the seed's literal behaviour)
    limits: Mapping[str, Limit | None] = field(default_factory=dict)
    schedule: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULT_SCHEDULE))
    timezone: str | None = None  # None: UTC for cron lines, the local zone for the date of a new entry

    def digest(self) -> str:
        """Return a digest of the settings that decide which memories are due."""
        known = {name: getattr(self, name) for name in self.__struct_fields__ if not _NO_RULES.fullmatch(name)}
        known["limits"] = sorted(self.limits.items())
        return sha256(repr(sorted(known.items())).encode())
