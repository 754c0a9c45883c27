"""The progress of long work: counted by the thread that does it, read by any other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

T = TypeVar("T")

MIN_ELAPSED_S = 1.0  # a rate measured over less than this says little


class Progress(Struct, frozen=True):
    """One look at long work: the step, and how much of it is done, in `unit` ("bytes", "memories"). `elapsed_s` is how
    long the step has taken so far."""

    step: str
    unit: str
    total: int
    done: int = 0
    elapsed_s: float = 0.0

    @property
    def rate(self) -> float | None:
        """Units per second, None while it is too early to tell."""
        return self.done / self.elapsed_s if self.done and self.elapsed_s >= MIN_ELAPSED_S else None

    @property
    def left_s(self) -> float | None:
        """Seconds until the step is done if it goes on at the same rate, None while it is too early to tell."""
        return None if self.rate is None else (self.total - self.done) / self.rate

    @property
    def percent(self) -> int:
        """The part that is done, of 100; 100 only when all of it is."""
        return self.done * 100 // self.total if self.total else 100


class ProgressMeter:
    """Measures one step of long work at a time. `monotonic` is the clock, `observer` is called after each advance, on
    the working thread. Only `current` is for any thread."""

    def __init__(self, monotonic: Callable[[], float] = lambda: 0.0) -> None:
        self.monotonic = monotonic
        self.observer: Callable[[], None] = lambda: None
        self._step: tuple[Progress, float] | None = None  # with the time at which it began

    @contextmanager
    def measure(self, step: str, unit: str, total: int) -> Iterator[None]:
        """Measure one step, of `total` units, until the block ends. A step without any work is not shown."""
        before = self._step
        if total:
            self._step = Progress(step, unit, total), self.monotonic()
        try:
            yield
        finally:
            self._step = before

    @property
    def done(self) -> int:
        """The units done of the current step, 0 without one."""
        return self._step[0].done if self._step else 0

    @contextmanager
    def part(self, size: int) -> Iterator[None]:
        """Do a part of the current step, of `size` units; it may note how far it is."""
        end = self.done + size
        yield
        self.reach(end)

    def track(self, step: str, parts: Sequence[T], size_of: Callable[[T], int]) -> Iterator[T]:
        """Yield the parts of a step, which is measured by their sizes in bytes."""
        with self.measure(step, "bytes", sum(map(size_of, parts))):
            for each in parts:
                with self.part(size_of(each)):
                    yield each

    def reach(self, done: int) -> None:
        """Note that this many units of the current step are done. Progress never goes back or above the total."""
        if self._step is None:
            return
        progress, began = self._step
        self._step = replace(progress, done=max(progress.done, min(done, progress.total))), began
        self.observer()

    def current(self) -> Progress | None:
        """Return the progress of the current step, None without one."""
        step = self._step
        return None if step is None else replace(step[0], elapsed_s=max(0.0, self.monotonic() - step[1]))
