"""What happened to a lock file's name since memoryd last looked, told by the kernel's own events.

Who is inside with a removed lock file shows only in the kernel's table of locks, and to read that waits until every
processor has passed through the scheduler: 8 to 16 ms where nobody read it for 50 ms (measured), many times what an
append needs. Where no stranger has touched the name there is nothing to ask: to be inside with a removed lock file,
somebody must have removed one. So the question is put again only after somebody else made, removed or renamed a lock
file, for as long as it takes whoever opened it to lock it; and while somebody has the file open that we removed last.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Callable

from memoryd.disk import syscalls
from memoryd.log import get_logger

# Between the open and the flock of a writer lie microseconds; one that the system keeps waiting longer is not seen.
STRANGER_S = 1.0
AGAIN_S = 0.05
_HEAD = struct.Struct("iIII")
_MOST, _LARGEST = 65_536, _HEAD.size + 256  # bytes read at once, and of one event
_MADE, _GONE, _BLIND = syscalls.IN_CREATE, syscalls.IN_DELETE, syscalls.IN_IGNORED


class Trace:
    """Of one lock file, kept from one lock to the next. `mtime_ns` is the time stamp of the folder as our own last
    lock file left it. One that follows nothing knows nothing, so that the table is always asked."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.mtime_ns = 0
        self._clock = clock
        self._name = b""
        self._events: int | None = None
        self._last: int | None = None  # the file that we removed last
        self._ours: list[int] = []  # what we did to the name, in order, since the events were read
        self._stranger_s = self._asked_s = self._followed_s = float("-inf")

    @property
    def followed(self) -> bool:
        return self._events is not None

    def follow(self, dir_fd: int, name: str) -> None:
        """From now on, where the system lets us; what was before is a stranger's work."""
        self.close()
        try:
            self._events = syscalls.watch_names(dir_fd)
        except OSError as error:
            get_logger(__name__).debug("lock file is not followed", path=name, reason=error.strerror)
        self._name = os.fsencode(name)
        self._stranger_s = self._followed_s = self._clock()

    def close(self) -> None:
        for fd in (self._events, self._last):
            if fd is not None:
                os.close(fd)
        self._events = self._last = None
        self._ours.clear()
        self._asked_s = float("-inf")

    # --- what we do ourselves

    def made(self) -> None:
        self._ours.append(_MADE)

    def removed(self, fd: int) -> None:
        """The file is kept open, to see whether anybody else has it open still; its flock must not be kept, since
        whoever has would wait for it."""
        self._ours.append(_GONE)
        if not self.followed:
            return
        fcntl.flock(fd, fcntl.LOCK_UN)
        if self._last is not None:
            os.close(self._last)
        self._last = os.dup(fd)

    def rest(self) -> None:
        """At each look, and from time to time: a removed file that nobody else has open can never be anybody's again.
        Kept open it would keep the disk from being mounted read-only."""
        if self._last is not None and syscalls.only_opener(self._last, ".lock"):
            os.close(self._last)
            self._last = None

    # --- what is known

    def nobody(self) -> bool:
        """Surely nobody is inside with a removed lock file: no stranger had a hand in it since the table of locks was
        last asked, and for a while before. What may have been before we followed it is asked for from time to time."""
        self._look()
        if not self.followed:
            return False
        unseen = self._stranger_s == self._followed_s and self._clock() - self._asked_s < AGAIN_S
        return unseen or self._asked_s - self._stranger_s >= STRANGER_S

    def asked(self) -> None:
        """The table of locks has just shown nobody."""
        self._asked_s = self._clock()

    def _look(self) -> None:
        if self._events is None:
            return
        seen = _read(self._events, self._name)
        if any(mask & _BLIND for mask in seen):
            self.close()
            return
        self.rest()
        if seen != self._ours or self._last is not None:
            self._stranger_s = self._clock()
        self._ours.clear()


def _read(fd: int, wanted: bytes) -> list[int]:
    """What happened to the name, of all that waits. What concerns the folder itself, or tells of lost events, has no
    name."""
    masks: list[int] = []
    left = True
    while left:
        try:
            data = os.read(fd, _MOST)
        except BlockingIOError:
            break
        at = 0
        while at < len(data):
            _, mask, _, length = _HEAD.unpack_from(data, at)
            at += _HEAD.size
            if data[at : at + length].rstrip(b"\0") in (wanted, b""):
                masks.append(mask & syscalls.IN_ALL)
            at += length
        left = len(data) > _MOST - _LARGEST  # else another event had found room
    return masks
