"""Large stores cost what changed: counted in opened files and in memory, never in time."""

from __future__ import annotations

import os
import random
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from memoryd.core.defaults import Policy
from memoryd.disk.temps import is_our_temp
from memoryd.layouts.json_files.names import INDEX, STATS
from memoryd.operations.index_files import update_index
from memoryd.operations.refresh import refresh
from memoryd.store import Store
from tests.layouts.contract import NOW
from tests.layouts.json_samples import file

pytestmark = pytest.mark.slow

SIZES = (5_000, pytest.param(20_000))
DIMENSIONS, MEMORIES, USERS = 384, 100, 300
TRACED = 60  # documents read while each allocation is counted, which is slow


def name_of(number: int) -> str:
    return f"memory_{20250101000000 + number}.json"


def user_path(number: int) -> str:
    return f"files/user{number}/__long-memories/data.json"


def document(number: int) -> bytes:
    """The memories of one user as the program writes them, with unique vectors."""
    draw = random.Random(number)
    items = b",".join(
        b'{"data":{"id":%d,"content":"memory %d of %d","importance":0.5,"category":"c","topics":[]},"embedding":[%s]}'
        % (each, each, number, b",".join(b"%.6f" % draw.uniform(-1, 1) for _ in range(DIMENSIONS)))
        for each in range(MEMORIES)
    )
    return b'{"memories":[%s],"updated_at":"2026-01-30T12:00:00Z","last_deduplicated_at":null}' % items


def put(path: Path, content: bytes, age: float = 3600.0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (NOW - age, NOW - age))


def opened(base: Path, layout: str) -> Store:
    store = Store("m", str(base / "root"), layout, Policy(), str(base / "state"))
    store.attach()
    return store


def sync(store: Store, touched: list[str] | None = None) -> tuple[str, ...]:
    done = refresh(store, touched, NOW)
    if done.changed or done.deleted:
        store.index.dirty = True
    return update_index(store, NOW, force=True).written


@contextmanager
def opens() -> Iterator[list[str]]:
    """Names of all files below an open directory that are opened inside, except temporary files of memoryd."""
    seen: list[str] = []
    genuine = os.open

    def counting(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if dir_fd is not None and not flags & os.O_DIRECTORY and not is_our_temp(path):
            seen.append(path)
        return genuine(path, flags, mode, dir_fd=dir_fd)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", counting)
        yield seen


@pytest.fixture
def make_files(tmp_path: Path) -> Callable[[int], Path]:
    def make(count: int) -> Path:
        for number in range(count):
            put(tmp_path / "root" / name_of(number), file(number))
        store = opened(tmp_path, "json-files")
        assert set(sync(store)) == {INDEX, STATS}
        store.close()
        return tmp_path

    return make


@pytest.mark.parametrize("count", SIZES)
def test_starting_and_changing_an_indexed_store_costs_only_the_change(
    make_files: Callable[[int], Path], count: int
) -> None:
    base = make_files(count)
    with opens() as seen:
        store = opened(base, "json-files")
        assert sync(store) == ()
    assert seen == [], "the start on a known store looks at each file and opens none"
    assert store.index.result.memories == count

    changed = name_of(count // 2)
    for number, touched in enumerate(([changed], None)):
        put(base / "root" / changed, file(count // 2, tags=["new", f"tag{number}"]))
        with opens() as seen:
            assert sync(store, touched) == (INDEX,)
        assert seen.count(changed) == 1
        assert set(seen) == {changed, INDEX, STATS}
        assert len(seen) <= 5  # each index is read once, and the one that is written looked at again

    (base / "root" / changed).unlink()
    with opens() as seen:
        assert set(sync(store, [changed])) == {INDEX, STATS}
    assert set(seen) == {INDEX, STATS}
    with opens() as seen:
        assert sync(store) == ()
    assert seen == []
    store.close()


def test_canary_a_start_that_reads_everything_would_be_counted(
    make_files: Callable[[int], Path],
) -> None:
    """Only a changed time stamp makes a file read again; all files have one in this test."""
    base = make_files(50)
    for number in range(50):
        path = base / "root" / name_of(number)
        path.chmod(path.stat().st_mode)
    with opens() as seen:
        store = opened(base, "json-files")
        sync(store)
        store.close()
    assert len(seen) >= 50


@pytest.fixture
def users(tmp_path: Path) -> Path:
    for number in range(USERS):
        put(tmp_path / "root" / user_path(number), document(number % 10))
    return tmp_path


def peak(act: Callable[[], object]) -> int:
    """The peak of bytes that Python allocated, above the level before."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        act()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def test_memory_stays_flat_over_many_documents_and_one_change_is_read_alone(users: Path) -> None:
    size = len(document(0))
    store = opened(users, "user-document")
    sync(store, [user_path(number) for number in range(USERS - TRACED)])
    assert peak(lambda: sync(store)) < 6 * size
    assert store.index.result.memories == USERS * MEMORIES
    store.close()

    with opens() as seen:
        store = opened(users, "user-document")
        assert peak(lambda: sync(store)) < 6 * size
    assert seen == [], "the start on a known store opens nothing"

    put(users / "root" / user_path(7), document(11))
    with opens() as seen:
        assert peak(lambda: sync(store)) < 6 * size
    assert seen == ["data.json"], "one change is one file read once"
    store.close()


def test_canary_holding_every_document_would_be_noticed(tmp_path: Path) -> None:
    size = len(document(0))
    for number in range(10):
        put(tmp_path / "root" / user_path(number), document(number))
    store = opened(tmp_path, "user-document")
    kept: list[bytes] = []
    assert peak(lambda: kept.extend(store.tree.read(user_path(n))[0] for n in range(10))) > 6 * size
    store.close()
