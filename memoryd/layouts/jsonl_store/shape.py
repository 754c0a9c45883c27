"""What tells the layout from datasets, logs and task lists, whose files have the same names."""

from __future__ import annotations

from memoryd.layouts.folder import HEAD, Folder, first_value
from memoryd.layouts.jsonl_store import shipped
from memoryd.layouts.jsonl_store.index import INDEX
from memoryd.layouts.jsonl_store.schema import FILE_TYPES, TYPES

_LINES = 20  # of each file


def shape(folder: Folder) -> str | None:
    present = [path for path in FILE_TYPES if path in folder.files]
    lines = {f"{path}:{number}": line for path in present for number, line in _lines(folder.head(path))}
    values = {place: first_value(line) for place, line in lines.items()}
    read = [place for place, value in values.items() if value is not None]  # damage is no sign of another program
    good = [place for place in read if _is_memory(values[place])]
    if 2 * len(good) > len(read):
        return f"{good[0]} holds a memory"
    if present and not lines and is_index(folder.json(INDEX) if INDEX in folder.files else None):
        return f"{INDEX} counts memories by type"
    return next((f"{path} holds an agent's memories" for path in folder.first(shipped.is_candidate)
                 if _is_shipped(folder.json(path))), None)  # fmt: skip


def is_index(content: object) -> bool:
    statistics = content.get("statistics") if isinstance(content, dict) else None
    return isinstance(statistics, dict) and isinstance(statistics.get("by_type"), dict)


def _lines(head: bytes) -> list[tuple[int, bytes]]:
    """The first lines that are not empty, with their numbers, but for one that is cut off."""
    whole = head if len(head) < HEAD else head.rpartition(b"\n")[0]
    return [(number, line) for number, line in enumerate(whole.split(b"\n"), 1) if line.strip()][:_LINES]


def _is_memory(native: object) -> bool:
    if not isinstance(native, dict) or not all(isinstance(native.get(key), str) for key in ("id", "content")):
        return False
    return native.get("type") in TYPES


def _is_shipped(content: object) -> bool:
    if not isinstance(content, dict) or not isinstance(content.get("core_memories"), list):
        return False
    return isinstance(content.get("learnings"), list) or isinstance(content.get("tasks"), list)
