"""A memory that is too long for one answer, asked for in parts and put together again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from memoryd.errors import ConflictError


def whole(ask: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
    """As `memory.get` gives shorter ones. `ask` gives the part that begins at a character. Raises ConflictError where
    the memory changed between two parts."""
    parts = [ask(0)]
    while "next_offset" in parts[-1]:
        parts.append(ask(parts[-1]["next_offset"]))
    first = parts[0]
    if any(part["sha256"] != first["sha256"] for part in parts):
        raise ConflictError(f"{first['id']} was changed while it was read", hint="try again")
    text = "".join(part["part"] for part in parts)
    place = {key: first[key] for key in ("root", "id", "path", "line", "layout", "archived")}
    native = _object(text)
    return {**place, "memory": native} if native is not None else {**place, "memory": {"text": text}, "text": text}


def _object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
