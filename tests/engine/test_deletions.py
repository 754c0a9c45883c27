"""An event that tells of a deleted memory file holds the index back before the file's absence is indexed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.engine.host import Clock
from tests.engine.silent import worker_of
from tests.operations.world import CORE, World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.store.close()


@pytest.mark.parametrize(
    ("path", "deleted", "noted"),
    [
        (CORE, True, True),
        (CORE, False, False),
        (".lock", True, False),
        ("index.json", True, False),
        (None, True, False),
    ],
)
def test_only_a_deleted_memory_file_counts(world: World, path: str | None, deleted: bool, noted: bool) -> None:
    worker_of(world, Clock(wall=lambda: world.now)).touch(path, deleted)
    assert (world.store.index.deletion_event == world.now) is noted
