"""Backups that fail are reported; a machine that was off gets time to catch up first."""

from __future__ import annotations

from memoryd.core.defaults import DAY, Policy
from memoryd.operations.check import check, note_backups
from tests.layouts.samples import lines, memory
from tests.operations.conftest import MakeWorld
from tests.operations.world import CORE, World


def tried(world: World, result: str) -> None:
    world.store.journal.jobs.record_start("backup", world.now)
    world.store.journal.jobs.record_end("backup", result, world.now, None if result == "ok" else "the disk refuses")


def findings(world: World) -> list[str]:
    note_backups(world.store, world.now)
    return [each.message for each in check(world.store, world.now) if each.code == "backups-behind"]


def filled(make_world: MakeWorld, schedule: str = "every 1d") -> World:
    world = make_world(Policy(schedule={"backup": schedule}))
    world.write(CORE, lines(memory(1)))
    world.sync()
    return world


def test_failed_attempts_are_reported_after_two_intervals(make_world: MakeWorld) -> None:
    world = filled(make_world)
    tried(world, "ok")
    world.now += 1.5 * DAY
    tried(world, "failed")
    assert findings(world) == []
    world.now += DAY
    tried(world, "busy")
    [message] = findings(world)
    assert "ended with busy: the disk refuses" in message
    tried(world, "ok")
    assert findings(world) == []


def test_a_machine_that_was_off_gets_time_to_catch_up(make_world: MakeWorld) -> None:
    world = filled(make_world)
    tried(world, "ok")
    world.now += 30 * DAY
    assert findings(world) == []


def test_one_that_never_succeeded(make_world: MakeWorld) -> None:
    world = filled(make_world)
    for _ in range(2):
        tried(world, "failed")
    assert findings(world) == []
    tried(world, "failed")
    assert "no backup was ever made" in findings(world)[0]


def test_nothing_is_reported_without_a_schedule_or_without_memories(make_world: MakeWorld) -> None:
    world = filled(make_world, "off")
    for _ in range(5):
        tried(world, "failed")
    assert findings(world) == []
