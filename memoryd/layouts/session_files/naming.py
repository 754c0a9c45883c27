"""Paths and names: `YYYY-MM-DD/HH-MM-SS-session-name.json`, the archive's months, and the ids of memories.

The seed takes the time of a name from a stamp's characters 11 to 19, which only the dash form of a stamp gives with
dashes; a program that follows the letter with an ISO stamp writes colons. Both are read, dashes are meant.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from memoryd.core.dates import parse_stamp
from memoryd.core.digest import sha256

LOCK = ".archive.lock"
_SESSION = re.compile(r"(?P<date>\d{4}-\d{2}-\d{2})/(?P<time>\d{2}[-:]\d{2}[-:]\d{2})-(?P<name>[^/]+)\.json", re.ASCII)
# A month's folder is what the archiver writes; its first versions made a folder for each day.
_ARCHIVED = re.compile(r"archive/\d{4}-\d{2}(-\d{2})?/[^/]+\.json", re.ASCII)
_AGGREGATE = re.compile(r"archive/aggregate/\d{4}-\d{2}\.json", re.ASCII)
_DASHED = re.compile(r"(\d{4}-\d{2}-\d{2})-(\d{2})-(\d{2})-(\d{2})", re.ASCII)
_MAX_SLUG = 80


class SessionPath(NamedTuple):
    date: str
    time: str
    name: str

    @property
    def session(self) -> str:
        """The session id this path stands for."""
        return f"{self.date}-{self.time.replace(':', '-')}-{self.name}"

    @property
    def file(self) -> str:
        return f"{self.time}-{self.name}.json"


def session_path(path: str) -> SessionPath | None:
    match = _SESSION.fullmatch(path)
    return SessionPath(match["date"], match["time"], match["name"]) if match else None


def is_archived(path: str) -> bool:
    return _ARCHIVED.fullmatch(path) is not None


def is_aggregate(path: str) -> bool:
    return _AGGREGATE.fullmatch(path) is not None


def path_of(session: str) -> str | None:
    """Where a session of this id belongs: `2026-01-30-14-30-00-name` → `2026-01-30/14-30-00-name.json`."""
    match = re.fullmatch(r"(\d{4}-\d{2}-\d{2})-(\d{2}-\d{2}-\d{2})-([^/\0]+)", session, re.ASCII)
    return f"{match[1]}/{match[2]}-{match[3]}.json" if match else None


def session_of(path: str) -> str:
    """The session id a path stands for, where the file names none."""
    found = session_path(path)
    return found.session if found else path.rpartition("/")[2].removesuffix(".json")


def moment(value: object) -> float | None:
    """A time stamp in ISO form or in the dash form `YYYY-MM-DD-HH-MM-SS`, as seconds (UTC where no zone is named)."""
    if isinstance(value, str) and (match := _DASHED.fullmatch(value)):
        value = f"{match[1]}T{match[2]}:{match[3]}:{match[4]}Z"
    stamp = parse_stamp(value)
    return stamp.seconds if stamp else None


def digits(value: object) -> str | None:
    """The first fourteen digits of a stamp: its date and time as written, whatever its zone and marks."""
    if not isinstance(value, str):
        return None
    found = re.sub(r"\D", "", value, flags=re.ASCII)[:14]
    return found if len(found) == 14 else None


def slug(title: str) -> str:
    """Words of the title joined by dashes, in small letters; at most 80 characters."""
    folded = unicodedata.normalize("NFKC", title).casefold()
    words = re.findall(r"[^\W_]+", folded)
    return "-".join(words)[:_MAX_SLUG].strip("-") or "untitled"


def told_apart(bases: Sequence[str], contents: Sequence[bytes]) -> list[str]:
    """Ids for memories: equal ones all carry `~` and six digits of their content's hash, equal bytes `.2`, `.3`."""
    shared = Counter(bases)
    wanted = [
        base if shared[base] == 1 else f"{base}~{sha256(content)[:6]}"
        for base, content in zip(bases, contents, strict=True)
    ]
    seen: Counter[str] = Counter()
    ids: list[str] = []
    for each in wanted:
        seen[each] += 1
        ids.append(each if seen[each] == 1 else f"{each}.{seen[each]}")
    return ids
