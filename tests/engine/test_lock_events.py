"""That a lock was cleared is told; that it was left to somebody is a finding, not news at each sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memoryd.engine.interfaces import Clock
from memoryd.engine.jobs import Job
from memoryd.engine.root import Root
from tests.engine.silent import SILENT
from tests.operations.test_upkeep import dead_pid, filled
from tests.operations.world import World


def test_a_lock_that_is_left_to_somebody_is_told_once(tmp_path: Path) -> None:
    world, told = World(tmp_path), list[dict[str, Any]]()
    filled(world)
    tending = Root(
        world.store, Clock(wall=lambda: world.now), SILENT, lambda topic, event: told.append({"topic": topic, **event})
    )
    tending.begin()
    world.write(".lock", str(dead_pid()).encode(), age=3600.0)
    with world.path(".lock").open("rb"):
        for _ in range(3):
            tending.run_job(Job("locks"))
            world.age(".lock", 3600.0)
        assert [each["lock"]["action"] for each in told if "lock" in each] == ["emptied"]
        assert [each.code for each in world.store.root_findings["locks"]] == ["stale-lock"]
    tending.run_job(Job("locks"))
    assert [each["lock"]["action"] for each in told if "lock" in each] == ["emptied", "removed"]
    tending.end()
