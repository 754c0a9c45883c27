"""Read an index: files, records and findings here; memories, text and vectors through the modules next to this one.

A writer reads the entries and file summaries of the whole index again after each change. They are cached for it, so
that an index file costs what changed and not the store. A change marks what it makes out of date, which is read again
when it is needed: nothing is cached that was not read from the database. Of a large index nothing is cached.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, groupby
from operator import itemgetter

from memoryd.core.findings import Finding
from memoryd.core.index import FileChanges, FileRow, RoleTotals
from memoryd.core.places import ID_SUFFIX, Place, id_without_suffix, with_unique_ids
from memoryd.core.records import Entry, FileStats
from memoryd.core.spans import Fingerprint, replace_surrogates
from memoryd.index.sqlite.database import (
    ENTRIES,
    FILES,
    PLACES,
    STAMPS,
    SUMMARIES,
    Database,
    Row,
    decode_object,
    file_row,
    file_summary,
    key_of,
    path_of,
    place,
)
from memoryd.index.sqlite.fulltext import FullText
from memoryd.index.sqlite.memories import Memories
from memoryd.index.sqlite.statistics import Statistics
from memoryd.index.sqlite.substrings import Substrings
from memoryd.index.sqlite.vectors import Epoch, Vectors
from memoryd.index.sqlite.word_list import WordList

MAX_IDLE = 4  # open readers that are not in use
ONE_PASS_FILES = 100  # files; of more the records are fetched by one query
CACHED_RECORDS = 20_000  # at about a kilobyte each
CACHED_FILES = 20_000
CACHED_IDS = 10_000
_IN_ARCHIVES = "SELECT id FROM records JOIN files USING (path) WHERE role = 'archive'"
_ALSO_ARCHIVED = f"{PLACES} WHERE role = 'source' AND NOT archived AND id IN ({_IN_ARCHIVES})"
_SHARED = "SELECT id FROM records WHERE id IN ({}) GROUP BY id HAVING count(*) > 1"
FS_ENCODING = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()  # as os.fsdecode, in a third of its time


class Shared:
    """The memory shared by all connections to one index."""

    def __init__(self) -> None:
        self.words = WordList()
        self.epoch = Epoch()


class SqliteReader:
    """An IndexReader on one connection, composed of memory, full-text and vector queries."""

    def __init__(self, db: Database, shared: Shared) -> None:
        self._db = db
        self._memories = Memories(db)
        self._statistics = Statistics(db)
        self._inside = False  # a snapshot, in which what is cached is current
        self._unique_ids: dict[str, dict[int, str]] = {}  # by id, as `unique_ids` returns them
        substrings = Substrings(db, self._memories, self._statistics, shared.words)
        fulltext = FullText(db, self._memories, self._statistics, substrings)
        self.vectors = Vectors(db, shared.epoch)
        self.memories = self._memories.memories
        self.newest = self._memories.newest
        self.months = self._memories.months
        self.identities = self._memories.identities
        self.owners = self._memories.owners
        self.keys_of = self._memories.keys_of
        self.match = fulltext.match
        self.keys_with = fulltext.keys_with
        self.keys_with_label = fulltext.keys_with_label
        self.term_frequencies = self._statistics.term_frequencies
        self.vocabulary = substrings.vocabulary
        self.words_beginning = substrings.words_beginning
        self.known_words = substrings.known_words
        self.nearest = self.vectors.nearest
        self.vector = self.vectors.of
        self.vector_samples = self.vectors.samples

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read one state of the index throughout the block, regardless of later writes."""
        self._db.run("BEGIN")
        try:
            changed = self._statistics.begin()
            if changed or len(self._unique_ids) > CACHED_IDS:
                self._unique_ids.clear()
            self._memories.begin(changed=changed)
            self._inside = True
            yield
        finally:
            self._inside = False
            self._memories.end()
            self._db.run("COMMIT")

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    @property
    def size(self) -> int:
        """The number of memories, archived ones included."""
        return self._statistics.size

    # --- files

    def files(self) -> dict[str, FileRow]:
        """Return all indexed files by path."""
        return {row.path: row for row in map(file_row, self._db.stream(FILES))}

    def file(self, path: str) -> FileRow | None:
        """Return one indexed file; None if it is not indexed."""
        row = self._db.row(f"{FILES} WHERE path = ?", (key_of(path),))
        return file_row(row) if row else None

    def compare(self, found: Mapping[str, Fingerprint]) -> FileChanges:
        """Compare all files of a scan with those in the index."""
        changed: list[str] = []
        missing: dict[str, int] = {}
        known = total = 0
        for row in self._db.stream(STAMPS):
            at = found.get(path := row[0].decode(*FS_ENCODING))
            records = row[7]
            known += 1
            total += records
            if at is None:
                missing[path] = records
            elif row[1:6] != at[:5] or not row[6]:
                changed.append(path)
        new = self._new_among(found) if len(found) > known - len(missing) else []
        return FileChanges(new, changed, missing, total)

    def _new_among(self, found: Iterable[str]) -> list[str]:
        known = {key.decode(*FS_ENCODING) for (key,) in self._db.stream("SELECT path FROM files")}
        return [path for path in found if path not in known]

    def summaries(self) -> Iterator[FileStats]:
        """Yield the summary of every file, at half the cost of `files`."""
        return map(file_summary, self._db.stream(SUMMARIES))

    def totals(self) -> tuple[int, int]:
        """Return the number of files and their total size in bytes."""
        files, size = self._db.row("SELECT COUNT(*), COALESCE(SUM(size), 0) FROM files") or (0, 0)
        return int(files), int(size)

    def totals_by_role(self) -> dict[str, RoleTotals]:
        """Return the totals of the files with each role."""
        query = "SELECT role, COUNT(*), SUM(records), SUM(size) FROM files GROUP BY role"
        return {role: RoleTotals(*totals) for role, *totals in self._db.rows(query)}

    # --- records

    def entries(self, paths: Sequence[str]) -> Iterator[Entry]:
        """Yield the records of the given files: files in the given order, records in file order."""
        rows = self._rows_of_each(paths) if len(paths) < ONE_PASS_FILES else self._rows_in_one_pass(paths)
        for path, (_, line, identity, kind, archived, facts) in rows:
            yield Entry(path, line, identity, kind, bool(archived), decode_object(facts))

    def entries_from(self, path: str, start: int) -> Iterator[Entry]:
        """Yield the records of one file from this offset (bytes) on."""
        query = f"{ENTRIES} WHERE path = ? AND start >= ? ORDER BY start"
        for _, line, identity, kind, archived, facts in self._db.stream(query, (key_of(path), start)):
            yield Entry(path, line, identity, kind, bool(archived), decode_object(facts))

    def _rows_of_each(self, paths: Sequence[str]) -> Iterator[tuple[str, Row]]:
        query = f"{ENTRIES} WHERE path = ? ORDER BY start"
        for path in paths:
            for row in self._db.stream(query, (key_of(path),)):
                yield path, row

    def _rows_in_one_pass(self, paths: Sequence[str]) -> Iterator[tuple[str, Row]]:
        """Read all records in one query, for a directory of many small files. Rows that the given order needs later
        wait in `ahead`: few, since that order is nearly the order of the path bytes."""
        rows = self._db.stream(f"{ENTRIES} ORDER BY path, start")
        groups = groupby(rows, key=itemgetter(0))
        ahead: dict[bytes, list[Row]] = {}
        last = b""
        for path in paths:
            key = key_of(path)
            while last < key and (group := next(groups, None)) is not None:
                last = group[0]
                ahead[last] = list(group[1])
            for row in ahead.pop(key, ()):
                yield path, row

    def has_records(self) -> bool:
        """True if any file has a memory."""
        return self._db.row("SELECT 1 FROM files WHERE records > 0 LIMIT 1") is not None

    def live_count(self, path: str) -> int:
        """Count the memories of one file, equal ids once, archived ones left out."""
        query = "SELECT COUNT(DISTINCT id) FROM records WHERE path = ? AND NOT archived"
        [count] = self._db.row(query, (key_of(path),)) or (0,)
        return int(count)

    def places(self, identity: str) -> list[Place]:
        """Return the places of memories with exactly this id; if there are none, of the one with this unique id, or of
        those whose own id is this one and a suffix (`~` and six hex digits)."""
        given = replace_surrogates(identity)
        if exact := self._places(given):
            return exact
        base = id_without_suffix(given)
        if base is not None and (found := [each for each in self._places(base) if each.has_unique_id(given)]):
            return found
        suffixed = map(place, self._db.rows(f"{PLACES} WHERE id > ? AND id < ?", (f"{given}~", f"{given}~g")))
        return [each for each in suffixed if ID_SUFFIX.fullmatch(each.id, len(given))]

    def _places(self, identity: str) -> list[Place]:
        """Return the places of memories with exactly this id, each with its unique id."""
        found = list(map(place, self._db.rows(f"{PLACES} WHERE id = ?", (identity,))))
        return with_unique_ids(found) if len(found) > 1 else found

    def unique_ids(self, ids: Collection[str]) -> dict[int, str]:
        """Return the unique id of each memory with one of these ids that other memories have too, by key."""
        known = self._unique_ids if self._inside else {}
        missing = [each for each in dict.fromkeys(ids) if each not in known]
        if missing:
            marks = ",".join("?" * len(missing))
            shared = {id_ for (id_,) in self._db.rows(_SHARED.format(marks), missing)}
            for each in missing:
                places = self._places(each) if each in shared else []
                known[each] = {place.key: place.unique_id for place in places if place.is_shared}
        return {key: unique for each in dict.fromkeys(ids) for key, unique in known[each].items()}

    def also_archived(self) -> list[Place]:
        """Return the live memories whose id is also in an archive file, by path and position."""
        return sorted(map(place, self._db.rows(_ALSO_ARCHIVED)))

    # --- findings

    def findings(self) -> list[Finding]:
        """Return all findings, by path and line."""
        rows = self._db.rows("SELECT code, path, message, line, id FROM findings ORDER BY path, line")
        return [Finding(code, path_of(path), message, line, identity) for code, path, message, line, identity in rows]

    def finding_counts(self, path: str | None = None) -> dict[tuple[str, str], int]:
        """Count the findings by (path, code), of one file if `path` is given."""
        if path is None:
            rows = self._db.rows("SELECT path, code, COUNT(*) FROM findings GROUP BY path, code")
        else:
            query = "SELECT path, code, COUNT(*) FROM findings WHERE path = ? GROUP BY code"
            rows = self._db.rows(query, (key_of(path),))
        return {(path_of(key), code): count for key, code, count in rows}


class EntryCache:
    """Entries by file, from the second request on: after the first, an index file is mostly rendered from what changed,
    without any other entries."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._is_needed = False
        self._entries: dict[str, list[Entry]] = {}
        self._changed: dict[str, int] = {}  # the offset from which a file must be read again

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._changed.clear()

    def note_change(self, path: str, start: int = 0) -> None:
        """Read the entries of this file again, from this offset (bytes) on."""
        if path in self._entries:
            self._changed[path] = min(start, self._changed.get(path, start))

    def entries(
        self,
        paths: Sequence[str],
        read: Callable[[Sequence[str]], Iterator[Entry]],
        read_from: Callable[[str, int], Iterator[Entry]],
    ) -> Iterator[Entry]:
        """Return what `read(paths)` does. `read_from` reads the entries of one file from an offset on."""
        [count] = self._db.row("SELECT COUNT(*) FROM records") or (0,)
        if count > CACHED_RECORDS:
            self.clear()
            return read(paths)
        if not self._is_needed:
            self._is_needed = True
            return read(paths)
        for path, start in self._changed.items():
            if start:
                self._entries[path][self._count_before(path, start) :] = read_from(path, start)
            else:
                self._entries.pop(path, None)  # already gone where an earlier attempt failed
        self._changed.clear()
        missing = [path for path in paths if path not in self._entries]
        found: dict[str, list[Entry]] = {path: [] for path in missing}
        for entry in read(missing) if missing else ():
            found[entry.path].append(entry)
        self._entries |= found
        return chain.from_iterable(map(self._entries.__getitem__, paths))

    def _count_before(self, path: str, start: int) -> int:
        query = "SELECT COUNT(*) FROM records WHERE path = ? AND start < ?"
        [count] = self._db.row(query, (key_of(path), start)) or (0,)
        return int(count)


class SummaryCache:
    """Summaries of all files, by the bytes of their paths."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._summaries: dict[bytes, FileStats] | None = None
        self._changed: set[bytes] = set()

    def clear(self) -> None:
        """Forget everything."""
        self._summaries = None
        self._changed.clear()

    def note_change(self, path: str) -> None:
        """Read the summary of this file again."""
        if self._summaries is not None:
            self._changed.add(key_of(path))

    def summaries(self, read: Callable[[], Iterator[FileStats]]) -> Iterator[FileStats]:
        """Return what `read` does."""
        if self._summaries is None:
            [count] = self._db.row("SELECT COUNT(*) FROM files") or (0,)
            if count > CACHED_FILES:
                return read()
            self._summaries = {key_of(each.path): each for each in read()}
        if self._changed:
            self._summaries = self._updated(self._summaries)
        summaries = self._summaries
        if len(summaries) > CACHED_FILES:
            self.clear()
        return iter(summaries.values())

    def _updated(self, summaries: dict[bytes, FileStats]) -> dict[bytes, FileStats]:
        new = False
        for key in self._changed:
            row = self._db.row(f"{SUMMARIES} WHERE path = ?", (key,))
            if row is None:
                summaries.pop(key, None)
                continue
            new |= key not in summaries
            summaries[key] = file_summary(row)
        self._changed.clear()
        return dict(sorted(summaries.items())) if new else summaries


class ReaderPool:
    """A pool of readers of an index for any thread. Opening a connection costs more than most queries, so a few idle
    readers stay open; a reader whose block raised is closed."""

    def __init__(self, path: str, shared: Shared) -> None:
        self._path = path
        self._shared = shared
        self._changing = threading.Lock()
        self._idle: list[SqliteReader] = []
        self._closed = False

    @contextmanager
    def acquire(self) -> Iterator[SqliteReader]:
        """Yield a reader for the block."""
        with self._changing:
            reader = self._idle.pop() if self._idle else None
        reader = reader or SqliteReader(Database(self._path, read_only=True), self._shared)
        sound = False
        try:
            yield reader
            sound = True
        finally:
            with self._changing:
                reusable = sound and not self._closed and len(self._idle) < MAX_IDLE
                if reusable:
                    self._idle.append(reader)
            if not reusable:
                reader.close()

    def close(self) -> None:
        """Close the idle readers; readers in use are closed when they are returned."""
        with self._changing:
            self._closed = True
            idle, self._idle = self._idle, []
        for each in idle:
            each.close()
