"""Per-memory state that the files have no place for: trash, pins, access counts."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping

from msgspec import Struct

from memoryd.disk.journal.database import Database, from_blob, to_blob, unreferenced

TRASH_TABLES = (
    """CREATE TABLE forgotten (
        id BLOB PRIMARY KEY, path BLOB NOT NULL, blob TEXT, content BLOB, at REAL NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE uses (
        path BLOB NOT NULL, id BLOB NOT NULL, times INTEGER NOT NULL, at REAL NOT NULL,
        PRIMARY KEY (path, id)) WITHOUT ROWID""",
)
_COUNT = """INSERT INTO uses (path, id, times, at) VALUES (?, ?, ?, ?) ON CONFLICT (path, id)
    DO UPDATE SET times = times + excluded.times, at = max(at, excluded.at)"""
PIN_TABLES = (
    """CREATE TABLE held (
        path BLOB NOT NULL, id BLOB NOT NULL, line_sha TEXT NOT NULL,
        PRIMARY KEY (path, id, line_sha)) WITHOUT ROWID""",
)
MAX_TRASH = 1000  # the same number as receipts that can be undone


class Pin(Struct, frozen=True):
    """A memory that an undo restored, by the SHA-256 of its line: once it changes, the pin no longer applies."""

    path: str
    id: str
    line_sha: str


class TrashedMemory(Struct, frozen=True):
    """A memory removed from `path`; its bytes are in the blob, or in `content` (compressed) if they are few."""

    id: str
    path: str
    blob: str | None
    content: bytes | None


class TrashTable:
    """The trash: memories removed from files whose layout has no archive."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(self, memory: TrashedMemory, now: float) -> None:
        """Add to the trash, evicting the oldest; blobs are freed by the next clean-up. `now` in epoch seconds."""
        with self._db.writing() as db:
            values = (to_blob(memory.id), to_blob(memory.path), memory.blob, memory.content, now)
            db.execute("INSERT OR REPLACE INTO forgotten (id, path, blob, content, at) VALUES (?, ?, ?, ?, ?)", values)
            db.execute(
                "DELETE FROM forgotten WHERE id IN (SELECT id FROM forgotten ORDER BY at DESC LIMIT -1 OFFSET ?)",
                (MAX_TRASH,),
            )

    def find(self, identity: str) -> list[TrashedMemory]:
        """Return the entry with exactly this id, or else the entries with that id and a `~` suffix."""
        query = "SELECT id, path, blob, content FROM forgotten WHERE id "
        rows = self._db.rows(f"{query} = ?", to_blob(identity))
        return _read(
            rows or self._db.rows(f"{query} > ? AND id < ?", to_blob(f"{identity}~"), to_blob(f"{identity}~g"))
        )

    def of_file(self, path: str) -> list[TrashedMemory]:
        """Return the entries that were removed from that file."""
        return _read(self._db.rows("SELECT id, path, blob, content FROM forgotten WHERE path = ?", to_blob(path)))

    def remove(self, identity: str) -> list[str]:
        """Remove the entry; return blobs no longer referenced."""
        with self._db.writing() as db:
            rows = db.execute("DELETE FROM forgotten WHERE id = ? RETURNING blob", (to_blob(identity),)).fetchall()
            return unreferenced(db, (str(row["blob"]) for row in rows if row["blob"] is not None))


class PinTable:
    """Memories that an undo or `unarchive` restored; no schedule moves them until they change."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def pin(self, pins: Iterable[Pin]) -> None:
        """Exempt these memories from scheduled moves."""
        with self._db.writing() as db:
            db.executemany(
                "INSERT OR IGNORE INTO held (path, id, line_sha) VALUES (?, ?, ?)",
                [(to_blob(each.path), to_blob(each.id), each.line_sha) for each in pins],
            )

    def all(self) -> list[Pin]:
        """Return every pin, by path and id."""
        rows = self._db.rows("SELECT * FROM held ORDER BY path, id")
        return [Pin(from_blob(row["path"]), from_blob(row["id"]), str(row["line_sha"])) for row in rows]

    def digests(self) -> frozenset[str]:
        """Return the SHA-256 (hex) of every record that is pinned."""
        return frozenset(each.line_sha for each in self.all())


class AccessTable:
    """Access counts of memories whose layout has no access counter."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(self, path: str, reads: Mapping[str, tuple[int, float]]) -> None:
        """Add to the counts of one file. `reads`: (count, time of the last read) by id. Not synced: a power cut may
        lose counts."""
        with self._db.writing(durable=False) as db:
            db.executemany(_COUNT, [(to_blob(path), to_blob(identity), *read) for identity, read in reads.items()])

    def move(self, path: str, before: str, after: str) -> None:
        """Move counts to the new id."""
        with self._db.writing(durable=False) as db:
            query = "DELETE FROM uses WHERE path = ? AND id = ? RETURNING times, at"
            counted = db.execute(query, (to_blob(path), to_blob(before))).fetchall()
            db.executemany(_COUNT, [(to_blob(path), to_blob(after), row["times"], row["at"]) for row in counted])

    def counts(self) -> dict[str, dict[str, int]]:
        """Return every count, as {path: {id: count}}."""
        counts: dict[str, dict[str, int]] = {}
        for row in self._db.rows("SELECT path, id, times FROM uses"):
            counts.setdefault(from_blob(row["path"]), {})[from_blob(row["id"])] = int(row["times"])
        return counts


def _read(rows: Iterable[sqlite3.Row]) -> list[TrashedMemory]:
    return [TrashedMemory(from_blob(row["id"]), from_blob(row["path"]), row["blob"], row["content"]) for row in rows]
