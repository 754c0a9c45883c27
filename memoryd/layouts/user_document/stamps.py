"""Time stamps written as the file writes them: `2025-12-31T12:00:00Z` (the seed) or
`2026-11-21T22:02:47.113258+00:00` (the program), or any other ISO form found there."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

_FORM = re.compile(
    r"\d{4}-\d{2}-\d{2}(?P<mark>[T ])\d{2}:\d{2}:\d{2}(?:[.,](?P<part>\d{1,9}))?"
    r"(?P<zone>Z|z|(?P<sign>[+-])(?P<hours>\d{2}):?(?P<minutes>\d{2}))?",
    re.ASCII,
)


def like(example: object, now: float) -> str:
    """The moment in the form of `example`; in the seed's form where that is no stamp."""
    match = _FORM.fullmatch(example) if isinstance(example, str) else None
    if match is None:
        return _written(now, UTC, "T", 0) + "Z"
    digits = len(match["part"] or "")
    if match["sign"] is None:
        return _written(now, UTC, match["mark"], digits) + (match["zone"] or "")
    offset = timedelta(hours=int(match["hours"]), minutes=int(match["minutes"]))
    if offset >= timedelta(days=1):
        return _written(now, UTC, match["mark"], digits) + "+00:00"
    zone = timezone(-offset if match["sign"] == "-" else offset)
    return _written(now, zone, match["mark"], digits) + match["zone"]


def _written(now: float, zone: timezone, mark: str, digits: int) -> str:
    moment = datetime.fromtimestamp(now, zone)
    whole = moment.strftime(f"%Y-%m-%d{mark}%H:%M:%S")
    return f"{whole}.{moment.microsecond:06}000"[: len(whole) + 1 + digits] if digits else whole
