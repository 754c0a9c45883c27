"""The clock of the daemon: the one place below the services where time is read."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


def _boot() -> float:
    clock = getattr(time, "CLOCK_BOOTTIME", None)  # macOS has none: its monotonic clock goes on in sleep
    return time.monotonic() if clock is None else time.clock_gettime(clock)


@dataclass(frozen=True, slots=True)
class Clock:
    """`wall`: seconds since the epoch; `monotonic`: seconds that never go back; `boot`: the same, sleep included."""

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    boot: Callable[[], float] = _boot
