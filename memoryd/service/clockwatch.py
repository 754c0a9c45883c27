"""Notices that the machine slept or that somebody set the clock.

The wall clock goes on during suspend and jumps when it is set; the monotonic clock does neither (on Linux it
stands still during suspend). Where both disagree about how long a step took, timers and watches cannot be
trusted.
"""

from __future__ import annotations


class ClockWatch:
    """Compares two clocks from step to step; `threshold_s` lets ordinary clock correction pass."""

    def __init__(self, threshold_s: float = 5.0) -> None:
        self.threshold_s = threshold_s
        self._previous: tuple[float, float] | None = None

    def step(self, wall: float, monotonic: float) -> float | None:
        """Seconds by which the wall clock jumped since the last step (negative: set back), or None.

        Each jump is reported once. The first step only remembers.
        """
        previous, self._previous = self._previous, (wall, monotonic)
        if previous is None:
            return None
        jump = (wall - previous[0]) - (monotonic - previous[1])
        return jump if abs(jump) > self.threshold_s else None
