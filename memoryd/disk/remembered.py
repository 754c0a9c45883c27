"""What is remembered of single memories that no file of theirs has a place for: where the bytes of a forgotten one
are kept, and how often one was read whose layout counts no reads."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from memoryd.disk.database import Database, packed, unpacked
from memoryd.disk.shelf import unreferenced

REMEMBERED_TABLES = (
    """CREATE TABLE forgotten (
        id BLOB PRIMARY KEY, path BLOB NOT NULL, blob TEXT, content BLOB, at REAL NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE uses (
        path BLOB NOT NULL, id BLOB NOT NULL, times INTEGER NOT NULL, at REAL NOT NULL,
        PRIMARY KEY (path, id)) WITHOUT ROWID""",
)
_COUNT = """INSERT INTO uses (path, id, times, at) VALUES (?, ?, ?, ?) ON CONFLICT (path, id)
    DO UPDATE SET times = times + excluded.times, at = max(at, excluded.at)"""
MOST_FORGOTTEN = 1000  # as many as receipts can be undone


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A memory that was taken out of `path`; its bytes are in the blob, or here (compressed) where they are few."""

    id: str
    path: str
    blob: str | None
    content: bytes | None


class Remembered(Database):
    def keep_forgotten(self, forgotten: Forgotten, now: float) -> None:
        """The oldest go when there are too many; their blobs are dropped with the next care of the state."""
        with self._writing() as db:
            values = (packed(forgotten.id), packed(forgotten.path), forgotten.blob, forgotten.content, now)
            db.execute("INSERT OR REPLACE INTO forgotten (id, path, blob, content, at) VALUES (?, ?, ?, ?, ?)", values)
            db.execute(
                "DELETE FROM forgotten WHERE id IN (SELECT id FROM forgotten ORDER BY at DESC LIMIT -1 OFFSET ?)",
                (MOST_FORGOTTEN,),
            )

    def forgotten(self, identity: str) -> list[Forgotten]:
        """The one with exactly this id; else those that bear it with `~` and what tells equal ids apart."""
        query = "SELECT id, path, blob, content FROM forgotten WHERE id "
        rows = self._rows(f"{query} = ?", packed(identity))
        return _read(rows or self._rows(f"{query} > ? AND id < ?", packed(f"{identity}~"), packed(f"{identity}~g")))

    def forgotten_in(self, path: str) -> list[Forgotten]:
        """All that were taken out of that file."""
        return _read(self._rows("SELECT id, path, blob, content FROM forgotten WHERE path = ?", packed(path)))

    def take_forgotten(self, identity: str) -> list[str]:
        """It is there again; the blobs it leaves behind that nothing else names."""
        with self._writing() as db:
            rows = db.execute("DELETE FROM forgotten WHERE id = ? RETURNING blob", (packed(identity),)).fetchall()
            return unreferenced(db, (str(row["blob"]) for row in rows if row["blob"] is not None))

    def add_uses(self, path: str, reads: Mapping[str, tuple[int, float]]) -> None:
        """`reads`: (how often, when last) by id. Not synced: a power cut may take a count."""
        with self._writing(durable=False) as db:
            db.executemany(_COUNT, [(packed(path), packed(identity), *read) for identity, read in reads.items()])

    def move_uses(self, path: str, before: str, after: str) -> None:
        """The memory bears another id now."""
        with self._writing(durable=False) as db:
            query = "DELETE FROM uses WHERE path = ? AND id = ? RETURNING times, at"
            counted = db.execute(query, (packed(path), packed(before))).fetchall()
            db.executemany(_COUNT, [(packed(path), packed(after), row["times"], row["at"]) for row in counted])

    def uses(self) -> dict[str, dict[str, int]]:
        """How often each was read: {path: {id: times}}."""
        found: dict[str, dict[str, int]] = {}
        for row in self._rows("SELECT path, id, times FROM uses"):
            found.setdefault(unpacked(row["path"]), {})[unpacked(row["id"])] = int(row["times"])
        return found


def _read(rows: Iterable[sqlite3.Row]) -> list[Forgotten]:
    return [Forgotten(unpacked(row["id"]), unpacked(row["path"]), row["blob"], row["content"]) for row in rows]
