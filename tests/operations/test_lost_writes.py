"""An older state that an agent writes over what was stored through memoryd: it is back once, or offered."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from memoryd.core.policy import Policy
from memoryd.layouts.codes import severity
from memoryd.layouts.protocol import NewMemory
from memoryd.operations import memories
from memoryd.operations.check import check
from memoryd.operations.memories import Context, restore_lost_writes
from memoryd.operations.refresh import refresh
from memoryd.operations.repair import repair
from memoryd.operations.undo import undo
from memoryd.store import Store
from tests.layouts import json_samples
from tests.layouts.samples import learning, lines
from tests.layouts.session_samples import memory as session_memory
from tests.layouts.session_samples import session
from tests.layouts.session_samples import text as session_text
from tests.operations.test_overwrites import DOCUMENT, document

NOW = 1_770_000_000.0
SAID = b"a heron at dawn"


class Case(NamedTuple):
    path: str
    stale: bytes
    memory: dict[str, Any]
    where: dict[str, str]


SESSION = "2026-01-30/14-30-00-fix-bug.json"
ENTRY = b"## 2026-01-02: Older\n\n**Context:** x\n**Problem:** y\n**Solution:** z\n---\n"
CASES = {
    "jsonl-store": Case(
        "learnings.jsonl", lines(learning(1), learning(2)), {"type": "learning", "content": SAID.decode()}, {}
    ),
    "json-files": Case(json_samples.name(1), json_samples.file(1), {"type": "decision", "content": SAID.decode()}, {}),
    "session-files": Case(
        SESSION,
        session_text(session(session_memory())),
        {"type": "insight", "title": "Birds", "content": SAID.decode()},
        {"session": "2026-01-30-14-30-00-fix-bug"},
    ),
    "markdown-topics": Case(
        "auth/jwt.md",
        ENTRY,
        {"title": SAID.decode(), "context": "a", "problem": "b", "solution": "c"},
        {"topic": "auth", "subtopic": "jwt"},
    ),
}


class House:
    def __init__(self, base: Path, layout: str, case: Case) -> None:
        self.root = base / "root"
        self.root.mkdir()
        self.now = NOW
        self.case = case
        self.store = Store("m", str(self.root), layout, Policy(), str(base / "state"))
        self.store.attach()
        self.write(self.case.path, self.case.stale)

    def write(self, path: str, content: bytes) -> None:
        self.now += 5
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name("new")
        new.write_bytes(content)
        os.utime(new, (self.now - 4, self.now - 4))
        new.rename(file)
        refresh(self.store, None, self.now)

    def add(self) -> memories.Outcome:
        made = memories.add(self.store, NewMemory(self.case.memory, self.case.where), self.now, Context(7))
        refresh(self.store, None, self.now)
        return made

    def restart(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """An orderly end, what an agent does then, and a new start."""
        name, state = self.store.layout, self.store.state_dir
        assert name is not None
        self.store.close()
        meanwhile()
        self.store = Store("m", str(self.root), name.name, Policy(), state)
        self.store.attach()
        refresh(self.store, None, self.now)

    def go_stale(self, made: memories.Outcome) -> None:
        """The agent read before the add, and writes what it read. A memory in a file of its own is written over by
        another one, as of a program that does not look."""
        stale = self.case.stale if made.path == self.case.path else json_samples.file(9)
        self.write(made.path, stale)

    def holds(self) -> int:
        return sum(file.read_bytes().count(SAID) for file in self.root.rglob("*.*") if ".backup" not in str(file))

    def told(self) -> list[str]:
        return [str(severity(each)) for each in check(self.store, self.now) if each.code == "change-was-undone"]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[str], House]]:
    made: list[House] = []

    def house(layout: str) -> House:
        made.append(House(tmp_path, layout, CASES[layout]))
        return made[-1]

    yield house
    for each in made:
        each.store.close()


@pytest.mark.parametrize("layout", CASES)
def test_an_add_that_was_wiped_out_is_back_once(layout: str, make: Callable[[str], House]) -> None:
    house = make(layout)
    made = house.add()
    once = house.holds()
    house.go_stale(made)
    assert house.holds() == 0
    (back,) = restore_lost_writes(house.store, house.now)
    refresh(house.store, None, house.now)
    assert back.receipt
    assert house.holds() == once
    assert house.told() == ["info"]
    where = {each.id for each in house.store.catalogue.entries(sorted(house.store.catalogue.files()))}
    assert back.id in where
    house.write(back.path if back.path == house.case.path else house.case.path, house.case.stale)
    assert restore_lost_writes(house.store, house.now) == []
    house.now += 90_000
    house.write(house.case.path, house.case.stale + b"\n")
    assert house.told() in ([], ["info"])


@pytest.mark.parametrize("layout", CASES)
def test_it_is_watched_over_a_restart(layout: str, make: Callable[[str], House]) -> None:
    house = make(layout)
    made = house.add()
    house.restart()
    house.go_stale(made)
    assert house.holds() == 0
    (back,) = restore_lost_writes(house.store, house.now)
    assert back.receipt
    house.restart()
    assert restore_lost_writes(house.store, house.now) == []


def test_an_older_state_may_also_be_written_while_memoryd_is_down(make: Callable[[str], House]) -> None:
    house = make("jsonl-store")
    house.add()
    path = house.root / house.case.path
    house.now += 5

    def write_over() -> None:
        path.unlink()
        path.write_bytes(house.case.stale)

    house.restart(write_over)
    (back,) = restore_lost_writes(house.store, house.now)
    assert back.receipt
    assert SAID in path.read_bytes()


@pytest.mark.parametrize("layout", CASES)
def test_what_memoryd_took_out_itself_does_not_come_back(layout: str, make: Callable[[str], House]) -> None:
    house = make(layout)
    made = house.add()
    memories.forget(house.store, made.id, house.now, Context())
    refresh(house.store, None, house.now)
    again = house.add()
    assert again.receipt is not None
    undo(house.store, again.receipt, house.now)
    refresh(house.store, None, house.now)
    if made.path == house.case.path:
        house.go_stale(made)
    assert restore_lost_writes(house.store, house.now) == []
    assert house.told() == []


@pytest.mark.parametrize("layout", CASES)
def test_what_outlived_two_writes_or_ten_minutes_is_watched_no_more(layout: str, make: Callable[[str], House]) -> None:
    house = make(layout)
    made = house.add()
    house.now += 601
    house.go_stale(made)
    assert restore_lost_writes(house.store, house.now) == []
    assert house.told() == []


def test_an_update_that_was_undone_waits_for_repair(make: Callable[[str], House]) -> None:
    house = make("jsonl-store")
    (first, *_) = [each.id for each in house.store.catalogue.entries([house.case.path])]
    done = memories.update(house.store, first, {"content": SAID.decode()}, house.now, Context())
    refresh(house.store, None, house.now)
    house.write(done.path, house.case.stale)
    assert restore_lost_writes(house.store, house.now) == []
    assert house.told() == ["warning"]
    assert repair(house.store, house.now, codes=["change-was-undone"]).receipt is not None
    refresh(house.store, None, house.now)
    assert house.holds() == 1
    assert house.told() == ["info"]


def test_in_a_document_that_agents_keep_in_a_cache_it_waits_for_repair(tmp_path: Path) -> None:
    stored = {"content": SAID.decode(), "embedding": [0.5, 0.5]}
    house = House(tmp_path, "user-document", Case(DOCUMENT, document("a", "b"), stored, {}))
    house.add()
    house.write(DOCUMENT, house.case.stale)
    assert restore_lost_writes(house.store, house.now) == []
    assert "warning" in house.told()
    assert repair(house.store, house.now, codes=["change-was-undone"]).receipt is not None
    refresh(house.store, None, house.now)
    assert house.holds() == 1
    house.store.close()
