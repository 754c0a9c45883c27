"""The catalogue of one store: a cache of what the files say, never a source of writing.

It makes start-up a stat pass instead of a parse, keeps memory use flat as stores grow, and answers readers
while the worker works. It can be deleted at any time; a damaged one is thrown away and built anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec

from memoryd.catalogue import texts
from memoryd.catalogue.lending import Lending
from memoryd.catalogue.opening import open_or_rebuild, open_reader
from memoryd.catalogue.rows import (
    COLUMNS,
    ENTRY,
    PLACE,
    RECORD,
    TOLD_APART,
    FileRow,
    Place,
    clean,
    file_row,
    file_values,
    key_of,
    path_of,
    place,
    plain,
    secretless,
)
from memoryd.catalogue.searching import Searching
from memoryd.catalogue.splicing import Hole, make_room
from memoryd.catalogue.vectors import Home, Vectors
from memoryd.catalogue.vocabulary import Vocabulary
from memoryd.core.findings import Finding
from memoryd.core.records import Document, Entry

MANY = 100  # files; of more the records are fetched by one query
PAGES = 256  # of the index that are written in one go
TOGETHER = 256  # changes that are committed at once


class Catalogue:
    """One writer (whoever has the root's turn); other threads read by what `reader()` lends them."""

    def __init__(
        self, path: str, *, read_only: bool = False, vocabulary: Vocabulary | None = None, home: Home | None = None
    ) -> None:
        self.path = path
        self._db = open_reader(path) if read_only else open_or_rebuild(path)
        vocabulary, home = vocabulary or Vocabulary(), home or Home()
        self.words = Searching(self._db, vocabulary)
        self.vectors = Vectors(self._db, home)
        # Not a method of this one: what is closed and let go must not be held by itself.
        self._readers = Lending(partial(Catalogue, path, read_only=True, vocabulary=vocabulary, home=home))
        self._together = False
        self._waiting = 0  # changes that are not committed yet
        self.untidy = not read_only

    def reader(self) -> AbstractContextManager[Catalogue]:
        """For any thread, for the time of the block."""
        return self._readers.lend()

    def close(self) -> None:
        self._readers.close()
        self._db.close()

    # --- what the worker writes

    @contextmanager
    def together(self) -> Iterator[None]:
        """Many changes one after the other are seen by readers a few hundred at a time: each commit has its price."""
        self._together = True
        try:
            yield
        finally:
            self._together, self._waiting = False, 0
            self._db.commit()

    @contextmanager
    def _change(self) -> Iterator[None]:
        """Whole or not at all; with one that fails those before it go that were not committed yet."""
        try:
            yield
        except BaseException:
            self._db.rollback()
            self._waiting = 0
            raise
        self._waiting += 1
        self.untidy = True
        if not self._together or self._waiting >= TOGETHER:
            self._db.commit()
            self._waiting = 0

    def tidy(self) -> bool:
        """Join some of the pieces that changes left of the index, which makes questions faster: a tenth of a second at
        most. False when nothing is left to do."""
        before = self._db.total_changes
        with self._db:
            self._db.execute("INSERT INTO words (words, rank) VALUES ('merge', ?)", (PAGES,))
        self.untidy = self._db.total_changes - before > 1
        return self.untidy

    def replace(self, row: FileRow, document: Document) -> None:
        """Forget what was known of the file and take the document instead."""
        with self._change():
            known = texts.known_of(self._db, key_of(row.path))
            self.vectors.drop_own(key_of(row.path), document.records)
            self._forget_rows(row.path)
            self._insert(row, document, known)
            texts.leave_out(self._db, known)

    def extend(self, row: FileRow, tail: Document, *, anew: Sequence[str] = ()) -> None:
        """The file grew: keep its records, add those of the tail; `row` describes the whole file. Findings of
        the codes `anew` are about the whole file: the tail's replace those known."""
        key = key_of(row.path)
        with self._change():
            self._db.execute("DELETE FROM files WHERE path = ?", (key,))
            self._db.executemany("DELETE FROM findings WHERE path = ? AND code = ?", [(key, code) for code in anew])
            self._insert(row, tail, {})

    def splice(self, row: FileRow, hole: Hole, document: Document) -> None:
        """The lines of the hole became those of the document; `row` describes the whole file as it is now."""
        key = key_of(row.path)
        with self._change():
            known = texts.known_of(self._db, key, hole.span)
            make_room(self._db, key, hole)
            self._insert(row, document, known)
            texts.leave_out(self._db, known)

    def restamp(self, row: FileRow) -> None:
        """The same content under a new fingerprint."""
        with self._change():
            self._put_file(row)

    def forget(self, path: str) -> None:
        with self._change():
            texts.leave_out(self._db, texts.known_of(self._db, key_of(path)))
            self._forget_rows(path)

    def set_uses(self, path: str, uses: Mapping[str, int]) -> None:
        """How often memories of one file were read, where the file itself does not say it."""
        rows = [(times, key_of(path), plain(identity)) for identity, times in uses.items()]
        with self._change():
            self._db.executemany("UPDATE records SET uses = ? WHERE path = ? AND id = ?", rows)

    def clear(self) -> None:
        with self._change():
            for table in ("files", "records", "findings", "texts", "vectors"):
                self._db.execute(f"DELETE FROM {table}")  # noqa: S608 - the names stand in the line above
            self._db.execute("INSERT INTO words(words) VALUES ('delete-all')")

    # --- what everybody reads

    def files(self) -> dict[str, FileRow]:
        rows = self._db.execute(f"SELECT {COLUMNS} FROM files")  # noqa: S608 - constant text
        return {row.path: row for row in map(file_row, rows)}

    def outlines(self) -> Iterator[tuple[str, str, int, int, int, int, Mapping[str, Any]]]:
        """(path, role, size, units, broken, records, facts) of each file: what layouts ask for, at half the cost."""
        decode = msgspec.json.Decoder(dict).decode
        rows = self._db.execute("SELECT path, role, size, units, broken, records, facts FROM files")
        return ((path_of(key), role, *numbers, decode(facts)) for key, role, *numbers, facts in rows)

    def file(self, path: str) -> FileRow | None:
        query = f"SELECT {COLUMNS} FROM files WHERE path = ?"  # noqa: S608 - constant text
        row = self._db.execute(query, (key_of(path),)).fetchone()
        return file_row(row) if row else None

    def knows(self, path: str) -> bool:
        return self._db.execute("SELECT 1 FROM files WHERE path = ?", (key_of(path),)).fetchone() is not None

    def entries(self, paths: Sequence[str]) -> Iterator[Entry]:
        """Records of these files, file by file in the order given, each in file order."""
        decode = msgspec.json.Decoder(dict).decode
        rows = self._rows_of_each(paths) if len(paths) < MANY else self._rows_in_one_pass(paths)
        for path, (_, line, identity, kind, archived, facts) in rows:
            yield Entry(path, line, identity, kind, bool(archived), decode(facts))

    def _rows_of_each(self, paths: Sequence[str]) -> Iterator[tuple[str, Sequence[Any]]]:
        query = f"SELECT {ENTRY} FROM records WHERE path = ? ORDER BY start"  # noqa: S608 - constant text
        for path in paths:
            for row in self._db.execute(query, (key_of(path),)):
                yield path, row

    def _rows_in_one_pass(self, paths: Sequence[str]) -> Iterator[tuple[str, Sequence[Any]]]:
        """One query for a folder of many small files. What the order given asks for later waits in `ahead`: next to
        nothing, since it is nearly that of the bytes."""
        rows = self._db.execute(f"SELECT {ENTRY} FROM records ORDER BY path, start")  # noqa: S608 - constant text
        groups = groupby(rows, key=itemgetter(0))
        ahead: dict[bytes, list[Sequence[Any]]] = {}
        last = b""
        for path in paths:
            key = key_of(path)
            while last < key and (group := next(groups, None)) is not None:
                last = group[0]
                ahead[last] = list(group[1])
            for row in ahead.pop(key, ()):
                yield path, row

    def live_count(self, path: str) -> int:
        """Memories of one file as an index counts them: the first of equal ids, without those marked archived."""
        query = "SELECT COUNT(DISTINCT id) FROM records WHERE path = ? AND NOT archived"
        return int(self._db.execute(query, (key_of(path),)).fetchone()[0])

    def paths_of(self, ids: Collection[str]) -> tuple[str, ...]:
        """The files that hold records with these ids, sorted."""
        query = "SELECT DISTINCT path FROM records WHERE id = ?"
        found = {path_of(row[0]) for identity in ids for row in self._db.execute(query, (plain(identity),))}
        return tuple(sorted(found))

    def places(self, identity: str) -> list[Place]:
        """Where memories with exactly this id stand; where none has it, those that bear it with `~` and six hex
        digits of their content, since more than one wanted it."""
        query = f"SELECT {PLACE} FROM records JOIN files USING (path) WHERE id "  # noqa: S608 - constant text
        asked = plain(identity)
        rows = self._db.execute(f"{query} = ?", (asked,)).fetchall()
        if not rows:
            bounds = (f"{asked}~", f"{asked}~g")
            found = map(place, self._db.execute(f"{query} > ? AND id < ?", bounds))
            return [each for each in found if TOLD_APART.fullmatch(each.id, len(asked))]
        return [place(row) for row in rows]

    def findings(self) -> list[Finding]:
        rows = self._db.execute("SELECT code, path, message, line, id FROM findings ORDER BY path, line")
        return [Finding(code, path_of(path), message, line, i) for code, path, message, line, i in rows]

    def codes_of(self, path: str) -> frozenset[str]:
        """The codes found in one file."""
        rows = self._db.execute("SELECT DISTINCT code FROM findings WHERE path = ?", (key_of(path),))
        return frozenset(str(code) for (code,) in rows)

    def paths_with(self, codes: Sequence[str]) -> list[tuple[str, str]]:
        """(path, code) of each file in which one of the codes was found, sorted."""
        marks = ", ".join("?" * len(codes))
        query = f"SELECT DISTINCT path, code FROM findings WHERE code IN ({marks})"  # noqa: S608 - marks alone
        return sorted((path_of(key), str(code)) for key, code in self._db.execute(query, tuple(codes)))

    def totals(self) -> tuple[int, int]:
        """Files and bytes of everything read."""
        row = self._db.execute("SELECT COUNT(*), COALESCE(SUM(size), 0) FROM files").fetchone()
        return int(row[0]), int(row[1])

    def finding_counts(self) -> dict[str, int]:
        """How often each code is found."""
        return dict(self._db.execute("SELECT code, COUNT(*) FROM findings GROUP BY code").fetchall())

    # --- inner workings

    def _forget_rows(self, path: str) -> None:
        key = (key_of(path),)
        self._db.execute("DELETE FROM files WHERE path = ?", key)
        self._db.execute("DELETE FROM records WHERE path = ?", key)
        self._db.execute("DELETE FROM findings WHERE path = ?", key)

    def _put_file(self, row: FileRow) -> None:
        self._db.execute("INSERT OR REPLACE INTO files VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", file_values(row))

    def _insert(self, row: FileRow, document: Document, known: texts.Known) -> None:
        self._put_file(row)
        key = key_of(row.path)
        encode = msgspec.json.Encoder().encode
        taken = texts.take_in(self._db, document.records, known)
        self._db.executemany(
            f"INSERT INTO records ({RECORD}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",  # noqa: S608 - constant text
            (
                (
                    number,
                    key,
                    r.span.start,
                    r.span.end,
                    r.line,
                    plain(r.id),
                    secretless(r.type),
                    title,
                    r.created,
                    r.used,
                    r.archived,
                    tags,
                    plain(r.owner),
                    r.weight,
                    r.uses,
                    encode(clean(r.facts)),
                )
                for r, (number, title, tags) in zip(document.records, taken, strict=True)
            ),
        )
        self.vectors.take_in(document.records, [number for number, _, _ in taken])
        self._db.executemany(
            "INSERT INTO findings VALUES (?,?,?,?,?)",
            ((key, f.code, f.line, plain(f.id) if f.id else None, secretless(f.message)) for f in document.findings),
        )
