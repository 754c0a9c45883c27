"""Recent changes of memories, while an agent may still overwrite them with an older state of the file."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import NamedTuple

import msgspec
from msgspec import Struct, field

from memoryd.core.records import JsonObject, NativeMemory

MAX_SAVED = 1000  # the newest, across a restart


class RecentChange(Struct, frozen=True):
    """An add (`memory` and `location` as given) or an update (`changes`, and `before`, the SHA-256 of the replaced
    record). `at` is in epoch seconds; `rewrites` counts later writes by other programs that preserved it."""

    at: float
    memory: NativeMemory = field(default_factory=dict)
    location: Mapping[str, str] = field(default_factory=dict)
    changes: NativeMemory | None = None
    before: str | None = None
    rewrites: int = 0
    zone: tzinfo = UTC
    allow_words: bool = False


RecentChanges = dict[str, dict[str, RecentChange]]
"""Recent changes by path and id."""


class LostWrite(NamedTuple):
    """A change that an agent has overwritten, to be stored again."""

    path: str
    id: str
    change: RecentChange


class _Row(msgspec.Struct):
    """A recent change as it is saved in the journal."""

    path: str
    id: str
    at: float
    memory: JsonObject
    where: dict[str, str]
    changes: JsonObject | None
    before: str | None
    rewrites: int
    zone_s: float
    allow_words: bool


def to_json(watched: RecentChanges) -> list[JsonObject]:
    """Return the newest changes as JSON, for the next start."""
    rows = [_row(path, identity, each) for path, by_id in watched.items() for identity, each in by_id.items()]
    rows.sort(key=lambda row: row.at)
    return [msgspec.structs.asdict(row) for row in rows[-MAX_SAVED:]]


def _row(path: str, identity: str, recent: RecentChange) -> _Row:
    offset = recent.zone.utcoffset(datetime.fromtimestamp(recent.at, UTC)) or timedelta()
    return _Row(
        path,
        identity,
        recent.at,
        dict(recent.memory),
        dict(recent.location),
        None if recent.changes is None else dict(recent.changes),
        recent.before,
        recent.rewrites,
        offset.total_seconds(),
        recent.allow_words,
    )


def from_json(rows: list[JsonObject]) -> RecentChanges:
    """Convert the output of `to_json` back."""
    watched: RecentChanges = {}
    for row in msgspec.convert(rows, list[_Row]):
        zone = timezone(timedelta(seconds=row.zone_s))
        recent = RecentChange(
            row.at, row.memory, row.where, row.changes, row.before, row.rewrites, zone, row.allow_words
        )
        watched.setdefault(row.path, {})[row.id] = recent
    return watched
