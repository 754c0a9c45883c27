"""What a new memory of a user must be, and what may change in one that is there.

It is given as the fields of `data` with the `embedding` beside them, or as `{"data": {...}, "embedding": [...]}`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from memoryd.layouts.asked import COUNT, TEXTS, Breach, Rule, broken, is_text, unwritable
from memoryd.layouts.user_document.schema import CATEGORY, IMPORTANCE

DATA, EMBEDDING = "data", "embedding"


class Parts(NamedTuple):
    """`embedding` is None where none is given."""

    native: dict[str, Any]
    embedding: Any


def _is_level(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


# In the order in which the program writes them.
FIELDS: Mapping[str, Rule] = {
    "id": COUNT,
    "content": Rule(lambda value: is_text(value) and bool(value), "is a text of at least one character"),
    "importance": Rule(_is_level, "is a number from 0 to 1"),
    "category": Rule(is_text, "is a text"),
    "topics": TEXTS,
}
_LASTING = ("id", "content", EMBEDDING)


def parts_of(memory: Mapping[str, Any]) -> Parts:
    inner = memory.get(DATA)
    if isinstance(inner, Mapping) and memory.keys() <= {DATA, EMBEDDING}:
        return Parts(dict(inner), memory.get(EMBEDDING))
    return Parts({key: value for key, value in memory.items() if key != EMBEDDING}, memory.get(EMBEDDING))


def completed(native: Mapping[str, Any], now: float) -> dict[str, Any]:
    """With the program's own defaults; the id is the second, as there. What is given as null counts as not given,
    unknown fields stay as they are."""
    known = {key: value for key, value in native.items() if value is not None or key not in FIELDS}
    defaults = {"id": int(now), "importance": IMPORTANCE, "category": CATEGORY, "topics": []}
    whole = {**defaults, **known}
    return {key: whole[key] for key in FIELDS if key in whole} | whole


def new_breaches(native: Mapping[str, Any]) -> Iterator[Breach]:
    if "content" not in native:
        yield Breach("content", "is missing")
    yield from unwritable(native)
    yield from broken(FIELDS, native, native.keys())


def changed_breaches(changes: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[Breach]:
    """`changes` as they were given, `wanted` what of the data's fields is to be another than before."""
    for field in _LASTING:
        if changes.get(field, "") is None:
            yield Breach(field, "cannot be taken away")
    if wanted.get("id") is not None:
        yield Breach("id", "never changes")
    yield from unwritable(wanted)
    yield from broken(FIELDS, wanted, {field for field, value in wanted.items() if value is not None})


def embedding_breaches(value: Any, size: int) -> Iterator[Breach]:
    """`size` is what most embeddings of the file have, 0 where there is none yet."""
    if not (isinstance(value, list | tuple) and value and all(map(_is_finite, value)) and any(value)):
        yield Breach(EMBEDDING, "is a list of finite numbers, not all zero")
    elif size and len(value) != size:
        yield Breach(EMBEDDING, f"is a list of {size} numbers, as the others of this file")


def _is_finite(value: Any) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False
