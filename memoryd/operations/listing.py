"""Listing memories over roots, newest first, a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memoryd.core.asking import Filters
from memoryd.operations.search import Place

LIMIT = 50


def list_memories(
    places: Sequence[Place],
    filters: Filters,
    *,
    user: str | None = None,
    limit: int = LIMIT,
    cursor: str | None = None,
) -> dict[str, Any]:
    """The result of `memory.list`: memories[{root, id, path, line, title, type, tags, created, archived, layout,
    owner?}], next_cursor?, fresh{...} as `search` gives it. Raises UsageError for a cursor that is none."""
    raise NotImplementedError
