"""The store's lock as its operations take it: for how long, and what happens while somebody else has it."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from memoryd.disk.locking import DirectoryLock, Held
from memoryd.disk.locktrace import Trace
from memoryd.disk.softlock import hold_soft
from memoryd.disk.tree import Tree
from memoryd.errors import ShuttingDownError
from memoryd.layouts import WholeLayout


class WouldWaitError(Exception):
    """Within `at_once`: the lock is not to be had, or something is to be done that may last. Nothing was changed."""


class Lockable(ABC):
    """Used by whoever has the root's turn, but for `halted`, which ends every wait."""

    def __init__(self) -> None:
        self.lock_trace = Trace()
        self.halted = threading.Event()
        self.meanwhile: Callable[[], None] = lambda: None  # what need not wait for a lock
        self._lingering: Held | None = None  # a lock that need not be let go before the answer
        self._unhurried = self._at_once = False

    @property
    @abstractmethod
    def tree(self) -> Tree: ...

    @property
    @abstractmethod
    def layout(self) -> WholeLayout | None: ...

    @contextmanager
    def locked(self, wait_s: float, *, honour_soft: bool = True) -> Iterator[Held | None]:
        """The store's own lock where its layout has one (BusyError when it cannot be had in time)."""
        if self.layout is None or self.layout.lock is None:
            yield None
            return
        if not self.lock_trace.followed:
            self.lock_trace.follow(self.tree.fd, self.layout.lock)
        self._let_go()
        lock = DirectoryLock(
            self.tree.fd, self.layout.lock, honour_soft=honour_soft, sleep=self._wait, trace=self.lock_trace
        )
        held = lock.hold(wait_s)
        try:
            yield held
        except BaseException:
            held.release()
            raise
        self._lingering = held
        if not self._unhurried:
            self._let_go()

    @contextmanager
    def unhurried(self) -> Iterator[None]:
        """The last lock of what is done within is let go at the end: so whoever asked has the answer before."""
        self._unhurried = True
        try:
            yield
        finally:
            self._unhurried = False
            self._let_go()

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """What is done within does not wait for a lock, and begins nothing that may last: WouldWaitError."""
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False

    def may_last(self) -> None:
        """Before what only a thread may do whom nobody waits for."""
        if self._at_once:
            raise WouldWaitError

    def forget_lock(self) -> None:
        """The folder is closed: let go what is held, and follow its lock file no longer."""
        self._let_go()
        self.lock_trace.close()

    def _let_go(self) -> None:
        held, self._lingering = self._lingering, None
        if held is not None:
            held.release()

    def _wait(self, seconds: float) -> None:
        """Between two looks at a lock that is taken; whoever waits for one does not hold up the end."""
        self.may_last()
        self.meanwhile()
        if self.halted.wait(seconds):
            raise ShuttingDownError("memoryd is shutting down", hint="try again when it has started anew")

    @contextmanager
    def soft_locked(self) -> Iterator[None]:
        """The lock files of other programs whose existence is the lock (BusyError when one is there)."""
        with ExitStack() as held:
            for rule in self.layout.locks if self.layout else ():
                if rule.kind == "soft":
                    held.enter_context(hold_soft(self.tree.fd, rule.name))
            yield
