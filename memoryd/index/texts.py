"""Prepare records for an index, whatever the engine: redact secrets, replace lone surrogates and NUL characters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from memoryd.core.index import Identity, identity
from memoryd.core.records import Facts, Record
from memoryd.core.secrets import not_known_clean, redact
from memoryd.core.spans import is_encodable, replace_surrogates, sha256

_NO_TEXT = frozenset({bool, int, float, type(None)})
_TOGETHER = 32  # records
_DIGEST_CHARS = 64
_DIGEST = re.compile("[0-9a-f]{64}")


class Text(NamedTuple):
    """The searchable text of a memory, redacted, uncut and without NUL characters, at which a database would take it to
    end. `tags` and `labels` are joined by newlines."""

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


def content_digest(text: Text) -> str:
    """Return the digest of a text that unique ids are made of. It does not change when a memory is moved, archived or
    read."""
    return sha256("\0".join(text).encode())[:16]


def identity_of(record: Record) -> Identity:
    """Return the identity of a record, as an index returns it of the memory."""
    text = text_of(record)
    return identity(record.id, text.title, text.body)


class CleanRecord(NamedTuple):
    """The parts of a record that an index stores, redacted."""

    text: Text
    type: str
    facts: Facts


def clean_files(
    files: Sequence[tuple[Facts, Sequence[Record]]], *, together: bool = False
) -> tuple[list[Facts], list[CleanRecord]]:
    """Return the facts of files and all of their records, redacted. New files are best checked `together`; of a changed
    file most records were found clean before, which is remembered of each alone."""
    facts = [of_file for of_file, _ in files]
    records = [record for _, of_file in files for record in of_file]
    step = _TOGETHER if together else 1
    cleaned = [each for start in range(0, len(records), step) for each in _clean_records(records[start : start + step])]
    return facts if _is_clean(facts) else [*map(clean, facts)], cleaned


def _clean_records(records: Sequence[Record]) -> list[CleanRecord]:
    """Return the texts, the type and the facts of records, redacted. Most are clean: one check of all of them proves
    it."""
    cleaned = [
        CleanRecord(
            Text(each.title, "\n".join(map(one_line, each.tags)), "\n".join(each.labels), each.text),
            each.type,
            each.facts,
        )
        for each in records
    ]
    if _is_clean(cleaned):
        return cleaned
    if len(records) > 1:
        return [each for record in records for each in _clean_records([record])]
    return [CleanRecord(text_of(each), redacted(each.type), clean(each.facts)) for each in records]


def _is_clean(value: object) -> bool:
    """True if no string in the value, nested ones included, has a secret, a lone surrogate or a NUL character."""
    strings: list[str] = []
    _add_strings(value, strings)
    unique = dict.fromkeys(strings)
    joined, doubtful = "\n".join(unique), "\n".join(not_known_clean(unique))
    return "\0" not in joined and is_encodable(joined) and redact(doubtful) == doubtful


def _clean(text: str) -> str:
    return redacted(text).replace("\0", " ") if text else ""


_clean_cached = lru_cache(maxsize=2_048)(_clean)  # many memories have the same tags and labels


def one_line(tag: str) -> str:
    """Return a tag without newlines, which separate the tags of a memory, and NUL characters."""
    return tag.replace("\n", " ").replace("\0", " ")


def clean(facts: Facts) -> Facts:
    """Return facts without secrets and lone surrogates. Most are clean: one check of them all proves it."""
    return facts if _is_clean(facts) else {redacted(str(key)): _clean_value(each) for key, each in facts.items()}


def redacted(text: str) -> str:
    """Return a text without secrets and lone surrogates."""
    return replace_surrogates(redact(text))


def _add_strings(value: object, found: list[str]) -> None:
    """Add every string in facts to `found`, keys included; a digest on its own is no secret."""
    if isinstance(value, str):
        if len(value) != _DIGEST_CHARS or _DIGEST.fullmatch(value) is None:
            found.append(value)
    elif isinstance(value, (dict, Mapping)):  # a dict needs no slow check of its abstract class
        found.extend(map(str, value))
        for each in value.values():
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
