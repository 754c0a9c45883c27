"""The schema of a user's document: `memories` of `{"data": {...}, "embedding": [...]}`, `updated_at`, and
`last_deduplicated_at` or null; and the checks of memories to store.

The seed leaves `data` open; the real program writes `id` (the Unix second of storing, so not unique), `content`,
`importance` from 0 to 1, `category` and `topics`. A new memory is given as the fields of `data` with the `embedding`
next to them, or as `{"data": {...}, "embedding": [...]}`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from memoryd.core.dates import parse_stamp
from memoryd.core.json_spans import decode
from memoryd.core.records import JsonObject, NativeMemory, Record
from memoryd.layouts.directory import first_value
from memoryd.layouts.exchange import Draft, Portable, details
from memoryd.layouts.validation import (
    COUNT,
    TEXTS,
    FieldSpec,
    Problem,
    Rule,
    Violation,
    is_text,
    is_texts,
    not_encodable,
    violations,
)

IMPORTANCE = 0.5
CATEGORY = "general"
RECOMMENDED_SIZE, MAX_SIZE = 1_000, 10_000  # memories in a document
_LATEST_ID = 4_102_444_800  # the year 2100: larger numbers are not Unix seconds

# The fields that `add` and `update` take.
FIELD_SPECS: Mapping[str, FieldSpec] = {
    "content": FieldSpec("text", "the memory itself", required=True),
    "importance": FieldSpec("number", "from 0 to 1"),
    "category": FieldSpec("text", "free text"),
    "topics": FieldSpec("texts", "free words"),
    "embedding": FieldSpec("numbers", "as long as the others in the file; optional with an embedder of that size"),
}


def importance(data: NativeMemory) -> float:
    """Return the importance from 0 to 1, clamped; 0.5 where it is missing or not a number."""
    value = data.get("importance", IMPORTANCE)
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return IMPORTANCE
    return float(min(max(value, 0.0), 1.0))


def numeric_id(data: NativeMemory) -> int | None:
    """Return the id where it is an integer that every JSON reader represents exactly."""
    value = data.get("id")
    usable = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53
    return value if usable else None


def created(data: NativeMemory) -> float | None:
    """Return the time of storing, which is the id in seconds, or None."""
    value = numeric_id(data)
    return float(value) if value is not None and 0 < value < _LATEST_ID else None


def topics(data: NativeMemory) -> list[str]:
    """Return the topics that are texts."""
    values = data.get("topics")
    return [each for each in values if isinstance(each, str)] if isinstance(values, list) else []


def unusable_reason(data: object) -> str | None:
    """Return why this is not a memory, or None."""
    if not isinstance(data, dict):
        return "data: missing or not an object"
    content = data.get("content")
    if not isinstance(content, str) or not content:
        return "content: missing, empty or not text"
    return None


def check_memory(data: NativeMemory) -> Iterator[Problem]:
    """Yield the problems of one memory."""
    if isinstance(data.get("id"), bool) or not isinstance(data.get("id"), int):
        yield Problem("field-type", "id: missing or not a whole number")
    level = data.get("importance", IMPORTANCE)
    if isinstance(level, bool) or not isinstance(level, int | float):
        yield Problem("field-type", "importance: not a number; counts as 0.5")
    elif not 0 <= level <= 1:
        yield Problem("schema-bound", "importance: outside 0 to 1")
    if not isinstance(data.get("category", CATEGORY), str):
        yield Problem("field-type", "category: not text")
    topics_value = data.get("topics", [])
    if not isinstance(topics_value, list) or not all(isinstance(each, str) for each in topics_value):
        yield Problem("field-type", "topics: not a list of texts")


def check_stamps(updated: object, deduplicated: object) -> Iterator[Problem]:
    """Yield the problems of the document's time stamps."""
    if parse_stamp(updated) is None:
        yield Problem("field-type", "updated_at: missing or not a time stamp")
    if deduplicated is not None and parse_stamp(deduplicated) is None:
        yield Problem("field-type", "last_deduplicated_at: neither a time stamp nor null")


def check_size(count: int) -> Iterator[Problem]:
    """Yield a problem where the document has many memories."""
    if count >= MAX_SIZE:
        yield Problem("many-memories", f"{count} memories; the program becomes slow near {MAX_SIZE}")
    elif count >= RECOMMENDED_SIZE:
        yield Problem("many-memories", f"{count} memories; the program is designed for fewer than {RECOMMENDED_SIZE}")


DATA, EMBEDDING = "data", "embedding"


class MemoryParts(NamedTuple):
    """A memory as given, split into its data and its embedding (None: not given)."""

    native: JsonObject
    embedding: object


def _is_level(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


# In the order of the real program, which new memories follow.
FIELDS: Mapping[str, Rule] = {
    "id": COUNT,
    "content": Rule(lambda value: is_text(value) and bool(value), "must be a text of at least one character"),
    "importance": Rule(_is_level, "must be a number from 0 to 1"),
    "category": Rule(is_text, "must be a text"),
    "topics": TEXTS,
}
_PERMANENT = ("id", "content", EMBEDDING)


def split_parts(memory: NativeMemory) -> MemoryParts:
    """Split a memory given in either form."""
    inner = memory.get(DATA)
    if isinstance(inner, Mapping) and memory.keys() <= {DATA, EMBEDDING}:
        return MemoryParts(dict(inner), memory.get(EMBEDDING))
    return MemoryParts({key: value for key, value in memory.items() if key != EMBEDDING}, memory.get(EMBEDDING))


def with_defaults(native: NativeMemory, now: float) -> JsonObject:
    """Return the data with the program's defaults filled in; the id is the second, as in the program. Nulls of known
    fields count as not given, unknown fields stay."""
    fields = {key: value for key, value in native.items() if value is not None or key not in FIELDS}
    defaults = {"id": int(now), "importance": IMPORTANCE, "category": CATEGORY, "topics": []}
    merged = {**defaults, **fields}
    return {key: merged[key] for key in FIELDS if key in merged} | merged


def validate_new(native: NativeMemory) -> Iterator[Violation]:
    """Yield the violations of a new memory."""
    if "content" not in native:
        yield Violation("content", "missing")
    yield from not_encodable(native)
    yield from violations(FIELDS, native, native.keys())


def validate_update(changes: NativeMemory, changed: NativeMemory) -> Iterator[Violation]:
    """Yield the violations of `changes` as given; `changed` are those that change the data."""
    for field in _PERMANENT:
        if changes.get(field, "") is None:
            yield Violation(field, "cannot be removed")
    if changed.get("id") is not None:
        yield Violation("id", "cannot be changed")
    yield from not_encodable(changed)
    yield from violations(FIELDS, changed, {field for field, value in changed.items() if value is not None})


def validate_embedding(value: object, size: int) -> Iterator[Violation]:
    """Yield the violations of a vector; `size` is the common length in the document, 0 where it has none."""
    if not (isinstance(value, list | tuple) and value and all(map(_is_finite, value)) and any(value)):
        yield Violation(EMBEDDING, "must be a list of finite numbers, not all zero")
    elif size and len(value) != size:
        yield Violation(EMBEDDING, f"must be a list of {size} numbers, like the others in this file")


def _is_finite(value: object) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer too large for a float
        return False


_USER = "default"  # where the memory of another layout belongs to nobody
_EXPORTED = {key: rule.fits for key, rule in FIELDS.items()}


def export(record: Record, text: bytes) -> Portable:
    """Return a memory in terms of all layouts. An embedding that is not usable is one of the details."""
    native, category = record.native, record.native.get("category")
    stored = {DATA} if record.embedding is None else {DATA, EMBEDDING}
    beside = {key: value for key, value in decode(text).items() if key not in stored}
    return Portable(
        native["content"],
        category=category if is_text(category) and category != CATEGORY else "",
        tags=record.tags if is_texts(native.get("topics")) else (),
        importance=record.weight if _is_level(native.get("importance")) and record.weight != IMPORTANCE else None,
        created=record.created,
        owner=record.owner,
        embedding=record.embedding,
        location={"user": record.owner} if record.owner else {},
        details=details({**native, **beside}, _EXPORTED),
    )


def outside(data: bytes) -> JsonObject:
    """Return the fields of a document besides its memories and times."""
    known = ("memories", "updated_at", "last_deduplicated_at")
    document = first_value(data)
    return details(document, dict.fromkeys(known, lambda _: True)) if isinstance(document, dict) else {}


def draft(memory: Portable, created: float) -> Draft:
    """Return the new memory of a memory from another layout; the time of its creation is the id."""
    native: JsonObject = {"content": memory.titled_text, "topics": list(memory.tags)}
    native |= {"category": memory.kind} if memory.kind else {}
    native |= {"importance": memory.importance} if memory.importance is not None else {}
    native |= {EMBEDDING: list(memory.embedding)} if memory.embedding is not None else {}
    carried = {"title", "category", "tags", "importance", "owner", "embedding"}
    carried |= {"type"} if memory.type == memory.kind else set()
    fallback = {"user": _USER}
    location = {"user": memory.location["user"]} if "user" in memory.location else fallback
    return Draft(native, carried, created, location, fallback)
