"""What a session and its memories should look like, and what is said about one that does not.

The seed's block is no JSON (`50-100`, `decision|insight|...`): ranges and open lists. A value outside a list is worth
knowing and no fault; a score or a title out of bounds is warned about, never corrected, cut or deleted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from memoryd.layouts.session_files.naming import digits, moment, session_path

TYPES = frozenset(
    {"decision", "insight", "confidence", "pattern_seed", "commitment"}
    | {"learning", "correction", "cross_agent", "workflow_note", "gap"}
)
CATEGORIES = frozenset({"relationship", "email", "task", "calendar", "workflow", "code", "system", "technical", "data"})
ENTITIES = frozenset(
    {"person", "project", "file", "business", "event", "task"}
    | {"reminder", "workstream", "space", "orbit", "command", "agent"}
)
LOWEST, HIGHEST = 50, 100  # confidence
MAX_TITLE = 100
FUTURE_S = 300.0  # a stamp this far ahead of the clock is in the future
_TEXTS = ("type", "category", "title", "content", "source_chunk")
_LISTS = ("tools_mentioned", "urls_mentioned", "target_agents")
_OPTIONAL = ("reasoning", "selected_option")


class Problem(NamedTuple):
    """`code` of a finding and what is wrong, naming field and rule, never the content."""

    code: str
    message: str


def confidence(native: Mapping[str, Any]) -> float:
    """The score that decides between two versions; what is missing or no number counts as 0."""
    found = native.get("confidence_score")
    if isinstance(found, bool) or not isinstance(found, int | float):
        return 0.0
    if isinstance(found, float) and math.isnan(found):  # a whole number may be too large to be asked
        return 0.0
    return float(max(-1e9, min(found, 1e9)))


def check_memory(native: Mapping[str, Any]) -> Iterator[Problem]:
    for key in _TEXTS:
        if not isinstance(native.get(key), str):
            yield Problem("field-type", f"{key}: missing or no text")
    for key in _OPTIONAL:
        if not isinstance(native.get(key), str | None):
            yield Problem("field-type", f"{key}: no text")
    for key in _LISTS:
        if not _all_texts(native.get(key, [])):
            yield Problem("field-type", f"{key}: no list of texts")
    yield from _check_bounds(native)
    yield from _check_nested(native)


def _all_texts(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(each, str) for each in found)


def _check_bounds(native: Mapping[str, Any]) -> Iterator[Problem]:
    title, score = native.get("title"), native.get("confidence_score")
    if isinstance(title, str) and len(title) > MAX_TITLE:
        yield Problem("schema-bound", f"title: {len(title)} characters, at most {MAX_TITLE} are meant")
    if isinstance(score, bool) or not isinstance(score, int | float):
        yield Problem("field-type", "confidence_score: missing or no number; counts as 0")
    elif not LOWEST <= score <= HIGHEST:
        yield Problem("schema-bound", f"confidence_score: outside {LOWEST} to {HIGHEST}")
    for key, known in (("type", TYPES), ("category", CATEGORIES | {""})):  # to name none is no unknown one
        value = native.get(key)
        if isinstance(value, str) and value not in known:
            yield Problem("unknown-value", f"{key}: none of the known ones")


def _check_nested(native: Mapping[str, Any]) -> Iterator[Problem]:
    alternatives = native.get("alternatives", [])
    if not isinstance(alternatives, list) or not all(map(is_alternative, alternatives)):
        yield Problem("field-type", "alternatives: no list of objects with option and why_not")
    entities = native.get("related_entities", [])
    if not isinstance(entities, list) or not all(map(is_entity, entities)):
        yield Problem("field-type", "related_entities: no list of objects with type, raw, slug and resolved")
    elif any(each["type"] not in ENTITIES for each in entities):
        yield Problem("unknown-value", "related_entities: a type that is none of the known ones")


def is_alternative(found: object) -> bool:
    return isinstance(found, dict) and all(isinstance(found.get(key), str) for key in ("option", "why_not"))


def is_entity(found: object) -> bool:
    return (
        isinstance(found, dict)
        and isinstance(found.get("type"), str)
        and isinstance(found.get("raw"), str)
        and isinstance(found.get("slug"), str | None)
        and isinstance(found.get("resolved", False), bool)
    )


def check_session(native: Mapping[str, Any], path: str, now: float) -> Iterator[Problem]:
    """The session's own fields, and whether id, stamp and path tell one moment."""
    if not isinstance(native.get("session_id"), str) or not native["session_id"]:
        yield Problem("field-type", "session_id: missing or no text; taken from the path")
    count = native.get("extraction_count")
    if isinstance(count, bool) or not isinstance(count, int):
        yield Problem("field-type", "extraction_count: missing or no whole number")
    if not isinstance(native.get("suggestions", []), list):
        yield Problem("field-type", "suggestions: no list")
    stamps = {key: moment(native.get(key)) for key in ("timestamp", "last_updated")}
    missing = [key for key, found in stamps.items() if found is None]
    if missing:
        stand_in = "the file's own time" if len(missing) == 2 else "the other one"
        yield Problem("missing-date", f"{' and '.join(missing)}: missing or no time stamp; {stand_in} is used")
    future = [key for key, found in stamps.items() if found is not None and found > now + FUTURE_S]
    if future:
        yield Problem("future-stamp", f"{', '.join(future)}: lies in the future; the session is not archived")
    yield from _check_path(native, path)


def _check_path(native: Mapping[str, Any], path: str) -> Iterator[Problem]:
    place = session_path(path)
    if place is None:
        return
    if ":" in place.time:
        yield Problem("colon-name", f"the time in the name has colons; {place.time.replace(':', '-')}-… is meant")
    told, written = digits(place.session), digits(native.get("timestamp"))
    if written is not None and written != told:
        yield Problem("stamp-differs", "timestamp: other digits than the path; the zone may differ")
    session = native.get("session_id")
    if isinstance(session, str) and session and session != place.session:
        yield Problem("stamp-differs", "session_id: is not the one the path stands for")
