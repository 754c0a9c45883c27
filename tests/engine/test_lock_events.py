"""That a lock was cleared is told; that it was left to somebody is a finding, not news at each sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memoryd.engine.interfaces import Clock
from memoryd.engine.jobs import Job
from memoryd.engine.root import Root
from tests.engine.silent import SILENT, commands_of, worker_of
from tests.operations.test_upkeep import dead_pid, filled
from tests.operations.world import World


def test_a_lock_that_is_left_to_somebody_is_told_once(tmp_path: Path) -> None:
    world, told = World(tmp_path), list[dict[str, Any]]()
    filled(world)
    clock = Clock(wall=lambda: world.now)
    root = Root(world.store, clock, SILENT, SILENT, lambda topic, event: told.append({"topic": topic, **event}))
    commands = commands_of(root, clock)
    root.begin()
    world.write(".lock", str(dead_pid()).encode(), age=3600.0)
    with world.path(".lock").open("rb"):
        for _ in range(3):
            commands.run(Job("locks"))
            world.age(".lock", 3600.0)
        assert [each["lock"]["action"] for each in told if "lock" in each] == ["emptied"]
        assert [each.code for each in world.store.root_findings["locks"]] == ["stale-lock"]
    commands.run(Job("locks"))
    assert [each["lock"]["action"] for each in told if "lock" in each] == ["emptied", "removed"]
    root.end()


def test_a_sweep_where_no_lock_is_wakes_nobody_and_counts(tmp_path: Path) -> None:
    world = World(tmp_path)
    filled(world)
    worker = worker_of(world, Clock(wall=lambda: world.now))
    worker.root.begin()
    for _ in range(3):
        world.now += 10
        worker.enqueue_scheduled("locks")
    swept = world.store.journal.jobs.times()["locks"]
    assert (swept.runs, swept.last_result, swept.last_success) == (3, "ok", world.now)
    assert not world.store.journal.database.rows("SELECT * FROM jobs WHERE name = 'locks'"), "nothing was written"
    world.write(".lock", str(dead_pid()).encode(), age=3600.0)
    worker.enqueue_scheduled("locks")
    turn = worker.inbox.next()
    assert turn is not None
    assert turn.scheduled is not None
    assert turn.scheduled.name == "locks"
    assert world.store.journal.jobs.times()["locks"].runs == 3
    worker.runner.recorded(turn.scheduled)
    assert world.store.journal.jobs.times()["locks"].runs == 4
    assert not world.path(".lock").exists()
    worker.root.end()


def test_a_sweep_that_may_not_write_counts_as_none(tmp_path: Path) -> None:
    world = World(tmp_path)
    filled(world)
    worker = worker_of(world)
    worker.root.begin()
    worker.root.health.paused = True
    worker.enqueue_scheduled("locks")
    assert "locks" not in world.store.journal.jobs.times()
    worker.root.end()
