"""The SQLite file of an index: its tables, how to open and query it, its errors as IndexUnavailable."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from memoryd.core import words
from memoryd.core.index import FileRow, IndexUnavailable
from memoryd.core.places import Place
from memoryd.core.records import Facts, FileStats, Role
from memoryd.core.spans import Fingerprint
from memoryd.index.texts import Text, content_digest

Row = tuple[Any, ...]  # one value per column of the query

TABLES = """
CREATE TABLE files (
  path BLOB PRIMARY KEY, role TEXT NOT NULL,
  dev INTEGER, inode INTEGER, size INTEGER, mtime_ns INTEGER, ctime_ns INTEGER,
  digest TEXT NOT NULL, lines INTEGER NOT NULL, whole INTEGER NOT NULL,
  units INTEGER NOT NULL, broken INTEGER NOT NULL, records INTEGER NOT NULL,
  young INTEGER NOT NULL, pending INTEGER NOT NULL, facts BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE records (
  key INTEGER PRIMARY KEY AUTOINCREMENT, path BLOB NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL,
  line INTEGER NOT NULL, id TEXT NOT NULL, type TEXT NOT NULL, title TEXT NOT NULL,
  created REAL, used REAL, archived INTEGER NOT NULL, tags TEXT NOT NULL,
  owner TEXT NOT NULL, weight REAL, uses INTEGER NOT NULL, facts BLOB NOT NULL
);
CREATE INDEX records_by_path ON records (path, start);
CREATE INDEX records_by_id ON records (id);
CREATE INDEX records_by_created ON records (ifnull(created, -1e18), id);
CREATE INDEX records_by_owner ON records (owner) WHERE owner <> '';
CREATE TABLE texts (key INTEGER PRIMARY KEY, labels TEXT NOT NULL, body TEXT NOT NULL);
CREATE VIRTUAL TABLE words USING fts5(title, labels, body, content='', tokenize='ascii');
-- Segments are merged after a pause (`tidy`): meanwhile, few large merges cost half as much as many small ones.
INSERT INTO words (words, rank) VALUES ('usermerge', 2), ('automerge', 16), ('crisismerge', 64);
CREATE VIRTUAL TABLE vocabulary USING fts5vocab(words, row);
CREATE TABLE vectors (key INTEGER PRIMARY KEY, model TEXT NOT NULL, vector BLOB NOT NULL);
CREATE TABLE findings (path BLOB NOT NULL, code TEXT NOT NULL, line INTEGER, id TEXT, message TEXT NOT NULL);
CREATE INDEX findings_by_path ON findings (path);
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
INSERT_RECORD = (
    "INSERT INTO records (key, path, start, end, line, id, type, title, created, used, archived, tags, owner, weight,"
    " uses, facts) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
)
ENTRIES = "SELECT path, line, id, type, archived, facts FROM records"
FILES = (
    "SELECT path, role, dev, inode, size, mtime_ns, ctime_ns, digest, lines, whole, units, broken,"
    " records, young, pending, facts FROM files"
)
STAMPS = (
    "SELECT path, dev, inode, size, mtime_ns, ctime_ns, digest <> '' AND NOT young AND NOT pending, records FROM files"
)
SUMMARIES = "SELECT path, role, size, units, broken, records, facts FROM files"
_ROLES = {str(role): role for role in Role}  # ten times as fast as Role(...)
PLACES = (
    "SELECT path, role, start, end, line, id, archived, dev, inode, size, mtime_ns, ctime_ns, digest, young, key,"
    " title, tags, labels, body FROM records JOIN files USING (path) JOIN texts USING (key)"
)


encode: Callable[[object], bytes] = msgspec.json.Encoder().encode
decode_object: Callable[[bytes], Mapping[str, object]] = msgspec.json.Decoder(dict[str, object]).decode


def place(row: Row) -> Place:
    """Convert a row of PLACES."""
    path, role, start, end, line, identity, archived = row[:7]
    fingerprint, (digest, recently_modified, key, *text) = Fingerprint(*row[7:12]), row[12:]
    return Place(
        path_of(path),
        role,
        start,
        end,
        line,
        identity,
        bool(archived),
        fingerprint,
        digest,
        bool(recently_modified),
        key,
        content_digest(Text(*text)),
        identity,
    )


def key_of(path: str) -> bytes:
    """Encode a path as it is stored: as bytes, since names may not be UTF-8."""
    return os.fsencode(path)


@lru_cache(maxsize=4_096)
def path_of(key: bytes) -> str:
    """Decode a stored path."""
    return os.fsdecode(key)


def file_row(row: Row) -> FileRow:
    """Convert a row of FILES."""
    key, role, *numbers = row[:7]
    digest, lines, ends_with_newline, units, broken, records, recently_modified, pending, facts = row[7:]
    return FileRow(
        path_of(key),
        role,
        Fingerprint(*numbers),
        digest,
        lines,
        bool(ends_with_newline),
        units,
        broken,
        records,
        bool(recently_modified),
        bool(pending),
        msgspec.json.decode(facts),
    )


def file_summary(row: Row) -> FileStats:
    """Convert a row of SUMMARIES."""
    path, role, *counts, facts = row
    return FileStats._make((path_of(path), _ROLES[role], *counts, decode_object(facts)))


def file_values(row: FileRow, facts: Facts) -> tuple[object, ...]:
    """Convert a file to the columns of FILES. `facts`: its facts, redacted."""
    fingerprint = row.fingerprint
    return (
        key_of(row.path),
        row.role,
        fingerprint.dev,
        fingerprint.inode,
        fingerprint.size,
        fingerprint.mtime_ns,
        fingerprint.ctime_ns,
        row.digest,
        row.lines,
        row.ends_with_newline,
        row.units,
        row.broken,
        row.records,
        row.recently_modified,
        row.pending,
        encode(facts),
    )


SCHEMA = 9
CACHE_KIB = 8_192  # of each reader: the narrow tables of 100,000 memories
RELEASE_CACHE = "PRAGMA shrink_memory"  # the writer's 2 MB, after it has read or written far more than a change does
_ERRNO = {sqlite3.SQLITE_FULL: errno.ENOSPC, sqlite3.SQLITE_IOERR: errno.EIO}
# The errors of SQLite for a directory it cannot write into, whatever the reason.
_AMBIGUOUS = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)


_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _unavailable(error: sqlite3.Error, path: str) -> IndexUnavailable:
    """Translate an error of SQLite. It has no errno: for "read-only" and "cannot open" the file system is checked. A
    damaged file is removed: who has it open notices that (see service/state_files.py) and opens a new one."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _DAMAGED:
        with suppress(OSError):
            _remove(path)
    number = _ERRNO.get(code) or (_errno_of(path) if code in _AMBIGUOUS else None)
    message = f"the index {path} cannot be used: {error}"
    return IndexUnavailable(number, message) if number is not None else IndexUnavailable(message)


def _errno_of(path: str) -> int | None:
    try:
        found = os.statvfs(os.path.dirname(path))
    except OSError as error:
        return error.errno
    if found.f_flag & os.ST_RDONLY:
        return errno.EROFS
    return errno.ENOSPC if not found.f_bavail or (found.f_files and not found.f_favail) else None


class Database:
    """One connection, used by one thread at a time. Every method raises IndexUnavailable."""

    def __init__(self, path: str, *, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self._connection = self._translate_errors(_open_reader if read_only else _open_or_rebuild, path)

    def rows(self, query: str, values: Sequence[object] = ()) -> list[Row]:
        """Return all rows of a query."""
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise _unavailable(error, self.path) from error

    def row(self, query: str, values: Sequence[object] = ()) -> Row | None:
        """Return the first row of a query."""
        try:
            found: Row | None = self._connection.execute(query, values).fetchone()
        except sqlite3.Error as error:
            raise _unavailable(error, self.path) from error
        return found

    def stream(self, query: str, values: Sequence[object] = ()) -> Iterator[Row]:
        """Yield the rows of a query one by one. Who stops early may have closed the database before."""
        try:
            yield from chain(self._connection.execute(query, values))  # which, unlike a cursor, cannot be closed
        except sqlite3.Error as error:
            raise _unavailable(error, self.path) from error

    def run(self, statement: str, values: Sequence[object] = ()) -> None:
        """Execute a statement that returns no rows."""
        self._translate_errors(self._connection.execute, statement, values)

    def run_many(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        """Execute a statement for each row of values."""
        self._translate_errors(self._connection.executemany, statement, rows)

    def commit(self) -> None:
        """Make pending writes visible to readers."""
        self._translate_errors(self._connection.commit)

    def rollback(self) -> None:
        """Undo the writes since the last commit."""
        self._translate_errors(self._connection.rollback)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what is written in the block, or roll all of it back if the block raises."""
        try:
            yield
        except BaseException:
            self.rollback()
            raise
        self.commit()

    @property
    def total_changes(self) -> int:
        """The number of rows changed since the connection was opened."""
        return self._connection.total_changes

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _translate_errors(self, call: Callable[..., _Result], *values: Any) -> _Result:
        try:
            return call(*values)
        except sqlite3.Error as error:
            raise _unavailable(error, self.path) from error


_Result = TypeVar("_Result")


def _open_or_rebuild(path: str) -> sqlite3.Connection:
    """Open the file, or create an empty one if it is missing, damaged or of another schema."""
    for attempt in (1, 2):
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # SQLite's own files take the mode of this one
        db = sqlite3.connect(path, timeout=10, check_same_thread=False)
        try:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA temp_store=MEMORY")  # no texts of memories in /var/tmp
            # A cache need not survive a power cut: damage is detected, and the index rebuilt.
            db.execute("PRAGMA synchronous=OFF")
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version == SCHEMA and _same_words(db) and db.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok":
                db.execute(RELEASE_CACHE)
                return db
            if version == 0 and not db.execute("SELECT 1 FROM sqlite_master").fetchone():
                db.executescript(f"BEGIN; {TABLES} PRAGMA user_version={SCHEMA}; COMMIT;")
                with db:
                    db.execute("INSERT INTO meta VALUES ('words', ?)", (words.VERSION,))
                return db
        except sqlite3.DatabaseError:
            if attempt == 2:
                db.close()
                raise
        db.close()
        _remove(path)
    raise AssertionError("an index just deleted is empty")


def _remove(path: str) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(path + suffix).unlink(missing_ok=True)


def _same_words(db: sqlite3.Connection) -> bool:
    """True if the words were split by the current rules: only these rules can remove them from the index."""
    row = db.execute("SELECT value FROM meta WHERE key = 'words'").fetchone()
    return row is not None and row[0] == words.VERSION


def _open_reader(path: str) -> sqlite3.Connection:
    uri = f"{Path(path).absolute().as_uri()}?mode=ro"
    db = sqlite3.connect(uri, uri=True, timeout=2, check_same_thread=False, isolation_level=None)
    try:
        db.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
        db.execute("PRAGMA temp_store=MEMORY")
    except sqlite3.DatabaseError:
        db.close()
        raise
    return db
