"""Index and parse line-based files partially: only the lines memoryd changed, or those of the requested memories.

`PendingChanges` records which lines memoryd changed, and the digest of the whole file, so that the file need not be
read again. An append under the lock neither reads nor checks the old content: it continues the digest, and only the new
lines are indexed; a rewrite of one line indexes one line. Consecutive appends wait as one change until they are
indexed. This keeps the cost of storing one memory independent of the size of the store. If another program wrote, or
replaced the inode, the file is read as usual.

`FileEnds` remembers how indexed files ended, so that of a file that another program appended to only the new lines are
read, or what stood before them is compared with less work than a digest takes.

`FilePieces` remembers the pieces of large documents, so that of a changed one only the changed part is parsed.

`partial_parse` parses only the lines of the requested memories. A rewrite reads the whole file but need not parse all
of it: if its digest is that of the catalogue, every memory is exactly where the catalogue says. Lines appended since
are parsed as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from memoryd.core.digest import digest_of
from memoryd.core.index import FileRow, IndexReader
from memoryd.core.places import Place
from memoryd.core.records import Document, ParseOffset, Pieces
from memoryd.core.spans import Edit, Fingerprint, sha256
from memoryd.disk.syscalls import PIECE, pread_all
from memoryd.layouts.protocol import Layout, LoadedFile

if TYPE_CHECKING:
    from memoryd.core.digest import Hash

MAX_FILES = 64  # whose changes, ends or starts are remembered
END_BYTES = 4096  # of an indexed file that must still stand before appended lines
MAX_BYTES = 1024 * 1024  # of changed lines; after a larger change the file is read again
_Value = TypeVar("_Value")


class OwnChange(NamedTuple):
    """A change of memoryd to whole lines. At byte `start`, in line `line` (from 1), `old` became `new`; `before` and
    `after` are the fingerprints of the file, `digest` covers its whole content after the change. An append has no `old`
    and no `line`: the catalogue has the number of lines. `ended`: the file then ends with a newline."""

    before: Fingerprint
    start: int
    line: int | None
    old: bytes
    new: bytes
    after: Fingerprint
    digest: Hash
    ended: bool

    @property
    def appended(self) -> bool:
        """True if the change only added lines at the end."""
        return not self.old and self.start == self.before.size


class _Pending(NamedTuple):
    """The changes of memoryd to a file that are not indexed yet. `covered`: the one that is kept of the file is all of
    them. `appended`: all lines, if lines were only appended; None if more was changed, or they are too many."""

    covered: bool
    appended: list[bytes] | None


class PendingChanges:
    """The most recent change of memoryd to each file, until it is indexed. Used by the thread that owns the root."""

    def __init__(self) -> None:
        self._changes: dict[str, OwnChange] = {}
        self._pending: dict[str, _Pending] = {}
        self._created: set[str] = set()  # new files that the catalogue does not know

    def digest(self, path: str, found: Fingerprint) -> Hash | None:
        """Return a copy of the digest of the whole file, to be updated further; None if the file changed since our last
        change or does not end with a newline."""
        change = self._changes.get(path)
        known = change is not None and change.ended and change.after.same_content(found)
        return change.digest.copy() if change is not None and known else None

    def note(self, path: str, change: OwnChange) -> None:
        """Record a change to the lines of a file; consecutive appends become one change."""
        if len(self._changes) >= MAX_FILES:
            self._changes.clear()
        appended, covered = change.new if change.appended else None, change.appended
        pending, before = self._pending.get(path), self._changes.get(path)
        if pending is not None:
            covered = before is not None and pending.covered and _follows(before, change)
            change = _merge(before, change) if before is not None and covered else change
        if len(change.old) + len(change.new) > MAX_BYTES:
            self._changes.pop(path, None)
        else:
            self._changes[path] = change
        self._pend(path, appended, covered=covered)

    def invalidate(self, path: str, appended: bytes | None = None) -> None:
        """Drop the change: another program changed the file at the same time, or `appended` is not all that changed."""
        self._changes.pop(path, None)
        self._pend(path, appended, covered=False)

    def _pend(self, path: str, appended: bytes | None, *, covered: bool) -> None:
        pending = self._pending.get(path)
        lines = [] if pending is None else pending.appended
        if appended is None or lines is None or sum(map(len, lines)) + len(appended) > MAX_BYTES:
            self._pending[path] = _Pending(covered, None)
            return
        lines.append(appended)
        self._pending[path] = _Pending(covered, lines)

    def created(self, path: str) -> None:
        """Record a new file that is not in the catalogue."""
        self._created.add(path)

    def is_pending(self, path: str) -> bool:
        """True if a change of memoryd to a file is not indexed yet."""
        return path in self._pending or path in self._created

    def are_all_in(self, path: str, added: bytes) -> bool:
        """True if the changes to a file that are not indexed yet are appended lines, and all of them are in `added`."""
        pending = self._pending.get(path)
        return pending is None or (pending.appended is not None and all(each in added for each in pending.appended))

    def pending_append(self, path: str) -> OwnChange | None:
        """Return the appended lines that are not indexed yet; None if they are not all recorded."""
        pending = self._pending.get(path)
        return self._changes.get(path) if pending is not None and pending.covered else None

    @property
    def created_paths(self) -> Collection[str]:
        """New files of memoryd that are not in the catalogue."""
        return self._created

    def indexed(self, path: str) -> None:
        """Mark a file as indexed."""
        self._pending.pop(path, None)
        self._created.discard(path)

    def indexed_all(self) -> None:
        """Mark every file as indexed."""
        self._pending.clear()
        self._created.clear()

    def between(self, path: str, before: Fingerprint, after: Fingerprint) -> OwnChange | None:
        """Return the change between two states of the file; None if it was not a single change of memoryd."""
        own = self._changes.get(path)
        fits = own is not None and own.before.same_content(before) and own.after.same_content(after)
        return own if fits else None


class FilePieces:
    """The pieces of large files as they were indexed, by path. Used by the thread that owns the root."""

    MAX_PIECES = 20_000  # of all files, at about 300 bytes each; a file of more is kept alone

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, Pieces]] = {}

    def note(self, path: str, digest: str, pieces: Pieces | None) -> None:
        """Record the pieces of a file that has just been indexed; None forgets it."""
        self._known.pop(path, None)
        if pieces is None:
            return
        self._known[path] = (digest, pieces)
        count = sum(len(each.pieces) for _, each in self._known.values())
        while count > self.MAX_PIECES and len(self._known) > 1:
            _, oldest = self._known.pop(next(iter(self._known)))  # the one that changed least recently
            count -= len(oldest.pieces)

    def of(self, row: FileRow) -> Pieces | None:
        """Return the pieces of a file as it was indexed; None if they are unknown."""
        digest, pieces = self._known.get(row.path, ("", None))
        return pieces if digest == row.digest else None


class FileEnd(NamedTuple):
    """The last bytes of a file as it was indexed, and the digest of its whole content."""

    fingerprint: Fingerprint
    digest: Hash
    last: bytes


class StartHash:
    """Hashes the start of a file that grows. Pieces that were hashed before are compared by Python's own hash, which
    takes less than half the time of SHA-256: 64 bits, with a key that only this process knows."""

    def __init__(self) -> None:
        self._pieces: list[int] = []
        self._digest: Hash | None = None  # of these pieces

    def __call__(self, fd: int, size: int) -> Hash | None:
        """Return the SHA-256 of the first `size` bytes of an open file, to be updated further; None if a piece that was
        hashed before is not there any more."""
        start = 0
        for known in self._pieces:
            piece = pread_all(fd, start, min(PIECE, size - start))
            if hash(piece) != known:
                self._pieces, self._digest = [], None
                return None
            start += PIECE
        while size - start >= PIECE and len(piece := pread_all(fd, start, PIECE)) == PIECE:
            self._digest = self._digest or digest_of(size=size)
            self._digest.update(piece)
            self._pieces.append(hash(piece))
            start += PIECE
        digest = self._digest.copy() if self._digest else digest_of(size=size)
        digest.update(pread_all(fd, start, min(PIECE, size - start)))
        return digest


class FileEnds:
    """The ends of line-based files as they were indexed, and the hashes of their starts. Used by the thread that owns
    the root."""

    def __init__(self) -> None:
        self._ends: dict[str, FileEnd] = {}
        self._starts: dict[str, StartHash] = {}

    def start_hash(self, path: str) -> StartHash:
        """Return what hashes the start of this file."""
        _make_room(self._starts, path)
        return self._starts.setdefault(path, StartHash())

    def note(self, path: str, fingerprint: Fingerprint, digest: Hash, last: bytes) -> None:
        """Record the end of a file that has just been indexed, whole or in part."""
        _make_room(self._ends, path)
        self._ends[path] = FileEnd(fingerprint, digest, last[-END_BYTES:])

    def of(self, row: FileRow) -> FileEnd | None:
        """Return the end of a file as it was indexed; None if it is unknown."""
        end = self._ends.get(row.path)
        if end is None or not end.last or not end.fingerprint.same_content(row.fingerprint):
            return None
        return end if end.digest.hexdigest() == row.digest else None


def _make_room(known: dict[str, _Value], path: str) -> None:
    """Forget the file that was noted first if this one is new and there are MAX_FILES."""
    if path not in known and len(known) >= MAX_FILES:
        del known[next(iter(known))]


def _follows(before: OwnChange, change: OwnChange) -> bool:
    """True if these are two appends, one right after the other."""
    return before.appended and change.appended and before.after.same_content(change.before)


def _merge(before: OwnChange, change: OwnChange) -> OwnChange:
    return change._replace(before=before.before, start=before.start, new=before.new + change.new)


def lines_of(before: bytes, after: bytes, edits: Sequence[Edit]) -> tuple[int, int, bytes, bytes]:
    """Return (start, line, old, new): the whole lines from the first edit to the last."""
    first, last = min(e.span.start for e in edits), max(e.span.end for e in edits)
    start = before.rfind(b"\n", 0, first) + 1
    newline = before.find(b"\n", max(last - 1, start))
    end = len(before) if newline < 0 else newline + 1
    until = end + len(after) - len(before)
    return start, before.count(b"\n", 0, start) + 1, before[start:end], after[start:until]


class _LineRange(NamedTuple):
    """The bytes [start, end) of whole lines, of which `line` is the number of the first."""

    start: int
    end: int
    line: int


def partial_parse(
    layout: Layout, catalogue: IndexReader, path: str, loaded: LoadedFile, ids: Collection[str], now: float
) -> Document | None:
    """Parse the lines of a file that contain these memories, and those appended since it was indexed.

    The document has all of these memories, and is pending if the last line is half-written; other memories, findings
    and counts may be missing. Returns None if the whole file must be parsed.
    """
    row = catalogue.file(path) if layout.files.append_only else None
    data, wanted = loaded.data, frozenset(ids)
    if row is None or not (indexed_size := _indexed_size(row, loaded)):
        return None
    # A last line without a newline is always parsed: it may be half-written.
    tail = indexed_size if indexed_size < len(data) else data.rfind(b"\n") + 1
    places = [place for each in wanted for place in catalogue.places(each) if (place.path, place.id) == (path, each)]
    indexed = [place for place in places if place.start < tail]
    parts = [
        layout.reader.parse(path, data[start:end], now=now, mtime=loaded.mtime, base=ParseOffset(start, line))
        for start, end, line in (*_lines(data, indexed), _LineRange(tail, len(data), row.lines + 1))
        if start < end
    ]
    records = tuple(record for part in parts for record in part.records)
    parsed = sorted(
        (each.span.start, each.span.end) for each in records if each.span.start < tail and each.id in wanted
    )
    if parsed != sorted((place.start, place.end) for place in indexed):
        return None  # the file is not parsed line by line
    return Document(path, records, pending=any(part.pending for part in parts))


def _indexed_size(row: FileRow, loaded: LoadedFile) -> int:
    """Return how many bytes at the start of the file are indexed: all, those before appended lines, or none."""
    data, size = loaded.data, row.fingerprint.size
    if size == len(data):
        return size if loaded.digest == row.digest else 0
    may_have_grown = row.ends_with_newline and 0 < size < len(data)
    return size if may_have_grown and sha256(data[:size]) == row.digest else 0


def _lines(data: bytes, places: Sequence[Place]) -> Iterator[_LineRange]:
    """Return the lines that contain these memories, each once, in order."""
    starts = {data.rfind(b"\n", 0, each.start) + 1: each.line for each in places}
    return (_LineRange(start, data.find(b"\n", start) + 1, line) for start, line in sorted(starts.items()))
