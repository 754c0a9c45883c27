"""What memoryd reads: documents of records. A record is a reading, never a source of writing.

There is no common memory model: five formats share not one field. A `Record` keeps the span of
the verbatim text, the native fields, and the few plain facts that every floor above needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from memoryd.core.findings import Finding
from memoryd.core.retention import Quality
from memoryd.core.text import Span


class Role(StrEnum):
    """What a path is in a layout."""

    SOURCE = "source"  # agents' memories, read and tended
    INDEX = "index"  # derived, kept current by memoryd
    ARCHIVE = "archive"  # memories moved out of the live files
    BACKUP = "backup"
    LOCK = "lock"
    TEMP = "temp"  # somebody's half-written file; never read
    FOREIGN = "foreign"  # anything else; left alone


@dataclass(frozen=True, slots=True)
class Record:
    """One memory as found. Times are seconds since the epoch, UTC. `native` is the object as the agent
    wrote it; `facts` are the layout's own corrected values, which indices and upkeep are decided on.

    The rest is what it is searched by: `text` is the whole of what it says beside title and tags, never cut;
    `labels` are further words that lead to it (category, entities, topics, the place); `weight` is what its own
    layout says it is worth, from 0 to 1; `uses` how often it was read; `owner` the user whose it is, where nothing
    may cross from one to another; `embedding` the vector its agent stored beside it (finite, not all zero; an array
    rather than a tuple, which would cost four times as much)."""

    span: Span
    line: int
    id: str
    type: str
    title: str
    created: float | None
    used: float | None
    tags: tuple[str, ...]
    archived: bool
    native: Mapping[str, Any]
    facts: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    labels: tuple[str, ...] = ()
    weight: float | None = None
    uses: int = 0
    owner: str = ""
    embedding: Sequence[float] | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """One source or archive file read. `units` counts the non-empty lines (entries, elements) met, valid
    or not, `broken` those that cannot be parsed; `pending` says that the tail looks half-written and
    should be looked at again; `facts` are the layout's own about the whole file (plain JSON)."""

    path: str
    records: tuple[Record, ...]
    findings: tuple[Finding, ...] = ()
    units: int = 0
    broken: int = 0
    pending: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def quality(self) -> Quality:
        return Quality(self.units, len(self.records))


@dataclass(frozen=True, slots=True)
class Base:
    """Where a text given to `parse` begins in its file (non-zero for an appended tail)."""

    offset: int = 0
    line: int = 1


class Entry(NamedTuple):
    """A record as the catalogue knows it: enough to render an index without reading the file again.
    `facts` are those of the record."""

    path: str
    line: int
    id: str
    type: str
    archived: bool
    facts: Mapping[str, Any]
