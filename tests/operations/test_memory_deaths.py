"""Dying at every changing call of a verb: what the recovery leaves is as before it or as after it, the way back of
what was forgotten is there, and a second try ends where an undisturbed one would have."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from memoryd.core.defaults import Policy
from memoryd.disk.journal.trash import TrashedMemory, TrashTable
from memoryd.disk.temps import is_our_temp
from memoryd.errors import NotFoundError
from memoryd.layouts.protocol import NewMemory
from memoryd.operations import memories
from memoryd.operations.memories import Context, Outcome
from memoryd.operations.refresh import refresh
from memoryd.store import Store
from memoryd.store.recovery import recover
from tests.layouts.contract import NOW
from tests.operations.death import dying
from tests.operations.world import kill

pytestmark = pytest.mark.slow

MOST = 200  # more calls than any verb makes
BEFORE, LATER = NOW - 3600.0, NOW
WORDS = {"context": "c", "problem": "p", "solution": "s"}


@dataclass(frozen=True)
class Case:
    """Three memories to store, each with a unique text; `changes` change the second."""

    layout: str
    native: Callable[[int], dict[str, Any]]
    changes: Mapping[str, Any]
    where: Mapping[str, str] = field(default_factory=dict)


CASES = (
    Case("jsonl-store", lambda n: {"type": "learning", "content": f"number {n}"}, {"importance": "low"}),
    Case("json-files", lambda n: {"content": f"number {n}", "type": "fact"}, {"summary": "s"}),
    Case(
        "markdown-topics",
        lambda n: {"title": f"Number {n}", **WORDS},
        {"context": "changed"},
        {"topic": "db", "subtopic": "pool"},
    ),
    Case(
        "session-files",
        lambda n: {"type": "insight", "title": f"Number {n}", "content": f"number {n}", "confidence_score": 70 + n},
        {"reasoning": "r"},
        {"session": "2026-01-31-10-00-00-pool"},
    ),
    Case(
        "user-document",
        lambda n: {"content": f"number {n}", "embedding": [1.0, float(n)]},
        {"importance": 0.75},
        {"user": "bucket"},
    ),
)


class Site:
    """One store in its own directory."""

    def __init__(self, base: Path, case: Case) -> None:
        self.base, self.case, self.root = base, case, base / "memories"
        self.root.mkdir(parents=True, mode=0o700, exist_ok=True)
        self.store = self.open()

    def open(self) -> Store:
        store = Store("m", str(self.root), self.case.layout, Policy(), str(self.base / "state"))
        store.attach()
        return store

    def add(self, number: int, now: float = BEFORE) -> Outcome:
        asked = NewMemory(self.case.native(number), self.case.where)
        return self.took(memories.add(self.store, asked, now, Context(number)))

    def took(self, outcome: Outcome) -> Outcome:
        refresh(self.store, None, LATER)
        return outcome

    def kill(self) -> None:
        kill(self.store)

    def rise(self) -> None:
        self.store = self.open()
        recover(self.store, LATER)
        refresh(self.store, None, LATER)

    def contents(self) -> dict[str, bytes]:
        found = {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in self.root.rglob("*")
            if path.is_file() and not is_our_temp(path.name) and ".backup" not in path.parts
        }
        return {name: content for name, content in found.items() if content and name != ".lock"}

    def second(self) -> str:
        """The id of the memory that is changed, forgotten and restored."""
        return (self.base / "second").read_text()


def filled(house: Site) -> None:
    added = [house.add(number) for number in range(3)]
    (house.base / "second").write_text(added[1].id)


def without_one(house: Site) -> None:
    filled(house)
    gone = house.took(memories.forget(house.store, house.second(), BEFORE, Context()))
    (house.base / "second").write_text(gone.id)


def add(house: Site) -> Outcome:
    return memories.add(house.store, NewMemory(house.case.native(9), house.case.where), LATER, Context(9))


def update(house: Site) -> Outcome:
    return memories.update(house.store, house.second(), house.case.changes, LATER, Context())


def forget(house: Site) -> Outcome:
    return memories.forget(house.store, house.second(), LATER, Context())


def unarchive(house: Site) -> Outcome:
    return memories.unarchive(house.store, house.second(), LATER, Context())


def sites(base: Path, case: Case, prepare: Callable[[Site], None]) -> Generator[Site, None, None]:
    """A function that returns the same store each time; made once and copied without syncs."""
    template = Site(base / "template", case)
    prepare(template)
    template.kill()
    template.rise()
    template.kill()
    for at in range(MOST):
        shutil.copytree(base / "template", base / str(at))
        house = Site(base / str(at), case)
        refresh(house.store, None, LATER)
        try:
            yield house
        finally:
            house.kill()
            shutil.rmtree(base / str(at))
    raise AssertionError("it never ended")


VERBS: Mapping[str, tuple[Callable[[Site], Outcome], Callable[[Site], None]]] = {
    "add": (add, filled),
    "update": (update, filled),
    "forget": (forget, filled),
    "unarchive": (unarchive, without_one),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.layout))
def test_dying_at_every_call(case: Case, verb: str, quick_path: Path) -> None:
    operate, prepare = VERBS[verb]
    with closing(sites(quick_path, case, prepare)) as every:
        calm = next(every)
        before = calm.contents()
        operate(calm)
        after = calm.contents()
        assert after != before
        for died, house in enumerate(every):
            with dying(died + 1) as death:
                operate(house)
            house.kill()
            house.rise()
            found = house.contents()
            if not death.reached:
                break
            assert found in (before, after), f"it died at call {died + 1}, {death.call}"
            _ends_well(house, verb, operate, done=found == after, after=after)
    assert found == after
    assert died > 4


def _ends_well(house: Site, verb: str, operate: Callable[[Site], Outcome], *, done: bool, after: object) -> None:
    """Check that a second try completes the first and that forgotten memories can be restored."""
    if not done:
        house.took(operate(house))
        assert house.contents() == after
    if verb == "forget":
        back = house.took(unarchive(house))
        assert back.receipt is not None
        assert b"umber 1" in house.contents()[back.path]
        with pytest.raises(NotFoundError):
            unarchive(house)


def test_canary_a_verb_that_saves_nothing_is_caught(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(self: TrashTable, forgotten: TrashedMemory, now: float) -> None:
        del self, forgotten, now

    monkeypatch.setattr(TrashTable, "add", nothing)
    with closing(sites(quick_path, CASES[4], filled)) as every:
        house = next(every)
        house.took(forget(house))
        with pytest.raises(NotFoundError):
            _ends_well(house, "forget", forget, done=True, after=None)
