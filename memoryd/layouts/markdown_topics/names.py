"""Names of topics and subtopics, paths of new entries, headings of topics, ids of entries."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from functools import lru_cache
from typing import NamedTuple

from memoryd.core.ignore import is_temp
from memoryd.core.secrets import redact
from memoryd.core.spans import is_encodable, sha256
from memoryd.errors import UsageError

_UNLISTABLE = re.compile(r"[`\x00-\x1f\x7f]")
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


@lru_cache(maxsize=1024)  # an index lists many files of few topics
def heading_for(topic: str) -> str:
    """Return the heading of a topic: `prb-execution` -> `Prb Execution`, `Pattern/2025/08` -> `Pattern 2025 08`; "" for
    the base."""
    parts = [part for part in re.split(r"[-_/\s]+", topic) if part]
    return " ".join(part[0].upper() + part[1:] for part in parts) or topic.strip()


def printable(text: str) -> str:
    """Return text for ids, titles and messages: without invalid bytes, control characters and secrets."""
    return _cached_printable(text) if len(text) <= _NAME else _printable(text)


@lru_cache(maxsize=1024)
def _cached_printable(text: str) -> str:
    """Cache short texts: paths and titles recur with every entry and every parse of their file."""
    return _printable(text)


def _printable(text: str) -> str:
    shown = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return redact("".join(" " if unicodedata.category(each) == "Cc" else each for each in shown))


def slug(title: str) -> str:
    """Return the words of a title joined by dashes, cut at a word; `entry` where it has none."""
    text = "-".join(words(unicodedata.normalize("NFKC", title)))
    if len(text) > _SLUG_LENGTH:
        text = text[: _SLUG_LENGTH + 1].rpartition("-")[0] or text[:_SLUG_LENGTH]
    return text or "entry"


def entry_id(location: TopicPath, day: date, title: str) -> str:
    """Return `topic/subtopic#YYYY-MM-DD:slug`; `title` must be free of secrets."""
    return _cached_id(location, day, title) if len(title) <= _NAME else _entry_id(location, day, title)


@lru_cache(maxsize=512)
def _cached_id(location: TopicPath, day: date, title: str) -> str:
    """Cache ids: every change of a file computes those of all its entries."""
    return _entry_id(location, day, title)


def _entry_id(location: TopicPath, day: date, title: str) -> str:
    return f"{printable('/'.join(filter(None, location)))}#{day.isoformat()}:{slug(title)}"


def unique_ids(ids: Sequence[str], texts: Sequence[bytes]) -> list[str]:
    """Return the ids with duplicates made unique: all of them get `~` and six hex digits of their text's hash, equal
    texts then `.2`, `.3`. Trailing white space does not count, since it changes with the neighbours."""
    counts = Counter(ids)
    uses: Counter[str] = Counter()
    unique: list[str] = []
    for base, text in zip(ids, texts, strict=True):
        marked = base if counts[base] == 1 else f"{base}{ID_SUFFIX}{sha256(text.rstrip())[:6]}"
        uses[marked] += 1
        unique.append(marked if uses[marked] == 1 else f"{marked}.{uses[marked]}")
    return unique


DEFAULT_SUBTOPIC = "general"
MAX_NAME_BYTES = 200  # leaves room for the suffix of a temporary file below the limit of 255
_HINT = "a topic is a directory below the base (auth, or nested: auth/tokens), a subtopic is a file in it (oauth2)"


def is_listable(path: str) -> bool:
    """Return True for a path that fits on a line of the index: valid UTF-8 without backticks and control characters."""
    return _UNLISTABLE.search(path) is None and is_encodable(path)


def path_for(location: Mapping[str, str]) -> str:
    """Return `topic/subtopic.md`. Topics may be nested; a subtopic may have its `.md`. Raises UsageError for names that
    are missing, hidden, outside the base, or in the archive."""
    unsupported = sorted(key for key, value in location.items() if value and key not in ("topic", "subtopic"))
    if unsupported:
        raise UsageError(f"{unsupported[0]}: not supported by this layout; use topic and subtopic", hint=_HINT)
    topic = location.get("topic", "").strip()
    if not topic:
        raise UsageError(
            "topic: missing; it names the directory of the entry",
            hint=f"name it with --topic, and the file with --subtopic; {_HINT}",
        )
    subtopic = location.get("subtopic", "").strip() or DEFAULT_SUBTOPIC
    subtopic = subtopic.removesuffix(SUFFIX) or subtopic
    parts = topic.split("/")
    if parts[0].casefold() == ARCHIVE.rstrip("/"):
        raise UsageError("topic: entries reach the archive only by prune and forget", hint=_HINT)
    _check("topic", parts)
    _check("subtopic", [subtopic])
    return f"{topic}/{subtopic}{SUFFIX}"


def _check(which: str, names: list[str]) -> None:
    for name in names:
        for wrong, rule in _RULES:
            if wrong(name):
                raise UsageError(f"{which}: {rule}", hint=_HINT)


def _is_no_text(name: str) -> bool:
    return any("\ud800" <= each <= "\udfff" for each in name)


def _rules() -> Iterator[tuple[Callable[[str], bool], str]]:
    yield lambda name: not name, "must be a relative path without empty parts"
    yield lambda name: name in (".", ".."), "must not be . or .."
    yield lambda name: name.startswith("."), "must not begin with a dot: hidden files are never read"
    yield lambda name: "/" in name or "\\" in name, "must not contain a slash or backslash"
    yield lambda name: name.lower().endswith(SUFFIX), f"must not end in {SUFFIX}"
    yield lambda name: name != name.strip(), "must not begin or end with white space"
    yield _is_no_text, "must be valid Unicode"
    yield (
        lambda name: not is_listable(name),
        "must not contain backticks or control characters, which the index cannot list",
    )
    yield (
        lambda name: is_temp(name) or is_temp(name + SUFFIX),
        "must not look like a temporary file",
    )
    yield (
        lambda name: len((name + SUFFIX).encode("utf-8", "replace")) > MAX_NAME_BYTES,
        f"must have at most {MAX_NAME_BYTES} bytes",
    )


_RULES = tuple(_rules())


def check_source(path: str, archive: str) -> None:
    """Raise UsageError unless the source that an archive names for an entry is a topic file inside its topic."""
    parts = path.split("/")
    hidden = any(not part or part.startswith(".") for part in parts)
    if hidden or not path.endswith(SUFFIX) or is_temp(path) or path == INDEX or path.startswith(ARCHIVE):
        raise UsageError(
            f"{archive}: the line above the entry does not name a topic file",
            hint="put the name of a file of that topic into `<!-- from: file.md -->`",
        )
