"""The entries and file summaries of a writer in memory, so that an index file costs what changed and not the store.

A change marks what it makes out of date, which is read again when it is needed: nothing is kept that was not read from
the database. Of a large index nothing is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from memoryd.core.index import FileSummary
from memoryd.core.records import Entry
from memoryd.index.sqlite.database import SUMMARIES, Database, file_summary, key_of

CACHED_RECORDS = 20_000  # at about a kilobyte each
CACHED_FILES = 20_000


class EntryCache:
    """Entries by file."""

    def __init__(self, db: Database) -> None:
        self._db = db
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
        self._summaries: dict[bytes, FileSummary] | None = None
        self._changed: set[bytes] = set()

    def clear(self) -> None:
        """Forget everything."""
        self._summaries = None
        self._changed.clear()

    def note_change(self, path: str) -> None:
        """Read the summary of this file again."""
        if self._summaries is not None:
            self._changed.add(key_of(path))

    def summaries(self, read: Callable[[], Iterator[FileSummary]]) -> Iterator[FileSummary]:
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

    def _updated(self, summaries: dict[bytes, FileSummary]) -> dict[bytes, FileSummary]:
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
