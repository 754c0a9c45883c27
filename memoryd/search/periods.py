"""Times in the words of a question: `yesterday`, `last week`, `in May`, `last summer`, `2026-01-31`, `current`.

A period in a question is a preference, since a memory may be about a time and written at another; one that a caller
gives as a filter is strict. A date in digits is a day in UTC, like the dates in the files. Other days begin at
midnight of this machine's time zone, weeks on Monday; seasons are those of the northern half of the world.
"""

from __future__ import annotations

import re
import unicodedata
from calendar import isleap
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from memoryd.core.dates import iso, parse_stamp
from memoryd.core.defaults import DAY
from memoryd.errors import UsageError
from memoryd.search.period_words import COUNT, NEWEST, NUMBERS, UNIT, translated_times
from memoryd.search.query_terms import parse_query
from memoryd.search.stems import languages_of

_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_QUARTERS = ("first", "second", "third", "fourth")
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}  # the first month
LEAP_YEARS = 9  # among so many years in a row there is a leap year
FEW = 3  # how many "a few" are
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": DAY, "w": 7 * DAY}
_AGE = re.compile(r"(\d{1,6})\s*([smhdw])")
_EXACT = {"minute": 60.0, "hour": 3600.0}  # units that begin at any time
_SHORT = "jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
_PERIOD = re.compile(
    rf"""\b(?:(?P<open>since|after|before|until)\s+)?
    (?:(?:in|on|from|of|during|the|within|between|over|early|mid|late)[\s-]+){{0,4}}(?:
    (?P<day>today|tonight|this\ (?:morning|afternoon|evening)|yesterday|last\ night|the\ day\ before\ yesterday)
    | (?P<which>this|last|past|previous)\s+(?:
        (?P<count>{COUNT}|few)\s+(?P<units>{UNIT})s?
        | (?P<unit>hour|day|week(?:end)?|month|quarter|year))
    | (?:a\s+(?=couple))?(?P<ago>{COUNT})\s+(?P<ago_unit>{UNIT})s?\ ago
    | (?P<date>[1-9]\d{{3}}-\d\d(?:-\d\d)?
        | (?<![./])(?:(?:19|20)\d\d/\d\d?/\d\d?|\d\d?\.\d\d?\.(?:19|20)\d\d)(?![./]\w))
    | (?:last\s+)?(?P<weekday>{"|".join(_DAYS)})
    | (?:last\s+)?(?:(?P<day_before>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?)?
        (?:(?P<month>{"|".join(_MONTHS)})|(?P<short>{_SHORT})\b\.?)
        (?:\s+(?P<day_after>\d{{1,2}})(?:st|nd|rd|th)?(?!\w))?(?:,?\s+(?:of\s+)?(?P<year>[1-9]\d{{3}}))?
    | (?:(?P<which_season>this|last|past|previous)\s+)?(?P<season>{"|".join(_SEASONS)})
        (?:\s+(?:of\s+)?(?P<season_year>[1-9]\d{{3}}))?
    | (?:(?P<year_before>[1-9]\d{{3}})[\s/-]+)?
        (?:q(?P<quarter>[1-4])|(?P<which_quarter>{"|".join(_QUARTERS)}|[1-4](?:st|nd|rd|th)?)\s+quarter)
        (?:[\s/-]+(?:of\s+)?(?P<quarter_year>[1-9]\d{{3}}))?
    | (?P<only_year>(?:19|20)\d\d)
    )(?!\w)(?!\s+next\s+year)(?:['’]s\b)?""",
    re.IGNORECASE | re.VERBOSE,
)
# Every period has one of these, and few other questions do.
_HINT = re.compile(
    rf"\d|today|night|this|yesterday|last|past|previous|ago|quarter|\b(?:{_SHORT})\b"
    rf"|{'|'.join((*_MONTHS, *_DAYS, *_SEASONS))}"
)
_INTRODUCED = re.compile(r"(?:in|on|from|during|since|after|before|until|last|of|mid|between)[\s-]", re.IGNORECASE)
_NAMES = re.compile(r"(?:from|of|on)\s", re.IGNORECASE)  # `from Jan`
_WORDS = ("may", "march", "mar")  # months that are mostly no month after or before a number
_TO = re.compile(r"\s*(?:\b(?:to|and|until|till|through)\b|[–-])\s*", re.IGNORECASE)
_NEWEST = re.compile(
    r"\b(currently|current|latest|newest|recently|recent|lately|nowadays|now|presently|these days"
    r"|at the moment|at present)\b",
    re.IGNORECASE,
)
# What was before something else: only in the past, unlike `what must be done before moving servers`.
_OLDEST = re.compile(
    r"\b(originally|initially|formerly|previously|used to|at first|at the (very )?(beginning|start|outset))\b"
    r"|\b(did|was|were|had)\b.*\bbefore\b|\bbefore\b.*\b(did|was|were|had)\b",
    re.IGNORECASE,
)
_FOREIGN_NEWEST = frozenset().union(*NEWEST.values())
_ENGLISH_TOO = {"actual"}  # means another thing in a question that may be in any language
_TIMES = """
today yesterday this last past previous day days week weeks month months year years ago since before after until current
currently latest newest recent recently lately now nowadays presently moment tonight weekend quarter quarters few couple
tomorrow next
"""
_ANY_SUBJECT = """
add added anything everything happen happened happening know learn learned learnt memories memory new news note noted
notes record recorded remember remembered save saved something store stored thing things write written wrote
"""
ANY_SUBJECT = frozenset(_ANY_SUBJECT.split())
"""Words that ask for memories, whatever they are about."""
TIME_WORDS = frozenset((*_MONTHS, *_DAYS, *_TIMES.split(), *_FOREIGN_NEWEST))
"""Words that a question names a time with, which a memory of that time need not have."""


Version = Literal["newest", "oldest"]


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

    def is_today(self, now: float) -> bool:
        """True for a day that is not over, or a part of it. `now` in seconds."""
        return (
            self.contains(now)
            and self.until is not None
            and self.since is not None
            and self.until - self.since < 2 * DAY
        )

    def __str__(self) -> str:
        """The name of the period and its days."""
        since = f"{iso(self.since)[:16]}Z" if self.since is not None else "…"
        until = f"{iso(self.until)[:16]}Z" if self.until is not None else "…"
        return f"{self.words}: {since} to {until}"


def period_in(question: str, now: float) -> Period | None:
    """Return the first period that a question names, in English or in another language. `now` in seconds."""
    found = _english_period(question, now)
    if found is not None:
        return found
    question = unicodedata.normalize("NFC", question)
    for run in translated_times(question):
        meant = _english_period(run.english, now)
        if meant is not None:
            words = question[run.start : run.end]
            others = re.findall(r"\d+", meant.rest)  # of `Fehler 503 gestern`
            for number in others:
                words = " ".join(re.sub(rf"\b{number}\b", "", words, count=1).split())
            rest = f"{question[: run.start]} {' '.join(others)} {question[run.end :]}"
            return meant._replace(words=words, rest=" ".join(rest.split()))
    return None


def _english_period(question: str, now: float) -> Period | None:
    if _HINT.search(question.lower()) is None:
        return None
    for found in _PERIOD.finditer(question):
        bounds = _bounds(found, now) if _is_time(found) else None
        if bounds is None:
            continue
        since, until = bounds
        last = found
        ending = _end_of_range(question, found, now) if since is not None else None
        if ending is not None and until is not None and ending[0] > until:
            until, last = ending
        words, rest = question[found.start() : last.end()], f"{question[: found.start()]} {question[last.end() :]}"
        return Period(since, until, words, " ".join(rest.split()))
    return None


def _end_of_range(question: str, first: re.Match[str], now: float) -> tuple[float, re.Match[str]] | None:
    """Return the end of the period up to which a range goes that begins with the first one (`from May to July`), and
    its words; None if it is no range."""
    to = _TO.match(question, first.end())
    last = _PERIOD.match(question, to.end()) if to is not None else None
    if to is None or last is None or last["open"] or last["season"]:
        return None
    is_range = "between" in first.group().lower() or "and" not in to.group().lower()
    bounds = _bounds(last, now) if is_range or _is_time(last) else None
    return None if bounds is None or bounds[1] is None else (bounds[1], last)


def _bounds(found: re.Match[str], now: float) -> tuple[float | None, float | None] | None:
    """Return the start and the end of a period in seconds, None for an open one; None for a date that does not
    exist."""
    exact = _exact(found, now)
    if exact is None:
        days = _span(found, _local(now))
        if days is None:
            return None
        first, last = (day.replace(tzinfo=UTC) for day in days) if found["date"] else days
        exact = first.timestamp(), last.timestamp()
    start, end = exact
    opening = (found["open"] or "").lower()
    since = None if opening in ("before", "until") else end if opening == "after" else start
    until = None if opening in ("since", "after") else start if opening == "before" else end
    return since, until


def _exact(found: re.Match[str], now: float) -> tuple[float, float] | None:
    """Return minutes or hours counted from now, whatever the clocks did meanwhile; None for a longer period."""
    unit = _EXACT.get((found["units"] or found["unit"] or found["ago_unit"] or "").lower())
    if unit is None:
        return None
    count = _number(found["ago"] or found["count"] or "one")
    return now - unit * count, now - unit * (count - 1) if found["ago"] else now


def _local(seconds: float) -> datetime:
    """Return a time of this machine's zone without its offset, which another day may not have."""
    return datetime.fromtimestamp(seconds)  # noqa: DTZ006 - aware ones refuse a zone as odd as TZ=UTC+25


def _is_time(found: re.Match[str]) -> bool:
    """True if the words are meant as a time: `may` is mostly no month, `spring` no season, a bare number no year."""
    if found["season"]:
        return bool(found["which_season"] or found["season_year"])
    month = (found["month"] or found["short"] or "").lower()
    with_year = found["year"] or found["quarter_year"] or found["year_before"]
    if with_year or (month not in _WORDS and (found["day_before"] or found["day_after"])):
        return True
    if found["short"] and _NAMES.match(found.group()):
        return False
    named = month or found["weekday"] or found["quarter"] or found["which_quarter"] or found["only_year"]
    return not named or _INTRODUCED.match(found.group()) is not None


def version_in(question: str, period: Period | None, now: float) -> Version | None:
    """Return which of the memories that replace each other a question asks for, if it says so: what holds now, or what
    held at first or before something. `period`: the time that it names; what is asked of today holds now."""
    if period is not None:
        question = period.rest
    if prefers_newest(question) or (period is not None and period.is_today(now)):
        return "newest"
    return "oldest" if _OLDEST.search(question) is not None else None


def names_only_time(period: Period) -> bool:
    """True if a question asks for nothing but memories of a period, as `what did we note yesterday?` does."""
    query = parse_query(period.rest)
    words = {term.text for term in query.words}
    return bool(words) and words <= query.function_words | ANY_SUBJECT


def prefers_newest(question: str) -> bool:
    """True if a question asks for what holds now, in English or in another language."""
    if _NEWEST.search(question) is not None:
        return True
    query = parse_query(question)
    words = {term.text for term in query.words}
    if words.isdisjoint(_FOREIGN_NEWEST):
        return False
    if query.languages == languages_of(()):
        words -= _ENGLISH_TOO
    return any(not words.isdisjoint(NEWEST.get(language, ())) for language in query.languages)


def parse_bound(text: str, now: float, *, end: bool) -> float | None:
    """Return the time that a filter names, in seconds: an age such as `30d`, a date, a timestamp, `now`, or words such
    as `last week`; of a day or a longer period its start, or with `end` its end. None if it is none of these."""
    text = unicodedata.normalize("NFC", text.strip())
    if text.lower() == "now":
        return now
    age = _AGE.fullmatch(text)
    if age is not None:
        return now - int(age[1]) * _SECONDS[age[2]]
    stamp = parse_stamp(text)
    if stamp is not None:
        return stamp.seconds + DAY if end and len(text) == 10 else stamp.seconds
    whole = (run.english for run in translated_times(text) if run.end - run.start == len(text))
    found = _PERIOD.fullmatch(text) or _PERIOD.fullmatch(next(whole, ""))
    bounds = _bounds(found, now) if found is not None else None
    return bounds[end] if bounds is not None else None


def require_bound(name: str, text: str, now: float) -> float:
    """Return the time that the filter `since` or `until` names, in seconds. Raises UsageError."""
    found = parse_bound(text, now, end=name == "until")
    if found is None:
        raise UsageError(
            f"invalid --{name} value",
            hint="give a date such as 2026-01-31, a timestamp, an age such as 30d or 12h, or words such as 'last week'",
        )
    return found


def _span(found: re.Match[str], now: datetime) -> tuple[datetime, datetime] | None:
    """Return the start and the end of a named period; None for a date that does not exist."""
    today = now.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    if found["day"]:
        back = {"yesterday": 1, "last night": 1, "the day before yesterday": 2}.get(found["day"].lower(), 0)
        return today - timedelta(back), today - timedelta(back - 1)
    if found["which"]:
        return _relative(found, now, today)
    if found["ago"]:
        count = _number(found["ago"])
        unit = found["ago_unit"].lower()
        if unit == "day":
            return today - timedelta(count), today - timedelta(count - 1)
        return _unit(unit, today, count)
    if found["weekday"]:
        back = (today.weekday() - _DAYS.index(found["weekday"].lower()) - 1) % 7 + 1
        return today - timedelta(back), today - timedelta(back - 1)
    return _calendar(found, today)


def _number(word: str) -> int:
    return int(word) if word.isdigit() else NUMBERS.get(word.lower(), FEW)


def _relative(found: re.Match[str], now: datetime, today: datetime) -> tuple[datetime, datetime]:
    unit, last = (found["units"] or found["unit"]).lower(), found["which"].lower() != "this"
    if found["count"] or unit == "day":
        days = {"day": 1, "week": 7, "month": 30, "quarter": 91, "year": 365}[unit] * _number(found["count"] or "one")
        return today - timedelta(days), now
    return _unit(unit, today, int(last))


def _unit(unit: str, today: datetime, back: int) -> tuple[datetime, datetime]:
    """Return the calendar week, weekend, month, quarter or year so many before this one."""
    if unit in ("week", "weekend"):
        start = today - timedelta(today.weekday() + 7 * back)
        return start + timedelta(5 * (unit == "weekend")), start + timedelta(7)
    if unit == "month":
        return _months(today, _month_of(today) - back)
    if unit == "quarter":
        return _months(today, (_month_of(today) // 3 - back) * 3, 3)
    start = today.replace(year=max(today.year - back, 1), month=1, day=1)
    return start, start.replace(year=start.year + 1)


def _month_of(day: datetime) -> int:
    """Return the number of a day's month, counted from the year 0."""
    return day.year * 12 + day.month - 1


def _months(today: datetime, first: int, count: int = 1) -> tuple[datetime, datetime]:
    """Return `count` months, the first of them by its number."""
    start, end = (today.replace(year=month // 12, month=month % 12 + 1, day=1) for month in (first, first + count))
    return start, end


def _calendar(found: re.Match[str], today: datetime) -> tuple[datetime, datetime] | None:
    """Return a day, month, quarter, season or year by its name; without a year the last one that has begun."""
    try:
        if found["date"]:
            digits = [*map(int, re.findall(r"\d+", found["date"]))]
            year, month, *day = reversed(digits) if "." in found["date"] else digits
            start = today.replace(year=year, month=month, day=day[0] if day else 1)
            return (start, start + timedelta(1)) if day else _months(today, _month_of(start))
        if found["only_year"]:
            return _months(today, int(found["only_year"]) * 12, 12)
        if found["season"]:
            ended = (found["which_season"] or "this").lower() != "this"
            return _latest(today, _SEASONS[found["season"].lower()], found["season_year"], 3, ended=ended)
        if found["quarter"] or found["which_quarter"]:
            month = _quarter_called((found["quarter"] or found["which_quarter"]).lower()) * 3 - 2
            return _latest(today, month, found["year_before"] or found["quarter_year"], 3)
        number = _month_called(found["month"] or found["short"])
        if which := found["day_before"] or found["day_after"]:
            return _day_of(today, number, int(which), found["year"])
        return _latest(today, number, found["year"], 1)
    except (ValueError, OverflowError):  # no such day, or none after it
        return None


def _month_called(name: str) -> int:
    """Return the number of a month, from 1."""
    return next(number for number, month in enumerate(_MONTHS, 1) if month.startswith(name.lower()[:3]))


def _quarter_called(name: str) -> int:
    """Return the number of a quarter, from 1."""
    return _QUARTERS.index(name) + 1 if name in _QUARTERS else int(name[0])


def _day_of(today: datetime, month: int, day: int, year: str | None) -> tuple[datetime, datetime] | None:
    """Return a day of a month; without a year the last one that has begun. None or ValueError if there is none."""
    for each in [int(year)] if year else range(today.year, today.year - LEAP_YEARS, -1):
        if (month, day) == (2, 29) and not isleap(each):
            continue
        start = today.replace(year=each, month=month, day=day)
        if year or start <= today:
            return start, start + timedelta(1)
    return None


def _latest(
    today: datetime, month: int, year: str | None, count: int, *, ended: bool = False
) -> tuple[datetime, datetime]:
    """Return `count` months from the given one of a year on; without a year the last that have begun, or `ended`."""
    if year:
        return _months(today, int(year) * 12 + month - 1, count)
    last = _month_of(today) - count * ended
    return _months(today, last - (last - (month - 1)) % 12, count)
