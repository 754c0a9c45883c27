"""The index that SQLite keeps: FTS5 for text, a matrix in memory for vectors."""

from memoryd.index.sqlite.store import SqliteIndex, open_index

__all__ = ["SqliteIndex", "open_index"]
