"""Index only the lines of a file that memoryd changed, or that were appended to it.

If memoryd made a change to lines, the file is not even read. Of a file that seems to have been appended to, a look
ahead of the index files reads only the end; its row stays marked as recently modified, so that the next refresh makes
sure: it compares what stood before those lines with what was indexed, and keeps none of it.
"""

from __future__ import annotations

from enum import Enum

from msgspec.structs import replace

from memoryd.core.index import FileRow
from memoryd.core.records import Document, ParseOffset, ReplacedRange
from memoryd.core.spans import Fingerprint, Span
from memoryd.disk.syscalls import ChangingError
from memoryd.operations.check import clear_unread, file_findings
from memoryd.store import Store
from memoryd.store.indexed_files import END_BYTES, FileEnd
from memoryd.store.pending_changes import MAX_BYTES

ONCE_PER_FILE = ("crlf-newlines",)
WHOLE_FILE_CODES = ("corrupt-file", "emptied-file")


class FileOutcome(Enum):
    """The outcome of indexing a file if it changed."""

    SAME = "same"
    CHANGED = "changed"
    ACCESSED = "accessed"  # indexed, with the same meaning as before
    HALF_WRITTEN = "half-written"  # indexed, to be read again
    WAITING = "waiting"  # not readable at the moment

    @classmethod
    def of(cls, row: FileRow) -> FileOutcome:
        """Return the outcome for a file that was indexed with this row."""
        return cls.HALF_WRITTEN if row.pending else cls.CHANGED


def index_own_change(store: Store, row: FileRow, found: Fingerprint, now: float) -> bool:
    """Index a change of memoryd to whole lines of a file without findings, without reading the file. Returns False if
    another program changed the file too."""
    change = store.pending_changes.between(row.path, row.fingerprint, found)
    if store.layout is None or change is None or row.pending or not (row.digest and row.ends_with_newline):
        return False
    mtime = change.after.mtime_ns / 1e9
    base = ParseOffset(change.start, row.lines + 1 if change.line is None else change.line)
    old_part = store.layout.reader.parse(row.path, change.old, now=now, mtime=mtime, base=base)
    new_part = store.layout.reader.parse(row.path, change.new, now=now, mtime=mtime, base=base)
    if new_part.findings or new_part.pending or store.catalogue.finding_counts(row.path):
        return False
    replaced = ReplacedRange(
        Span(change.start, change.start + len(change.old)),
        change.old.count(b"\n"),
        len(change.new),
        change.new.count(b"\n"),
    )
    changed = row._replace(
        fingerprint=change.after,
        digest=change.digest.hexdigest(),
        lines=row.lines - replaced.lines + replaced.new_lines,
        ends_with_newline=change.new.endswith(b"\n")
        or change.start + len(change.new) < change.after.size
        or not change.new,
        recently_modified=True,  # another program may have written since, in place and within the same tick
        units=row.units - old_part.units,
        broken=row.broken - old_part.broken,
        records=row.records - len(old_part.records),
    )
    store.catalogue.replace_range(with_counts(changed, new_part, changed), replaced, new_part)
    if change.start + len(change.new) == change.after.size:
        store.file_ends.note(row.path, change.after, change.digest, change.new)
    return True


def index_tail(store: Store, row: FileRow, found: Fingerprint, now: float) -> bool:
    """Index the lines that another program appended to a file, without reading what stood before them. Returns False
    if that is not known to be all that changed."""
    end, size = store.file_ends.of(row), found.size - row.fingerprint.size
    if end is None or not (_may_have_grown(row, found) and 0 < size <= MAX_BYTES):
        return False
    overlap = len(end.last)
    try:
        content, fingerprint = store.tree.read_span(row.path, row.fingerprint.size - overlap, size + overlap)
    except (OSError, ChangingError):
        return False  # reading the whole file tells why
    same = fingerprint.same_content(found) and found.same_file(row.fingerprint)
    if not same or content[:overlap] != end.last or not content.endswith(b"\n"):
        return False
    if not store.pending_changes.are_all_in(row.path, content[overlap:]):
        return False  # a program that had read the file before our change has replaced it, and added lines
    end = FileEnd(found, end.digest.copy(), end.last)
    _index_lines(store, row._replace(recently_modified=True), end, content[overlap:], now)
    return True


def _may_have_grown(row: FileRow, found: Fingerprint) -> bool:
    """True if the file had only whole lines and is not shorter now: what follows them can be parsed alone."""
    return row.ends_with_newline and not row.pending and 0 < row.fingerprint.size <= found.size


def index_grown(store: Store, row: FileRow, found: Fingerprint, now: float) -> FileOutcome | None:
    """Index the lines that were appended to a file, or none: what stood before them is only compared with what was
    indexed. None if it is not known to stand there still."""
    size = row.fingerprint.size
    if not (store.file_rules.append_only and _may_have_grown(row, found) and found.size <= store.max_bytes):
        return None
    overlap, start_hash = min(END_BYTES, size), store.file_ends.start_hash(row.path)
    try:
        digest, content, fingerprint = store.tree.read_grown(row.path, size - overlap, start_hash)
    except (OSError, ChangingError):
        return None  # reading the whole file tells why
    last, added = content[:overlap], content[overlap:]
    digest.update(last)
    if digest.hexdigest() != row.digest or not store.pending_changes.are_all_in(row.path, added):
        return None
    clear_unread(store, row.path)
    recent = row._replace(recently_modified=fingerprint.is_recent(now))
    if not added:
        store.file_ends.note(row.path, fingerprint, digest, last)
        return restamp(store, row, recent._replace(fingerprint=fingerprint))
    return FileOutcome.of(_index_lines(store, recent, FileEnd(fingerprint, digest, last), added, now))


def _index_lines(store: Store, row: FileRow, end: FileEnd, added: bytes, now: float) -> FileRow:
    """Index lines that follow what `row` describes: `end` is the end of that, and the fingerprint with the lines.
    Returns the row of the whole file."""
    base = ParseOffset(row.fingerprint.size, row.lines + 1)
    tail = store.known_layout.reader.parse(row.path, added, now=now, mtime=end.fingerprint.mtime_ns / 1e9, base=base)
    end.digest.update(added)
    grown = row._replace(
        fingerprint=end.fingerprint,
        digest=end.digest.hexdigest(),
        lines=row.lines + added.count(b"\n"),
        ends_with_newline=added.endswith(b"\n"),
    )
    grown = with_counts(grown, tail, row)
    append_part(store, grown, tail)
    store.file_ends.note(row.path, end.fingerprint, end.digest, end.last + added)
    return grown


def append_part(store: Store, row: FileRow, part: Document) -> None:
    """Index a further part of a file, with what it means for the whole file, which `row` describes."""
    known = {code for _, code in store.catalogue.finding_counts(row.path)}  # of some codes one for each file is enough
    new = [each for each in part.findings if each.code not in ONCE_PER_FILE or each.code not in known]
    findings = (*new, *file_findings(store, row, is_empty=False))
    store.catalogue.append(row, replace(part, findings=findings), recounted=WHOLE_FILE_CODES)


def with_counts(row: FileRow, part: Document, before: FileRow | None) -> FileRow:
    """Return the row with the counts of a parsed part added to those of `before`."""
    units, broken, records = (before.units, before.broken, before.records) if before else (0, 0, 0)
    return row._replace(
        units=units + part.units,
        broken=broken + part.broken,
        records=records + len(part.records),
        pending=part.pending,
        facts=part.facts,
    )


def restamp(store: Store, row: FileRow, same: FileRow) -> FileOutcome:
    """Note a file whose content did not change."""
    if not is_unchanged(row, same.fingerprint) or row.recently_modified != same.recently_modified:
        store.catalogue.restamp(same)
    return FileOutcome.SAME


def is_unchanged(row: FileRow, found: Fingerprint) -> bool:
    """True if a file seems to be as it was indexed."""
    return row.fingerprint.same_content(found) and row.fingerprint.ctime_ns == found.ctime_ns
