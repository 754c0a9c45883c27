"""What memoryd has laid aside: backups it made (in sequence), quarantined content, and memories that an
undo brought back and that no schedule may move again."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from memoryd.core.retention import Quality
from memoryd.disk.database import Database, packed, said, unpacked

SHELF_TABLES = (
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
    """CREATE TABLE held (
        path BLOB NOT NULL, id BLOB NOT NULL, line_sha TEXT NOT NULL,
        PRIMARY KEY (path, id, line_sha)) WITHOUT ROWID""",
)


@dataclass(frozen=True, slots=True)
class BackupRow:
    """A backup memoryd made. `id` is its file name; `valid` is what the last look at its bytes said."""

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


@dataclass(frozen=True, slots=True)
class Quarantined:
    seq: int
    file: str
    sha256: str
    bytes: int
    reason: str
    at: float
    blob: str


@dataclass(frozen=True, slots=True)
class Held:
    """A memory an undo brought back, by the SHA-256 of its line: once changed it is a new decision."""

    path: str
    id: str
    line_sha: str


class Shelf(Database):
    _lines: frozenset[str] | None = None  # digests of what is held, as long as that is known

    def add_backup(self, name: str, file: str, *, taken: float, size: int, sha256: str, quality: Quality) -> BackupRow:
        """A name used again (its file was deleted by hand within the second) gets a new number. Not synced: the copy
        itself is, and one whose row a power cut took is judged by its content."""
        with self._writing(durable=False) as db:
            db.execute("DELETE FROM backups WHERE id = ?", (packed(name),))
            values = (packed(name), packed(file), packed(name), taken, size, sha256)
            seq = db.execute(
                "INSERT INTO backups (id, file, name, taken, bytes, sha256, valid, units, records) "
                "VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?)",
                (*values, quality.units, quality.records),
            ).lastrowid
        return BackupRow(seq or 0, name, file, name, taken, size, sha256, True, quality, False)

    def backup_rows(self, file: str | None = None) -> list[BackupRow]:
        """In the order they were made."""
        if file is None:
            return [_backup_row(row) for row in self._rows("SELECT * FROM backups ORDER BY seq")]
        query = "SELECT * FROM backups WHERE file = ? ORDER BY seq"
        return [_backup_row(row) for row in self._rows(query, packed(file))]

    def forget_backups(self, ids: Iterable[str]) -> None:
        with self._writing(durable=False) as db:
            db.executemany("DELETE FROM backups WHERE id = ?", [(packed(each),) for each in ids])

    def mark_backup(self, backup_id: str, *, valid: bool | None = None, pinned: bool | None = None) -> None:
        """None leaves a mark as it is."""
        with self._writing() as db:
            db.execute(
                "UPDATE backups SET valid = coalesce(?, valid), pinned = coalesce(?, pinned) WHERE id = ?",
                (valid, pinned, packed(backup_id)),
            )

    def add_quarantined(self, file: str, sha256: str, size: int, reason: str, *, now: float) -> bool:
        """False when this content of this file is there already."""
        with self._writing() as db:
            added = db.execute(
                "INSERT OR IGNORE INTO quarantine (file, sha256, bytes, reason, at, blob) VALUES (?, ?, ?, ?, ?, ?)",
                (packed(file), sha256, size, said(reason), now, sha256),
            )
            return added.rowcount == 1

    def quarantined(self) -> list[Quarantined]:
        """Oldest first."""
        rows = self._rows("SELECT * FROM quarantine ORDER BY seq")
        return [Quarantined(**{**dict(row), "file": unpacked(row["file"])}) for row in rows]

    def forget_quarantined(self, numbers: Iterable[int]) -> list[str]:
        """Takes these entries out; blobs that nothing names any more come back."""
        wanted = list(numbers)
        with self._writing() as db:
            query = "DELETE FROM quarantine WHERE seq = ? RETURNING blob"
            freed = [str(row["blob"]) for number in wanted for row in db.execute(query, (number,)).fetchall()]
            return unreferenced(db, freed)

    def hold(self, held: Iterable[Held]) -> None:
        with self._writing() as db:
            self._lines = None
            db.executemany(
                "INSERT OR IGNORE INTO held (path, id, line_sha) VALUES (?, ?, ?)",
                [(packed(each.path), packed(each.id), each.line_sha) for each in held],
            )

    def held(self) -> list[Held]:
        rows = self._rows("SELECT * FROM held ORDER BY path, id")
        return [Held(unpacked(row["path"]), unpacked(row["id"]), str(row["line_sha"])) for row in rows]

    def held_lines(self) -> frozenset[str]:
        """The digests of all that is held."""
        with self._lock:
            if self._lines is None:
                self._lines = frozenset(each.line_sha for each in self.held())
            return self._lines

    def held_ids(self, path: str | None = None) -> frozenset[str]:
        """Ids held, of all files or of one."""
        return frozenset(each.id for each in self.held() if path in (None, each.path))

    def release(self, ids: Iterable[str]) -> None:
        with self._writing() as db:
            self._lines = None
            db.executemany("DELETE FROM held WHERE id = ?", [(packed(each),) for each in ids])


def unreferenced(db: sqlite3.Connection, blobs: Iterable[str]) -> list[str]:
    """Those of `blobs` that no journal step, no quarantine entry and no forgotten memory names, each once."""
    tables = ("steps", "quarantine", "forgotten")
    query = " UNION ".join(f"SELECT blob FROM {table} WHERE blob = ?1" for table in tables)  # noqa: S608 - those above
    return [blob for blob in sorted(set(blobs)) if db.execute(query, (blob,)).fetchone() is None]


def _backup_row(row: sqlite3.Row) -> BackupRow:
    return BackupRow(
        seq=row["seq"],
        id=unpacked(row["id"]),
        file=unpacked(row["file"]),
        name=unpacked(row["name"]),
        taken=row["taken"],
        bytes=row["bytes"],
        sha256=row["sha256"],
        valid=bool(row["valid"]),
        quality=Quality(row["units"], row["records"]),
        pinned=bool(row["pinned"]),
    )
