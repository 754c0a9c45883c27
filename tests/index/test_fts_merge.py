"""The pieces that changes leave of the search index are joined when there is time, and the answers stay the same."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from memoryd.core.defaults import Policy
from memoryd.core.index import IndexWriter
from memoryd.engine.deadlines import MERGE_PAUSE_S, MERGE_QUIET_S, NEVER
from memoryd.engine.interfaces import Clock
from memoryd.engine.root import Root
from memoryd.index.sqlite import SqliteIndex
from memoryd.index.sqlite.database import RELEASE_CACHE, Database
from memoryd.store import Store
from tests.engine.silent import SILENT
from tests.index.database import ask, check_words
from tests.index.records import found, put_texts


def pieces(catalogue: SqliteIndex) -> int:
    return int(ask(catalogue.path, "SELECT count(DISTINCT segid) FROM words_idx")[0][0])


def untidy(catalogue: IndexWriter) -> bool:
    return catalogue.can_tidy


def due(worker: Root) -> float:
    return worker.deadlines.merge


def filled(path: Path) -> SqliteIndex:
    made = SqliteIndex(str(path))
    for number in range(120):
        put_texts(made, f"f{number}", f"zebra {number} " + " ".join(f"w{number * 7 + each}" for each in range(60)))
    for number in range(0, 120, 3):
        made.forget(f"f{number}")
    return made


def test_few_pieces_are_left_and_all_is_found(tmp_path: Path) -> None:
    made = filled(tmp_path / "c")
    before, scattered = found(made, "zebra"), pieces(made)
    turns = 0
    while made.tidy():
        turns += 1
        assert turns < 100
    assert scattered > 3
    assert pieces(made) < min(scattered, 4)
    assert found(made, "zebra") == before
    assert len(before) == 80
    check_words(made.path)
    made.close()


def test_the_words_are_then_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = filled(tmp_path / "c")
    while made.tidy():
        pass
    put_texts(made, "new", "giraffe")
    asked = Mock(side_effect=Database.rows, autospec=True)
    monkeypatch.setattr(Database, "rows", lambda *given: asked(*given))
    with made.reader() as reader:
        assert {"zebra", "giraffe", "w7"} <= {*reader.vocabulary().split()}
    assert [call for call in asked.call_args_list if "FROM vocabulary" in call.args[1]] == []
    assert asked.call_count == 1, "the words of the new memory"
    made.close()


def test_the_pages_that_it_read_do_not_stay_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = filled(tmp_path / "c")
    statements = Mock(side_effect=Database.run, autospec=True)
    monkeypatch.setattr(Database, "run", lambda *given: statements(*given))
    while made.tidy():
        pass
    assert [call.args[1] for call in statements.call_args_list].count(RELEASE_CACHE) == 1, "at the end"
    assert len(found(made, "zebra")) == 80
    made.close()


def test_a_change_makes_it_untidy_again_and_reading_does_not(tmp_path: Path) -> None:
    made = filled(tmp_path / "c")
    while made.tidy():
        pass
    assert not untidy(made)
    found(made, "zebra")
    assert not untidy(made)
    put_texts(made, "new", "zebra")
    assert untidy(made)
    made.close()


def test_the_worker_does_it_after_some_quiet_a_little_at_a_time(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    store = Store("r", str(root), "jsonl-store", Policy(), str(tmp_path / "state"))
    for number in range(60):
        put_texts(store.catalogue, f"f{number}", f"zebra {number}")
    worker = Root(store, Clock(), SILENT, SILENT, lambda *_: None)
    worker.deadlines.merge_fulltext(100.0, store.catalogue)
    assert due(worker) == 100.0 + MERGE_QUIET_S
    worker.deadlines.merge_fulltext(100.1, store.catalogue)
    assert untidy(store.catalogue)
    now, turns = 101.0, 0
    while due(worker) != NEVER:
        worker.deadlines.merge_fulltext(now, store.catalogue)
        now, turns = now + MERGE_PAUSE_S, turns + 1
        assert turns < 100
    assert not untidy(store.catalogue)
    worker.deadlines.merge_fulltext(now + 1000, store.catalogue)
    assert due(worker) == NEVER
    store.close()
