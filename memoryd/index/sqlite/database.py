"""The SQLite file of an index: open it, query it, translate its errors to IndexUnavailable."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from memoryd.core import words
from memoryd.core.index import IndexUnavailable
from memoryd.index.sqlite.schema import TABLES, Row

SCHEMA = 7
CACHE_KIB = 8_192  # of each reader: the narrow tables of 100,000 memories
IDLE = 4  # readers that wait to be lent again
_ERRNO = {sqlite3.SQLITE_FULL: errno.ENOSPC, sqlite3.SQLITE_IOERR: errno.EIO}
# What SQLite says of a directory it may not write into, whatever the reason.
_AMBIGUOUS = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)


def _unavailable(error: sqlite3.Error, path: str) -> IndexUnavailable:
    """Translate an error of SQLite. It has no errno: for "read-only" and "cannot open" the file system is checked."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    number = _ERRNO.get(code) or (_refusal(path) if code in _AMBIGUOUS else None)
    message = f"the index {path} cannot be used: {error}"
    return IndexUnavailable(number, message) if number is not None else IndexUnavailable(message)


def _refusal(path: str) -> int | None:
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
        self._connection = self._translated(_open_reader if read_only else _open_or_rebuild, path)

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
        """Yield the rows of a query one by one."""
        try:
            yield from self._connection.execute(query, values)
        except sqlite3.Error as error:
            raise _unavailable(error, self.path) from error

    def run(self, statement: str, values: Sequence[object] = ()) -> None:
        """Execute a statement that returns no rows."""
        self._translated(self._connection.execute, statement, values)

    def run_many(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        """Execute a statement for each row of values."""
        self._translated(self._connection.executemany, statement, rows)

    def commit(self) -> None:
        """Make pending writes visible to readers."""
        self._translated(self._connection.commit)

    def rollback(self) -> None:
        """Undo the writes since the last commit."""
        self._translated(self._connection.rollback)

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
        """Rows changed since the connection was opened."""
        return self._connection.total_changes

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _translated(self, call: Callable[..., _Result], *values: Any) -> _Result:
        try:
            return call(*values)
        except sqlite3.Error as error:
            raise _unavailable(error, self.path) from error


_Result = TypeVar("_Result")


def _open_or_rebuild(path: str) -> sqlite3.Connection:
    """Open the file, or begin an empty one where it is missing, damaged or of another schema."""
    for attempt in (1, 2):
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # SQLite's own files take the mode of this one
        db = sqlite3.connect(path, timeout=10, check_same_thread=False)
        try:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA temp_store=MEMORY")  # no texts of memories in /var/tmp
            # A cache need not survive a power cut: what a cut tears is detected and built anew.
            db.execute("PRAGMA synchronous=OFF")
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version == SCHEMA and _same_words(db) and db.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok":
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
        for suffix in ("", "-wal", "-shm"):
            Path(path + suffix).unlink(missing_ok=True)
    raise AssertionError("an index just deleted is empty")


def _same_words(db: sqlite3.Connection) -> bool:
    """Check that the words were split by the current rules: only those can remove them from the index again."""
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


class Closing(Protocol):
    """Anything a pool can lend."""

    def close(self) -> None:
        """Release what it holds."""


Lent = TypeVar("Lent", bound=Closing)


class ConnectionPool(Generic[Lent]):
    """A pool of readers for any thread. Opening a connection costs more than most queries, so a few idle ones are kept;
    a reader whose block raised is closed."""

    def __init__(self, open_one: Callable[[], Lent]) -> None:
        self._open = open_one
        self._changing = threading.Lock()
        self._idle: list[Lent] = []
        self._closed = False

    @contextmanager
    def acquire(self) -> Iterator[Lent]:
        """Lend a reader for the block."""
        with self._changing:
            lent = self._idle.pop() if self._idle else None
        lent = lent or self._open()
        sound = False
        try:
            yield lent
            sound = True
        finally:
            with self._changing:
                kept = sound and not self._closed and len(self._idle) < IDLE
                if kept:
                    self._idle.append(lent)
            if not kept:
                lent.close()

    def close(self) -> None:
        """Close the idle readers; readers in use are closed when they are returned."""
        with self._changing:
            self._closed = True
            idle, self._idle = self._idle, []
        for each in idle:
            each.close()
