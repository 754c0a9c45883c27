"""List the memories of several roots, newest first, page by page. Thread-safe; does not go through the worker."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from operator import methodcaller
from typing import Annotated, NamedTuple

import msgspec
from msgspec.structs import replace

from memoryd.control.methods.memories import Freshness, ListResult, MemoryRow, MonthRow
from memoryd.core.index import Before, IndexReader, Memory
from memoryd.core.query import Filters
from memoryd.errors import UsageError
from memoryd.operations.search_scope import SearchRoot, find_scope, of_user, read_index, row_values

LIMIT = 50
_LOWEST = float("-inf")


class PageEnd(NamedTuple):
    """The last memory of a page, from which the next page continues."""

    created: float | None
    root: str
    id: str
    key: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


def list_memories(
    roots: Sequence[SearchRoot],
    filters: Filters,
    *,
    user: str | None = None,
    limit: int = LIMIT,
    cursor: str | None = None,
    months: bool = False,
) -> ListResult:
    """Return a page of the memories of several roots, as the result of `memory.list`; with `months`, count all of them.

    Memories stored between two pages do not shift the rest. Raises UsageError for an invalid cursor.
    """
    end = _decode_cursor(cursor) if cursor is not None else None
    fresh, allowed = find_scope(roots, user)
    rows = [
        (root, *each)
        for root in roots
        if root.name in allowed
        for each in _newest(root, of_user(filters, allowed[root.name]), limit, end, fresh[root.name])
    ]
    rows.sort(key=lambda row: (row[1].id, row[1].key), reverse=True)
    rows.sort(key=lambda row: row[0].name)
    rows.sort(key=lambda row: _LOWEST if row[1].created is None else row[1].created, reverse=True)
    page = rows[:limit]
    listed = [MemoryRow(*row_values(root, replace(memory, id=unique))) for root, memory, unique in page]
    result = ListResult(memories=listed, fresh=fresh)
    if len(rows) > limit:
        root, last, _ = page[-1]
        end = PageEnd(last.created, root.name, last.id, last.key)
        result.next_cursor = base64.urlsafe_b64encode(msgspec.json.encode(end)).decode().rstrip("=")
    if months:
        of_each = {root.name: filters for root in roots}  # of every user: a number tells nobody what they remember
        if user is not None:
            of_each = {name: of_user(filters, owner) for name, owner in allowed.items()}
        result.months = _months([root for root in roots if root.name in of_each], of_each, fresh)
    return result


def _months(
    roots: Sequence[SearchRoot], filters: Mapping[str, Filters], fresh: Mapping[str, Freshness]
) -> list[MonthRow]:
    """Count the memories of all roots by month, newest first, with the filters of each root."""
    rows: dict[str, MonthRow] = {}
    for root in roots:
        for each in read_index(root, fresh[root.name], methodcaller("months", filters[root.name])):
            row = rows.setdefault(each.month or "", MonthRow(each.month, 0, 0))
            row.memories += each.live
            row.archived += each.archived
    return [rows[month] for month in sorted(rows, reverse=True)]


def _newest(
    root: SearchRoot, filters: Filters, limit: int, end: PageEnd | None, fresh: Freshness
) -> list[tuple[Memory, str]]:
    """Return memories, each with its unique id; their own ids are for the order."""

    def query(reader: IndexReader) -> list[tuple[Memory, str]]:
        found = reader.newest(filters, limit + 1, _before(root.name, end))
        shared = reader.unique_ids([each.id for each in found])
        return [(each, shared.get(each.key, each.id)) for each in found]

    return read_index(root, fresh, query)


def _before(root: str, end: PageEnd | None) -> Before | None:
    """Return where the next page starts in a root; memories of the same time are in the order of the root names."""
    if end is None:
        return None
    if root > end.root:
        return Before(end.created, "", 0, same=True)
    return Before(end.created, end.id if root == end.root else "", end.key)


def _decode_cursor(cursor: str) -> PageEnd:
    try:
        padded = cursor.encode() + b"=" * (-len(cursor) % 4)
        return msgspec.json.decode(base64.urlsafe_b64decode(padded), type=PageEnd)
    except (binascii.Error, msgspec.MsgspecError, ValueError):
        raise UsageError("invalid cursor", hint="use `next_cursor` of the previous page unchanged") from None
