"""Schedules of jobs: the four ways to write one, as values.

    every 30s | every 10m | every 6h | every 1d      a whole number of at least one second
    15 3 * * 1-5                                     a cron line: minute hour day month weekday
    off                                              never
    adaptive                                         only for the rescan: the interval follows the cost of a scan

Cron weekdays are numbered as in Unix cron, 0 and 7 for Sunday. APScheduler counts from Monday, so a parsed line
holds weekday *names*, and all other fields as plain lists of numbers: two programs cannot read it in two ways.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from memoryd.core.defaults import DAY

MINUTE, HOUR = 60, 3600
MAX_INTERVAL_S = 3650 * DAY  # ten years; date arithmetic overflows beyond

ALLOWED = '"every 30s", "every 10m", "every 6h", "every 1d", a cron line such as "15 3 * * 1-5", or "off"'

_UNITS: Mapping[str, int] = {"s": 1, "m": MINUTE, "h": HOUR, "d": DAY}
_EVERY = re.compile(r"every\s+([0-9]{1,12})\s*([smhd])")


class Every(Struct, frozen=True):
    """An interval in seconds, counted from the last successful run."""

    seconds: int


class Cron(Struct, frozen=True):
    """A cron line. `fields`: minute, hour, day, month, weekday, each `*` or a comma list; weekdays by name."""

    fields: tuple[str, str, str, str, str]
    text: str


class Off(Struct, frozen=True):
    """The job never runs by schedule."""


class Adaptive(Struct, frozen=True):
    """The interval follows the cost of a scan; only for the rescan."""


Schedule = Every | Cron | Off | Adaptive


def parse_schedule(text: str) -> Schedule:
    """Parse one schedule. Raises ValueError, which says what is wrong and what is allowed."""
    words = " ".join(text.lower().split())
    if words == "off":
        return Off()
    if words == "adaptive":
        return Adaptive()
    if words.startswith("every"):
        return _every(words)
    if len(words.split()) == 5:
        return _cron(words)
    raise ValueError(f"{text!r} is not a schedule; allowed: {ALLOWED}")


def next_due(schedule: Schedule, last_success: float | None, now: float) -> float | None:
    """Return the epoch second at which an interval is due next; None for schedules other than `Every`.

    A job that never succeeded is due at once. So is one whose last success lies in the future: the clock was set back
    by an unknown amount. An extra run is harmless, since jobs are idempotent; waiting could take years.
    """
    if not isinstance(schedule, Every):
        return None
    if last_success is None or last_success > now:
        return now
    return last_success + schedule.seconds


def _every(words: str) -> Every:
    match = _EVERY.fullmatch(words)
    if match is None:
        raise ValueError(f'"{words}" is not an interval; write a whole number and s, m, h or d, as in "every 6h"')
    seconds = int(match[1]) * _UNITS[match[2]]
    if not 1 <= seconds <= MAX_INTERVAL_S:
        raise ValueError(f'"{words}" is out of range; from "every 1s" to "every 3650d"')
    return Every(seconds)


def _cron(words: str) -> Cron:
    minute, hour, day, month, weekday = words.split()
    days, months, weekdays = _DAY.numbers(day), _MONTH.numbers(month), _WEEKDAY.numbers(weekday)
    if day != "*" and weekday != "*":
        # Unix cron runs if either matches, APScheduler only if both do: refuse to guess.
        raise ValueError(f'"{words}" names both a day of the month and a weekday; put * in one of them')
    if min(days) > max(_LONGEST_MONTH[number - 1] for number in months):
        raise ValueError(f'"{words}" never occurs: the given months have no day {min(days)}')
    of_week = sorted({number % 7 for number in weekdays})
    names = "*" if len(of_week) == 7 else ",".join(_WEEKDAY.names[number] for number in of_week)
    return Cron((_MINUTE.expand(minute), _HOUR.expand(hour), _DAY.expand(day), _MONTH.expand(month), names), words)


class _Field(Struct, frozen=True):
    """One of the five columns: its label in messages, its bounds, and names for its numbers from `low` up."""

    label: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    def numbers(self, text: str) -> set[int]:
        """Return the numbers in `text`: `*`, `a` or `a-b`, each with an optional `/step`, separated by commas."""
        found: set[int] = set()
        for part in text.split(","):
            span, slash, step = part.partition("/")
            if slash and not (_is_number(step) and 1 <= int(step) <= self.high):
                raise ValueError(f'{self.label} "{text}": the step after / must be a number from 1 to {self.high}')
            first, last = self._bounds(span, stepped=bool(slash))
            found.update(range(first, last + 1, int(step) if slash else 1))
        return found

    def expand(self, text: str) -> str:
        """Return the numbers in `text` as a comma-separated list, or `*` for all of them."""
        numbers = self.numbers(text)
        if len(numbers) == self.high - self.low + 1:
            return "*"
        return ",".join(str(number) for number in sorted(numbers))

    def _bounds(self, span: str, *, stepped: bool) -> tuple[int, int]:
        top = 6 if self is _WEEKDAY else self.high  # 7 is another name for Sunday, not an eighth day
        if span == "*":
            return self.low, top
        start, dash, end = span.partition("-")
        first = self._number(start)
        if not dash:
            return first, max(first, top) if stepped else first
        last = self._number(end)
        if self is _WEEKDAY and last == 0 < first:
            last = 7  # fri-sun
        if last < first:
            raise ValueError(f"{self.label}: the range {span} runs backwards")
        return first, last

    def _number(self, word: str) -> int:
        if word in self.names:
            return self.names.index(word) + self.low
        if _is_number(word) and self.low <= int(word) <= self.high:
            return int(word)
        also = f" or {self.names[0]} to {self.names[-1]}" if self.names else ""
        raise ValueError(f"{self.label}: {word!r} is not a number from {self.low} to {self.high}{also}")


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= 4


_MINUTE = _Field("minute", 0, 59)
_HOUR = _Field("hour", 0, 23)
_DAY = _Field("day of the month", 1, 31)
_MONTH = _Field("month", 1, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"))
_WEEKDAY = _Field("weekday", 0, 7, ("sun", "mon", "tue", "wed", "thu", "fri", "sat"))
_LONGEST_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
