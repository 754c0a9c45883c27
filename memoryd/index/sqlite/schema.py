"""The tables of an index, and how files and places map to rows: paths as bytes, facts as JSON."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

import msgspec

from memoryd.core.index import FileRow, Place
from memoryd.core.plan import Fingerprint
from memoryd.index.texts import clean

Row = tuple[Any, ...]  # as the columns of a query are declared

TABLES = """
CREATE TABLE files (
  path BLOB PRIMARY KEY, role TEXT NOT NULL,
  dev INTEGER, inode INTEGER, size INTEGER, mtime_ns INTEGER, ctime_ns INTEGER,
  digest TEXT NOT NULL, lines INTEGER NOT NULL, whole INTEGER NOT NULL,
  units INTEGER NOT NULL, broken INTEGER NOT NULL, records INTEGER NOT NULL,
  young INTEGER NOT NULL, pending INTEGER NOT NULL, facts BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE records (
  key INTEGER PRIMARY KEY AUTOINCREMENT, path BLOB NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL,
  line INTEGER NOT NULL, id TEXT NOT NULL, type TEXT NOT NULL, title TEXT NOT NULL,
  created REAL, used REAL, archived INTEGER NOT NULL, tags TEXT NOT NULL,
  owner TEXT NOT NULL, weight REAL, uses INTEGER NOT NULL, facts BLOB NOT NULL
);
CREATE INDEX records_by_path ON records (path, start);
CREATE INDEX records_by_id ON records (id);
CREATE INDEX records_by_created ON records (ifnull(created, -1e18), id);
CREATE INDEX records_by_owner ON records (owner) WHERE owner <> '';
CREATE TABLE texts (key INTEGER PRIMARY KEY, labels TEXT NOT NULL, body TEXT NOT NULL);
CREATE VIRTUAL TABLE words USING fts5(title, labels, body, content='', tokenize='ascii');
INSERT INTO words (words, rank) VALUES ('usermerge', 2);
CREATE VIRTUAL TABLE vocabulary USING fts5vocab(words, row);
CREATE TABLE vectors (key INTEGER PRIMARY KEY, model TEXT NOT NULL, vector BLOB NOT NULL);
CREATE TABLE findings (path BLOB NOT NULL, code TEXT NOT NULL, line INTEGER, id TEXT, message TEXT NOT NULL);
CREATE INDEX findings_by_path ON findings (path);
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
INSERT_RECORD = (
    "INSERT INTO records (key, path, start, end, line, id, type, title, created, used, archived, tags, owner, weight,"
    " uses, facts) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
)
ENTRIES = "SELECT path, line, id, type, archived, facts FROM records"
FILES = (
    "SELECT path, role, dev, inode, size, mtime_ns, ctime_ns, digest, lines, whole, units, broken,"
    " records, young, pending, facts FROM files"
)
PLACES = (
    "SELECT path, role, start, end, line, id, archived, dev, inode, size, mtime_ns, ctime_ns, digest, young"
    " FROM records JOIN files USING (path)"
)


def place(row: Row) -> Place:
    """Convert a row of PLACES."""
    key, role, start, end, line, identity, archived, *numbers, digest, young = row
    print_ = Fingerprint(*numbers)
    return Place(path_of(key), role, start, end, line, identity, bool(archived), print_, digest, bool(young))


def key_of(path: str) -> bytes:
    """Encode a path as it is stored: as bytes, since names may not be UTF-8."""
    return os.fsencode(path)


@lru_cache(maxsize=4_096)
def path_of(key: bytes) -> str:
    """Decode a stored path."""
    return os.fsdecode(key)


def file_row(row: Row) -> FileRow:
    """Convert a row of FILES."""
    key, role, *numbers = row[:7]
    digest, lines, whole, units, broken, records, young, pending, facts = row[7:]
    return FileRow(
        path_of(key),
        role,
        Fingerprint(*numbers),
        digest,
        lines,
        bool(whole),
        units,
        broken,
        records,
        bool(young),
        bool(pending),
        msgspec.json.decode(facts),
    )


def file_values(row: FileRow) -> tuple[object, ...]:
    """Convert a file to the columns of FILES."""
    seen = row.fingerprint
    return (
        key_of(row.path),
        row.role,
        seen.dev,
        seen.inode,
        seen.size,
        seen.mtime_ns,
        seen.ctime_ns,
        row.digest,
        row.lines,
        row.whole,
        row.units,
        row.broken,
        row.records,
        row.young,
        row.pending,
        msgspec.json.encode(clean(row.facts)),
    )
