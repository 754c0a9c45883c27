"""The catalogue of one store: a cache of what the files say, never a source of writing.

It makes start-up a stat pass instead of a parse, keeps memory use flat as stores grow, and answers readers
while the worker works. It can be deleted at any time; a damaged one is thrown away and built anew.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from memoryd.core.findings import Finding
from memoryd.core.plan import Fingerprint
from memoryd.core.records import Document, Entry

SCHEMA = 2
MANY = 100  # files; of more the records are fetched by one query

_TABLES = """
CREATE TABLE files (
  path BLOB PRIMARY KEY, role TEXT NOT NULL,
  dev INTEGER, inode INTEGER, size INTEGER, mtime_ns INTEGER, ctime_ns INTEGER,
  digest TEXT NOT NULL, lines INTEGER NOT NULL, whole INTEGER NOT NULL,
  units INTEGER NOT NULL, broken INTEGER NOT NULL, records INTEGER NOT NULL,
  young INTEGER NOT NULL, pending INTEGER NOT NULL, facts BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE records (
  key INTEGER PRIMARY KEY, path BLOB NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL,
  line INTEGER NOT NULL, id TEXT NOT NULL, type TEXT NOT NULL, title TEXT NOT NULL,
  created REAL, used REAL, archived INTEGER NOT NULL, tags TEXT NOT NULL, facts BLOB NOT NULL
);
CREATE INDEX records_by_path ON records (path, start);
CREATE INDEX records_by_id ON records (id);
CREATE TABLE findings (path BLOB NOT NULL, code TEXT NOT NULL, line INTEGER, id TEXT, message TEXT NOT NULL);
CREATE INDEX findings_by_path ON findings (path);
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class FileRow:
    """One file as last read. `whole`: it ended in a newline, so an append begins a line of its own.
    `young`: it was read so soon after its change that an equal fingerprint proves nothing yet."""

    path: str
    role: str
    fingerprint: Fingerprint
    digest: str
    lines: int = 0
    whole: bool = True
    units: int = 0
    broken: int = 0
    records: int = 0
    young: bool = False
    pending: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)


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
        key = _key(row.path)
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
        rows = self._db.execute(f"SELECT {_COLUMNS} FROM files")  # noqa: S608 - constant text
        return {row.path: row for row in map(_file_row, rows)}

    def outlines(self) -> Iterator[tuple[str, str, int, int, int, int, Mapping[str, Any]]]:
        """(path, role, size, units, broken, records, facts) of each file: what layouts ask for, at half the cost."""
        decode = msgspec.json.Decoder(dict).decode
        rows = self._db.execute("SELECT path, role, size, units, broken, records, facts FROM files")
        return ((_path(key), role, *numbers, decode(facts)) for key, role, *numbers, facts in rows)

    def file(self, path: str) -> FileRow | None:
        query = f"SELECT {_COLUMNS} FROM files WHERE path = ?"  # noqa: S608 - constant text
        row = self._db.execute(query, (_key(path),)).fetchone()
        return _file_row(row) if row else None

    def entries(self, paths: Sequence[str]) -> Iterator[Entry]:
        """Records of these files, file by file in the order given, each in file order."""
        decode = msgspec.json.Decoder(dict).decode
        rows = self._rows_of_each(paths) if len(paths) < MANY else self._rows_in_one_pass(paths)
        for path, (_, line, identity, kind, archived, facts) in rows:
            yield Entry(path, line, identity, kind, bool(archived), decode(facts))

    def _rows_of_each(self, paths: Sequence[str]) -> Iterator[tuple[str, Sequence[Any]]]:
        query = f"SELECT {_ENTRY} FROM records WHERE path = ? ORDER BY start"  # noqa: S608 - constant text
        for path in paths:
            for row in self._db.execute(query, (_key(path),)):
                yield path, row

    def _rows_in_one_pass(self, paths: Sequence[str]) -> Iterator[tuple[str, Sequence[Any]]]:
        """One query for a folder of many small files. What the order given asks for later waits in `ahead`: next to
        nothing, since it is nearly that of the bytes."""
        rows = self._db.execute(f"SELECT {_ENTRY} FROM records ORDER BY path, start")  # noqa: S608 - constant text
        groups = groupby(rows, key=itemgetter(0))
        ahead: dict[bytes, list[Sequence[Any]]] = {}
        last = b""
        for path in paths:
            key = _key(path)
            while last < key and (group := next(groups, None)) is not None:
                last = group[0]
                ahead[last] = list(group[1])
            for row in ahead.pop(key, ()):
                yield path, row

    def live_count(self, path: str) -> int:
        """Memories of one file as an index counts them: the first of equal ids, without those marked archived."""
        query = "SELECT COUNT(DISTINCT id) FROM records WHERE path = ? AND NOT archived"
        return int(self._db.execute(query, (_key(path),)).fetchone()[0])

    def paths_of(self, ids: Collection[str]) -> tuple[str, ...]:
        """The files that hold records with these ids, sorted."""
        query = "SELECT DISTINCT path FROM records WHERE id = ?"
        found = {_path(row[0]) for identity in ids for row in self._db.execute(query, (_text(identity),))}
        return tuple(sorted(found))

    def findings(self) -> list[Finding]:
        rows = self._db.execute("SELECT code, path, message, line, id FROM findings ORDER BY path, line")
        return [Finding(code, _path(path), message, line, i) for code, path, message, line, i in rows]

    def codes_of(self, path: str) -> frozenset[str]:
        """The codes found in one file."""
        rows = self._db.execute("SELECT DISTINCT code FROM findings WHERE path = ?", (_key(path),))
        return frozenset(str(code) for (code,) in rows)

    def totals(self) -> tuple[int, int]:
        """Files and bytes of everything read."""
        row = self._db.execute("SELECT COUNT(*), COALESCE(SUM(size), 0) FROM files").fetchone()
        return int(row[0]), int(row[1])

    def finding_counts(self) -> dict[str, int]:
        """How often each code is found."""
        return dict(self._db.execute("SELECT code, COUNT(*) FROM findings GROUP BY code").fetchall())

    # --- inner workings

    def _forget(self, path: str) -> None:
        key = (_key(path),)
        self._db.execute("DELETE FROM files WHERE path = ?", key)
        self._db.execute("DELETE FROM records WHERE path = ?", key)
        self._db.execute("DELETE FROM findings WHERE path = ?", key)

    def _put_file(self, row: FileRow) -> None:
        print_ = row.fingerprint
        self._db.execute(
            "INSERT OR REPLACE INTO files VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            (
                _key(row.path),
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
                msgspec.json.encode(_clean(row.facts)),
            ),
        )

    def _insert(self, row: FileRow, document: Document) -> None:
        self._put_file(row)
        key = _key(row.path)
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
                    _text(r.id),
                    r.type,
                    _text(r.title),
                    r.created,
                    r.used,
                    r.archived,
                    _text("\n".join(r.tags)),
                    encode(_clean(r.facts)),
                )
                for r in document.records
            ),
        )
        self._db.executemany(
            "INSERT INTO findings VALUES (?,?,?,?,?)",
            ((key, f.code, f.line, _text(f.id) if f.id else None, _text(f.message)) for f in document.findings),
        )


def _open_or_rebuild(path: str) -> sqlite3.Connection:
    """Open the catalogue, or begin an empty one where it is missing, damaged or of another schema."""
    for attempt in (1, 2):
        db = sqlite3.connect(path, timeout=10, check_same_thread=False)
        try:
            db.execute("PRAGMA journal_mode=WAL")
            # A cache need not survive a power cut: what a cut tears is detected and built anew.
            db.execute("PRAGMA synchronous=OFF")
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version == SCHEMA and db.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok":
                return db
            if version == 0 and not db.execute("SELECT 1 FROM sqlite_master").fetchone():
                db.executescript(f"BEGIN; {_TABLES} PRAGMA user_version={SCHEMA}; COMMIT;")
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


def _key(path: str) -> bytes:
    return os.fsencode(path)


def _path(key: bytes) -> str:
    return os.fsdecode(key)


def _text(text: str) -> str:
    """SQLite keeps no lone surrogates, which Python's JSON lets in."""
    return text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text


def _clean(facts: object) -> object:
    try:
        msgspec.json.encode(facts)
    except UnicodeEncodeError:
        assert isinstance(facts, dict)
        return {key: _clean_value(value) for key, value in facts.items()}
    return facts


def _clean_value(value: object) -> object:
    if isinstance(value, str):
        return _text(value)
    return [_clean_value(element) for element in value] if isinstance(value, list) else value


_ENTRY = "path, line, id, type, archived, facts"
_COLUMNS = (
    "path, role, dev, inode, size, mtime_ns, ctime_ns, digest, lines, whole, units, broken,"
    " records, young, pending, facts"
)


def _file_row(row: Sequence[Any]) -> FileRow:
    key, role, *numbers = row[:7]
    digest, lines, whole, units, broken, records, young, pending, facts = row[7:]
    return FileRow(
        _path(key),
        role,
        Fingerprint(*numbers),
        digest,
        lines,
        bool(whole),
        units,
        broken,
        records,
        bool(young),
        bool(pending),
        msgspec.json.decode(facts),
    )
