"""Keep the searchable texts and the full-text index in step with the records.

Nothing enters unredacted. A memory whose text stays the same while its file is rewritten keeps its key, and with it
its words and its vector; so the cost follows the change. Keys are never used again for another text.

The index holds no texts of its own, so that what is taken out of it has to be told exactly as it was put in: from the
table of texts, by the rules of `core.words` (whose version the index notes).
"""

from __future__ import annotations

from collections.abc import Sequence

from memoryd.core.records import Record
from memoryd.core.spans import Span
from memoryd.core.words import indexable
from memoryd.index.sqlite.database import Database
from memoryd.index.texts import Text, text_of

Known = dict[Text, list[int]]
"""The keys of the records of one file, by their texts."""

_ANYWHERE = 2**62
_OF_FILE = (
    "SELECT key, title, tags, labels, body FROM records JOIN texts USING (key)"
    " WHERE path = ? AND start >= ? AND start < ? ORDER BY start"
)
_PUT = "INSERT INTO words (rowid, title, labels, body) VALUES (?,?,?,?)"
_TAKE_OUT = "INSERT INTO words (words, rowid, title, labels, body) VALUES ('delete',?,?,?,?)"


def known_of(db: Database, path: bytes, within: Span | None = None) -> Known:
    """Return the known texts of a file, or of a range of its bytes."""
    known: Known = {}
    where = (path, within.start, within.end) if within is not None else (path, 0, _ANYWHERE)
    for key, *parts in db.rows(_OF_FILE, where):
        known.setdefault(Text(*parts), []).append(key)
    return known


def insert(db: Database, records: Sequence[Record], known: Known) -> list[tuple[int, str, str]]:
    """Add new texts to the index and return (key, title, tags) of each record, in order. Texts found in `known` keep
    their key and are taken out of `known`."""
    row = db.row("SELECT seq FROM sqlite_sequence WHERE name = 'records'")
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
    db.run_many("INSERT INTO texts VALUES (?,?,?)", ((key, text.labels, text.body) for key, text in new))
    db.run_many(_PUT, map(_indexed, new))
    return taken


def remove(db: Database, known: Known) -> None:
    """Remove the texts still in `known`, with their words and vectors."""
    old = [(key, text) for text, keys in known.items() for key in keys]
    db.run_many(_TAKE_OUT, map(_indexed, old))
    numbers = [(key,) for key, _ in old]
    db.run_many("DELETE FROM texts WHERE key = ?", numbers)
    db.run_many("DELETE FROM vectors WHERE key = ?", numbers)


def _indexed(each: tuple[int, Text]) -> tuple[int, str, str, str]:
    key, text = each
    return key, indexable(text.title), indexable(f"{text.labels}\n{text.tags}"), indexable(text.body)
