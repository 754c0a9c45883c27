"""Time stamps as agents write them, and the calendar of archives. All in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple


class Stamp(NamedTuple):
    """Seconds since the epoch; `zoned` is False where the text named no zone and UTC was assumed."""

    seconds: float
    zoned: bool


def parse_stamp(value: object) -> Stamp | None:
    """An ISO 8601 stamp, or None for anything else. Never raises."""
    if not isinstance(value, str) or not 10 <= len(value) <= 64:
        return None
    try:
        moment = datetime.fromisoformat(value)
        zoned = moment.tzinfo is not None
        # By way of UTC: a moment before the year 1 or after 9999 there has no quarter, so it is no stamp.
        return Stamp((moment if zoned else moment.replace(tzinfo=UTC)).astimezone(UTC).timestamp(), zoned)
    except (ValueError, OverflowError):
        return None


def iso(seconds: float) -> str:
    """`2026-01-31T10:00:00Z`, whole seconds."""
    return _iso(int(seconds))


@lru_cache(maxsize=4_096)  # the same memories are told again and again
def _iso(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19] + "Z"


def compact(seconds: float) -> str:
    """`20260131_100000`: the stamp of a backup's name."""
    return _compact(int(seconds))


@lru_cache(maxsize=64)
def _compact(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y%m%d_%H%M%S")


def quarter(seconds: float) -> tuple[int, int]:
    """(year, 1..4) of the moment in UTC, so that a late or repeated run names the same archive."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.year, (moment.month - 1) // 3 + 1
