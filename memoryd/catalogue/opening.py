"""Opening the database of a catalogue: for its one writer, or for readers beside it, which are kept and used again."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from memoryd.catalogue.rows import TABLES
from memoryd.core import words

SCHEMA = 7
CACHE_KIB = 8_192  # of each reader: the narrow tables of 100,000 memories


def open_or_rebuild(path: str) -> sqlite3.Connection:
    """Open the catalogue, or begin an empty one where it is missing, damaged or of another schema."""
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
    raise AssertionError("a catalogue just deleted is empty")


def _same_words(db: sqlite3.Connection) -> bool:
    """What was indexed by other rules cannot be taken out of the index by these."""
    row = db.execute("SELECT value FROM meta WHERE key = 'words'").fetchone()
    return row is not None and row[0] == words.VERSION


def open_reader(path: str) -> sqlite3.Connection:
    uri = f"{Path(path).absolute().as_uri()}?mode=ro"
    db = sqlite3.connect(uri, uri=True, timeout=2, check_same_thread=False, isolation_level=None)
    try:
        db.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
        db.execute("PRAGMA temp_store=MEMORY")
    except sqlite3.DatabaseError:
        db.close()
        raise
    return db
