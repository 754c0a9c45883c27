"""What memories are searched by: their texts and the index over them, kept in step with the records.

Nothing enters unredacted. A memory whose text stays the same while its file is rewritten keeps its key, and with it
its words and its vector; so the cost follows the change. Keys are never used again for another text.

The index holds no texts of its own, so that what is taken out of it has to be told exactly as it was put in: from the
table of texts, by the rules of `core.words` (whose version the catalogue notes).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from memoryd.catalogue.rows import plain
from memoryd.catalogue.searching import one_line
from memoryd.core.records import Record
from memoryd.core.secrets import redact
from memoryd.core.text import Span
from memoryd.core.words import indexable


class Text(NamedTuple):
    """Redacted, whole. `tags` and `labels` are joined by newlines."""

    title: str
    tags: str
    labels: str
    body: str


Known = dict[Text, list[int]]
"""The keys of the records of one file, by their texts."""

_ANYWHERE = 2**62
_OF_FILE = (
    "SELECT key, title, tags, labels, body FROM records JOIN texts USING (key)"
    " WHERE path = ? AND start >= ? AND start < ? ORDER BY start"
)
_PUT = "INSERT INTO words (rowid, title, labels, body) VALUES (?,?,?,?)"
_TAKE_OUT = "INSERT INTO words (words, rowid, title, labels, body) VALUES ('delete',?,?,?,?)"


def known_of(db: sqlite3.Connection, path: bytes, within: Span | None = None) -> Known:
    """Of the whole file, or of what stands within some bytes of it."""
    known: Known = {}
    where = (path, within.start, within.end) if within is not None else (path, 0, _ANYWHERE)
    for key, *parts in db.execute(_OF_FILE, where):
        known.setdefault(Text(*parts), []).append(key)
    return known


def take_in(db: sqlite3.Connection, records: Sequence[Record], known: Known) -> list[tuple[int, str, str]]:
    """(key, title, tags) of each record, in order. Texts that are new enter the index; what is found in `known` is
    taken out of there."""
    row = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'records'").fetchone()
    last = int(row[0]) if row else 0
    taken: list[tuple[int, str, str]] = []
    new: list[tuple[int, Text]] = []
    for record in records:
        text = text_of(record)
        if keys := known.get(text):
            key = keys.pop(0)
        else:
            key = last = last + 1
            new.append((key, text))
        taken.append((key, text.title, text.tags))
    db.executemany("INSERT INTO texts VALUES (?,?,?)", ((key, text.labels, text.body) for key, text in new))
    db.executemany(_PUT, map(_indexed, new))
    return taken


def text_of(record: Record) -> Text:
    return Text(
        _clean(record.title),
        _clean_again("\n".join(map(one_line, record.tags))),
        _clean_again("\n".join(record.labels)),
        _clean(record.text),
    )


def _clean(text: str) -> str:
    return plain(redact(text)) if text else ""


_clean_again = lru_cache(maxsize=2_048)(_clean)  # many memories bear the same tags and labels


def leave_out(db: sqlite3.Connection, known: Known) -> None:
    """What is still in `known` goes, with its words and its vector."""
    old = [(key, text) for text, keys in known.items() for key in keys]
    db.executemany(_TAKE_OUT, map(_indexed, old))
    numbers = [(key,) for key, _ in old]
    db.executemany("DELETE FROM texts WHERE key = ?", numbers)
    db.executemany("DELETE FROM vectors WHERE key = ?", numbers)


def _indexed(each: tuple[int, Text]) -> tuple[int, str, str, str]:
    key, text = each
    return key, indexable(text.title), indexable(f"{text.labels}\n{text.tags}"), indexable(text.body)
