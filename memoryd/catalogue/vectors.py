"""Vectors in the catalogue, packed: one a memory, of the model that made it.

A vector belongs to a text, and a key is never used for another text: so it dies with its record and needs no date.
A vector that an agent stored beside its memory stands under `own:SIZE` and is kept as it is; such a memory gets none
of another model. Vectors come in with rising keys; `home.changes` counts what came otherwise, or became another.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from struct import pack
from typing import NamedTuple

from memoryd.catalogue.rows import plain
from memoryd.catalogue.searching import conditions
from memoryd.core.asking import Filters
from memoryd.core.records import Record

OWN = "own:"
_MOST_ASKED = 500  # keys in one question

_LACKING = "LEFT JOIN vectors AS v ON v.key = r.key AND (v.model = ? OR v.model GLOB 'own:*') WHERE v.key IS NULL"
_TEXTS = "SELECT r.key, r.title, t.body, t.labels, r.tags FROM records AS r JOIN texts AS t USING (key)"
_SAMPLES = (
    "SELECT r.key, v.model, v.vector, r.title, t.body FROM records AS r"
    " CROSS JOIN vectors AS v ON v.key = r.key CROSS JOIN texts AS t ON t.key = r.key"
)
_BEGINNINGS = "SELECT r.key, r.title, substr(t.body, 1, ?), r.tags FROM records AS r JOIN texts AS t USING (key)"
_COUNT = "SELECT count(*) FROM records AS r"
_KEYS = "SELECT r.key FROM records AS r WHERE r.key"


class Home:
    """One catalogue with all its readers, while it is open: what is kept of it in memory hangs on this."""

    __slots__ = ("__weakref__", "changes", "highest")

    def __init__(self) -> None:
        self.changes = 0
        self.highest = 0


class Sample(NamedTuple):
    """One memory with the vector its agent stored."""

    key: int
    model: str
    vector: bytes
    text: str


class Vectors:
    """Reads and writes through one connection, by one thread at a time."""

    def __init__(self, db: sqlite3.Connection, home: Home) -> None:
        self._db = db
        self.home = home

    # --- what the worker writes

    def put(self, model: str, rows: Sequence[tuple[int, bytes]]) -> None:
        """Vectors made for these keys; what has gone meanwhile is left out."""
        query = (
            "INSERT OR REPLACE INTO vectors SELECT ?, ?, ? WHERE EXISTS (SELECT 1 FROM records WHERE key = ?)"
            " AND NOT EXISTS (SELECT 1 FROM vectors WHERE key = ? AND model GLOB 'own:*')"
        )
        with self._db:
            self._db.executemany(query, ((key, model, vector, key, key) for key, vector in rows))
        keys = [key for key, _ in rows]
        self.home.changes += min(keys, default=self.home.highest) < self.home.highest
        self.home.highest = max(keys, default=self.home.highest)

    def take_in(self, records: Sequence[Record], keys: Sequence[int]) -> None:
        """The vectors that agents stored; part of the transaction that takes in the records."""
        given = [(key, each.embedding) for each, key in zip(records, keys, strict=True) if each.embedding is not None]
        for at in range(0, len(given), _MOST_ASKED):
            some = given[at : at + _MOST_ASKED]
            known = self._known([key for key, _ in some])
            for key, embedding in some:
                size = len(embedding)
                found = (f"{OWN}{size}", pack(f"{size}f", *embedding))  # half the time of an array
                if known.get(key) != found:
                    self.home.changes += key in known
                    self._db.execute("INSERT OR REPLACE INTO vectors VALUES (?,?,?)", (key, *found))

    def _known(self, keys: Sequence[int]) -> dict[int, tuple[str, bytes]]:
        marks = ",".join("?" * len(keys))
        rows = self._db.execute(f"SELECT key, model, vector FROM vectors WHERE key IN ({marks})", keys)  # noqa: S608 - marks alone
        return {key: (model, vector) for key, model, vector in rows}

    def drop_own(self, path: bytes, records: Sequence[Record]) -> None:
        """Before a file is taken in anew: own vectors of memories of which some have none any more."""
        if any(record.embedding is None for record in records):
            # Asked first: a deletion by a subquery makes the index over the words write out what it holds.
            query = (
                "SELECT v.key FROM records AS r JOIN vectors AS v USING (key) WHERE r.path = ? AND v.model GLOB 'own:*'"
            )
            found = self._db.execute(query, (path,)).fetchall()
            self._db.executemany("DELETE FROM vectors WHERE key = ?", found)
            self.home.changes += bool(found)

    # --- what is still to be made

    def missing(self, model: str, after: int, limit: int) -> list[tuple[int, str]]:
        """(key, redacted text) of memories that have neither a vector of the model nor one of their own, by key."""
        query = f"{_TEXTS} {_LACKING} AND r.key > ? ORDER BY r.key LIMIT ?"
        rows = self._db.execute(query, (model, after, limit))
        return [(key, _said(*parts)) for key, *parts in rows]

    def left(self, model: str, after: int) -> int:
        """How many these are."""
        query = f"{_COUNT} {_LACKING} AND r.key > ?"
        return int(self._db.execute(query, (model, after)).fetchone()[0])

    # --- what search reads

    def load(self, model: str, after: int) -> Iterator[tuple[int, bytes]]:
        """(key, vector) of all of a model with keys above `after`, by key."""
        query = "SELECT key, vector FROM vectors WHERE key > ? AND model = ? ORDER BY key"
        return iter(self._db.execute(query, (after, model)))

    def keys_of(self, identity: str) -> list[int]:
        """Of the memories with exactly this id."""
        return [key for (key,) in self._db.execute("SELECT key FROM records WHERE id = ?", (plain(identity),))]

    def of(self, key: int) -> tuple[str, bytes] | None:
        """(model, vector) of one memory."""
        row = self._db.execute("SELECT model, vector FROM vectors WHERE key = ?", (key,)).fetchone()
        return (row[0], row[1]) if row else None

    def samples(self, owner: str | None, limit: int) -> list[Sample]:
        """Some memories with a vector of their own, of one owner or of anybody."""
        which, given = ("<> ''", ()) if owner is None else ("= ? AND r.owner <> ''", (plain(owner),))
        rows = self._db.execute(f"{_SAMPLES} WHERE r.owner {which} AND v.model GLOB 'own:*' LIMIT ?", (*given, limit))
        return [Sample(key, model, vector, body or title) for key, model, vector, title, body in rows]

    def beginnings(self, keys: Sequence[int], characters: int) -> dict[int, str]:
        """The title and as much of the text of each."""
        found: dict[int, str] = {}
        for at in range(0, len(keys), _MOST_ASKED):
            some = keys[at : at + _MOST_ASKED]
            marks = ",".join("?" * len(some))
            rows = self._db.execute(f"{_BEGINNINGS} WHERE r.key IN ({marks})", (characters, *some))
            found.update((key, _said(title, body, "", tags)) for key, title, body, tags in rows)
        return found

    def allowed(self, filters: Filters, keys: Sequence[int]) -> set[int]:
        """Those of the keys whose memories the filters let in."""
        where, values = conditions(filters)
        found: set[int] = set()
        for at in range(0, len(keys), _MOST_ASKED):
            some = keys[at : at + _MOST_ASKED]
            marks = ",".join("?" * len(some))
            query = f"{_KEYS} IN ({marks}){where}"
            found.update(key for (key,) in self._db.execute(query, (*some, *values)))
        return found

    def all_allowed(self, filters: Filters) -> list[int]:
        """The keys of all memories that the filters let in, rising."""
        where, values = conditions(filters)
        rows = self._db.execute(f"{_KEYS} > 0{where} ORDER BY r.key", values)
        return [key for (key,) in rows]


def _said(title: str, body: str, labels: str, tags: str) -> str:
    """All that a memory says, each thing once: titles are often the beginning of the text."""
    head = "" if body.startswith(title.rstrip("….")) else title
    return "\n".join(part for part in (head, body, labels, tags) if part)
