"""What a new memory file must hold, and what may change in one that is there.

The layout asks for little: types, and an id of its own form. What is not given gets a value all the same, because the
real server reads content, summary, type and tags of every memory unguarded and one without them breaks its search.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memoryd.layouts.asked import COUNT, FLAG, STAMP, TEXTS, Breach, Rule, broken, is_text
from memoryd.layouts.json_files.schema import has_usual_id, is_number

_TEXT = Rule(is_text, "is a text")
_NUMBER = Rule(is_number, "is a finite number")

# In the order of the seed's example, which is that of a new file.
FIELDS: Mapping[str, Rule] = {
    "content": Rule(lambda value: is_text(value) and bool(value.strip()), "is a text that says something"),
    "summary": _TEXT,
    "type": _TEXT,
    "confidence": _NUMBER,
    "tags": TEXTS,
    "entities": TEXTS,
    "id": Rule(lambda value: is_text(value) and has_usual_id(value), "has the form mem_<milliseconds>_<base36>"),
    "version": COUNT,
    "created": STAMP,
    "lastAccessed": STAMP,
    "accessCount": COUNT,
    "relevanceScore": _NUMBER,
    "archived": FLAG,
}
_ALL: Mapping[str, Rule] = {**FIELDS, "lastUpdated": STAMP, "projectId": _TEXT}
_DERIVED = ("version", "lastUpdated")

USUAL_TYPE = "pattern"  # the seed's own example; of the server's six types the one that claims least
USUAL_CONFIDENCE = 0.8  # the server's default, and that of the seed's example
_SUMMARY = 100  # characters


def described(given: Mapping[str, Any]) -> dict[str, Any]:
    """What is given without nulls of known fields, and with what the server cannot do without, in the seed's order."""
    known = {key: value for key, value in given.items() if value is not None or key not in _ALL}
    defaults = {
        "summary": summary_of(known.get("content")),
        "type": USUAL_TYPE,
        "confidence": USUAL_CONFIDENCE,
        "tags": [],
        "entities": [],
    }
    whole = defaults | known
    return {key: whole[key] for key in FIELDS if key in whole} | whole


def summary_of(content: object) -> str:
    """The first line that says something, not more than 100 characters of it."""
    return content.strip().partition("\n")[0].strip()[:_SUMMARY] if isinstance(content, str) else ""


def new_breaches(native: Mapping[str, Any]) -> Iterator[Breach]:
    if "content" not in native:
        yield Breach("content", "is missing")
    yield from broken(_ALL, native, native.keys())
    if native.get("archived") is True:
        yield Breach("archived", "is false for a new memory; forget it later")


def changed_breaches(changes: Mapping[str, Any]) -> Iterator[Breach]:
    for field, value in changes.items():
        if value is None and field in FIELDS:
            yield Breach(field, "cannot be taken away: the layout's server reads it of every memory")
    if "id" in changes:
        yield Breach("id", "never changes")
    for field in _DERIVED:
        if field in changes:
            yield Breach(field, "is set by memoryd, with every change")
    yield from broken(_ALL, changes, {field for field, value in changes.items() if value is not None})
