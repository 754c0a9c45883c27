"""Parsing of topic files into records, and recognition of the layout. Never raises.

A file without dated entries (front matter, plain notes) is one memory as a whole: it is listed and searched, and never
pruned. Recognition distinguishes the layout from changelogs, journals and documentation, which have dated headings too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from memoryd.core.records import FRESH_S, Document, JsonObject, Record
from memoryd.core.secrets import redact
from memoryd.core.spans import BOM, Span
from memoryd.layouts.directory import Directory
from memoryd.layouts.markdown_topics.lint import lint_file, unquoted
from memoryd.layouts.markdown_topics.names import (
    ARCHIVE,
    INDEX,
    SUFFIX,
    TopicPath,
    entry_id,
    printable,
    topic_of_archive,
    topic_path,
    unique_ids,
)
from memoryd.layouts.markdown_topics.outline import Outline, Section, first_title, outline, seconds_of

ENTRY, DOCUMENT = "entry", "document"

_MARKUP = re.compile(rb"#{1,6}( .*)?|[-*_ ]{3,}|<!--.*-->")
_SEPARATORS = re.compile(r"[-_\s]+")


def read_document(path: str, data: bytes, *, now: float, mtime: float, words: bool = False) -> Document:
    """Parse a topic or archive file. `words` also reports the general words of the seed's list, most of them
    harmless."""
    archived = path.startswith(ARCHIVE)
    structure = outline(data, archived=archived)
    readable = _is_text(data)
    records = tuple(_entries(path, structure, archived=archived))
    if not records and readable and has_content(structure):
        records = (_document_record(path, structure, archived=archived),)
    pending = not readable and abs(now - mtime) < FRESH_S
    broken = int(not readable and not records and bool(data.strip(b"\0 \t\r\n")))
    findings = [] if pending else [*lint_file(path, data, structure, archived=archived, now=now, words=words)]
    facts = _facts(structure, len(data))
    return Document(path, records, tuple(findings), len(records) + broken, broken, pending, facts)


def _is_text(data: bytes) -> bool:
    if b"\0" in data:
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def read_outline(path: str, structure: Outline) -> Document:
    """Return the entries of a topic file without texts and findings, which upkeep does not need."""
    return Document(path, tuple(_entries(path, structure, archived=False, with_text=False)))


def id_at(path: str, data: bytes, start: int) -> str:
    """Return the id of the first record that begins at or after `start`."""
    return id_in_outline(path, outline(data, archived=path.startswith(ARCHIVE)), start)


def id_in_outline(path: str, structure: Outline, start: int, *, without: Collection[int] = ()) -> str:
    """Return the id of the first record at or after `start` once the entries that begin at the offsets in `without` are
    removed; the others keep their texts."""
    archived = path.startswith(ARCHIVE)
    if not structure.sections:
        return _document_record(path, structure, archived=archived).id
    remaining = [section for section in structure.sections if section.start not in without]
    ids = _entry_names(path, structure.data, remaining, archived=archived)
    return next(each.id for section, each in zip(remaining, ids, strict=True) if section.start >= start)


class _EntryName(NamedTuple):
    id: str
    title: str
    location: TopicPath


def _entry_names(path: str, data: bytes, sections: Sequence[Section], *, archived: bool) -> list[_EntryName]:
    titles = [plain_text(section.title) for section in sections]
    location = topic_path(path)
    locations = [_topic_path(path, section) if archived else location for section in sections]
    bases = [entry_id(*each) for each in zip(locations, (s.day for s in sections), titles, strict=True)]
    ids = unique_ids(bases, [data[section.start : section.end] for section in sections])
    return [_EntryName(*each) for each in zip(ids, titles, locations, strict=True)]


def plain_text(raw: bytes) -> str:
    """Return bytes as a printable title."""
    return printable(raw.decode("utf-8", "surrogateescape")).strip()


def _entries(path: str, structure: Outline, *, archived: bool, with_text: bool = True) -> Iterator[Record]:
    data = structure.data
    names = _entry_names(path, data, structure.sections, archived=archived)
    for section, (identity, title, location) in zip(structure.sections, names, strict=True):
        facts: JsonObject = {"date": section.day.isoformat(), "title": title}
        if structure.open_fence is not None and section.start <= structure.open_fence < section.end:
            facts["open_fence"] = True
        yield Record(
            Span(section.start, section.end),
            section.line,
            identity,
            ENTRY,
            title,
            seconds_of(section.day),
            None,
            _tags(location.topic),
            archived,
            {},
            facts,
            text=_search_text(data[section.start : section.end]) if with_text else "",
            labels=_labels(location) if with_text else (),
        )


def _topic_path(path: str, section: Section) -> TopicPath:
    """Return the topic and subtopic for the id of an entry; an archived entry keeps those of its source file."""
    if section.source is None:
        return topic_path(path)
    subtopic = section.source.decode("utf-8", "surrogateescape").removesuffix(".md")
    return TopicPath(topic_of_archive(path), subtopic)


def _document_record(path: str, structure: Outline, *, archived: bool) -> Record:
    data = structure.data
    location = topic_path(path)
    title = plain_text(first_title(structure, len(data)) or b"") or printable(location.subtopic)
    start = len(BOM) if data.startswith(BOM) else 0
    identity = printable("/".join(filter(None, location)))
    topic = topic_of_archive(path) if archived else location.topic
    return Record(
        Span(start, len(data)),
        1,
        identity,
        DOCUMENT,
        title,
        None,
        None,
        _tags(topic),
        archived,
        {},
        {"title": title},
        text=_search_text(data[start:]),
        labels=_labels(TopicPath(topic, location.subtopic)),
    )


def _tags(topic: str) -> tuple[str, ...]:
    return tuple(printable(part) for part in topic.split("/") if part)


def _labels(location: TopicPath) -> tuple[str, ...]:
    """Return the names in the path of a memory, and their words (`git-privacy` -> git-privacy, git, privacy)."""
    names = [printable(name) for name in (*location.topic.split("/"), location.subtopic) if name]
    parts = (part for name in names for part in (name, *_SEPARATORS.split(name)) if part)
    return tuple(dict.fromkeys(parts))


def _search_text(raw: bytes) -> str:
    """Return the whole text for the index, with secrets redacted."""
    return redact(raw.decode("utf-8", "replace"))


def has_content(structure: Outline, *, after: int = 0) -> bool:
    """Return True if the text holds more than headings, separators and comments. These may remain after the last entry
    of a file is removed, and are not a memory."""
    lines = ((line, line.text.strip()) for line in structure.lines if line.start >= after)
    return any(text and (line.quoted or not _MARKUP.fullmatch(text)) for line, text in lines)


def _facts(structure: Outline, size: int) -> JsonObject:
    """Return the facts about the file that the index and the schedule need."""
    first = structure.sections[0].block if structure.sections else size
    newest = max(structure.sections, key=lambda section: (section.day, -section.start), default=None)
    return {
        "h1": plain_text(first_title(structure, first) or b""),
        "newest": plain_text(newest.title) if newest is not None else "",
        "entries": len(structure.sections),
        "size": size,
        "front_matter": structure.front > 0,
    }


_TITLE = re.compile(rb"#[ \t]+Memory Index[ \t]*", re.IGNORECASE)
_TOPICS = re.compile(rb"##[ \t]+Topics[ \t]*", re.IGNORECASE)
_LABEL = re.compile(rb"\*\*(Context|Problem|Solution|Code):\*\*")
_STORED = re.compile(rb"^\*Memory stored\b[^\n]*\*", re.MULTILINE | re.IGNORECASE)


def recognise(directory: Directory) -> str | None:
    """Return the evidence of the layout (an index of the usual form, or topic files most of whose entries have the
    labels), or None."""
    if "" in directory.marked_directories:
        return None
    if INDEX in directory.files and is_index(directory.head(INDEX)):
        return f'{INDEX} has the headings "Memory Index" and "Topics"'
    return _by_labels(directory)


def is_index(content: bytes) -> bool:
    """Return True for an `index.md` with both headings of the known form."""
    headings = [line.text.rstrip(b"\r") for line in outline(content).walk() if not line.quoted]
    return any(map(_TITLE.fullmatch, headings)) and any(map(_TOPICS.fullmatch, headings))


def _by_labels(directory: Directory) -> str | None:
    excluded = tuple(f"{path}/" for path in directory.marked_directories)
    inner = re.compile(r"(?:^|/)memor(?:y|ies)/")  # a memory store below the project: it is a root of its own

    def is_topic(path: str) -> bool:
        hidden = path.startswith((".", ARCHIVE)) or "/." in path
        return (
            "/" in path
            and path.endswith(SUFFIX)
            and not hidden
            and not (path.startswith(excluded) or inner.search(path))
        )

    dated, fitting = 0, []
    for path in directory.first(is_topic):
        structure = outline(directory.head(path))
        dated += len(structure.sections)
        fitting += [f"{path}:{section.line}" for section in structure.sections if _fits(unquoted(structure, section))]
    return f"{fitting[0]} has the labels of a memory" if 2 * len(fitting) > dated else None


def _fits(pieces: Iterable[bytes]) -> bool:
    text = b"\n".join(pieces)
    return len(set(_LABEL.findall(text))) > 1 or _STORED.search(text) is not None
