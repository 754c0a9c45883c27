"""When a job is due: the four ways to write it down, as values.

    every 30s | every 10m | every 6h | every 1d      a whole number of at least one second
    15 3 * * 1-5                                     a cron line: minute hour day month weekday
    off                                              never
    adaptive                                         only for the rescan: the daemon finds its own pace

Cron weekdays are written as everywhere, 0 and 7 for Sunday. The clock of the schedule (APScheduler)
counts 0 as Monday, so a parsed line carries weekday *names*, and all other fields as plain lists of
numbers: nothing is left that two programs could read in two ways.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

MINUTE, HOUR, DAY = 60, 3600, 86_400
LONGEST = 3650 * DAY  # ten years; beyond it date arithmetic overflows before anybody waits for it

ALLOWED = '"every 30s", "every 10m", "every 6h", "every 1d", a cron line such as "15 3 * * 1-5", or "off"'

_UNITS: Mapping[str, int] = {"s": 1, "m": MINUTE, "h": HOUR, "d": DAY}
_EVERY = re.compile(r"every\s+([0-9]{1,12})\s*([smhd])")


@dataclass(frozen=True, slots=True)
class Every:
    """An interval in seconds, counted from the last success."""

    seconds: int


@dataclass(frozen=True, slots=True)
class Cron:
    """`fields` = minute, hour, day, month, day of week, each `*` or a comma list; weekdays by name."""

    fields: tuple[str, str, str, str, str]
    text: str


@dataclass(frozen=True, slots=True)
class Off:
    pass


@dataclass(frozen=True, slots=True)
class Adaptive:
    pass


Schedule = Every | Cron | Off | Adaptive


def parse_schedule(text: str) -> Schedule:
    """Read one schedule; ValueError says what is wrong and what may be written instead."""
    words = " ".join(text.lower().split())
    if words == "off":
        return Off()
    if words == "adaptive":
        return Adaptive()
    if words.startswith("every"):
        return _every(words)
    if len(words.split()) == 5:
        return _cron(words)
    raise ValueError(f"{text!r} is no schedule; allowed: {ALLOWED}")


def due(schedule: Schedule, last_success: float | None, now: float) -> float | None:
    """The wall-clock second at which an interval falls due next; None where it is not for us to say.

    A job that never succeeded is due at once. So is one whose last success lies in the future: the
    clock was set back, by how much nobody knows, and one run too many is harmless where every job
    finds nothing left to do the second time; waiting for the old time to come again could take years.
    """
    if not isinstance(schedule, Every):
        return None
    if last_success is None or last_success > now:
        return now
    return last_success + schedule.seconds


def _every(words: str) -> Every:
    match = _EVERY.fullmatch(words)
    if match is None:
        raise ValueError(f'"{words}" is no interval; write a whole number and s, m, h or d, as in "every 6h"')
    seconds = int(match[1]) * _UNITS[match[2]]
    if not 1 <= seconds <= LONGEST:
        raise ValueError(f'"{words}" is out of range; from "every 1s" to "every 3650d"')
    return Every(seconds)


def _cron(words: str) -> Cron:
    minute, hour, day, month, weekday = words.split()
    days, months, weekdays = _DAY.numbers(day), _MONTH.numbers(month), _WEEKDAY.numbers(weekday)
    if day != "*" and weekday != "*":
        # Unix cron runs on either of the two, APScheduler only where both meet: refuse to guess.
        raise ValueError(f'"{words}" names both a day of the month and a weekday; put * in one of them')
    if min(days) > max(_LONGEST_MONTH[number - 1] for number in months):
        raise ValueError(f'"{words}" never comes: the months named have no day {min(days)}')
    of_week = sorted({number % 7 for number in weekdays})
    names = "*" if len(of_week) == 7 else ",".join(_WEEKDAY.names[number] for number in of_week)
    return Cron((_MINUTE.listed(minute), _HOUR.listed(hour), _DAY.listed(day), _MONTH.listed(month), names), words)


@dataclass(frozen=True, slots=True)
class _Field:
    """One of the five columns: its name in messages, its bounds, and names for its numbers from `low`."""

    what: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    def numbers(self, text: str) -> set[int]:
        """The numbers `text` stands for: `*`, `a`, `a-b`, each with `/step`, joined by commas."""
        found: set[int] = set()
        for part in text.split(","):
            span, slash, step = part.partition("/")
            if slash and not (_is_number(step) and 1 <= int(step) <= self.high):
                raise ValueError(f'{self.what} "{text}": the step after / is a number from 1 to {self.high}')
            first, last = self._bounds(span, stepped=bool(slash))
            found.update(range(first, last + 1, int(step) if slash else 1))
        return found

    def listed(self, text: str) -> str:
        numbers = self.numbers(text)
        if len(numbers) == self.high - self.low + 1:
            return "*"
        return ",".join(str(number) for number in sorted(numbers))

    def _bounds(self, span: str, *, stepped: bool) -> tuple[int, int]:
        top = 6 if self is _WEEKDAY else self.high  # 7 is a second name of Sunday, not an eighth day
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
            raise ValueError(f"{self.what}: the range {span} runs backwards")
        return first, last

    def _number(self, word: str) -> int:
        if word in self.names:
            return self.names.index(word) + self.low
        if _is_number(word) and self.low <= int(word) <= self.high:
            return int(word)
        also = f" or {self.names[0]} to {self.names[-1]}" if self.names else ""
        raise ValueError(f"{self.what}: {word!r} is not a number from {self.low} to {self.high}{also}")


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= 4


_MINUTE = _Field("minute", 0, 59)
_HOUR = _Field("hour", 0, 23)
_DAY = _Field("day of the month", 1, 31)
_MONTH = _Field("month", 1, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"))
_WEEKDAY = _Field("weekday", 0, 7, ("sun", "mon", "tue", "wed", "thu", "fri", "sat"))
_LONGEST_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
