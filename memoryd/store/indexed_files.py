"""Files as they were indexed, so that only what changed since is read or parsed.

`FileEnds` has the ends of files of lines: of one that another program appended to only the new lines are read, or what
stood before them is compared with less work than a digest takes. `FilePieces` has the pieces of large documents: of a
changed one only the changed part is parsed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from memoryd.core.digest import digest_of
from memoryd.core.index import FileRow
from memoryd.core.records import Pieces
from memoryd.core.spans import Fingerprint
from memoryd.disk.syscalls import PIECE, pread_all

if TYPE_CHECKING:
    from memoryd.core.digest import Hash

MAX_FILES = 64  # whose ends or starts are known
END_BYTES = 4096  # of an indexed file that must still stand before appended lines
_Value = TypeVar("_Value")


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
