"""Events that are lost, watchers that die, limits that are reached: every change is indexed all the same."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.agents import line, memory
from tests.daemon import Daemon, until
from tests.end_to_end import checks
from tests.end_to_end.conftest import MakeDaemon
from tests.end_to_end.faults import Fault, needs_strace

pytestmark = pytest.mark.slow

FLOOD = 6000  # creations; the kernel's queue holds 16,384 events


def add(path: Path) -> str:
    native = memory()
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as file:
        file.write(line(native))
    return str(native["id"])


def reasons(daemon: Daemon) -> list[str]:
    return [each["reason"] for each in daemon.root()["rescans"]]


def followed(daemon: Daemon, root: Path, path: Path) -> bool:
    """Whether a memory is indexed without a rescan. One may still follow from what happened before."""
    before = daemon.root()["rescans"]
    add(path)
    until(lambda: checks.is_indexed(root), "it is indexed")
    return bool(daemon.root()["rescans"] == before)


def test_an_overflowing_queue_hides_nothing(root: Path, daemon: MakeDaemon) -> None:
    tending = daemon(root).start()
    add(root / "learnings.jsonl")
    until(lambda: checks.is_indexed(root), "the first memory is indexed")
    tending.signal(signal.SIGSTOP)
    for number in range(FLOOD):
        (root / f"foreign-{number}").write_bytes(b"x")
    add(root / "learnings.jsonl")
    made_meanwhile = root / "archive" / "2024" / "learnings_2024_Q1.jsonl"
    add(made_meanwhile)
    tending.signal(signal.SIGCONT)
    until(lambda: checks.is_indexed(root), "what the overflow hid is indexed")
    until(lambda: "overflow" in reasons(tending), "status says so")
    tending.until_root(lambda row: row["watch"]["held"] == row["watch"]["wanted"] >= 3, "all is watched")
    until(lambda: followed(tending, root, made_meanwhile), "a directory made during the overflow is watched")


@needs_strace
@pytest.mark.root_only
def test_the_death_of_the_thread_that_reads_events_is_noticed(root: Path, daemon: MakeDaemon) -> None:
    tending = daemon(root).start()
    with Fault(tending.pid, "read", "error=EIO", 1, only="anon_inode:inotify"):
        add(root / "learnings.jsonl")
        until(lambda: "thread-died" in reasons(tending), "status says so")
    until(lambda: checks.is_indexed(root), "what came while nobody read is indexed")
    # Each new reader has met the fault as long as it was there.
    until(lambda: reasons(tending)[-1] == "rebuilt", "it is watched again")
    tending.until_root(lambda row: row["state"] == "ok", "all is well")
    until(lambda: followed(tending, root, root / "learnings.jsonl"), "events come again")
    assert "watching thread died" in tending.said()


def test_what_the_weekly_verify_reads_first_is_indexed(root: Path, daemon: MakeDaemon) -> None:
    """The events of the change come when it is news no more."""
    tending = daemon(root, config="[daemon]\nsettle_ms = 5000\nsettle_cap_ms = 5000\n").start()
    until(lambda: tending.job("verify")["last_result"], "the first verify is over")
    add(root / "learnings.jsonl")
    tending.rpc("jobs.run", name="verify")
    assert checks.is_indexed(root)


def limited(setting: str, value: int) -> list[str]:
    """A user namespace of its own, whose limit is nobody else's."""
    script = f'echo {value} > /proc/sys/user/{setting}; exec "$@"'
    return ["unshare", "--user", "--map-root-user", "--mount", "bash", "-c", script, "bash"]


def namespaces_work() -> bool:
    return shutil.which("unshare") is not None and os.system("unshare --user --map-root-user --mount true") == 0


needs_namespaces = pytest.mark.skipif(not namespaces_work(), reason="no user namespace can be made here")


@needs_namespaces
@pytest.mark.root_only
def test_more_directories_than_watches(root: Path, daemon: MakeDaemon) -> None:
    deep = [root / "archive" / str(year) / f"learnings_{year}_Q1.jsonl" for year in range(2015, 2025)]
    for path in deep:
        add(path)
    tending = daemon(root, prefix=limited("max_inotify_watches", 6))
    tending.start()
    row = tending.until_root(lambda row: row["state"] == "degraded", "the gap is told")
    assert row["watch"]["wanted"] == 12
    assert 0 < row["watch"]["held"] <= 6
    assert "user.max_inotify_watches is 6" in row["reasons"][0]
    assert "sysctl -w" in row["reasons"][0]
    for path in (*deep, root / "learnings.jsonl", root / "archive" / "2030" / "tasks_2030_Q4.jsonl"):
        add(path)
    until(lambda: checks.is_indexed(root), "changes that make no event are indexed")
    told = tending.run("status")
    assert "user.max_inotify_watches" in told.stdout
    for path in deep:
        shutil.rmtree(path.parent)
    shutil.rmtree(root / "archive")
    tending.until_root(lambda row: row["state"] == "ok", "fewer directories can all be watched")
    until(lambda: checks.is_indexed(root), "what went is forgotten")


@needs_namespaces
@pytest.mark.root_only
def test_no_watching_at_all(root: Path, daemon: MakeDaemon) -> None:
    tending = daemon(root, prefix=limited("max_inotify_instances", 0)).start()
    row: dict[str, Any] = tending.root()
    assert row["state"] == "degraded"
    assert row["watch"]["mode"] == "scan"
    assert "max_inotify_instances" in row["reasons"][0], row["reasons"]
    add(root / "learnings.jsonl")
    until(lambda: checks.is_indexed(root), "a timed scan finds the change")
    raised = "echo 9 > /proc/sys/user/max_inotify_instances"
    subprocess.run(["nsenter", "--target", str(tending.pid), "--user", "sh", "-c", raised], check=True)
    tending.until_root(lambda row: row["state"] == "ok", "it is watched once the limit is raised")
    assert tending.root()["watch"]["mode"] == "events"
    assert tending.stop() == 0
