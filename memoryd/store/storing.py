"""What storing is decided on, as far as a store can tell it: files as they are asked for, never all of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, tzinfo

from memoryd.core.records import Role
from memoryd.layouts.base import FileSummary, Loaded
from memoryd.layouts.storing import Storing, StoringView
from memoryd.store.store import Store


class KnownFiles(Mapping[str, FileSummary]):
    """What the catalogue knows of each file, and what was appended since. One is looked up alone; only who asks for all
    pays for all (and is told what the catalogue knows). Files made since are among them, as empty ones."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._all: dict[str, FileSummary] | None = None

    def __getitem__(self, path: str) -> FileSummary:
        if self._all is not None:
            return self._all[path]
        row = self._store.catalogue.file(path)
        if row is None:
            return self._new(path)
        new = waiting.new if (waiting := self._store.own_changes.waiting(path)) is not None else b""
        size, added = row.fingerprint.size + len(new), new.count(b"\n")
        return FileSummary(path, Role(row.role), size, row.units + added, row.broken, row.records + added, row.facts)

    def __contains__(self, path: object) -> bool:
        if self._all is None and isinstance(path, str):
            return path in self._store.own_changes.new or self._store.catalogue.knows(path)
        return path in self._every()

    def _new(self, path: str) -> FileSummary:
        if path not in self._store.own_changes.new:
            raise KeyError(path)
        return FileSummary(path, self._store.role(path), 0, 0, 0, 0, {})

    def _every(self) -> dict[str, FileSummary]:
        if self._all is None:
            self._all = {path: self._new(path) for path in self._store.own_changes.new} | self._store.files()
        return self._all

    def __iter__(self) -> Iterator[str]:
        return iter(self._every())

    def __len__(self) -> int:
        return len(self._every())


def layout_of(store: Store) -> Storing:
    """The storing half of the root's layout, which must be known."""
    assert store.layout is not None
    return store.layout


def storing_view(store: Store, now: float, *, number: int = 0, zone: tzinfo = UTC) -> StoringView:
    """`number` is random, 64 bits; `zone` is that of the place."""

    def load(path: str, ids: Collection[str] | None = None) -> Loaded | None:
        source = store.load(path, now, ids)
        return source.loaded if source is not None else None

    def content(path: str) -> bytes | None:
        try:
            return store.tree.read(path)[0]
        except (FileNotFoundError, NotADirectoryError):
            return None

    files, held = KnownFiles(store), store.held()
    return StoringView(load, content, files, store.policy, store.limits, now, number, store.embed, zone, held)
