"""From a write to what depends on it: searchable, listed by the index file, covered by `sync`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

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


def searchable(store: Store) -> Iterator[Row]:
    """One write at a time, and text searches for its word until one finds it."""
    took, floor, lost = list[float](), _Floor(store), 0
    agent, client = store.agent(), store.rig.client
    with closing(floor):
        for _ in range(store.effort.writes):
            change = agent.next()
            closed = change.carry_out(store.corpus.root)
            found = _until(partial(_finds, client, store, change.word))
            if found is None:
                lost += 1
            else:
                took.append((found - closed) * 1000)
            time.sleep(PAUSE_S)
            floor.measure(change)
    large = store.layout == "user-document"
    yield row(
        goals.SEARCHABLE,
        "document of 7 MB" if large else "",
        store.layout,
        store.size,
        took,
        floor=floor.answers,
        lost=lost,
    )
    if not large:
        yield row(goals.SEARCHABLE, "raw inotify event", store.layout, store.size, floor.events)


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


def sync(store: Store) -> Iterator[Row]:
    """`sync` right after a write, with and without the index files, proved by a search; and with nothing to do. Where
    the write changes the index file, to rewrite that is part of the floor."""
    agent, client, rig = store.agent(), store.rig.client, store.rig
    after, searchable, idle, ping, lost = list[float](), list[float](), list[float](), list[float](), 0
    rewrites, floor = list[float](), _Floor(store)
    disk = RawDisk(store.place / f"raw-sync-{time.monotonic_ns()}", grown=b"y" * 100_000)
    with closing(floor), closing(disk):
        for _ in range(store.effort.writes):
            change, before = agent.next(), _index_file(store)
            change.carry_out(store.corpus.root)
            after.append(timed(lambda: rig.call("sync", root=store.layout)))
            index = _index_file(store)
            rewrites.append(0.0 if index == before else timed(partial(disk.rewrite, index[1])))
            lost += not _finds(client, store, change.word)
            time.sleep(PAUSE_S / 3)
            another = agent.next()
            another.carry_out(store.corpus.root)
            searchable.append(timed(lambda: rig.call("sync", root=store.layout, search_only=True)))
            lost += not _finds(client, store, another.word)
            rig.call("sync", root=store.layout)
            idle.append(timed(lambda: rig.call("sync", root=store.layout)))
            ping.append(timed(lambda: rig.call("ping")))
            floor.measure(change)
    large = store.layout == "user-document"
    variant = "after one write of 7 MB" if large else "after one write"
    least = [answer + rewrite for answer, rewrite in zip(floor.answers, rewrites, strict=True)]
    yield row(goals.SYNC, variant, store.layout, store.size, after, floor=least, lost=lost)
    yield row(goals.SYNC, f"search only, {variant}", store.layout, store.size, searchable, floor=floor.answers)
    yield row(goals.SYNC, "nothing to do", store.layout, store.size, idle, floor=ping)


def _index_file(store: Store) -> tuple[int, int]:
    """The inode of the index file, and its size in bytes; zeros where there is none."""
    name = INDEX_FILES.get(store.layout)
    path = store.corpus.root / name if name else None
    if path is None or not path.exists():
        return 0, 0
    found = path.stat()
    return found.st_ino, found.st_size
