"""A guest that is not noticed: what is done is not done again, and nothing moves while nothing happens."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.agents import line, memory
from tests.bench.process import processor_s, wakeups
from tests.daemon import Daemon, until
from tests.end_to_end import checks
from tests.end_to_end.conftest import MakeDaemon

pytestmark = pytest.mark.slow

IDLE_S = 20.0
CALM_S = 5.0  # after the last work, until nothing more follows from it
MOST_PER_S = 0.6  # wake-ups of the whole process


def fill(root: Path) -> None:
    """Something due of each kind, something wrong of each kind."""
    done: dict[str, Any] = {"task_metadata": {"status": "completed", "completed_at": "2025-11-02T10:00:00Z"}}
    with open(root / "learnings.jsonl", "a") as file:
        file.writelines(line(memory(days=days)) for days in (0, 100, 200, 400))
        file.write('{"id": "no memory"}\n')
        file.write("not even JSON\n")
    with open(root / "tasks.jsonl", "a") as file:
        file.writelines(line(memory(kind="task", **more)) for more in ({}, done))
    with open(root / "core_memories.jsonl", "a") as file:
        file.write(line(memory(kind="core") | {"archived": True}))
        file.write(line(memory(kind="core")).rstrip("\n"))
    (root / "notes.txt").write_text("somebody else's")
    (root / "learnings.jsonl.tmp").write_text("somebody else's")


def due(daemon: Daemon) -> list[dict[str, Any]]:
    return [row for row in daemon.rpc("jobs.list")["jobs"] if row["name"] != "rescan"]


@pytest.fixture
def settled(root: Path, daemon: MakeDaemon) -> Daemon:
    """A store on which everything that was due is done."""
    fill(root)
    tending = daemon(root, config="[daemon]\nquiet_s = 0\nquiet_cap_s = 0\n").start()
    until(lambda: all(row["last_result"] for row in due(tending)), "what is due is done")
    jobs = [row["name"] for row in tending.rpc("jobs.list")["jobs"]]
    for name in jobs:
        tending.rpc("jobs.run", name=name)
    tending.rpc("sync")
    until(lambda: not checks.temporary_files(root), "replaced inodes are let go")
    assert len(checks.archived_ids(root)) == 5
    return tending


def test_a_second_run_of_every_job_changes_nothing(root: Path, settled: Daemon) -> None:
    before = checks.snapshot(root)
    for row in settled.rpc("jobs.list")["jobs"]:
        settled.rpc("jobs.run", name=row["name"])
        assert checks.snapshot(root) == before, row["name"]
    for command in ("check", "plan", "status", "archive", "backup.create", "backup.verify", "lock.list", "sync"):
        settled.rpc(command)
        assert checks.snapshot(root) == before, command
    assert {entry["state"] for entry in settled.rpc("history.list")["entries"]} == {"done"}
    receipts = len(settled.rpc("history.list", limit=1000)["entries"])
    settled.rpc("jobs.run", name="archive")
    assert len(settled.rpc("history.list", limit=1000)["entries"]) == receipts


def test_a_restart_changes_nothing(root: Path, settled: Daemon) -> None:
    before = checks.snapshot(root)
    assert settled.stop() == 0
    assert checks.snapshot(root) == before
    settled.start()
    settled.rpc("sync")
    until(lambda: settled.job("locks")["last_result"], "the first jobs are over")
    assert checks.snapshot(root) == before


def test_rebuilding_everything_changes_nothing(root: Path, settled: Daemon) -> None:
    before = checks.snapshot(root)
    settled.rpc("reindex")
    assert checks.snapshot(root) == before
    settled.stop()
    for path in settled.state.rglob("catalogue.sqlite*"):
        path.unlink()
    settled.start()
    settled.rpc("sync")
    assert checks.snapshot(root) == before


def test_idle_it_does_nothing(root: Path, settled: Daemon) -> None:
    """No write in the root, and next to no processor time, with the sweeps and looks that go on all the time."""
    before = checks.snapshot(root)
    settled.rpc("memory.search", query="memory")  # opens what stays open for further searches
    used = settled.rpc("status")["resources"]
    runs = settled.job("locks")["runs"]
    pid = settled.pid
    began, spent = time.monotonic(), processor_s(pid)
    time.sleep(IDLE_S)
    share = (processor_s(pid) - spent) / (time.monotonic() - began)
    after = settled.rpc("status")["resources"]
    assert after["cpu_s"] - used["cpu_s"] < 0.001 * IDLE_S + 0.02
    assert settled.job("locks")["runs"] > runs
    assert checks.snapshot(root) == before
    print(f"idle: {share * 100:.3f} % of a core, {after['rss_bytes'] / 1e6:.1f} MB, {after['threads']} threads")
    assert share < 0.001
    assert after["rss_bytes"] < 60e6
    assert after["open_fds"] <= used["open_fds"]  # the connection of an earlier call may close in between


@pytest.mark.parametrize(("locks", "quiet"), [("every 10s", True), ("every 1s", False)], ids=["default", "canary"])
def test_three_idle_roots_hardly_wake_up(locks: str, quiet: bool, tmp_path: Path, daemon: MakeDaemon) -> None:
    """The sweep of locks is the only thing that happens more than once; the canary sweeps ten times as often."""
    roots = [tmp_path / name for name in ("one", "two", "three")]
    for root in roots:
        root.mkdir()
        fill(root)
    config = f'[daemon]\nquiet_s = 0\nquiet_cap_s = 0\n[defaults.schedule]\nlocks = "{locks}"\n'
    tending = daemon(*roots, config=config).start()
    until(lambda: all(row["last_result"] for row in due(tending)), "what is due is done")
    for root in roots:
        until(lambda root=root: not checks.temporary_files(root), "replaced inodes are let go")  # type: ignore[misc]  # mypy cannot infer the default
    time.sleep(CALM_S)
    before, written = [checks.snapshot(root) for root in roots], tending.rpc("status")["resources"]["wakeups"]
    pid = tending.pid
    earlier = wakeups(pid)
    time.sleep(IDLE_S)
    woken = (wakeups(pid) - earlier).total()
    counted = tending.rpc("status")["resources"]["wakeups"] - written
    assert [checks.snapshot(root) for root in roots] == before
    print(f"idle: {woken / IDLE_S:.2f} wake-ups/s")
    assert (woken < MOST_PER_S * IDLE_S) is quiet
    assert counted >= woken


def test_a_reader_makes_no_work(root: Path, settled: Daemon) -> None:
    before = checks.snapshot(root)
    generation = settled.root()["generation"]
    for _ in range(50):
        for path in root.rglob("*"):
            if path.is_file():
                path.read_bytes()
    settled.rpc("sync")
    assert settled.root()["generation"] == generation
    assert checks.snapshot(root) == before


def test_in_observe_mode_nothing_is_ever_written(root: Path, daemon: MakeDaemon) -> None:
    fill(root)
    (root / ".lock").write_text("999999 2020-01-01T00:00:00Z\n")
    before = checks.snapshot(root)
    tending = daemon(root, config='[defaults]\nmode = "observe"\n[defaults.schedule]\nlocks = "every 1s"\n').start()
    answer = tending.rpc("sync")["roots"]["memories"]
    assert answer["written"] is False
    assert "observe" in answer["reason"]
    until(lambda: tending.job("verify")["last_result"] == "ok", "what only looks has run")
    assert tending.run("check").returncode == 1
    assert tending.rpc("plan")["roots"][0]["actions"]
    row = tending.root()
    assert row["memories"] == 7
    assert checks.snapshot(root) == before
