"""The state of a lock file between two checks: since when it is unchanged, and who has touched its path.

`LockWatch` measures how long a lock file has been unchanged, on a monotonic clock: a wall clock alone proves no age.

`Trace` follows a lock file's path through the kernel's inotify events. Which process holds a deleted lock file shows
only in the kernel's lock table, and reading that waits until every CPU has passed through the scheduler: 8 to 16 ms if
it was not read within the last 50 ms (measured), many times the cost of an append. If no other program has touched the
path, the read is unnecessary: to hold a deleted lock file, some process must have deleted one. So the table is read
again only after another program created, removed or renamed a lock file, for as long as a process needs between
opening and locking it; and while another process still has the file open that we removed last.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Callable, Collection

from memoryd.disk import processes, syscalls
from memoryd.log import get_logger

log = get_logger(__name__)

Identity = tuple[int, int, int, int]  # device, inode, size, mtime_ns: equal until the file changes

# A lock file that names a live process although its flock is free keeps memoryd out for at most this long: the lock
# of this format is the flock, and a server that failed during a request leaves exactly such a file.
HONOUR_S = 600.0


def identity_of(status: os.stat_result) -> Identity:
    """Return the values that differ after any change of the file."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class LockWatch:
    """Measurements of how long each lock file of one root has been unchanged, by name."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.monotonic = monotonic
        self._since: dict[str, tuple[Identity, float]] = {}

    def unchanged_s(self, key: str, identity: Identity) -> float:
        """Return the seconds since this exact file was first observed; 0 the first time."""
        now = self.monotonic()
        known = self._since.get(key)
        if known is None or known[0] != identity:
            known = self._since[key] = (identity, now)
        return now - known[1]

    def keep(self, keys: Collection[str]) -> None:
        """Forget all other keys: those files are gone or have changed."""
        self._since = {key: known for key, known in self._since.items() if key in keys}


# A writer needs microseconds between open and flock; one that is suspended longer than this in between is missed.
FOREIGN_S = 1.0
RECHECK_S = 0.05  # between two reads of the lock table for what happened before we followed the path
_HEAD = struct.Struct("iIII")
_READ_BYTES, _MAX_EVENT = 65_536, _HEAD.size + 256  # bytes read at once; the largest event
_CREATED, _REMOVED, _UNWATCHED = syscalls.IN_CREATE, syscalls.IN_DELETE, syscalls.IN_IGNORED


class Trace:
    """Changes to the path of one lock file, recorded from one lock to the next. `mtime_ns`: the mtime of the directory
    after our last lock file. Where the kernel does not report changes, the lock table is always read."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.mtime_ns = 0
        self._clock = clock
        self._name = b""
        self._events: int | None = None
        self._last: int | None = None  # descriptor of the file that we removed last
        self._ours: list[int] = []  # our own changes to the path, in order, since the events were last read
        self._foreign_s = self._checked_s = self._followed_s = float("-inf")

    @property
    def followed(self) -> bool:
        """True if the kernel reports changes to the path."""
        return self._events is not None

    def follow(self, dir_fd: int, name: str) -> None:
        """Follow this path in the open directory, if the system allows it; earlier changes count as foreign."""
        self.close()
        try:
            self._events = syscalls.watch_names(dir_fd)
        except OSError as error:
            log.debug("lock file is not followed", path=name, reason=error.strerror)
        self._name = os.fsencode(name)
        self._foreign_s = self._followed_s = self._clock()

    def close(self) -> None:
        """Stop following the path."""
        for fd in (self._events, self._last):
            if fd is not None:
                os.close(fd)
        self._events = self._last = None
        self._ours.clear()
        self._checked_s = float("-inf")

    # --- our own changes

    def note_created(self) -> None:
        """Note that we have just created the file."""
        self._ours.append(_CREATED)

    def note_removed(self, fd: int) -> None:
        """Note that we have just removed the file. It stays open, to see whether another process still has it open;
        its flock is released, since such a process would wait for it."""
        self._ours.append(_REMOVED)
        if not self.followed:
            return
        fcntl.flock(fd, fcntl.LOCK_UN)
        if self._last is not None:
            os.close(self._last)
        self._last = os.dup(fd)

    def close_removed(self) -> None:
        """Close the removed file once no other process has it open: no process can open it again. An open one would
        prevent remounting the disk read-only. Called with each check and from time to time."""
        if self._last is not None and processes.is_sole_opener(self._last, ".lock"):
            os.close(self._last)
            self._last = None

    # --- queries

    @property
    def holds_removed(self) -> bool:
        """True while the removed file is open here."""
        return self._last is not None

    def is_clear(self) -> bool:
        """True if certainly no process holds a deleted lock file: no other program has changed the path since the lock
        table was last read, and for a while before that. For changes from before we followed the path, the table is
        read again from time to time."""
        self._read_events()
        if not self.followed:
            return False
        unchanged = self._foreign_s == self._followed_s and self._clock() - self._checked_s < RECHECK_S
        return unchanged or self._checked_s - self._foreign_s >= FOREIGN_S

    def note_clear(self) -> None:
        """Note that the lock table has just shown no holder."""
        self._checked_s = self._clock()

    def _read_events(self) -> None:
        if self._events is None:
            return
        masks = _read(self._events, self._name)
        if any(mask & _UNWATCHED for mask in masks):
            self.close()
            return
        self.close_removed()
        if masks != self._ours or self._last is not None:
            self._foreign_s = self._clock()
        self._ours.clear()


def _read(fd: int, wanted: bytes) -> list[int]:
    """Read all pending events and return the masks of those that concern the path. Events of the directory itself,
    and those that report lost events, have no name."""
    masks: list[int] = []
    left = True
    while left:
        try:
            data = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            break
        at = 0
        while at < len(data):
            _, mask, _, length = _HEAD.unpack_from(data, at)
            at += _HEAD.size
            if data[at : at + length].rstrip(b"\0") in (wanted, b""):
                masks.append(mask & syscalls.IN_ALL)
            at += length
        left = len(data) > _READ_BYTES - _MAX_EVENT  # otherwise another event would have fitted
    return masks
