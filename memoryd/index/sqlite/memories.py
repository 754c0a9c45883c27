"""Read memories from the index: by key, by age, by owner, and by filters."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from memoryd.core.index import Before, Identity, Memory, MonthCount, identity
from memoryd.core.query import Filters, Term
from memoryd.core.spans import replace_surrogates
from memoryd.index.sqlite.database import Database, Row, key_of, path_of
from memoryd.index.texts import one_line, redacted

_FROM_TEXTS = "FROM records AS r JOIN texts AS t USING (key)"
_FROM_WORDS = (
    "FROM words AS w CROSS JOIN records AS r ON r.key = w.rowid CROSS JOIN texts AS t ON t.key = w.rowid"
    " WHERE words MATCH ?"
)
FROM_MATCHES = "FROM words AS w CROSS JOIN records AS r ON r.key = w.rowid WHERE words MATCH ?"
_TEXT = "r.key, r.title, r.tags, t.body, r.created, r.weight, r.uses"
_KEYS = "SELECT r.key FROM records AS r"
_MONTHS = (
    "SELECT strftime('%Y-%m', r.created, 'unixepoch') AS month, SUM(NOT r.archived), SUM(r.archived) FROM records AS r"
)
_CREATED = "ifnull(r.created, -1e18)"  # as in records_by_created
_UNDATED = -1e18
_HIGHEST = 2**63 - 1  # key
_LIKE = r"LIKE ? ESCAPE '\'"  # takes half as long as instr(lower(...))
_MAX_LIKE = 10_000  # characters; SQLite takes no pattern of more than 50,000 bytes
_WILDCARD, _ESCAPED = re.compile(r"[\\%_]"), r"\\\g<0>"
MAX_CACHED = 400_000  # characters of the memories that are kept for the next question
_ROW = 600  # characters that a memory counts besides its body
# Both read records_by_owner alone, which has only the records with an owner.
_NEXT_OWNER = "SELECT owner FROM records WHERE owner <> '' AND owner > ? ORDER BY owner LIMIT 1"
_ANY_WITHOUT_OWNER = "SELECT 1 WHERE (SELECT count(*) FROM records WHERE owner <> '') < (SELECT count(*) FROM records)"
_COLUMNS = (
    "r.key, r.path, r.line, r.id, r.type, r.title, r.created, r.archived, r.tags, r.owner, r.weight, r.uses,"
    " t.labels, t.body"
)


class MemoryText(NamedTuple):
    """The text of a memory without its labels, and what it is ranked by."""

    key: int
    title: str
    tags: str
    body: str
    created: float | None
    weight: float | None
    uses: int


class Memories:
    """Memory queries on one connection; used by one thread at a time."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._owners: tuple[str, ...] | None = None
        self._last_key: int | None = None
        self._inside = False  # a snapshot, in which what is cached is current
        self._cache: dict[int, Memory] = {}
        self._cached_chars = 0

    def begin(self, *, changed: bool) -> None:
        """Begin a snapshot, in which each memory is read once. `changed`: the index changed since the last one."""
        self._inside = True
        if changed:
            self._owners = self._last_key = None
            self._drop_memories()

    def end(self) -> None:
        """End the snapshot."""
        self._inside = False
        if self._cached_chars > MAX_CACHED:
            self._drop_memories()

    def _drop_memories(self) -> None:
        self._cache, self._cached_chars = {}, 0

    def memories(self, keys: Sequence[int]) -> dict[int, Memory]:
        """Return the memories with the given keys that exist, in that order."""
        cache = self._cache if self._inside else {}
        missing = [key for key in keys if key not in cache]
        if missing:
            marks = ",".join("?" * len(missing))
            rows = self._db.rows(f"SELECT {_COLUMNS} {_FROM_TEXTS} WHERE r.key IN ({marks})", missing)
            cache.update((row[0], _memory(row)) for row in rows)
            self._cached_chars += sum([_ROW + len(row[-1]) for row in rows])
        return {key: cache[key] for key in keys if key in cache}

    def newest(self, filters: Filters, limit: int, before: Before | None = None) -> list[Memory]:
        """Return memories by creation time, newest first and undated last; then by id and key, descending."""
        where, values = conditions(filters)
        given = [*values]
        if before is not None:
            created = _UNDATED if before.created is None else before.created
            where += f" AND {_CREATED} <= ?"
            given.append(created)
            if not before.same:
                where += f" AND ({_CREATED} < ? OR (r.id, r.key) < (?, ?))"
                given += [created, before.id, before.key]
        query = (
            f"SELECT {_COLUMNS} {_FROM_TEXTS} WHERE 1{where} ORDER BY {_CREATED} DESC, r.id DESC, r.key DESC LIMIT ?"
        )
        return list(map(_memory, self._db.rows(query, (*given, limit))))

    def months(self, filters: Filters) -> list[MonthCount]:
        """Count memories by the month of their creation (UTC), newest first and undated last."""
        where, values = conditions(filters)
        query = f"{_MONTHS} WHERE 1{where} GROUP BY month ORDER BY month DESC"
        return list(map(MonthCount._make, self._db.rows(query, values)))

    def matching(
        self, expression: str, filters: Filters, without: Collection[int], sign: str = ""
    ) -> Iterator[MemoryText]:
        """Yield every memory that matches an FTS5 expression and has `sign` in title, tags or body, ignoring the case
        of ASCII, newest key first, but those with the keys `without`."""
        where, values = conditions(filters)
        others, keys = _without("w.rowid", without)
        like, signs = _with_sign(sign)
        query = f"SELECT {_TEXT} {_FROM_WORDS}{where}{others}{like} ORDER BY w.rowid DESC"
        return map(MemoryText._make, self._db.stream(query, (expression, *values, *keys, *signs)))

    def few_matching(self, expression: str, filters: Filters, limit: int) -> list[Memory] | None:
        """Return the memories that match, newest first; None, without reading their texts, if there are more than
        `limit`."""
        where, values = conditions(filters)
        query = f"SELECT w.rowid {FROM_MATCHES}{where} ORDER BY w.rowid LIMIT ?"  # descending takes FTS5 more time
        keys = [key for (key,) in self._db.rows(query, (expression, *values, limit + 1))]
        return list(self.memories(keys[::-1]).values()) if len(keys) <= limit else None

    def all_with(
        self, sign: str, filters: Filters, without: Collection[int], above: int = 0, upto: int = _HIGHEST
    ) -> Iterator[MemoryText]:
        """Yield every memory with `sign` in title, tags or body, ignoring the case of ASCII, newest key first, but
        those with the keys `without`; only those with a key above `above`, up to `upto`."""
        where, values = conditions(filters)
        others, keys = _without("r.key", without)
        like, signs = _with_sign(sign)
        query = f"SELECT {_TEXT} {_FROM_TEXTS} WHERE r.key > ? AND r.key <= ?{where}{others}{like} ORDER BY r.key DESC"
        return map(MemoryText._make, self._db.stream(query, (above, upto, *values, *keys, *signs)))

    def keys_of(self, identity: str, filters: Filters) -> list[int]:
        """Return the keys of memories with exactly this id that pass the filters."""
        where, values = conditions(filters)
        query = f"{_KEYS} WHERE r.id = ?{where}"
        return [key for (key,) in self._db.rows(query, (replace_surrogates(identity), *values))]

    def identities(self, path: str | None = None) -> list[Identity]:
        """Return the identities of the memories in one file, or in all."""
        query = f"SELECT r.id, r.title, t.body {_FROM_TEXTS}"
        rows = self._db.stream(query) if path is None else self._db.stream(f"{query} WHERE r.path = ?", (key_of(path),))
        return [identity(*row) for row in rows]

    def owners(self) -> tuple[str, ...]:
        """Return the names of all owners, sorted; "" for memories without one."""
        if self._owners is None or not self._inside:  # outside a snapshot the cache may be outdated
            named: list[str] = []
            while row := self._db.row(_NEXT_OWNER, (named[-1] if named else "",)):
                named.append(row[0])
            row = self._db.row(_ANY_WITHOUT_OWNER if named else "SELECT 1 FROM records LIMIT 1")
            self._owners = ("", *named) if row else tuple(named)
        return self._owners

    def last_key(self) -> int:
        """Return the highest key ever used, whether its memory still exists or not."""
        if self._last_key is None or not self._inside:  # see above
            row = self._db.row("SELECT seq FROM sqlite_sequence WHERE name = 'records'")
            self._last_key = int(row[0]) if row else 0
        return self._last_key


def conditions(filters: Filters) -> tuple[str, tuple[str | float, ...]]:
    """Return SQL conditions to append to a WHERE clause, on records named `r`, and their values."""
    parts: list[str] = []
    values: list[str | float] = []
    if not filters.archived:
        parts.append(" AND NOT r.archived")
    if filters.type is not None:
        parts.append(" AND r.type = ?")
        values.append(replace_surrogates(filters.type))
    for tag in filters.tags:
        parts.append(" AND r.tags <> '' AND instr(char(10) || r.tags || char(10), ?)")
        values.append(f"\n{redacted(one_line(tag))}\n")
    if filters.since is not None:
        parts.append(f" AND {_CREATED} >= ?")
        values.append(filters.since)
    if filters.until is not None:
        parts.append(" AND r.created < ?")
        values.append(filters.until)
    if filters.owner is not None:
        parts.append(" AND r.owner = ?")
        values.append(replace_surrogates(filters.owner))
    return "".join(parts), tuple(values)


@lru_cache(maxsize=4_096)  # a question counts its terms several times
def term_expression(term: Term) -> str:
    """Render a term for FTS5, quoted, so that nothing in it is an operator."""
    if term.forms:
        return f"({' OR '.join(map(term_expression, forms_of(term)))})"
    text = term.text.replace('"', '""')
    return f'"{text}"*' if term.prefix else f'"{text}"'


def forms_of(term: Term) -> list[Term]:
    """Return the term without its forms, and each of them."""
    return [Term(term.text, term.prefix), *map(Term, term.forms)]


def all_of(terms: Iterable[Term]) -> str:
    """Render the condition that a memory has each term."""
    return " AND ".join(map(term_expression, terms))


def _with_sign(sign: str) -> tuple[str, Sequence[str]]:
    """Return an SQL condition for memories with `sign` in their text, and its values; none if it is too long."""
    if not sign or len(sign) > _MAX_LIKE:
        return "", ()
    like = f" AND (t.body {_LIKE} OR r.title {_LIKE} OR r.tags {_LIKE})"
    return like, [f"%{_WILDCARD.sub(_ESCAPED, sign)}%"] * 3


def _without(column: str, keys: Collection[int]) -> tuple[str, Collection[int]]:
    """Return an SQL condition that leaves out these keys, and its values."""
    return (f" AND {column} NOT IN ({','.join('?' * len(keys))})", keys) if keys else ("", ())


def _memory(row: Row) -> Memory:
    key, path, line, id_, type_, title, created, archived, *rest = row
    return Memory(key, path_of(path), line, id_, type_, title, created, bool(archived), *rest)
