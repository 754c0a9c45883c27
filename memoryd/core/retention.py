"""The order and retention of backups. Pure: names, times and numbers only.

Backups are ordered by sequence number, not by clock. A backup made by something else (`cp`, an older program) has only
a timestamp in its name or a modification time, and is sorted before the first numbered backup taken after it. So a
wrong clock makes a foreign backup older, never newer, and cannot push out what memoryd has verified.

How many are kept (`backups` in `core.defaults`) is spread over time, so that six edits in a minute leave yesterday's
backup in place. No copy is ever refused; the one with the most memories is protected instead.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TypeVar

from msgspec import Struct

from memoryd.core.dates import compact
from memoryd.core.defaults import DAY

_NAME = re.compile(r"(?P<prefix>.+)\.backup(?:\.(?P<stamp>[0-9]{8}_[0-9]{6})(?:_(?P<count>[0-9]{3,6}))?)?", re.DOTALL)
_FUTURE_SLACK_S = 300.0
_WEEK = 7 * DAY


class Quality(Struct, frozen=True):
    """The share of a file that is readable: of `units` non-empty lines (entries, elements), `records` are memories."""

    units: int
    records: int

    @property
    def damaged(self) -> int:
        """The number of units that are not memories."""
        return max(0, self.units - self.records)


class Backup(Struct, frozen=True):
    """One backup.

    `taken`: epoch seconds: when it was made, else the timestamp in its name, else its modification time, else None.
    `seq`: its sequence number among the backups of memoryd; None if it is foreign.
    `records`: the number of memories in it; None if not counted.
    """

    name: str
    file: str
    taken: float | None
    seq: int | None
    bytes: int
    sha256: str | None
    valid: bool
    pinned: bool = False
    records: int | None = None


AnyBackup = TypeVar("AnyBackup", bound=Backup)


def flat_name(file: str) -> str:
    """Return a path as a single file name: `a/b.md` becomes `a%2Fb.md`; a name without slash or % is unchanged."""
    return file.replace("%", "%25").replace("/", "%2F")


def parse_backup_name(name: str, files: Sequence[str]) -> tuple[str, float | None, int] | None:
    """Parse the name of a backup to (file, timestamp, counter); None if it is not a backup of one of `files`.

    Known forms: `<file>.backup`, `<file>.backup.<YYYYMMDD_HHMMSS>[_NNN]`, and for JSONL files the same with
    `<type>_memories.jsonl` as in the text of the seed (`learning_memories`, `tasks_memories`). Timestamps are in UTC;
    an impossible date makes the name foreign.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    file = _file_of(match["prefix"], files)
    if file is None:
        return None
    if match["stamp"] is None:
        return (file, None, 0)
    try:
        taken = datetime.strptime(match["stamp"] + "+0000", "%Y%m%d_%H%M%S%z").timestamp()
    except ValueError:
        return None
    return (file, taken, int(match["count"] or 0))


def _file_of(prefix: str, files: Sequence[str]) -> str | None:
    """Find the file with this exact name, else by the type names of the seed."""
    for file in files:
        if prefix == flat_name(file):
            return file
    return next((file for file in files if prefix in _type_names(file)), None)


def _type_names(file: str) -> tuple[str, ...]:
    stem, dot, suffix = flat_name(file).rpartition(".jsonl")
    if not dot or suffix:
        return ()
    return (f"{stem}_memories.jsonl", f"{stem.removesuffix('s')}_memories.jsonl")


def backup_name(file: str, now: float, taken: Collection[str]) -> str:
    """Return an unused name for a backup made at `now`.

    Within one second the counter exceeds every counter in use, even if a lower one is free again, so that the names
    sort in the order in which they were made.
    """
    base = f"{flat_name(file)}.backup.{compact(now)}"
    if base not in taken and not any(name.startswith(f"{base}_") for name in taken):
        return base
    used = [int(name[len(base) + 1 :]) for name in taken if re.fullmatch(re.escape(base) + r"_[0-9]{3,6}", name)]
    return f"{base}_{max(used, default=0) + 1:03d}"


def order(backups: Iterable[AnyBackup], now: float | None = None) -> list[AnyBackup]:
    """Sort the backups of one file, oldest first.

    Numbered backups are in the order of their numbers. A foreign one precedes the first numbered one taken after it;
    if its time is unknown or later than `now`, it precedes them all.
    """
    mixed = list(backups)
    numbered = sorted((b for b in mixed if b.seq is not None), key=lambda b: b.seq or 0)
    foreign = sorted((b for b in mixed if b.seq is None), key=lambda b: _foreign_key(b, now))
    placed: list[tuple[int, int, AnyBackup]] = [(2 * at + 1, 0, b) for at, b in enumerate(numbered)]
    placed += [(2 * _slot(b, numbered, now), at, b) for at, b in enumerate(foreign)]
    return [backup for _, _, backup in sorted(placed, key=lambda item: item[:2])]


def _slot(backup: Backup, numbered: Sequence[Backup], now: float | None) -> int:
    """Count the numbered backups that are older than this foreign one."""
    taken = _credible_time(backup, now)
    if taken is None:
        return 0
    later = (at for at, known in enumerate(numbered) if known.taken is not None and known.taken >= taken)
    return next(later, len(numbered))


def _credible_time(backup: Backup, now: float | None) -> float | None:
    """Return the time of a foreign backup; None if it is later than `now`."""
    taken = backup.taken
    return None if taken is not None and now is not None and taken > now + _FUTURE_SLACK_S else taken


def _foreign_key(backup: Backup, now: float | None) -> tuple[bool, float, int, str]:
    """Sort by time; within one second by the counter at the end of the name, as a number."""
    match = _NAME.fullmatch(backup.name)
    count = int(match["count"] or 0) if match else 0
    taken = _credible_time(backup, now)
    return (taken is not None, taken or 0.0, count, backup.name)


def keep(backups: Iterable[Backup], limit: int, now: float) -> dict[str, str]:
    """Return the names of the backups to keep, each with the reason.

    Per file at most `limit`, spread over time, and besides these the pinned ones and the newest of those with the most
    memories, so that copies made after a loss cannot push out the last complete one. An invalid backup is kept only if
    valid ones do not use up the limit.
    """
    reasons: dict[str, str] = {}
    for newest_first in _by_file(backups, now):
        reasons |= _keep_of_one_file(newest_first, limit, now)
    return reasons


def _keep_of_one_file(newest_first: Sequence[Backup], limit: int, now: float) -> dict[str, str]:
    valid = [b for b in newest_first if b.valid]
    invalid = [b for b in newest_first if not b.valid]
    reasons = dict(_spread(valid, max(limit, 1), now))
    for backup in invalid[: max(0, limit - len(reasons))]:
        reasons[backup.name] = f"one of the newest {limit}"
    richest = max(valid, key=lambda b: b.records or 0, default=None)  # max returns the first, so the newest of equals
    if richest is not None and richest.records:
        reasons.setdefault(richest.name, "contains the most memories")
    return reasons | {b.name: "pinned" for b in newest_first if b.pinned}


def _spread(newest_first: Sequence[Backup], limit: int, now: float) -> Iterator[tuple[str, str]]:
    """Yield at most `limit` names with reasons: one for each age group, then the most recent."""
    places: dict[int, str] = {}
    for at, why in (*_by_age(_ages(newest_first, now)), *((at, "recent") for at in range(len(newest_first)))):
        if len(places) >= limit:
            break
        places.setdefault(at, why)
    return ((newest_first[at].name, why) for at, why in places.items())


def _by_age(ages: Sequence[float]) -> Iterator[tuple[int, str]]:
    """Yield indexes with reasons, the most important first. The oldest of each age group later serves the next one."""
    recent = [(at, f"number {at + 1} from the newest") for at in range(min(2, len(ages)))]
    day = [at for at, age in enumerate(ages) if age <= DAY]
    week = [at for at, age in enumerate(ages) if DAY < age <= _WEEK]
    older = [at for at, age in enumerate(ages) if age > _WEEK]
    yield from recent
    yield from ((at, "the oldest of the last 24 hours") for at in day[-1:])
    yield from ((at, "the oldest of the last seven days") for at in week[-1:])
    yield from ((at, "the newest that is older than seven days") for at in older[:1])


def _ages(newest_first: Sequence[Backup], now: float) -> list[float]:
    """Return ages in seconds, none less than that of a later backup: a wrong clock must not make a backup younger."""
    ages: list[float] = []
    for backup in newest_first:
        taken = backup.taken if backup.seq is not None else _credible_time(backup, now)
        age = math.inf if taken is None else now - taken
        ages.append(max(age, ages[-1] if ages else 0.0))
    return ages


def drop(backups: Iterable[Backup], limit: int, now: float) -> list[str]:
    """Return the names of the backups to delete, the oldest of each file first."""
    everything = list(backups)
    reasons = keep(everything, limit, now)
    return [
        b.name for newest_first in _by_file(everything, now) for b in reversed(newest_first) if b.name not in reasons
    ]


def _by_file(backups: Iterable[Backup], now: float) -> list[list[Backup]]:
    """Group by file, newest first within each group."""
    groups: dict[str, list[Backup]] = {}
    for backup in backups:
        groups.setdefault(backup.file, []).append(backup)
    return [order(group, now)[::-1] for group in groups.values()]
