"""Times in the words of a question: `yesterday`, `last week`, `in May`, `2026-01-31`, `current`.

A period in a question is a preference, since a memory may be about a time and written at another; one that a caller
gives as a filter is strict. Days begin at midnight of this machine's time zone, weeks on Monday.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from memoryd.core.dates import iso, parse_stamp
from memoryd.core.defaults import DAY

_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": DAY, "w": 7 * DAY}
_AGE = re.compile(r"(\d{1,6})\s*([smhdw])")
_PERIOD = re.compile(
    rf"""\b(?:(?P<open>since|after|before|until)\s+)?(?:(?:in|on|from|of|during|the|within)\s+)*(?:
    (?P<day>today|yesterday|the\ day\ before\ yesterday)
    | (?P<which>this|last|past|previous)\s+(?:(?P<count>\d{{1,3}})\s+)?(?P<unit>day|week|month|year)s?
    | (?P<ago>\d{{1,3}}|a|one|two|three|four|five|six)\s+(?P<ago_unit>day|week|month|year)s?\ ago
    | (?P<date>\d{{4}}-\d\d(?:-\d\d)?)
    | (?:last\s+)?(?P<weekday>{"|".join(_DAYS)})
    | (?:last\s+)?(?P<month>{"|".join(_MONTHS)})(?:\s+(?P<year>\d{{4}}))?
    | (?P<only_year>(?:19|20)\d\d)
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)
_INTRODUCED = re.compile(r"(?:in|on|from|during|since|after|before|until|last|of)\s", re.IGNORECASE)
_NEWEST = re.compile(r"\b(current|currently|latest|newest|most recent|now|nowadays|at the moment)\b", re.IGNORECASE)
_TIMES = """
today yesterday this last past previous day days week weeks month months year years ago since before after until current
currently latest newest recent now nowadays moment
"""
TIME_WORDS = frozenset((*_MONTHS, *_DAYS, *_TIMES.split()))
"""Words that a question names a time with, which a memory of that time need not have."""
_NUMBERS = {"a": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}


class Period(NamedTuple):
    """A time that a question names: from `since` up to, but without, `until` (epoch seconds; None: open).

    `words`: how it was named. `rest`: the question without these words."""

    since: float | None
    until: float | None
    words: str
    rest: str

    def contains(self, created: float | None) -> bool:
        """True if a memory of this time is in the period."""
        if created is None:
            return False
        return (self.since is None or created >= self.since) and (self.until is None or created < self.until)

    def __str__(self) -> str:
        """The name of the period and its days."""
        since = iso(self.since)[:16] if self.since is not None else "…"
        until = iso(self.until)[:16] if self.until is not None else "…"
        return f"{self.words}: {since} to {until}"


def period_in(question: str, now: float) -> Period | None:
    """Return the first period that a question names. `now` in seconds."""
    for found in _PERIOD.finditer(question):
        words = found.group()
        named = found["month"] or found["weekday"] or found["only_year"]
        if named and not (found["year"] or _INTRODUCED.match(words)):
            continue  # `may` is mostly no month, and a bare number no year
        span = _span(found, datetime.fromtimestamp(now, UTC).astimezone())
        if span is None:
            continue
        start, end = span[0].timestamp(), span[1].timestamp()
        opening = (found["open"] or "").lower()
        since = None if opening in ("before", "until") else end if opening == "after" else start
        until = None if opening in ("since", "after") else start if opening == "before" else end
        return Period(since, until, words, " ".join(f"{question[: found.start()]} {question[found.end() :]}".split()))
    return None


def prefers_newest(question: str) -> bool:
    """True if a question asks for what holds now."""
    return _NEWEST.search(question) is not None


def parse_bound(text: str, now: float, *, end: bool) -> float | None:
    """Return the time that a filter names, in seconds: an age such as `30d`, a date, a timestamp, or words such as
    `last week`; of a day or a longer period its start, or with `end` its end. None if it is none of these."""
    text = text.strip()
    age = _AGE.fullmatch(text)
    if age is not None:
        return now - int(age[1]) * _SECONDS[age[2]]
    stamp = parse_stamp(text)
    if stamp is not None:
        return stamp.seconds + DAY if end and len(text) == 10 else stamp.seconds
    found = _PERIOD.fullmatch(text)
    span = _span(found, datetime.fromtimestamp(now, UTC).astimezone()) if found is not None else None
    return span[end].timestamp() if span is not None else None


def _span(found: re.Match[str], now: datetime) -> tuple[datetime, datetime] | None:
    """Return the start and the end of a named period; None for a date that does not exist."""
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if found["day"]:
        back = {"today": 0, "yesterday": 1}.get(found["day"].lower(), 2)
        return today - timedelta(back), today - timedelta(back - 1)
    if found["which"]:
        return _relative(found, now, today)
    if found["ago"]:
        count = _NUMBERS.get(found["ago"].lower()) or int(found["ago"])
        unit = found["ago_unit"].lower()
        if unit == "day":
            return today - timedelta(count), today - timedelta(count - 1)
        return _unit(unit, today, count)
    if found["weekday"]:
        back = (today.weekday() - _DAYS.index(found["weekday"].lower()) - 1) % 7 + 1
        return today - timedelta(back), today - timedelta(back - 1)
    return _calendar(found, today)


def _relative(found: re.Match[str], now: datetime, today: datetime) -> tuple[datetime, datetime]:
    unit, last = found["unit"].lower(), found["which"].lower() != "this"
    if found["count"] or unit == "day":
        days = {"day": 1, "week": 7, "month": 30, "year": 365}[unit] * int(found["count"] or 1)
        return today - timedelta(days), now
    return _unit(unit, today, int(last))


def _unit(unit: str, today: datetime, back: int) -> tuple[datetime, datetime]:
    """Return the calendar week, month or year so many before this one."""
    if unit == "week":
        start = today - timedelta(today.weekday() + 7 * back)
        return start, start + timedelta(7)
    if unit == "month":
        months = today.year * 12 + today.month - 1 - back
        return _months(today, months // 12, months % 12 + 1)
    start = today.replace(year=max(today.year - back, 1), month=1, day=1)
    return start, start.replace(year=start.year + 1)


def _months(today: datetime, year: int, month: int) -> tuple[datetime, datetime]:
    start = today.replace(year=year, month=month, day=1)
    return start, start + timedelta(monthrange(year, month)[1])


def _calendar(found: re.Match[str], today: datetime) -> tuple[datetime, datetime] | None:
    """Return a day, month or year named by its date; a month without a year is the last one that has begun."""
    try:
        if found["date"]:
            year, month, *day = map(int, found["date"].split("-"))
            if day:
                start = today.replace(year=year, month=month, day=day[0])
                return start, start + timedelta(1)
            return _months(today, year, month)
        if found["only_year"]:
            start = today.replace(year=int(found["only_year"]), month=1, day=1)
            return start, start.replace(year=start.year + 1)
        month = _MONTHS.index(found["month"].lower()) + 1
        year = int(found["year"]) if found["year"] else today.year - (month > today.month)
        return _months(today, year, month)
    except ValueError:
        return None
