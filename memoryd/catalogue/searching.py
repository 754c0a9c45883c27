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
from memoryd.core.asking import Filters
from memoryd.core.secrets import redact

# Title, labels with tags, body.
FIELDS = ("title", "labels", "text")
_SCORED = "w.rowid, -bm25(words, 3.0, 2.0, 1.0) AS score, r.created, r.weight, r.uses"
_FROM = "FROM words AS w CROSS JOIN records AS r ON r.key = w.rowid WHERE words MATCH ?"
_WHOLE = (
    "r.key, r.path, r.line, r.id, r.type, r.title, r.created, r.archived, r.tags, r.owner, r.weight, r.uses,"
    " t.labels, t.body"
)
_TOTALS = "SELECT block FROM words_data WHERE id = 1"  # kept by the index: how many rows, then words of each field
_MOST_KEPT = 20_000  # words whose commonness is remembered


class Match(NamedTuple):
    """`score` is what the index says, higher is better; `created` in seconds."""

    key: int
    score: float
    created: float | None
    weight: float | None
    uses: int


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


class Searching:
    """Reads through one connection, by one thread at a time."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._version = -1
        self._size = 0
        self._frequencies: dict[str, int] = {}

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Everything asked in the block is answered from one state, whatever the worker writes meanwhile."""
        self._db.execute("BEGIN")
        try:
            self._look()
            yield
        finally:
            self._db.execute("COMMIT")

    def _look(self) -> None:
        """Forget what was remembered of another state. A first read is what begins the snapshot."""
        version = self._db.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version or len(self._frequencies) > _MOST_KEPT:
            self._version = version
            self._frequencies.clear()
            self._size = _first_number(self._db.execute(_TOTALS).fetchone())

    @property
    def size(self) -> int:
        """How many memories there are, archived ones too."""
        return self._size

    def frequency(self, expression: str) -> int:
        """In how many memories it matches."""
        known = self._frequencies.get(expression)
        if known is None:
            query = "SELECT count(*) FROM words WHERE words MATCH ?"
            known = self._frequencies[expression] = self._db.execute(query, (expression,)).fetchone()[0]
        return known

    def best(self, expression: str, filters: Filters, limit: int, newest: int) -> list[Match]:
        """The best by the index's own measure. Where more than `newest` match, only the last of them that came in
        are measured: what so many say tells nothing, and measuring each would take too long."""
        where, values = conditions(filters)
        query = f"SELECT {_SCORED} {_FROM}{where} ORDER BY score DESC, w.rowid DESC LIMIT ?"
        given: tuple[str | float, ...] = (expression, *values)
        if newest and self.frequency(expression) > newest:
            at = f"SELECT w.rowid {_FROM}{where} ORDER BY w.rowid DESC LIMIT 1 OFFSET ?"
            row = self._db.execute(at, (*given, newest)).fetchone()
            if row:
                query = query.replace(" ORDER", " AND w.rowid > ? ORDER")
                given = (*given, row[0])
        return [Match(*each) for each in self._db.execute(query, (*given, limit))]

    def matching(self, expression: str | None, filters: Filters) -> Iterator[Memory]:
        """Whole memories, the last that came in first; None: all of them."""
        where, values = conditions(filters)
        if expression is None:
            query = f"SELECT {_WHOLE} FROM records AS r JOIN texts AS t USING (key) WHERE 1{where} ORDER BY r.key DESC"  # noqa: S608 - constant text
            rows = self._db.execute(query, values)
        else:
            query = f"SELECT {_WHOLE} {_FROM}{where} ORDER BY w.rowid DESC"
            query = query.replace(" WHERE", " JOIN texts AS t ON t.key = w.rowid WHERE", 1)
            rows = self._db.execute(query, (expression, *values))
        return map(_memory, rows)

    def memories(self, keys: Sequence[int]) -> dict[int, Memory]:
        marks = ",".join("?" * len(keys))
        query = f"SELECT {_WHOLE} FROM records AS r JOIN texts AS t USING (key) WHERE r.key IN ({marks})"  # noqa: S608 - marks alone
        return {row[0]: _memory(row) for row in self._db.execute(query, tuple(keys))}

    def owners(self) -> tuple[str, ...]:
        """The first and the last name of users whose memories are here: two mean several."""
        query = "SELECT {}(owner) FROM records WHERE owner <> ''"
        ends = [self._db.execute(query.format(which)).fetchone()[0] for which in ("min", "max")]
        return tuple(dict.fromkeys(name for name in ends if name is not None))

    def vocabulary(self) -> Iterator[str]:
        """Every word of the index."""
        return (row[0] for row in self._db.execute("SELECT term FROM vocabulary"))

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
        parts.append(" AND instr(char(10) || r.tags || char(10), ?)")
        values.append(f"\n{plain(redact(one_line(tag)))}\n")
    if filters.since is not None:
        parts.append(" AND r.created >= ?")
        values.append(filters.since)
    if filters.owner is not None:
        parts.append(" AND r.owner = ?")
        values.append(plain(filters.owner))
    return "".join(parts), tuple(values)


def _first_number(row: tuple[bytes] | None) -> int:
    """Seven bits a byte, the high ones first; the last byte has no eighth."""
    number = 0
    for byte in row[0] if row else b"":
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            break
    return number


def one_line(tag: str) -> str:
    """Newlines part the tags of a memory from each other."""
    return tag.replace("\n", " ")


def _memory(row: Sequence[object]) -> Memory:
    key, path, line, id_, type_, title, created, archived, *rest = row
    return Memory(key, path_of(path), line, id_, type_, title, created, bool(archived), *rest)  # type: ignore[arg-type]  # as the columns are declared
