"""Time stamps in the form that a document already uses: `2025-12-31T12:00:00Z` (the seed),
`2026-11-21T22:02:47.113258+00:00` (the real program), or any other ISO form."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta, timezone

from memoryd.core.json_spans import decode, last_member, set_member
from memoryd.core.spans import Edit
from memoryd.layouts.user_document.parser import STAMPS
from memoryd.layouts.user_document.split import ParsedDocument

_FORM = re.compile(
    r"\d{4}-\d{2}-\d{2}(?P<mark>[T ])\d{2}:\d{2}:\d{2}(?:[.,](?P<part>\d{1,9}))?"
    r"(?P<zone>Z|z|(?P<sign>[+-])(?P<hours>\d{2}):?(?P<minutes>\d{2}))?",
    re.ASCII,
)


def format_like(example: object, now: float) -> str:
    """Return the moment in the form of `example`, or in the seed's form where `example` is not a time stamp."""
    match = _FORM.fullmatch(example) if isinstance(example, str) else None
    if match is None:
        return _format(now, UTC, "T", 0) + "Z"
    digits = len(match["part"] or "")
    if match["sign"] is None:
        return _format(now, UTC, match["mark"], digits) + (match["zone"] or "")
    offset = timedelta(hours=int(match["hours"]), minutes=int(match["minutes"]))
    if offset >= timedelta(days=1):
        return _format(now, UTC, match["mark"], digits) + "+00:00"
    zone = timezone(-offset if match["sign"] == "-" else offset)
    return _format(now, zone, match["mark"], digits) + match["zone"]


def _format(now: float, zone: timezone, mark: str, digits: int) -> str:
    moment = datetime.fromtimestamp(now, zone)
    seconds = moment.strftime(f"%Y-%m-%d{mark}%H:%M:%S")
    return f"{seconds}.{moment.microsecond:06}000"[: len(seconds) + 1 + digits] if digits else seconds


def update_stamps(data: bytes, parsed: ParsedDocument, now: float, keys: Collection[str]) -> Iterator[Edit]:
    """Yield the edits of the stamps in `keys`: `updated_at` at every save, `last_deduplicated_at` at every such run."""
    stamps = [last_member(parsed.members, key) for key in STAMPS]
    values = [decode(member.value.of(data)) if member else None for member in stamps]
    example = next((each for each in values if isinstance(each, str)), None)
    stamp = json.dumps(format_like(example, now)).encode()
    for key in keys:
        yield set_member(data, parsed.members, parsed.value.start, key, stamp)
