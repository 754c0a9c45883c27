"""File names: memory files, the two index files, and leftovers of older versions.

A name holds local time in an unknown zone, to the second. It is never corrected, and serves as a time only if the file
has no better one. The real server overwrites any existing file that is named by the same second, so the names that
memoryd chooses always have a counter (`_1`, `_2`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime

INDEX = "_index.json"
STATS = "_stats.json"

LEGACY_DIR = "_backup"

# ASCII digits only: names with other digits belong to other programs.
_MEMORY = re.compile(r"memory_([0-9]{14})(?:_([0-9]+))?\.json")
_ONE_DIGIT = len("memory_20250531015910_1.json")
_LEGACY = re.compile(r"global_memories\.json|project_[^/]+_memories\.json")


def is_memory(path: str) -> bool:
    """Return True for the name of a memory file."""
    return _MEMORY.fullmatch(path) is not None


def is_legacy(path: str) -> bool:
    """Return True for leftovers of the server's migration: collections in an older format, and their copies."""
    return _LEGACY.fullmatch(path) is not None or path.startswith(f"{LEGACY_DIR}/")


def sort_key(path: str) -> tuple[str, int, str]:
    """Return the sort key: time, then counter as a number, then the name because of leading zeros."""
    match = _MEMORY.fullmatch(path)
    return (match[1], int(match[2] or 0), path) if match and len(match[2] or "") < 20 else (path, 0, path)


def ordered(paths: Iterable[str]) -> list[str]:
    """Return memory files by `sort_key`."""
    found = sorted(paths)
    if all(len(path) <= _ONE_DIGIT for path in found):
        return found  # the order of the key, at a tenth of the cost
    return sorted(found, key=sort_key)


def time_of(path: str) -> float | None:
    """Return the time in a name, parsed as local time, in seconds; None if it is not a date."""
    match = _MEMORY.fullmatch(path)
    try:
        return datetime.strptime(match[1] if match else "", "%Y%m%d%H%M%S").astimezone().timestamp()
    except (ValueError, OverflowError):
        return None


def free_name(local: datetime, is_taken: Callable[[str], bool]) -> str:
    """Return a free name for a new memory; `local` is the wall clock of the daemon, as the server names files.

    The caller creates the file exclusively, and calls again if another program was faster. Counters of one second are
    assigned in order, so a binary search finds a free one with few look-ups.
    """

    def name(number: int) -> str:
        return f"memory_{local:%Y%m%d%H%M%S}_{number}.json"

    taken, free = 0, 1
    while is_taken(name(free)):
        taken, free = free, 2 * free + 1
    while free - taken > 1:
        middle = (taken + free) // 2
        taken, free = (middle, free) if is_taken(name(middle)) else (taken, middle)
    return name(free)
