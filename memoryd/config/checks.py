"""Checks of single values of the configuration, and their messages.

A check raises ValueError (usually WrongValueError) with one sentence: what is wrong, and what is allowed instead. No
check depends on the disk, the clock or another key.
"""

from __future__ import annotations

import datetime
import math
import re
import urllib.parse
import zoneinfo
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from memoryd.core.defaults import KB, MB, Limit, LimitKind
from memoryd.core.schedule import ALLOWED, Adaptive, parse_schedule
from memoryd.errors import nearest

Check = Callable[[object], Any]
"""A function that converts a TOML value to the value memoryd uses, or raises ValueError."""

SIZE_EXAMPLE = '"512KB", "5MB", "1GB" or a number of bytes'
MAX_INTEGER = 2**63 - 1  # what the index can store

_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,6})?) ?(B|KB|MB|GB|KIB|MIB|GIB)?")
_UNITS: Mapping[str | None, int] = {None: 1, "B": 1, "KB": KB, "MB": MB, "GB": 1024 * MB}


class WrongValueError(ValueError):
    """A value of the wrong type or out of range."""


def shown(value: object) -> str:
    """Format a value for a message: in the terms of TOML, 60 characters of a text at most."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.date | datetime.time):
        return "a date or time"
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else value[:57] + "...")
    try:
        return str(value)
    except ValueError:
        return "a very large number"  # Python refuses to print integers of more than 4300 digits


T = TypeVar("T")


def _require(value: object, kind: type[T], wrong: str) -> T:
    """Return the value if it is of that type; a boolean is no number. Raises WrongValueError, which says `wrong`."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise WrongValueError(wrong)
    return value


def number(low: float, high: float) -> Check:
    """Make a check for finite numbers within the bounds."""
    return _bounded((int, float), "a number", low, high, f"allowed: {low:.15g} to {high:.15g}")


def integer(low: int, high: int) -> Check:
    """Make a check for whole numbers within the bounds."""
    return _bounded((int,), "a whole number", low, high, f"allowed: {low} to {high}")


def _bounded(kinds: tuple[type, ...], noun: str, low: float, high: float, allowed: str) -> Check:
    def check(value: object) -> object:
        if type(value) not in kinds:  # a boolean is no number
            raise WrongValueError(f"is {shown(value)}, not {noun}; {allowed}")
        assert isinstance(value, int | float)
        if not low <= value <= high:  # not-a-number is neither
            raise WrongValueError(f"{shown(value)} is out of range; {allowed}")
        return value

    return check


def flag(value: object) -> bool:
    """Check that it is true or false."""
    return _require(value, bool, f"is {shown(value)}; allowed: true, false")


def choice(*allowed: str) -> Check:
    """Make a check for one of several words."""

    def check(value: object) -> str:
        if not isinstance(value, str) or value not in allowed:
            ask = suggestion(value, allowed) if isinstance(value, str) else ""
            raise WrongValueError(f"is {shown(value)}; {ask}allowed: {', '.join(allowed)}")
        return value

    return check


def choices(*allowed: str) -> Check:
    """Make a check for an array of such words; repeated ones count once."""
    one = choice(*allowed)

    def check(value: object) -> tuple[str, ...]:
        wrong = f"is {shown(value)}, not an array; allowed: an array of {', '.join(allowed)}"
        return tuple(dict.fromkeys(map(one, _require(value, list, wrong))))

    return check


def globs(value: object) -> tuple[str, ...]:
    """Check patterns of paths beneath a root."""
    wrong = f'is {shown(value)}, not an array; allowed: an array of globs, as ["*.draft.md", "private/"]'
    return tuple(dict.fromkeys(map(_glob, _require(value, list, wrong))))


def _glob(value: object) -> str:
    text = words(value)
    if not text.strip("/*") or ".." in text.split("/"):
        raise WrongValueError(f"{shown(text)} matches everything or leaves the root; allowed: a glob of some paths")
    return text


def words(value: object) -> str:
    """Check a text that can be a path or a name: neither empty nor with a NUL character."""
    text = _require(value, str, f"is {shown(value)}; allowed: a text in quotes")
    if not text.strip():
        raise WrongValueError("is empty")
    if "\0" in text:
        raise WrongValueError("contains a NUL character")
    return text


def url(value: object) -> str:
    """Check an HTTP address. User and password are refused: secrets do not belong in this file."""
    text = words(value).strip()
    parts = urllib.parse.urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise WrongValueError(f"is {shown(text)}; allowed: an address such as http://localhost:11434/v1")
    if parts.username is not None or parts.password is not None:
        raise WrongValueError("contains a user or password; use key_env to name the variable with the API key")
    return text


def timezone(value: object) -> str:
    """Check the name of a time zone that this machine knows."""
    name = words(value)
    if name == "UTC":
        return name  # also where the machine has no zone tables at all
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        ask = suggestion(name, zoneinfo.available_timezones())
        problem = f"{shown(name)} is not a time zone of this machine; {ask}allowed: names such as Europe/Berlin or UTC"
        raise WrongValueError(problem) from None
    return name


def size(value: object) -> int:
    """Check a size and return bytes; KB, MB and GB are powers of 1024."""
    wrong = f"is {shown(value)}; allowed: {SIZE_EXAMPLE}"
    found = _bytes(value) if isinstance(value, str) else _require(value, int, wrong)
    if not 1 <= found <= MAX_INTEGER:
        raise WrongValueError(f"{shown(value)} is out of range; allowed: {SIZE_EXAMPLE}, at least 1")
    return found


def _bytes(text: str) -> int:
    match = _SIZE.fullmatch(text.strip().upper())
    if match is None:
        raise WrongValueError(f"{shown(text)} is not a size; allowed: {SIZE_EXAMPLE}")
    return math.floor(float(match[1]) * _UNITS[match[2].replace("I", "") if match[2] else None])


def schedule(job: str) -> Check:
    """Make a check for the schedule of a job: a cron line, an interval, or off."""

    def check(value: object) -> str:
        text = _require(value, str, f"is {shown(value)}; allowed: {ALLOWED}")
        if isinstance(parse_schedule(text), Adaptive) and job != "rescan":
            raise WrongValueError(f'"adaptive" is only for rescan; allowed: {ALLOWED}')
        return " ".join(text.lower().split())

    return check


def or_off(check: Check) -> Check:
    """Make a check that also accepts `"off"`, which means no limit."""
    return lambda value: None if value == "off" else check(value)


LIMIT_PARTS: Mapping[str, Check] = {
    "max_bytes": or_off(size),
    "max_count": or_off(integer(1, MAX_INTEGER)),
    "kind": choice(*LimitKind),
}


def limit(parts: Mapping[str, Any], known: Limit | None) -> Limit:
    """Build a limit from the configured parts; the others come from `known`, the layout's limit of that file."""
    base = known or Limit(LimitKind.SOFT, None, None)
    return Limit(
        LimitKind(parts.get("kind", base.kind)),
        parts.get("max_bytes", base.max_bytes),
        parts.get("max_count", base.max_count),
    )


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return a question for the known word that is most like this one, followed by a space; "" if none is."""
    near = nearest(word, known)
    return "" if near is None else f'did you mean "{near}"? '
