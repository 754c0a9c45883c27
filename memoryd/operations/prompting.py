"""Memories ready to paste into a prompt: whole ones, the best first, within a budget, each with its source.

A token is four characters, rounded up over the whole text (the seed names no way to count). A memory that does not fit
any more is left out, and a shorter one after it may still fit; only where the very first is too long it is cut, at the
end of a line.
"""

from __future__ import annotations

from collections.abc import Sequence

from memoryd.catalogue.searching import Memory
from memoryd.core.dates import iso

CHARACTERS = 4  # of one token
_PARTED = "\n\n"


def pasted(memories: Sequence[tuple[str, Memory]], max_tokens: int) -> tuple[str, list[int]]:
    """The text, and the numbers of the memories (of root and memory) that are in it."""
    room = max_tokens * CHARACTERS
    parts: list[str] = []
    kept: list[int] = []
    for number, (root, memory) in enumerate(memories):
        text = whole(root, memory)
        left = room - sum(len(part) + len(_PARTED) for part in parts)
        if len(text) > left and not number:
            text = _cut(text, left)
        if text and len(text) <= left:
            parts.append(text)
            kept.append(number)
    return _PARTED.join(parts), kept


def whole(root: str, memory: Memory) -> str:
    """A memory as text, its source in front."""
    day = f", {iso(memory.created)[:10]}" if memory.created is not None else ""
    source = f"[{root}: {memory.id}, {memory.path}:{memory.line}{day}]"
    body = memory.body.strip()
    said = memory.title.strip() and memory.title.strip() not in body.partition("\n")[0]
    return "\n".join(filter(None, (source, memory.title.strip() if said else "", body)))


def _cut(text: str, room: int) -> str:
    """As many whole lines as there is room for; nothing, where not even the source and one more line fit."""
    end = text.rfind("\n", 0, room + 1)
    cut = text[:end].rstrip() if end > 0 else ""
    return cut if "\n" in cut else ""
