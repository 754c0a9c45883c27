"""Questions of search engines to the catalogue: how common a word is, which memories match, what they say.

An expression is in the language of the index and made by `memoryd.search`, never by hand from what somebody typed.
Filters are part of each query, so that they apply before the best are taken.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from memoryd.catalogue.rows import path_of, plain
from memoryd.catalogue.vocabulary import Vocabulary, holding
from memoryd.core.asking import Filters
from memoryd.core.secrets import redact

# Title, labels with tags, body.
FIELDS = ("title", "labels", "text")
_SCORED = "w.rowid, -bm25(words, 3.0, 2.0, 1.0) AS score, r.created, r.weight, r.uses"
_ROWIDS = "SELECT rowid FROM words WHERE words MATCH ?"
_WHOLE_FIRST = "ORDER BY whole DESC, score DESC, w.rowid DESC LIMIT ?"
_FROM = "FROM words AS w CROSS JOIN records AS r ON r.key = w.rowid WHERE words MATCH ?"
_FROM_TEXTS = "FROM records AS r JOIN texts AS t USING (key)"
_FROM_WORDS = _FROM.replace(" WHERE", " CROSS JOIN texts AS t ON t.key = w.rowid WHERE")
_MADE = "ifnull(r.created, -1e18)"  # as it is indexed
_WHOLE = (
    "r.key, r.path, r.line, r.id, r.type, r.title, r.created, r.archived, r.tags, r.owner, r.weight, r.uses,"
    " t.labels, t.body"
)
_TOTALS = "SELECT block FROM words_data WHERE id = 1"  # kept by the index: how many rows, then words of each field
NEVER = -1e18
_COMMON = 1_000  # a count from here on is believed while not much has changed
_COUNTED = 4_000  # to here in any case
_LETTERS = 6.5  # of a word, with the space after it
_MOST_KEPT = 20_000  # words whose commonness is remembered


Match = tuple[int, float, float | None, float | None, int]
"""Key, what the index says (higher is better), when it was made (seconds), weight, uses."""


class Memory(NamedTuple):
    """All that the catalogue says of one memory, redacted. `labels` and `tags` are joined by newlines."""

    key: int
    path: str
    line: int
    id: str
    type: str
    title: str
    created: float | None
    archived: bool
    tags: str
    owner: str
    weight: float | None
    uses: int
    labels: str
    body: str


class Before(NamedTuple):
    """A place in a list: what comes after the memory that was last shown. `same`: whatever was made at its time comes
    after it too; otherwise what has a smaller id, or the same and a smaller key."""

    created: float | None
    id: str
    key: int
    same: bool = False


class Searching:
    """Reads through one connection, by one thread at a time."""

    def __init__(self, db: sqlite3.Connection, vocabulary: Vocabulary) -> None:
        self._db = db
        self._vocabulary = vocabulary
        self._version = -1
        self._size = self._words = 0
        self._frequencies: dict[str, int] = {}
        self._owners: tuple[str, ...] | None = None
        self._read: dict[int, Memory] | None = None  # in this snapshot

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Everything asked in the block is answered from one state, whatever the worker writes meanwhile."""
        self._db.execute("BEGIN")
        self._read = {}
        try:
            self._look()
            yield
        finally:
            self._read = None
            self._db.execute("COMMIT")

    def _look(self) -> None:
        """Forget what was remembered of another state. A first read is what begins the snapshot."""
        version = self._db.execute("PRAGMA data_version").fetchone()[0]
        if version == self._version:
            return
        self._version = version
        size, *words = _numbers(self._db.execute(_TOTALS).fetchone())
        alike = abs(size - self._size) * 20 < size
        common = {each: count for each, count in self._frequencies.items() if count >= _COMMON} if alike else {}
        self._frequencies, self._size, self._words = common, size, sum(words)
        self._owners = None

    @property
    def size(self) -> int:
        """How many memories there are, archived ones too."""
        return self._size

    @property
    def usual_length(self) -> float:
        """Characters of a text, about: the index counts words."""
        return max(_LETTERS * self._words / max(self._size, 1), 1.0)

    def frequency(self, expression: str) -> int:
        """In how many memories it matches. Nobody needs to know exactly how common a common word is: counting ends at
        a fifth of all."""
        known = self._frequencies.get(expression)
        if known is None:
            if len(self._frequencies) > _MOST_KEPT:
                self._frequencies.clear()
            most = max(self._size // 5, _COUNTED)
            query = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
            known = self._frequencies[expression] = self._db.execute(query, (expression, most)).fetchone()[0]
        return known

    def best(self, expression: str, filters: Filters, limit: int, *, newest: int = 0, within: str = "") -> list[Match]:
        """The best by the index's own measure, of those that match `within` as well. Where more than `newest` match,
        only the last of them that came in are measured: what so many say tells nothing."""
        where, values = conditions(filters)
        given: tuple[str | float, ...] = (expression, *values)
        if within:
            where += f" AND +w.rowid IN ({_ROWIDS})"
            given = (*given, within)
        if newest and self.frequency(expression) > newest:
            at = f"SELECT w.rowid {_FROM}{where} ORDER BY w.rowid DESC LIMIT 1 OFFSET ?"
            row = self._db.execute(at, (*given, newest)).fetchone()
            where, given = where + " AND w.rowid > ?", (*given, row[0] if row else 0)
        query = f"SELECT {_SCORED} {_FROM}{where} ORDER BY score DESC, w.rowid DESC LIMIT ?"
        return self._db.execute(query, (*given, limit)).fetchall()

    def best_with(self, expression: str, phrase: str, filters: Filters, limit: int) -> list[tuple[Match, bool]]:
        """The best by the index's own measure, before them those that match `phrase` as well; which is told."""
        where, values = conditions(filters)
        query = f"SELECT {_SCORED}, w.rowid IN ({_ROWIDS}) AS whole {_FROM}{where} {_WHOLE_FIRST}"
        rows = self._db.execute(query, (phrase, expression, *values, limit))
        return [(row[:5], bool(row[5])) for row in rows]

    def matching(self, expression: str, filters: Filters, most: int) -> list[Memory] | None:
        """Whole memories, the last that came in first; None where more than `most` match, whose texts are not read."""
        where, values = conditions(filters)
        query = f"SELECT w.rowid {_FROM}{where} ORDER BY w.rowid DESC LIMIT ?"
        keys = [key for (key,) in self._db.execute(query, (expression, *values, most + 1))]
        return list(self.memories(keys).values()) if len(keys) <= most else None

    def each(self, expression: str, filters: Filters) -> Iterator[Memory]:
        """The same, however many, one after the other."""
        where, values = conditions(filters)
        query = f"SELECT {_WHOLE} {_FROM_WORDS}{where} ORDER BY w.rowid DESC"
        return map(_memory, self._db.execute(query, (expression, *values)))

    def every(self, filters: Filters, *, after: int = 0, sign: str = "") -> Iterator[Memory]:
        """Whole memories with keys above `after`, the last that came in first; with `sign` in their text,
        whatever the case of ASCII."""
        where, values = conditions(filters)
        given: list[str | float] = [after, *values]
        if sign:
            where += " AND (instr(lower(t.body), ?) OR instr(lower(r.title), ?) OR instr(lower(r.tags), ?))"
            given += [sign] * 3
        query = f"SELECT {_WHOLE} {_FROM_TEXTS} WHERE r.key > ?{where} ORDER BY r.key DESC"
        return map(_memory, self._db.execute(query, given))

    def memories(self, keys: Sequence[int]) -> dict[int, Memory]:
        """Those that are there. One that was read in this snapshot is not read again."""
        read = self._read if self._read is not None else {}
        missing = [key for key in keys if key not in read]
        if missing:
            marks = ",".join("?" * len(missing))
            query = f"SELECT {_WHOLE} {_FROM_TEXTS} WHERE r.key IN ({marks})"
            read.update((row[0], _memory(row)) for row in self._db.execute(query, missing))
        return {key: read[key] for key in keys if key in read}

    def newest(self, filters: Filters, limit: int, before: Before | None) -> list[Memory]:
        """By the time they were made, those without any last; then by id and key, falling."""
        where, values = conditions(filters)
        given = [*values]
        if before is not None:
            made = NEVER if before.created is None else before.created
            where += f" AND {_MADE} <= ?"
            given.append(made)
            if not before.same:
                where += f" AND ({_MADE} < ? OR (r.id, r.key) < (?, ?))"
                given += [made, before.id, before.key]
        query = f"SELECT {_WHOLE} {_FROM_TEXTS} WHERE 1{where} ORDER BY {_MADE} DESC, r.id DESC, r.key DESC LIMIT ?"
        return [_memory(row) for row in self._db.execute(query, (*given, limit))]

    def owners(self) -> tuple[str, ...]:
        """The first and the last name of users whose memories are here: two mean several. Beside a user with a name,
        one without (a document in the root itself) is a user like any other."""
        if self._owners is None or self._read is None:  # outside a snapshot nobody has looked whether they still are
            query = "SELECT {}(owner) FROM records WHERE owner <> ''"
            ends = [self._db.execute(query.format(which)).fetchone()[0] for which in ("min", "max")]
            names = tuple(dict.fromkeys(name for name in ends if name is not None))
            nameless = len(names) == 1 and self._db.execute("SELECT 1 FROM records WHERE owner = '' LIMIT 1").fetchone()
            self._owners = ("", *names) if nameless else names
        return self._owners

    def words_with(self, piece: str, most: int) -> tuple[int, list[str] | None]:
        """The words that hold a piece (None: more than `most`), of the memories up to a key, which is told."""
        upto, words = self._vocabulary.made(self.last_key(), self._terms)
        return upto, holding(words, piece, most)

    def _terms(self) -> list[str]:
        return [row[0] for row in self._db.execute("SELECT term FROM vocabulary")]

    def last_key(self) -> int:
        row = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'records'").fetchone()
        return int(row[0]) if row else 0


def conditions(filters: Filters) -> tuple[str, tuple[str | float, ...]]:
    """SQL to stand behind a WHERE, about records called `r`, and its values."""
    parts: list[str] = []
    values: list[str | float] = []
    if not filters.archived:
        parts.append(" AND NOT r.archived")
    if filters.type is not None:
        parts.append(" AND r.type = ?")
        values.append(plain(filters.type))
    for tag in filters.tags:
        parts.append(" AND r.tags <> '' AND instr(char(10) || r.tags || char(10), ?)")
        values.append(f"\n{plain(redact(one_line(tag)))}\n")
    if filters.since is not None:
        parts.append(f" AND {_MADE} >= ?")
        values.append(filters.since)
    if filters.owner is not None:
        parts.append(" AND r.owner = ?")
        values.append(plain(filters.owner))
    return "".join(parts), tuple(values)


def _numbers(row: tuple[bytes] | None) -> list[int]:
    """Seven bits a byte, the high ones first; the last byte of a number has no eighth."""
    numbers, number = [], 0
    for byte in row[0] if row else b"":
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    return numbers or [0]


def one_line(tag: str) -> str:
    """Newlines part the tags of a memory from each other."""
    return tag.replace("\n", " ")


def _memory(row: Sequence[object]) -> Memory:
    key, path, line, id_, type_, title, created, archived, *rest = row
    return Memory(key, path_of(path), line, id_, type_, title, created, bool(archived), *rest)  # type: ignore[arg-type]  # as the columns are declared
