"""What a user's document should look like: `memories` of `{"data": {...}, "embedding": [...]}`, `updated_at`, and
`last_deduplicated_at` or null. The seed leaves `data` open; the program writes `id` (the Unix second of storing, so not
unique), `content`, `importance` from 0 to 1, `category` and `topics`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from memoryd.core.dates import parse_stamp

IMPORTANCE = 0.5
CATEGORY = "general"
FINE, MOST = 1_000, 10_000  # memories: fine below the first, slow near the second
_LATEST_ID = 4_102_444_800  # 2100: above, a number is no Unix second


class Problem(NamedTuple):
    """`code` of a finding and what is wrong, naming field and rule, never the content."""

    code: str
    message: str


def importance(data: Mapping[str, Any]) -> float:
    """From 0 to 1; what is missing or no such number counts as 0.5, what lies outside as the nearest bound."""
    found = data.get("importance", IMPORTANCE)
    if isinstance(found, bool) or not isinstance(found, int | float) or math.isnan(found):
        return IMPORTANCE
    return float(min(max(found, 0.0), 1.0))


def number_of(data: Mapping[str, Any]) -> int | None:
    found = data.get("id")
    usable = isinstance(found, int) and not isinstance(found, bool) and abs(found) < 2**53
    return found if usable else None


def created(data: Mapping[str, Any]) -> float | None:
    """When it was stored: the id is the second."""
    found = number_of(data)
    return float(found) if found is not None and 0 < found < _LATEST_ID else None


def topics(data: Mapping[str, Any]) -> list[str]:
    found = data.get("topics")
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def unusable(data: object) -> str | None:
    """Why this is no memory at all, or None."""
    if not isinstance(data, dict):
        return "data: missing or no object"
    content = data.get("content")
    if not isinstance(content, str) or not content:
        return "content: missing, empty or no text"
    return None


def check(data: Mapping[str, Any]) -> Iterator[Problem]:
    if isinstance(data.get("id"), bool) or not isinstance(data.get("id"), int):
        yield Problem("field-type", "id: missing or no whole number")
    level = data.get("importance", IMPORTANCE)
    if isinstance(level, bool) or not isinstance(level, int | float):
        yield Problem("field-type", "importance: no number; counts as 0.5")
    elif not 0 <= level <= 1:
        yield Problem("schema-bound", "importance: outside 0 to 1")
    if not isinstance(data.get("category", CATEGORY), str):
        yield Problem("field-type", "category: no text")
    found = data.get("topics", [])
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        yield Problem("field-type", "topics: no list of texts")


def check_stamps(updated: object, deduplicated: object) -> Iterator[Problem]:
    if parse_stamp(updated) is None:
        yield Problem("field-type", "updated_at: missing or no time stamp")
    if deduplicated is not None and parse_stamp(deduplicated) is None:
        yield Problem("field-type", "last_deduplicated_at: neither a time stamp nor null")


def check_size(count: int) -> Iterator[Problem]:
    if count >= MOST:
        yield Problem("many-memories", f"{count} memories; near {MOST} the program becomes slow")
    elif count >= FINE:
        yield Problem("many-memories", f"{count} memories; the program is made for fewer than {FINE}")
