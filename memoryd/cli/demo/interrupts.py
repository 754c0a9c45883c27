"""Ctrl-C and friends, let in only where nothing can be left behind: a process that has begun but is not noted
yet would outlive the demo."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class InterruptedDemoError(Exception):
    """A signal asked the demo to end; `number` says which."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Interrupts:
    """While entered, a signal is noted, and raised as InterruptedDemoError inside `allowed()` alone."""

    def __init__(self) -> None:
        self._asked: int | None = None
        self._open = False
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Interrupts:
        for number in SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` means it
                self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # as signal.signal returned it

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Where the demo waits: for a reply, or for time to pass."""
        self._open = True
        try:
            if self._asked is not None:
                raise InterruptedDemoError(self._asked)
            yield
        finally:
            self._open = False

    def _take(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._asked = self._asked or number
        if self._open:
            self._open = False
            raise InterruptedDemoError(number)
