"""Prepare records for an index, whatever the engine: redact secrets, replace lone surrogates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from memoryd.core.records import Record
from memoryd.core.secrets import redact
from memoryd.core.spans import replace_surrogates


class Text(NamedTuple):
    """The searchable text of a memory, redacted and uncut. `tags` and `labels` are joined by newlines."""

    title: str
    tags: str
    labels: str
    body: str


def text_of(record: Record) -> Text:
    """Return the searchable text of a record, redacted."""
    return Text(
        _clean(record.title),
        _clean_cached("\n".join(map(one_line, record.tags))),
        _clean_cached("\n".join(record.labels)),
        _clean(record.text),
    )


class CleanRecord(NamedTuple):
    """The parts of a record that an index stores, redacted."""

    text: Text
    type: str
    facts: Mapping[str, object]


def clean_record(record: Record) -> CleanRecord:
    """Return the texts, the type and the facts of a record, redacted. Most are clean: one check of all of them proves
    it."""
    tags, labels = "\n".join(map(one_line, record.tags)), "\n".join(record.labels)
    joined = "\n".join((record.title, record.type, tags, labels, record.text, *_strings(record.facts)))
    if redacted(joined) == joined:
        return CleanRecord(Text(record.title, tags, labels, record.text), record.type, record.facts)
    return CleanRecord(text_of(record), redacted(record.type), clean(record.facts))


def _clean(text: str) -> str:
    return redacted(text) if text else ""


_clean_cached = lru_cache(maxsize=2_048)(_clean)  # many memories have the same tags and labels


def one_line(tag: str) -> str:
    """Return a tag without newlines, which separate the tags of a memory."""
    return tag.replace("\n", " ")


def clean(facts: Mapping[str, object]) -> Mapping[str, object]:
    """Return facts without secrets and lone surrogates. Most are clean: one check of the joined texts proves it."""
    joined = "\n".join(_strings(facts))
    if redacted(joined) == joined:
        return facts
    return {redacted(str(key)): _clean_value(each) for key, each in facts.items()}


def redacted(text: str) -> str:
    """Return a text without secrets and lone surrogates."""
    return replace_surrogates(redact(text))


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield str(key)
            if each is not None and not isinstance(each, int | float):
                yield from _strings(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _strings(each)


def _clean_value(value: object) -> object:
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, Mapping):
        return {redacted(str(key)): _clean_value(each) for key, each in value.items()}
    return [_clean_value(each) for each in value] if isinstance(value, list | tuple) else value
