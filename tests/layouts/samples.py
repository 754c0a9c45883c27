"""Memories of the JSONL store as the seed writes them, for every test of that layout."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

DAY = 86_400


def uuid(number: int) -> str:
    """A version 4 UUID, the same for the same number."""
    return str(UUID(int=number | 0x550E8400E29B41D4A716446655440000, version=4))


def memory(number: int, kind: str = "core", **fields: Any) -> dict[str, Any]:
    """A memory that fits the schema, in the seed's own order of keys; a field of None is left out."""
    made = {
        "id": uuid(number),
        "type": kind,
        "content": f"memory number {number}",
        "category": "fact",
        "created_at": "2026-01-01T10:00:00Z",
        "updated_at": "2026-01-01T10:00:00Z",
        "accessed_at": "2026-01-01T10:00:00Z",
        "access_count": 5,
        "tags": ["python", "testing"],
        "importance": "high",
        "archived": False,
    }
    return {key: value for key, value in {**made, **fields}.items() if value is not None}


def learning(number: int, stamp: str = "2026-01-01T10:00:00Z", **fields: Any) -> dict[str, Any]:
    stamps = {"created_at": stamp, "updated_at": stamp, "accessed_at": stamp}
    return memory(number, "learning", **{**stamps, **fields})


def task(number: int, status: str | None = "completed", completed: str | None = None, **fields: Any) -> dict[str, Any]:
    metadata = {"status": status, "completed_at": completed}
    shown = {key: value for key, value in metadata.items() if value is not None}
    return memory(number, "task", **{"task_metadata": shown or None, **fields})


def line(native: dict[str, Any]) -> bytes:
    """As the seed's own `json.dumps` writes it, without the newline."""
    return json.dumps(native, separators=(",", ":")).encode()


def lines(*natives: dict[str, Any]) -> bytes:
    return b"".join(line(native) + b"\n" for native in natives)
