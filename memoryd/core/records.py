"""Parsed memories: documents made of records. Files are never written from a record.

There is no common memory model, since the layouts do not share a single field. A `Record` holds the span of the
verbatim text, the native fields, and the few facts that every floor above needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from msgspec import Struct, field

from memoryd.core.findings import Finding
from memoryd.core.retention import Quality
from memoryd.core.spans import Span

NativeMemory = Mapping[str, Any]
"""A memory as an agent writes it: a JSON object whose keys and values depend on the layout."""

JsonObject = dict[str, Any]
"""A JSON object of any shape, as decoded or about to be written."""

Facts = Mapping[str, Any]
"""Values a layout derives from a memory, for its index and upkeep (plain JSON); the keys depend on the layout."""

FUTURE_S = 300.0  # tolerance in seconds before a time stamp counts as in the future
FRESH_S = 2.0  # an unparsable file modified less than this long ago is being written, not damaged


class Role(StrEnum):
    """The purpose of a file in a layout."""

    SOURCE = "source"  # memories of agents
    INDEX = "index"  # derived from the sources, kept current by memoryd
    ARCHIVE = "archive"  # memories moved out of the live files
    BACKUP = "backup"
    LOCK = "lock"
    TEMP = "temp"  # a half-written file of any program; never read
    FOREIGN = "foreign"  # anything else; ignored


class Record(Struct, frozen=True):
    """One memory as it was read. Times are in seconds since the epoch, UTC.

    `line` is 1-based. `native` is the object as the agent wrote it; `facts` are values the layout derived and
    corrected, from which the index is rendered and upkeep is decided. For search:
    `text`: the complete content apart from title and tags, never truncated.
    `labels`: further search words (category, entities, topics, location).
    `weight`: the importance by the layout's own fields, 0 to 1.
    `uses`: how often the memory was read.
    `owner`: the user it belongs to, in layouts that keep users apart.
    `embedding`: the vector stored by the agent (finite, not all zero). An array: a tuple takes four times the memory.
    """

    span: Span
    line: int
    id: str
    type: str
    title: str
    created: float | None
    used: float | None
    tags: tuple[str, ...]
    archived: bool
    native: NativeMemory
    facts: Facts = field(default_factory=dict)
    text: str = ""
    labels: tuple[str, ...] = ()
    weight: float | None = None
    uses: int = 0
    owner: str = ""
    embedding: Sequence[float] | None = None


class Document(Struct, frozen=True):
    """One parsed source or archive file.

    `units` counts the non-empty lines (entries, elements), valid or not, `broken` those that cannot be parsed.
    `pending`: the tail looks half-written, so the file should be read again soon. `facts`: values the layout derived
    from the whole file (plain JSON).
    """

    path: str
    records: tuple[Record, ...]
    findings: tuple[Finding, ...] = ()
    units: int = 0
    broken: int = 0
    pending: bool = False
    facts: Facts = field(default_factory=dict)

    @property
    def quality(self) -> Quality:
        """The share of the file that is readable."""
        return Quality(self.units, len(self.records))


class ParseOffset(Struct, frozen=True):
    """The position in its file of a text given to `parse`: not zero for an appended tail. `line` is 1-based."""

    offset: int = 0
    line: int = 1


class ReplacedRange(NamedTuple):
    """A change of a file: `lines` lines at `span` of the old content became `new_bytes` bytes in `new_lines` lines."""

    span: Span
    lines: int
    new_bytes: int
    new_lines: int


class Piece(NamedTuple):
    """An unchanged part of a file, with one memory: its size in bytes, the digest of its bytes, how many newlines it
    has, and the type and id of the memory."""

    size: int
    digest: bytes
    lines: int
    type: str
    id: str


class Pieces(NamedTuple):
    """A file as it was parsed: what stands before the memories, a piece for each of them, the size in bytes of what
    stands after them, and the facts of the document."""

    head: bytes
    pieces: tuple[Piece, ...]
    tail_size: int
    facts: Facts


class DocumentChange(NamedTuple):
    """A change of a file: a range of it, and its new memories. The counts, facts and findings of `document` are
    those of the whole file; its findings replace those with the codes `recounted`."""

    replaced: ReplacedRange
    document: Document
    pieces: Pieces
    recounted: tuple[str, ...]


class Entry(NamedTuple):
    """A record as stored in the search index: enough to render an index file without reading the source again."""

    path: str
    line: int
    id: str
    type: str
    archived: bool
    facts: Facts


class FileStats(NamedTuple):
    """Statistics of one file, as stored in the index. `units`, `broken` and `facts` are those of its document,
    `records` the number of its memories. `size` is in bytes."""

    path: str
    role: Role
    size: int
    units: int
    broken: int
    records: int
    facts: Facts


class FileChange(NamedTuple):
    """A file that changed since the last render of the index files, None if it was removed. `entries` are all of its
    memories in order; if `appended`, only those that were added after all others. They are read when they are asked
    for: once, and not where the counts of the file are enough."""

    file: FileStats | None
    entries: Iterator[Entry]
    appended: bool


class _FileCount(NamedTuple):
    """All of a file that its counts depend on."""

    role: Role
    records: int
    by_type: Mapping[str, int]


class FileCounts:
    """Counts of the memories in files. `by_type` has those of the source files that name their types in the fact
    `by_type`."""

    def __init__(self, files: Mapping[str, FileStats]) -> None:
        self._files: dict[str, _FileCount] = {}
        self.memories = self.archived = 0
        self.by_type: Counter[str] = Counter()
        for path, each in files.items():
            self.replace(path, each)

    def replace(self, path: str, file: FileStats | None) -> None:
        """Count a file anew, None if it was removed."""
        before = self._files.pop(path, None)
        if before is not None:
            self._count(before, -1)
        if file is not None:
            self._files[path] = found = _FileCount(file.role, file.records, file.facts.get("by_type", {}))
            self._count(found, 1)

    def _count(self, file: _FileCount, sign: int) -> None:
        if file.role is Role.ARCHIVE:
            self.archived += sign * file.records
        elif file.role is Role.SOURCE:
            self.memories += sign * file.records
            for kind, count in file.by_type.items():  # `update` takes ten times as long for so few
                self.by_type[kind] += sign * count

    def types(self) -> dict[str, int]:
        """Return the number of memories by type."""
        return dict(+self.by_type)
