"""Finding and judging backups of memory files: what stands in the directory, whose it is, is it sound.

Everything found may be foreign or hostile: other names, links, pipes and directories are ignored and never
followed; what cannot be read is not relied on and not removed either.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memoryd.core.dates import iso
from memoryd.core.plan import Fingerprint
from memoryd.core.retention import Backup, Quality, order, parse_backup_name
from memoryd.disk.journal import Journal
from memoryd.disk.nodes import NotBeneathError, NotRegularError
from memoryd.disk.shelf import BackupRow
from memoryd.disk.tree import Tree

PLACE = ".backup"
_END_OF_TIME = 253_402_300_800.0  # the year 10000: later modification times are nonsense

Readable = Callable[[bytes], Quality]
# Backups this process has read or written: path -> what `stat` said then, and the SHA-256 (hex). While `stat` says the
# same, another reading would be one of the same cached pages; only a verification asked for reads them anyway.
Looked = dict[str, tuple[Fingerprint, str]]


@dataclass(frozen=True, slots=True)
class BackupInfo(Backup):
    """A backup as found. `problem` says why it is not valid; `unread` that its bytes could not be looked at,
    which is no proof of damage; `beside` that it lies next to the data, where memoryd only reads."""

    path: str = ""
    problem: str | None = None
    unread: bool = False
    beside: bool = False

    @property
    def id(self) -> str:
        """The file's name; `./name` for one beside the data."""
        return f"./{self.name}" if self.beside else self.name

    def public(self) -> dict[str, Any]:
        """What `backup list` shows; the caller adds the root's name."""
        return {
            "id": self.id,
            "file": self.file,
            "path": self.path,
            "taken": None if self.taken is None else iso(self.taken),
            "bytes": self.bytes,
            "sha256": self.sha256,
            "valid": self.valid,
            "problem": self.problem,
            "pinned": self.pinned,
            "foreign": self.seq is None,
        }


def list_backups(
    tree: Tree,
    journal: Journal,
    files: Sequence[str],
    *,
    now: float,
    place: str = PLACE,
    readable: Readable | None = None,
) -> list[BackupInfo]:
    """Backups of `files`, newest first for each, those beside the data last. Known ones are told from the
    journal without reading them; foreign ones are read when `readable` is given to judge them by."""
    found = _found(tree, journal, files, place) + _beside(tree, files)
    return _sorted(
        [_looked_at(tree, each, readable, {}) if _needs_look(each, readable) else each for each in found], now
    )


def verify(
    tree: Tree,
    journal: Journal,
    files: Sequence[str],
    *,
    now: float,
    place: str = PLACE,
    readable: Readable | None = None,
    beside: bool = True,
    looked_at: Looked | None = None,
) -> list[BackupInfo]:
    """As `list_backups`, but reads every one: known ones must have the hash they were made with, foreign ones
    must be at least half readable. The journal remembers the verdict. With `looked_at`, those that stand there as
    they were are not read again."""
    found = [*_found(tree, journal, files, place), *(_beside(tree, files) if beside else [])]
    looked = [_looked_at(tree, each, readable, {} if looked_at is None else looked_at) for each in found]
    _remember(journal, looked)
    return _sorted(looked, now)


def _found(tree: Tree, journal: Journal, files: Sequence[str], place: str) -> list[BackupInfo]:
    rows = {row.name: row for row in journal.backup_rows()}
    seen = [_one(tree, f"{place}/{name}", files, rows.get(name)) for name in _names(tree, place)]
    return [each for each in seen if each is not None]


def _beside(tree: Tree, files: Sequence[str]) -> list[BackupInfo]:
    seen = [_one(tree, name, files, None) for name in _names(tree, "")]
    return [replace(each, beside=True) for each in seen if each is not None]


def _names(tree: Tree, folder: str) -> list[str]:
    """A link in the place of the folder holds no backups: it is not followed."""
    try:
        return tree.listdir(folder)
    except NotBeneathError:
        return []


def _one(tree: Tree, path: str, files: Sequence[str], row: BackupRow | None) -> BackupInfo | None:
    """What stands at `path`, or None when it is no backup of these files."""
    name = path.rpartition("/")[2]
    parsed = parse_backup_name(name, files)
    if parsed is None:
        return None
    try:
        seen = tree.stat(path)
    except NotRegularError:
        return None
    if seen is None:
        return None
    if row is not None and row.file == parsed[0]:
        return known_backup(row, path, seen.size)
    at = parsed[1] if parsed[1] is not None else seen.mtime_ns / 1e9
    taken = at if 0 <= at < _END_OF_TIME else None
    empty = "it is empty" if seen.size == 0 else None
    return BackupInfo(name, parsed[0], taken, None, seen.size, None, empty is None, path=path, problem=empty)


def known_backup(row: BackupRow, path: str, size: int) -> BackupInfo:
    valid = row.valid and size == row.bytes
    return BackupInfo(
        name=row.name,
        file=row.file,
        taken=row.taken,
        seq=row.seq,
        bytes=size,
        sha256=row.sha256,
        valid=valid,
        pinned=row.pinned,
        path=path,
        records=row.quality.records,
        problem=None if valid else "its content is not what was backed up",
    )


def _needs_look(backup: BackupInfo, readable: Readable | None) -> bool:
    return backup.seq is None and readable is not None


def _looked_at(tree: Tree, backup: BackupInfo, readable: Readable | None, looked_at: Looked) -> BackupInfo:
    known = looked_at.get(backup.path) if backup.seq is not None else None
    if known is not None and known[1] == backup.sha256 and known[0] == tree.stat(backup.path):
        return replace(backup, valid=True, problem=None)
    try:
        content, seen = tree.read(backup.path)
    except OSError as error:  # gone, too large, unreadable: no proof of damage, but nothing to rely on
        return replace(backup, valid=False, unread=True, problem=f"it cannot be read: {error.strerror}")
    digest = hashlib.sha256(content).hexdigest()
    looked_at[backup.path] = (seen, digest)
    if backup.seq is not None:
        sound = digest == backup.sha256
        return replace(backup, valid=sound, problem=None if sound else "its content is not what was backed up")
    return _judged(replace(backup, sha256=digest, bytes=len(content)), content, readable)


def _judged(backup: BackupInfo, content: bytes, readable: Readable | None) -> BackupInfo:
    """A foreign backup has no hash to be held against, so its content is judged: memories, and no more
    damage than half of it. An empty one is no proof that the file was empty."""
    if readable is None or not content:
        return backup
    quality = readable(content)
    usable = quality.records > 0 and 2 * quality.damaged <= quality.units
    problem = None if usable else f"{quality.damaged} of its {quality.units} units cannot be read"
    return replace(backup, records=quality.records, valid=usable, problem=problem)


def _remember(journal: Journal, looked: Iterable[BackupInfo]) -> None:
    marked = {row.id: row.valid for row in journal.backup_rows()}
    for each in looked:
        if each.seq is not None and not each.unread and marked.get(each.name) != each.valid:
            journal.mark_backup(each.name, valid=each.valid)


def _sorted(found: Iterable[BackupInfo], now: float) -> list[BackupInfo]:
    groups: dict[tuple[str, bool], list[BackupInfo]] = {}
    for each in found:
        groups.setdefault((each.file, each.beside), []).append(each)
    return [each for key in sorted(groups) for each in reversed(order(groups[key], now))]
