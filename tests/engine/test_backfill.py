"""Vectors for what came in: at once by a fast embedder, beside the work by a slow one; what happens when it fails."""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from memoryd.core.index import FileRow, IndexUnavailable
from memoryd.core.records import Document, Record
from memoryd.core.spans import Fingerprint, Span
from memoryd.engine.backfill import (
    AT_ONCE,
    FEW,
    FIRST,
    FIRST_PAUSE_S,
    LATER_S,
    MAX_PAUSE_S,
    NICE,
    SLOW_BATCH,
    SYNC_S,
    Backfill,
    VectorsDue,
)
from memoryd.engine.deadlines import NEVER
from memoryd.engine.interfaces import Clock
from memoryd.errors import EmbedderError
from memoryd.index.sqlite import SqliteIndex
from tests.engine.numbers import Numbers


def vectors_of(index: SqliteIndex, model: str) -> int:
    """How many vectors of the model there are."""
    return len(list(index.vectors.load(model, 0)))


class World:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = 1000.0
        self.store: Any = SimpleNamespace(
            name="root", catalogue=SqliteIndex(str(path)), searches=SimpleNamespace(give_way=lambda: None)
        )

    def filling(self, embedder: Numbers | None) -> Backfill:
        clock = cast("Clock", SimpleNamespace(monotonic=lambda: self.now, wall=lambda: self.now))
        return Backfill(self.store, clock, embedder)

    def put(self, count: int, path: str = "a") -> None:
        records = tuple(
            Record(Span(n, n + 1), 1, f"{path}{n}", "note", "", 1.0, 1.0, (), False, {}, text=f"{path} {n}")
            for n in range(count)
        )
        row = FileRow(path, "source", Fingerprint(1, 1, 1, 1, 1), "0", records=count)
        self.store.catalogue.replace(row, Document(path, records))

    def have(self) -> int:
        return vectors_of(self.store.catalogue, "numbers")

    def until(self, filling: Backfill, done: Callable[[], bool]) -> None:
        """Turns, as the worker makes them, until it is so."""
        deadline = time.monotonic() + 20
        while not done():
            assert time.monotonic() < deadline
            self.now = max(self.now, min(filling.next_due, self.now + 1.0))
            filling.run(self.now)
            threading.Event().wait(0.001)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "c.db")
    yield made
    made.store.catalogue.close()


def test_without_an_embedder_nothing_is_ever_due(world: World) -> None:
    filling = world.filling(None)
    world.put(3)
    filling.notify(VectorsDue.BEFORE_SEARCH)
    filling.run(world.now)
    assert filling.next_due == NEVER


def test_a_fast_embedder_is_done_when_a_change_is(world: World) -> None:
    embedder = Numbers(fast=True)
    filling = world.filling(embedder)
    world.put(3)
    filling.notify()
    assert world.have() == 3
    filling.notify()
    assert embedder.batches == [1, 1, 1], "what has its vector is not made again"
    world.put(2, "b")
    filling.notify()
    assert world.have() == 5
    assert filling.next_due == NEVER


def test_a_search_goes_before_each_text_of_a_fast_embedder(world: World) -> None:
    turns: list[str] = []
    world.store.searches.give_way = lambda: turns.append("search")
    filling = world.filling(Numbers(fast=True, before=lambda texts: turns.extend(texts)))
    world.put(2)
    filling.notify()
    assert turns == ["search", "a 0", "search", "a 1"]


def test_after_a_closed_file_the_next_question_is_answered_first(world: World) -> None:
    filling = world.filling(Numbers(fast=True))
    world.put(1)
    filling.notify(VectorsDue.AFTER_SEARCH)
    assert world.have() == 1, "the first ones make a root ready"
    filling.run(world.now)
    world.put(2, "b")
    filling.notify(VectorsDue.AFTER_SEARCH)
    assert world.have() == 1
    assert world.now < filling.next_due <= world.now + LATER_S
    world.now = filling.next_due
    filling.run(world.now)
    assert world.have() == 3
    assert filling.next_due == NEVER


def test_a_large_store_is_served_before_all_of_it_can_be_found_by_meaning(world: World) -> None:
    filling = world.filling(Numbers(fast=True))
    world.put(3 * FIRST)
    filling.notify()
    assert world.have() == FIRST
    assert filling.next_due <= world.now
    filling.run(world.now)
    assert world.have() == 3 * FIRST


def test_what_an_earlier_run_left_is_due_at_the_start(world: World) -> None:
    world.put(3)
    filling = world.filling(Numbers(fast=True))
    assert filling.next_due <= world.now
    filling.run(world.now)
    assert world.have() == 3


def test_a_long_fill_is_done_in_turns_and_a_sync_waits_for_all(world: World) -> None:
    def slowly(texts: Sequence[str]) -> None:
        world.now += 0.2 / AT_ONCE

    embedder = Numbers(fast=True, before=slowly)
    filling = world.filling(embedder)
    world.put(5 * AT_ONCE)
    filling.run(world.now)
    assert world.have() == 2 * AT_ONCE, "somebody may wait"
    assert filling.next_due <= world.now
    filling.run(world.now)
    assert world.have() == 4 * AT_ONCE
    filling.notify(VectorsDue.BEFORE_SEARCH)
    assert world.have() == 5 * AT_ONCE
    assert filling.next_due == NEVER


def test_no_sync_waits_for_a_few_vectors(world: World) -> None:
    filling = world.filling(Numbers(fast=True))
    filling.run(world.now)
    world.put(FEW)
    filling.make_deferred()
    assert world.have() == 0
    for _ in range(2):
        world.now += LATER_S / 2
        filling.notify(VectorsDue.BEFORE_SEARCH)
        assert (world.have(), filling.deferred, filling.next_due) == (0, True, world.now + LATER_S)
    filling.make_deferred()
    assert (world.have(), filling.deferred, filling.next_due) == (FEW, False, NEVER)
    world.put(FEW + 1, "b")
    filling.notify(VectorsDue.BEFORE_SEARCH)
    assert (world.have(), filling.deferred) == (2 * FEW + 1, False)


def test_a_sync_makes_no_command_wait_for_very_many_vectors(world: World) -> None:
    def slowly(texts: Sequence[str]) -> None:
        world.now += SYNC_S / AT_ONCE

    filling = world.filling(Numbers(fast=True, before=slowly))
    filling.run(world.now)
    world.put(3 * AT_ONCE)
    filling.notify(VectorsDue.BEFORE_SEARCH)
    assert (world.have(), filling.deferred) == (AT_ONCE, False)
    assert filling.next_due <= world.now
    filling.run(world.now)
    assert world.have() == 2 * AT_ONCE, "the rest follows in turns"


def test_another_model_makes_all_anew(world: World) -> None:
    world.put(3)
    world.filling(Numbers(fast=True)).run(world.now)
    world.filling(Numbers(fast=True, name="better")).run(world.now)
    assert world.have() == 0
    assert vectors_of(world.store.catalogue, "better") == 3


def test_a_new_catalogue_begins_anew(world: World) -> None:
    filling = world.filling(Numbers(fast=True))
    world.put(3)
    filling.run(world.now)
    world.store.catalogue.close()
    world.path.unlink()
    world.store.catalogue = SqliteIndex(str(world.path))
    world.put(2)
    filling.notify()
    assert world.have() == 2


def test_a_slow_embedder_works_beside(world: World) -> None:
    """The worker never waits: while a batch is under way, it asks for nothing and goes on."""
    begun, go_on = threading.Event(), threading.Event()

    def wait(texts: Sequence[str]) -> None:
        begun.set()
        assert go_on.wait(20)

    embedder = Numbers(fast=False, before=wait)
    filling = world.filling(embedder)
    world.put(SLOW_BATCH + 3)
    filling.notify()
    assert world.have() == 0
    filling.run(world.now)
    assert begun.wait(20)
    began = time.monotonic()
    for _ in range(50):
        world.now += 0.2
        filling.notify()
        filling.run(world.now)
    assert time.monotonic() - began < 15, "the embedder waits for 20 s"
    assert embedder.batches == []
    go_on.set()
    world.until(filling, lambda: world.have() == SLOW_BATCH + 3)
    assert embedder.batches == [SLOW_BATCH, 3]
    world.until(filling, lambda: filling.next_due == NEVER)


@pytest.mark.skipif(sys.platform != "linux", reason="no priority for each thread")
def test_a_slow_embedder_yields_to_all_others(world: World) -> None:
    def priority() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    seen: list[int] = []
    filling = world.filling(Numbers(fast=False, before=lambda texts: seen.append(priority())))
    world.put(1)
    before = priority()
    world.until(filling, lambda: world.have() == 1)
    assert seen == [max(before, NICE)]
    assert priority() == before


@pytest.mark.skipif(sys.platform != "linux", reason="no priority for each thread")
def test_a_sandbox_that_forbids_priorities_stops_no_slow_embedder(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "setpriority", refuse)
    filling = world.filling(Numbers(fast=False))
    world.put(1)
    world.until(filling, lambda: world.have() == 1)


def test_what_goes_while_its_vector_is_made_leaves_none(world: World) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def wait(texts: Sequence[str]) -> None:
        begun.set()
        assert go_on.wait(20)

    filling = world.filling(Numbers(fast=False, before=wait))
    world.put(3)
    world.put(2, "b")
    filling.run(world.now)
    assert begun.wait(20)
    world.store.catalogue.forget("a")
    go_on.set()
    world.until(filling, lambda: filling.next_due == NEVER)
    assert world.have() == 2


@pytest.mark.parametrize("fast", [True, False])
def test_a_failure_is_told_and_tried_again_with_growing_pauses(world: World, fast: bool) -> None:
    trouble: list[Exception] = [EmbedderError("the server is away")]

    def fail(texts: Sequence[str]) -> None:
        if trouble:
            raise trouble[0]

    filling = world.filling(Numbers(fast=fast, before=fail))
    world.put(2)
    filling.notify()
    pauses = []
    for _ in range(9):
        world.until(filling, lambda: filling.next_due - world.now > FIRST_PAUSE_S - 1)
        pauses.append(filling.next_due - world.now)
        assert filling.trouble == "cannot compute vectors: the server is away"
        world.now = filling.next_due
        filling.run(world.now)
    assert pauses == pytest.approx([min(FIRST_PAUSE_S * 2**number, MAX_PAUSE_S) for number in range(9)])
    trouble.clear()
    world.until(filling, lambda: world.have() == 2)
    assert filling.trouble is None


def test_vectors_that_a_full_disk_refused_are_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise IndexUnavailable(28, "disk full")

    filling = world.filling(Numbers(fast=True))
    filling.run(world.now)
    world.put(2)
    filling.notify(VectorsDue.BEFORE_SEARCH)
    with monkeypatch.context() as patch:
        patch.setattr(world.store.catalogue, "put_vectors", full)
        with pytest.raises(IndexUnavailable):
            filling.make_deferred()
    assert (filling.deferred, filling.next_due) == (False, world.now + FIRST_PAUSE_S)
    filling.run(filling.next_due)
    assert world.have() == 2


@pytest.mark.parametrize("fast", [True, False])
def test_an_embedder_that_breaks_ends_no_worker(world: World, fast: bool) -> None:
    def break_down(texts: Sequence[str]) -> None:
        raise ZeroDivisionError("deep inside")

    filling = world.filling(Numbers(fast=fast, before=break_down))
    world.put(1)
    filling.notify()
    world.until(filling, lambda: filling.trouble is not None)
    assert filling.trouble == "cannot compute vectors: the embedder failed: deep inside"
