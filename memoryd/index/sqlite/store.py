"""Write an index: a SQLite file in the state directory that can be deleted at any time.

With it a start only stats files instead of parsing them, memory use stays flat as stores grow, and readers are served
while the worker works. A damaged index is deleted and rebuilt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from memoryd.core.findings import FindingNews, NewFindings
from memoryd.core.index import FileRow, IndexReader, IndexWriter
from memoryd.core.records import Document, Entry, FileStats, Record, ReplacedRange
from memoryd.core.spans import Span, replace_surrogates
from memoryd.core.words import indexable
from memoryd.index.sqlite.database import (
    INSERT_RECORD,
    RELEASE_CACHE,
    Database,
    encode,
    file_values,
    key_of,
)
from memoryd.index.sqlite.reader import EntryCache, ReaderPool, Shared, SqliteReader, SummaryCache
from memoryd.index.texts import CleanRecord, Text, clean, clean_files, redacted

KeysByText = dict[Text, list[int]]
"""The keys of the records of one file, by their texts."""

_END_OF_FILE = 2**62
_OF_FILE = (
    "SELECT key, title, tags, labels, body FROM records JOIN texts USING (key)"
    " WHERE path = ? AND start >= ? AND start < ? ORDER BY start"
)
_INSERT_WORDS = "INSERT INTO words (rowid, title, labels, body) VALUES (?,?,?,?)"
_REMOVE_WORDS = "INSERT INTO words (words, rowid, title, labels, body) VALUES ('delete',?,?,?,?)"


def keys_by_text(db: Database, path: bytes, within: Span | None = None) -> KeysByText:
    """Return the keys of the indexed records of a file, or of a range of its bytes, by text."""
    known: KeysByText = {}
    where = (path, within.start, within.end) if within is not None else (path, 0, _END_OF_FILE)
    for key, *parts in db.rows(_OF_FILE, where):
        known.setdefault(Text(*parts), []).append(key)
    return known


def insert(db: Database, records: Sequence[CleanRecord], known: KeysByText) -> list[int]:
    """Add new texts to the index and return the key of each record, in order. Texts found in `known` keep their key and
    are taken out of `known`."""
    row = db.row("SELECT seq FROM sqlite_sequence WHERE name = 'records'")
    last = int(row[0]) if row else 0
    keyed: list[int] = []
    new: list[tuple[int, Text]] = []
    for record in records:
        if keys := known.get(record.text):
            key = keys.pop(0)
        else:
            key = last = last + 1
            new.append((key, record.text))
        keyed.append(key)
    db.run_many("INSERT INTO texts VALUES (?,?,?)", ((key, text.labels, text.body) for key, text in new))
    db.run_many(_INSERT_WORDS, map(_indexed, new))
    return keyed


def remove(db: Database, known: KeysByText) -> None:
    """Remove the texts still in `known`, with their words and vectors."""
    old = [(key, text) for text, keys in known.items() for key in keys]
    db.run_many(_REMOVE_WORDS, map(_indexed, old))
    numbers = [(key,) for key, _ in old]
    db.run_many("DELETE FROM texts WHERE key = ?", numbers)
    db.run_many("DELETE FROM vectors WHERE key = ?", numbers)


def _indexed(each: tuple[int, Text]) -> tuple[int, str, str, str]:
    key, text = each
    return key, indexable(text.title), indexable(f"{text.labels}\n{text.tags}"), indexable(text.body)


MERGE_PAGES = 256  # pages of the full-text index written by one merge
CHANGES_PER_COMMIT = 1024  # in a batch; each commit adds a segment to the full-text index, to be merged later
CHANGED_PATHS = 1000  # that are remembered one by one
_INSERT_FILE = "INSERT OR REPLACE INTO files VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"

_FindingCounts = Mapping[tuple[str, str | None], int]  # by (code, id)


class SqliteIndex(SqliteReader):
    """An IndexWriter. Used by one writer at a time; other threads read through `reader()`."""

    def __init__(self, path: str, quiet: Collection[str] = ()) -> None:
        shared = Shared()
        super().__init__(Database(path), shared)
        self.path = path
        self._pool = ReaderPool(path, shared)
        self._new_findings = NewFindings(quiet)
        self._entries = EntryCache(self._db)
        self._summaries = SummaryCache(self._db)
        self._totals: tuple[int, int] | None = None
        self._changes: dict[str, int] | None = None  # what `take_changes` returns
        self._batch = False
        self._uncommitted = 0  # changes that are not committed yet
        self.can_tidy = True
        self.missing_vectors = self.vectors.missing
        self.put_vectors = self.vectors.put
        self.release_idle = shared.epoch.matrices.release_idle

    @contextmanager
    def reader(self) -> Iterator[IndexReader]:
        """Yield a reader to any thread; it sees one state, regardless of later writes."""
        with self._pool.acquire() as lent, lent.snapshot():
            yield lent

    def close(self) -> None:
        """Close the index; readers in use still work until their block ends."""
        self._pool.close()
        super().close()

    # --- reading again what changed

    def entries(self, paths: Sequence[str]) -> Iterator[Entry]:
        """Yield the records of the given files; those of unchanged files come from memory."""
        return self._entries.entries(paths, super().entries, self.entries_from)

    def summaries(self) -> Iterator[FileStats]:
        """Yield the summary of every file; those of unchanged files come from memory."""
        return self._summaries.summaries(super().summaries)

    def totals(self) -> tuple[int, int]:
        """Return the number of files and their total size in bytes, counted once and then kept."""
        if self._totals is None:
            self._totals = super().totals()
        return self._totals

    def _note_size(self, key: bytes, size: int | None) -> None:
        """Update the totals: the file is about to get this size, or to be removed (None)."""
        if self._totals is None:
            return
        files, total = self._totals
        [known] = self._db.row("SELECT size FROM files WHERE path = ?", (key,)) or (None,)
        self._totals = files + (size is not None) - (known is not None), total + (size or 0) - (known or 0)

    def _note_change(self, path: str, start: int = 0, *, appended: bool = False) -> None:
        self._entries.note_change(path, start)
        self._summaries.note_change(path)
        if self._changes is not None:
            start = start if appended else 0
            self._changes[path] = min(start, self._changes.get(path, start))
            self._changes = self._changes if len(self._changes) <= CHANGED_PATHS else None

    def _forget_cached(self) -> None:
        self._changes = None
        self._entries.clear()
        self._summaries.clear()
        self._totals = None

    # --- changes

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Commit the changes of the block a few hundred at a time, which is cheaper than one by one."""
        self._batch = True
        try:
            yield
        finally:
            self._batch, self._uncommitted = False, 0
            self._commit()

    @contextmanager
    def _change(self, files: int = 1) -> Iterator[None]:
        """Apply a change completely or not at all; if it fails, uncommitted changes of the batch are lost with it."""
        try:
            yield
        except BaseException:
            self._forget_cached()
            self._db.rollback()
            self._uncommitted = 0
            raise
        self._uncommitted += files
        self.can_tidy = True
        if not self._batch or self._uncommitted >= CHANGES_PER_COMMIT:
            self._commit()
            self._uncommitted = 0

    def _commit(self) -> None:
        try:
            self._db.commit()
        except BaseException:
            self._forget_cached()  # what was read meanwhile may not last
            raise

    def replace(self, row: FileRow, document: Document) -> None:
        """Replace the file by the document. A memory with unchanged text keeps its key and its vector."""
        key = key_of(row.path)
        with self._change():
            known = keys_by_text(self._db, key)
            found = self._finding_counts(key, document)
            self.vectors.drop_agent_vectors(key, document.records)
            self._note_size(key, row.fingerprint.size)
            self._delete_rows(key)
            self._insert([(row, document)], known, found)
            remove(self._db, known)
            self._note_change(row.path)

    def add(self, files: Sequence[tuple[FileRow, Document]]) -> None:
        """Add files that are not in the index."""
        with self._change(len(files)):
            self._totals = None
            self._insert(files, {}, {})
            for row, _ in files:
                self._note_change(row.path)

    def append(self, row: FileRow, tail: Document, *, recounted: Sequence[str] = ()) -> None:
        """Add the records of the tail to a file that grew; `row` describes the whole file. Findings with the codes
        `recounted` are about the whole file: those of the tail replace the stored ones."""
        key = key_of(row.path)
        with self._change():
            found = {each: count for each, count in self._finding_counts(key, tail).items() if each[0] in recounted}
            self._note_size(key, row.fingerprint.size)
            self._db.run("DELETE FROM files WHERE path = ?", (key,))
            self._db.run_many("DELETE FROM findings WHERE path = ? AND code = ?", [(key, code) for code in recounted])
            self._insert([(row, tail)], {}, found)
            start = tail.records[0].span.start if tail.records else _END_OF_FILE
            self._note_change(row.path, start, appended=True)

    def replace_range(
        self, row: FileRow, changed: ReplacedRange, document: Document, *, recounted: Sequence[str] = ()
    ) -> None:
        """Replace some lines of a file by those of the document and move what is below. `row` describes the whole
        file, which has no findings but those with the codes `recounted`: those of the document replace them."""
        key = key_of(row.path)
        with self._change():
            known = keys_by_text(self._db, key, changed.span)
            before = self._finding_counts(key, document)
            self._note_size(key, row.fingerprint.size)
            appended = self._shift(key, changed)
            self._db.run_many("DELETE FROM findings WHERE path = ? AND code = ?", [(key, code) for code in recounted])
            after = self._finding_counts(key, document)
            self._insert([(row, document)], known, {each: count - after.get(each, 0) for each, count in before.items()})
            remove(self._db, known)
            self._note_change(row.path, changed.span.start, appended=appended)

    def restamp(self, row: FileRow) -> None:
        """Store a new fingerprint for unchanged content."""
        with self._change():
            self._note_size(key_of(row.path), row.fingerprint.size)
            self._db.run(_INSERT_FILE, file_values(row, clean(row.facts)))
            self._summaries.note_change(row.path)

    def forget(self, path: str) -> None:
        """Remove a file and its memories."""
        key = key_of(path)
        with self._change():
            remove(self._db, keys_by_text(self._db, key))
            self._note_size(key, None)
            self._delete_rows(key)
            self._note_change(path)

    def set_access(self, path: str, uses: Mapping[str, int]) -> None:
        """Store how often memories of one file were read, by id, if the file itself does not record it."""
        rows = [(times, key_of(path), replace_surrogates(identity)) for identity, times in uses.items()]
        with self._change():
            self._db.run_many("UPDATE records SET uses = ? WHERE path = ? AND id = ?", rows)

    def clear(self) -> None:
        """Remove everything; keys are not reused."""
        with self._change():
            for table in ("files", "records", "findings", "texts", "vectors"):
                self._db.run(f"DELETE FROM {table}")  # noqa: S608 - the names stand in the line above
            self._db.run("INSERT INTO words(words) VALUES ('delete-all')")
            self._forget_cached()

    def take_new_findings(self) -> list[FindingNews]:
        """Return the findings that were added and not reported yet, and forget them."""
        return self._new_findings.take() if self._new_findings.waiting else []

    def take_changes(self) -> Mapping[str, int] | None:
        """Return the files whose memories may have changed since the last call; None if it may be any of them. The
        number is 0, or the offset (bytes) from which all memories were appended, and none before it changed."""
        changed, self._changes = self._changes, {}
        return changed

    def tidy(self) -> bool:
        """Merge some segments of the full-text index, which makes queries faster: 0.1 s at most. False when nothing is
        left to do; then the word list is up to date as well, so that no query waits for it."""
        before = self._db.total_changes
        with self._db.transaction():
            self._db.run("INSERT INTO words (words, rank) VALUES ('merge', ?)", (MERGE_PAGES,))
        self.can_tidy = self._db.total_changes - before > 1
        if not self.can_tidy:
            self.vocabulary()
            self._db.run(RELEASE_CACHE)
        return self.can_tidy

    # --- rows

    def _delete_rows(self, key: bytes) -> None:
        self._db.run("DELETE FROM files WHERE path = ?", (key,))
        self._db.run("DELETE FROM records WHERE path = ?", (key,))
        self._db.run("DELETE FROM findings WHERE path = ?", (key,))

    def _shift(self, key: bytes, changed: ReplacedRange) -> bool:
        """Delete the records of the range and move those below it. Findings have line numbers in their messages, so
        this is not for files with findings. Returns whether there were none of either."""
        start, end = changed.span.start, changed.span.end
        if self._db.row("SELECT 1 FROM records WHERE path = ? AND start >= ? LIMIT 1", (key, start)) is None:
            return True
        self._db.run("DELETE FROM records WHERE path = ? AND start >= ? AND start < ?", (key, start, end))
        further, lower = changed.new_bytes - (end - start), changed.new_lines - changed.lines
        if further or lower:
            move = "UPDATE records SET start = start + ?, end = end + ?, line = line + ? WHERE path = ? AND start >= ?"
            self._db.run(move, (further, further, lower, key, end))
        return False

    def _finding_counts(self, key: bytes, document: Document) -> _FindingCounts:
        """Count the known findings of a file by code and id, if the document has any to compare them with."""
        if not document.findings:
            return {}
        query = "SELECT code, id, COUNT(*) FROM findings WHERE path = ? GROUP BY code, id"
        return {(code, identity): count for code, identity, count in self._db.rows(query, (key,))}

    def _insert(self, files: Sequence[tuple[FileRow, Document]], known: KeysByText, found: _FindingCounts) -> None:
        """Insert rows, records and findings of files. `known` and `found` are those of the only file, where a file is
        replaced."""
        facts, cleaned = clean_files([(row.facts, document.records) for row, document in files], together=not known)
        self._db.run_many(_INSERT_FILE, map(file_values, [row for row, _ in files], facts))
        keys = insert(self._db, cleaned, known)
        records = [(key_of(row.path), each) for row, document in files for each in document.records]
        self._db.run_many(INSERT_RECORD, map(_record, keys, records, cleaned))
        self.vectors.put_agent_vectors([record for _, record in records], keys)
        for row, document in files:
            if document.findings:
                self._insert_findings(key_of(row.path), document, found)

    def _insert_findings(self, path: bytes, document: Document, found: _FindingCounts) -> None:
        findings = [replace(each, message=redacted(each.message)) for each in document.findings]
        self._new_findings.note(findings, found)
        self._db.run_many(
            "INSERT INTO findings VALUES (?,?,?,?,?)",
            [(path, f.code, f.line, replace_surrogates(f.id) if f.id else None, f.message) for f in findings],
        )


def _record(key: int, of_file: tuple[bytes, Record], cleaned: CleanRecord) -> tuple[object, ...]:
    """Convert a record of the file at this path to the columns of INSERT_RECORD."""
    path, record = of_file
    return (
        key,
        path,
        record.span.start,
        record.span.end,
        record.line,
        replace_surrogates(record.id),
        cleaned.type,
        cleaned.text.title,
        record.created,
        record.used,
        record.archived,
        cleaned.text.tags,
        replace_surrogates(record.owner),
        record.weight,
        record.uses,
        encode(cleaned.facts),
    )


def open_index(path: str, quiet: Collection[str] = ()) -> IndexWriter:
    """Open the index in this file, or create an empty one if it is missing, damaged or of another version."""
    return SqliteIndex(path, quiet)
