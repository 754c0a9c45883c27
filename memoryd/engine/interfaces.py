"""The interface to the services above the engine, which it never imports: clock, watcher, timetable and event
subscribers. `Clock` is the one place below the services where time is read."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Protocol

from msgspec import Struct


def _boot() -> float:
    clock = getattr(time, "CLOCK_BOOTTIME", None)  # macOS has none: its monotonic clock goes on in sleep
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class Clock(Struct, frozen=True):
    """`wall`: seconds since the epoch; `monotonic`: seconds that never go back; `boot`: the same, sleep included."""

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    boot: Callable[[], float] = _boot


Tell = Callable[[str, dict[str, object]], None]
"""(topic, event): publishes to subscribers; must not block."""


class Change(Enum):
    """What an event says about a path: its content may have changed; it was closed after writing, or renamed into
    place, so it is probably complete; or it is gone."""

    MODIFIED = "modified"
    COMPLETE = "complete"
    GONE = "gone"


class Watcher(Protocol):
    """The watcher of all roots, as far as one of them uses it."""

    def watch(self, root: str, path: str, /) -> bool:
        """Watch the directory again; False if it cannot be watched."""

    def unwatch(self, root: str, /) -> None:
        """Stop watching a root."""

    def coverage(self, root: str, directories: Mapping[str, tuple[int, int]], /) -> tuple[int, int]:
        """Return how many directories ought to be watched, and how many are under their path -> (device, inode)."""

    def barrier(self, timeout_s: float, /) -> bool:
        """Wait until the roots have been told of every event from before this call. False if that is not certain."""

    def limit_hint(self) -> str:
        """Return what a person can do about a kernel limit that keeps directories from being watched."""


class Timetable(Protocol):
    """The timetable of all roots, as far as one of them uses it."""

    def retry(self, root: str, job: str, after_s: float) -> None:
        """Let the job fall due again in so many seconds."""

    def scheduled(self, root: str) -> None:
        """Set up the root's jobs anew: its layout, which decides what jobs it has, has become known."""
