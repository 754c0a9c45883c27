"""Back up, verify and restore the live files of a store. `engine.job_runner` reports a run that fails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import UNSET

from memoryd.control.methods.recovery import BackupRow, CreatedBackup
from memoryd.core.dates import iso
from memoryd.core.index import FileRow
from memoryd.core.records import Role
from memoryd.core.retention import Quality, drop
from memoryd.core.spans import sha256
from memoryd.disk import backups
from memoryd.disk.backups import BackupDirectory, BackupInfo
from memoryd.disk.snapshots import FileState, Snapshot, Version
from memoryd.disk.syscalls import NO_FILE
from memoryd.errors import NotFoundError, nearest
from memoryd.operations.file_versions import VERSIONS_TOPIC
from memoryd.store import Store
from memoryd.store.commit import back_up


def create_backups(store: Store, now: float, *, file: str | None = None, dry_run: bool = False) -> list[CreatedBackup]:
    """Back up each live file (or one) that differs from its newest backup.

    A dry run returns the same outcomes without ids. Raises NotFoundError for a file that is not a memory file.
    """
    if store.file_rules.backup_dir is None:
        if file is not None:
            return back_up_file(store, file, now, dry_run=dry_run)
        files = store.catalogue.files()  # of them those that were read completely
        sources = {path: row for path, row in files.items() if row.role == Role.SOURCE and row.digest}
        if not sources:
            return [CreatedBackup(file=None, outcome="empty", id=None)]
        return [CreatedBackup(file=None, outcome="due")] if dry_run else take_snapshot(store, sources, now)
    results = (_back_up_in_root(store, path, now, dry_run=dry_run) for path in _files(store, file))
    return [each for each in results if each is not None]


def _back_up_in_root(store: Store, path: str, now: float, *, dry_run: bool) -> CreatedBackup | None:
    """Back up one file into the backup directory of the root; None if it was removed or replaced in the meantime."""
    try:
        content, _ = store.tree.read(path, growing=True)
    except NO_FILE:
        return None
    newest = store.journal.backups.rows(path)[-1:]
    same = newest and newest[0].valid and newest[0].sha256 == sha256(content)
    if same and store.tree.stat(f"{_backup_dir(store)}/{newest[0].name}") and not _has_surplus(store, path, now):
        return CreatedBackup(file=path, outcome="equal", id=newest[0].id)
    if not content:
        # An empty file, perhaps after its last memory was archived, needs no backup and no lock.
        return CreatedBackup(file=path, outcome="empty", id=None)
    if dry_run:
        return CreatedBackup(file=path, outcome="due")
    with store.locked(store.policy.lock_wait_s):
        content, fingerprint = store.tree.read(path)
        made = back_up(store, path, content, fingerprint, now)
    backup_id = made or next((row.id for row in store.journal.backups.rows(path)[-1:]), None)
    return CreatedBackup(file=path, outcome="made" if made else "equal", id=backup_id)


def _has_surplus(store: Store, path: str, now: float) -> bool:
    """True if an interrupted rotation left more backups than the limit."""
    rotated = [each for each in directory_backups(store, now, file=path) if not each.in_root]
    return bool(drop(rotated, store.policy.backups, now))


def _files(store: Store, file: str | None) -> list[str]:
    live = [path for path in store.known_layout.reader.source_paths(()) if store.tree.find(path) is not None]
    if file is None:
        return live
    if file not in store.known_layout.reader.source_paths(()):
        raise NotFoundError(f"root {store.name}: {file} is not a memory file", hint=f"one of: {', '.join(live)}")
    return [file] if file in live else []


def _backup_dir(store: Store) -> str:
    return store.file_rules.backup_dir or backups.BACKUP_DIR


def list_backups(store: Store, now: float, *, file: str | None = None, verify: bool = False) -> list[BackupRow]:
    """List everything that `restore` accepts, newest first for each file: backups, snapshots, versions of files,
    replaced index files of other programs, and the quarantine. `verify` reads each one and compares it with its hash.
    Raises NotFoundError for a file that the root neither has nor has a backup of.
    """
    if file is not None:
        require_known(store, file, now)
    return _list_all(store, now, file, verify=verify)


def require_known(store: Store, file: str, now: float) -> None:
    """Raise NotFoundError for a file that the root neither has nor has a backup of."""
    known = file in store.known_layout.reader.source_paths(()) or store.catalogue.file(file) is not None
    if not known and not _list_all(store, now, file):
        raise no_backup(store, file, now)


def no_backup(store: Store, file: str, now: float) -> NotFoundError:
    """Return the error for a file without a backup; the hint is the file that was probably meant."""
    near = nearest(file, {each.file for each in _list_all(store, now) if each.file is not None} - {file})
    hint = f"did you mean {near}?" if near else f"`memoryd backup list {store.name}` shows the backups"
    return NotFoundError(f"root {store.name}: no backup of {file}", hint=hint)


def _list_all(store: Store, now: float, file: str | None = None, *, verify: bool = False) -> list[BackupRow]:
    in_root = store.file_rules.backup_dir is not None
    return [
        *(_row(store.name, each) for each in (_in_root(store, now, file, verify=verify) if in_root else ())),
        *list_vault(store, file=file, verify=verify, snapshots=not in_root),
        *_list_quarantine(store, file, verify=verify),
    ]


def _in_root(store: Store, now: float, file: str | None, *, verify: bool) -> Iterable[BackupInfo]:
    if not store.attached:
        return _missing_backups(store, file)
    return directory_backups(store, now, file=file, verify=verify)


def _missing_backups(store: Store, file: str | None) -> Iterator[BackupInfo]:
    """Yield the backups that were in the directory of the root, which is missing, as the journal knows them."""
    problem = f"missing with {store.path}/{_backup_dir(store)}"
    for each in reversed(store.journal.backups.rows(file)):
        records = each.quality.records
        yield BackupInfo(each.id, each.file, each.taken, records, each.bytes, each.sha256, False, problem=problem)


def _list_quarantine(store: Store, file: str | None, *, verify: bool) -> list[BackupRow]:
    is_valid = store.blobs.is_sound if verify else store.blobs.has
    return [
        BackupRow(
            root=store.name,
            id=f"q{each.seq}",
            file=each.file,
            taken=iso(each.at),
            bytes=each.bytes,
            sha256=each.sha256,
            valid=is_valid(each.blob),
            reason=each.reason,
        )
        for each in reversed(store.journal.quarantine.entries())
        if file in (None, each.file)
    ]


class BackupSummary(NamedTuple):
    """The number of backups, and the time of the newest in epoch seconds."""

    number: int = 0
    newest: float | None = None


NO_BACKUPS = BackupSummary()


def count_backups(store: Store, now: float) -> BackupSummary:
    """Count the backups of a store for `status`."""
    if store.file_rules.backup_dir is None:
        snapshots = store.vault.snapshots()
        return BackupSummary(len(snapshots), max((each.taken for each in snapshots), default=None))
    found = [each for each in directory_backups(store, now) if not each.in_root]
    return BackupSummary(len(found), max((each.taken for each in found if each.taken is not None), default=None))


def directory_backups(store: Store, now: float, *, file: str | None = None, verify: bool = False) -> list[BackupInfo]:
    """Return the backups in the backup directory of the root, of one file or all, newest first. `verify` reads them."""
    files: Sequence[str] = store.known_layout.reader.source_paths(()) if file is None else (file,)
    if not files:
        return []
    directory = BackupDirectory(
        store.tree,
        store.journal,
        files,
        _backup_dir(store),
        quality_of=lambda content: store.quality(files[0], content, now),
    )
    return directory.verify(now, progress=store.progress) if verify else directory.list_all(now)


def _row(root: str, backup: BackupInfo) -> BackupRow:
    return BackupRow(
        root=root,
        id=backup.id,
        file=backup.file,
        taken=iso(backup.taken) if backup.taken is not None else None,
        bytes=backup.bytes,
        sha256=backup.sha256,
        valid=backup.valid,
        problem=backup.problem or UNSET,
    )


def take_snapshot(store: Store, sources: Mapping[str, FileRow], now: float) -> list[CreatedBackup]:
    """Take a snapshot of every source file. Content that is already stored is not read again."""
    made = store.vault.take(_states(store, sources), now, keep=store.policy.backups)
    # Every file is saved as it is now.
    store.unsaved_versions.dropped, store.root_findings[VERSIONS_TOPIC] = 0, ()
    if made is None:
        newest = store.vault.snapshots()[0]
        return [CreatedBackup(file=None, outcome="equal", id=newest.id)]
    return [CreatedBackup(file=None, outcome="made", id=made.id, files=made.files)]


def back_up_file(store: Store, path: str, now: float, *, dry_run: bool = False) -> list[CreatedBackup]:
    """Back up one file. Raises NotFoundError if it is not a source file of the store."""
    if store.role(path) is not Role.SOURCE or store.catalogue.file(path) is None:
        hint = "give the path of a memory file relative to the root, as `memoryd backup list` prints it"
        raise NotFoundError(f"root {store.name}: {path} is not a memory file", hint=hint)
    content, fingerprint = store.tree.read(path)
    if dry_run:
        same = store.vault.has_content(sha256(content))
        return [CreatedBackup(file=path, outcome="equal" if same else "due")]
    made = back_up(store, path, content, fingerprint, now)
    newest = next(iter(store.vault.versions(path)), None)
    if made is None and (newest is None or newest.sha256 != sha256(content)):
        # Emptied, or only its access counts differ from the newest version.
        outcome = "same memories" if content else "empty"
        return [CreatedBackup(file=path, outcome=outcome, id=newest.id if newest else None)]
    backup_id = made or (newest.id if newest else None)
    return [CreatedBackup(file=path, outcome="made" if made else "equal", id=backup_id)]


def _states(store: Store, sources: Mapping[str, FileRow]) -> Iterator[FileState]:
    for path, row in sources.items():
        found = store.tree.find(path)
        if found is None:
            continue
        quality, meaning = Quality(row.units, row.records), str(row.facts.get("meaning", ""))
        if found.same_content(row.fingerprint) and not row.recently_modified and store.vault.has_content(row.digest):
            yield FileState(path, row.digest, found.mode, quality, None, meaning)
            continue
        try:
            content, fingerprint = store.tree.read(path)
        except NO_FILE:
            continue  # removed or replaced in the meantime
        digest, quality = sha256(content), store.quality(path, content, now=0.0)
        yield FileState(path, digest, fingerprint.mode, quality, content, meaning if digest == row.digest else "")


def list_vault(store: Store, *, file: str | None, verify: bool, snapshots: bool = True) -> list[BackupRow]:
    """List the snapshots, newest first, then the versions of each file; with `file` only the versions of that file."""
    if verify:
        store.vault.verify(store.progress)
    if file is not None:
        return [_version(store, version) for version in store.vault.versions(file)]
    versions = sorted(store.vault.versions(), key=lambda version: version.file)
    return [
        *(_snapshot(store, each) for each in (store.vault.snapshots() if snapshots else ())),
        *(_version(store, version) for version in versions),
    ]


def _snapshot(store: Store, each: Snapshot) -> BackupRow:
    return BackupRow(
        root=store.name,
        id=each.id,
        file=None,
        files=each.files,
        taken=iso(each.taken),
        bytes=each.size,
        sha256=each.digest,
        valid=each.valid,
        pinned=each.pinned,
    )


def _version(store: Store, version: Version) -> BackupRow:
    return BackupRow(
        root=store.name,
        id=version.id,
        file=version.file,
        taken=iso(version.taken),
        bytes=version.size,
        sha256=version.sha256,
        valid=version.valid,
        pinned=version.pinned,
    )


MAX_UNDO_ENTRIES = 1000  # receipts that can still be undone
MAX_SWEPT = 2000  # blobs per run, so that nothing waits long; the next run continues


def prune_state(store: Store) -> int:
    """Remove blobs that are no longer referenced, and return how many.

    Runs while the worker of the root does nothing else, so the journal references all blobs in use.
    """
    freed = store.journal.prune(MAX_UNDO_ENTRIES)
    store.blobs.drop(freed)
    swept = store.blobs.sweep(store.journal.blobs_in_use(), max_files=MAX_SWEPT)
    return len(freed) + len(swept)
