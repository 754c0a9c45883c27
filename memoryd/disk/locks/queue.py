"""A place in the kernel's queue for the flock of a lock file."""

from __future__ import annotations

import fcntl
import os
import threading

from msgspec import Struct, field

from memoryd.disk.locks import file as lockfile
from memoryd.disk.temps import still_holds

MAX_WAITING = 4  # threads that may wait at once, possibly behind a holder that never releases; beyond that, poll

_waiting = threading.BoundedSemaphore(MAX_WAITING)


class QueuedFlock(Struct):
    """A place in the kernel's queue for the flock of the open file `fd`. Use `begin`, and always `end` it.

    A process that only polls never finds the flock free alongside writers that follow each other without a gap: the
    kernel gives it to the first waiter. A blocking flock cannot be cancelled, so a dedicated thread waits; after `end`
    it releases the flock as soon as it gets it, and removes the lock file that its holder truncated and left to us."""

    fd: int  # a duplicate, like `dir_fd`: closed by the thread or by `end`, whichever comes last
    dir_fd: int
    name: str
    claimed: bool  # the file had a record when the wait began; one that was empty belongs to another program
    _changed: threading.Lock = field(default_factory=threading.Lock)
    _over: threading.Event = field(default_factory=threading.Event)
    _got: bool = False
    _ended: bool = False

    @classmethod
    def begin(cls, fd: int, dir_fd: int, name: str) -> QueuedFlock | None:
        """Start waiting in a thread; return None if too many threads wait already."""
        if not _waiting.acquire(blocking=False):
            return None
        turn = cls(os.dup(fd), os.dup(dir_fd), name, os.fstat(fd).st_size > 0)
        threading.Thread(target=turn._wait, name="memoryd-flock", daemon=True).start()
        return turn

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds`. True if the flock is ours now."""
        return self._over.wait(seconds) and self._got

    @property
    def failed(self) -> bool:
        """True if the system refused to wait; a non-blocking attempt raises the reason."""
        return self._over.is_set() and not self._got

    def end(self) -> None:
        """Stop waiting. A flock that we got stays with the caller's descriptor; one that comes later is released."""
        with self._changed:
            self._ended = True
            if self._over.is_set():
                self._close()

    def _wait(self) -> None:
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX)
            self._got = True
        except OSError:
            self._got = False  # the caller retries without blocking and reports the error
        finally:
            _waiting.release()
            with self._changed:
                self._over.set()
                if self._ended:
                    self._give_up()

    def _give_up(self) -> None:
        try:
            left_to_us = self._got and self.claimed and not os.fstat(self.fd).st_size
            if left_to_us and still_holds(self.dir_fd, self.name, self.fd):
                lockfile.retire(self.dir_fd, self.name, self.fd, contested=True)
        finally:
            self._close()

    def _close(self) -> None:
        os.close(self.fd)  # the last descriptor of the file: frees the flock
        os.close(self.dir_fd)
