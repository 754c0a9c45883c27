"""What must be true of a store, worked out anew from its files by the seed's text and not by memoryd's code."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

LIVE = {"core_memories.jsonl": "core", "learnings.jsonl": "learning", "tasks.jsonl": "task"}


def natives(path: Path) -> list[dict[str, Any]]:
    """The objects of one file, line by line; lines that are none are left out."""
    found: list[dict[str, Any]] = []
    if not path.exists():
        return found
    for text in path.read_bytes().split(b"\n"):
        try:
            value = json.loads(text)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def archives(root: Path) -> list[Path]:
    return sorted(root.glob("archive/*/*.jsonl"))


def live_ids(root: Path) -> list[str]:
    return [native["id"] for name in LIVE for native in natives(root / name)]


def archived_ids(root: Path) -> list[str]:
    return [native["id"] for path in archives(root) for native in natives(path)]


def missing(root: Path, ids: frozenset[str]) -> set[str]:
    """Ids that stand neither in a live file nor in an archive."""
    return set(ids) - set(live_ids(root)) - set(archived_ids(root))


def rebuilt_index(root: Path) -> dict[str, Any]:
    """`index.json` as the seed shows it, without `last_updated`, for stores of sound memories."""
    by_type = dict.fromkeys(("core", "learning", "task"), 0)
    tags: dict[str, list[str]] = {}
    categories: dict[str, list[str]] = {}
    importance: dict[str, list[str]] = {"high": [], "medium": [], "low": []}
    archived = sum(len(natives(path)) for path in archives(root))
    seen: set[str] = set()
    for name in LIVE:
        for native in natives(root / name):
            if native["id"] in seen:
                continue
            seen.add(native["id"])
            if native["archived"]:
                archived += 1
                continue
            by_type[native["type"]] += 1
            for tag in dict.fromkeys(native["tags"]):
                tags.setdefault(tag, []).append(native["id"])
            if native.get("category"):
                categories.setdefault(native["category"], []).append(native["id"])
            importance[native["importance"]].append(native["id"])
    files = [root / name for name in LIVE if (root / name).exists()] + archives(root)
    return {
        "version": "1.0.0",
        "statistics": {
            "total_memories": sum(by_type.values()),
            "by_type": by_type,
            "archived_count": archived,
            "total_storage_bytes": sum(path.stat().st_size for path in files),
        },
        "tags_index": tags,
        "category_index": categories,
        "importance_index": importance,
    }


def index_on_disk(root: Path) -> dict[str, Any]:
    index = json.loads((root / "index.json").read_bytes())
    assert isinstance(index, dict)
    assert index.pop("last_updated")
    return index


def is_indexed(root: Path) -> bool:
    """True if `index.json` is there and equals a rebuild."""
    try:
        return index_on_disk(root) == rebuilt_index(root)
    except (OSError, ValueError):
        return False


def temporary_files(root: Path) -> list[str]:
    """memoryd's own; those of the agents are their affair."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*.memoryd-*.tmp"))


def snapshot(root: Path, *, times: bool = True) -> dict[str, tuple[object, ...]]:
    """Everything a change of any file would show in: kind, mode, inode, size, times and content."""
    found: dict[str, tuple[object, ...]] = {}
    for folder, _, names in os.walk(root):
        for name in ["", *names]:
            path = Path(folder, name) if name else Path(folder)
            try:
                about = path.lstat()
                content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(about.st_mode) else ""
            except FileNotFoundError:
                continue  # a lock or a temporary file that went while we looked
            when = (about.st_mtime_ns, about.st_ctime_ns) if times else ()
            found[str(path.relative_to(root))] = (about.st_mode, about.st_ino, about.st_size, *when, content)
    return found
