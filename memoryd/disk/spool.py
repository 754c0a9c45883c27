"""The journal's waiting room: what only adds is written down here in one small write, and brought into the journal
together with whatever comes next.

One file beside the journal, records end to end; a kill takes none of them, and what a power cut left of the last one is
passed over. An entry comes in as it was begun, and once more by its receipt when it is done.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import Any

import msgspec

_LENGTH = 4  # bytes before each record that say how long it is


class Waiting(msgspec.Struct, array_like=True):
    """An entry and the columns of its steps, as the journal's tables will have them."""

    receipt: str
    at: float
    operation: str
    by: str
    summary: str
    steps: list[tuple[Any, ...]]
    state: str = "begun"


_READ = msgspec.msgpack.Decoder(Waiting | str)


class Spool:
    """`waiting` are the entries by receipt, in order. The journal's lock guards it."""

    def __init__(self, path: str) -> None:
        """What an earlier run left is there at once."""
        self._path = path
        self._fd: int | None = None
        self.waiting: dict[str, Waiting] = {}
        for record in _records(path):
            if isinstance(record, Waiting):
                self.waiting[record.receipt] = record
            elif record in self.waiting:
                self.waiting[record].state = "done"

    def begin(self, entry: Waiting) -> None:
        """Raises OSError, and then nothing was written down."""
        self._write(entry)
        self.waiting[entry.receipt] = entry

    def done(self, receipt: str) -> None:
        self._write(receipt)
        self.waiting[receipt].state = "done"

    def empty(self) -> None:
        """All of it is in the journal now."""
        if not self.waiting:
            return
        self.waiting.clear()
        os.ftruncate(self._opened(), 0)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _write(self, record: Waiting | str) -> None:
        packed = msgspec.msgpack.encode(record)
        whole = len(packed).to_bytes(_LENGTH) + packed
        fd = self._opened()
        written = os.write(fd, whole)
        if written != len(whole):  # half a record would hide those that come after it
            os.ftruncate(fd, os.fstat(fd).st_size - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)

    def _opened(self) -> int:
        if self._fd is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._fd = os.open(self._path, flags, 0o600)
        return self._fd


def _records(path: str) -> Iterator[Waiting | str]:
    """All that are whole."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return
    at = 0
    while at < len(content):
        end = at + _LENGTH + int.from_bytes(content[at : at + _LENGTH])
        try:
            yield _READ.decode(content[at + _LENGTH : end])
        except msgspec.DecodeError:
            return
        at = end
