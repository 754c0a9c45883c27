"""Listing memories over roots, newest first, a page at a time."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import msgspec

from memoryd.catalogue import Catalogue
from memoryd.catalogue.searching import Before, Memory
from memoryd.core.asking import Filters
from memoryd.errors import UsageError
from memoryd.operations.search import Place, freshness, looked, of_one_user, placed

LIMIT = 50
_LOWEST = float("-inf")


class Mark(NamedTuple):
    """The memory that a page ended with."""

    created: float | None
    root: str
    id: str
    key: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


def list_memories(
    places: Sequence[Place],
    filters: Filters,
    *,
    user: str | None = None,
    limit: int = LIMIT,
    cursor: str | None = None,
) -> dict[str, Any]:
    """The result of `memory.list`: memories[{root, id, path, line, title, type, tags, created, archived, layout,
    user?}], next_cursor?, fresh{...} as `search` gives it. What is stored between two pages moves none of the rest.
    Raises UsageError for a cursor that is none."""
    mark = _mark(cursor) if cursor is not None else None
    fresh = {place.name: freshness(place) for place in places}
    rows = [(place, each) for place in places for each in _of(place, filters, user, limit, mark, fresh[place.name])]
    rows.sort(key=lambda row: (row[1].id, row[1].key), reverse=True)
    rows.sort(key=lambda row: row[0].name)
    rows.sort(key=lambda row: _LOWEST if row[1].created is None else row[1].created, reverse=True)
    page = rows[:limit]
    result: dict[str, Any] = {"memories": [placed(place, memory) for place, memory in page]}
    if len(rows) > limit:
        place, last = page[-1]
        result["next_cursor"] = _cursor(Mark(last.created, place.name, last.id, last.key))
    return {**result, "fresh": fresh}


def _of(
    place: Place, filters: Filters, user: str | None, limit: int, mark: Mark | None, fresh: dict[str, Any]
) -> list[Memory]:
    def look(reader: Catalogue) -> list[Memory]:
        own = of_one_user(reader, filters, user, fresh)
        return reader.words.newest(own, limit + 1, _before(place.name, mark)) if own is not None else []

    return looked(place, fresh, look)


def _before(root: str, mark: Mark | None) -> Before | None:
    """Roots with equal times stand in the order of their names."""
    if mark is None:
        return None
    if root > mark.root:
        return Before(mark.created, "", 0, same=True)
    return Before(mark.created, mark.id if root == mark.root else "", mark.key)


def _cursor(mark: Mark) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(mark)).decode().rstrip("=")


def _mark(cursor: str) -> Mark:
    try:
        padded = cursor.encode() + b"=" * (-len(cursor) % 4)
        return msgspec.json.decode(base64.urlsafe_b64decode(padded), type=Mark)
    except (binascii.Error, msgspec.MsgspecError, ValueError):
        raise UsageError("this is no cursor", hint="give `next_cursor` of the page before, as it is") from None
