"""Storing is answered first and taken in afterwards, before anybody looks and without a memory being missed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from memoryd.control.methods.memories import AddRequest, AddResult, UpdateRequest
from memoryd.core.defaults import Limit, LimitKind, Policy
from memoryd.engine.deadlines import NEVER
from memoryd.engine.health import Health
from memoryd.engine.interfaces import Clock
from memoryd.engine.jobs import Job
from memoryd.engine.memories import BATCH, BATCH_S, MAX_PAUSE_S, PAUSE_S, Memories
from memoryd.errors import LimitExceededError
from tests.operations.world import CORE, World


class Healthy:
    def note_recovery(self) -> None:
        pass

    def require(self, name: str) -> None:
        pass


class Storing:
    """One root's worker without its thread."""

    def __init__(self, base: Path, policy: Policy | None = None) -> None:
        self.world = World(base, policy)
        self.now = 1000.0
        self.took: list[list[str]] = []
        self.told: list[dict[str, Any]] = []
        self.take: Callable[[Collection[str] | None], None] = self._take
        clock = cast("Clock", type("Still", (), {"monotonic": lambda _: self.now, "wall": lambda _: self.world.now})())
        self.memories = Memories(
            self.world.store,
            clock,
            lambda topic, event: self.told.append(dict(event)),
            cast("Health", Healthy()),
            lambda: self._take(None),
            lambda paths: self.take(paths),
        )

    def _take(self, paths: Collection[str] | None) -> None:
        self.took.append(sorted(paths or ()))
        self.world.look(paths)

    def add(self, content: str = "x") -> AddResult:
        added = AddRequest(memory={"type": "core", "content": content})
        return self.memories.perform(Job("memory.add", added))

    def behind(self) -> float | None:
        return self.memories.behind

    def known(self) -> int:
        row = self.world.store.catalogue.file(CORE)
        return row.records if row is not None else 0


@pytest.fixture
def storing(tmp_path: Path) -> Iterator[Storing]:
    made = Storing(tmp_path)
    made.add("the first makes the file")
    made.memories.catch_up()
    made.took.clear()
    made.told.clear()
    yield made
    made.world.store.close()


def test_the_answer_does_not_wait_for_the_catalogue(storing: Storing) -> None:
    before = storing.known()
    told = storing.add()
    assert told.receipt
    assert (storing.known(), storing.took, storing.told) == (before, [], [])
    assert storing.behind() == storing.now
    storing.memories.catch_up()
    assert storing.known() == before + 1
    assert [each["receipt"] for each in storing.told] == [told.receipt]
    assert storing.behind() is None
    assert storing.memories.next_due() == NEVER


def test_many_are_taken_in_together_when_they_pause(storing: Storing) -> None:
    for _ in range(5):
        storing.add()
        storing.memories.run_due(storing.now)
        storing.now += PAUSE_S / 2
    assert storing.took == []
    storing.now = storing.memories.next_due()
    storing.memories.run_due(storing.now)
    assert storing.took == [[CORE]]
    assert len(storing.told) == 5
    assert storing.known() == 6


def test_who_never_pauses_does_not_put_it_off_for_ever(storing: Storing) -> None:
    began = storing.now
    while not storing.took:
        storing.add()
        storing.now += PAUSE_S / 2
        storing.memories.run_due(storing.now)
    assert storing.now - began <= BATCH_S + PAUSE_S


def test_a_costly_taking_in_waits_as_long_as_it_takes(storing: Storing) -> None:
    take = storing.take

    costs = [0.05, 5.0, 0.0]

    def slowly(paths: Collection[str] | None) -> None:
        take(paths)
        storing.now += costs.pop(0)

    storing.take = slowly
    for pause in (PAUSE_S, 0.05, MAX_PAUSE_S):  # the first after one that cost nothing
        storing.add()
        assert storing.memories.next_due() == pytest.approx(storing.now + pause)
        storing.memories.catch_up()


def test_not_more_than_so_many_wait(storing: Storing) -> None:
    for _ in range(BATCH):
        storing.add()
    assert storing.memories.next_due() == storing.now


def test_a_change_of_what_was_just_stored_finds_it(storing: Storing) -> None:
    stored = storing.add()
    changed = UpdateRequest(id=stored.id, changes={"importance": "low"})
    assert storing.memories.perform(Job("memory.update", changed)).id == stored.id
    assert len(storing.took) == 1
    assert storing.memories.next_due() == storing.now, "a rewrite of lines is taken in at once"


def test_a_limit_holds_among_those_that_wait(tmp_path: Path) -> None:
    limit = Limit(LimitKind.HARD, None, 5)
    storing = Storing(tmp_path, Policy(limits={CORE: limit}))
    for _ in range(5):
        storing.add()
    with pytest.raises(LimitExceededError):
        storing.add()
    storing.world.store.close()


def test_what_cannot_be_taken_in_now_does_not_count_as_behind_for_ever(storing: Storing) -> None:
    def refuse(paths: Collection[str] | None) -> None:
        raise OSError(f"{paths} cannot be read")

    storing.take = refuse
    storing.add()
    with pytest.raises(OSError, match="cannot be read"):
        storing.memories.catch_up()
    assert storing.memories.behind is None


def test_the_end_misses_nothing(storing: Storing) -> None:
    told = storing.add()
    storing.memories.end()
    assert [each["receipt"] for each in storing.told] == [told.receipt]


@pytest.mark.parametrize("zone", ["UTC+25", "UTC-25"])
def test_a_memory_is_stored_in_any_zone(zone: str, storing: Storing, local_zone: Callable[[str], None]) -> None:
    """TZ may name an offset of more than a day, which no zone of Python has."""
    local_zone(zone)
    assert storing.add("far west of Greenwich").receipt
