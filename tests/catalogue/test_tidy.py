"""The pieces that changes leave of the search index are joined when there is time, and the answers stay the same."""

from __future__ import annotations

from pathlib import Path

from memoryd.catalogue import Catalogue
from memoryd.core.policy import Policy
from memoryd.engine.tidying import NEVER, PAUSE_S, QUIET_S, Tidying
from memoryd.store import Store
from tests.catalogue.test_texts import found, put


def pieces(catalogue: Catalogue) -> int:
    return int(catalogue.words._db.execute("SELECT count(DISTINCT segid) FROM words_idx").fetchone()[0])


def untidy(catalogue: Catalogue) -> bool:
    return catalogue.untidy


def due(tidying: Tidying) -> float:
    return tidying.next_due


def filled(path: Path) -> Catalogue:
    made = Catalogue(str(path))
    for number in range(120):
        put(made, f"f{number}", f"zebra {number} " + " ".join(f"w{number * 7 + each}" for each in range(60)))
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
    made.words._db.execute("INSERT INTO words (words) VALUES ('integrity-check')")
    made.close()


def test_a_change_makes_it_untidy_again_and_reading_does_not(tmp_path: Path) -> None:
    made = filled(tmp_path / "c")
    while made.tidy():
        pass
    assert not untidy(made)
    found(made, "zebra")
    assert not untidy(made)
    put(made, "new", "zebra")
    assert untidy(made)
    made.close()


def test_the_worker_does_it_after_some_quiet_a_little_at_a_time(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    store = Store("r", str(root), "jsonl-store", Policy(), str(tmp_path / "state"))
    for number in range(60):
        put(store.catalogue, f"f{number}", f"zebra {number}")
    tidying = Tidying(store)
    tidying.turn(100.0)
    assert due(tidying) == 100.0 + QUIET_S
    tidying.turn(100.1)
    assert untidy(store.catalogue)
    now, turns = 101.0, 0
    while due(tidying) != NEVER:
        tidying.turn(now)
        now, turns = now + PAUSE_S, turns + 1
        assert turns < 100
    assert not untidy(store.catalogue)
    tidying.turn(now + 1000)
    assert due(tidying) == NEVER
    store.close()
