"""Backups that are tried and fail are told; a machine that was off is given its chance first."""

from __future__ import annotations

from memoryd.core.policy import DAY, Policy
from memoryd.operations.check import check, note_backups
from tests.layouts.samples import lines, memory
from tests.operations.conftest import MakeWorld
from tests.operations.world import CORE, World


def tried(world: World, result: str) -> None:
    world.store.journal.jobs.record_start("backup", world.now)
    world.store.journal.jobs.record_end("backup", result, world.now, None if result == "ok" else "the disk refuses")


def told(world: World) -> list[str]:
    note_backups(world.store, world.now)
    return [each.message for each in check(world.store, world.now) if each.code == "backups-behind"]


def filled(make_world: MakeWorld, schedule: str = "every 1d") -> World:
    world = make_world(Policy(schedule={"backup": schedule}))
    world.write(CORE, lines(memory(1)))
    world.sync()
    return world


def test_tries_that_fail_are_told_after_two_intervals(make_world: MakeWorld) -> None:
    world = filled(make_world)
    tried(world, "ok")
    world.now += 1.5 * DAY
    tried(world, "failed")
    assert told(world) == []
    world.now += DAY
    tried(world, "busy")
    [message] = told(world)
    assert "ended with busy: the disk refuses" in message
    tried(world, "ok")
    assert told(world) == []


def test_a_machine_that_was_off_has_its_chance(make_world: MakeWorld) -> None:
    world = filled(make_world)
    tried(world, "ok")
    world.now += 30 * DAY
    assert told(world) == []


def test_one_that_never_succeeded(make_world: MakeWorld) -> None:
    world = filled(make_world)
    for _ in range(2):
        tried(world, "failed")
    assert told(world) == []
    tried(world, "failed")
    assert "no backup was ever made" in told(world)[0]


def test_not_where_none_is_asked_for_or_nothing_is_there(make_world: MakeWorld) -> None:
    world = filled(make_world, "off")
    for _ in range(5):
        tried(world, "failed")
    assert told(world) == []
