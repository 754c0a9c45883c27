"""Bring the catalogue up to date with the files: what changed is read, what is gone is forgotten.

Cost follows the change: an unchanged file costs one stat, a grown one its hash and its new tail. Missing is
not empty: what could not be looked at is still believed, and a sudden loss nobody was seen to cause stops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from memoryd.catalogue import FileRow
from memoryd.core.digest import sha256
from memoryd.core.findings import Finding
from memoryd.core.plan import Fingerprint
from memoryd.core.records import Base, Document, Role
from memoryd.disk.tree import ChangingError, NotBeneathError, NotRegularError, TooLargeError
from memoryd.operations.alarms import alarms, keep_change, note_vanished, standing_losses
from memoryd.operations.own_lines import YOUNG_S, counted, take_lines
from memoryd.operations.touching import with_uses
from memoryd.operations.undone import look
from memoryd.store import Store

READ_ROLES = (Role.SOURCE, Role.ARCHIVE)
TOLD_ONCE = ("crlf-newlines",)
PIECE = 256 * 1024  # bytes of a file of lines that are parsed at a time
OF_THE_WHOLE = ("corrupt-file", "emptied-file")
RECENT = 50  # journal entries looked through
MASS_LOSS = 20  # memories; more than this, and more than half, must have been seen to be deleted


@dataclass(frozen=True, slots=True)
class Refreshed:
    """`waiting`: half-written files to look at again. `directories`: path -> (dev, inode), of a full scan.
    `loss` says why the root is suspect; then nothing was forgotten. `accessed` are those of the changed files that
    say the same as before: reading a memory may rewrite its file."""

    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    directories: dict[str, tuple[int, int]] | None = None
    loss: str | None = None
    accessed: tuple[str, ...] = ()


def refresh(
    store: Store,
    touched: Iterable[str] | None,
    now: float,
    *,
    verify: bool = False,
    deletes_seen: bool = True,
) -> Refreshed:
    """Look at the touched paths, or at everything (None). `verify` hashes also what looks unchanged."""
    with store.catalogue.together():
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
            store.own_changes.took(path)
            gone += [path] if row else []
            if row is not None:
                note_vanished(store, path)
        else:
            outcomes[path] = _read_in(store, path, found, row, now, verify=verify)
    _forget(store, gone)
    return _sorted(outcomes, gone)


def _refresh_all(store: Store, now: float, *, verify: bool, deletes_seen: bool) -> Refreshed:
    scan = store.scan()
    known = store.catalogue.files()
    wanted = {path: found for path, found in scan.files.items() if store.role(path) in READ_ROLES}
    gone = [path for path in known if path not in wanted and not _beneath(path, scan.unreadable)]
    lost = [path for path in gone if not store.skips(path)]  # what is ignored from now on went by our own will
    loss = None if deletes_seen else _mass_loss(known, lost)
    if loss:
        return Refreshed(directories=scan.directories, loss=loss)
    outcomes = {
        path: _read_in(store, path, found, known.get(path), now, verify=verify) for path, found in wanted.items()
    }
    for path in lost:
        note_vanished(store, path)
    _forget(store, gone)
    store.own_changes.took_all()
    store.noted["files"] = tuple(_odd_files(store, scan.irregular, scan.unreadable))
    return _sorted(outcomes, gone, scan.directories)


def _forget(store: Store, gone: Iterable[str]) -> None:
    for path in gone:
        _forget_unread(store, path)
        store.catalogue.forget(path)
    store.noted["losses"] = standing_losses(store)


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
        if store.role(path) not in (Role.FOREIGN, Role.TEMP):
            message = "a link, pipe, socket or device stands here; it is not opened: replace it by a file"
            yield Finding("not-a-regular-file", path, message)
    for path in unreadable:
        yield Finding("unreadable", path, "cannot be looked at; check owner and mode")


def _read_in(store: Store, path: str, found: Fingerprint, row: FileRow | None, now: float, *, verify: bool) -> str:
    """same, changed, accessed (read in, says the same), half-written (read in, look again) or waiting (not readable
    just now)."""
    outcome = _looked_at(store, path, found, row, now, verify=verify)
    store.own_changes.took(path)
    return outcome


def _looked_at(store: Store, path: str, found: Fingerprint, row: FileRow | None, now: float, *, verify: bool) -> str:
    if row and _unchanged(row, found) and not (row.young or row.pending or verify):
        return "same"
    if row and take_lines(store, row, found, now):
        return "changed"
    try:
        content, fingerprint = store.tree.read(path, growing=True)
    except (FileNotFoundError, ChangingError):
        return "waiting"  # it is being replaced at this moment; an event or the next scan tells
    except TooLargeError:
        message = f"{found.size} bytes, more than 64 MB are not read"
        return _note_unread(store, path, found, Finding("too-large", path, message))
    except OSError as error:
        return _note_unread(store, path, found, Finding("unreadable", path, f"cannot be read: {error.strerror}"))
    return _take(store, path, content, fingerprint, row, now)


def _unchanged(row: FileRow, found: Fingerprint) -> bool:
    return row.fingerprint.same_content(found) and row.fingerprint.ctime_ns == found.ctime_ns


def _note_unread(store: Store, path: str, found: Fingerprint, finding: Finding) -> str:
    """What was known of the file is still believed, and told to be out of date; only a file never read gets
    an empty row."""
    _forget_unread(store, path)
    store.noted["unread"] = (*store.noted.get("unread", ()), finding)
    if store.catalogue.file(path) is None:
        row = FileRow(path, str(store.role(path)), found, "", pending=True)
        store.catalogue.replace(row, Document(path, (), ()))
        return "changed"
    return "same"


def _forget_unread(store: Store, path: str) -> None:
    store.noted["unread"] = tuple(each for each in store.noted.get("unread", ()) if each.path != path)


def _take(store: Store, path: str, content: bytes, fingerprint: Fingerprint, row: FileRow | None, now: float) -> str:
    assert store.layout is not None
    _forget_unread(store, path)
    digest = sha256(content)
    mtime = fingerprint.mtime_ns / 1e9
    young = abs(now - mtime) < YOUNG_S
    if row and row.digest == digest and not row.pending:
        if not _unchanged(row, fingerprint) or row.young != young:
            store.catalogue.restamp(replace(row, fingerprint=fingerprint, young=young))
        return "same"
    new = FileRow(
        path,
        str(store.role(path)),
        fingerprint,
        digest,
        lines=content.count(b"\n"),
        whole=content.endswith(b"\n"),
        young=young,
    )
    if row and _has_grown(store, row, content):
        base = Base(row.fingerprint.size, row.lines + 1)
        tail = store.layout.parse(path, content[base.offset :], now=now, mtime=mtime, base=base)
        grown = counted(new, tail, row)
        findings = (*_news(store, path, tail), *_file_findings(store, grown, content))
        store.catalogue.extend(grown, replace(tail, findings=findings), anew=OF_THE_WHOLE)
        return "half-written" if tail.pending else "changed"
    if store.layout.appendable and len(content) > PIECE:
        return _take_in_pieces(store, new, content, now)
    document = store.layout.parse(path, content, now=now, mtime=mtime, base=Base())
    if row and row.records and document.pending and not document.records and not store.layout.appendable:
        # Somebody is writing the file anew; until it can be read, what it said is still believed.
        store.catalogue.restamp(replace(row, fingerprint=fingerprint, young=young, pending=True))
        return "waiting"
    read = counted(new, document, None)
    findings = (*document.findings, *_file_findings(store, read, content), *alarms(store, read, document))
    look(store, path, content, document, now)
    store.catalogue.replace(read, replace(with_uses(store, document), findings=findings))
    keep_change(store, read, content, now)
    if document.pending:
        return "half-written"
    return "accessed" if row and _says_the_same(row, document) else "changed"


def _says_the_same(row: FileRow, document: Document) -> bool:
    """By the layout's own measure, where it has one."""
    meaning = document.facts.get("meaning")
    return meaning is not None and row.facts.get("meaning") == meaning


def _take_in_pieces(store: Store, new: FileRow, content: bytes, now: float) -> str:
    """A large file of lines a piece at a time, so that memory does not grow with the store. Until the last piece the
    row claims nothing: a crash in between has the file read again."""
    assert store.layout is not None
    mtime = new.fingerprint.mtime_ns / 1e9
    so_far: FileRow | None = None
    base = Base()
    while base.offset < len(content):
        newline = content.find(b"\n", base.offset + PIECE)
        end = len(content) if newline < 0 else newline + 1
        part = store.layout.parse(new.path, content[base.offset : end], now=now, mtime=mtime, base=base)
        whole = new if end == len(content) else replace(new, digest="")
        so_far = counted(whole, part, so_far)
        if base.offset == 0:
            store.catalogue.replace(so_far, part)
        else:
            findings = (*_news(store, new.path, part), *_file_findings(store, so_far, content))
            store.catalogue.extend(so_far, replace(part, findings=findings), anew=OF_THE_WHOLE)
        base = Base(end, base.line + content.count(b"\n", base.offset, end))
    return "half-written" if so_far is not None and so_far.pending else "changed"


def _has_grown(store: Store, row: FileRow, content: bytes) -> bool:
    """The old content is the beginning of the new one, and ended a line: only the tail is news."""
    size = row.fingerprint.size
    if not (store.layout and store.layout.appendable and row.whole and 0 < size < len(content)):
        return False
    return not row.pending and sha256(content[:size]) == row.digest


def _news(store: Store, path: str, tail: Document) -> Iterable[Finding]:
    """What the tail shows, but for what is told once a file and was told before."""
    known = store.catalogue.codes_of(path)
    return [each for each in tail.findings if each.code not in TOLD_ONCE or each.code not in known]


def _file_findings(store: Store, row: FileRow, content: bytes) -> Iterable[Finding]:
    """What only the whole file shows: mostly unreadable, or emptied while its backup is not."""
    path = row.path
    if store.role(path) is not Role.SOURCE or row.pending:
        return
    damaged = row.units - row.records
    if row.units > 1 and damaged * 2 > row.units:
        message = f"{damaged} of {row.units} lines cannot be used; compare `memoryd backup list` and restore"
        yield Finding("corrupt-file", path, message)
    backed_up = any(row.bytes for row in store.journal.backup_rows(path)[-1:])
    if not content and backed_up and not _emptied_by_us(store, path):
        message = "the file is empty while its newest backup is not; restore it, or ignore this if it was meant"
        yield Finding("emptied-file", path, message)


def _emptied_by_us(store: Store, path: str) -> bool:
    """The newest change memoryd made to the file moved its last memories elsewhere."""
    for entry in store.journal.entries(RECENT):
        for step in reversed(entry.steps):
            if step.path == path and step.after_sha is not None:
                return step.after_size == 0
    return False
