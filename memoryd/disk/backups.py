"""Making, rotating and choosing backups: plain copies under names that a person can restore with `cp`.

A backup is written whole, read back and compared before any older one goes. None is refused, however damaged the
file is: refusing froze the backups for good after one torn line. The rotation protects the one with the most memories
instead, and equal content is copied once (a loop of 279 corrupt copies in a week pushed out every good one elsewhere).
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from memoryd.core.plan import Fingerprint
from memoryd.core.retention import Quality, backup_name, drop
from memoryd.disk import atomic
from memoryd.disk.copies import PLACE, BackupInfo, Looked, Readable, known_backup, list_backups, verify
from memoryd.disk.journal import Journal
from memoryd.disk.tree import Tree
from memoryd.errors import ConflictError, NotFoundError

__all__ = [
    "PLACE",
    "BackupInfo",
    "CreateResult",
    "Readable",
    "choose",
    "create",
    "list_backups",
    "read_backup",
    "verify",
]


@dataclass(frozen=True, slots=True)
class CreateResult:
    """`outcome` is "made" or "equal" (the newest backup has this content). `name` is the backup that holds the
    content. `dropped` went in rotation, `undropped` should have gone but could not be removed."""

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
    looked_at: Looked | None = None,
    digest: str | None = None,
) -> CreateResult:
    """Backs up `content` of `file` (as read together with `fingerprint`), then rotates to `limit`. `digest` is that of
    the content, where it is known.

    Every existing backup of the file is read first (but for those in `looked_at` that stand there unchanged), so
    that neither "equal" nor a rotation relies on one that has rotted. `files` are all files of the root, to tell whose
    a foreign backup is. Raises OSError when the disk refuses; then no older backup is gone.
    """
    if fingerprint.size != len(content):
        raise ConflictError(f"{file} changed while it was read for its backup", hint="try again")
    known = files or (file,)
    looked = verify(tree, journal, known, now=now, place=place, readable=readable, beside=False, looked_at=looked_at)
    newest_first = [each for each in looked if each.file == file]
    digest = digest or hashlib.sha256(content).hexdigest()
    if newest_first and newest_first[0].valid and newest_first[0].sha256 == digest:
        result = CreateResult("equal", newest_first[0].name, digest)
    else:
        made, seen = _written(tree, journal, file, content, place, now=now)
        if looked_at is not None:
            looked_at[f"{place}/{made}"] = (seen, digest)
        row = journal.add_backup(made, file, taken=now, size=len(content), sha256=digest, quality=quality)
        newest_first.insert(0, known_backup(row, f"{place}/{made}", len(content)))
        result = CreateResult("made", made, digest)
    dropped, undropped = _rotate(tree, journal, newest_first, limit, now)
    return replace(result, dropped=dropped, undropped=undropped)


def choose(
    backups: Iterable[BackupInfo], at: str | None = None, *, live: str | None = None, records: int = 0
) -> BackupInfo:
    """Which of one file's backups (newest first) a restore takes.

    With `at`, the one of that id; the stamp at its end is enough while it names one. Else the newest valid one that
    differs from the file (whose SHA-256 is `live`) and holds no fewer memories than its `records`; where there is
    none, the newest valid one that differs, then the newest valid one. Those in their place go before those beside
    the data. Raises NotFoundError, or ConflictError for one that is damaged."""
    held = list(backups)
    if at is None:
        usable = sorted((each for each in held if each.valid), key=lambda each: each.beside)
        if not usable:
            raise NotFoundError("there is no valid backup", hint="`memoryd backup list` shows what is there")
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
    """Its bytes, of the hash it was listed with. Raises ConflictError when it changed since."""
    content, _ = tree.read(backup.path)
    if backup.sha256 is not None and hashlib.sha256(content).hexdigest() != backup.sha256:
        raise ConflictError(
            f"the backup {backup.id} is not what it was when it was made", hint="run `memoryd backup verify`"
        )
    return content


def _written(
    tree: Tree, journal: Journal, file: str, content: bytes, place: str, *, now: float
) -> tuple[str, Fingerprint]:
    """The name of the new copy, which has been read back, and what `stat` says of it."""
    tree.mkdir(place, 0o700)
    taken = {*tree.listdir(place), *(row.name for row in journal.backup_rows())}
    name = backup_name(file, now, taken)
    path = f"{place}/{name}"
    atomic.create(tree, path, content, 0o600)
    stored, seen = tree.read(path)
    if stored != content:
        tree.unlink(path)
        raise OSError(errno.EIO, "the disk did not keep what was written", path)
    return name, seen


def _rotate(
    tree: Tree, journal: Journal, backups: Sequence[BackupInfo], limit: int, now: float
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Removes what `drop` names, but for ones whose bytes could not be looked at, and lets the journal forget
    what is gone: (removed, not removable)."""
    paths = {each.name: each.path for each in backups if not each.unread}
    dropped: list[str] = []
    undropped: list[str] = []
    for name in (name for name in drop(backups, limit, now) if name in paths):
        try:
            with suppress(FileNotFoundError):  # somebody removed it first
                tree.unlink(paths[name])
            dropped.append(name)
        except OSError:  # a backup too many is no reason to fail the one just made; the result says it
            undropped.append(name)
    there = {each.name for each in backups} - set(dropped)
    gone = [row.id for row in journal.backup_rows(backups[0].file) if row.name not in there]
    if gone:
        journal.forget_backups(gone)
    return tuple(dropped), tuple(undropped)
