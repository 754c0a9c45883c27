"""The schema of one memory of the JSONL store, and what is made of one that breaks it.

Missing or wrong fields are corrected in memory only, with the seed's defaults: access_count 0, tags [],
importance medium, archived false, type of the file, updated_at from created_at, accessed_at from
updated_at, created_at from the earliest other stamp or the file's time. Beyond correction: no object,
no content, content of more than 5,000 code points, no id (an index could not name it). Bounds that
would need cutting (tags, category) are only warned about.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from memoryd.core.dates import Stamp, parse_stamp

TYPES = ("core", "learning", "task")
FILE_TYPES: Mapping[str, str] = {
    "core_memories.jsonl": "core",
    "learnings.jsonl": "learning",
    "tasks.jsonl": "task",
}
IMPORTANCE = ("high", "medium", "low")
# What each is worth when memories are ranked: the seed names three steps and no distance, so they are even.
WEIGHTS: Mapping[str, float] = {"high": 1.0, "medium": 0.5, "low": 0.0}
STATUS = ("completed", "in-progress", "blocked")
MAX_CONTENT = 5000  # Unicode code points
MAX_LINE = 10 * 1024  # bytes
MAX_CATEGORY = 50
MAX_TAGS = 10
MAX_TAG = 30
MOST_USES = 2**53  # a number without bound, which JSON lets in, fits into no column
FUTURE_S = 300  # a stamp this far ahead of the clock is in the future

_UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE)


class Problem(NamedTuple):
    """`code` of a finding and what is wrong, naming field and rule, never the content."""

    code: str
    message: str


class Reading(NamedTuple):
    """One object read by the schema; `facts` is None when it cannot be counted as a memory."""

    id: str | None
    type: str
    facts: dict[str, Any] | None
    problems: list[Problem]


def is_uuid4(text: str) -> bool:
    return _UUID4.fullmatch(text) is not None


def sound(text: str) -> str:
    """Half a surrogate pair, which Python's JSON lets in, fits into no index and no reply: a "?" stands for it."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def read_memory(native: Mapping[str, Any], file_type: str, *, now: float, mtime: float) -> Reading:
    """Check one object against the schema and correct in memory what can be corrected."""
    problems: list[Problem] = []
    identity = native.get("id")
    if not isinstance(identity, str) or not identity:
        problems.append(Problem("missing-id", "id: missing or no text; no index can name this memory"))
        identity = None
    elif not is_uuid4(identity):
        problems.append(Problem("id-not-uuid", "id: is no UUID version 4"))
        identity = sound(identity)
    kind = _type_of(native, file_type, problems)
    fatal = _content_problem(native.get("content"))
    if fatal:
        problems.append(Problem("invalid-schema", fatal))
        return Reading(identity, kind, None, problems)
    facts = _plain_fields(native, problems) | _stamps(native, problems, now=now, mtime=mtime)
    if kind == "task":
        facts |= _task_fields(native, facts, problems)
    return Reading(identity, kind, facts if identity else None, problems)


def _content_problem(content: object) -> str | None:
    if not isinstance(content, str):
        return "content: missing or no text"
    if not content:
        return "content: empty, 1 to 5,000 characters are required"
    if len(content) > MAX_CONTENT:
        return f"content: {len(content)} characters, at most 5,000 are allowed"
    return None


def _type_of(native: Mapping[str, Any], file_type: str, problems: list[Problem]) -> str:
    kind = native.get("type")
    if kind not in TYPES:
        problems.append(Problem("corrected-schema", "type: missing or unknown; taken from the file name"))
        return file_type
    if kind != file_type:
        problems.append(Problem("wrong-type-for-file", f"type: is {kind}, the file holds {file_type} memories"))
    return str(kind)


def _plain_fields(native: Mapping[str, Any], problems: list[Problem]) -> dict[str, Any]:
    category = native.get("category")
    if category is not None and not isinstance(category, str):
        problems.append(Problem("corrected-schema", "category: no text; left out"))
        category = None
    if category is not None and len(category) > MAX_CATEGORY:
        problems.append(Problem("schema-bound", f"category: {len(category)} characters, at most 50 are allowed"))
    category = sound(category) if category else None
    importance = native.get("importance")
    if importance not in IMPORTANCE:
        problems.append(Problem("corrected-schema", "importance: missing or unknown; taken as medium"))
        importance = "medium"
    count = native.get("access_count")
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        problems.append(Problem("corrected-schema", "access_count: missing or no whole number >= 0; taken as 0"))
        count = 0
    archived = native.get("archived")
    if not isinstance(archived, bool):
        problems.append(Problem("corrected-schema", "archived: missing or no boolean; taken as false"))
        archived = False
    tags = _tags(native.get("tags"), problems)
    return {
        "category": category,
        "importance": importance,
        "access_count": count,
        "archived": archived,
        "tags": tags,
    }


def _tags(value: object, problems: list[Problem]) -> list[str]:
    if not isinstance(value, list):
        problems.append(Problem("corrected-schema", "tags: missing or no list; taken as empty"))
        return []
    tags = [sound(tag) for tag in value if isinstance(tag, str)]
    if len(tags) != len(value):
        problems.append(Problem("corrected-schema", "tags: an element is no text; left out"))
    if len(tags) > MAX_TAGS:
        problems.append(Problem("schema-bound", f"tags: {len(tags)} of them, at most 10 are allowed"))
    if any(len(tag) > MAX_TAG for tag in tags):
        problems.append(Problem("schema-bound", "tags: one is longer than 30 characters"))
    return tags


def _stamps(native: Mapping[str, Any], problems: list[Problem], *, now: float, mtime: float) -> dict[str, Any]:
    found: dict[str, Stamp | None] = {}
    for name in ("created_at", "updated_at", "accessed_at"):
        found[name] = stamp = parse_stamp(native.get(name))
        if stamp is None:
            problems.append(Problem("corrected-schema", f"{name}: missing or no ISO 8601 stamp"))
        elif not stamp.zoned:
            problems.append(Problem("corrected-schema", f"{name}: names no time zone; taken as UTC"))
    known = [stamp.seconds for stamp in found.values() if stamp]
    created = _seconds(found["created_at"], min(known, default=mtime))
    updated = _seconds(found["updated_at"], created)
    accessed = _seconds(found["accessed_at"], updated)
    future = [name for name, stamp in found.items() if stamp and stamp.seconds > now + FUTURE_S]
    if future:
        problems.append(Problem("future-stamp", f"{', '.join(future)}: lies in the future"))
    return {"created": created, "updated": updated, "accessed": accessed, "future": bool(future)}


def _seconds(stamp: Stamp | None, default: float) -> float:
    return stamp.seconds if stamp else default


def _task_fields(native: Mapping[str, Any], facts: Mapping[str, Any], problems: list[Problem]) -> dict[str, Any]:
    """`status` and `completed` (seconds) of a task; absent metadata means a task that never ends by age."""
    metadata = native.get("task_metadata")
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        problems.append(Problem("task-metadata", "task_metadata: no object; taken as absent"))
        return {}
    status = metadata.get("status")
    if status not in STATUS:
        problems.append(Problem("task-metadata", "task_metadata.status: missing or unknown; the task stays"))
        return {}
    blockers = metadata.get("blockers")
    if status == "blocked" and not (
        isinstance(blockers, list) and all(isinstance(blocker, str) for blocker in blockers)
    ):
        problems.append(Problem("task-metadata", "task_metadata.blockers: a blocked task names its blockers"))
    if status != "completed":
        return {"status": status}
    stamp = parse_stamp(metadata.get("completed_at"))
    if stamp is None:
        problems.append(Problem("completed-without-date", "task_metadata.completed_at: missing; updated_at is used"))
    return {"status": status, "completed": _seconds(stamp, facts["updated"])}
