"""A plain second reading of a JSONL store, to hold against what memoryd says. It shares no code with memoryd's."""

from __future__ import annotations

import glob
import hashlib
import json
import os
from typing import Any

LIVE = ("core_memories.jsonl", "learnings.jsonl", "tasks.jsonl")
_decoder = json.JSONDecoder()


def sha_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def sha(path: str) -> str:
    with open(path, "rb") as file:
        return sha_of(file.read())


def hashes(store: str) -> dict[str, str]:
    """Of every regular file beneath the store, by relative path."""
    found: dict[str, str] = {}
    for folder, _, names in os.walk(store):
        for name in names:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, store)] = sha(path)
    return found


def memories(path: str) -> list[dict[str, Any]]:
    """What can be read of one file, line by line, glued lines too; none where the file is not there."""
    if not os.path.exists(path):
        return []
    with open(path, "rb") as file:
        return [memory for line in file.read().split(b"\n") for memory in _on_line(line)]


def _on_line(line: bytes) -> list[dict[str, Any]]:
    try:
        text = line.decode("utf-8").strip()
    except UnicodeDecodeError:
        return []
    found: list[dict[str, Any]] = []
    at = 0
    while at < len(text):
        try:
            value, at = _decoder.raw_decode(text, at)
        except ValueError:
            return []
        found += [value] if isinstance(value, dict) else []
    return found


def live(store: str) -> dict[str, dict[str, Any]]:
    """Id -> memory: the first of equal ids, in the seed's order of files, without those marked archived."""
    found: dict[str, dict[str, Any]] = {}
    for name in LIVE:
        for memory in memories(os.path.join(store, name)):
            found.setdefault(memory["id"], memory)
    return {id_: memory for id_, memory in found.items() if not memory["archived"]}


def archived(store: str) -> dict[str, str]:
    """Id -> archive file (relative)."""
    paths = sorted(glob.glob(os.path.join(store, "archive", "*", "*.jsonl")))
    return {memory["id"]: os.path.relpath(path, store) for path in paths for memory in memories(path)}


def index(store: str) -> dict[str, Any]:
    with open(os.path.join(store, "index.json"), encoding="utf-8") as file:
        return dict(json.load(file))


def rebuilt(store: str) -> dict[str, Any]:
    """What the index has to say besides its time stamp."""
    by_type = {"core": 0, "learning": 0, "task": 0}
    tags: dict[str, list[str]] = {}
    categories: dict[str, list[str]] = {}
    importance: dict[str, list[str]] = {"high": [], "medium": [], "low": []}
    for id_, memory in live(store).items():
        by_type[memory["type"]] += 1
        importance[memory["importance"]].append(id_)
        for tag in memory["tags"]:
            tags.setdefault(tag, []).append(id_)
        if memory.get("category"):
            categories.setdefault(memory["category"], []).append(id_)
    files = [os.path.join(store, name) for name in LIVE]
    files += glob.glob(os.path.join(store, "archive", "*", "*.jsonl"))
    return {
        "version": "1.0.0",
        "statistics": {
            "total_memories": sum(by_type.values()),
            "by_type": by_type,
            "archived_count": len(archived(store)),
            "total_storage_bytes": sum(os.path.getsize(path) for path in files if os.path.exists(path)),
        },
        "tags_index": tags,
        "category_index": categories,
        "importance_index": importance,
    }


def agrees(store: str) -> bool:
    """Whether `index.json` says what a rebuild says."""
    said = index(store)
    said.pop("last_updated", None)
    return said == rebuilt(store)
