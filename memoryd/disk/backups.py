"""Backups of memory files: make, rotate, find, judge and choose plain copies that a person can restore with `cp`.

A backup is written whole, read back and compared before any older one goes. None is refused, however damaged the
file is: refusing froze the backups for good after one torn line. The rotation protects the one with the most memories
instead, and equal content is copied once (a loop of 279 corrupt copies in a week pushed out every good one elsewhere).

Everything found in the backup directory may be foreign or hostile: other names, links, pipes and directories are
ignored and never followed; what cannot be read is not relied on and not removed either.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from memoryd.core.plan import Fingerprint
from memoryd.core.retention import Backup, Quality, backup_name, drop, order, parse_backup_name
from memoryd.disk import atomic
from memoryd.disk.journal import Journal
from memoryd.disk.journal.backups import BackupRow
from memoryd.disk.nofollow import NotBeneathError, NotRegularError
from memoryd.disk.tree import Tree
from memoryd.errors import ConflictError, NotFoundError

PLACE = ".backup"
_END_OF_TIME = 253_402_300_800.0  # the year 10000: later modification times are nonsense

Readable = Callable[[bytes], Quality]
# Backups this process has read or written: path -> the fingerprint then, and the SHA-256 (hex). While the fingerprint
# is equal, another read would return the same cached pages; only an explicit verification reads them anyway.
HashCache = dict[str, tuple[Fingerprint, str]]


@dataclass(frozen=True, slots=True)
class CreateResult:
    """`outcome` is "made" or "equal" (the newest backup has this content). `name` is the backup that holds the
    content. `dropped` were removed by the rotation, `undropped` could not be removed."""

    outcome: str
    name: str
    sha256: str
    dropped: tuple[str, ...] = ()
    undropped: tuple[str, ...] = ()


def create(
    tree: Tree,
    journal: Journal,
    file: str,
    content: bytes,
    fingerprint: Fingerprint,
    quality: Quality,
    *,
    limit: int,
    now: float,
    files: Sequence[str] = (),
    place: str = PLACE,
    readable: Readable | None = None,
    looked_at: HashCache | None = None,
    digest: str | None = None,
) -> CreateResult:
    """Back up `content` of `file` (as read together with `fingerprint`), then rotate to `limit`. `digest` is that of
    the content, if known.

    Every existing backup of the file is read first (except those in `looked_at` that are unchanged), so that neither
    "equal" nor a rotation relies on one that has rotted. `files` are all files of the root, to tell whose a foreign
    backup is. Raises OSError when the disk refuses; then no older backup is gone.
    """
    if fingerprint.size != len(content):
        raise ConflictError(f"{file} changed while it was read for its backup", hint="try again")
    known = files or (file,)
    looked = verify(tree, journal, known, now=now, place=place, readable=readable, in_root=False, looked_at=looked_at)
    newest_first = [each for each in looked if each.file == file]
    digest = digest or hashlib.sha256(content).hexdigest()
    if newest_first and newest_first[0].valid and newest_first[0].sha256 == digest:
        result = CreateResult("equal", newest_first[0].name, digest)
    else:
        made, seen = _written(tree, journal, file, content, place, now=now)
        if looked_at is not None:
            looked_at[f"{place}/{made}"] = (seen, digest)
        row = journal.backups.add(made, file, taken=now, size=len(content), sha256=digest, quality=quality)
        newest_first.insert(0, known_backup(row, f"{place}/{made}", len(content)))
        result = CreateResult("made", made, digest)
    dropped, undropped = _rotate(tree, journal, newest_first, limit, now)
    return replace(result, dropped=dropped, undropped=undropped)


def choose(
    backups: Iterable[BackupInfo], at: str | None = None, *, live: str | None = None, records: int = 0
) -> BackupInfo:
    """Choose the backup that a restore takes, from those of one file (newest first).

    With `at`, the one of that id; the stamp at its end is enough if it is unique. Otherwise the newest valid one that
    differs from the file (whose SHA-256 is `live`) and holds no fewer memories than its `records`; failing that, the
    newest valid one that differs, then the newest valid one. Those in the backup folder come before those next to the
    data. Raises NotFoundError, or ConflictError for a damaged one.
    """
    held = list(backups)
    if at is None:
        usable = sorted((each for each in held if each.valid), key=lambda each: each.in_root)
        if not usable:
            raise NotFoundError("there is no valid backup", hint="`memoryd backup list` shows the backups")
        other = [each for each in usable if each.sha256 != live]
        enough = [each for each in other if each.records is None or each.records >= records]
        return (enough or other or usable)[0]
    named = [each for each in held if each.id == at] or [each for each in held if each.id.endswith(f".{at}")]
    if len(named) != 1:
        what = "several backups end in" if named else "no backup has the id"
        raise NotFoundError(f"{what} {at}", hint="`memoryd backup list` shows the ids")
    if not named[0].valid:
        raise ConflictError(
            f"the backup {at} is damaged: {named[0].problem}",
            hint="choose another from `memoryd backup list`",
        )
    return named[0]


def read_backup(tree: Tree, backup: BackupInfo) -> bytes:
    """Return the bytes of a backup, with the hash it was listed with. Raises ConflictError when it changed since."""
    content, _ = tree.read(backup.path)
    if backup.sha256 is not None and hashlib.sha256(content).hexdigest() != backup.sha256:
        raise ConflictError(f"the backup {backup.id} has changed since it was made", hint="run `memoryd backup verify`")
    return content


def _written(
    tree: Tree, journal: Journal, file: str, content: bytes, place: str, *, now: float
) -> tuple[str, Fingerprint]:
    """Write the new copy and read it back. Returns its name and what `stat` says of it."""
    tree.mkdir(place, 0o700)
    taken = {*tree.listdir(place), *(row.name for row in journal.backups.rows())}
    name = backup_name(file, now, taken)
    path = f"{place}/{name}"
    atomic.create(tree, path, content, 0o600)
    stored, seen = tree.read(path)
    if stored != content:
        tree.unlink(path)
        raise OSError(errno.EIO, "read-back does not match what was written", path)
    return name, seen


def _rotate(
    tree: Tree, journal: Journal, backups: Sequence[BackupInfo], limit: int, now: float
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Remove what `drop` names, except ones whose bytes could not be read, and let the journal forget what is gone:
    (removed, not removable)."""
    paths = {each.name: each.path for each in backups if not each.unread}
    dropped: list[str] = []
    undropped: list[str] = []
    for name in (name for name in drop(backups, limit, now) if name in paths):
        try:
            with suppress(FileNotFoundError):  # another program removed it first
                tree.unlink(paths[name])
            dropped.append(name)
        except OSError:  # a surplus backup must not fail the new one; the result reports it
            undropped.append(name)
    there = {each.name for each in backups} - set(dropped)
    gone = [row.id for row in journal.backups.rows(backups[0].file) if row.name not in there]
    if gone:
        journal.backups.forget(gone)
    return tuple(dropped), tuple(undropped)


@dataclass(frozen=True, slots=True)
class BackupInfo(Backup):
    """A backup on disk. `problem` says why it is not valid; `unread`: its bytes could not be read, which does not prove
    damage; `in_root`: it is next to the data, where memoryd only reads."""

    path: str = ""
    problem: str | None = None
    unread: bool = False
    in_root: bool = False

    @property
    def id(self) -> str:
        """The file's name; `./name` for one next to the data."""
        return f"./{self.name}" if self.in_root else self.name


def list_backups(
    tree: Tree,
    journal: Journal,
    files: Sequence[str],
    *,
    now: float,
    place: str = PLACE,
    readable: Readable | None = None,
) -> list[BackupInfo]:
    """List the backups of `files`, newest first for each, those next to the data last. Known ones are listed from the
    journal without reading them; foreign ones are read when `readable` is given to judge them by."""
    found = _found(tree, journal, files, place) + _in_root(tree, files)
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
    in_root: bool = True,
    looked_at: HashCache | None = None,
) -> list[BackupInfo]:
    """List as `list_backups`, but read every one: known ones must have the hash they were made with, foreign ones must
    be at least half readable. The journal remembers the verdict. With `looked_at`, unchanged ones are not read
    again."""
    found = [*_found(tree, journal, files, place), *(_in_root(tree, files) if in_root else [])]
    looked = [_looked_at(tree, each, readable, {} if looked_at is None else looked_at) for each in found]
    _remember(journal, looked)
    return _sorted(looked, now)


def _found(tree: Tree, journal: Journal, files: Sequence[str], place: str) -> list[BackupInfo]:
    rows = {row.name: row for row in journal.backups.rows()}
    seen = [_one(tree, f"{place}/{name}", files, rows.get(name)) for name in _names(tree, place)]
    return [each for each in seen if each is not None]


def _in_root(tree: Tree, files: Sequence[str]) -> list[BackupInfo]:
    seen = [_one(tree, name, files, None) for name in _names(tree, "")]
    return [replace(each, in_root=True) for each in seen if each is not None]


def _names(tree: Tree, folder: str) -> list[str]:
    """List the names in the backup directory. A symlink in its place is not followed: no backups."""
    try:
        return tree.listdir(folder)
    except NotBeneathError:
        return []


def _one(tree: Tree, path: str, files: Sequence[str], row: BackupRow | None) -> BackupInfo | None:
    """Return the backup at `path`, or None when it is none of these files."""
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
    """Return a backup that memoryd made, as recorded in its journal row."""
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


def _looked_at(tree: Tree, backup: BackupInfo, readable: Readable | None, looked_at: HashCache) -> BackupInfo:
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
    """Judge a foreign backup by its content, since it has no hash: it must hold memories, and no more than half may be
    damaged. An empty one is no proof that the file was empty."""
    if readable is None or not content:
        return backup
    quality = readable(content)
    usable = quality.records > 0 and 2 * quality.damaged <= quality.units
    problem = None if usable else f"{quality.damaged} of its {quality.units} units cannot be read"
    return replace(backup, records=quality.records, valid=usable, problem=problem)


def _remember(journal: Journal, looked: Iterable[BackupInfo]) -> None:
    marked = {row.id: row.valid for row in journal.backups.rows()}
    for each in looked:
        if each.seq is not None and not each.unread and marked.get(each.name) != each.valid:
            journal.backups.mark(each.name, valid=each.valid)


def _sorted(found: Iterable[BackupInfo], now: float) -> list[BackupInfo]:
    groups: dict[tuple[str, bool], list[BackupInfo]] = {}
    for each in found:
        groups.setdefault((each.file, each.in_root), []).append(each)
    return [each for key in sorted(groups) for each in reversed(order(groups[key], now))]
