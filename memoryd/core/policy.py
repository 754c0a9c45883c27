"""Policy: the ages, counts and sizes one root is tended by. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

KB = 1024
MB = 1024 * 1024
DAY = 86_400


class Mode(StrEnum):
    MAINTAIN = "maintain"  # keep indices, upkeep by schedule
    OBSERVE = "observe"  # report the same things, write nothing unattended


class LimitKind(StrEnum):
    HARD = "hard"
    SOFT = "soft"


@dataclass(frozen=True, slots=True)
class Limit:
    """Per file; None lifts the bound. Seed 004, "Storage Limits"."""

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


@dataclass(frozen=True, slots=True)
class Policy:
    """`limits` overrides the layout's own limits per file; a value of None lifts a limit."""

    mode: Mode = Mode.MAINTAIN
    backups: int = 5
    archive_learnings_after_days: float = 90
    archive_tasks_after_days: float = 30
    keep_importance: tuple[str, ...] = ()
    archive_flag: bool = False  # json-files: set `archived` on what is old, of no relevance and hardly used
    archive_sessions: bool = False  # session-files: move whole sessions to the archive by age
    archive_sessions_after_days: float = 60
    sensitive_words: bool = False  # markdown-topics: report also words that often stand beside secrets
    secrets: str | None = None  # what may not be stored: "seed" | "literal" | "shapes" | "off"; None: by layout
    secrets_second_opinion: bool = False  # ask betterleaks too (the extra `secrets`)
    lock_stale_after_s: float = 30
    lock_unreadable_after_s: float = 300
    lock_wait_s: float = 10
    score_keyword: float = 3  # markdown-topics: points by which what is found is ranked, as seed 001 names them
    score_context: float = 5
    score_tag: float = 2
    score_recency: float = 1  # of a memory of today
    score_decay: float = 0.1  # a day; e to the minus this times the days
    score_uses: float = 1  # for each five
    final_newline: str = "always"  # "always" | "keep" | "never"
    fix_permissions: bool = True
    ignore: tuple[str, ...] = ()  # globs of what is left alone; see `core.skipping`
    newer_index: str = "read-only"  # "read-only" | "rebuild" (the seed's literal behaviour)
    limits: Mapping[str, Limit | None] = field(default_factory=dict)
    schedule: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULT_SCHEDULE))
    timezone: str = "UTC"
