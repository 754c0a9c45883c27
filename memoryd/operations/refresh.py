"""Index changed files: the whole file, the lines appended to it, or only the lines that memoryd changed.

Events are only hints; a full scan is authoritative. `changed_lines` has what is done for lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from memoryd.core.digest import digest_of
from memoryd.core.findings import Finding
from memoryd.core.index import FileRow
from memoryd.core.records import Document, ParseOffset, Role
from memoryd.core.spans import Fingerprint
from memoryd.disk.disk_errors import refusal
from memoryd.disk.syscalls import MB, ChangingError, NotBeneathError, NotRegularError, TooLargeError
from memoryd.operations.access_counts import add_counts
from memoryd.operations.changed_lines import (
    append_part,
    index_grown,
    index_own_change,
    index_tail,
    is_unchanged,
    restamp,
    with_counts,
)
from memoryd.operations.check import (
    ARCHIVED_TOPIC,
    FILES_TOPIC,
    clear_unread,
    file_findings,
    note_archived,
    note_kind,
    note_unread,
    odd_files,
)
from memoryd.operations.file_versions import begin_version, note_version, save_versions
from memoryd.operations.losses import (
    mass_loss,
    note_deletion,
    note_loss,
    note_losses_of_new_files,
    overwrite_losses,
    update_losses,
)
from memoryd.operations.overwrites import find_lost_writes, is_watched, undo_findings
from memoryd.store import Store

READ_ROLES = (Role.SOURCE, Role.ARCHIVE)
CHUNK_SIZE = 256 * 1024  # bytes of a line-based file that are parsed at a time
GROUP_FILES, GROUP_BYTES = 64, CHUNK_SIZE  # new files that enter the catalogue together
RETRY_S = 60.0  # for so long a file that cannot be read is read again, without an event
SLOW_TO_PARSE = 1024 * 1024  # bytes of a document whose pieces are kept at once; a smaller one parses in 50 ms


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
        unsure = update_losses(store, done.changed, now) if store.has_losses else ()
    changed = bool(done.changed or done.deleted)
    store.index.dirty, store.index.changes = due or changed, store.index.changes + changed
    store.index.archived_at = archived_at
    store.index.needs_scan = needs_scan and paths is not None
    if paths is None or (not tails and store.root_findings.get(ARCHIVED_TOPIC)):
        note_archived(store)
    return replace(done, waiting=tuple(dict.fromkeys((*done.waiting, *unsure)))) if unsure else done


def _refresh_paths(store: Store, paths: Iterable[str], now: float, *, verify: bool, tails: bool) -> RefreshResult:
    outcomes: dict[str, str] = {}
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
            by_tail = tails and row is not None and index_tail(store, row, found, now)
            outcomes[path] = "changed" if by_tail else index_file(store, path, found, row, now, verify=verify)
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
        outcomes = _index_new(store, {path: wanted[path] for path in new}, now)
        for path in changed:
            store.check_stopping()
            with store.progress.part(wanted[path].size):
                outcomes[path] = index_file(store, path, wanted[path], store.catalogue.file(path), now, verify=verify)
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


def _index_new(store: Store, files: Mapping[str, Fingerprint], now: float) -> dict[str, str]:
    """Index files that are not in the catalogue, many at once and in the order of their names: most begin with a date,
    so the newest memories get the highest keys, and SQLite appends. Returns what `index_file` does, by path."""
    outcomes: dict[str, str] = {}
    group: list[tuple[FileRow, Document]] = []
    done = 0
    try:
        with store.tree.scanned() as scanned:
            for part in _groups(files):
                # Parsed after the last is read: a system call clears the processor's caches of what parses.
                contents: list[bytes | None] = []
                for path, found in part:
                    store.check_stopping()
                    contents.append(scanned.read(path, found))
                for (path, found), content in zip(part, contents, strict=True):
                    store.check_stopping()
                    outcomes[path] = _read_new(store, path, found, content, now, group)
                    done += found.size
                _add_group(store, group, now)
                store.progress.reach(done)
    finally:
        _add_group(store, group, now)  # a shutdown keeps what was read
    return outcomes


def _groups(files: Mapping[str, Fingerprint]) -> Iterator[list[tuple[str, Fingerprint]]]:
    """Yield the files in order, in the groups that enter the catalogue together."""
    part: list[tuple[str, Fingerprint]] = []
    size = 0
    for path, found in sorted(files.items()):
        part.append((path, found))
        size += found.size
        if len(part) >= GROUP_FILES or size >= GROUP_BYTES:
            yield part
            part, size = [], 0
    yield part


def _read_new(
    store: Store,
    path: str,
    fingerprint: Fingerprint,
    content: bytes | None,
    now: float,
    group: list[tuple[FileRow, Document]],
) -> str:
    """Parse one file into the group; a large line-based one enters the catalogue at once. `content`: None if the file
    is not as it was found, and must be read. Returns its outcome."""
    if content is None:
        read = _read(store, path, fingerprint, now)
        if isinstance(read, str):
            return read
        content, fingerprint = read
    else:
        clear_unread(store, path)
    if _has_chunks(store, content):
        done = _index_in_chunks(store, _new_row(store, path, content, fingerprint, now), content, now)
        note_loss(store, None, done, now)
        return "half-written" if done.pending else "changed"
    deflation = begin_version(store, content)
    row, document = _parsed(store, path, content, fingerprint, now)
    note_version(store, row, content, now, deflation=deflation)
    group.append((row, document))
    return "half-written" if document.pending else "changed"


def _add_group(store: Store, group: list[tuple[FileRow, Document]], now: float) -> None:
    """Add the files to the catalogue and empty the group, also if that fails."""
    files = tuple(group)
    group.clear()
    if files:
        note_losses_of_new_files(store, [row for row, _ in files], now)
        store.catalogue.add(files)


def _forget(store: Store, deleted: Iterable[str], now: float) -> None:
    for path in deleted:
        if store.role(path) is Role.SOURCE:
            store.index.note_deletion(now)
        clear_unread(store, path)
        store.catalogue.forget(path)


def _result(
    outcomes: Mapping[str, str], deleted: Iterable[str], directories: dict[str, tuple[int, int]] | None = None
) -> RefreshResult:
    def of(*names: str) -> tuple[str, ...]:
        return tuple(path for path, outcome in outcomes.items() if outcome in names)

    changed, waiting = of("changed", "accessed", "half-written"), of("half-written", "waiting")
    return RefreshResult(changed, tuple(deleted), waiting, directories, accessed=of("accessed"))


def _is_under(path: str, directories: Iterable[str]) -> bool:
    return any(path == directory or path.startswith(f"{directory}/") or not directory for directory in directories)


def index_file(store: Store, path: str, found: Fingerprint, row: FileRow | None, now: float, *, verify: bool) -> str:
    """Index one file if it changed. Returns same, changed, accessed (indexed, with the same meaning), half-written
    (indexed, to be read again) or waiting (not readable at the moment)."""
    outcome = _index_changed(store, path, found, row, now, verify=verify)
    store.pending_changes.indexed(path)
    if outcome != "waiting":
        store.removed_ids.pop(path, None)
    return outcome


def _index_changed(
    store: Store, path: str, found: Fingerprint, row: FileRow | None, now: float, *, verify: bool
) -> str:
    if row and row.digest and is_unchanged(row, found) and not (row.recently_modified or row.pending or verify):
        return "same"
    if row and index_own_change(store, row, found, now):
        return "changed"
    grown = index_grown(store, row, found, now) if row and row.digest else None
    if grown is not None:
        return grown
    read = _read(store, path, found, now)
    return read if isinstance(read, str) else _index_content(store, path, *read, row, now)


def _read(store: Store, path: str, found: Fingerprint, now: float) -> tuple[bytes, Fingerprint] | str:
    """Return the content of a file and its fingerprint, or the outcome if it cannot be read now. After a minute of
    failures a file is left to the scans: each attempt may wait long for a failing disk."""
    try:
        read = store.tree.read(path, growing=True)
    except (FileNotFoundError, ChangingError):
        return "waiting"  # it is being replaced; an event or the next scan follows
    except TooLargeError:
        message = f"{found.size} bytes, more than {store.max_bytes // MB} MB are not read"
        return note_unread(store, path, found, Finding("too-large", path, message))
    except OSError as error:
        outcome = note_unread(store, path, found, Finding("unreadable", path, f"cannot be read: {error.strerror}"))
        since = store.unreadable_since.setdefault(path, now)
        if refusal(error) is None or now - since > RETRY_S:  # a change of its mode or owner would cause an event
            return outcome
        return "half-written" if outcome == "changed" else "waiting"
    clear_unread(store, path)
    return read


def _index_content(
    store: Store, path: str, content: bytes, fingerprint: Fingerprint, row: FileRow | None, now: float
) -> str:
    new = _new_row(store, path, content, fingerprint, now)
    mtime, recently_modified = fingerprint.mtime_ns / 1e9, new.recently_modified
    if row and row.digest == new.digest and not row.pending:
        return restamp(store, row, row._replace(fingerprint=fingerprint, recently_modified=recently_modified))
    if _has_chunks(store, content):
        known = store.catalogue.identities(path) if row is not None else []
        done = _index_in_chunks(store, new, content, now)
        note_loss(store, row, done, now, known)
        return "half-written" if done.pending else "changed"
    if row and _index_change(store, row, new, content, now):
        return "changed"
    if store.file_rules.agent_caches_file:
        save_versions(store, now)  # with which this one is compared
    deflation = begin_version(store, content)
    document = store.known_layout.reader.parse(path, content, now=now, mtime=mtime, base=ParseOffset())
    if row and row.records and document.pending and not document.records and not store.file_rules.append_only:
        # Another program is rewriting the file; until it can be parsed, its old content stays in use.
        store.catalogue.restamp(
            row._replace(fingerprint=fingerprint, recently_modified=recently_modified, pending=True)
        )
        return "waiting"
    read = with_counts(new, document, None)
    completed = _completed(store, read, content, document, now)
    note_loss(store, row, read, now)
    store.catalogue.replace(read, completed)
    store.file_pieces.note(path, read.digest, store.known_layout.reader.pieces(content, document))
    note_version(store, read, content, now, deflation=deflation)
    if document.pending:
        return "half-written"
    return "accessed" if row and _has_same_meaning(row, document) else "changed"


def _index_change(store: Store, row: FileRow, new: FileRow, content: bytes, now: float) -> bool:
    """Index only the changed part of a document. Returns False if it must be parsed whole: also after a loss, and while
    a change of memoryd to it is watched."""
    pieces = store.file_pieces.of(row)
    if pieces is None or row.pending or is_watched(store, row.path):
        return False
    change = store.known_layout.reader.parse_change(row.path, content, pieces)
    known = store.catalogue.finding_counts(row.path)
    if change is None or change.document.units < row.records or any(code not in change.recounted for _, code in known):
        return False
    document = change.document
    read = new._replace(units=document.units, records=document.units, facts=document.facts)
    store.catalogue.replace_range(read, change.replaced, add_counts(store, document), recounted=change.recounted)
    store.file_pieces.note(row.path, new.digest, change.pieces)
    note_version(store, read, content, now, later=True)
    return True


def _parsed(store: Store, path: str, content: bytes, fingerprint: Fingerprint, now: float) -> tuple[FileRow, Document]:
    """Parse a whole file that is not in the catalogue."""
    mtime = fingerprint.mtime_ns / 1e9
    document = store.known_layout.reader.parse(path, content, now=now, mtime=mtime, base=ParseOffset())
    row = with_counts(_new_row(store, path, content, fingerprint, now), document, None)
    if len(content) >= SLOW_TO_PARSE:
        store.file_pieces.note(path, row.digest, store.known_layout.reader.pieces(content, document))
    return row, _completed(store, row, content, document, now)


def _new_row(store: Store, path: str, content: bytes, fingerprint: Fingerprint, now: float) -> FileRow:
    """Return the row of a file without the counts of its memories."""
    digest = digest_of(content)
    if store.file_rules.append_only:
        store.file_ends.note(path, fingerprint, digest, content)
    return FileRow(
        path,
        str(store.role(path)),
        fingerprint,
        digest.hexdigest(),
        lines=content.count(b"\n"),
        ends_with_newline=content.endswith(b"\n"),
        recently_modified=fingerprint.is_recent(now),
    )


def _completed(store: Store, row: FileRow, content: bytes, document: Document, now: float) -> Document:
    """Return a document with what the store knows of the file: findings about the whole file, and counts of reads."""
    told = (*overwrite_losses(store, row), *undo_findings(store, row, document))
    more = (*file_findings(store, row, is_empty=not content), *told)
    find_lost_writes(store, row, content, document, now)
    counted = add_counts(store, document)
    return replace(counted, findings=(*document.findings, *more)) if more else counted


def _has_same_meaning(row: FileRow, document: Document) -> bool:
    """True if the file means the same as before, in layouts that can tell."""
    meaning = document.facts.get("meaning")
    return meaning is not None and row.facts.get("meaning") == meaning


def _has_chunks(store: Store, content: bytes) -> bool:
    """True for a line-based file that is indexed in chunks."""
    return store.file_rules.append_only and len(content) > CHUNK_SIZE


def _index_in_chunks(store: Store, new: FileRow, content: bytes, now: float) -> FileRow:
    """Index a large line-based file in chunks, to bound memory use; return its row. Until the last chunk the row has
    no digest: after a crash or a stop the file is read again."""
    mtime = new.fingerprint.mtime_ns / 1e9
    so_far: FileRow | None = None
    base, before = ParseOffset(), store.progress.done
    while base.offset < len(content):
        store.check_stopping()
        newline = content.find(b"\n", base.offset + CHUNK_SIZE)
        end = len(content) if newline < 0 else newline + 1
        part = store.known_layout.reader.parse(new.path, content[base.offset : end], now=now, mtime=mtime, base=base)
        row = new if end == len(content) else new._replace(digest="")
        so_far = with_counts(row, part, so_far)
        if base.offset == 0:
            store.catalogue.replace(so_far, part)
        else:
            append_part(store, so_far, part)
        base = ParseOffset(end, base.line + content.count(b"\n", base.offset, end))
        store.progress.reach(before + end)
    assert so_far is not None
    return so_far
