"""Which backups exist, in which order, and which of them stay. Pure: names, times and numbers only.

Order is by sequence, not by clock: what memoryd made itself has a sequence number and keeps it. A backup
somebody else made (a `cp` by hand, an older program) has only a stamp in its name or a modification time;
it is filed in front of the first numbered one that was taken after it. So a doubtful clock makes a foreign
backup older, never newer, and cannot push out what memoryd has verified.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from memoryd.core.dates import compact

_NAME = re.compile(r"(?P<prefix>.+)\.backup(?:\.(?P<stamp>[0-9]{8}_[0-9]{6})(?:_(?P<count>[0-9]{3,6}))?)?", re.DOTALL)
_FUTURE_SLACK_S = 300.0


@dataclass(frozen=True, slots=True)
class Quality:
    """How readable a file is: of `units` non-empty lines (entries, elements) `records` are memories."""

    units: int
    records: int

    @property
    def damaged(self) -> int:
        return max(0, self.units - self.records)

    def worse_than(self, other: Quality) -> bool:
        """True when damage grew both in number and in share, or when every memory is gone.

        Number alone would call a store ten times as large worse for one more bad line; share alone would
        call a store worse that archived good memories and left an old bad line behind.
        """
        if other.records > 0 and self.records == 0:
            return True
        return self.damaged > other.damaged and self.damaged * other.units > other.damaged * self.units


@dataclass(frozen=True, slots=True)
class Backup:
    """One backup. `taken` is in seconds since the epoch: when it was made, else the stamp in its name, else
    the file's modification time, else None. `seq` is its place among those memoryd made, None if foreign."""

    name: str
    file: str
    taken: float | None
    seq: int | None
    bytes: int
    sha256: str | None
    valid: bool
    pinned: bool = False


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


def keep(backups: Iterable[Backup], limit: int, now: float | None = None) -> dict[str, str]:
    """Names that stay, each with the reason. At most `limit` a file, but for pinned ones and the newest valid
    one, which stay whatever the limit; an invalid one only takes a place that no valid one wants."""
    kept: dict[str, str] = {}
    for newest_first in _by_file(backups, now):
        kept |= _keep_of_one_file(newest_first, limit)
    return kept


def _keep_of_one_file(newest_first: Sequence[Backup], limit: int) -> dict[str, str]:
    kept = {b.name: "pinned" for b in newest_first if b.pinned}
    valid = [b for b in newest_first if b.valid]
    invalid = [b for b in newest_first if not b.valid]
    if valid:
        kept.setdefault(valid[0].name, "the newest valid one")
    for backup in (*valid, *invalid):
        if len(kept) >= limit:
            break
        kept.setdefault(backup.name, f"among the newest {limit}")
    return kept


def drop(backups: Iterable[Backup], limit: int, now: float | None = None) -> list[str]:
    """Names that go, the oldest of each file first."""
    held = list(backups)
    kept = keep(held, limit, now)
    return [b.name for newest_first in _by_file(held, now) for b in reversed(newest_first) if b.name not in kept]


def _by_file(backups: Iterable[Backup], now: float | None) -> list[list[Backup]]:
    """Groups by file, newest first within each."""
    groups: dict[str, list[Backup]] = {}
    for backup in backups:
        groups.setdefault(backup.file, []).append(backup)
    return [order(group, now)[::-1] for group in groups.values()]
