"""The journal's waiting room: what only adds is written down here in one small write, and brought into the journal
together with whatever comes next.

One file beside the journal, records end to end; a kill takes none of them, and what a power cut left of the last one is
passed over. An entry comes in as it was begun, and once more by its receipt when it is done.
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
        self._path = path
        self._fd: int | None = None
        self._size = 0  # bytes of whole records
        self._spoiled = False  # something else may stand behind those
        self.waiting: dict[str, Waiting] = {}

    def read(self) -> None:
        """What an earlier run left. Raises OSError, also where something else than a file stands there."""
        for record, end in _records(self._content()):
            self._size = end
            if isinstance(record, Waiting):
                self.waiting[record.receipt] = record
            elif record in self.waiting:
                self.waiting[record].state = "done"

    def begin(self, entry: Waiting) -> None:
        """Raises OSError, and then nothing was written down."""
        self._write(entry)
        self.waiting[entry.receipt] = entry

    def done(self, receipt: str) -> None:
        """Where the disk refuses that, the files tell it after a kill; whoever asked must not hear that the change
        failed."""
        self.waiting[receipt].state = "done"
        try:
            self._write(receipt)
        except OSError as error:
            log.debug("not written down as done", receipt=receipt, reason=str(error))

    def empty(self) -> None:
        """All of it is in the journal now. What cannot be cut off would come in once more, and is passed over."""
        if not self.waiting and not self._spoiled:
            return
        self.waiting.clear()
        self._size, self._spoiled = 0, True
        try:
            os.ftruncate(self._opened(), 0)
            self._spoiled = False
        except OSError as error:
            log.debug("the spool is emptied later", path=self._path, reason=str(error))

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _write(self, record: Waiting | str) -> None:
        packed = msgspec.msgpack.encode(record)
        whole = len(packed).to_bytes(_LENGTH) + packed
        fd = self._opened()
        if self._spoiled:  # half a record would hide those that come after it
            os.ftruncate(fd, self._size)
        self._spoiled = True
        written = os.write(fd, whole)
        if written != len(whole):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
        self._size += written
        self._spoiled = False

    def _content(self) -> bytes:
        try:
            with open(_regular(self._path, os.O_RDONLY), "rb") as file:
                content = file.read()
        except FileNotFoundError:
            return b""
        self._spoiled = bool(content)
        return content

    def _opened(self) -> int:
        if self._fd is None:
            self._fd = _regular(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        return self._fd


def _regular(path: str, flags: int) -> int:
    """Opened without following a link or waiting for the other end of a pipe."""
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "is no regular file", path)
    return fd


def _records(content: bytes) -> Iterator[tuple[Waiting | str, int]]:
    """All that are whole, each with where it ends."""
    at = 0
    while at < len(content):
        end = at + _LENGTH + int.from_bytes(content[at : at + _LENGTH])
        try:
            yield _READ.decode(content[at + _LENGTH : end]), end
        except msgspec.DecodeError:
            return
        at = end
