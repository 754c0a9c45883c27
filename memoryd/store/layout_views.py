"""Views of a store for layouts: files are read when a layout requests them, never all at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, timedelta, timezone, tzinfo

from memoryd.core.defaults import DAY
from memoryd.core.records import FileStats, Role
from memoryd.core.spans import replace_surrogates
from memoryd.layouts.protocol import LoadedFile, UpkeepView, Writer, WriteView
from memoryd.store.store import Store


class IndexedFiles(Mapping[str, FileStats]):
    """The statistics of each file from the catalogue, updated by lines appended since. Files created since are included
    as empty. A single file is looked up alone; iterating loads all."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._all: dict[str, FileStats] | None = None

    def __getitem__(self, path: str) -> FileStats:
        if self._all is not None:
            return self._all[path]
        row = self._store.catalogue.file(path)
        if row is None:
            return self._created(path)
        appended = change.new if (change := self._store.pending_changes.pending_append(path)) is not None else b""
        size, added = row.fingerprint.size + len(appended), appended.count(b"\n")
        return FileStats(path, Role(row.role), size, row.units + added, row.broken, row.records + added, row.facts)

    def __contains__(self, path: object) -> bool:
        if self._all is None and isinstance(path, str):
            return path in self._store.pending_changes.created_paths or self._store.catalogue.file(path) is not None
        return path in self._load_all()

    def _created(self, path: str) -> FileStats:
        if path not in self._store.pending_changes.created_paths:
            raise KeyError(path)
        return FileStats(path, self._store.role(path), 0, 0, 0, 0, {})

    def _load_all(self) -> dict[str, FileStats]:
        if self._all is None:
            self._all = {
                path: self._created(path) for path in self._store.pending_changes.created_paths
            } | self._store.files()
        return self._all

    def __iter__(self) -> Iterator[str]:
        return iter(self._load_all())

    def __len__(self) -> int:
        return len(self._load_all())


def writer_of(store: Store) -> Writer:
    """Return the layout's writer; UsageError for a read-only layout."""
    return store.known_layout.require_writer()


class LazyFiles(Mapping[str, LoadedFile]):
    """Live files for upkeep, read one at a time, so that many large documents are never in memory together. Missing
    files are left out. Each access reads the file again; the plan is checked against the files before it is carried
    out."""

    def __init__(self, paths: Sequence[str], load: Callable[[str], LoadedFile | None]) -> None:
        self._paths = dict.fromkeys(paths)
        self._load = load
        self._last: tuple[str, LoadedFile] | None = None

    def __iter__(self) -> Iterator[str]:
        for path in self._paths:
            if path in self:
                yield path

    def __len__(self) -> int:
        return len(self._paths)

    def __contains__(self, path: object) -> bool:
        if not isinstance(path, str) or path not in self._paths:
            return False
        loaded = self._load(path)
        self._last = None if loaded is None else (path, loaded)
        return loaded is not None

    def __getitem__(self, path: str) -> LoadedFile:
        """Return a file; one that iteration has just read is not read again."""
        if (self._last is None or self._last[0] != path) and path not in self:
            raise KeyError(path)
        assert self._last is not None
        loaded = self._last[1]
        self._last = None
        return loaded


def local_zone(seconds: float) -> tzinfo:
    """Return the time zone of this machine at a time: file names with a time use local time, as the agents do."""
    offset = time.localtime(seconds).tm_gmtoff
    return timezone(timedelta(seconds=min(max(offset, 1 - DAY), DAY - 1)))  # TZ may name a larger one


def write_view(store: Store, now: float, *, number: int = 0, zone: tzinfo = UTC) -> WriteView:
    """Return the view for storing a memory. `number` is random, 64 bits; `zone` is the local time zone."""

    def load(path: str, ids: Collection[str] | None = None) -> LoadedFile | None:
        source = store.load(path, now, ids)
        return source.loaded if source is not None else None

    files, pinned = IndexedFiles(store), store.pinned()
    return WriteView(load, store.content, files, store.policy, store.limits, now, number, store.embed, zone, pinned)


def upkeep_view(
    store: Store,
    now: float,
    *,
    unattended: bool = False,
    ids: Collection[str] | None = None,
    select: Callable[[str, LoadedFile], LoadedFile] = lambda _, loaded: loaded,
    all_files: bool = False,
    max_moves: int | None = None,
) -> UpkeepView:
    """Return the view for upkeep: only the files where something can be due, or those that contain the memories in
    `ids`, or every live file (`all_files`). `select` returns a file at this path without the memories to leave out."""
    layout, files = store.known_layout, store.files()
    sources = [path for path, each in files.items() if each.role is Role.SOURCE]
    if all_files:
        paths: Sequence[str] = layout.reader.source_paths(sources)
    elif ids is None:
        paths = layout.upkeep.paths(files)
    else:
        # An id may also be in an archive or a read-only file; neither is changed.
        wanted = frozenset(map(replace_surrogates, ids))
        named = {place.path for each in wanted for place in store.catalogue.places(each) if place.id == each}
        paths = [path for path in layout.reader.source_paths(sources) if path in named]
    live = LazyFiles(
        paths, lambda path: select(path, source.loaded) if (source := store.load(path, now, ids)) else None
    )
    return UpkeepView(live, store.content, store.policy, now, store.pinned(), unattended, max_moves)
