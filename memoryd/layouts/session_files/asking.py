"""What a new memory of a session must be, what may change in one, and which file a session's id stands for.

A list of the seed that ends in `...` is open, so types and categories are not held against it. A confidence below 50
is no memory by the seed; where none is given it is 50, which takes the place of nothing that is there.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from memoryd.errors import UsageError
from memoryd.layouts.asked import TEXTS, Breach, Rule, broken, is_text
from memoryd.layouts.base import is_temp
from memoryd.layouts.session_files import naming
from memoryd.layouts.session_files.schema import HIGHEST, LOWEST, MAX_TITLE, is_alternative, is_entity

_LONGEST = 200  # bytes of a file's name, which leaves room for a temporary one
_TEXT = Rule(is_text, "is a text")


def _says_something(value: Any) -> bool:
    return is_text(value) and bool(value.strip())


def _is_title(value: Any) -> bool:
    return _says_something(value) and len(value) <= MAX_TITLE


def _is_confidence(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and LOWEST <= value <= HIGHEST


def _are_alternatives(value: Any) -> bool:
    return isinstance(value, list) and all(map(is_alternative, value))


def _are_entities(value: Any) -> bool:
    return isinstance(value, list) and all(map(is_entity, value))


# In the seed's order, which is that of a new memory.
FIELDS: Mapping[str, Rule] = {
    "type": Rule(_says_something, "is a text that says something"),
    "category": _TEXT,
    "title": Rule(_is_title, "is a text of 1 to 100 characters"),
    "content": Rule(_says_something, "is a text that says something"),
    "source_chunk": _TEXT,
    "reasoning": _TEXT,
    "alternatives": Rule(_are_alternatives, "is a list of objects with the texts option and why_not"),
    "selected_option": _TEXT,
    "confidence_score": Rule(_is_confidence, "is a number from 50 to 100"),
    "related_entities": Rule(_are_entities, "is a list of objects with type, raw, slug (or null) and resolved"),
    "tools_mentioned": TEXTS,
    "urls_mentioned": TEXTS,
    "target_agents": TEXTS,
}
_REQUIRED = ("type", "title", "content")
_OPTIONAL = frozenset({"reasoning", "selected_option"})


def completed(given: Mapping[str, Any]) -> dict[str, Any]:
    """The whole memory in the seed's order; known fields given as null count as not given, unknown ones stay."""
    known = {key: value for key, value in given.items() if value is not None or key not in FIELDS}
    lists = ("alternatives", "related_entities", "tools_mentioned", "urls_mentioned", "target_agents")
    whole: dict[str, Any] = {"category": "", "source_chunk": "", "confidence_score": LOWEST}
    whole |= {key: [] for key in lists}
    whole |= known
    return {key: whole[key] for key in FIELDS if key in whole} | whole


def new_breaches(native: Mapping[str, Any]) -> Iterator[Breach]:
    for field in _REQUIRED:
        if field not in native:
            yield Breach(field, "is missing")
    yield from broken(FIELDS, native, native.keys())


def changed_breaches(changes: Mapping[str, Any]) -> Iterator[Breach]:
    for field, value in changes.items():
        if value is None and field in FIELDS and field not in _OPTIONAL:
            yield Breach(field, "cannot be taken away")
    yield from broken(FIELDS, changes, {field for field, value in changes.items() if value is not None})


def paths_of(session: str) -> tuple[str, str]:
    """Where a session lies: under the name with dashes, which is meant, or the one with colons, which some programs
    write. Raises UsageError for what is no session's id."""
    path = naming.path_of(session)
    if path is None or naming.moment(session[:19]) is None:
        raise UsageError("session: has the form YYYY-MM-DD-HH-MM-SS-name, its date and time those of the first message")
    if any(unicodedata.category(each) == "Cc" for each in session):
        raise UsageError("session: holds no control characters")
    try:
        size = len(path.rpartition("/")[2].encode())
    except UnicodeEncodeError:
        raise UsageError("session: is no text that UTF-8 can write") from None
    if size > _LONGEST or is_temp(path):
        raise UsageError(
            f"session: makes a file name of {size} bytes (at most {_LONGEST}), or that of a temporary file"
        )
    date, _, name = path.partition("/")
    return path, f"{date}/{name[:8].replace('-', ':')}{name[8:]}"


def live_path(archived: str, session: str) -> str | None:
    """Where an archived session came from: by its id, else by its file's name in either form of the archive."""
    folder, _, name = archived.removeprefix("archive/").partition("/")
    stem = name.removesuffix(".json")
    tried = (naming.path_of(each) for each in (session, stem, f"{folder}-{stem}"))
    return next((path for path in tried if path is not None), None)
