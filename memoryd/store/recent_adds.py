"""Memories stored a moment ago, as long as an agent may still overwrite them with an older state of the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone, tzinfo

import msgspec

from memoryd.core.records import JsonObject, NativeMemory

MAX_SAVED = 1000  # over a restart, the newest


@dataclass(frozen=True, slots=True)
class Recent:
    """An add (`memory` and `where` as given) or an update (`changes`, and `before`, the SHA-256 of the record that it
    replaced). `at` in seconds since the epoch; `rewrites` counts writes of others that left it alone."""

    at: float
    memory: NativeMemory = field(default_factory=dict)
    where: Mapping[str, str] = field(default_factory=dict)
    changes: NativeMemory | None = None
    before: str | None = None
    rewrites: int = 0
    zone: tzinfo = UTC
    allow_words: bool = False


Watched = dict[str, dict[str, Recent]]
"""By path and id."""


class _Row(msgspec.Struct):
    """One of them as JSON, as it lies in the journal over a restart."""

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


def to_json(watched: Watched) -> list[JsonObject]:
    """Return the newest of them as JSON, for the next start."""
    rows = [_row(path, identity, each) for path, known in watched.items() for identity, each in known.items()]
    rows.sort(key=lambda row: row.at)
    return [msgspec.structs.asdict(row) for row in rows[-MAX_SAVED:]]


def _row(path: str, identity: str, recent: Recent) -> _Row:
    offset = recent.zone.utcoffset(datetime.fromtimestamp(recent.at, UTC)) or timedelta()
    return _Row(
        path,
        identity,
        recent.at,
        dict(recent.memory),
        dict(recent.where),
        None if recent.changes is None else dict(recent.changes),
        recent.before,
        recent.rewrites,
        offset.total_seconds(),
        recent.allow_words,
    )


def from_json(rows: list[JsonObject]) -> Watched:
    """Return what `to_json` was given."""
    watched: Watched = {}
    for row in msgspec.convert(rows, list[_Row]):
        zone = timezone(timedelta(seconds=row.zone_s))
        recent = Recent(row.at, row.memory, row.where, row.changes, row.before, row.rewrites, zone, row.allow_words)
        watched.setdefault(row.path, {})[row.id] = recent
    return watched
