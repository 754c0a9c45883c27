"""Take changed files into the catalogue: whole ones, what was appended to one, or the very lines memoryd changed
itself.

Events only hint at what changed; a look at everything is the truth. Of a file of lines that grew only the new lines are
parsed, and where the change was our own it is known line by line, so that the file is not even read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from memoryd.core.findings import Finding
from memoryd.core.index import FileRow, ReplacedRange
from memoryd.core.plan import Fingerprint
from memoryd.core.records import Document, ParseOffset, Role
from memoryd.core.spans import Span, sha256
from memoryd.disk.nofollow import MB, ChangingError, NotBeneathError, NotRegularError, TooLargeError
from memoryd.operations.access_counts import add_counts
from memoryd.operations.overwrites import (
    find_lost_writes,
    keep_change,
    note_vanished,
    overwrite_findings,
    standing_losses,
)
from memoryd.store import Store

READ_ROLES = (Role.SOURCE, Role.ARCHIVE)
KEEPING_ROLES = (Role.ARCHIVE, Role.BACKUP)
KEPT = (  # what the layouts keep in folders of their own, one file of each
    "archive/2026/learnings_2026_Q1.jsonl",
    "archive/topic/2026.md",
    "archive/2026-01/2026-01-30-14-30-00-name.json",
    ".backup/learnings.jsonl.backup.20260130_143000",
)
RECENT_S = 2.0  # two writes within one clock tick look the same: a file modified this recently is hashed again
PIECE = 256 * 1024  # bytes of a file of lines that are parsed at a time
RECENT = 50  # journal entries looked through
TOLD_ONCE = ("crlf-newlines",)
OF_THE_WHOLE = ("corrupt-file", "emptied-file")
MASS_LOSS = 20  # memories; more than this, and more than half, must have been seen to be deleted


@dataclass(frozen=True, slots=True)
class Refreshed:
    """The result of reading the changed files. `waiting`: half-written files to read again. `directories`: path ->
    (dev, inode), of a full scan; `linked`: it met a file with a further name. `loss` says why the root is suspect; then
    nothing was forgotten. `accessed`: changed files with the same meaning as before, since reading a memory may rewrite
    its file."""

    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    directories: dict[str, tuple[int, int]] | None = None
    loss: str | None = None
    accessed: tuple[str, ...] = ()
    linked: bool = False


def refresh(
    store: Store,
    touched: Iterable[str] | None,
    now: float,
    *,
    verify: bool = False,
    deletes_seen: bool = True,
) -> Refreshed:
    """Look at the touched paths, or at everything (None). `verify` hashes also what looks unchanged."""
    with store.catalogue.batch():
        if touched is None:
            return _refresh_all(store, now, verify=verify, deletes_seen=deletes_seen)
        return _refresh_these(store, touched, now, verify=verify)


def _refresh_these(store: Store, touched: Iterable[str], now: float, *, verify: bool) -> Refreshed:
    outcomes: dict[str, str] = {}
    gone: list[str] = []
    for path in touched:
        if store.role(path) not in READ_ROLES:
            continue
        row = store.catalogue.file(path)
        try:
            found = store.tree.stat(path)
        except (NotRegularError, NotBeneathError):
            found = None  # the next scan reports what stands there
        if found is None:
            store.pending_changes.indexed(path)
            gone += [path] if row else []
            if row is not None:
                note_vanished(store, path)
        else:
            outcomes[path] = index_file(store, path, found, row, now, verify=verify)
    _forget(store, gone, now)
    return _sorted(outcomes, gone)


def _refresh_all(store: Store, now: float, *, verify: bool, deletes_seen: bool) -> Refreshed:
    scan = store.scan()
    known = store.catalogue.files()
    wanted = {path: found for path, found in scan.files.items() if store.role(path) in READ_ROLES}
    gone = [path for path in known if path not in wanted and not _beneath(path, scan.unreadable)]
    lost = [path for path in gone if not store.is_ignored(path)]  # what is ignored from now on went by our own will
    loss = None if deletes_seen else _mass_loss(known, lost)
    if loss:
        return Refreshed(directories=scan.directories, loss=loss)
    outcomes: dict[str, str] = {}
    for path, found in wanted.items():
        store.check_stopping()
        outcomes[path] = index_file(store, path, found, known.get(path), now, verify=verify)
    for path in lost:
        note_vanished(store, path)
    _forget(store, gone, now)
    store.pending_changes.indexed_all()
    store.root_findings["files"] = tuple(_odd_files(store, scan.irregular, scan.unreadable))
    return replace(_sorted(outcomes, gone, scan.directories), linked=scan.linked)


def _forget(store: Store, gone: Iterable[str], now: float) -> None:
    for path in gone:
        if store.role(path) is Role.SOURCE:
            store.index.note_deletion(now)
        forget_unread(store, path)
        store.catalogue.forget(path)
    store.root_findings["losses"] = standing_losses(store)


def _sorted(
    outcomes: Mapping[str, str], gone: Iterable[str], directories: dict[str, tuple[int, int]] | None = None
) -> Refreshed:
    def of(*names: str) -> tuple[str, ...]:
        return tuple(path for path, outcome in outcomes.items() if outcome in names)

    changed, waiting = of("changed", "accessed", "half-written"), of("half-written", "waiting")
    return Refreshed(changed, tuple(gone), waiting, directories, accessed=of("accessed"))


def _beneath(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") or not folder for folder in folders)


def _mass_loss(known: dict[str, FileRow], gone: list[str]) -> str | None:
    lost = sum(known[path].records for path in gone)
    total = sum(row.records for row in known.values())
    if lost > MASS_LOSS and lost * 2 > total:
        return f"{lost} of {total} memories are gone and nobody was seen to delete them"
    return None


def _odd_files(store: Store, irregular: Iterable[str], unreadable: Iterable[str]) -> Iterable[Finding]:
    for path in irregular:
        top = f"{path.partition('/')[0]}/"
        if any(place.startswith(top) and store.role(place) in KEEPING_ROLES for place in KEPT):
            message = "a link or special file in place of a directory; nothing is written through it"
            yield Finding("not-a-regular-file", path, message)
        elif store.role(path) not in (Role.FOREIGN, Role.TEMP):
            message = "a link, pipe, socket or device in place of a file; it is not opened: replace it with a file"
            yield Finding("not-a-regular-file", path, message)
    for path in unreadable:
        yield Finding("unreadable", path, "cannot stat; check its owner and mode")


def index_own_change(store: Store, row: FileRow, found: Fingerprint, now: float) -> bool:
    """Take in our own change of whole lines of a file without findings: the rest is known, so nothing is read. False
    where it was not our change, or not ours alone."""
    ours = store.pending_changes.between(row.path, row.fingerprint, found)
    if store.layout is None or ours is None or row.pending or not (row.digest and row.ends_with_newline):
        return False
    mtime = ours.after.mtime_ns / 1e9
    base = ParseOffset(ours.start, row.lines + 1 if ours.line is None else ours.line)
    was = store.layout.reader.parse(row.path, ours.old, now=now, mtime=mtime, base=base)
    now_is = store.layout.reader.parse(row.path, ours.new, now=now, mtime=mtime, base=base)
    if now_is.findings or now_is.pending or store.catalogue.finding_counts(row.path):
        return False
    hole = ReplacedRange(
        Span(ours.start, ours.start + len(ours.old)), ours.old.count(b"\n"), len(ours.new), ours.new.count(b"\n")
    )
    changed = replace(
        row,
        fingerprint=ours.after,
        digest=ours.digest.hexdigest(),
        lines=row.lines - hole.lines + hole.new_lines,
        ends_with_newline=ours.new.endswith(b"\n") or ours.start + len(ours.new) < ours.after.size or not ours.new,
        recently_modified=abs(now - mtime) < RECENT_S,
        units=row.units - was.units,
        broken=row.broken - was.broken,
        records=row.records - len(was.records),
    )
    store.catalogue.replace_range(counted(changed, now_is, changed), hole, now_is)
    return True


def counted(row: FileRow, part: Document, before: FileRow | None) -> FileRow:
    """Return the row with the counts of a parsed part added to those that were known `before`."""
    units, broken, records = (before.units, before.broken, before.records) if before else (0, 0, 0)
    return replace(
        row,
        units=units + part.units,
        broken=broken + part.broken,
        records=records + len(part.records),
        pending=part.pending,
        facts=part.facts,
    )


def index_file(store: Store, path: str, found: Fingerprint, row: FileRow | None, now: float, *, verify: bool) -> str:
    """Take one file into the catalogue where it changed. Returns same, changed, accessed (taken in, says the same),
    half-written (taken in, look again) or waiting (not readable just now)."""
    outcome = _index_changed(store, path, found, row, now, verify=verify)
    store.pending_changes.indexed(path)
    return outcome


def _index_changed(
    store: Store, path: str, found: Fingerprint, row: FileRow | None, now: float, *, verify: bool
) -> str:
    if row and row.digest and _unchanged(row, found) and not (row.recently_modified or row.pending or verify):
        return "same"
    if row and index_own_change(store, row, found, now):
        return "changed"
    try:
        content, fingerprint = store.tree.read(path, growing=True)
    except (FileNotFoundError, ChangingError):
        return "waiting"  # it is being replaced at this moment; an event or the next scan tells
    except TooLargeError:
        message = f"{found.size} bytes, more than {store.max_bytes // MB} MB are not read"
        return _note_unread(store, path, found, Finding("too-large", path, message))
    except OSError as error:
        return _note_unread(store, path, found, Finding("unreadable", path, f"cannot be read: {error.strerror}"))
    return _take(store, path, content, fingerprint, row, now)


def _unchanged(row: FileRow, found: Fingerprint) -> bool:
    return row.fingerprint.same_content(found) and row.fingerprint.ctime_ns == found.ctime_ns


def _note_unread(store: Store, path: str, found: Fingerprint, finding: Finding) -> str:
    """Note a file that cannot be read. What was known of it is still used, and reported as out of date; only a file
    that was never read gets an empty row."""
    forget_unread(store, path)
    store.root_findings["unread"] = (*store.root_findings.get("unread", ()), finding)
    if store.catalogue.file(path) is None:
        row = FileRow(path, str(store.role(path)), found, "", pending=True)
        store.catalogue.replace(row, Document(path, (), ()))
        return "changed"
    return "same"


def forget_unread(store: Store, path: str) -> None:
    """The file can be read again, or is gone."""
    store.root_findings["unread"] = tuple(each for each in store.root_findings.get("unread", ()) if each.path != path)


def _take(store: Store, path: str, content: bytes, fingerprint: Fingerprint, row: FileRow | None, now: float) -> str:
    assert store.layout is not None
    forget_unread(store, path)
    digest = sha256(content)
    mtime = fingerprint.mtime_ns / 1e9
    recently_modified = abs(now - mtime) < RECENT_S
    if row and row.digest == digest and not row.pending:
        if not _unchanged(row, fingerprint) or row.recently_modified != recently_modified:
            store.catalogue.restamp(replace(row, fingerprint=fingerprint, recently_modified=recently_modified))
        return "same"
    new = FileRow(
        path,
        str(store.role(path)),
        fingerprint,
        digest,
        lines=content.count(b"\n"),
        ends_with_newline=content.endswith(b"\n"),
        recently_modified=recently_modified,
    )
    if row and _has_grown(store, row, content):
        base = ParseOffset(row.fingerprint.size, row.lines + 1)
        tail = store.layout.reader.parse(path, content[base.offset :], now=now, mtime=mtime, base=base)
        grown = counted(new, tail, row)
        findings = (*_news(store, path, tail), *_file_findings(store, grown, content))
        store.catalogue.append(grown, replace(tail, findings=findings), recounted=OF_THE_WHOLE)
        return "half-written" if tail.pending else "changed"
    if store.layout.files.append_only and len(content) > PIECE:
        return _take_in_pieces(store, new, content, now)
    document = store.layout.reader.parse(path, content, now=now, mtime=mtime, base=ParseOffset())
    if row and row.records and document.pending and not document.records and not store.layout.files.append_only:
        # Somebody is writing the file anew; until it can be read, what it said is still believed.
        store.catalogue.restamp(
            replace(row, fingerprint=fingerprint, recently_modified=recently_modified, pending=True)
        )
        return "waiting"
    read = counted(new, document, None)
    findings = (*document.findings, *_file_findings(store, read, content), *overwrite_findings(store, read, document))
    find_lost_writes(store, path, content, document, now)
    store.catalogue.replace(read, replace(add_counts(store, document), findings=findings))
    keep_change(store, read, content, now)
    if document.pending:
        return "half-written"
    return "accessed" if row and _says_the_same(row, document) else "changed"


def _says_the_same(row: FileRow, document: Document) -> bool:
    """True if the file means the same as before, in layouts that can tell."""
    meaning = document.facts.get("meaning")
    return meaning is not None and row.facts.get("meaning") == meaning


def _take_in_pieces(store: Store, new: FileRow, content: bytes, now: float) -> str:
    """A large file of lines a piece at a time, so that memory does not grow with the store. Until the last piece the
    row has no digest: a crash or a stop in between has the file read again."""
    assert store.layout is not None
    mtime = new.fingerprint.mtime_ns / 1e9
    so_far: FileRow | None = None
    base = ParseOffset()
    while base.offset < len(content):
        store.check_stopping()
        newline = content.find(b"\n", base.offset + PIECE)
        end = len(content) if newline < 0 else newline + 1
        part = store.layout.reader.parse(new.path, content[base.offset : end], now=now, mtime=mtime, base=base)
        whole = new if end == len(content) else replace(new, digest="")
        so_far = counted(whole, part, so_far)
        if base.offset == 0:
            store.catalogue.replace(so_far, part)
        else:
            findings = (*_news(store, new.path, part), *_file_findings(store, so_far, content))
            store.catalogue.append(so_far, replace(part, findings=findings), recounted=OF_THE_WHOLE)
        base = ParseOffset(end, base.line + content.count(b"\n", base.offset, end))
    return "half-written" if so_far is not None and so_far.pending else "changed"


def _has_grown(store: Store, row: FileRow, content: bytes) -> bool:
    """The old content is the beginning of the new one, and ended a line: only the tail is news."""
    size = row.fingerprint.size
    if not (store.layout and store.layout.files.append_only and row.ends_with_newline and 0 < size < len(content)):
        return False
    return not row.pending and sha256(content[:size]) == row.digest


def _news(store: Store, path: str, tail: Document) -> Iterable[Finding]:
    """Return what the new end of a file shows, except findings that are reported once per file and already were."""
    known = {code for _, code in store.catalogue.finding_counts(path)}
    return [each for each in tail.findings if each.code not in TOLD_ONCE or each.code not in known]


def _file_findings(store: Store, row: FileRow, content: bytes) -> Iterable[Finding]:
    """Yield what only the whole file shows: mostly unreadable, or emptied while its backup is not."""
    path = row.path
    if store.role(path) is not Role.SOURCE or row.pending:
        return
    damaged = row.units - row.records
    if row.units > 1 and damaged * 2 > row.units:
        message = f"{damaged} of {row.units} lines cannot be used; compare `memoryd backup list` and restore"
        yield Finding("corrupt-file", path, message)
    if not content and _is_backed_up(store, path) and not _emptied_by_us(store, path):
        message = "the file is empty while its newest backup is not; restore it, or ignore this if it was meant"
        yield Finding("emptied-file", path, message)


def _is_backed_up(store: Store, path: str) -> bool:
    """True if the newest backup of the file is not empty."""
    return any(row.bytes for row in store.journal.backups.rows(path)[-1:])


def _emptied_by_us(store: Store, path: str) -> bool:
    """The newest change memoryd made to the file moved its last memories elsewhere."""
    for entry in store.journal.entries(RECENT):
        for step in reversed(entry.steps):
            if step.path == path and step.after_sha is not None:
                return step.after_size == 0
    return False
