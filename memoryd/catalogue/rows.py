"""What a row of the catalogue holds, and how it gets in and out: paths as bytes, facts as JSON."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from memoryd.core.plan import Fingerprint
from memoryd.core.records import Role
from memoryd.core.secrets import redact

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
RECORD = "key, path, start, end, line, id, type, title, created, used, archived, tags, owner, weight, uses, facts"
ENTRY = "path, line, id, type, archived, facts"
COLUMNS = (
    "path, role, dev, inode, size, mtime_ns, ctime_ns, digest, lines, whole, units, broken,"
    " records, young, pending, facts"
)


@dataclass(frozen=True, slots=True)
class FileRow:
    """One file as last read. `whole`: it ended in a newline, so an append begins a line of its own.
    `young`: it was read so soon after its change that an equal fingerprint proves nothing yet."""

    path: str
    role: str
    fingerprint: Fingerprint
    digest: str
    lines: int = 0
    whole: bool = True
    units: int = 0
    broken: int = 0
    records: int = 0
    young: bool = False
    pending: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)


TOLD_APART = re.compile(r"~[0-9a-f]{6}(\.\d+)?")  # what equal ids get behind them


class Place(NamedTuple):
    """Where a memory stands, as last read: in the file of that fingerprint and digest (`young`: the fingerprint alone
    proves nothing yet). `archived`: by the mark it bears; its file may be an archive besides."""

    path: str
    role: str
    start: int
    end: int
    line: int
    id: str
    archived: bool
    fingerprint: Fingerprint
    digest: str
    young: bool

    @property
    def live(self) -> bool:
        return self.role == Role.SOURCE and not self.archived


PLACE = "path, role, start, end, line, id, archived, dev, inode, size, mtime_ns, ctime_ns, digest, young"


def place(row: Sequence[Any]) -> Place:
    """A row of the columns of PLACE."""
    key, role, start, end, line, identity, archived, *numbers, digest, young = row
    print_ = Fingerprint(*numbers)
    return Place(path_of(key), role, start, end, line, identity, bool(archived), print_, digest, bool(young))


def key_of(path: str) -> bytes:
    return os.fsencode(path)


@lru_cache(maxsize=4_096)
def path_of(key: bytes) -> str:
    return os.fsdecode(key)


def plain(text: str) -> str:
    """SQLite keeps no lone surrogates, which Python's JSON lets in."""
    return text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text


def clean(facts: Mapping[str, Any]) -> object:
    """Facts as they may stand in the catalogue: without secrets and lone surrogates. Nearly all are so already, which
    is cheaper to ask of all their texts at once."""
    told = "\n".join(_strings(facts))
    return facts if secretless(told) == told else _clean_value(facts)


def secretless(text: str) -> str:
    return plain(redact(text))


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield str(key)
            if each is not None and not isinstance(each, int | float):
                yield from _strings(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _strings(each)


def _clean_value(value: object) -> object:
    if isinstance(value, str):
        return secretless(value)
    if isinstance(value, Mapping):
        return {secretless(str(key)): _clean_value(each) for key, each in value.items()}
    return [_clean_value(each) for each in value] if isinstance(value, list | tuple) else value


def file_row(row: Sequence[Any]) -> FileRow:
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
