"""What one look at the files returns: changes, losses that nobody saw, what is written of the index and when not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memoryd.engine.indexer import Indexer
from memoryd.engine.interfaces import Clock
from tests.layouts.samples import learning, lines
from tests.operations.world import LEARNINGS, World

MANY = 60  # memories: so many never go unseen


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.write(LEARNINGS, lines(*(learning(number) for number in range(MANY))))
    yield made
    made.store.close()


def indexer_of(world: World, before_write: Callable[[], None] = lambda: None) -> Indexer:
    return Indexer(world.store, Clock(wall=lambda: world.now), before_write)


def lose(world: World) -> None:
    world.path(LEARNINGS).unlink()


def test_what_changed_is_returned_once_and_makes_the_index_due(world: World) -> None:
    indexer = indexer_of(world)
    assert indexer.read(None, watching=False).changed == (LEARNINGS,)
    assert world.store.index.dirty
    world.store.index.dirty = False
    assert indexer.read(None, watching=False).changed == ()
    assert not world.store.index.dirty
    with world.path(LEARNINGS).open("ab") as file:
        file.write(lines(learning(MANY)))
    assert indexer.read([LEARNINGS], watching=False).changed == (LEARNINGS,)
    assert world.store.index.dirty


def test_only_a_full_look_knows_the_directories(world: World) -> None:
    indexer = indexer_of(world)
    assert "" in (indexer.read(None, watching=False).directories or {})
    assert indexer.read([LEARNINGS], watching=False).directories is None


def test_a_failure_leaves_the_index_due(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    indexer = indexer_of(world)
    indexer.read(None, watching=False)
    world.store.index.dirty = False

    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "scan", fail)
        with pytest.raises(OSError, match="Input"):
            indexer.read(None, watching=False)
    assert world.store.index.dirty


def test_many_memories_that_nobody_saw_going_are_a_loss_and_stay_known(world: World) -> None:
    indexer = indexer_of(world)
    indexer.read(None, watching=False)
    lose(world)
    assert indexer.read(None, watching=False).loss
    assert world.store.catalogue.file(LEARNINGS) is not None


def test_what_was_seen_going_is_gone_and_the_next_loss_is_one_again(world: World) -> None:
    indexer = indexer_of(world)
    indexer.read(None, watching=False)
    content = world.path(LEARNINGS).read_bytes()
    lose(world)
    indexer.note_delete()
    assert indexer.read(None, watching=False).deleted == (LEARNINGS,)
    world.write(LEARNINGS, content)
    indexer.read(None, watching=False)
    lose(world)
    assert indexer.read(None, watching=False).loss


def test_an_event_that_is_under_way_is_waited_for_where_events_come(world: World) -> None:
    indexer = indexer_of(world)
    indexer.read(None, watching=True)
    lose(world)
    threading.Timer(0.05, indexer.note_delete).start()
    done = indexer.read(None, watching=True)
    assert done.loss is None
    assert done.deleted == (LEARNINGS,)


def test_the_index_is_written_once_and_only_after_what_comes_first(world: World) -> None:
    came: list[bool] = []
    index = world.path("index.json")
    indexer = indexer_of(world, lambda: came.append(index.exists()))
    indexer.read(None, watching=False)
    done = indexer.write(force=True, wait_s=1.0)
    assert done.written == ("index.json",)
    assert came == [False]
    assert indexer.write(force=True, wait_s=1.0).written == ()


def test_what_has_to_come_first_keeps_the_index_from_being_written(world: World) -> None:
    def fail() -> None:
        raise OSError(28, "No space left on device")

    indexer = indexer_of(world, fail)
    indexer.read(None, watching=False)
    with pytest.raises(OSError, match="No space"):
        indexer.write(force=True, wait_s=1.0)
    assert not world.path("index.json").exists()


def test_a_layout_fits_for_good_once_a_memory_is_read(world: World) -> None:
    indexer = indexer_of(world)
    assert indexer.wants_fit(everything=False)
    indexer.read(None, watching=False)
    assert indexer.check_fit() is None
    assert not indexer.wants_fit(everything=True)
    indexer.forget_fit()
    assert indexer.wants_fit(everything=False)
    world.store.foreign_reason = "another program's"
    assert not indexer.wants_fit(everything=False), "only a look at everything can tell"
    assert indexer.wants_fit(everything=True)


def test_an_empty_root_is_asked_again(tmp_path: Path) -> None:
    empty = World(tmp_path / "empty")
    indexer = indexer_of(empty)
    indexer.read(None, watching=False)
    assert indexer.check_fit() is None
    assert indexer.wants_fit(everything=False)
    empty.store.close()
