"""The file of an index, looked into by SQLite itself."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any


def ask(path: str, query: str) -> list[tuple[Any, ...]]:
    """What the file at this path answers; for a statement that changes nothing but checks, nothing."""
    with closing(sqlite3.connect(path)) as db, db:
        return db.execute(query).fetchall()


def check_words(path: str) -> None:
    """Raises where the full-text index is not sound."""
    ask(path, "INSERT INTO words (words) VALUES ('integrity-check')")
