"""Names: topics and subtopics of paths, headings of topics, ids of entries."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from datetime import date
from functools import lru_cache
from typing import NamedTuple

from memoryd.core.digest import sha256
from memoryd.core.secrets import redact

ARCHIVE = "archive/"
INDEX = "index.md"
SUFFIX = ".md"
APART = "~"  # in an id that another entry of the file would have as well
_NAME = 200  # characters of a text that is remembered
_SLUG_LENGTH = 80  # characters; long titles are cut at a word


class Place(NamedTuple):
    """`topic` is the folder below the base, "" for files that lie in the base itself."""

    topic: str
    subtopic: str


def place_of(path: str) -> Place:
    folder, _, name = path.removesuffix(SUFFIX).rpartition("/")
    return Place(folder, name)


def archive_of(path: str, day: date) -> str:
    """`archive/<topic>/<year>.md`: the entry's own date names the year, so a late run names the same file."""
    topic = place_of(path).topic
    return f"{ARCHIVE}{topic}/{day.year:04}{SUFFIX}" if topic else f"{ARCHIVE}{day.year:04}{SUFFIX}"


def topic_of_archive(path: str) -> str:
    return path.removeprefix(ARCHIVE).rpartition("/")[0]


def words(text: str) -> list[str]:
    """Runs of letters and digits, in small letters: what names are compared by."""
    return re.findall(r"[^\W_]+", text.casefold())


def heading_for(topic: str) -> str:
    """`prb-execution` -> `Prb Execution`, `Pattern/2025/08` -> `Pattern 2025 08`; "" in the base itself."""
    parts = [part for part in re.split(r"[-_/\s]+", topic) if part]
    return " ".join(part[0].upper() + part[1:] for part in parts) or topic.strip()


def plain(text: str) -> str:
    """For ids, titles and messages: no bytes that are no text, no control characters, no secrets."""
    return _plain_name(text) if len(text) <= _NAME else _plain(text)


@lru_cache(maxsize=1024)
def _plain_name(text: str) -> str:
    """Places and titles come again with every entry, and with every look at their file."""
    return _plain(text)


def _plain(text: str) -> str:
    shown = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return redact("".join(" " if unicodedata.category(each) == "Cc" else each for each in shown))


def slug(title: str) -> str:
    text = "-".join(words(unicodedata.normalize("NFKC", title)))
    if len(text) > _SLUG_LENGTH:
        text = text[: _SLUG_LENGTH + 1].rpartition("-")[0] or text[:_SLUG_LENGTH]
    return text or "entry"


def entry_id(where: Place, day: date, title: str) -> str:
    """`topic/subtopic#YYYY-MM-DD:slug`; `title` has no secrets any more."""
    return _known_id(where, day, title) if len(title) <= _NAME else _entry_id(where, day, title)


@lru_cache(maxsize=512)
def _known_id(where: Place, day: date, title: str) -> str:
    """With every change of a file all of its entries are named anew."""
    return _entry_id(where, day, title)


def _entry_id(where: Place, day: date, title: str) -> str:
    return f"{plain('/'.join(filter(None, where)))}#{day.isoformat()}:{slug(title)}"


def told_apart(ids: Sequence[str], texts: Sequence[bytes]) -> list[str]:
    """Ids that collide all get `~` and six hex digits of their text's hash, equal ones then `.2`, `.3`. White space
    at the end of a text does not count: it changes when a neighbour comes or goes."""
    counts = Counter(ids)
    seen: Counter[str] = Counter()
    apart: list[str] = []
    for base, text in zip(ids, texts, strict=True):
        marked = base if counts[base] == 1 else f"{base}{APART}{sha256(text.rstrip())[:6]}"
        seen[marked] += 1
        apart.append(marked if seen[marked] == 1 else f"{marked}.{seen[marked]}")
    return apart
