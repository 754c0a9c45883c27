"""Names: topics and subtopics of paths, headings of topics, ids of entries."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from datetime import date
from functools import lru_cache
from typing import NamedTuple

from memoryd.core.secrets import redact
from memoryd.core.spans import sha256

ARCHIVE = "archive/"
INDEX = "index.md"
SUFFIX = ".md"
ID_SUFFIX = "~"  # marks ids that several entries of a file would share
_NAME = 200  # the longest text that is cached
_SLUG_LENGTH = 80  # characters; long titles are cut at a word


class TopicPath(NamedTuple):
    """A topic, which is the directory below the base ("" for the base itself), and a subtopic."""

    topic: str
    subtopic: str


def topic_path(path: str) -> TopicPath:
    """Return the topic and subtopic of a file."""
    directory, _, name = path.removesuffix(SUFFIX).rpartition("/")
    return TopicPath(directory, name)


def archive_of(path: str, day: date) -> str:
    """Return `archive/<topic>/<year>.md`, by the date of the entry, so that a late run names the same file."""
    topic = topic_path(path).topic
    return f"{ARCHIVE}{topic}/{day.year:04}{SUFFIX}" if topic else f"{ARCHIVE}{day.year:04}{SUFFIX}"


def topic_of_archive(path: str) -> str:
    """Return the topic of an archive file."""
    return path.removeprefix(ARCHIVE).rpartition("/")[0]


def words(text: str) -> list[str]:
    """Return the runs of letters and digits in lower case, by which names are compared."""
    return re.findall(r"[^\W_]+", text.casefold())


def heading_for(topic: str) -> str:
    """Return the heading of a topic: `prb-execution` -> `Prb Execution`, `Pattern/2025/08` -> `Pattern 2025 08`; "" for
    the base."""
    parts = [part for part in re.split(r"[-_/\s]+", topic) if part]
    return " ".join(part[0].upper() + part[1:] for part in parts) or topic.strip()


def printable(text: str) -> str:
    """Return text for ids, titles and messages: without invalid bytes, control characters and secrets."""
    return _cached_plain(text) if len(text) <= _NAME else _plain(text)


@lru_cache(maxsize=1024)
def _cached_plain(text: str) -> str:
    """Cache short texts: paths and titles recur with every entry and every parse of their file."""
    return _plain(text)


def _plain(text: str) -> str:
    shown = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return redact("".join(" " if unicodedata.category(each) == "Cc" else each for each in shown))


def slug(title: str) -> str:
    """Return the words of a title joined by dashes, cut at a word; `entry` where it has none."""
    text = "-".join(words(unicodedata.normalize("NFKC", title)))
    if len(text) > _SLUG_LENGTH:
        text = text[: _SLUG_LENGTH + 1].rpartition("-")[0] or text[:_SLUG_LENGTH]
    return text or "entry"


def entry_id(where: TopicPath, day: date, title: str) -> str:
    """Return `topic/subtopic#YYYY-MM-DD:slug`; `title` must be free of secrets."""
    return _cached_id(where, day, title) if len(title) <= _NAME else _entry_id(where, day, title)


@lru_cache(maxsize=512)
def _cached_id(where: TopicPath, day: date, title: str) -> str:
    """Cache ids: every change of a file computes those of all its entries."""
    return _entry_id(where, day, title)


def _entry_id(where: TopicPath, day: date, title: str) -> str:
    return f"{printable('/'.join(filter(None, where)))}#{day.isoformat()}:{slug(title)}"


def unique_ids(ids: Sequence[str], texts: Sequence[bytes]) -> list[str]:
    """Return the ids with duplicates made unique: all of them get `~` and six hex digits of their text's hash, equal
    texts then `.2`, `.3`. Trailing white space does not count, since it changes with the neighbours."""
    counts = Counter(ids)
    seen: Counter[str] = Counter()
    unique: list[str] = []
    for base, text in zip(ids, texts, strict=True):
        marked = base if counts[base] == 1 else f"{base}{ID_SUFFIX}{sha256(text.rstrip())[:6]}"
        seen[marked] += 1
        unique.append(marked if seen[marked] == 1 else f"{marked}.{seen[marked]}")
    return unique
