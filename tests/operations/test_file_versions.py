"""Versions of files between backups: none is dropped unless it is reported."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from memoryd.core.defaults import Mode, Policy
from memoryd.disk.snapshots import UnsavedVersions
from memoryd.engine.inbox import Pace
from memoryd.engine.interfaces import Clock
from memoryd.engine.worker import Worker
from memoryd.operations.backup import create_backups
from memoryd.operations.file_versions import VERSIONS_TOPIC, save_versions
from tests.engine.silent import SILENT
from tests.layouts.test_markdown_topics import entry
from tests.operations.world import World

NUMBER = 30
PATHS = [f"a/{number}.md" for number in range(NUMBER)]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A store with more files than there is room for in memory; none is indexed yet."""
    made = World(tmp_path, kind="markdown-topics")
    for path in PATHS:
        made.write(path, f"# {path}\n\n".encode() + entry("2026-01-30", path))
    monkeypatch.setattr(UnsavedVersions, "MAX_SIZE", 10 * len(made.read(PATHS[0])))
    yield made
    made.store.close()


def saved(world: World) -> set[str]:
    return {version.file for version in world.store.vault.versions()}


def messages(world: World) -> list[str]:
    return [finding.message for finding in world.store.root_findings.get(VERSIONS_TOPIC, ())]


def test_what_does_not_fit_into_memory_is_left_to_a_backup(world: World) -> None:
    world.look()
    save_versions(world.store, world.now, backup_follows=True)
    assert 0 < len(saved(world)) < NUMBER
    assert world.store.unsaved_versions.backup_wanted
    assert messages(world) == []
    create_backups(world.store, world.now)
    assert saved(world) == {*PATHS}


def test_without_scheduled_backups_what_does_not_fit_is_reported(world: World) -> None:
    world.look()
    assert save_versions(world.store, world.now)
    assert not world.store.unsaved_versions.backup_wanted
    [message] = messages(world)
    assert message.startswith(
        f"{NUMBER - len(saved(world))} versions of files did not fit into memory; no backup follows"
    )
    world.write(PATHS[0], entry("2026-01-31", "later"))
    world.look()
    assert not save_versions(world.store, world.now), "that saves none of them"
    assert messages(world) == [message]
    create_backups(world.store, world.now)
    assert messages(world) == []
    world.write(PATHS[0], entry("2026-01-31", "later still"))
    world.look()
    save_versions(world.store, world.now)
    assert messages(world) == [], "the backup has saved them"


def test_the_worker_makes_that_backup(world: World) -> None:
    done = threading.Event()

    def tell(topic: str, event: Mapping[str, object]) -> None:
        if topic == "job" and event["job"] == "backup":
            done.set()

    worker = Worker(world.store, Pace(), Clock(), SILENT, SILENT, tell)
    worker.start()
    made = done.wait(30)
    assert worker.stop(30), "the store is closed now"
    assert made
    world.rise()
    assert saved(world) == {*PATHS}


@pytest.mark.parametrize("policy", [Policy(mode=Mode.OBSERVE), Policy(schedule={"backup": "off"})])
def test_where_no_backup_follows_the_worker_reports_what_does_not_fit(world: World, policy: Policy) -> None:
    world.store.policy = policy
    worker = Worker(world.store, Pace(), Clock(), SILENT, SILENT, lambda *_: None)
    worker.start()
    assert worker.ready.wait(30)
    reasons = worker.status.reasons
    assert worker.stop(30), "the store is closed now"
    assert [each for each in reasons if "did not fit into memory" in each]


def test_what_the_disk_refuses_is_reported_until_it_is_saved(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[int] = []

    def refuse(states: list[object], *_: Any, **__: Any) -> None:
        attempts.append(len(states))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(world.store.vault, "add_versions", refuse)
        world.look()
        assert attempts == [], "what waits is saved once the root has settled"
        assert save_versions(world.store, world.now)
        [waiting] = {*attempts}
        [message] = messages(world)
        assert f"{waiting} versions of files cannot be saved, {NUMBER - waiting} more did not fit" in message
        assert os.strerror(errno.ENOSPC) in message
        assert not save_versions(world.store, world.now), "nothing new to report"
    assert save_versions(world.store, world.now, backup_follows=True)
    assert messages(world) == []
    assert len(saved(world)) == waiting
    world.write(PATHS[0], entry("2026-01-31", "later"))
    monkeypatch.setattr(world.store.vault, "add_versions", refuse)
    world.look()
    save_versions(world.store, world.now)
    assert messages(world)[0].startswith("1 version of a file cannot be saved; "), "none was dropped since"
