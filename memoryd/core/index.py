"""The search index of one root: the two protocols that every engine implements, and their plain values.

An index is a cache of the files and can be deleted at any time; files are never written from it. Nothing here depends
on how an engine stores or queries. An engine must pass `tests/index/test_contract.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct

from memoryd.core.findings import Finding, FindingNews
from memoryd.core.places import Place
from memoryd.core.query import Filters, Term, TextQuery
from memoryd.core.records import Document, Entry, Facts, FileStats, ReplacedRange, Role
from memoryd.core.spans import Fingerprint, sha256


class IndexUnavailable(OSError):  # noqa: N818 - names the condition
    """The index cannot be read or written: it is damaged, deleted or locked, or the disk failed (see `errno`).

    The only error of an engine that its callers need to handle.
    """


# --- files and memories

_NO_FACTS: Facts = {}


class FileRow(NamedTuple):
    """One file as last read.

    `ends_with_newline`: an append starts a new line. `recently_modified`: it was read so soon after a change that an
    equal fingerprint does not prove that it is unchanged.
    """

    path: str
    role: str
    fingerprint: Fingerprint
    digest: str
    lines: int = 0
    ends_with_newline: bool = True
    units: int = 0
    broken: int = 0
    records: int = 0
    recently_modified: bool = False
    pending: bool = False
    facts: Facts = _NO_FACTS

    @property
    def stats(self) -> FileStats:
        """The summary of the file."""
        size = self.fingerprint.size
        return FileStats(self.path, Role(self.role), size, self.units, self.broken, self.records, self.facts)


class FileChanges(NamedTuple):
    """Differences between the files of a scan and those in the index, by path. `changed` includes files whose equal
    fingerprint does not prove that they are unchanged. `missing`: files in the index only, with the number of their
    memories. `records`: the number of all memories in the index."""

    new: list[str]
    changed: list[str]
    missing: dict[str, int]
    records: int


class RoleTotals(NamedTuple):
    """The files with one role: how many there are, their memories, and their size in bytes."""

    files: int
    records: int
    size: int


class Memory(Struct, frozen=True):
    """A memory as stored in the index, redacted.

    `labels` and `tags` are joined by newlines; `created` is in epoch seconds. A key is never reused for another text.
    """

    key: int
    path: str
    line: int
    id: str
    type: str
    title: str
    created: float | None
    archived: bool
    tags: str
    owner: str
    weight: float | None
    uses: int
    labels: str
    body: str


class Identity(NamedTuple):
    """The id of a memory, and a digest of its text ("" if it has none), which stays the same when it is moved."""

    id: str
    text: str


def identity(id_: str, title: str, body: str) -> Identity:
    """Return the identity of a memory with this redacted title and body."""
    return Identity(id_, sha256(f"{title}\n{body}".encode())[:16] if title or body else "")


class MonthCount(NamedTuple):
    """The memories created in one month (UTC, as in 2026-11; None: those without a creation time)."""

    month: str | None
    live: int
    archived: int


class Before(NamedTuple):
    """A position in a list of memories, newest first: after the memory shown last.

    Of memories created at the same time, those with a smaller id, or the same id and a smaller key, come after it;
    with `same`, all of them do.
    """

    created: float | None
    id: str
    key: int
    same: bool = False


# --- searching by text


MatchKind = Literal["phrase", "all", "any", "substring"]


class Match(Struct, frozen=True):
    """A memory found by a text query.

    `score`: how well the text matches, 0 to 1, comparable between indexes. `created` (epoch seconds), `weight` and
    `uses` are for ranking.
    """

    key: int
    score: float
    kind: MatchKind
    created: float | None
    weight: float | None
    uses: int


# --- searching by vector


class Sample(NamedTuple):
    """A memory with its text and the vector that its agent stored."""

    key: int
    model: str
    vector: bytes
    text: str


# --- the protocols


class IndexReader(Protocol):
    """Read access to one consistent state of an index, for one thread at a time. Any method may raise
    IndexUnavailable."""

    # files

    def files(self) -> dict[str, FileRow]:
        """Return every file in the index by path."""

    def file(self, path: str) -> FileRow | None:
        """Return one file; None if it is not in the index."""

    def compare(self, found: Mapping[str, Fingerprint]) -> FileChanges:
        """Compare all files of a scan with those in the index."""

    def summaries(self) -> Iterator[FileStats]:
        """Yield the summary of every file."""

    def totals(self) -> tuple[int, int]:
        """Return the number of files and their size in bytes."""

    def totals_by_role(self) -> dict[str, RoleTotals]:
        """Return the totals of the files with each role."""

    # records and findings

    def entries(self, paths: Sequence[str]) -> Iterator[Entry]:
        """Yield the records of these files in the given order of files, those of a file in its order."""

    def entries_from(self, path: str, start: int) -> Iterator[Entry]:
        """Yield the records of one file from this offset (bytes) on."""

    def identities(self, path: str | None = None) -> list[Identity]:
        """Return the identities of the memories in one file, or in all."""

    def has_records(self) -> bool:
        """True if any file has a memory."""

    def live_count(self, path: str) -> int:
        """Count the memories of a file as index files do: duplicate ids once, without those marked as archived."""

    def places(self, identity: str) -> list[Place]:
        """Return the places of memories with exactly this id; if there are none, of the one with this unique id, or of
        those whose own id is this one and a suffix."""

    def unique_ids(self, ids: Collection[str]) -> dict[int, str]:
        """Return the unique id of each memory with one of these ids that other memories have too, by key."""

    def also_archived(self) -> list[Place]:
        """Return the live memories whose id is also in an archive file, by path and position."""

    def findings(self) -> list[Finding]:
        """Return every finding, sorted by path and line."""

    def finding_counts(self, path: str | None = None) -> dict[tuple[str, str], int]:
        """Count findings by (path, code); only those of one file if `path` is given."""

    # memories

    @property
    def size(self) -> int:
        """The number of memories, including archived ones."""

    def memories(self, keys: Sequence[int]) -> dict[int, Memory]:
        """Return the memories with these keys, in this order; keys that do not exist are left out."""

    def newest(self, filters: Filters, limit: int, before: Before | None = None) -> list[Memory]:
        """Return the newest memories by creation time; those without one last, equal ones by descending id and key."""

    def months(self, filters: Filters) -> list[MonthCount]:
        """Count memories by the month of their creation, the newest first, those without one last."""

    def owners(self) -> tuple[str, ...]:
        """Return the names of users with memories here, sorted; "" stands for memories without a user."""

    def keys_of(self, identity: str, filters: Filters) -> list[int]:
        """Return the keys of the memories with exactly this id that pass the filters."""

    # search

    def match(self, query: TextQuery, filters: Filters, limit: int) -> list[Match]:
        """Return at most `limit` memories, the best first within each kind; of equal ones, and of substring matches,
        the last added first."""

    def term_frequencies(self, terms: Sequence[Term]) -> list[int]:
        """Return the number of memories that contain each term; approximate for common ones, for a term in a fifth of
        all memories carries no information."""

    def keys_with(self, terms: Sequence[Term], most: int) -> list[Collection[int] | None]:
        """Return the keys of the memories that contain each term; None for a term in more than `most` of them."""

    def keys_with_label(self, terms: Sequence[Term], most: int) -> Collection[int] | None:
        """Return the keys of the memories with one of the terms in their labels or tags, and maybe of some others; None
        if they may be more than `most`."""

    def vocabulary(self) -> str:
        """Return the words of all memories, each between newlines. It may contain words of deleted memories."""

    def words_beginning(self, start: str, end: str = "") -> list[str]:
        """Return the words of all memories that begin with `start` and end with `end`, in order."""

    def known_words(self, words: Sequence[str]) -> list[str]:
        """Return those of the words that any memory has, in their order."""

    def nearest(
        self,
        vector: Sequence[float],
        model: str,
        filters: Filters,
        limit: int,
        also: Collection[int] = (),
        *,
        less_common: float = 0.0,
    ) -> dict[int, float] | None:
        """Return at most `limit` memories with the nearest vectors of the model, then those of `also` with a vector:
        the cosine of each, -1 to 1, by key.

        The nearest come first, of equal ones the last added. Returns None if no memory has a vector of this model.
        `less_common`: the share of the mean of all vectors that is subtracted from `vector` first (`mean_share`).
        """

    def vector(self, key: int) -> tuple[str, bytes] | None:
        """Return the model and the packed vector of a memory; None if it has none."""

    def vector_samples(self, owner: str | None, limit: int) -> list[Sample]:
        """Return some memories of one owner (None: of any named owner) with vectors stored by agents."""


class IndexWriter(IndexReader, Protocol):
    """Write access to an index; it also reads changes that readers do not see yet.

    For one thread at a time, except `reader` and `release_idle`. Each change becomes visible completely or not at all.
    """

    def reader(self) -> AbstractContextManager[IndexReader]:
        """Return a context manager with a reader for any thread; it shows one state regardless of later writes."""

    def close(self) -> None:
        """Close the index; readers in use work until their block ends."""

    def batch(self) -> AbstractContextManager[None]:
        """Group many changes in a block, which is faster; readers may see them in groups of a few hundred."""

    def replace(self, row: FileRow, document: Document) -> None:
        """Replace the file by the document. A memory with unchanged text keeps its key and its vector."""

    def add(self, files: Sequence[tuple[FileRow, Document]]) -> None:
        """Add files that are not in the index, which is faster than one by one."""

    def append(self, row: FileRow, tail: Document, *, recounted: Sequence[str] = ()) -> None:
        """Add the records of the appended tail; `row` describes the whole file. Findings with the codes `recounted` are
        about the whole file: those of the tail replace the stored ones."""

    def replace_range(
        self, row: FileRow, changed: ReplacedRange, document: Document, *, recounted: Sequence[str] = ()
    ) -> None:
        """Replace a range of lines by the document, and move what follows. The file has no findings, or only some with
        the codes `recounted` about the whole file, which those of the document replace. `row` describes the whole file
        after the change."""

    def restamp(self, row: FileRow) -> None:
        """Store a new fingerprint for unchanged content."""

    def forget(self, path: str) -> None:
        """Remove a file from the index."""

    def set_access(self, path: str, uses: Mapping[str, int]) -> None:
        """Set how often memories of a file were read, by id, in layouts whose files do not record it."""

    def clear(self) -> None:
        """Remove everything. Keys are not reused."""

    def take_new_findings(self) -> list[FindingNews]:
        """Return the findings that are new since the last call."""

    def take_changes(self) -> Mapping[str, int] | None:
        """Return the files whose memories may have changed since the last call; None if it may be any of them. The
        number is 0, or the offset (bytes) from which all memories were appended, and none before it changed."""

    def missing_vectors(self, model: str, after: int, limit: int) -> list[tuple[int, str]]:
        """Return (key, redacted `whole_text`) of memories without a vector of the model or an agent, by key above
        `after`."""

    def put_vectors(self, model: str, rows: Sequence[tuple[int, bytes]]) -> None:
        """Store a packed vector for each (key, vector). Skips memories removed or with a vector of an agent."""

    @property
    def can_tidy(self) -> bool:
        """True if `tidy` has something to do."""

    def tidy(self) -> bool:
        """Do a bounded part of the maintenance that makes queries faster. Returns False when nothing is left."""

    def release_idle(self, now: float) -> None:
        """Release memory that no query has needed recently. `now` is in seconds."""
