"""The schema of a memory in the JSONL store: lenient reading, strict storing.

Reading corrects missing or wrong fields in memory only, with the seed's defaults: access_count 0, tags [], importance
medium, archived false, type of the file, updated_at from created_at, accessed_at from updated_at, created_at from the
earliest other stamp or the time of the file. Not correctable are: anything but an object, missing content, content of
more than 5,000 code points, a missing id (no index could name the memory). Values beyond bounds whose correction would
cut text (tags, category) only cause warnings.

A new memory or a changed field must meet the seed's constraints, in characters and in bytes per line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple
from uuid import UUID

from memoryd.core.dates import Stamp, iso, iso_ms, parse_stamp
from memoryd.core.records import FUTURE_S, Facts, JsonObject, NativeMemory, Record
from memoryd.core.spans import replace_surrogates, sha256
from memoryd.layouts.exchange import Draft, Portable, details, later
from memoryd.layouts.validation import (
    COUNT,
    FLAG,
    STAMP,
    TEXTS,
    FieldSpec,
    Problem,
    Rule,
    Violation,
    is_text,
    is_texts,
    violations,
    with_changes,
)

TYPES = ("core", "learning", "task")
FILE_TYPES: Mapping[str, str] = {
    "core_memories.jsonl": "core",
    "learnings.jsonl": "learning",
    "tasks.jsonl": "task",
}
INDEX = "index.json"
IMPORTANCE = ("high", "medium", "low")
# Ranking weights; the seed names three levels without distances, so they are evenly spaced.
WEIGHTS: Mapping[str, float] = {"high": 1.0, "medium": 0.5, "low": 0.0}
STATUS = ("completed", "in-progress", "blocked")
MAX_CONTENT = 5000  # Unicode code points
MAX_LINE = 10 * 1024  # bytes
MAX_CATEGORY = 50
MAX_TAGS = 10
MAX_TAG = 30
MAX_USES = 2**53  # JSON numbers are unbounded, database columns are not

_UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE)


# The fields that `add` and `update` take.
FIELD_SPECS: Mapping[str, FieldSpec] = {
    "type": FieldSpec("text", "core, learning or task; chooses the file", required=True),
    "content": FieldSpec("text", f"the memory itself, at most {MAX_CONTENT:,} characters", required=True),
    "category": FieldSpec("text", f"free text, at most {MAX_CATEGORY} characters"),
    "tags": FieldSpec("texts", f"at most {MAX_TAGS}, each at most {MAX_TAG} characters"),
    "importance": FieldSpec("text", "high, medium or low"),
    "task_metadata": FieldSpec(
        "object",
        "for tasks: {status: in-progress | blocked | completed, blockers?: [text], completed_at?: ISO time, "
        "outcome?: text}",
    ),
}


class ParsedMemory(NamedTuple):
    """An object checked against the schema; `facts` is None if it is not a valid memory."""

    id: str | None
    type: str
    facts: JsonObject | None
    problems: list[Problem]


def is_uuid4(text: str) -> bool:
    """Return True for a UUID of version 4."""
    return _UUID4.fullmatch(text) is not None


def read_memory(native: NativeMemory, file_type: str, *, now: float, mtime: float) -> ParsedMemory:
    """Check one object against the schema, and correct its values in memory where possible."""
    problems: list[Problem] = []
    identity = native.get("id")
    if not isinstance(identity, str) or not identity:
        problems.append(Problem("missing-id", "id: missing or not text; no index can name this memory"))
        identity = None
    elif not is_uuid4(identity):
        problems.append(Problem("id-not-uuid", "id: not a UUID version 4"))
        identity = replace_surrogates(identity)
    kind = _type_of(native, file_type, problems)
    fatal = _content_problem(native.get("content"))
    if fatal:
        problems.append(Problem("invalid-schema", fatal))
        return ParsedMemory(identity, kind, None, problems)
    facts = _plain_fields(native, problems) | _stamps(native, problems, now=now, mtime=mtime)
    if kind == "task":
        facts |= _task_fields(native, facts, problems, now=now)
    return ParsedMemory(identity, kind, facts if identity else None, problems)


def _content_problem(content: object) -> str | None:
    if not isinstance(content, str):
        return "content: missing or not text"
    if not content:
        return "content: empty; 1 to 5,000 characters are required"
    if len(content) > MAX_CONTENT:
        return f"content: {len(content)} characters, at most 5,000 are allowed"
    return None


def _type_of(native: NativeMemory, file_type: str, problems: list[Problem]) -> str:
    kind = native.get("type")
    if kind not in TYPES:
        problems.append(Problem("corrected-schema", "type: missing or unknown; taken from the file name"))
        return file_type
    if kind != file_type:
        problems.append(Problem("wrong-type-for-file", f"type: {kind} in a file of {file_type} memories"))
    return str(kind)


def _plain_fields(native: NativeMemory, problems: list[Problem]) -> JsonObject:
    category = native.get("category")
    if category is not None and not isinstance(category, str):
        problems.append(Problem("corrected-schema", "category: not text; ignored"))
        category = None
    if category is not None and len(category) > MAX_CATEGORY:
        problems.append(Problem("schema-bound", f"category: {len(category)} characters, at most 50 are allowed"))
    category = replace_surrogates(category) if category else None
    importance = native.get("importance")
    if importance not in IMPORTANCE:
        problems.append(Problem("corrected-schema", "importance: missing or unknown; read as medium"))
        importance = "medium"
    count = native.get("access_count")
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        problems.append(Problem("corrected-schema", "access_count: missing or not a whole number >= 0; read as 0"))
        count = 0
    archived = native.get("archived")
    if not isinstance(archived, bool):
        problems.append(Problem("corrected-schema", "archived: missing or not a boolean; read as false"))
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
        problems.append(Problem("corrected-schema", "tags: missing or not a list; read as empty"))
        return []
    tags = [replace_surrogates(tag) for tag in value if isinstance(tag, str)]
    if len(tags) != len(value):
        problems.append(Problem("corrected-schema", "tags: an element is not text; ignored"))
    if len(tags) > MAX_TAGS:
        problems.append(Problem("schema-bound", f"tags: {len(tags)} tags, at most 10 are allowed"))
    if any(len(tag) > MAX_TAG for tag in tags):
        problems.append(Problem("schema-bound", "tags: one is longer than 30 characters"))
    return tags


def _stamps(native: NativeMemory, problems: list[Problem], *, now: float, mtime: float) -> JsonObject:
    stamps: dict[str, Stamp | None] = {}
    for name in ("created_at", "updated_at", "accessed_at"):
        stamps[name] = stamp = parse_stamp(native.get(name))
        if stamp is None:
            problems.append(Problem("corrected-schema", f"{name}: missing or not an ISO 8601 time stamp"))
        elif not stamp.zoned:
            problems.append(Problem("corrected-schema", f"{name}: no time zone; read as UTC"))
    times = [stamp.seconds for stamp in stamps.values() if stamp]
    created = _seconds(stamps["created_at"], min(times, default=mtime))
    updated = _seconds(stamps["updated_at"], created)
    accessed = _seconds(stamps["accessed_at"], updated)
    future = [name for name, stamp in stamps.items() if stamp and stamp.seconds > now + FUTURE_S]
    if future:
        problems.append(Problem("future-stamp", f"{', '.join(future)}: in the future"))
    return {"created": created, "updated": updated, "accessed": accessed, "future": bool(future)}


def _seconds(stamp: Stamp | None, default: float) -> float:
    return stamp.seconds if stamp else default


def _task_fields(native: NativeMemory, facts: Facts, problems: list[Problem], *, now: float) -> JsonObject:
    """Return `status` and `completed` (seconds) of a task, and `future` if that time is in the future; {} if the
    metadata is missing or invalid, so that the task is never archived by age."""
    metadata = native.get("task_metadata")
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        problems.append(Problem("task-metadata", "task_metadata: not an object; ignored"))
        return {}
    status = metadata.get("status")
    if status not in STATUS:
        problems.append(Problem("task-metadata", "task_metadata.status: missing or unknown; never archived"))
        return {}
    blockers = metadata.get("blockers")
    if status == "blocked" and not (
        isinstance(blockers, list) and all(isinstance(blocker, str) for blocker in blockers)
    ):
        problems.append(Problem("task-metadata", "task_metadata.blockers: required when the status is blocked"))
    if status != "completed":
        return {"status": status}
    stamp = parse_stamp(metadata.get("completed_at"))
    if stamp is None:
        problems.append(Problem("completed-without-date", "task_metadata.completed_at: missing; updated_at is used"))
    elif stamp.seconds > now + FUTURE_S:
        problems.append(Problem("future-stamp", "task_metadata.completed_at: in the future"))
        return {"status": status, "completed": stamp.seconds, "future": True}
    return {"status": status, "completed": _seconds(stamp, facts["updated"])}


_OPTIONAL = frozenset({"category", "task_metadata"})


def _is_content(value: object) -> bool:
    return is_text(value) and 1 <= len(value) <= MAX_CONTENT


def _is_category(value: object) -> bool:
    return is_text(value) and len(value) <= MAX_CATEGORY


def _are_tags(value: object) -> bool:
    return is_texts(value) and len(value) <= MAX_TAGS and all(len(tag) <= MAX_TAG for tag in value)


# In the order of the seed, which new lines follow.
FIELDS: Mapping[str, Rule] = {
    "id": Rule(lambda value: is_text(value) and is_uuid4(value), "must be a UUID of version 4"),
    "type": Rule(lambda value: is_text(value) and value in TYPES, "must be core, learning or task"),
    "content": Rule(_is_content, "must be a text of 1 to 5,000 characters"),
    "category": Rule(_is_category, "must be a text of at most 50 characters"),
    "created_at": STAMP,
    "updated_at": STAMP,
    "accessed_at": STAMP,
    "access_count": COUNT,
    "tags": Rule(_are_tags, "must be a list of at most 10 texts, each of at most 30 characters"),
    "importance": Rule(lambda value: is_text(value) and value in IMPORTANCE, "must be high, medium or low"),
    "archived": FLAG,
}
_STATUS = Rule(lambda value: is_text(value) and value in STATUS, "must be completed, in-progress or blocked")
_LINE = "too long: the line would exceed 10,240 bytes (10 KB in UTF-8)"


def with_defaults(memory: NativeMemory, now: float, number: int) -> JsonObject:
    """Return `memory` with defaults filled in, in canonical field order. A known field that is null counts as missing;
    unknown fields stay."""
    fields = {key: value for key, value in memory.items() if value is not None or key not in (*FIELDS, "task_metadata")}
    stamp = iso(now)
    defaults = {
        "id": _new_uuid(fields, now, number),
        "created_at": stamp,
        "updated_at": stamp,
        "accessed_at": stamp,
        "access_count": 0,
        "tags": [],
        "importance": "medium",
        "archived": False,
    }
    merged = {**defaults, **fields}
    return {key: merged[key] for key in (*FIELDS, "task_metadata") if key in merged} | merged


def _new_uuid(memory: NativeMemory, now: float, number: int) -> str:
    """Derive a UUID from the random number, the time and the content: the number alone has only 64 of 122 bits."""
    return str(UUID(hex=sha256(repr((number, now, memory.get("content"))).encode("utf-8", "replace"))[:32], version=4))


def validate_new(native: NativeMemory, memory: NativeMemory) -> Iterator[Violation]:
    """Yield the violations of a new memory; only the fields in `memory` are checked, the others are defaults."""
    for field in ("type", "content"):
        if field not in native:
            yield Violation(field, "missing")
    yield from violations(FIELDS, native, memory.keys())
    if native.get("archived") is True:
        yield Violation("archived", "must be false for a new memory; forget it later")
    yield from _validate_task(native)


def validate_update(path: str, native: NativeMemory, changes: NativeMemory) -> Iterator[Violation]:
    """Yield the violations of a change. Only changed fields are checked: others may have been written by other
    programs."""
    for field in changes:
        if changes[field] is None and field in FIELDS and field not in _OPTIONAL:
            yield Violation(field, "cannot be removed")
    if "id" in changes:
        yield Violation("id", "cannot be changed")
    if changes.get("type") in TYPES and changes["type"] != FILE_TYPES[path]:
        yield Violation("type", "cannot be changed, since it chooses the file; store a new memory and forget this one")
    if "archived" in changes:
        yield Violation("archived", "is set only by forget and unarchive")
    updated = with_changes(native, changes)
    yield from violations(FIELDS, updated, {field for field, value in changes.items() if value is not None})
    if "task_metadata" in changes or "type" in changes:
        yield from _validate_task(updated)


def _validate_task(native: NativeMemory) -> Iterator[Violation]:
    """Yield the violations in the metadata of a task."""
    metadata = native.get("task_metadata")
    if metadata is None:
        return
    if native.get("type") != "task":
        yield Violation("task_metadata", "only allowed for memories of type task")
        return
    if not isinstance(metadata, dict):
        yield Violation("task_metadata", "must be an object")
        return
    status = metadata.get("status")
    if not _STATUS.fits(status):
        yield Violation("task_metadata.status", _STATUS.message)
    rules = {"completed_at": STAMP, "blockers": TEXTS, "outcome": Rule(is_text, "must be a text")}
    due = {"completed": "completed_at", "blocked": "blockers"}.get(str(status))
    for field, rule in rules.items():
        value = metadata.get(field)
        if value is None and field == due:
            yield Violation(f"task_metadata.{field}", f"required when the status is {status}; {rule.message}")
        elif value is not None and not rule.fits(value):
            yield Violation(f"task_metadata.{field}", rule.message)


def too_long(size: int, before: int = 0) -> tuple[Violation, ...]:
    """Return the violation if a line of `size` bytes (without its newline) is too long. A line whose size `before` was
    beyond the limit must not grow."""
    return (Violation("content", _LINE),) if size > max(MAX_LINE, before) else ()


_EXPORTED: Mapping[str, Callable[[object], bool]] = {
    **dict.fromkeys(("id", "content", "category"), is_text),
    **dict.fromkeys(("created_at", "updated_at", "accessed_at"), lambda value: parse_stamp(value) is not None),
    "type": FIELDS["type"].fits,
    "importance": FIELDS["importance"].fits,
    "access_count": COUNT.fits,
    "tags": is_texts,
    "archived": FLAG.fits,
}


def export(record: Record, text: bytes) -> Portable:
    """Return a memory in terms of all layouts. The default importance says nothing."""
    del text
    native, facts = record.native, record.facts
    content, importance = native.get("content"), facts.get("importance", "medium")
    return Portable(
        content if is_text(content) else record.text,
        type=record.type,
        category=facts.get("category") or "",
        tags=record.tags,
        importance=WEIGHTS[importance] if importance != "medium" else None,
        created=record.created,
        updated=later(facts.get("updated"), record.created),
        used=later(facts.get("accessed"), record.created),
        uses=record.uses,
        archived=record.archived,
        details=details(native, _EXPORTED),
    )


def draft(memory: Portable, created: float) -> Draft:
    """Return the new line of a memory from another layout: of another type, it is a learning of that category."""
    is_known = memory.type in TYPES
    category = memory.category or ("" if is_known else memory.type)
    level = next((level for level, weight in WEIGHTS.items() if weight == memory.importance), None)
    tags = [tag for tag in memory.tags if len(tag) <= MAX_TAG][:MAX_TAGS]
    carried = {"title", "uses", "used", "updated"}
    carried |= {"type"} if is_known or memory.type == category else set()
    carried |= {"category"} if len(category) <= MAX_CATEGORY else set()
    carried |= {"importance"} if level is not None else set()
    carried |= {"tags"} if len(tags) == len(memory.tags) else set()
    native = {
        "type": memory.type if is_known else "learning",
        "content": memory.titled_text,
        "created_at": iso_ms(created),
        "updated_at": iso_ms(memory.updated or created),
        "accessed_at": iso_ms(memory.used or memory.updated or created),
        "access_count": memory.uses,
        "tags": tags,
    }
    native |= {"category": category} if category and "category" in carried else {}
    return Draft(native | ({"importance": level} if level is not None else {}), carried, created)
