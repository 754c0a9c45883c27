"""Rows of the journal about copies: the backups memoryd made (in sequence), and quarantined content."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from msgspec import Struct

from memoryd.core.retention import Quality
from memoryd.disk.journal.database import Database, from_blob, printable, to_blob, unreferenced

BACKUP_TABLES = (
    # AUTOINCREMENT: a number is never used twice, also when the newest backup is deleted
    """CREATE TABLE backups (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, id BLOB NOT NULL UNIQUE, file BLOB NOT NULL,
        name BLOB NOT NULL, taken REAL NOT NULL, bytes INTEGER NOT NULL, sha256 TEXT NOT NULL,
        valid INTEGER NOT NULL, units INTEGER NOT NULL, records INTEGER NOT NULL,
        pinned INTEGER NOT NULL DEFAULT 0)""",
    """CREATE TABLE quarantine (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, file BLOB NOT NULL, sha256 TEXT NOT NULL,
        bytes INTEGER NOT NULL, reason TEXT NOT NULL, at REAL NOT NULL, blob TEXT NOT NULL,
        UNIQUE (file, sha256))""",
)


class BackupRow(Struct, frozen=True):
    """A backup memoryd made. `id`: its file name. `valid`: the verdict of the last read."""

    seq: int
    id: str
    file: str
    name: str
    taken: float
    bytes: int
    sha256: str
    valid: bool
    quality: Quality
    pinned: bool


PART = "removed from the file: "
"""How the reason for the quarantine of a part of a file begins, in contrast to that of a whole file."""


class QuarantineEntry(Struct, frozen=True):
    """Quarantined content of `file`, in the blob store under `blob`; `at` in seconds since the epoch."""

    seq: int
    file: str
    sha256: str
    bytes: int
    reason: str
    at: float
    blob: str

    @property
    def is_part(self) -> bool:
        """True for memories that were removed from the file, which are not the whole file."""
        return self.reason.startswith(PART)


class BackupTable:
    """The backups that memoryd made, in the order they were made."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(self, name: str, file: str, *, taken: float, size: int, sha256: str, quality: Quality) -> BackupRow:
        """Add a backup. A name that is used again (its file was deleted by hand within the same second) gets a new
        number. Not synced: the copy itself is, and a copy whose row was lost in a power cut is judged by its content.
        """
        with self._db.writing(durable=False) as db:
            db.execute("DELETE FROM backups WHERE id = ?", (to_blob(name),))
            values = (to_blob(name), to_blob(file), to_blob(name), taken, size, sha256)
            seq = db.execute(
                "INSERT INTO backups (id, file, name, taken, bytes, sha256, valid, units, records) "
                "VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?)",
                (*values, quality.units, quality.records),
            ).lastrowid
        return BackupRow(seq or 0, name, file, name, taken, size, sha256, True, quality, False)

    def rows(self, file: str | None = None) -> list[BackupRow]:
        """Return the rows of one file, or of all, in the order they were made."""
        if file is None:
            return [_backup_row(row) for row in self._db.rows("SELECT * FROM backups ORDER BY seq")]
        query = "SELECT * FROM backups WHERE file = ? ORDER BY seq"
        return [_backup_row(row) for row in self._db.rows(query, to_blob(file))]

    def remove(self, ids: Iterable[str]) -> None:
        """Remove the rows of backups whose files are gone."""
        with self._db.writing(durable=False) as db:
            db.executemany("DELETE FROM backups WHERE id = ?", [(to_blob(each),) for each in ids])

    def mark(self, backup_id: str, *, valid: bool | None = None, pinned: bool | None = None) -> None:
        """Record whether a backup is valid or pinned; None leaves a value unchanged."""
        with self._db.writing() as db:
            db.execute(
                "UPDATE backups SET valid = coalesce(?, valid), pinned = coalesce(?, pinned) WHERE id = ?",
                (valid, pinned, to_blob(backup_id)),
            )


class QuarantineTable:
    """Content in quarantine: damaged, or removed from a file."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(self, file: str, sha256: str, size: int, reason: str, *, now: float) -> bool:
        """Add content whose blob is stored; False if the same content of the same file is already in quarantine."""
        with self._db.writing() as db:
            added = db.execute(
                "INSERT OR IGNORE INTO quarantine (file, sha256, bytes, reason, at, blob) VALUES (?, ?, ?, ?, ?, ?)",
                (to_blob(file), sha256, size, printable(reason), now, sha256),
            )
            return added.rowcount == 1

    def entries(self) -> list[QuarantineEntry]:
        """Return all entries, oldest first."""
        rows = self._db.rows("SELECT * FROM quarantine ORDER BY seq")
        return [QuarantineEntry(**{**dict(row), "file": from_blob(row["file"])}) for row in rows]

    def remove(self, numbers: Iterable[int]) -> list[str]:
        """Remove the entries with these numbers; return blobs no longer referenced."""
        removed = list(numbers)
        with self._db.writing() as db:
            query = "DELETE FROM quarantine WHERE seq = ? RETURNING blob"
            freed = [str(row["blob"]) for number in removed for row in db.execute(query, (number,)).fetchall()]
            return unreferenced(db, freed)


def _backup_row(row: sqlite3.Row) -> BackupRow:
    return BackupRow(
        seq=row["seq"],
        id=from_blob(row["id"]),
        file=from_blob(row["file"]),
        name=from_blob(row["name"]),
        taken=row["taken"],
        bytes=row["bytes"],
        sha256=row["sha256"],
        valid=bool(row["valid"]),
        quality=Quality(row["units"], row["records"]),
        pinned=bool(row["pinned"]),
    )
