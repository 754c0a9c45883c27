"""What a new memory of the JSONL store must be, and what may change in one that is there.

Stricter than reading: what others wrote is corrected in memory and kept, what comes through memoryd must fit the
seed's table of constraints to begin with, by characters and by the bytes of its line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from memoryd.core.dates import iso
from memoryd.core.digest import sha256
from memoryd.layouts.asked import COUNT, FLAG, STAMP, TEXTS, Breach, Rule, broken, changed, is_text, is_texts
from memoryd.layouts.jsonl_store.schema import (
    FILE_TYPES,
    IMPORTANCE,
    MAX_CATEGORY,
    MAX_CONTENT,
    MAX_LINE,
    MAX_TAG,
    MAX_TAGS,
    STATUS,
    TYPES,
    is_uuid4,
)

_OPTIONAL = frozenset({"category", "task_metadata"})


def _is_content(value: Any) -> bool:
    return is_text(value) and 1 <= len(value) <= MAX_CONTENT


def _is_category(value: Any) -> bool:
    return is_text(value) and len(value) <= MAX_CATEGORY


def _are_tags(value: Any) -> bool:
    return is_texts(value) and len(value) <= MAX_TAGS and all(len(tag) <= MAX_TAG for tag in value)


# In the seed's own order, which is that of a new line.
FIELDS: Mapping[str, Rule] = {
    "id": Rule(lambda value: is_text(value) and is_uuid4(value), "is a UUID of version 4"),
    "type": Rule(lambda value: is_text(value) and value in TYPES, "is core, learning or task"),
    "content": Rule(_is_content, "is a text of 1 to 5,000 characters"),
    "category": Rule(_is_category, "is a text of at most 50 characters"),
    "created_at": STAMP,
    "updated_at": STAMP,
    "accessed_at": STAMP,
    "access_count": COUNT,
    "tags": Rule(_are_tags, "is a list of at most 10 texts, each of at most 30 characters"),
    "importance": Rule(lambda value: is_text(value) and value in IMPORTANCE, "is high, medium or low"),
    "archived": FLAG,
}
_STATUS = Rule(lambda value: is_text(value) and value in STATUS, "is completed, in-progress or blocked")
_LINE = "makes a line of more than 10,240 bytes (10 KB in UTF-8)"


def completed(given: Mapping[str, Any], now: float, number: int) -> dict[str, Any]:
    """The whole memory in the seed's order of fields; what is not given gets the seed's defaults, unknown fields stay.
    A known field given as null counts as not given."""
    known = {key: value for key, value in given.items() if value is not None or key not in (*FIELDS, "task_metadata")}
    stamp = iso(now)
    defaults = {
        "id": _new_id(known, now, number),
        "created_at": stamp,
        "updated_at": stamp,
        "accessed_at": stamp,
        "access_count": 0,
        "tags": [],
        "importance": "medium",
        "archived": False,
    }
    whole = {**defaults, **known}
    return {key: whole[key] for key in (*FIELDS, "task_metadata") if key in whole} | whole


def _new_id(given: Mapping[str, Any], now: float, number: int) -> str:
    """Of the random number, the time and the content, so that 122 bits differ where the number has only 64."""
    return str(UUID(hex=sha256(repr((number, now, given.get("content"))).encode("utf-8", "replace"))[:32], version=4))


def new_breaches(native: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[Breach]:
    """Of the whole memory; what was not given is ours, and right."""
    for field in ("type", "content"):
        if field not in native:
            yield Breach(field, "is missing")
    yield from broken(FIELDS, native, given.keys())
    if native.get("archived") is True:
        yield Breach("archived", "is false for a new memory; forget it later")
    yield from _task_breaches(native)


def changed_breaches(path: str, native: Mapping[str, Any], changes: Mapping[str, Any]) -> Iterator[Breach]:
    """Only the fields that change are looked at: what others made of the rest is no reason to refuse."""
    for field in changes:
        if changes[field] is None and field in FIELDS and field not in _OPTIONAL:
            yield Breach(field, "cannot be taken away")
    if "id" in changes:
        yield Breach("id", "never changes")
    if changes.get("type") in TYPES and changes["type"] != FILE_TYPES[path]:
        yield Breach("type", "chooses the file, so it stays; store the memory anew and forget this one")
    if "archived" in changes:
        yield Breach("archived", "is set by forget and unarchive alone")
    whole = changed(native, changes)
    yield from broken(FIELDS, whole, {field for field, value in changes.items() if value is not None})
    if "task_metadata" in changes or "type" in changes:
        yield from _task_breaches(whole)


def _task_breaches(native: Mapping[str, Any]) -> Iterator[Breach]:
    """What a completed or a blocked task says about itself."""
    metadata = native.get("task_metadata")
    if metadata is None:
        return
    if native.get("type") != "task":
        yield Breach("task_metadata", "belongs to memories of the type task alone")
        return
    if not isinstance(metadata, dict):
        yield Breach("task_metadata", "is an object")
        return
    status = metadata.get("status")
    if not _STATUS.fits(status):
        yield Breach("task_metadata.status", _STATUS.told)
    rules = {"completed_at": STAMP, "blockers": TEXTS, "outcome": Rule(is_text, "is a text")}
    due = {"completed": "completed_at", "blocked": "blockers"}.get(str(status))
    for field, rule in rules.items():
        value = metadata.get(field)
        if value is None and field == due:
            yield Breach(f"task_metadata.{field}", f"is there when the status is {status}, and {rule.told}")
        elif value is not None and not rule.fits(value):
            yield Breach(f"task_metadata.{field}", rule.told)


def too_long(size: int, before: int = 0) -> tuple[Breach, ...]:
    """For a line, without its newline, of so many bytes. One that was too long already may stay so, but not grow."""
    return (Breach("content", _LINE),) if size > max(MAX_LINE, before) else ()
