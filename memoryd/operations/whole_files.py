"""Index whole files: one that changed, or many new ones at once.

Of a document whose changed part can be parsed by itself, only that is indexed; a large file of lines is indexed in
chunks, to bound the use of memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from memoryd.core.defaults import MB
from memoryd.core.digest import digest_of
from memoryd.core.findings import Finding
from memoryd.core.index import FileRow
from memoryd.core.records import Document, ParseOffset
from memoryd.core.spans import Fingerprint
from memoryd.disk.disk_errors import refusal
from memoryd.disk.syscalls import ChangingError, TooLargeError
from memoryd.disk.tree import ScannedFiles
from memoryd.operations.access_counts import add_counts
from memoryd.operations.changed_lines import FileOutcome, append_part, restamp, with_counts
from memoryd.operations.check import clear_unread, file_findings, note_unread
from memoryd.operations.file_versions import note_version, save_versions
from memoryd.operations.losses import note_loss, note_losses_of_new_files, overwrite_losses
from memoryd.operations.overwrites import (
    digests_of,
    find_lost_changes,
    find_lost_writes,
    is_watched,
    may_have_lost_writes,
    undo_findings,
)
from memoryd.store import Store

CHUNK_SIZE = 256 * 1024  # bytes of a line-based file that are parsed at a time
GROUP_FILES, GROUP_BYTES = 64, CHUNK_SIZE  # new files that enter the catalogue together
RETRY_S = 60.0  # for so long a file or directory that cannot be read is read again, without an event
SLOW_TO_PARSE = 1024 * 1024  # bytes of a document whose pieces are kept at once; a smaller one parses in 50 ms


def index_new_files(store: Store, files: Mapping[str, Fingerprint], now: float) -> dict[str, FileOutcome]:
    """Index files that are not in the catalogue, many at once and in the order of their names: most begin with a date,
    so the newest memories get the highest keys, and SQLite appends. Returns the outcome by path."""
    outcomes: dict[str, FileOutcome] = {}
    parsed: list[tuple[FileRow, Document]] = []
    done = 0
    try:
        with store.tree.scanned() as scanned:
            for group in _groups(files):
                outcomes |= _parse_group(store, scanned, group, parsed, now)
                _add(store, parsed, now)
                done += sum(found.size for _, found in group)
                store.progress.reach(done)
    finally:
        _add(store, parsed, now)  # a shutdown keeps what was read
    return outcomes


def _groups(files: Mapping[str, Fingerprint]) -> Iterator[list[tuple[str, Fingerprint]]]:
    """Yield the files in order, in the groups that enter the catalogue together."""
    group: list[tuple[str, Fingerprint]] = []
    size = 0
    for path, found in sorted(files.items()):
        group.append((path, found))
        size += found.size
        if len(group) >= GROUP_FILES or size >= GROUP_BYTES:
            yield group
            group, size = [], 0
    yield group


def _parse_group(
    store: Store,
    scanned: ScannedFiles,
    group: list[tuple[str, Fingerprint]],
    parsed: list[tuple[FileRow, Document]],
    now: float,
) -> dict[str, FileOutcome]:
    """Read and parse a group of files; add them to `parsed`, but what enters the catalogue at once. Returns the outcome
    by path."""
    contents: list[bytes | None] = []
    for path, found in group:
        store.check_stopping()
        contents.append(scanned.read(path, found))
    outcomes: dict[str, FileOutcome] = {}
    # Parsed after the last is read: a system call clears the processor's caches of what parses.
    for (path, found), content in zip(group, contents, strict=True):
        store.check_stopping()
        outcomes[path] = _parse_new(store, path, found, content, now, parsed)
    return outcomes


def _parse_new(
    store: Store,
    path: str,
    fingerprint: Fingerprint,
    content: bytes | None,
    now: float,
    parsed: list[tuple[FileRow, Document]],
) -> FileOutcome:
    """Parse one file into `parsed`; a large line-based one enters the catalogue at once. `content`: None if the file
    is not as it was found, and must be read. Returns its outcome."""
    if content is None:
        read = _read(store, path, fingerprint, now)
        if isinstance(read, FileOutcome):
            return read
        content, fingerprint = read
    else:
        clear_unread(store, path)
    if _has_chunks(store, content):
        done = _index_in_chunks(store, _new_row(store, path, content, fingerprint, now), content, now)
        note_loss(store, None, done, now)
        return FileOutcome.of(done)
    mtime = fingerprint.mtime_ns / 1e9
    document = store.known_layout.reader.parse(path, content, now=now, mtime=mtime, base=ParseOffset())
    row = with_counts(_new_row(store, path, content, fingerprint, now), document, None)
    if len(content) >= SLOW_TO_PARSE:
        store.file_pieces.note(path, row.digest, store.known_layout.reader.pieces(content, document))
    document = _complete(store, row, content, document, now)
    note_version(store, row, content, now)
    parsed.append((row, document))
    return FileOutcome.of(row)


def _add(store: Store, parsed: list[tuple[FileRow, Document]], now: float) -> None:
    """Add the files to the catalogue and empty the list, also if that fails."""
    files = tuple(parsed)
    parsed.clear()
    if files:
        note_losses_of_new_files(store, [row for row, _ in files], now)
        store.catalogue.add(files)


def index_whole_file(store: Store, path: str, found: Fingerprint, row: FileRow | None, now: float) -> FileOutcome:
    """Read a file and index it, if its content changed."""
    read = _read(store, path, found, now)
    return read if isinstance(read, FileOutcome) else _index_content(store, path, *read, row, now)


def _read(store: Store, path: str, found: Fingerprint, now: float) -> tuple[bytes, Fingerprint] | FileOutcome:
    """Return the content of a file and its fingerprint, or the outcome if it cannot be read now. After a minute of
    failures a file is left to the scans: each attempt may wait long for a failing disk."""
    try:
        read = store.tree.read(path, growing=True)
    except (FileNotFoundError, ChangingError):
        return FileOutcome.WAITING  # it is being replaced; an event or the next scan follows
    except TooLargeError:
        message = f"{found.size} bytes, more than {store.max_bytes // MB} MB are not read"
        return _note_unread(store, path, found, Finding("too-large", path, message))
    except OSError as error:
        outcome = _note_unread(store, path, found, Finding("unreadable", path, f"cannot be read: {error.strerror}"))
        since = store.unreadable_since.setdefault(path, now)
        if refusal(error) is None or now - since > RETRY_S:  # a change of its mode or owner would cause an event
            return outcome
        return FileOutcome.HALF_WRITTEN if outcome is FileOutcome.CHANGED else FileOutcome.WAITING
    clear_unread(store, path)
    return read


def _note_unread(store: Store, path: str, found: Fingerprint, finding: Finding) -> FileOutcome:
    return FileOutcome.CHANGED if note_unread(store, path, found, finding) else FileOutcome.SAME


def _index_content(
    store: Store, path: str, content: bytes, fingerprint: Fingerprint, row: FileRow | None, now: float
) -> FileOutcome:
    new = _new_row(store, path, content, fingerprint, now)
    mtime, recently_modified = fingerprint.mtime_ns / 1e9, new.recently_modified
    is_lost = store.pending_changes.is_pending(path)  # a change of memoryd, if the file is as it was before that
    if row and row.digest == new.digest and not row.pending and not is_lost:
        return restamp(store, row, row._replace(fingerprint=fingerprint, recently_modified=recently_modified))
    if _has_chunks(store, content):
        known = store.catalogue.identities(path) if row is not None else []
        done = _index_in_chunks(store, new, content, now)
        note_loss(store, row, done, now, known)
        return FileOutcome.of(done)
    if row and _index_change(store, row, new, content, now):
        return FileOutcome.CHANGED
    if store.file_rules.agent_caches_file:
        save_versions(store, now)  # with which this one is compared
    document = store.known_layout.reader.parse(path, content, now=now, mtime=mtime, base=ParseOffset())
    if row and row.records and document.pending and not document.records and not store.file_rules.append_only:
        # Another program is rewriting the file; until it can be parsed, its old content stays in use.
        store.catalogue.restamp(
            row._replace(fingerprint=fingerprint, recently_modified=recently_modified, pending=True)
        )
        return FileOutcome.WAITING
    read = with_counts(new, document, None)
    completed = _complete(store, read, content, document, now)
    note_loss(store, row, read, now)
    store.catalogue.replace(read, completed)
    store.file_pieces.note(path, read.digest, store.known_layout.reader.pieces(content, document))
    note_version(store, read, content, now)
    meaning = document.facts.get("meaning")  # in layouts that can tell whether the file means the same as before
    same_meaning = row is not None and meaning is not None and row.facts.get("meaning") == meaning
    return FileOutcome.ACCESSED if same_meaning and not document.pending else FileOutcome.of(read)


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


def _complete(store: Store, row: FileRow, content: bytes, document: Document, now: float) -> Document:
    """Return a document with what the store knows of the file: findings about the whole file, and counts of reads."""
    reported = find_lost_writes(store, row, content, document, now)
    told = (*overwrite_losses(store, row), *undo_findings(store, row, document, reported))
    more = (*file_findings(store, row, is_empty=not content), *told)
    counted = add_counts(store, document)
    return replace(counted, findings=(*document.findings, *more)) if more else counted


def _has_chunks(store: Store, content: bytes) -> bool:
    """True for a line-based file that is indexed in chunks."""
    return store.file_rules.append_only and len(content) > CHUNK_SIZE


def _index_in_chunks(store: Store, new: FileRow, content: bytes, now: float) -> FileRow:
    """Index a large line-based file in chunks, to bound memory use; return its row. Until the last chunk the row has
    no digest: after a crash or a stop the file is read again."""
    mtime = new.fingerprint.mtime_ns / 1e9
    so_far: FileRow | None = None
    base, before = ParseOffset(), store.progress.done
    present: dict[str, str] | None = {} if may_have_lost_writes(store, new) else None
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
        if present is not None:
            present |= digests_of(part, content)
        base = ParseOffset(end, base.line + content.count(b"\n", base.offset, end))
        store.progress.reach(before + end)
    assert so_far is not None
    if present is not None:
        find_lost_changes(store, so_far, present, {}, now)
    return so_far
