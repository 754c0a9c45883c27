"""Paths and names: `YYYY-MM-DD/HH-MM-SS-session-name.json`, the archive's months, and the ids of memories.

The seed takes the time in a name from characters 11 to 19 of a time stamp. Only a stamp with dashes gives a time with
dashes; an ISO stamp gives colons, and some programs write these. Both are read; dashes are the right form.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from memoryd.core.dates import parse_stamp
from memoryd.core.spans import sha256

LOCK = ".archive.lock"
_SESSION = re.compile(r"(?P<date>\d{4}-\d{2}-\d{2})/(?P<time>\d{2}[-:]\d{2}[-:]\d{2})-(?P<name>[^/]+)\.json", re.ASCII)
# The archiver writes one directory per month; its first versions wrote one per day.
_ARCHIVED = re.compile(r"archive/\d{4}-\d{2}(-\d{2})?/[^/]+\.json", re.ASCII)
_AGGREGATE = re.compile(r"archive/aggregate/\d{4}-\d{2}\.json", re.ASCII)
_DASHED = re.compile(r"(\d{4}-\d{2}-\d{2})-(\d{2})-(\d{2})-(\d{2})", re.ASCII)
_NO_DIGITS = re.compile(r"\D+", re.ASCII)
_MAX_SLUG = 80


class SessionPath(NamedTuple):
    """The parts of a session's path."""

    date: str
    time: str
    name: str

    @property
    def session(self) -> str:
        """The session id in the path."""
        return f"{self.date}-{self.time.replace(':', '-')}-{self.name}"

    @property
    def file(self) -> str:
        """The file name."""
        return f"{self.time}-{self.name}.json"


@lru_cache(maxsize=64)  # each file is asked for several times while it is indexed
def session_path(path: str) -> SessionPath | None:
    """Return the parts of a session's path, None for any other path."""
    match = _SESSION.fullmatch(path)
    return SessionPath(match["date"], match["time"], match["name"]) if match else None


def is_archived(path: str) -> bool:
    """Return True for the path of an archived session."""
    return _ARCHIVED.fullmatch(path) is not None


def aggregate_path(month: str) -> str:
    """Return the path of the aggregate of a month, `YYYY-MM`."""
    return f"archive/aggregate/{month}.json"


def is_aggregate(path: str) -> bool:
    """Return True for the path of a month's aggregate."""
    return _AGGREGATE.fullmatch(path) is not None


def path_for_id(session: str) -> str | None:
    """Return the path of a session: `2026-01-30-14-30-00-name` -> `2026-01-30/14-30-00-name.json`; None for other
    ids."""
    match = re.fullmatch(r"(\d{4}-\d{2}-\d{2})-(\d{2}-\d{2}-\d{2})-([^/\0]+)", session, re.ASCII)
    return f"{match[1]}/{match[2]}-{match[3]}.json" if match else None


def session_id_of(path: str) -> str:
    """Return the session id in a path, for a file without an id of its own."""
    parts = session_path(path)
    return parts.session if parts else path.rpartition("/")[2].removesuffix(".json")


def parse_moment(value: object) -> float | None:
    """Return the seconds of a time stamp in ISO form or as `YYYY-MM-DD-HH-MM-SS`, in UTC unless it names a zone."""
    return _parse_moment(value) if isinstance(value, str) else None


@lru_cache(maxsize=64)  # the stamps of a session are read several times while it is indexed
def _parse_moment(text: str) -> float | None:
    if match := _DASHED.fullmatch(text):
        text = f"{match[1]}T{match[2]}:{match[3]}:{match[4]}Z"
    stamp = parse_stamp(text)
    return stamp.seconds if stamp else None


def stamp_digits(value: object) -> str | None:
    """Return the first fourteen digits of a stamp: date and time as written, whatever the zone and separators."""
    if not isinstance(value, str):
        return None
    digits = _NO_DIGITS.sub("", value)[:14]
    return digits if len(digits) == 14 else None


def slug(title: str) -> str:
    """Return the words of a title joined by dashes, in lower case, at most 80 characters."""
    folded = unicodedata.normalize("NFKC", title).casefold()
    words = re.findall(r"[^\W_]+", folded)
    return "-".join(words)[:_MAX_SLUG].strip("-") or "untitled"


def normalised_id(session: str) -> str:
    """Return the id of a new session: date and time, then the words of its name joined by dashes (seed 003)."""
    return f"{session[:20]}{slug(session[20:])}"


def unique_ids(bases: Sequence[str], contents: Iterable[bytes]) -> list[str]:
    """Return the ids with duplicates made unique: `~` and six digits of the content's hash, equal bytes then `.2`,
    `.3`. `contents` is read only if there are any."""
    if len(set(bases)) == len(bases):
        return list(bases)
    shared = Counter(bases)
    marked = [
        base if shared[base] == 1 else f"{base}~{sha256(content)[:6]}"
        for base, content in zip(bases, contents, strict=True)
    ]
    counts: Counter[str] = Counter()
    ids: list[str] = []
    for each in marked:
        counts[each] += 1
        ids.append(each if counts[each] == 1 else f"{each}.{counts[each]}")
    return ids
