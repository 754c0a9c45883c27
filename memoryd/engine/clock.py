"""The clock of the daemon: the one place below the services where time is read."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """`wall`: seconds since the epoch; `monotonic`: seconds that never go back."""

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
