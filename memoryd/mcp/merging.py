"""Answers of several roots as one: hits by score, pages one root after another."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from memoryd.errors import UsageError

_DEFAULT_LIMIT = 10

Values = dict[str, Any]


def merged_hits(answers: Sequence[Values], params: Values) -> Values:
    """Best first, at most `limit`; equal scores stay in the order of the roots."""
    if len(answers) == 1:
        return {"hits": [], **answers[0]}
    hits = [hit for answer in answers for hit in answer.get("hits", [])]
    hits.sort(key=lambda hit: -float(hit.get("score") or 0))
    return {
        "hits": hits[: params.get("limit", _DEFAULT_LIMIT)],
        "took_ms": sum(float(answer.get("took_ms") or 0) for answer in answers),
        "fresh": {name: state for answer in answers for name, state in (answer.get("fresh") or {}).items()},
    }


def page_of(cursor: str | None, roots: int) -> tuple[int, str | None]:
    """(which root, the daemon's own cursor in it). UsageError for a cursor that is not from here."""
    if cursor is None:
        return 0, None
    try:
        at, inner = json.loads(cursor)
    except (ValueError, TypeError):
        raise _stale() from None
    if not isinstance(at, int) or not 0 <= at < roots or not isinstance(inner, str | None):
        raise _stale()
    return at, inner


def next_page(at: int, cursor: object, roots: int) -> str | None:
    """The cursor of what follows; None at the end of the last root."""
    if cursor is not None:
        return json.dumps([at, cursor])
    return json.dumps([at + 1, None]) if at + 1 < roots else None


def _stale() -> UsageError:
    return UsageError("this cursor is not from this server", hint="take `next_cursor` of the page before, as it is")
