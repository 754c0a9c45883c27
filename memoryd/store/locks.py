"""The store's lock for operations: how long they wait, and what runs while another program holds it."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from memoryd.disk.locks.file import hold_soft
from memoryd.disk.locks.hold import DirectoryLock, HeldLock
from memoryd.disk.locks.watch import LockWatch, Trace
from memoryd.disk.tree import Tree
from memoryd.errors import ShuttingDownError
from memoryd.layouts.protocol import Layout

UNATTENDED_WAIT_S = 0.05


class StoreLock(ABC):
    """The lock of one store. Used by the thread that owns the root, except `stopping`, which ends every wait."""

    def __init__(self) -> None:
        self.lock_trace = Trace()
        self.lock_watch = LockWatch()
        self.stopping = threading.Event()
        self.idle_callback: Callable[[], None] = lambda: None  # called while waiting: work that needs no lock
        self._lingering: HeldLock | None = None  # a lock to be released after the answer
        self._release_later = False
        self._longest_wait_s = float("inf")

    @property
    @abstractmethod
    def tree(self) -> Tree:
        """The open directory. Raises RootMissingError if it does not exist."""

    @property
    @abstractmethod
    def layout(self) -> Layout | None:
        """The layout; None while it is unknown."""

    @contextmanager
    def locked(self, wait_s: float, *, honour_soft: bool = True) -> Iterator[HeldLock | None]:
        """Take the store's lock, if its layout has one. Raises BusyError if it is not acquired within `wait_s`."""
        if self.layout is None or self.layout.files.lock is None:
            yield None
            return
        if not self.lock_trace.followed:
            self.lock_trace.follow(self.tree.fd, self.layout.files.lock)
        self._release()
        lock = DirectoryLock(
            self.tree.fd,
            self.layout.files.lock,
            honour_soft=honour_soft,
            sleep=self._wait,
            trace=self.lock_trace,
            watch=self.lock_watch,
        )
        held = lock.hold(min(wait_s, self._longest_wait_s))
        try:
            yield held
        except BaseException:
            held.release()
            raise
        self._lingering = held
        if not self._release_later:
            self._release()

    @contextmanager
    def release_later(self) -> Iterator[None]:
        """Delay the release of the last lock taken inside to the end, so that the caller is answered first."""
        self._release_later = True
        try:
            yield
        finally:
            self._release_later = False
            self._release()

    @contextmanager
    def unattended(self) -> Iterator[None]:
        """Limit each wait for a lock to a moment: the root's only thread has changes to index."""
        self._longest_wait_s = UNATTENDED_WAIT_S
        try:
            yield
        finally:
            self._longest_wait_s = float("inf")

    def check_stopping(self) -> None:
        """Raise ShuttingDownError during a shutdown. Called between parts of long work that can be repeated."""
        if self.stopping.is_set():
            raise _shutting_down()

    def forget_lock(self) -> None:
        """Release the lock and stop following its file, before the directory is closed."""
        self._release()
        self.lock_trace.close()

    def _release(self) -> None:
        held, self._lingering = self._lingering, None
        if held is not None:
            held.release()

    def _wait(self, seconds: float) -> None:
        """Wait between two attempts to take the lock. Raises ShuttingDownError during a shutdown."""
        self.idle_callback()
        if self.stopping.wait(seconds):
            raise _shutting_down()

    @contextmanager
    def soft_locked(self) -> Iterator[None]:
        """Take the lock files of programs that lock by the existence of a file. Raises BusyError if one exists."""
        with ExitStack() as held:
            for rule in self.layout.files.locks if self.layout else ():
                if rule.kind == "soft":
                    held.enter_context(hold_soft(self.tree.fd, rule.name))
            yield


def _shutting_down() -> ShuttingDownError:
    return ShuttingDownError("memoryd is shutting down", hint="try again after it has started")
