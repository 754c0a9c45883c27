"""Drafts of memories into lines of the JSONL store and into files of one memory each; `WRITERS` has every layout."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

from memoryd.core.dates import iso
from tests.bench.draft import OLD_S, Draft, Place, Write, Written, pretty, private, put
from tests.bench.gathered import documents, markdown, sessions
from tests.bench.planting import Where

JSONL = {"core_memories.jsonl": "core", "learnings.jsonl": "learning", "tasks.jsonl": "task"}
MADE = ("breakthrough", "decision", "feedback", "error_recovery", "pattern", "user_preference")


# --- jsonl-store


def jsonl(root: Path, *_: object) -> Write:
    def write(drafts: Iterable[Draft]) -> Written:
        with ExitStack() as opened:
            files = {name: opened.enter_context(open(root / name, "ab", opener=private)) for name in JSONL}
            for draft in drafts:
                name = [*JSONL][draft.number % 3]
                line = jsonl_line(draft, JSONL[name])
                files[name].write(line)
                yield draft, Place(name, line)
        for name in JSONL:
            os.utime(root / name, (OLD_S, OLD_S))

    return write


def jsonl_line(draft: Draft, kind: str) -> bytes:
    """One line of the JSONL store. Both forms are seen: the seed's own `json.dumps` escapes, other programs do not."""
    text = json.dumps(_native(draft, kind), ensure_ascii=draft.number % 2 == 0, separators=(",", ":"))
    return text.encode() + b"\n"


def _native(draft: Draft, kind: str) -> dict[str, Any]:
    stamp = iso(draft.created)
    needle = draft.needle
    said = f"{draft.title}. {draft.body}" if needle and needle.where is Where.TITLE else draft.body
    native = {
        "id": str(uuid.UUID(int=Random(draft.number).getrandbits(128), version=4)),
        "type": kind,
        "content": said,
        "category": ("fact", "preference", "pattern")[draft.number % 5 % 3],
        "created_at": stamp,
        "updated_at": stamp,
        "accessed_at": stamp,
        "access_count": draft.number % 7,
        "tags": list(draft.tags),
        "importance": ("low", "medium", "high")[draft.number % 11 % 3],
        "archived": False,
    }
    return native | ({"task_metadata": {"status": "in-progress"}} if kind == "task" else {})


# --- json-files


def json_files(root: Path, *_: object) -> Write:
    def write(drafts: Iterable[Draft]) -> Written:
        for draft in drafts:
            name = json_name(draft.created)
            put(root / name, pretty(json_file(draft)))
            yield draft, Place(name)

    return write


def json_name(created: int) -> str:
    """The name of a memory's file by the second it was made in."""
    digits = iso(created).translate({ord(each): None for each in "-:TZ"})
    return f"memory_{digits[:14]}.json"


def json_file(draft: Draft) -> dict[str, Any]:
    """The one memory of a JSON file."""
    stamp = iso(draft.created).replace("Z", ".000Z")
    return {
        "content": draft.body,
        "summary": draft.title,
        "type": MADE[draft.number % 6],
        "confidence": 0.8,
        "tags": draft.tags,
        "entities": [f"{draft.tags[0]}.ts"],
        "projectId": f"project{draft.number % 9}",
        "relatedMemories": [],
        "contextSnapshot": {},
        "author": "agent",
        "metadata": {},
        "id": f"mem_{draft.created * 1000}_{draft.number:09}",
        "version": 1,
        "created": stamp,
        "lastAccessed": stamp,
        "accessCount": draft.number % 7,
        "relevanceScore": 1,
        "archived": False,
    }


WRITERS: dict[str, Callable[[Path, int, int | None, bool], Write]] = {
    "json-files": json_files,
    "markdown-topics": markdown,
    "user-document": documents,
    "session-files": sessions,
    "jsonl-store": jsonl,
}
