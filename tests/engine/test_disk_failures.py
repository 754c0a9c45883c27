"""A disk that refused is tried again soon, however long that lasts and however often somebody asks meanwhile."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from memoryd.control.methods.method_types import Result
from memoryd.engine.health import Health
from memoryd.engine.interfaces import Clock
from memoryd.engine.job_runner import JobRunner
from memoryd.engine.jobs import Job
from memoryd.errors import ConflictError, DeniedError, MemorydError
from memoryd.operations.backup import create_backups
from memoryd.operations.root_check import RootCheck
from tests.engine.silent import SILENT
from tests.layouts.samples import lines, memory
from tests.operations.world import CORE, World

FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("every_s", [0.1, 1.0, 60.0])
def test_the_pauses_grow_to_a_few_seconds(every_s: float, tmp_path: Path) -> None:
    world, times = World(tmp_path), (number * every_s for number in range(1000))
    health = Health(world.store, Clock(monotonic=lambda: next(times)), SILENT, lambda *_: None)
    pauses = [health.trouble(FULL)[1] for _ in range(200)]
    assert pauses[0] == 1.0
    assert pauses == sorted(pauses)
    assert max(pauses) == 5.0
    health.note_recovery()
    assert health.trouble(FULL)[1] == 1.0
    world.store.close()


def test_a_file_of_another_user_is_no_disk_error(tmp_path: Path) -> None:
    world = World(tmp_path)
    health = Health(world.store, Clock(), SILENT, lambda *_: None)
    error, _ = health.trouble(PermissionError(errno.EACCES, "Permission denied", "tasks.jsonl"))
    assert isinstance(error, DeniedError)
    assert error.message == f"root {world.store.name}: no access: Permission denied (tasks.jsonl)"
    assert f"let user {os.geteuid()} read and write it" in str(error.hint)
    world.store.close()


def test_a_root_without_a_layout_does_not_lag_behind(tmp_path: Path) -> None:
    """Nothing of it is indexed, so nothing would end that."""
    world = World(tmp_path)
    health = Health(world.store, Clock(), SILENT, lambda *_: None)
    world.store.layout = None
    health.trouble(FULL)
    assert health.unindexed_since is None
    world.store.close()


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_link_or_file_in_the_way_is_no_trouble_with_the_disk(tmp_path: Path, kind: str) -> None:
    world = World(tmp_path)
    troubles: list[BaseException | None] = []

    def note(error: BaseException | None) -> MemorydError:
        troubles.append(error)
        return DeniedError("trouble")

    world.write(CORE, lines(memory(1)))
    if kind == "link":
        world.path(".backup").symlink_to(tmp_path)
    else:
        world.path(".backup").touch()

    def back_up(job: Job) -> Result:
        create_backups(world.store, world.now)
        return Result()

    _, error = JobRunner(world.store, Clock(), SILENT, lambda *_: None, back_up, note).attempt(Job("backup"))
    assert isinstance(error, ConflictError)
    assert ".backup" in error.message
    assert troubles == []
    world.store.close()


def test_a_git_operation_that_does_not_end_degrades_the_root_and_is_told_once(tmp_path: Path) -> None:
    world, now, told = World(tmp_path), [100.0], list[object]()
    health = Health(world.store, Clock(monotonic=lambda: now[0]), SILENT, lambda topic, _: told.append(topic))
    health.check, health.watch.active = RootCheck("ok"), True
    health.note_blocked("a merge")
    assert health.state() == ("ok", ("a merge; nothing is written until that is over",))
    assert told == []
    for now[0] in (111.0, 113.0):
        health.note_blocked("a merge")
    assert health.state()[0] == "degraded"
    assert told == ["health"]
    assert health.note_blocked(None)
    assert health.state() == ("ok", ())
    assert not health.note_blocked(None)
    world.store.close()
