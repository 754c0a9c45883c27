"""Files of lines: our own changes to them, known line by line, and single memories parsed alone.

`PendingChanges` remembers which lines we changed, and the digest of the whole file, so that it need not be read again.
An append under the lock neither reads nor checks the old content: the digest continues, and the catalogue takes only
the new lines; a rewrite of one line is taken as one line. Appends in a row wait as one change until the catalogue has
them. This keeps the cost of storing one memory from growing with the store. Whatever does not fit (somebody else wrote,
another inode is there) is read in the usual way.

`partial_parse` parses only the lines of the requested memories. A file is read whole to be rewritten, but need not be
parsed whole: if its digest is the one that the catalogue knows, every memory is exactly where the catalogue says. Lines
appended since are parsed as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from memoryd.core.index import FileRow, IndexReader, Place
from memoryd.core.plan import Fingerprint
from memoryd.core.records import Document, ParseOffset
from memoryd.core.spans import Edit, sha256
from memoryd.layouts.protocol import Layout, LoadedFile

if TYPE_CHECKING:
    from hashlib import _Hash

MAX_FILES = 64  # files; with more of them all remembered changes are dropped
MAX_BYTES = 1024 * 1024  # of remembered lines: larger changes are read again from the file


class OwnChange(NamedTuple):
    """One change of ours to whole lines. From byte `start`, in line `line` (from 1), `old` became `new`; `before` and
    `after` are the file before and after, `digest` covers all of it after. An append has no `old` and no `line`: the
    catalogue knows it."""

    before: Fingerprint
    start: int
    line: int | None
    old: bytes
    new: bytes
    after: Fingerprint
    digest: _Hash

    @property
    def appended(self) -> bool:
        """True if it only added lines at the end."""
        return not self.old and self.start == self.before.size


class PendingChanges:
    """The most recent own change of each file, until the catalogue has it. Used by the thread that owns the root."""

    def __init__(self) -> None:
        self._known: dict[str, OwnChange] = {}
        self._waiting: dict[str, bool] = {}  # not yet in the catalogue; True if `_known` covers the whole change
        self._made: set[str] = set()  # new files that the catalogue does not know

    def digest(self, path: str, found: Fingerprint) -> _Hash | None:
        """Return a copy of the digest of the whole file, to be updated further, if the file is exactly as we left it
        and ends in a newline; otherwise None."""
        known = self._known.get(path)
        if known is None or not known.after.same_content(found) or not known.new.endswith(b"\n"):
            return None
        ended = known.appended or known.start + len(known.new) < known.after.size
        return known.digest.copy() if ended else None

    def note(self, path: str, change: OwnChange) -> None:
        """Remember our last change to the lines of a file; consecutive appends become one change."""
        if len(self._known) >= MAX_FILES:
            self._known.clear()
        whole = change.appended
        if path in self._waiting:
            before = self._known.get(path)
            whole = before is not None and self._waiting[path] and _follows(before, change)
            change = _joined(before, change) if before is not None and whole else change
        if len(change.old) + len(change.new) > MAX_BYTES:
            self._known.pop(path, None)
        else:
            self._known[path] = change
        self._waiting[path] = whole

    def invalidate(self, path: str) -> None:
        """Forget the change: another program changed the file at the same time."""
        self._known.pop(path, None)
        self._waiting[path] = False

    def created(self, path: str) -> None:
        """Note a new file that is not in the catalogue."""
        self._made.add(path)

    def waiting(self, path: str) -> OwnChange | None:
        """Return the appended lines that the catalogue does not have yet, if all of them are remembered."""
        return self._known.get(path) if self._waiting.get(path) else None

    @property
    def new(self) -> Collection[str]:
        """New files that we created and that are not in the catalogue."""
        return self._made

    def indexed(self, path: str) -> None:
        """Note that the catalogue has read the file."""
        self._waiting.pop(path, None)
        self._made.discard(path)

    def indexed_all(self) -> None:
        """Note that the catalogue has read every file."""
        self._waiting.clear()
        self._made.clear()

    def between(self, path: str, before: Fingerprint, after: Fingerprint) -> OwnChange | None:
        """Return the change between two states of the file if it was one change of ours; otherwise None."""
        known = self._known.get(path)
        fits = known is not None and known.before.same_content(before) and known.after.same_content(after)
        return known if fits else None


def _follows(before: OwnChange, change: OwnChange) -> bool:
    """True if these are two appends, one right after the other."""
    return before.appended and change.appended and before.after.same_content(change.before)


def _joined(before: OwnChange, change: OwnChange) -> OwnChange:
    return change._replace(before=before.before, start=before.start, new=before.new + change.new)


def digest_of(content: bytes) -> _Hash:
    """Return the SHA-256 of the content, to be updated further."""
    return hashlib.sha256(content)


def lines_of(before: bytes, after: bytes, edits: Sequence[Edit]) -> tuple[int, int, bytes, bytes]:
    """Return (start, line, old, new): the whole lines that a rewrite by these edits changed, from the first to the
    last."""
    first, last = min(e.span.start for e in edits), max(e.span.end for e in edits)
    start = before.rfind(b"\n", 0, first) + 1
    newline = before.find(b"\n", max(last - 1, start))
    end = len(before) if newline < 0 else newline + 1
    until = end + len(after) - len(before)
    return start, before.count(b"\n", 0, start) + 1, before[start:end], after[start:until]


class _Piece(NamedTuple):
    """Bytes [start, end), whole lines from this one on."""

    start: int
    end: int
    line: int


def partial_parse(
    layout: Layout, catalogue: IndexReader, path: str, loaded: LoadedFile, ids: Collection[str], now: float
) -> Document | None:
    """Parse the lines of a file that hold these memories, and those appended since the catalogue read it.

    The document tells all of these memories, and whether a writer is at work at the end of the file; other memories,
    findings and counts may be missing. None where only the whole file can tell."""
    row = catalogue.file(path) if layout.files.append_only else None
    data, wanted = loaded.data, frozenset(ids)
    if row is None or not (known := _known_until(row, loaded)):
        return None
    # A last line that is not ended is always looked at: it may be half-written.
    tail = known if known < len(data) else data.rfind(b"\n") + 1
    places = [place for each in wanted for place in catalogue.places(each) if (place.path, place.id) == (path, each)]
    above = [place for place in places if place.start < tail]
    parts = [
        layout.reader.parse(path, data[start:end], now=now, mtime=loaded.mtime, base=ParseOffset(start, line))
        for start, end, line in (*_lines(data, above), _Piece(tail, len(data), row.lines + 1))
        if start < end
    ]
    records = tuple(record for part in parts for record in part.records)
    told = sorted((each.span.start, each.span.end) for each in records if each.span.start < tail and each.id in wanted)
    if told != sorted((place.start, place.end) for place in above):
        return None  # it is read by other rules than line by line
    return Document(path, records, pending=any(part.pending for part in parts))


def _known_until(row: FileRow, loaded: LoadedFile) -> int:
    """Return how many bytes from its beginning the catalogue knows: all, those before further lines, or none."""
    data, size = loaded.data, row.fingerprint.size
    if size == len(data):
        return size if loaded.digest == row.digest else 0
    may_have_grown = row.ends_with_newline and 0 < size < len(data)
    return size if may_have_grown and sha256(data[:size]) == row.digest else 0


def _lines(data: bytes, places: Sequence[Place]) -> Iterator[_Piece]:
    """Return the lines that hold these memories, each once, in order."""
    starts = {data.rfind(b"\n", 0, each.start) + 1: each.line for each in places}
    return (_Piece(start, data.find(b"\n", start) + 1, line) for start, line in sorted(starts.items()))
