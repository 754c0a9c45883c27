"""The names of the layout: memory files, the two index files, and what older versions left behind.

A name holds local time of an unknown zone to the second, so it is never corrected and tells a time only where
nothing better does. The real server writes the bare name of its second without looking, over whatever bears it, so
ours always carry a counter (`_1`, `_2`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

INDEX = "_index.json"
STATS = "_stats.json"

LEGACY_FOLDER = "_backup"

# ASCII digits only: an index names these files, and other digits are another program's names.
_MEMORY = re.compile(r"memory_([0-9]{14})(?:_([0-9]+))?\.json")
_LEGACY = re.compile(r"global_memories\.json|project_[^/]+_memories\.json")


def is_memory(path: str) -> bool:
    return _MEMORY.fullmatch(path) is not None


def is_legacy(path: str) -> bool:
    """What the server's migration leaves: collections of the time before one file a memory, and their copies."""
    return _LEGACY.fullmatch(path) is not None or path.startswith(f"{LEGACY_FOLDER}/")


def order(path: str) -> tuple[str, int, str]:
    """Sort key: by time, then by counter as a number; the name itself settles leading zeros."""
    match = _MEMORY.fullmatch(path)
    return (match[1], int(match[2] or 0), path) if match and len(match[2] or "") < 20 else (path, 0, path)


def time_of(path: str) -> float | None:
    """The stamp of a name read as UTC, in seconds, or None where it is no date."""
    match = _MEMORY.fullmatch(path)
    try:
        return datetime.strptime(f"{match[1] if match else ''}+0000", "%Y%m%d%H%M%S%z").timestamp()
    except ValueError:
        return None


def free_name(local: datetime, is_taken: Callable[[str], bool]) -> str:
    """The name for a new memory; `local` is the wall clock where the daemon runs, as the server names files.

    The file is to be created exclusively, and this asked again when somebody else was faster. Of the numbers of one
    second, which are given one after the other, few are asked for: many memories may come in a second."""

    def name(number: int) -> str:
        return f"memory_{local:%Y%m%d%H%M%S}_{number}.json"

    taken, free = 0, 1
    while is_taken(name(free)):
        taken, free = free, 2 * free + 1
    while free - taken > 1:
        middle = (taken + free) // 2
        taken, free = (middle, free) if is_taken(name(middle)) else (taken, middle)
    return name(free)
