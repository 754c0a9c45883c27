"""From a write to what depends on it: searchable, listed by the index file, covered by `sync`.

What must hardly grow with the store is measured by turns: one sample at each size, then the next of each. A machine
that is slower for some minutes is so at all sizes, and shifts no exponent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Protocol

from memoryd.control.client import Client
from tests.bench import goals
from tests.bench.agent_writes import INDEX_FILES, Change, index_token
from tests.bench.floors import MinimalIndexer
from tests.bench.inotify import Inotify
from tests.bench.raw_disk import RawDisk
from tests.bench.results import Row, row
from tests.bench.rig import timed
from tests.bench.store import Store

PATIENCE_S = 20.0  # after which a write counts as lost
POLL_S = 0.001
PAUSE_S = 0.3  # between two writes: each is alone


class Sampler(Protocol):
    """Measures several quantities of one store."""

    def sample(self) -> None:
        """Take one sample of each quantity and of its floor."""

    def rows(self) -> Iterator[Row]:
        """Summarise the samples."""

    def close(self) -> None:
        """Close what the floors use."""


def by_turns(make: Callable[[Store], Sampler], stores: Sequence[Store]) -> Iterator[Row]:
    """Take one sample of each store, so many times as there are writes; yield the rows of each."""
    with ExitStack() as stack:
        samplers = [stack.enter_context(closing(make(each))) for each in stores]
        for _ in range(stores[0].effort.writes):
            for each in samplers:
                each.sample()
        for each in samplers:
            yield from each.rows()


def searchable(stores: Sequence[Store]) -> Iterator[Row]:
    """One write at a time, and text searches for its word until one finds it."""
    return by_turns(_Searchable, stores)


class _Searchable:
    """Samples of the time from a close to a search that finds the memory."""

    def __init__(self, store: Store) -> None:
        self._store, self._client, self._agent = store, store.rig.client, store.agent()
        self._took, self._lost = list[float](), 0
        self._floor = _Floor(store)
        self.close = self._floor.close

    def sample(self) -> None:
        change = self._agent.next()
        closed = change.carry_out(self._store.corpus.root)
        found = _until(partial(_finds, self._client, self._store, change.word))
        if found is None:
            self._lost += 1
        else:
            self._took.append((found - closed) * 1000)
        time.sleep(PAUSE_S)
        self._floor.measure(change)

    def rows(self) -> Iterator[Row]:
        layout, size, floor = self._store.layout, self._store.size, self._floor
        variant = "document of 7 MB" if layout == "user-document" else ""
        yield row(goals.SEARCHABLE, variant, layout, size, self._took, floor=floor.answers, lost=self._lost)
        if not variant:
            yield row(goals.SEARCHABLE, "raw inotify event", layout, size, floor.events)


class _Floor:
    """The same changes, made to copies, which a minimal indexer follows."""

    def __init__(self, store: Store) -> None:
        self._indexer = MinimalIndexer(store.place / f"minimal-{time.monotonic_ns()}", store.layout)
        self.events: list[float] = []
        self.answers: list[float] = []

    def measure(self, change: Change) -> None:
        copy = self._indexer.root / change.name
        offset = copy.stat().st_size if change.form == "append" and copy.exists() else 0
        event, answer = self._indexer.measure(change.copy_to, change.name, change.word, offset)
        self.events.append(event)
        self.answers.append(answer)

    def close(self) -> None:
        self._indexer.close()


def _finds(client: Client, store: Store, word: str) -> bool:
    whose = {"user": "user-large"} if store.layout == "user-document" else {}
    asked = {"query": word, "root": store.layout, "mode": "text", "limit": 1, **whose}
    return bool(client.call("memory.search", asked)["hits"])


def _until(look: Callable[[], bool]) -> float | None:
    """When `look` was first true (monotonic seconds); None if it never was."""
    deadline = time.monotonic() + PATIENCE_S
    while not look():
        if time.monotonic() > deadline:
            return None
        time.sleep(POLL_S)
    return time.monotonic()


def index_file(store: Store) -> Iterator[Row]:
    """One write at a time, and the index file read at each of its renames until it lists the write."""
    store.rig  # noqa: B018 - starts the daemon
    root, index = store.corpus.root, INDEX_FILES[store.layout]
    agent, took, lost = store.agent(new_files=True), list[float](), 0
    with closing(Inotify(str(root))) as inotify:
        for _ in range(store.effort.writes):
            change = agent.next()
            closed = change.carry_out(root)
            at = _listed(inotify, root / index, index_token(store.layout, change))
            if at is None:
                lost += 1
            else:
                took.append((at - closed) * 1000)
            time.sleep(PAUSE_S)
            inotify.wait(0)
    floor = _rewrites(store, (root / index).stat().st_size)
    yield row(goals.INDEX_FILE, "", store.layout, store.size, took, floor=floor, lost=lost)


def _listed(inotify: Inotify, index: Path, token: bytes) -> float | None:
    """When the rename of the first index that has the token was read; None if none came."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for at, _, name in inotify.wait(0.5):
            if name == index.name and token in index.read_bytes():
                return at
    return None


def _rewrites(store: Store, size: int) -> list[float]:
    """Milliseconds to write as many bytes durably in the place of a file."""
    with closing(RawDisk(store.place / "raw-index", grown=b"y" * 100_000)) as disk:
        return [timed(lambda: disk.rewrite(size)) for _ in range(min(20, store.effort.writes))]


def sync(stores: Sequence[Store]) -> Iterator[Row]:
    """`sync` right after a write, with and without the index files, proved by a search; and with nothing to do. Where
    the write changes the index file, to rewrite that is part of the floor."""
    return by_turns(_Sync, stores)


class _Sync:
    """Samples of `sync` after a write, for the search alone after another one, and with nothing to do."""

    def __init__(self, store: Store) -> None:
        self._store, self._rig, self._agent = store, store.rig, store.agent()
        self._after, self._searchable, self._idle, self._lost = list[float](), list[float](), list[float](), 0
        self._floor, self._rewrites, self._ping = _Floor(store), list[float](), list[float]()
        self._disk = RawDisk(store.place / f"raw-sync-{time.monotonic_ns()}", grown=b"y" * 100_000)

    def sample(self) -> None:
        before = _index_file(self._store)
        change, took = self._write_and_sync()
        self._after.append(took)
        index = _index_file(self._store)
        self._rewrites.append(0.0 if index == before else timed(partial(self._disk.rewrite, index[1])))
        self._check(change)
        another, took = self._write_and_sync(search_only=True)
        self._searchable.append(took)
        self._check(another)
        self._sync()
        self._idle.append(timed(self._sync))
        self._ping.append(timed(lambda: self._rig.call("ping")))
        self._floor.measure(change)

    def _write_and_sync(self, **params: bool) -> tuple[Change, float]:
        """Carry out the next change; return it, and the milliseconds of the call that followed."""
        change = self._agent.next()
        change.carry_out(self._store.corpus.root)
        return change, timed(lambda: self._sync(**params))

    def _sync(self, **params: bool) -> None:
        self._rig.call("sync", root=self._store.layout, **params)

    def _check(self, change: Change) -> None:
        """Search for the change, then let the daemon finish what may follow an answer."""
        self._lost += not _finds(self._rig.client, self._store, change.word)
        time.sleep(PAUSE_S / 3)

    def rows(self) -> Iterator[Row]:
        layout, size, answers = self._store.layout, self._store.size, self._floor.answers
        variant = "after one write of 7 MB" if layout == "user-document" else "after one write"
        least = [answer + rewrite for answer, rewrite in zip(answers, self._rewrites, strict=True)]
        yield row(goals.SYNC, variant, layout, size, self._after, floor=least, lost=self._lost)
        yield row(goals.SYNC, f"search only, {variant}", layout, size, self._searchable, floor=answers)
        yield row(goals.SYNC, "nothing to do", layout, size, self._idle, floor=self._ping)

    def close(self) -> None:
        self._floor.close()
        self._disk.close()


def _index_file(store: Store) -> tuple[int, int]:
    """The inode of the index file, and its size in bytes; zeros where there is none."""
    name = INDEX_FILES.get(store.layout)
    path = store.corpus.root / name if name else None
    if path is None or not path.exists():
        return 0, 0
    found = path.stat()
    return found.st_ino, found.st_size
