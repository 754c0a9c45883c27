"""Each test gets a store of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memoryd.core.policy import Policy
from tests.operations.world import World

MakeWorld = Callable[[Policy], World]


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[MakeWorld]:
    made: list[World] = []

    def make(policy: Policy) -> World:
        made.append(World(tmp_path / str(len(made)), policy))
        return made[-1]

    yield make
    for world in made:
        world.store.close()


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    return make_world(Policy())
