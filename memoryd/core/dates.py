"""Timestamps as agents write them, and calendar quarters for archives. All in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999  # the years 1 to 9999
LEAP_SECOND = re.compile(r"(\d{4}-\d{2}-\d{2}[T ]23:59:)60")


class Stamp(NamedTuple):
    """A parsed timestamp in seconds since the epoch; `zoned` is False if the text had no zone and UTC was assumed."""

    seconds: float
    zoned: bool


def parse_stamp(value: object) -> Stamp | None:
    """Parse an ISO 8601 timestamp; return None for anything else. Never raises."""
    if not isinstance(value, str) or not 10 <= len(value) <= 64:
        return None
    stamp = _read(value)
    if stamp is None and LEAP_SECOND.match(value):
        before = _read(LEAP_SECOND.sub(r"\g<1>59", value))
        return Stamp(before.seconds + 1, before.zoned) if before else None
    return stamp


@lru_cache(maxsize=256)  # a stamp is checked first and then used, and the stamps of a memory are often equal
def _read(text: str) -> Stamp | None:
    try:
        moment = datetime.fromisoformat(text)
        zoned = moment.tzinfo is not None
        # Converted to UTC first: a time before year 1 or after year 9999 in UTC has no quarter, so it is rejected.
        return Stamp((moment if zoned else moment.replace(tzinfo=UTC)).astimezone(UTC).timestamp(), zoned)
    except (ValueError, OverflowError):
        return None


def iso(seconds: float) -> str:
    """Format epoch seconds as `2026-01-31T10:00:00Z`, in whole seconds."""
    return _iso(int(seconds))


@lru_cache(maxsize=4_096)  # the same memories are listed again and again
def _iso(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19] + "Z"


def iso_ms(seconds: float) -> str:
    """Format epoch seconds as `2026-01-31T10:00:00.250Z`, in milliseconds, as JSON.stringify writes a date. A time
    before year 1 or after year 9999 becomes the nearest one within."""
    ms = min(max(round(seconds * 1000), FIRST_MS), LAST_MS)
    return f"{iso(ms // 1000)[:-1]}.{ms % 1000:03}Z"


def compact(seconds: float) -> str:
    """Format epoch seconds as `20260131_100000`, the timestamp in the name of a backup."""
    return _compact(int(seconds))


@lru_cache(maxsize=64)
def _compact(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y%m%d_%H%M%S")


def zone_of(name: str) -> tzinfo:
    """Return a time zone by its IANA name. UTC needs no zone tables, which slim containers lack."""
    return UTC if name == "UTC" else ZoneInfo(name)


def quarter(seconds: float) -> tuple[int, int]:
    """Return (year, quarter 1-4) in UTC, so that a late or repeated run names the same archive."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.year, (moment.month - 1) // 3 + 1
