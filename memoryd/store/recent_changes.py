"""Recent changes of memories, while an agent may still overwrite them with an older state of the file."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import NamedTuple

import msgspec
from msgspec import Struct, field

from memoryd.core.findings import Finding
from memoryd.core.records import JsonObject, NativeMemory
from memoryd.disk.journal.database import Facts

MAX_SAVED = 1000  # the newest, across a restart
_SAVED = "watched"  # journal key


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


class RecentChanges:
    """The recent changes of one root, by path and id. `lost`: those that an agent overwrote and that are to be stored
    again; `findings`: what is reported about such, with the times."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.by_path: dict[str, dict[str, RecentChange]] = {}
        self.lost: list[LostWrite] = []
        self.findings: list[tuple[float, Finding]] = []
        for row in msgspec.convert(facts.get(_SAVED, []), list[_Row]):
            zone = timezone(timedelta(seconds=row.zone_s))
            self.by_path.setdefault(row.path, {})[row.id] = RecentChange(
                row.at, row.memory, row.where, row.changes, row.before, row.rewrites, zone, row.allow_words
            )

    def save(self) -> None:
        """Save the newest changes, which an agent may overwrite after a restart."""
        rows = [_row(path, identity, each) for path, by_id in self.by_path.items() for identity, each in by_id.items()]
        if rows or self._facts.get(_SAVED):
            rows.sort(key=lambda row: row.at)
            self._facts.set(_SAVED, [msgspec.structs.asdict(row) for row in rows[-MAX_SAVED:]])


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
