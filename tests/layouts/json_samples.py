"""Memories of the layout json-files as the real server writes them, for every test of that layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).parent.parent / "corpora" / "json-files-real" / "memories"


def corpus() -> dict[str, bytes]:
    """The directory in the server's repository, with its real damage."""
    return {path.name: path.read_bytes() for path in sorted(CORPUS.iterdir())}


def identity(number: int) -> str:
    return f"mem_{1_749_512_300_000 + number}_{number:09}"


def memory(number: int, **fields: Any) -> dict[str, Any]:
    """In the server's own order of keys; a field of None is left out."""
    made = {
        "content": f"memory number {number}",
        "summary": f"number {number}",
        "type": "decision",
        "confidence": 0.8,
        "tags": ["typescript"],
        "entities": ["userController.ts"],
        "projectId": "project1",
        "relatedMemories": [],
        "contextSnapshot": {},
        "author": "test",
        "metadata": {},
        "id": identity(number),
        "version": 1,
        "created": "2025-06-09T23:38:20.999Z",
        "lastAccessed": "2025-06-09T23:38:20.999Z",
        "accessCount": 0,
        "relevanceScore": 1,
        "archived": False,
    }
    return {key: value for key, value in {**made, **fields}.items() if value is not None}


def pretty(native: Any) -> bytes:
    """`JSON.stringify(native, null, 2)`."""
    return json.dumps(native, indent=2, ensure_ascii=False).encode()


def file(number: int, **fields: Any) -> bytes:
    return pretty(memory(number, **fields))


def name(number: int) -> str:
    return f"memory_{20250609163800 + number}.json"


def store(*numbers: int) -> dict[str, bytes]:
    return {name(number): file(number) for number in numbers}
