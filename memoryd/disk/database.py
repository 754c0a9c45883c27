"""A durable SQLite file: one connection behind one lock, every change one transaction.

WAL with synchronous=FULL, so that what a method returned from survives a kill and a power cut. SQLite's
errors are turned into what the rest of the house knows: a full or failing disk is an OSError, a busy
file a BusyError, anything else a `JournalError` that says what to do.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from memoryd.errors import BusyError, MemorydError

_APPLICATION = 0x6D656D64  # "memd": tells `file` and us whose database this is
_DISK_ERRORS = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_READONLY: errno.EROFS,
}


class JournalError(MemorydError):
    """The journal cannot be used: of a newer version, not ours, damaged or closed."""

    name = "journal"


class Database:
    """`schema[n]` are the statements that lead from version n to version n + 1."""

    def __init__(self, path: str, schema: Sequence[Sequence[str]]) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._durable = True
        _create_private(path)
        with plain_errors(path):
            self._connection = sqlite3.connect(path, timeout=5.0, isolation_level=None, check_same_thread=False)
        try:
            self._open(schema)
        except BaseException:
            self._connection.close()
            raise

    def _open(self, schema: Sequence[Sequence[str]]) -> None:
        with plain_errors(self.path):
            version = self._checked_version(len(schema))
            self._connection.row_factory = sqlite3.Row
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA fullfsync = 1")  # macOS: a plain fsync does not reach the platter
            self._connection.execute("PRAGMA foreign_keys = ON")
            self._connection.execute("PRAGMA temp_store = MEMORY")  # no bytes of memories in /var/tmp
        with self._writing() as db:
            for step in schema[version:]:
                for statement in step:
                    db.execute(statement)
            db.execute(f"PRAGMA user_version = {len(schema)}")
            db.execute(f"PRAGMA application_id = {_APPLICATION}")

    def _checked_version(self, known: int) -> int:
        version = int(self._connection.execute("PRAGMA user_version").fetchone()[0])
        owner = int(self._connection.execute("PRAGMA application_id").fetchone()[0])
        tables = int(self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
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
    def _writing(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """One transaction: all of the body or nothing. With `durable=False` the commit is not synced; it
        is safe against a kill and in order, but a power cut may take it (job times, not changes)."""
        with self._lock, plain_errors(self.path):
            self._sync(durable)
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                self._before(self._connection)
                yield self._connection
                self._connection.execute("COMMIT")
                self._after()
            except BaseException:
                if self._connection.in_transaction:  # SQLite has already rolled back on a full disk
                    self._connection.execute("ROLLBACK")
                raise

    def _before(self, db: sqlite3.Connection) -> None:
        """What comes first in every transaction."""

    def _after(self) -> None:
        """Once it is committed."""

    def _sync(self, durable: bool) -> None:
        """Changes of one kind come in a row, so it stays as it was set last."""
        if durable != self._durable:
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._durable = durable

    def _rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        with self._lock, plain_errors(self.path):
            return self._connection.execute(query, values).fetchall()

    def close(self) -> None:
        """Idempotent. Using a closed one raises JournalError."""
        with self._lock, plain_errors(self.path):
            self._connection.close()


def packed(text: str) -> bytes:
    """Paths and ids may hold surrogates (names that are not UTF-8), which SQLite's TEXT refuses."""
    return text.encode("utf-8", "surrogatepass")


def unpacked(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogatepass")


def said(text: str) -> str:
    """A sentence for people: what cannot be stored as text is shown escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _create_private(path: str) -> None:
    """The file exists with mode 0600 before SQLite opens it (its -wal and -shm copy that mode)."""
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
def plain_errors(path: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise _translated(error, path) from error


def _translated(error: sqlite3.Error, path: str) -> Exception:
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
    return JournalError(f"{path} cannot be used: {error}")
