"""Forgotten where there is no archive: each memory has its own way back, whatever has come to bear its id since."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from memoryd.errors import ConflictError, NotFoundError
from memoryd.layouts.protocol import NewMemory
from memoryd.operations import memories
from memoryd.operations.memories import Context, Outcome
from memoryd.operations.undo import undo
from tests.operations.test_memory_deaths import CASES, LATER, House


@pytest.fixture
def house(quick_path: Path) -> Iterator[House]:
    """A root of session files."""
    with closing(House(quick_path, CASES[3])) as made:
        made.add(0)
        yield made


def pool(house: House, content: str) -> Outcome:
    """A memory whose id says nothing of its content."""
    native: dict[str, Any] = {**house.case.native(1), "title": "Pool", "content": content}
    return house.took(memories.add(house.store, NewMemory(native, house.case.where), LATER, Context()))


def forget(house: House, identity: str) -> Outcome:
    return house.took(memories.forget(house.store, identity, LATER, Context()))


def unarchive(house: House, identity: str) -> Outcome:
    return house.took(memories.unarchive(house.store, identity, LATER, Context()))


def content(house: House) -> bytes:
    return b"".join(house.contents().values())


def test_two_forgotten_under_one_id_both_come_back(house: House) -> None:
    one = forget(house, pool(house, "the first").id)
    other = forget(house, pool(house, "another").id)
    assert one.id == other.id
    with pytest.raises(ConflictError) as refused:
        unarchive(house, one.id)
    candidates = [each["id"] for each in refused.value.data["candidates"]]
    assert len(set(candidates)) == 2
    for identity in candidates:
        assert unarchive(house, identity).receipt is not None
    assert (content(house).count(b'"the first"'), content(house).count(b'"another"')) == (1, 1)
    with pytest.raises(NotFoundError):
        unarchive(house, candidates[0])


def test_a_new_bearer_of_the_id_is_not_in_the_way(house: House) -> None:
    gone = forget(house, pool(house, "the first").id)
    assert pool(house, "another").id == gone.id
    assert unarchive(house, gone.id).receipt is not None
    assert (content(house).count(b'"the first"'), content(house).count(b'"another"')) == (1, 1)


def test_what_an_undo_brought_back_is_not_laid_aside_any_more(house: House) -> None:
    added = pool(house, "the first")
    undo(house.store, forget(house, added.id).receipt or "", LATER)
    house.took(added)
    with pytest.raises(NotFoundError):
        unarchive(house, added.id)
    changed = house.took(memories.update(house.store, added.id, {"reasoning": "r"}, LATER, Context()))
    forget(house, changed.id)
    assert unarchive(house, changed.id).receipt is not None
    assert content(house).count(b'"the first"') == 1
