"""Readers of single values: each takes what TOML gave and returns what memoryd means.

A reader raises ValueError (most often WrongValueError) with one sentence: what is wrong, and what is
allowed instead. None of them looks at the disk, the clock or another key.
"""

from __future__ import annotations

import datetime
import math
import re
import urllib.parse
import zoneinfo
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from memoryd.core.policy import KB, MB, Limit, LimitKind
from memoryd.core.schedule import ALLOWED, Adaptive, parse_schedule

Reader = Callable[[object], Any]

SIZE_EXAMPLE = '"512KB", "5MB", "1GB" or a number of bytes'
LARGEST = 2**63 - 1  # what the catalogue can store

_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,6})?) ?(B|KB|MB|GB|KIB|MIB|GIB)?")
_UNITS: Mapping[str | None, int] = {None: 1, "B": 1, "KB": KB, "MB": MB, "GB": 1024 * MB}


class WrongValueError(ValueError):
    """A value of the wrong type or out of range."""


def shown(value: object) -> str:
    """A value in a message: as TOML would name it, and never longer than a glance."""
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


def number(low: float, high: float) -> Reader:
    """Any finite number within the bounds."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise WrongValueError(f"is {shown(value)}, not a number; allowed: {low:g} to {high:g}")
        if not low <= value <= high:  # not-a-number fails both comparisons
            raise WrongValueError(f"{shown(value)} is out of range; allowed: {low:g} to {high:g}")
        return value

    return read


def integer(low: int, high: int) -> Reader:
    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise WrongValueError(f"is {shown(value)}, not a whole number; allowed: {low} to {high}")
        if not low <= value <= high:
            raise WrongValueError(f"{shown(value)} is out of range; allowed: {low} to {high}")
        return value

    return read


def flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise WrongValueError(f"is {shown(value)}; allowed: true, false")
    return value


def choice(*allowed: str) -> Reader:
    def read(value: object) -> str:
        if not isinstance(value, str) or value not in allowed:
            near = nearest(value, allowed) if isinstance(value, str) else None
            ask = f'did you mean "{near}"? ' if near else ""
            raise WrongValueError(f"is {shown(value)}; {ask}allowed: {', '.join(allowed)}")
        return value

    return read


def choices(*allowed: str) -> Reader:
    one = choice(*allowed)

    def read(value: object) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise WrongValueError(f"is {shown(value)}, not an array; allowed: an array of {', '.join(allowed)}")
        return tuple(dict.fromkeys(one(element) for element in value))

    return read


def globs(value: object) -> tuple[str, ...]:
    """Patterns of paths beneath a root."""
    if not isinstance(value, list):
        raise WrongValueError(
            f'is {shown(value)}, not an array; allowed: an array of globs, as ["*.draft.md", "private/"]'
        )
    return tuple(dict.fromkeys(_glob(element) for element in value))


def _glob(value: object) -> str:
    text = words(value)
    if not text.strip("/*") or ".." in text.split("/"):
        raise WrongValueError(f"{shown(text)} names everything, or what lies outside; allowed: a glob of some paths")
    return text


def words(value: object) -> str:
    """Text that a path or a name can be made of."""
    if not isinstance(value, str):
        raise WrongValueError(f"is {shown(value)}; allowed: a text in quotes")
    if not value.strip():
        raise WrongValueError("is empty")
    if "\0" in value:
        raise WrongValueError("holds a NUL character, which no path can")
    return value


def url(value: object) -> str:
    """An address to ask by HTTP, without user and password, which have no place in a file."""
    text = words(value).strip()
    parts = urllib.parse.urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise WrongValueError(f"is {shown(text)}; allowed: an address such as http://localhost:11434/v1")
    if parts.username is not None or parts.password is not None:
        raise WrongValueError("holds a user or password; name the variable with the key in key_env instead")
    return text


def timezone(value: object) -> str:
    """The name of a time zone that this machine knows."""
    name = words(value)
    if name == "UTC":
        return name  # also where the machine has no zone tables at all
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        near = nearest(name, zoneinfo.available_timezones())
        ask = f'did you mean "{near}"? ' if near else ""
        problem = f"{shown(name)} is no time zone of this machine; {ask}allowed: names such as Europe/Berlin or UTC"
        raise WrongValueError(problem) from None
    return name


def size(value: object) -> int:
    """Bytes; KB, MB and GB are powers of 1024."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise WrongValueError(f"is {shown(value)}; allowed: {SIZE_EXAMPLE}")
    count: float = 0
    if isinstance(value, str):
        match = _SIZE.fullmatch(value.strip().upper())
        if match is None:
            raise WrongValueError(f"{shown(value)} is no size; allowed: {SIZE_EXAMPLE}")
        count = float(match[1]) * _UNITS[match[2].replace("I", "") if match[2] else None]
    exact = value if isinstance(value, int) else math.floor(count)
    if not 1 <= exact <= LARGEST:
        raise WrongValueError(f"{shown(value)} is out of range; allowed: {SIZE_EXAMPLE}, more than none")
    return exact


def schedule(job: str) -> Reader:
    def read(value: object) -> str:
        if not isinstance(value, str):
            raise WrongValueError(f"is {shown(value)}; allowed: {ALLOWED}")
        if isinstance(parse_schedule(value), Adaptive) and job != "rescan":
            raise WrongValueError(f'"adaptive" is only for rescan; allowed: {ALLOWED}')
        return " ".join(value.lower().split())

    return read


def or_off(read: Reader) -> Reader:
    """`"off"` means: no bound."""

    def either(value: object) -> Any:
        return None if value == "off" else read(value)

    return either


LIMIT_PARTS: Mapping[str, Reader] = {
    "max_bytes": or_off(size),
    "max_count": or_off(integer(1, LARGEST)),
    "kind": choice(*LimitKind),
}


def limit(parts: Mapping[str, Any], known: Limit | None) -> Limit:
    """A limit from the parts that are written down; the layout's own limit of that file fills the rest."""
    base = known or Limit(LimitKind.SOFT, None, None)
    return Limit(
        LimitKind(parts.get("kind", base.kind)),
        parts.get("max_bytes", base.max_bytes),
        parts.get("max_count", base.max_count),
    )


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that looks most like this one, if any does."""
    import difflib  # noqa: PLC0415 - only when something is wrong

    options = {option.lower(): option for option in sorted(known)}
    close = difflib.get_close_matches(word[:80].lower(), list(options), n=1, cutoff=0.6)
    return options[close[0]] if close else None
