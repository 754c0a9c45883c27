"""The goals of the benchmark: how long a case may take at a size, beside its floor, and how it may grow."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Goal(msgspec.Struct, frozen=True):
    """Upper limits of p50 and p99, and of p50 as `times` the floor plus `plus`, all in the unit of the row."""

    p50: float | None = None
    p99: float | None = None
    times: float | None = None
    plus: float = 0.0

    def allows(self, p50: float, p99: float, floor: float | None) -> bool:
        """Whether a row meets every limit; without a floor a multiple of it cannot be met."""
        limit = None if self.times is None or floor is None else self.times * floor + self.plus
        if self.times is not None and limit is None:
            return False
        limits = ((p50, self.p50), (p99, self.p99), (p50, limit))
        return all(value <= most for value, most in limits if most is not None)

    def text(self, unit: str) -> str:
        """Describe the goal: `<= 5 ms, p99 <= 25`."""
        parts = []
        if self.p50 is not None:
            parts.append(f"<= {self.p50:g} {unit}")
        if self.p99 is not None:
            parts.append(f"p99 <= {self.p99:g}")
        if self.times is not None:
            parts.append(f"<= {self.times:g} x floor" + (f" + {self.plus:g} {unit}" if self.plus else ""))
        return ", ".join(parts)


BySize = Mapping[int, Goal | None]
"""The goal up to a size: that of the smallest key which is not below it. None: no goal up to there."""

ANY = 10**9
SEARCHABLE, INDEX_FILE, SYNC, FIRST_INDEX, KNOWN_START = (
    "searchable",
    "index-file",
    "sync",
    "first-index",
    "known-start",
)
SEARCH, SEARCH_BUSY, STORE, BURST, WRITERS = "search", "search-busy", "store", "burst", "writers"
IDLE, MEMORY, CLIENT = "idle", "memory", "client"

_CHANGE: BySize = {100_000: Goal(p50=5, p99=25)}
_TEXT: BySize = {1_000: Goal(p50=0.5, p99=5), 10_000: Goal(p50=0.8, p99=8), 100_000: Goal(p50=3, p99=30)}
_CLIENT: BySize = {ANY: Goal(times=3)}
_BURST: BySize = {ANY: Goal(times=1.5, plus=2.0)}
_WRITERS: BySize = {ANY: Goal(times=1.1)}

GOALS: Mapping[tuple[str, str], BySize] = {
    (SEARCHABLE, ""): _CHANGE,
    (SEARCHABLE, "document of 7 MB"): {ANY: Goal(p50=40)},
    (INDEX_FILE, ""): {1_000: Goal(p50=60, p99=240), 10_000: Goal(p50=120, p99=480)},
    (SYNC, "after one write"): {100_000: Goal(p50=6)},
    (SYNC, "search only, after one write"): {100_000: Goal(p50=6)},
    (SYNC, "nothing to do"): {100_000: Goal(p50=2)},
    (FIRST_INDEX, "searchable"): {9_999: None, 100_000: Goal(times=3)},
    (KNOWN_START, "searchable"): {99_999: None, 100_000: Goal(times=3)},
    (KNOWN_START, "first hybrid question"): {100_000: Goal(p50=15)},
    (SEARCH, "needle, in the daemon"): _TEXT,
    (SEARCH, "needle"): _TEXT,
    (SEARCH, "text"): _TEXT,
    (SEARCH, "hybrid"): {1_000: Goal(p50=2), 10_000: Goal(p50=3), 100_000: Goal(p50=10)},
    (SEARCH_BUSY, "text"): _TEXT,
    (BURST, "files"): _BURST,
    (BURST, "files in new directories"): _BURST,
    (WRITERS, "one writer"): _WRITERS,
    (WRITERS, "4 writers"): _WRITERS,
    (IDLE, "processor"): {10_000: Goal(p50=0.2)},
    (IDLE, "wake-ups, /proc"): {10_000: Goal(p50=0.3)},
    (IDLE, "wake-ups, status"): {10_000: Goal(p50=0.3)},
    (MEMORY, "in use"): {1_000: Goal(p50=45), 10_000: Goal(p50=80), 100_000: Goal(p50=200)},
    (CLIENT, "ping"): _CLIENT,
    (CLIENT, "status"): _CLIENT,
}

# A start reads the directories of the root: only where each memory is a file has that a cost to compare with.
FILE_EACH = {(KNOWN_START, "searchable"): ("json-files",)}

GROWTH: Mapping[tuple[str, str], float] = {
    (SEARCHABLE, ""): 0.1,
    (SYNC, "after one write"): 0.1,
    (SYNC, "search only, after one write"): 0.1,
    (SYNC, "nothing to do"): 0.1,
}
"""The highest exponent of growth over the sizes."""


def goal_of(case: str, variant: str, layout: str, size: int) -> Goal | None:
    """Return the goal of a quantity at a size, None where none is set."""
    only = FILE_EACH.get((case, variant))
    if only is not None and layout not in only:
        return None
    by_size = GOALS.get((case, variant), {})
    return next((by_size[limit] for limit in sorted(by_size) if size <= limit), None)
