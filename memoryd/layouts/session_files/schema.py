"""The schema of a session and its memories: checks of existing files, and of new values.

The block in the seed is not JSON (`50-100`, `decision|insight|...`): it defines ranges and open lists. A value outside
a list is reported as unknown, not as wrong; a score or title out of bounds is a warning. Nothing is corrected or
deleted.

Storing checks types and bounds; lists that end in `...` are open, so types and categories are free. The seed has no
memories with a confidence below 50; the default is 50, which never replaces an existing memory.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import TypeGuard

from memoryd.core.dates import iso
from memoryd.core.ignore import is_temp
from memoryd.core.records import FUTURE_S, JsonObject, NativeMemory, Record
from memoryd.errors import UsageError
from memoryd.layouts.directory import first_value
from memoryd.layouts.exchange import DEFAULT_NAME, Draft, Portable, details, later
from memoryd.layouts.session_files import names
from memoryd.layouts.session_files.names import parse_moment, session_path, stamp_digits
from memoryd.layouts.validation import TEXTS, FieldSpec, Problem, Rule, Violation, is_text, violations

TYPES = frozenset(
    {"decision", "insight", "confidence", "pattern_seed", "commitment"}
    | {"learning", "correction", "cross_agent", "workflow_note", "gap"}
)
CATEGORIES = frozenset({"relationship", "email", "task", "calendar", "workflow", "code", "system", "technical", "data"})
ENTITIES = frozenset(
    {"person", "project", "file", "business", "event", "task"}
    | {"reminder", "workstream", "space", "orbit", "command", "agent"}
)
MIN_CONFIDENCE, MAX_CONFIDENCE = 50, 100  # confidence
MAX_TITLE = 100
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_TEXTS = ("type", "category", "title", "content", "source_chunk")
_LISTS = ("tools_mentioned", "urls_mentioned", "target_agents")
_OPTIONAL = ("reasoning", "selected_option")
_TEXT_OR_NULL = (str, type(None))
_KNOWN_VALUES = (("type", TYPES), ("category", CATEGORIES | {""}))  # an empty category is not unknown

# The fields that `add` and `update` take.
FIELD_SPECS: Mapping[str, FieldSpec] = {
    "type": FieldSpec(
        "text",
        "decision, insight, learning, correction, commitment, pattern_seed, workflow_note, gap or another word",
        required=True,
    ),
    "title": FieldSpec("text", "at most 100 characters", required=True),
    "content": FieldSpec("text", "the memory itself", required=True),
    "category": FieldSpec("text", "code, system, technical, data, workflow, task or another word"),
    "confidence_score": FieldSpec("integer", "from 50 to 100"),
    "source_chunk": FieldSpec("text", "the exchange, with **User:** and **Assistant:**"),
    "reasoning": FieldSpec("text", "why it was remembered"),
    "related_entities": FieldSpec("objects", "[{type, raw, slug: text or null, resolved: bool}]"),
}


def confidence(native: NativeMemory) -> float:
    """Return the score that decides between two versions; 0 if it is missing or not a number. A number in a string is
    accepted, as in the real archiver."""
    score = native.get("confidence_score")
    if isinstance(score, str):
        score = _number(score)
    if isinstance(score, bool) or not isinstance(score, (int, float)):
        return 0.0
    if isinstance(score, float) and math.isnan(score):  # an integer may be too large for isnan
        return 0.0
    return float(max(-1e9, min(score, 1e9)))


def _number(text: str) -> float:
    try:
        return float(text) if NUMBER.fullmatch(text.strip()) else 0.0
    except ValueError:
        return 0.0


def check_memory(native: NativeMemory) -> Iterator[Problem]:
    """Yield the problems of one memory."""
    for key in _TEXTS:
        if not isinstance(native.get(key), str):
            yield Problem("field-type", f"{key}: missing or not text")
    for key in _OPTIONAL:
        if not isinstance(native.get(key), _TEXT_OR_NULL):
            yield Problem("field-type", f"{key}: not text")
    for key in _LISTS:
        if not _all_texts(native.get(key, [])):
            yield Problem("field-type", f"{key}: not a list of texts")
    yield from _check_bounds(native)
    yield from _check_nested(native)


def _all_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _check_bounds(native: NativeMemory) -> Iterator[Problem]:
    title, score = native.get("title"), native.get("confidence_score")
    if isinstance(title, str) and len(title) > MAX_TITLE:
        yield Problem("schema-bound", f"title: {len(title)} characters, at most {MAX_TITLE} are allowed")
    if isinstance(score, bool) or not isinstance(score, (int, float)):
        yield Problem("field-type", "confidence_score: missing or not a number; counts as 0")
    elif not MIN_CONFIDENCE <= score <= MAX_CONFIDENCE:
        yield Problem("schema-bound", f"confidence_score: outside {MIN_CONFIDENCE} to {MAX_CONFIDENCE}")
    for key, allowed in _KNOWN_VALUES:
        value = native.get(key)
        if isinstance(value, str) and value not in allowed:
            yield Problem("unknown-value", f"{key}: not one of the known values")


def _check_nested(native: NativeMemory) -> Iterator[Problem]:
    alternatives = native.get("alternatives", [])
    if not isinstance(alternatives, list) or not all(map(is_alternative, alternatives)):
        yield Problem("field-type", "alternatives: not a list of objects with option and why_not")
    entities = native.get("related_entities", [])
    if not isinstance(entities, list) or not all(map(is_entity, entities)):
        yield Problem("field-type", "related_entities: not a list of objects with type, raw, slug and resolved")
    elif any(each["type"] not in ENTITIES for each in entities):
        yield Problem("unknown-value", "related_entities: a type is not one of the known values")


def is_alternative(value: object) -> bool:
    """Return True for an object with the texts `option` and `why_not`."""
    return isinstance(value, dict) and all(isinstance(value.get(key), str) for key in ("option", "why_not"))


def is_entity(value: object) -> bool:
    """Return True for an object with `type`, `raw`, `slug` (or null) and `resolved`."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("type"), str)
        and isinstance(value.get("raw"), str)
        and isinstance(value.get("slug"), _TEXT_OR_NULL)
        and isinstance(value.get("resolved", False), bool)
    )


def check_session(native: NativeMemory, path: str, now: float) -> Iterator[Problem]:
    """Yield the problems of the session's own fields, and of id, time stamp and path that differ."""
    if not isinstance(native.get("session_id"), str) or not native["session_id"]:
        yield Problem("field-type", "session_id: missing or not text; taken from the path")
    count = native.get("extraction_count")
    if isinstance(count, bool) or not isinstance(count, int):
        yield Problem("field-type", "extraction_count: missing or not a whole number")
    if not isinstance(native.get("suggestions", []), list):
        yield Problem("field-type", "suggestions: not a list")
    stamps = {key: parse_moment(native.get(key)) for key in ("timestamp", "last_updated")}
    missing = [key for key, seconds in stamps.items() if seconds is None]
    if missing:
        substitute = "the modification time" if len(missing) == 2 else "the other stamp"
        yield Problem("missing-date", f"{' and '.join(missing)}: missing or not a time stamp; {substitute} is used")
    future = [key for key, seconds in stamps.items() if seconds is not None and seconds > now + FUTURE_S]
    if future:
        yield Problem("future-stamp", f"{', '.join(future)}: in the future; the session is not archived")
    yield from _check_path(native, path)


def _check_path(native: NativeMemory, path: str) -> Iterator[Problem]:
    location = session_path(path)
    if location is None:
        return
    if ":" in location.time:
        yield Problem("colon-name", f"colons in the time of the name; expected {location.time.replace(':', '-')}-…")
    digits = stamp_digits(native.get("timestamp"))
    if digits is not None and digits != f"{location.date}{location.time}".replace("-", "").replace(":", ""):
        yield Problem("stamp-differs", "timestamp: differs from the path, perhaps by its time zone")
    session = native.get("session_id")
    if isinstance(session, str) and session and session != location.session:
        yield Problem("stamp-differs", "session_id: differs from the path")


_MAX_NAME_BYTES = 200  # leaves room for the suffix of a temporary file
_TEXT = Rule(is_text, "must be a text")


def _is_not_blank(value: object) -> TypeGuard[str]:
    return is_text(value) and bool(value.strip())


def _is_title(value: object) -> bool:
    return _is_not_blank(value) and len(value) <= MAX_TITLE


def _is_confidence(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and MIN_CONFIDENCE <= value <= MAX_CONFIDENCE


def _are_alternatives(value: object) -> bool:
    return isinstance(value, list) and all(map(is_alternative, value))


def _are_entities(value: object) -> bool:
    return isinstance(value, list) and all(map(is_entity, value))


# In the order of the seed, which new memories follow.
FIELDS: Mapping[str, Rule] = {
    "type": Rule(_is_not_blank, "must be a text that is not blank"),
    "category": _TEXT,
    "title": Rule(_is_title, "must be a text of 1 to 100 characters"),
    "content": Rule(_is_not_blank, "must be a text that is not blank"),
    "source_chunk": _TEXT,
    "reasoning": _TEXT,
    "alternatives": Rule(_are_alternatives, "must be a list of objects with the texts option and why_not"),
    "selected_option": _TEXT,
    "confidence_score": Rule(_is_confidence, "must be a number from 50 to 100"),
    "related_entities": Rule(_are_entities, "must be a list of objects with type, raw, slug (or null) and resolved"),
    "tools_mentioned": TEXTS,
    "urls_mentioned": TEXTS,
    "target_agents": TEXTS,
}
_REQUIRED = ("type", "title", "content")
_REMOVABLE = frozenset({"reasoning", "selected_option"})


def with_defaults(memory: NativeMemory) -> JsonObject:
    """Return `memory` with defaults filled in, in the seed's order. Nulls of known fields count as missing."""
    fields = {key: value for key, value in memory.items() if value is not None or key not in FIELDS}
    lists = ("alternatives", "related_entities", "tools_mentioned", "urls_mentioned", "target_agents")
    merged: JsonObject = {"category": "", "source_chunk": "", "confidence_score": MIN_CONFIDENCE}
    merged |= {key: [] for key in lists}
    merged |= fields
    return {key: merged[key] for key in FIELDS if key in merged} | merged


def validate_new(native: NativeMemory) -> Iterator[Violation]:
    """Yield the violations of a new memory."""
    for field in _REQUIRED:
        if field not in native:
            yield Violation(field, "missing")
    yield from violations(FIELDS, native, native.keys())


def validate_update(changes: NativeMemory) -> Iterator[Violation]:
    """Yield the violations of a change."""
    for field, value in changes.items():
        if value is None and field in FIELDS and field not in _REMOVABLE:
            yield Violation(field, "cannot be removed")
    yield from violations(FIELDS, changes, {field for field, value in changes.items() if value is not None})


def paths_of(session: str) -> tuple[str, str]:
    """Return the paths of a session: the name with dashes, and the one with colons that some programs write. Raises
    UsageError where it is not a session id."""
    path = names.path_for_id(session)
    if path is None or names.parse_moment(session[:19]) is None:
        raise UsageError("session: must have the form YYYY-MM-DD-HH-MM-SS-name, with the time of the first message")
    if any(unicodedata.category(each) == "Cc" for each in session):
        raise UsageError("session: must not contain control characters")
    try:
        size = len(path.rpartition("/")[2].encode())
    except UnicodeEncodeError:
        raise UsageError("session: must be valid Unicode") from None
    if size > _MAX_NAME_BYTES or is_temp(path):
        raise UsageError(
            f"session: the file name would have {size} bytes (at most {_MAX_NAME_BYTES}) or look like a temporary file"
        )
    date, _, name = path.partition("/")
    return path, f"{date}/{name[:8].replace('-', ':')}{name[8:]}"


def live_path(archived: str, session: str) -> str | None:
    """Return the path that an archived session came from, by its id, else by its file name in either form."""
    directory, _, name = archived.removeprefix("archive/").partition("/")
    stem = name.removesuffix(".json")
    candidates = (names.path_for_id(each) for each in (session, stem, f"{directory}-{stem}"))
    return next((path for path in candidates if path is not None), None)


_EXPORTED: Mapping[str, Callable[[object], bool]] = {
    **dict.fromkeys(("type", "category", "title", "content"), is_text),
    "confidence_score": _is_confidence,
}


def export(record: Record, text: bytes) -> Portable:
    """Return a memory in terms of all layouts. The tools it mentions are also tags."""
    del text
    native, facts = record.native, record.facts
    content, title, score = native.get("content"), native.get("title"), native.get("confidence_score")
    return Portable(
        content if is_text(content) else "",
        title=title if is_text(title) else "",
        type=record.type if is_text(native.get("type")) else "",
        category=facts["category"],
        tags=record.tags,
        confidence=facts["confidence"] / MAX_CONFIDENCE if _is_confidence(score) and score != MIN_CONFIDENCE else None,
        created=record.created,
        updated=later(record.used, record.created),
        archived=record.archived,
        location={"session": facts["session"]},
        details=details(native, _EXPORTED),
    )


def outside(data: bytes) -> JsonObject:
    """Return the fields of a session that neither its memories nor its id stand for."""
    known = ("session_id", "timestamp", "last_updated", "extraction_count", "memories")
    session = first_value(data)
    return details(session, dict.fromkeys(known, lambda _: True)) if isinstance(session, dict) else {}


def draft(memory: Portable, created: float) -> Draft:
    """Return the new memory of a memory from another layout, in a session that began when it was created. A session
    has one memory of each type and title, since the writer merges similar ones."""
    title, score = memory.headline, round((memory.confidence or 0.0) * MAX_CONFIDENCE, 6)
    fits = len(title) <= MAX_TITLE
    native: JsonObject = {
        "type": memory.type or "learning",
        "category": memory.category,
        "title": title[:MAX_TITLE].strip(),
        "content": memory.text if fits else memory.titled_text,
    }
    is_scored = _is_confidence(score)
    native |= {"confidence_score": int(score) if score.is_integer() else score} if is_scored else {}
    started = iso(created)[:19].replace("T", "-").replace(":", "-")
    fallback = {"session": f"{started}-{DEFAULT_NAME}"}
    session = {"session": f"{started}-{names.slug(memory.kind or DEFAULT_NAME)}"}
    is_session = "session" in memory.location  # with tools and entities, which are its tags
    carried = {"title", "type", "category"} | ({"tags", "updated"} if is_session else set())
    carried |= {"confidence"} if is_scored else set()
    location = memory.location if is_session else session
    key = native["type"], native["title"]
    return Draft(native, carried, memory.updated or created, location, fallback, key)
