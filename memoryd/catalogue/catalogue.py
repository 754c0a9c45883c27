"""The catalogue of one store: a cache of what the files say, never a source of writing.

It makes start-up a stat pass instead of a parse, keeps memory use flat as stores grow, and answers readers
while the worker works. It can be deleted at any time; a damaged one is thrown away and built anew.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from memoryd.catalogue.rows import COLUMNS, ENTRY, TABLES, FileRow, clean, file_row, key_of, path_of, plain
from memoryd.core.findings import Finding
from memoryd.core.records import Document, Entry
from memoryd.core.secrets import redact

SCHEMA = 3
MANY = 100  # files; of more the records are fetched by one query


class Catalogue:
    """One writer (the root's worker); readers in other threads open their own with `reader()`."""

    def __init__(self, path: str, *, read_only: bool = False) -> None:
        self.path = path
        self._db = _open_reader(path) if read_only else _open_or_rebuild(path)

    def reader(self) -> closing[Catalogue]:
        return closing(Catalogue(self.path, read_only=True))

    def close(self) -> None:
        self._db.close()

    # --- what the worker writes

    def replace(self, row: FileRow, document: Document) -> None:
        """Forget what was known of the file and take the document instead."""
        with self._db:
            self._forget(row.path)
            self._insert(row, document)

    def extend(self, row: FileRow, tail: Document, *, anew: Sequence[str] = ()) -> None:
        """The file grew: keep its records, add those of the tail; `row` describes the whole file. Findings of
        the codes `anew` are about the whole file: the tail's replace those known."""
        key = key_of(row.path)
        with self._db:
            self._db.execute("DELETE FROM files WHERE path = ?", (key,))
            self._db.executemany("DELETE FROM findings WHERE path = ? AND code = ?", [(key, code) for code in anew])
            self._insert(row, tail)

    def restamp(self, row: FileRow) -> None:
        """The same content under a new fingerprint."""
        with self._db:
            self._put_file(row)

    def forget(self, path: str) -> None:
        with self._db:
            self._forget(path)

    def clear(self) -> None:
        with self._db:
            for table in ("files", "records", "findings"):
                self._db.execute(f"DELETE FROM {table}")  # noqa: S608 - the names stand in the line above

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

    def _forget(self, path: str) -> None:
        key = (key_of(path),)
        self._db.execute("DELETE FROM files WHERE path = ?", key)
        self._db.execute("DELETE FROM records WHERE path = ?", key)
        self._db.execute("DELETE FROM findings WHERE path = ?", key)

    def _put_file(self, row: FileRow) -> None:
        print_ = row.fingerprint
        self._db.execute(
            "INSERT OR REPLACE INTO files VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            (
                key_of(row.path),
                row.role,
                print_.dev,
                print_.inode,
                print_.size,
                print_.mtime_ns,
                print_.ctime_ns,
                row.digest,
                row.lines,
                row.whole,
                row.units,
                row.broken,
                row.records,
                row.young,
                row.pending,
                msgspec.json.encode(clean(row.facts)),
            ),
        )

    def _insert(self, row: FileRow, document: Document) -> None:
        self._put_file(row)
        key = key_of(row.path)
        encode = msgspec.json.Encoder().encode
        self._db.executemany(
            "INSERT INTO records (path, start, end, line, id, type, title, created, used, archived, tags, facts)"
            " VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",
            (
                (
                    key,
                    r.span.start,
                    r.span.end,
                    r.line,
                    plain(r.id),
                    r.type,
                    plain(redact(r.title)),
                    r.created,
                    r.used,
                    r.archived,
                    plain("\n".join(r.tags)),
                    encode(clean(r.facts)),
                )
                for r in document.records
            ),
        )
        self._db.executemany(
            "INSERT INTO findings VALUES (?,?,?,?,?)",
            ((key, f.code, f.line, plain(f.id) if f.id else None, plain(f.message)) for f in document.findings),
        )


def _open_or_rebuild(path: str) -> sqlite3.Connection:
    """Open the catalogue, or begin an empty one where it is missing, damaged or of another schema."""
    for attempt in (1, 2):
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # SQLite's own files take the mode of this one
        db = sqlite3.connect(path, timeout=10, check_same_thread=False)
        try:
            db.execute("PRAGMA journal_mode=WAL")
            # A cache need not survive a power cut: what a cut tears is detected and built anew.
            db.execute("PRAGMA synchronous=OFF")
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version == SCHEMA and db.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok":
                return db
            if version == 0 and not db.execute("SELECT 1 FROM sqlite_master").fetchone():
                db.executescript(f"BEGIN; {TABLES} PRAGMA user_version={SCHEMA}; COMMIT;")
                return db
        except sqlite3.DatabaseError:
            if attempt == 2:
                db.close()
                raise
        db.close()
        for suffix in ("", "-wal", "-shm"):
            Path(path + suffix).unlink(missing_ok=True)
    raise AssertionError("a catalogue just deleted is empty")


def _open_reader(path: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True, timeout=2, check_same_thread=False)
