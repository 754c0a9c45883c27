"""From the bytes of a topic file to its memories. Never raises.

A file with no dated entry (front matter, plain notes) is one memory as a whole: it is listed and found, never pruned.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from memoryd.core.records import Document, Record
from memoryd.core.secrets import redact
from memoryd.core.text import Span
from memoryd.layouts.markdown_topics.blocks import BOM, Outline, Section, first_title, outline, seconds_of
from memoryd.layouts.markdown_topics.checking import findings_of
from memoryd.layouts.markdown_topics.naming import (
    ARCHIVE,
    Place,
    entry_id,
    place_of,
    plain,
    told_apart,
    topic_of_archive,
)

FRESH_S = 2.0  # bytes that are no text, this young, are a writer at work
ENTRY, DOCUMENT = "entry", "document"

_MARKUP = re.compile(rb"#{1,6}( .*)?|[-*_ ]{3,}|<!--.*-->")
_PARTING = re.compile(r"[-_\s]+")


def read_document(path: str, data: bytes, *, now: float, mtime: float, words: bool = False) -> Document:
    """`words` also reports the seed's general words (off by default: most of them are innocent)."""
    shelved = path.startswith(ARCHIVE)
    found = outline(data, shelved=shelved)
    readable = _is_text(data)
    records = tuple(_entries(path, found, shelved=shelved))
    if not records and readable and says_something(found):
        records = (_whole(path, found, shelved=shelved),)
    waits = not readable and abs(now - mtime) < FRESH_S
    broken = int(not readable and not records and bool(data.strip(b"\0 \t\r\n")))
    findings = [] if waits else [*findings_of(path, data, found, shelved=shelved, now=now, words=words)]
    facts = _facts(found, len(data))
    return Document(path, records, tuple(findings), len(records) + broken, broken, waits, facts)


def _is_text(data: bytes) -> bool:
    if b"\0" in data:
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def read_outline(path: str, found: Outline) -> Document:
    """What upkeep is decided on: the entries of a topic file, without their texts and without findings."""
    return Document(path, tuple(_entries(path, found, shelved=False, whole=False)))


def id_at(path: str, data: bytes, start: int) -> str:
    """Of the first record that begins at that offset or behind it, as it is read in the whole file."""
    return id_in(path, outline(data, shelved=path.startswith(ARCHIVE)), start)


def id_in(path: str, found: Outline, start: int, *, without: Collection[int] = ()) -> str:
    """The same, of the file as it is when the entries that begin at the offsets `without` have been taken out: those
    left keep their texts."""
    shelved = path.startswith(ARCHIVE)
    if not found.sections:
        return _whole(path, found, shelved=shelved).id
    left = [section for section in found.sections if section.start not in without]
    ids = _named(path, found.data, left, shelved=shelved)
    return next(each.id for section, each in zip(left, ids, strict=True) if section.start >= start)


class _Name(NamedTuple):
    id: str
    title: str
    place: Place


def _named(path: str, data: bytes, sections: Sequence[Section], *, shelved: bool) -> list[_Name]:
    titles = [text_of(section.title) for section in sections]
    home = place_of(path)
    places = [_place(path, section) if shelved else home for section in sections]
    bare = [entry_id(*each) for each in zip(places, (s.day for s in sections), titles, strict=True)]
    ids = told_apart(bare, [data[section.start : section.end] for section in sections])
    return [_Name(*each) for each in zip(ids, titles, places, strict=True)]


def text_of(raw: bytes) -> str:
    return plain(raw.decode("utf-8", "surrogateescape")).strip()


def _entries(path: str, found: Outline, *, shelved: bool, whole: bool = True) -> Iterator[Record]:
    data = found.data
    names = _named(path, data, found.sections, shelved=shelved)
    for section, (identity, title, place) in zip(found.sections, names, strict=True):
        facts: dict[str, Any] = {"date": section.day.isoformat(), "title": title}
        if found.open_fence is not None and section.start <= found.open_fence < section.end:
            facts["open_fence"] = True
        yield Record(
            Span(section.start, section.end),
            section.line,
            identity,
            ENTRY,
            title,
            seconds_of(section.day),
            None,
            _tags(place.topic),
            shelved,
            {},
            facts,
            text=_said(data[section.start : section.end]) if whole else "",
            labels=_labels(place) if whole else (),
        )


def _place(path: str, section: Section) -> Place:
    """An archived entry keeps the id it had in the file it came from."""
    if section.source is None:
        return place_of(path)
    subtopic = section.source.decode("utf-8", "surrogateescape").removesuffix(".md")
    return Place(topic_of_archive(path), subtopic)


def _whole(path: str, found: Outline, *, shelved: bool) -> Record:
    data = found.data
    place = place_of(path)
    title = text_of(first_title(found, len(data)) or b"") or plain(place.subtopic)
    start = len(BOM) if data.startswith(BOM) else 0
    identity = plain("/".join(filter(None, place)))
    topic = topic_of_archive(path) if shelved else place.topic
    return Record(
        Span(start, len(data)),
        1,
        identity,
        DOCUMENT,
        title,
        None,
        None,
        _tags(topic),
        shelved,
        {},
        {"title": title},
        text=_said(data[start:]),
        labels=_labels(Place(topic, place.subtopic)),
    )


def _tags(topic: str) -> tuple[str, ...]:
    return tuple(plain(part) for part in topic.split("/") if part)


def _labels(place: Place) -> tuple[str, ...]:
    """The names on the way to a memory, and the words they are made of (`git-privacy` -> git-privacy, git, privacy)."""
    names = [plain(name) for name in (*place.topic.split("/"), place.subtopic) if name]
    parts = (part for name in names for part in (name, *_PARTING.split(name)) if part)
    return tuple(dict.fromkeys(parts))


def _said(raw: bytes) -> str:
    """All of it, as text that any index takes, but for what looks like a secret."""
    return redact(raw.decode("utf-8", "replace"))


def says_something(found: Outline, *, after: int = 0) -> bool:
    """More than headings, separators and comments: what is left when the last entry was taken out is no memory."""
    lines = ((line, line.text.strip()) for line in found.lines if line.start >= after)
    return any(text and (line.quoted or not _MARKUP.fullmatch(text)) for line, text in lines)


def _facts(found: Outline, size: int) -> dict[str, Any]:
    """What the index and the schedule need to know of the file."""
    first = found.sections[0].block if found.sections else size
    newest = max(found.sections, key=lambda section: (section.day, -section.start), default=None)
    return {
        "h1": text_of(first_title(found, first) or b""),
        "newest": text_of(newest.title) if newest is not None else "",
        "entries": len(found.sections),
        "size": size,
        "front_matter": found.front > 0,
    }
