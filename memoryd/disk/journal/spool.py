"""The journal's write-ahead spool: changes that only append are recorded here in one small write, and folded into the
journal with its next transaction.

One file next to the journal, records end to end. A kill loses none of them; a record torn by a power cut is skipped.
An entry is written when it begins, and its receipt once more when it is done.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from typing import Any

import msgspec

from memoryd.log import get_logger

log = get_logger(__name__)

_LENGTH = 4  # bytes of the length prefix of each record


class PendingEntry(msgspec.Struct, array_like=True):
    """An entry and the columns of its steps, as the journal's tables will have them."""

    receipt: str
    at: float
    operation: str
    by: str
    summary: str
    steps: list[tuple[Any, ...]]
    state: str = "begun"


_READ = msgspec.msgpack.Decoder(PendingEntry | str)


class Spool:
    """The spool of one journal. `pending`: its entries by receipt, in order. The journal's lock guards it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd: int | None = None
        self._size = 0  # bytes of complete records
        self._spoiled = False  # other bytes may follow the complete records
        self.pending: dict[str, PendingEntry] = {}

    def read(self) -> None:
        """Read the entries of an earlier run. Raises OSError, also if the path is not a regular file."""
        for record, end in _records(self._content()):
            self._size = end
            if isinstance(record, PendingEntry):
                self.pending[record.receipt] = record
            elif record in self.pending:
                self.pending[record].state = "done"

    def begin(self, entry: PendingEntry) -> None:
        """Record a new entry. Raises OSError; then nothing was recorded."""
        self._write(entry)
        self.pending[entry.receipt] = entry

    def mark_done(self, receipt: str) -> None:
        """Record that an entry is done. A failed write is only logged: the change itself succeeded, and after a kill
        recovery reads its state from the files."""
        self.pending[receipt].state = "done"
        try:
            self._write(receipt)
        except OSError as error:
            log.debug("not written down as done", receipt=receipt, reason=str(error))

    def empty(self) -> None:
        """Clear the spool after its entries were folded into the journal. If the truncation fails, the entries are read
        again later and skipped as known."""
        if not self.pending and not self._spoiled:
            return
        self.pending.clear()
        self._size, self._spoiled = 0, True
        try:
            os.ftruncate(self._open(), 0)
            self._spoiled = False
        except OSError as error:
            log.debug("the spool is emptied later", path=self._path, reason=str(error))

    def close(self) -> None:
        """Close the open file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _write(self, record: PendingEntry | str) -> None:
        encoded = msgspec.msgpack.encode(record)
        framed = len(encoded).to_bytes(_LENGTH) + encoded
        fd = self._open()
        if self._spoiled:  # a torn record would hide those after it
            os.ftruncate(fd, self._size)
        self._spoiled = True
        written = os.write(fd, framed)
        if written != len(framed):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
        self._size += written
        self._spoiled = False

    def _content(self) -> bytes:
        try:
            with open(_open_regular(self._path, os.O_RDONLY), "rb") as file:
                content = file.read()
        except FileNotFoundError:
            return b""
        self._spoiled = bool(content)
        return content

    def _open(self) -> int:
        if self._fd is None:
            self._fd = _open_regular(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        return self._fd


def _open_regular(path: str, flags: int) -> int:
    """Open a regular file without following a link or blocking on a pipe."""
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return fd


def _records(content: bytes) -> Iterator[tuple[PendingEntry | str, int]]:
    """Yield all complete records, each with its end offset."""
    at = 0
    while at < len(content):
        end = at + _LENGTH + int.from_bytes(content[at : at + _LENGTH])
        try:
            yield _READ.decode(content[at + _LENGTH : end]), end
        except msgspec.DecodeError:
            return
        at = end
