"""Backups of memory files: plain copies that a person can restore with `cp`.

A backup is written whole, read back and compared before any older one goes. None is refused, however damaged the
file is: otherwise one torn line would stop the backups for good. Instead, the rotation protects the backup with the
most memories, and equal content is copied only once: elsewhere, 279 corrupt copies in a week displaced every good one.

Any entry of the backup directory may be foreign or hostile: other names, links, pipes and directories are ignored and
never followed; a file that cannot be read is neither relied on nor removed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from msgspec import Struct, field
from msgspec.structs import replace

from memoryd.core.progress import ProgressMeter
from memoryd.core.retention import Backup, Quality, backup_name, drop, order, parse_backup_name
from memoryd.core.spans import Fingerprint, sha256
from memoryd.disk import atomic
from memoryd.disk.journal import Journal
from memoryd.disk.journal.backups import BackupRow
from memoryd.disk.syscalls import NotBeneathError, NotRegularError
from memoryd.disk.tree import Tree
from memoryd.errors import ConflictError, NotFoundError
from memoryd.log import get_logger

log = get_logger(__name__)

BACKUP_DIR = ".backup"
_END_OF_TIME = 253_402_300_800.0  # the year 10000: later modification times are nonsense

QualityOf = Callable[[bytes], Quality]
# Backups this process has read or written: path -> the fingerprint then, and the SHA-256 (hex). While the fingerprint
# is equal, another read would return the same cached pages; only an explicit verification reads them anyway.
HashCache = dict[str, tuple[Fingerprint, str]]
_DAMAGED = "its content is not what was backed up"


class CreateResult(Struct, frozen=True):
    """`outcome` is "made" or "equal" (the newest backup has this content). `name` is the backup that holds the
    content. `dropped` were removed by the rotation."""

    outcome: str
    name: str
    sha256: str
    dropped: tuple[str, ...] = ()


class BackupInfo(Backup, frozen=True):
    """A backup on disk. `problem`: why it is not valid. `unread`: its bytes could not be read, which does not prove
    damage. `in_root`: it is in the root itself, next to the memory files, where memoryd makes and removes none."""

    path: str = ""
    problem: str | None = None
    unread: bool = False
    in_root: bool = False

    @property
    def id(self) -> str:
        """The file's name; `./name` for one in the root."""
        return f"./{self.name}" if self.in_root else self.name


class BackupDirectory(Struct, frozen=True):
    """The backups of these files of a root: those in its directory `path`, and those next to the files, where memoryd
    makes and removes none. `quality_of` judges the content of foreign ones; None: they are not judged. `hashes`: of the
    backups that this process has read or written."""

    tree: Tree
    journal: Journal
    files: Sequence[str]
    path: str = BACKUP_DIR
    quality_of: QualityOf | None = None
    hashes: HashCache = field(default_factory=dict)

    def create(
        self,
        file: str,
        content: bytes,
        fingerprint: Fingerprint,
        quality: Quality,
        *,
        limit: int,
        now: float,
        digest: str | None = None,
    ) -> CreateResult:
        """Back up `content` of `file` (read together with `fingerprint`), then rotate to `limit`. `digest`: the SHA-256
        (hex) of the content, if known.

        Every existing backup of the file is read first, except unchanged ones in `hashes`, so that neither "equal" nor
        the rotation relies on a damaged one. Raises OSError for a full or failing disk; then no older backup has been
        removed.
        """
        if fingerprint.size != len(content):
            raise ConflictError(f"{file} changed while it was read for its backup", hint="try again")
        newest_first = [each for each in self.verify(now, in_root=False) if each.file == file]
        digest = digest or sha256(content)
        if newest_first and newest_first[0].valid and newest_first[0].sha256 == digest:
            result = CreateResult("equal", newest_first[0].name, digest)
        else:
            name, seen = self._write_copy(file, content, now)
            self.hashes[f"{self.path}/{name}"] = (seen, digest)
            row = self.journal.backups.add(name, file, taken=now, size=len(content), sha256=digest, quality=quality)
            newest_first.insert(0, backup_from_row(row, f"{self.path}/{name}", len(content)))
            result = CreateResult("made", name, digest)
        return replace(result, dropped=_rotate(self.tree, self.journal, newest_first, limit, now))

    def list_all(self, now: float) -> list[BackupInfo]:
        """List the backups, newest first for each file, those in the root last. Backups in the journal are listed
        without being read; foreign ones are read and judged if `quality_of` is given."""
        found = (*self._in_directory(), *self._in_root())
        is_judged = self.quality_of is not None
        return _sort((self._read_and_judge(each) if each.seq is None and is_judged else each for each in found), now)

    def verify(self, now: float, *, in_root: bool = True, progress: ProgressMeter | None = None) -> list[BackupInfo]:
        """List the backups as `list_all` does, but read every one: those in the journal must have the recorded hash,
        foreign ones must be at least half readable. The verdicts are recorded in the journal. Unchanged ones in
        `hashes` are not read again."""
        found = [*self._in_directory(), *(self._in_root() if in_root else ())]
        parts = (progress or ProgressMeter()).track("verifying", found, lambda each: each.bytes)
        checked = [self._read_and_judge(each) for each in parts]
        marked = {row.id: row.valid for row in self.journal.backups.rows()}
        for each in checked:
            if each.seq is not None and not each.unread and marked.get(each.name) != each.valid:
                self.journal.backups.mark(each.name, valid=each.valid)
        return _sort(checked, now)

    def _in_directory(self) -> Iterator[BackupInfo]:
        rows = {row.name: row for row in self.journal.backups.rows()}
        seen = (self._backup_at(f"{self.path}/{name}", rows.get(name)) for name in _names(self.tree, self.path))
        return (each for each in seen if each is not None)

    def _in_root(self) -> Iterator[BackupInfo]:
        seen = (self._backup_at(name, None) for name in _names(self.tree, ""))
        return (replace(each, in_root=True) for each in seen if each is not None)

    def _backup_at(self, path: str, row: BackupRow | None) -> BackupInfo | None:
        """Return the backup at `path`, or None if it is not a backup of one of these files."""
        name = path.rpartition("/")[2]
        parsed = parse_backup_name(name, self.files)
        if parsed is None:
            return None
        try:
            seen = self.tree.stat(path)
        except NotRegularError:
            return None
        if seen is None:
            return None
        if row is not None and row.file == parsed[0]:
            return backup_from_row(row, path, seen.size)
        at = parsed[1] if parsed[1] is not None else seen.mtime_ns / 1e9
        taken = at if 0 <= at < _END_OF_TIME else None
        empty = "it is empty" if seen.size == 0 else None
        return BackupInfo(name, parsed[0], taken, None, seen.size, None, empty is None, path=path, problem=empty)

    def _write_copy(self, file: str, content: bytes, now: float) -> tuple[str, Fingerprint]:
        """Write a new copy and read it back. Return its name and its fingerprint."""
        tree = self.tree
        tree.mkdir(self.path, 0o700)
        taken = {*tree.listdir(self.path), *(row.name for row in self.journal.backups.rows())}
        name = backup_name(file, now, taken)
        path = f"{self.path}/{name}"
        atomic.create(tree, path, content, 0o600, private=not _has_owner_of(tree, file, self.path))
        stored, seen = tree.read(path)
        if stored != content:
            tree.unlink(path)
            raise OSError(errno.EIO, "read-back does not match what was written", path)
        return name, seen

    def _read_and_judge(self, backup: BackupInfo) -> BackupInfo:
        known = self.hashes.get(backup.path) if backup.seq is not None else None
        if known is not None and known[1] == backup.sha256 and known[0] == self.tree.stat(backup.path):
            return replace(backup, valid=True, problem=None)
        try:
            content, seen = self.tree.read(backup.path)
        except OSError as error:  # gone, too large, unreadable: no proof of damage, but nothing to rely on
            return replace(backup, valid=False, unread=True, problem=f"it cannot be read: {error.strerror}")
        digest = sha256(content)
        self.hashes[backup.path] = (seen, digest)
        if backup.seq is not None:
            sound = digest == backup.sha256
            return replace(backup, valid=sound, problem=None if sound else _DAMAGED)
        return _judge(replace(backup, sha256=digest, bytes=len(content)), content, self.quality_of)


def choose(
    backups: Iterable[BackupInfo], at: str | None = None, *, live: str | None = None, records: int = 0
) -> BackupInfo:
    """Choose the backup to restore from those of one file (newest first).

    With `at`, the one with that id; its time stamp is enough if it is unique. Otherwise the newest valid one that
    differs from the file (whose SHA-256 is `live`) and holds no fewer memories than its `records`; failing that, the
    newest valid one that differs, then the newest valid one. Those in the backup directory come before those in the
    root. Raises NotFoundError, or ConflictError for a damaged one.
    """
    candidates = list(backups)
    if at is None:
        usable = sorted((each for each in candidates if each.valid), key=lambda each: each.in_root)
        if not usable:
            raise NotFoundError("there is no valid backup", hint="`memoryd backup list` shows the backups")
        other = [each for each in usable if each.sha256 != live]
        enough = [each for each in other if each.records is None or each.records >= records]
        return (enough or other or usable)[0]
    named = [each for each in candidates if each.id == at] or [
        each for each in candidates if each.id.endswith(f".{at}")
    ]
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
    """Return the bytes of a backup. Raises ConflictError if they no longer have the hash it was listed with."""
    content, _ = tree.read(backup.path)
    if backup.sha256 is not None and sha256(content) != backup.sha256:
        raise ConflictError(f"the backup {backup.id} has changed since it was made", hint="run `memoryd backup verify`")
    return content


def _has_owner_of(tree: Tree, file: str, directory: str) -> bool:
    """True if the file exists and belongs to the directory's owner. Otherwise that user may not read a copy of it."""
    try:
        return tree.owner_of(file) == tree.owner_of(directory)
    except FileNotFoundError:
        return False


def _rotate(tree: Tree, journal: Journal, backups: Sequence[BackupInfo], limit: int, now: float) -> tuple[str, ...]:
    """Remove the backups that `drop` names, except unreadable ones, and the journal rows of missing ones. Return the
    names of those removed."""
    paths = {each.name: each.path for each in backups if not each.unread}
    dropped: list[str] = []
    for name in (name for name in drop(backups, limit, now) if name in paths):
        try:
            with suppress(FileNotFoundError):  # another program removed it first
                tree.unlink(paths[name])
            dropped.append(name)
        except OSError as error:  # a surplus backup must not fail the new one
            log.warning("backup not removed", path=os.path.join(tree.path, paths[name]), reason=error.strerror)
    there = {each.name for each in backups} - set(dropped)
    gone = [row.id for row in journal.backups.rows(backups[0].file) if row.name not in there]
    if gone:
        journal.backups.remove(gone)
    return tuple(dropped)


def _names(tree: Tree, folder: str) -> list[str]:
    """List the names in the directory; none if it is a symlink, which is not followed."""
    try:
        return tree.listdir(folder)
    except NotBeneathError:
        return []


def backup_from_row(row: BackupRow, path: str, size: int) -> BackupInfo:
    """Return a backup that memoryd made, as recorded in the journal."""
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
        problem=None if valid else _DAMAGED,
    )


def _judge(backup: BackupInfo, content: bytes, quality_of: QualityOf | None) -> BackupInfo:
    """Judge a foreign backup by its content, since no hash is recorded: it must hold memories, and at most half of its
    units may be damaged. An empty one does not prove that the file was empty."""
    if quality_of is None or not content:
        return backup
    quality = quality_of(content)
    usable = quality.records > 0 and 2 * quality.damaged <= quality.units
    problem = None if usable else f"{quality.damaged} of its {quality.units} units cannot be read"
    return replace(backup, records=quality.records, valid=usable, problem=problem)


def _sort(found: Iterable[BackupInfo], now: float) -> list[BackupInfo]:
    groups: dict[tuple[str, bool], list[BackupInfo]] = {}
    for each in found:
        groups.setdefault((each.file, each.in_root), []).append(each)
    return [each for key in sorted(groups) for each in reversed(order(groups[key], now))]
