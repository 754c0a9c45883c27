"""The lock of one root: how long operations wait for it, and what runs meanwhile."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from memoryd.core.progress import ProgressMeter
from memoryd.disk.locks.hold import DirectoryLock, HeldLock
from memoryd.disk.locks.soft import hold_soft
from memoryd.disk.locks.trace import LockWatch, Trace
from memoryd.disk.tree import Tree
from memoryd.errors import ShuttingDownError
from memoryd.layouts.protocol import FileRules, Layout
from memoryd.store.priority import SearchPriority

UNATTENDED_WAIT_S = 0.05  # for the lock, while nobody waits for an answer
_NO_RULES = FileRules()


class StoreLock(ABC):
    """The lock of one store: how long operations wait for it, and what runs meanwhile. Used by the thread that owns
    the root, except `stopping`, which ends every wait."""

    def __init__(self) -> None:
        self.lock_trace = Trace()
        self.lock_watch = LockWatch()
        self.stopping = threading.Event()
        self.progress = ProgressMeter()
        self.idle_callback: Callable[[], None] = lambda: None  # called while waiting: work that needs no lock
        self.urgent_callback: Callable[[], None] = lambda: None  # called between parts of long work: urgent work
        self.searches = SearchPriority()
        self._agents_wait = False  # for the lock, which is held now
        self._longest_wait_s = float("inf")

    @property
    @abstractmethod
    def tree(self) -> Tree:
        """The open directory. Raises RootMissingError if it does not exist."""

    @property
    @abstractmethod
    def layout(self) -> Layout | None:
        """The layout; None while it is unknown."""

    @property
    def file_rules(self) -> FileRules:
        """The rules of the layout for its files; without a layout, those that demand nothing."""
        return _NO_RULES if self.layout is None else self.layout.files

    @contextmanager
    def locked(self, wait_s: float, *, honour_soft: bool = True) -> Iterator[HeldLock | None]:
        """Take the store's lock, if its layout has one. Raises BusyError if it is not acquired within `wait_s`."""
        name = self.file_rules.lock
        if name is None:
            yield None
            return
        if not self.lock_trace.followed:
            self.lock_trace.follow(self.tree.fd, name)
        lock = DirectoryLock(
            self.tree.fd,
            name,
            honour_soft=honour_soft,
            sleep=self._wait,
            trace=self.lock_trace,
            watch=self.lock_watch,
        )
        with lock.hold(min(wait_s, self._longest_wait_s)) as held:
            self._agents_wait = True
            try:
                yield held
            finally:
                self._agents_wait = False

    @contextmanager
    def unattended(self) -> Iterator[None]:
        """Limit each wait for a lock to a moment: the root's only thread has changes to index."""
        self._longest_wait_s = UNATTENDED_WAIT_S
        try:
            yield
        finally:
            self._longest_wait_s = float("inf")

    def check_stopping(self) -> None:
        """Raise ShuttingDownError during a shutdown, and let searches go first, unless agents may wait for the lock.
        Called between parts of long work that can be repeated."""
        if self.stopping.is_set():
            raise _shutting_down()
        if not self._agents_wait:
            self.searches.give_way()

    def pause(self) -> None:
        """Let urgent work go first, unless agents may wait for the lock: files that have just changed are indexed.
        Called between parts of long work that can be repeated and reads a state of the catalogue that does not change.
        Raises as `check_stopping` does."""
        self.check_stopping()
        if not self._agents_wait:
            self.urgent_callback()

    def _wait(self, seconds: float) -> None:
        """Wait between two attempts to take the lock. Raises ShuttingDownError during a shutdown."""
        self.idle_callback()
        if self.stopping.wait(seconds):
            raise _shutting_down()

    @contextmanager
    def soft_locked(self) -> Iterator[None]:
        """Take the lock files of programs that lock by the existence of a file. Raises BusyError if one exists."""
        with ExitStack() as held:
            for rule in self.file_rules.locks:
                if rule.kind == "soft":
                    held.enter_context(hold_soft(self.tree.fd, rule.name))
            yield


def _shutting_down() -> ShuttingDownError:
    return ShuttingDownError("memoryd is shutting down", hint="try again after it has started")
