"""Which backups exist, in which order, and which of them stay. Pure: names, times and numbers only.

Order is by sequence, not by clock: what memoryd made itself has a sequence number and keeps it. A backup
somebody else made (a `cp` by hand, an older program) has only a stamp in its name or a modification time;
it is filed in front of the first numbered one that was taken after it. So a doubtful clock makes a foreign
backup older, never newer, and cannot push out what memoryd has verified.

The limit of five is spread over time, so that six edits in a minute leave yesterday's backup in place, and no copy
is ever refused: the one that holds the most memories is protected instead.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from memoryd.core.dates import compact

_NAME = re.compile(r"(?P<prefix>.+)\.backup(?:\.(?P<stamp>[0-9]{8}_[0-9]{6})(?:_(?P<count>[0-9]{3,6}))?)?", re.DOTALL)
_FUTURE_SLACK_S = 300.0
_DAY_S = 86_400.0
_WEEK_S = 7 * _DAY_S


@dataclass(frozen=True, slots=True)
class Quality:
    """How readable a file is: of `units` non-empty lines (entries, elements) `records` are memories."""

    units: int
    records: int

    @property
    def damaged(self) -> int:
        return max(0, self.units - self.records)


@dataclass(frozen=True, slots=True)
class Backup:
    """One backup. `taken` is in seconds since the epoch: when it was made, else the stamp in its name, else
    the file's modification time, else None. `seq` is its place among those memoryd made, None if foreign.
    `records` is how many memories it holds, None where nobody has looked."""

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


def flat(file: str) -> str:
    """The path of a file as one file name: `a/b.md` becomes `a%2Fb.md`; plain names stay as they are."""
    return file.replace("%", "%25").replace("/", "%2F")


def parse_backup_name(name: str, files: Sequence[str]) -> tuple[str, float | None, int] | None:
    """(file, stamp, counter) of a backup's name, or None when it is no backup of one of `files`.

    Known forms: `<file>.backup`, `<file>.backup.<YYYYMMDD_HHMMSS>[_NNN]`, and for JSONL files the same with
    the `<type>_memories.jsonl` that the seed's text uses (`learning_memories`, `tasks_memories`). Stamps are
    read as UTC; one that is no date makes the name foreign.
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
    """Exact names win over the seed's type names."""
    for file in files:
        if prefix == flat(file):
            return file
    return next((file for file in files if prefix in _type_names(file)), None)


def _type_names(file: str) -> tuple[str, ...]:
    stem, dot, suffix = flat(file).rpartition(".jsonl")
    if not dot or suffix:
        return ()
    return (f"{stem}_memories.jsonl", f"{stem.removesuffix('s')}_memories.jsonl")


def backup_name(file: str, now: float, taken: Collection[str]) -> str:
    """A free name for a backup made `now`. Within one second the counter grows past every one in use, also
    when lower ones are free again, so that names of one second sort in the order they were made."""
    base = f"{flat(file)}.backup.{compact(now)}"
    if base not in taken and not any(name.startswith(f"{base}_") for name in taken):
        return base
    used = [int(name[len(base) + 1 :]) for name in taken if re.fullmatch(re.escape(base) + r"_[0-9]{3,6}", name)]
    return f"{base}_{max(used, default=0) + 1:03d}"


def order(backups: Iterable[AnyBackup], now: float | None = None) -> list[AnyBackup]:
    """The backups of one file, oldest first.

    Numbered ones by their number. A foreign one goes in front of the first numbered one taken after it; with
    no time, or with one that lies in the future of `now`, it goes in front of all of them.
    """
    mixed = list(backups)
    numbered = sorted((b for b in mixed if b.seq is not None), key=lambda b: b.seq or 0)
    foreign = sorted((b for b in mixed if b.seq is None), key=lambda b: _foreign_key(b, now))
    placed: list[tuple[int, int, AnyBackup]] = [(2 * at + 1, 0, b) for at, b in enumerate(numbered)]
    placed += [(2 * _slot(b, numbered, now), at, b) for at, b in enumerate(foreign)]
    return [backup for _, _, backup in sorted(placed, key=lambda item: item[:2])]


def _slot(backup: Backup, numbered: Sequence[Backup], now: float | None) -> int:
    """How many of the numbered ones are older than this foreign one."""
    taken = _believed(backup, now)
    if taken is None:
        return 0
    later = (at for at, known in enumerate(numbered) if known.taken is not None and known.taken >= taken)
    return next(later, len(numbered))


def _believed(backup: Backup, now: float | None) -> float | None:
    """The time of a foreign backup; one in the future of `now` says nothing."""
    taken = backup.taken
    return None if taken is not None and now is not None and taken > now + _FUTURE_SLACK_S else taken


def _foreign_key(backup: Backup, now: float | None) -> tuple[bool, float, int, str]:
    """By time; within one second by the counter at the end of the name, as a number."""
    match = _NAME.fullmatch(backup.name)
    count = int(match["count"] or 0) if match else 0
    taken = _believed(backup, now)
    return (taken is not None, taken or 0.0, count, backup.name)


def keep(backups: Iterable[Backup], limit: int, now: float) -> dict[str, str]:
    """Names that stay, each with the reason.

    Of each file at most `limit`, spread over time; besides these the pinned ones, and the newest of those that
    hold the most memories, so that no run of poorer copies pushes out what a loss took. An invalid one only takes
    a place that no valid one wants.
    """
    kept: dict[str, str] = {}
    for newest_first in _by_file(backups, now):
        kept |= _keep_of_one_file(newest_first, limit, now)
    return kept


def _keep_of_one_file(newest_first: Sequence[Backup], limit: int, now: float) -> dict[str, str]:
    valid = [b for b in newest_first if b.valid]
    invalid = [b for b in newest_first if not b.valid]
    kept = dict(_spread(valid, max(limit, 1), now))
    for backup in invalid[: max(0, limit - len(kept))]:
        kept[backup.name] = f"one of the newest {limit}"
    richest = max(valid, key=lambda b: b.records or 0, default=None)  # of equals the first: the newest
    if richest is not None and richest.records:
        kept.setdefault(richest.name, "holds the most memories")
    return kept | {b.name: "pinned" for b in newest_first if b.pinned}


def _spread(newest_first: Sequence[Backup], limit: int, now: float) -> Iterator[tuple[str, str]]:
    """At most `limit` names: one for each age, and places that stay free go to the most recent."""
    places: dict[int, str] = {}
    for at, why in (*_by_age(_ages(newest_first, now)), *((at, "recent") for at in range(len(newest_first)))):
        if len(places) >= limit:
            break
        places.setdefault(at, why)
    return ((newest_first[at].name, why) for at, why in places.items())


def _by_age(ages: Sequence[float]) -> Iterator[tuple[int, str]]:
    """Indexes, the most important first. What is the oldest of its span today grows into the next one."""
    recent = [(at, f"number {at + 1} from the newest") for at in range(min(2, len(ages)))]
    day = [at for at, age in enumerate(ages) if age <= _DAY_S]
    week = [at for at, age in enumerate(ages) if _DAY_S < age <= _WEEK_S]
    older = [at for at, age in enumerate(ages) if age > _WEEK_S]
    yield from recent
    yield from ((at, "the oldest of the last 24 hours") for at in day[-1:])
    yield from ((at, "the oldest of the last seven days") for at in week[-1:])
    yield from ((at, "the newest that is older than seven days") for at in older[:1])


def _ages(newest_first: Sequence[Backup], now: float) -> list[float]:
    """Seconds, never less than that of the one made after it: a clock that was wrong makes no backup younger."""
    ages: list[float] = []
    for backup in newest_first:
        taken = backup.taken if backup.seq is not None else _believed(backup, now)
        age = math.inf if taken is None else now - taken
        ages.append(max(age, ages[-1] if ages else 0.0))
    return ages


def drop(backups: Iterable[Backup], limit: int, now: float) -> list[str]:
    """Names that go, the oldest of each file first."""
    held = list(backups)
    kept = keep(held, limit, now)
    return [b.name for newest_first in _by_file(held, now) for b in reversed(newest_first) if b.name not in kept]


def _by_file(backups: Iterable[Backup], now: float) -> list[list[Backup]]:
    """Groups by file, newest first within each."""
    groups: dict[str, list[Backup]] = {}
    for backup in backups:
        groups.setdefault(backup.file, []).append(backup)
    return [order(group, now)[::-1] for group in groups.values()]
