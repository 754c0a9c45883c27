"""Readers of a catalogue for any thread: lent for the time of a question, and used again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

IDLE = 4  # readers that wait to be lent again


class Closing(Protocol):
    def close(self) -> None: ...


Reader = TypeVar("Reader", bound=Closing)


class Lending(Generic[Reader]):
    """Opening a connection costs more than most questions, so a few are kept. One that failed is not."""

    def __init__(self, open_one: Callable[[], Reader]) -> None:
        self._open = open_one
        self._changing = threading.Lock()
        self._idle: list[Reader] = []
        self._closed = False

    @contextmanager
    def lend(self) -> Iterator[Reader]:
        with self._changing:
            lent = self._idle.pop() if self._idle else None
        lent = lent or self._open()
        sound = False
        try:
            yield lent
            sound = True
        finally:
            with self._changing:
                kept = sound and not self._closed and len(self._idle) < IDLE
                if kept:
                    self._idle.append(lent)
            if not kept:
                lent.close()

    def close(self) -> None:
        """Those that are lent are closed when they come back."""
        with self._changing:
            self._closed = True
            idle, self._idle = self._idle, []
        for each in idle:
            each.close()
