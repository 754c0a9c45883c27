"""Queries on the file of an index by SQLite itself."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any


def ask(path: str, query: str) -> list[tuple[Any, ...]]:
    """Run a statement on the file at this path; return its rows, if any."""
    with closing(sqlite3.connect(path)) as db, db:
        return db.execute(query).fetchall()


def check_words(path: str) -> None:
    """Check the full-text index; SQLite raises if it is damaged."""
    ask(path, "INSERT INTO words (words) VALUES ('integrity-check')")
