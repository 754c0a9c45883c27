"""Index changed files: the whole file, the lines appended to it, or only the lines that memoryd changed.

Events are only hints; a full scan is authoritative. `whole_files` and `changed_lines` have what is done for a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from memoryd.core.index import FileRow
from memoryd.core.records import Role
from memoryd.core.spans import Fingerprint
from memoryd.disk.syscalls import NotBeneathError, NotRegularError
from memoryd.operations.changed_lines import FileOutcome, index_grown, index_own_change, index_tail, is_unchanged
from memoryd.operations.check import ARCHIVED_TOPIC, FILES_TOPIC, clear_unread, note_archived, note_kind, odd_files
from memoryd.operations.losses import mass_loss, note_deletion, update_losses
from memoryd.operations.whole_files import index_new_files, index_whole_file
from memoryd.store import Store

READ_ROLES = (Role.SOURCE, Role.ARCHIVE)


class RefreshResult(Struct, frozen=True):
    """The result of indexing changed files.

    `waiting`: files to look at again soon: half-written ones, and those whose loss of memories may be temporary.
    `accessed`: changed files with the same meaning as before. `linked`: a file has several hard links. Of a full scan,
    `directories`: path -> (dev, inode); `loss`: why the root is suspect, and nothing was removed from the catalogue.
    """

    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    directories: dict[str, tuple[int, int]] | None = None
    loss: str | None = None
    accessed: tuple[str, ...] = ()
    linked: bool = False


def refresh(
    store: Store,
    paths: Iterable[str] | None,
    now: float,
    *,
    verify: bool = False,
    tails: bool = False,
    deletions_observed: bool = True,
) -> RefreshResult:
    """Index what changed at these paths, or anywhere (None). `verify` also hashes files that look unchanged; `tails`
    reads only the end of a file that seems to have been appended to.

    Unless `deletions_observed` (events showed them), a sudden loss of most memories is returned and nothing is indexed.
    """
    due, store.index.dirty = store.index.dirty, True  # stays due after a failure: what was indexed is not told again
    archived_at, store.index.archived_at = store.index.archived_at, -1  # likewise
    needs_scan, store.index.needs_scan = store.index.needs_scan, True  # after a failure nobody else knows these paths
    with store.catalogue.batch():
        if paths is None:
            done = _refresh_all(store, now, verify=verify, deletions_observed=deletions_observed)
        else:
            done = _refresh_paths(store, paths, now, verify=verify, tails=tails)
        unsure = update_losses(store, done.changed, now) if store.losses.due else ()
    changed = bool(done.changed or done.deleted)
    store.index.dirty, store.index.changes = due or changed, store.index.changes + changed
    store.index.archived_at = archived_at
    store.index.needs_scan = needs_scan and paths is not None
    if paths is None or (not tails and store.root_findings.get(ARCHIVED_TOPIC)):
        note_archived(store)
    return replace(done, waiting=tuple(dict.fromkeys((*done.waiting, *unsure)))) if unsure else done


def _refresh_paths(store: Store, paths: Iterable[str], now: float, *, verify: bool, tails: bool) -> RefreshResult:
    outcomes: dict[str, FileOutcome] = {}
    deleted: list[str] = []
    linked = False
    for path in paths:
        if store.role(path) not in READ_ROLES:
            continue
        row = store.catalogue.file(path)
        found = _stat(store, path)
        if found is None:
            store.pending_changes.indexed(path)
            if row is not None:
                deleted.append(path)
                note_deletion(store, path, now)
        else:
            linked |= found.nlink > 1
            if tails and row is not None and is_unchanged(row, found):
                continue  # by a further event of the same change; the next refresh without `tails` makes sure
            if tails and row is not None and index_tail(store, row, found, now):
                outcomes[path] = FileOutcome.CHANGED
                store.pending_changes.indexed(path)
            else:
                outcomes[path] = _index_file(store, path, found, row, now, verify=verify)
    _forget(store, deleted, now)
    return replace(_result(outcomes, deleted), linked=linked)


def _stat(store: Store, path: str) -> Fingerprint | None:
    """Return the fingerprint of a file, or None if there is none; note what is in its place."""
    found, is_irregular = None, False
    try:
        found = store.tree.stat(path)
    except NotRegularError:
        is_irregular = True
    except NotBeneathError:
        pass  # a directory of the path is a link: the next scan reports it
    note_kind(store, path, is_irregular=is_irregular)
    return found


def _refresh_all(store: Store, now: float, *, verify: bool, deletions_observed: bool) -> RefreshResult:
    scan = store.scan()
    store.unlisted_since = (store.unlisted_since or now) if scan.unreadable else None
    wanted = _readable(store, scan.files)
    new, changed, gone, known_records = store.catalogue.compare(wanted)
    deleted = [path for path in gone if not _is_under(path, scan.unreadable)]
    missing = [path for path in deleted if not store.is_ignored(path)]  # newly ignored files are no loss
    loss = None if deletions_observed else mass_loss(sum(gone[path] for path in missing), known_records)
    if loss:
        return RefreshResult(directories=scan.directories, loss=loss)
    if verify:
        unknown = frozenset(new)
        changed = [path for path in wanted if path not in unknown]
    with store.progress.measure("reading", "bytes", sum(wanted[path].size for path in (*new, *changed))):
        outcomes = index_new_files(store, {path: wanted[path] for path in new}, now)
        for path in changed:
            store.check_stopping()
            with store.progress.part(wanted[path].size):
                outcomes[path] = _index_file(store, path, wanted[path], store.catalogue.file(path), now, verify=verify)
    for path in missing:
        note_deletion(store, path, now)
    _forget(store, deleted, now)
    store.pending_changes.indexed_all()
    hiding = (path for path in scan.directories if path and store.role(path) in READ_ROLES)
    store.root_findings[FILES_TOPIC] = tuple(odd_files(store, (*scan.irregular, *hiding), scan.unreadable))
    return replace(
        _result(outcomes, deleted, scan.directories), linked=any(found.nlink > 1 for found in scan.files.values())
    )


def _readable(store: Store, files: dict[str, Fingerprint]) -> dict[str, Fingerprint]:
    """Return the scanned files that are read. A scan enters no ignored directory, so only globs can ignore a file."""
    if store.layout is None:
        return {}
    role = store.role if store.policy.ignore else store.layout.reader.role
    return {path: found for path, found in files.items() if role(path) in READ_ROLES}


def _forget(store: Store, deleted: Iterable[str], now: float) -> None:
    for path in deleted:
        if store.role(path) is Role.SOURCE:
            store.index.note_deletion(now)
        clear_unread(store, path)
        store.catalogue.forget(path)


def _result(
    outcomes: Mapping[str, FileOutcome], deleted: Iterable[str], directories: dict[str, tuple[int, int]] | None = None
) -> RefreshResult:
    def of(*wanted: FileOutcome) -> tuple[str, ...]:
        return tuple(path for path, outcome in outcomes.items() if outcome in wanted)

    changed = of(FileOutcome.CHANGED, FileOutcome.ACCESSED, FileOutcome.HALF_WRITTEN)
    waiting = of(FileOutcome.HALF_WRITTEN, FileOutcome.WAITING)
    return RefreshResult(changed, tuple(deleted), waiting, directories, accessed=of(FileOutcome.ACCESSED))


def _is_under(path: str, directories: Iterable[str]) -> bool:
    return any(path == directory or path.startswith(f"{directory}/") or not directory for directory in directories)


def _index_file(
    store: Store, path: str, found: Fingerprint, row: FileRow | None, now: float, *, verify: bool
) -> FileOutcome:
    """Index one file if it changed."""
    outcome = _index_changed(store, path, found, row, now, verify=verify)
    store.pending_changes.indexed(path)
    if outcome is not FileOutcome.WAITING:
        store.losses.removed.pop(path, None)
    return outcome


def _index_changed(
    store: Store, path: str, found: Fingerprint, row: FileRow | None, now: float, *, verify: bool
) -> FileOutcome:
    if row and row.digest and is_unchanged(row, found) and not (row.recently_modified or row.pending or verify):
        return FileOutcome.SAME
    if row and index_own_change(store, row, found, now):
        return FileOutcome.CHANGED
    grown = index_grown(store, row, found, now) if row and row.digest else None
    return index_whole_file(store, path, found, row, now) if grown is None else grown
