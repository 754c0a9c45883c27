"""Prepare records for an index, whatever the engine: redact secrets, replace lone surrogates."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from memoryd.core.records import Facts, Record
from memoryd.core.secrets import redact
from memoryd.core.spans import replace_surrogates

_NO_TEXT = frozenset({bool, int, float, type(None)})
_NO_FACTS: Facts = {}
_DIGEST_CHARS = 64
_DIGEST = re.compile("[0-9a-f]{64}")


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
    facts: Facts


def clean_record(record: Record) -> CleanRecord:
    """Return the texts, the type and the facts of a record, redacted. Most are clean: one check of all of them proves
    it."""
    return _if_clean(record) or CleanRecord(text_of(record), redacted(record.type), clean(record.facts))


def clean_file(facts: Facts, records: Sequence[Record]) -> tuple[Facts, list[CleanRecord]]:
    """Return the facts and the records of a file, redacted. A file with a single memory is checked as a whole."""
    if len(records) == 1 and (cleaned := _if_clean(records[0], facts)) is not None:
        return facts, [cleaned]
    return clean(facts), [clean_record(each) for each in records]


def _if_clean(record: Record, more: Facts = _NO_FACTS) -> CleanRecord | None:
    """Return the record as it is; None if a text of it, or of the facts `more`, must be redacted."""
    tags, labels = "\n".join(map(one_line, record.tags)), "\n".join(record.labels)
    strings = [record.title, record.type, tags, labels, record.text]
    _add_strings(record.facts, strings)
    _add_strings(more, strings)
    joined = "\n".join(strings)
    if redacted(joined) != joined:
        return None
    return CleanRecord(Text(record.title, tags, labels, record.text), record.type, record.facts)


def _clean(text: str) -> str:
    return redacted(text) if text else ""


_clean_cached = lru_cache(maxsize=2_048)(_clean)  # many memories have the same tags and labels


def one_line(tag: str) -> str:
    """Return a tag without newlines, which separate the tags of a memory."""
    return tag.replace("\n", " ")


def clean(facts: Facts) -> Facts:
    """Return facts without secrets and lone surrogates. Most are clean: one check of the joined texts proves it."""
    strings: list[str] = []
    _add_strings(facts, strings)
    joined = "\n".join(strings)
    if redacted(joined) == joined:
        return facts
    return {redacted(str(key)): _clean_value(each) for key, each in facts.items()}


def redacted(text: str) -> str:
    """Return a text without secrets and lone surrogates."""
    return replace_surrogates(redact(text))


def _add_strings(value: object, found: list[str]) -> None:
    """Add every string in facts to `found`, keys included; a digest on its own is no secret."""
    if isinstance(value, str):
        if len(value) != _DIGEST_CHARS or _DIGEST.fullmatch(value) is None:
            found.append(value)
    elif isinstance(value, (dict, Mapping)):  # a dict needs no slow check of its abstract class
        for key, each in value.items():
            found.append(str(key))
            if type(each) not in _NO_TEXT:
                _add_strings(each, found)
    elif isinstance(value, list | tuple):
        for each in value:
            _add_strings(each, found)


def _clean_value(value: object) -> object:
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, Mapping):
        return {redacted(str(key)): _clean_value(each) for key, each in value.items()}
    return [_clean_value(each) for each in value] if isinstance(value, list | tuple) else value
