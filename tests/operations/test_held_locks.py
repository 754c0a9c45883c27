"""A lock whose holder is alive and idle: upkeep waits only a moment, and a finding reports it."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from memoryd.core.defaults import Policy
from memoryd.disk.locks.trace import HONOUR_S
from memoryd.engine.interfaces import Clock, Timetable
from memoryd.engine.job_runner import MIN_BUSY_S
from memoryd.errors import BusyError
from memoryd.operations.check import check
from memoryd.operations.locks import list_locks, sweep_locks
from memoryd.operations.upkeep import archive
from memoryd.store import Store
from tests.daemon import until
from tests.engine.silent import SILENT, worker_of
from tests.layouts.samples import learning, lines
from tests.operations.world import LEARNINGS, World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, Policy(lock_wait_s=0))
    made.write(LEARNINGS, lines(learning(1)))
    made.sync()
    yield made
    made.store.close()


@pytest.fixture
def server() -> Iterator[int]:
    """The PID of a live process that started before any lock of these tests."""
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.communicate(b"\n")


class Watch:
    """A clock for how long a lock is watched."""

    def __init__(self, store: Store) -> None:
        self.now = 1000.0
        store.lock_watch.monotonic = lambda: self.now


def leave_lock(world: World, pid: int, name: str = ".lock") -> None:
    """Leave a lock as a server does whose request failed inside: with its PID, claimed just now, without a flock."""
    claimed = datetime.fromtimestamp(time.time() + 1, UTC).isoformat()
    (world.root / name).write_text(json.dumps({"pid": pid, "timestamp": claimed}))


def held(store: Store, now: float) -> list[str]:
    return [each.message for each in check(store, now) if each.code == "held-lock"]


def take_lock(world: World) -> None:
    with world.store.locked(0):
        pass


def test_a_free_lock_of_a_live_process_blocks_for_ten_minutes_and_is_then_reported(world: World, server: int) -> None:
    watch = Watch(world.store)
    leave_lock(world, server)
    assert held(world.store, time.time()) == []
    watch.now += HONOUR_S - 1
    with pytest.raises(BusyError):
        take_lock(world)
    assert held(world.store, time.time()) == []
    watch.now += 2
    take_lock(world)
    [told] = held(world.store, time.time())
    assert f"process {server}" in told
    assert "no longer waits" in told
    assert (world.root / ".lock").exists(), "only its owner or a person removes it"


def test_a_lock_that_is_touched_is_in_use(world: World, server: int) -> None:
    watch = Watch(world.store)
    leave_lock(world, server)
    sweep_locks(world.store, time.time(), watch=True)
    watch.now += HONOUR_S - 1
    os.utime(world.root / ".lock", (time.time() + 5, time.time() + 5))
    sweep_locks(world.store, time.time(), watch=True)
    watch.now += HONOUR_S - 1
    assert held(world.store, time.time()) == []
    with pytest.raises(BusyError):
        take_lock(world)


def test_a_flock_held_for_long_is_reported_and_respected(world: World) -> None:
    watch = Watch(world.store)
    with open(world.root / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert held(world.store, time.time()) == []
        watch.now += HONOUR_S + 1
        [told] = held(world.store, time.time())
        assert "wait for it" in told
        with pytest.raises(BusyError):
            take_lock(world)
    assert held(world.store, time.time()) == [], "nobody holds it any more"


def test_a_flock_that_is_released_and_taken_again_is_no_held_lock(world: World) -> None:
    watch = Watch(world.store)
    with open(world.root / ".lock", "w") as file:
        for _ in range(3):
            fcntl.flock(file, fcntl.LOCK_EX)
            assert held(world.store, time.time()) == []
            fcntl.flock(file, fcntl.LOCK_UN)
            list_locks(world.store, time.time())
            watch.now += HONOUR_S / 2


def test_a_soft_lock_held_for_long_is_reported_and_still_honoured(tmp_path: Path, server: int) -> None:
    root = tmp_path / "sessions"
    root.mkdir()
    store = Store("s", str(root), "session-files", Policy(), str(tmp_path / "state"))
    store.attach()
    watch = Watch(store)
    started = datetime.fromtimestamp(time.time() + 1, UTC).isoformat()
    (root / ".archive.lock").write_text(json.dumps({"pid": server, "started_at": started}))
    list_locks(store, time.time())
    watch.now += HONOUR_S + 1
    [told] = held(store, time.time())
    assert "upkeep that needs it waits" in told
    assert sweep_locks(store, time.time()) == []
    store.close()


def test_upkeep_waits_for_a_lock_only_a_moment(world: World) -> None:
    world.store.policy = Policy(lock_wait_s=3600)
    with open(world.root / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with world.store.unattended(), pytest.raises(BusyError):
            archive(world.store, world.now, by="command", ids=[learning(1)["id"]])
    archive(world.store, world.now, by="command", ids=[learning(1)["id"]])
    assert any(name.startswith("archive/") for name in world.names())


class _Timetable:
    """A timetable that records retries."""

    def __init__(self) -> None:
        self.retries: list[tuple[str, float]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(SILENT, name)

    def tried(self, times: int) -> bool:
        return len(self.retries) == times

    def retry(self, root: str, job: str, after_s: float) -> None:
        del root
        self.retries.append((job, after_s))


def test_a_job_that_finds_the_lock_taken_is_retried_with_backoff(world: World) -> None:
    world.store.policy = Policy(lock_wait_s=3600)
    world.now = time.time()
    heard = _Timetable()
    worker = worker_of(world, timetable=cast("Timetable", heard))
    worker.start()
    assert worker.ready.wait(30)
    with open(world.root / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for number in (1, 2, 3):
            worker.enqueue_scheduled("backup")
            until(partial(heard.tried, number), "it gives way")
        worker.touch(LEARNINGS)
    assert heard.retries == [("backup", MIN_BUSY_S), ("backup", MIN_BUSY_S * 2), ("backup", MIN_BUSY_S * 4)]
    worker.enqueue_scheduled("backup")
    until(lambda: world.store.journal.jobs.times().get("backup") is not None, "it is done")
    assert worker.stop(30)


def test_the_watch_uses_the_clock_of_the_worker(world: World) -> None:
    clock = Clock(monotonic=lambda: 42.0)
    worker = worker_of(world, clock)
    assert world.store.lock_watch.monotonic() == 42.0
    assert worker.stop(1)
