"""The schema of a memory file: reading it, checking new values, and rendering a new file.

Reading requires only a text `id`; every other field is optional and unknown ones are preserved (real files have more
fields than the seed names, the seed's example has fewer). A field of another type is reported and treated as missing.

Storing checks types and the form of an id. Missing fields get defaults, because the real server reads content, summary,
type and tags of every memory unchecked, and its search breaks without them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeGuard

import msgspec

from memoryd.core.dates import LAST_MS, iso_ms, parse_stamp
from memoryd.core.records import JsonObject, NativeMemory, Record
from memoryd.core.secrets import headline
from memoryd.core.spans import replace_surrogates, sha256
from memoryd.layouts.exchange import Draft, Portable, details, later
from memoryd.layouts.json_files.names import time_of
from memoryd.layouts.validation import (
    COUNT,
    FLAG,
    STAMP,
    TEXTS,
    FieldSpec,
    Rule,
    Violation,
    is_count,
    is_flag,
    is_text,
    is_texts,
    violations,
)

TYPES = ("breakthrough", "decision", "feedback", "error_recovery", "pattern", "user_preference")

# The server rewrites these on every read, so their changes do not count as changes of the memory.
ACCESS_FIELDS = frozenset({"lastAccessed", "accessCount", "relevanceScore"})

# As `iso_ms` writes it.
_ISO_MS = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?!24)[0-9]{2}:[0-9]{2}:[0-5][0-9]\.[0-9]{3}Z")
_ID = re.compile(r"mem_([0-9]{1,15})_[0-9a-z]+")

# The fields that `add` and `update` take.
FIELD_SPECS: Mapping[str, FieldSpec] = {
    "content": FieldSpec("text", "the memory itself", required=True),
    "summary": FieldSpec("text", "one line"),
    "type": FieldSpec("text", "free text"),
    "confidence": FieldSpec("number", "from 0 to 1"),
    "tags": FieldSpec("texts", "free words"),
    "entities": FieldSpec("texts", "the names the memory is about"),
}


class MemoryFacts(NamedTuple):
    """The corrected values of a memory. `problems` names the fields of a wrong type; `values` are the facts of the
    record (plain JSON); `text` is the content, followed by the summary if the title shows only a part of that."""

    id: str
    type: str
    archived: bool
    created: float
    used: float
    title: str
    tags: tuple[str, ...]
    values: JsonObject
    problems: tuple[str, ...]
    text: str

    @property
    def labels(self) -> tuple[str, ...]:
        """Entities and type, by which the memory is found."""
        return (*self.values["entities"], self.type) if self.type else tuple(self.values["entities"])

    @property
    def weight(self) -> float:
        """The relevance from 0 to 1, by which the server sorts results; `confidence` is certainty, not relevance."""
        return float(min(max(self.values["relevance"], 0), 1))


def read_memory(native: NativeMemory, path: str, mtime: float) -> MemoryFacts:
    """Return the corrected values of an object that has a text `id`. Never raises."""
    valid: JsonObject = {}
    invalid: list[str] = []
    for key, fits in _FIELDS.items():
        value = native.get(key)
        if value is None:
            continue
        if fits(value):
            valid[key] = value
        else:
            invalid.append(key)
    created, stamp = _created(native["id"], valid, path, mtime), valid.get("created", "")
    updated = _seconds(valid.get("lastUpdated"))
    tags = tuple(dict.fromkeys(map(replace_surrogates, valid.get("tags", ()))))
    values = {
        "created": created,
        "timestamp": stamp if _ISO_MS.fullmatch(stamp) else iso_ms(created),
        "version": valid.get("version", 1),
        "updated": updated,
        "relevance": valid.get("relevanceScore", 1),
        "access": valid.get("accessCount", 0),
        "tags": list(tags),
        "entities": list(dict.fromkeys(map(replace_surrogates, valid.get("entities", ())))),
        "project": replace_surrogates(valid.get("projectId", "")),
    }
    content, summary = replace_surrogates(valid.get("content", "")), replace_surrogates(valid.get("summary", ""))
    title = headline(summary or content)
    return MemoryFacts(
        replace_surrogates(native["id"]),
        replace_surrogates(valid.get("type", "")),
        valid.get("archived", False),
        created,
        max(created, updated or created, _seconds(valid.get("lastAccessed")) or created),
        title,
        tags,
        values,
        tuple(invalid),
        content if not summary or summary == title else f"{content}\n{summary}",
    )


def is_memory_id(identity: str) -> bool:
    """Return True for `mem_<epoch ms>_<base36>`."""
    return _ID.fullmatch(identity) is not None


def content_digest(native: NativeMemory, text: bytes) -> str:
    """Return a digest that ignores access statistics, key order and white space."""
    content = {key: value for key, value in native.items() if key not in ACCESS_FIELDS}
    try:
        return sha256(msgspec.json.encode(content, order="deterministic"))
    except (ValueError, OverflowError, RecursionError):
        return sha256(text)  # lone surrogates cannot be encoded: compare the raw text


def render_new(fields: NativeMemory, *, identity: str, created: float) -> bytes:
    """Return the file of a new memory: version 1, never used, full relevance, not archived, unless `fields` differ; two
    spaces, no final newline. Content fields come first, then the server's counters, in its order."""
    stamp = fields.get("created", iso_ms(created))
    counters = {
        "id": identity,
        "version": 1,
        "created": stamp,
        "lastAccessed": stamp,
        "accessCount": 0,
        "relevanceScore": 1,
        "archived": False,
    }
    content_fields = {key: value for key, value in fields.items() if key not in counters}
    return msgspec.json.format(msgspec.json.encode({**content_fields, **counters, **fields}), indent=2)


def new_id(created: float, number: int) -> str:
    """Return `mem_1748681950340_nrs0enwdu`, from the time and 46 bits of the random number."""
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    suffix = "".join(digits[number // 36**place % 36] for place in range(8, -1, -1))
    return f"mem_{round(created * 1000)}_{suffix}"


def _created(identity: str, valid: NativeMemory, path: str, mtime: float) -> float:
    """Return `created`, else the milliseconds in the id, else the name as local time, else `mtime`."""
    stamp = _seconds(valid.get("created"))
    if stamp is not None:
        return stamp
    match = _ID.fullmatch(identity)
    if match and int(match[1]) <= LAST_MS:
        return int(match[1]) / 1000
    name_time = time_of(path)
    return name_time if name_time is not None else mtime


def _seconds(value: object) -> float | None:
    stamp = parse_stamp(value)
    return stamp.seconds if stamp else None


def _is_stamp(value: object) -> bool:
    return parse_stamp(value) is not None


def is_number(value: object) -> TypeGuard[float]:
    """Return True for a finite number; an integer must be one that every JSON reader represents exactly."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < 2**53
    return isinstance(value, float) and math.isfinite(value)


_FIELDS: Mapping[str, Callable[[object], bool]] = {
    "content": is_text,
    "summary": is_text,
    "type": is_text,
    "confidence": is_number,
    "tags": is_texts,
    "entities": is_texts,
    "version": is_count,
    "created": _is_stamp,
    "lastAccessed": _is_stamp,
    "lastUpdated": _is_stamp,
    "accessCount": is_count,
    "relevanceScore": is_number,
    "archived": is_flag,
    "projectId": is_text,
}


_TEXT = Rule(is_text, "must be a text")
_NUMBER = Rule(is_number, "must be a finite number")
_FRACTION = Rule(lambda value: is_number(value) and 0 <= value <= 1, "must be a number from 0 to 1")

# In the order of the seed's example, which new files follow.
FIELDS: Mapping[str, Rule] = {
    "content": Rule(lambda value: is_text(value) and bool(value.strip()), "must be a text that is not blank"),
    "summary": _TEXT,
    "type": _TEXT,
    "confidence": _FRACTION,
    "tags": TEXTS,
    "entities": TEXTS,
    "id": Rule(lambda value: is_text(value) and is_memory_id(value), "must have the form mem_<milliseconds>_<base36>"),
    "version": COUNT,
    "created": STAMP,
    "lastAccessed": STAMP,
    "accessCount": COUNT,
    "relevanceScore": _NUMBER,
    "archived": FLAG,
}
_ALL: Mapping[str, Rule] = {**FIELDS, "lastUpdated": STAMP, "projectId": _TEXT}
_DERIVED = ("version", "lastUpdated")

DEFAULT_TYPE = "pattern"  # as in the seed's example; the most general of the server's six types
DEFAULT_CONFIDENCE = 0.8  # the server's default, and the value in the seed's example
_SUMMARY = 100  # characters


def with_defaults(memory: NativeMemory) -> JsonObject:
    """Return `memory` in the order of the seed, with the fields that the server requires filled in and nulls of known
    fields removed."""
    fields = {key: value for key, value in memory.items() if value is not None or key not in _ALL}
    defaults = {
        "summary": summary_of(fields.get("content")),
        "type": DEFAULT_TYPE,
        "confidence": DEFAULT_CONFIDENCE,
        "tags": [],
        "entities": [],
    }
    merged = defaults | fields
    return {key: merged[key] for key in FIELDS if key in merged} | merged


def summary_of(content: object) -> str:
    """Return the first non-empty line, at most 100 characters of it."""
    return content.strip().partition("\n")[0].strip()[:_SUMMARY] if isinstance(content, str) else ""


def validate_new(native: NativeMemory) -> Iterator[Violation]:
    """Yield the violations of a new memory."""
    if "content" not in native:
        yield Violation("content", "missing")
    yield from violations(_ALL, native, native.keys())
    if native.get("archived") is True:
        yield Violation("archived", "must be false for a new memory; forget it later")


def validate_update(changes: NativeMemory) -> Iterator[Violation]:
    """Yield the violations of a change."""
    for field, value in changes.items():
        if value is None and field in FIELDS:
            yield Violation(field, "cannot be removed: the real server reads it of every memory")
    if "id" in changes:
        yield Violation("id", "cannot be changed")
    for field in _DERIVED:
        if field in changes:
            yield Violation(field, "is set by memoryd with every change")
    yield from violations(_ALL, changes, {field for field, value in changes.items() if value is not None})


def export(record: Record, text: bytes) -> Portable:
    """Return a memory in terms of all layouts."""
    del text
    native, facts = record.native, record.facts
    content, summary = native.get("content"), native.get("summary")
    content = content if is_text(content) else ""
    relevance, confidence = facts["relevance"], native.get("confidence")
    known = {key: fits for key, fits in _FIELDS.items() if key not in ("entities", "projectId")}
    known |= dict.fromkeys(("relevanceScore", "confidence"), _FRACTION.fits)
    known |= {"id": is_text, "version": lambda value: value == 1}
    return Portable(
        content,
        title=summary if is_text(summary) and summary != summary_of(content) else "",
        type=record.type,
        tags=record.tags,
        importance=relevance if _FRACTION.fits(relevance) and relevance != 1 else None,
        confidence=confidence if _FRACTION.fits(confidence) and confidence != DEFAULT_CONFIDENCE else None,
        created=record.created,
        updated=later(facts["updated"], record.created),
        used=later(_seconds(native.get("lastAccessed")), record.created),
        uses=record.uses,
        archived=record.archived,
        details=details(native, known),
    )


def draft(memory: Portable, created: float) -> Draft:
    """Return the new memory file of a memory from another layout."""
    kind = memory.type or memory.category
    values = {
        "content": memory.text,
        "summary": memory.title or None,
        "type": kind or None,
        "tags": list(memory.tags),
        "confidence": memory.confidence,
        "created": iso_ms(created),
        "relevanceScore": memory.importance,
        "accessCount": memory.uses or None,
        "lastAccessed": iso_ms(memory.used) if memory.used else None,
        "lastUpdated": iso_ms(memory.updated) if memory.updated else None,
    }
    carried = {"title", "type", "tags", "confidence", "importance", "uses", "used", "updated"}
    carried |= {"category"} if memory.category == kind else set()
    return Draft({key: value for key, value in values.items() if value is not None}, carried, created)
