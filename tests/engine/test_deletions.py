"""An event that tells of a deleted memory file holds the index back before the file's absence is indexed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.engine.interfaces import Change, Clock
from tests.engine.silent import worker_of
from tests.layouts.samples import lines, memory
from tests.operations.world import CORE, World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.store.close()


@pytest.mark.parametrize(
    ("path", "kind", "noted"),
    [
        (CORE, Change.GONE, True),
        (CORE, Change.MODIFIED, False),
        (".lock", Change.GONE, False),
        ("index.json", Change.GONE, False),
        (None, Change.GONE, False),
    ],
)
def test_only_a_deleted_memory_file_counts(world: World, path: str | None, kind: Change, noted: bool) -> None:
    worker_of(world, Clock(wall=lambda: world.now)).touch(path, kind)
    assert (world.store.index.deletion_event == world.now) is noted


def test_the_name_of_an_index_file_that_goes_and_comes_explains_no_loss(world: World) -> None:
    """Its exchange looks like a deletion; memories that nobody saw going after it are a loss all the same."""
    world.write(CORE, lines(*(memory(number) for number in range(60))))
    worker = worker_of(world, Clock(wall=lambda: world.now))
    worker.root.look()
    worker.touch("index.json", Change.GONE)
    worker.touch("index.json", Change.COMPLETE)
    world.path(CORE).unlink()
    worker.root.process(None, 0.0)
    assert worker.root.health.check.state == "suspect"
