"""What the first search would wait for is loaded before it, once, when nobody is disturbed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from memoryd.core.index import IndexUnavailable
from memoryd.engine.deadlines import NEVER
from memoryd.engine.interfaces import Clock
from memoryd.index.matrix import MatrixCache, Similarities
from memoryd.index.sqlite import SqliteIndex
from memoryd.index.sqlite.database import Database, Row
from memoryd.search.modes import WARM_MEMORIES, warm_up
from memoryd.search.semantic import SemanticSearch
from memoryd.service.roots import Roots
from memoryd.service.supervision import WARM_UP_S, WarmUp
from tests.index.records import put, record
from tests.search.test_semantic import Letters, fill

NOW, READY = 1_767_225_600.0, 100.0
DUE = READY + WARM_UP_S


def test_it_is_loaded_once_soon_after_ready() -> None:
    warm = WarmUp(READY)
    assert not warm.step(DUE - 0.1, working=False)
    assert warm.due == DUE
    assert warm.step(DUE, working=False)
    assert warm.due == NEVER, "it causes no wake-up later"
    assert not warm.step(DUE + 60, working=False)


def test_it_is_loaded_as_soon_as_the_daemon_has_no_other_work() -> None:
    warm = WarmUp(READY)
    for second in range(60):
        assert not warm.step(DUE + second, working=True)
        assert warm.due == DUE + second + WARM_UP_S
    assert warm.step(warm.due, working=False)


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of vectors of each comparison."""
    found: list[int] = []
    compare = MatrixCache.compare

    def counted(*given: Any, **more: Any) -> Similarities:
        similarities = compare(*given, **more)
        found.append(len(similarities))
        return similarities

    monkeypatch.setattr(MatrixCache, "compare", counted)
    return found


@pytest.fixture
def fill_index(tmp_path: Path) -> Iterator[Callable[[int], SqliteIndex]]:
    """Makes an index of so many memories with their vectors."""
    index = SqliteIndex(str(tmp_path / "c.sqlite"))

    def filled(memories: int) -> SqliteIndex:
        put(index, "a", *(record(number, f"a memory of {number}") for number in range(memories)))
        fill(index, Letters())
        return index

    yield filled
    index.close()


def test_the_vectors_of_an_index_are_loaded(fill_index: Callable[[int], SqliteIndex], loaded: list[int]) -> None:
    index, letters = fill_index(WARM_MEMORIES), Letters()
    with index.reader() as reader:
        assert warm_up(reader, SemanticSearch(letters), NOW)
    assert loaded == [WARM_MEMORIES]
    assert letters.calls == 1


def test_the_words_of_an_index_are_loaded_for_questions_by_words(
    fill_index: Callable[[int], SqliteIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    index, queries, rows = fill_index(WARM_MEMORIES), list[str](), Database.rows

    def noted(db: Database, query: str, values: Sequence[object] = ()) -> list[Row]:
        queries.append(query)
        return rows(db, query, values)

    monkeypatch.setattr(Database, "rows", noted)
    with index.reader() as reader:
        assert reader.words_beginning("memo") == ["memory"]
        assert queries, "words that are not loaded are asked for"
        warm_up(reader, SemanticSearch(None), NOW)
        queries.clear()
        assert reader.words_beginning("memo") == ["memory"]
    assert queries == []


@pytest.mark.parametrize(("memories", "fast"), [(WARM_MEMORIES - 1, True), (WARM_MEMORIES, False)])
def test_a_small_index_and_a_slow_embedder_wait_for_a_question(
    fill_index: Callable[[int], SqliteIndex], memories: int, fast: bool, loaded: list[int]
) -> None:
    index, letters = fill_index(memories), Letters()
    letters.fast = fast
    with index.reader() as reader:
        assert not warm_up(reader, SemanticSearch(letters), NOW)
        assert not warm_up(reader, SemanticSearch(None), NOW)
    assert loaded == []
    assert letters.calls == 0


@pytest.mark.parametrize("failure", [ImportError("no library"), MemoryError(), IndexUnavailable("gone")])
def test_a_failure_to_load_ends_no_daemon(
    tmp_path: Path,
    fill_index: Callable[[int], SqliteIndex],
    failure: Exception,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    roots = Roots(str(tmp_path / "state"), Clock(), lambda: None)
    index = fill_index(WARM_MEMORIES)
    workers = [Mock(), Mock()]
    for worker in workers:
        worker.store.catalogue = index
    load = Mock(side_effect=failure)
    monkeypatch.setattr(roots, "all", lambda: workers)
    monkeypatch.setattr("memoryd.service.roots.warm_up", load)
    roots.warm_up()
    assert load.call_count == len(workers), "the next root is loaded all the same"


def test_memory_that_an_embedder_released_goes_back_to_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = Roots(str(tmp_path / "state"), Clock(), lambda: None)
    trimmed = Mock()
    monkeypatch.setattr("memoryd.service.roots.trim_heap", trimmed)
    monkeypatch.setattr(roots, "watcher", Mock(alive=Mock(return_value=[])))
    for released in (False, True):
        monkeypatch.setattr(roots, "models", Mock(tidy=Mock(return_value=released)))
        roots.check_watcher()
        assert trimmed.called is released
