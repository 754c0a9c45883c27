"""A durable SQLite file: one connection behind one lock, every change one transaction.

WAL with synchronous=FULL: once a method has returned, its change survives a kill and a power cut. SQLite's errors are
translated: a full or failing disk into an OSError, a busy file into a BusyError, any other into a `JournalError` whose
hint says what to do.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from memoryd.errors import BusyError, MemorydError

_APPLICATION = 0x6D656D64  # "memd": identifies our databases, also to the `file` command
_DISK_ERRORS = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_READONLY: errno.EROFS,
}


class JournalError(MemorydError):
    """The journal cannot be used: it is of a newer version or another program, damaged or closed."""

    name = "journal"


class Database:
    """A SQLite file. `schema[n]`: the statements that migrate version n to n + 1. Thread-safe; hold `lock` to make
    several calls atomic."""

    def __init__(self, path: str, schema: Sequence[Sequence[str]]) -> None:
        self.path = path
        self.lock = threading.RLock()
        _create_private(path)
        with translate_errors(path):
            self.connection = sqlite3.connect(path, timeout=5.0, isolation_level=None, check_same_thread=False)
        try:
            self._open(schema)
        except BaseException:
            self.connection.close()
            raise

    def _open(self, schema: Sequence[Sequence[str]]) -> None:
        with translate_errors(self.path):
            version = self._check_version(len(schema))
            self.connection.row_factory = sqlite3.Row
            self.connection.execute("PRAGMA journal_mode = WAL")
            self.connection.execute("PRAGMA fullfsync = 1")  # macOS: a plain fsync does not reach the platter
            self.connection.execute("PRAGMA foreign_keys = ON")
            self.connection.execute("PRAGMA temp_store = MEMORY")  # no bytes of memories in /var/tmp
        with self.writing() as db:
            for step in schema[version:]:
                for statement in step:
                    db.execute(statement)
            db.execute(f"PRAGMA user_version = {len(schema)}")
            db.execute(f"PRAGMA application_id = {_APPLICATION}")

    def _check_version(self, known: int) -> int:
        version = int(self.connection.execute("PRAGMA user_version").fetchone()[0])
        owner = int(self.connection.execute("PRAGMA application_id").fetchone()[0])
        tables = int(self.connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
        if tables and owner != _APPLICATION:
            raise JournalError(
                f"{self.path} is a database of another program",
                hint="name another state directory, or move that file away",
            )
        if version > known:
            raise JournalError(
                f"{self.path} was written by a newer memoryd (version {version}; this one knows {known})",
                hint="start the newer memoryd; or move the file away, which gives up history and undo "
                "but touches no memory",
            )
        return version

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """Run the body as one transaction. With `durable=False` the commit is not synced: it survives a kill and keeps
        its order, but may be lost in a power cut (for job times, not for changes)."""
        with self.lock, translate_errors(self.path):
            self.connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            try:
                self.connection.execute("BEGIN IMMEDIATE")
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:  # SQLite has already rolled back on a full disk
                    self.connection.execute("ROLLBACK")
                raise

    def rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        """Return all rows of a query."""
        with self.lock, translate_errors(self.path):
            return self.connection.execute(query, values).fetchall()

    def close(self) -> None:
        """Close the connection; a second call does nothing. Later use raises JournalError."""
        with self.lock, translate_errors(self.path):
            self.connection.close()


FACT_TABLES = ("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",)


class Facts:
    """Small facts about a root, as JSON by key."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def get(self, key: str, default: Any = None) -> Any:
        """Return the JSON value stored under `key`."""
        rows = self._db.rows("SELECT value FROM meta WHERE key = ?", key)
        return json.loads(rows[0]["value"]) if rows else default

    def set(self, key: str, value: Any) -> None:
        """Store a JSON value under `key`; tuples come back as lists."""
        encoded = json.dumps(value)
        with self._db.writing() as db:
            db.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, encoded))


def to_blob(text: str) -> bytes:
    """Encode text for storage: paths and ids may contain surrogates (names that are not UTF-8), which SQLite's TEXT
    rejects."""
    return text.encode("utf-8", "surrogatepass")


def from_blob(stored: bytes) -> str:
    """Decode a value encoded by `to_blob`."""
    return stored.decode("utf-8", "surrogatepass")


def printable(text: str) -> str:
    """Escape what cannot be stored as text; for messages and names of ours."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def unreferenced(db: sqlite3.Connection, blobs: Iterable[str]) -> list[str]:
    """Return those of `blobs` that no journal step, quarantine entry or forgotten memory references, each once."""
    tables = ("steps", "quarantine", "forgotten")
    query = " UNION ".join(f"SELECT blob FROM {table} WHERE blob = ?1" for table in tables)  # noqa: S608 - those above
    return [blob for blob in sorted(set(blobs)) if db.execute(query, (blob,)).fetchone() is None]


def _create_private(path: str) -> None:
    """Create the file with mode 0600 before SQLite opens it (its -wal and -shm files copy that mode)."""
    directory = os.path.dirname(path) or "."
    os.makedirs(directory, mode=0o700, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    os.close(os.open(path, flags, 0o600))
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def translate_errors(path: str) -> Iterator[None]:
    """Translate SQLite's errors into OSError, BusyError or JournalError."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translate(error, path) from error


def _translate(error: sqlite3.Error, path: str) -> Exception:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _DISK_ERRORS:
        return OSError(_DISK_ERRORS[code], f"{os.strerror(_DISK_ERRORS[code])} ({error})", path)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return BusyError(f"{path} is in use by another program", hint="try again when it has finished")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return JournalError(
            f"{path} is damaged: {error}",
            hint="move the file (and its -wal and -shm) away and start again: history and undo of older "
            "changes are gone, memories and backups are not touched",
        )
    return JournalError(
        f"{path} cannot be used: {error}",
        hint="correct its mode; if it is damaged, move it (and its -wal and -shm) away, then `memoryd reload`",
    )
