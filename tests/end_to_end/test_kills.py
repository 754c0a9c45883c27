"""kill -9 at any moment: it starts again by itself, and nothing is lost, doubled or left behind."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.agents import line, memory
from tests.daemon import Daemon, until
from tests.end_to_end import checks
from tests.end_to_end.conftest import UPKEEP_AT_ONCE, MakeAgents, MakeDaemon
from tests.end_to_end.faults import Fault, archive_until, needs_strace, refusal
from tests.examples import examples

pytestmark = pytest.mark.slow

KILLS = examples(100)


def assert_settled(daemon: Daemon, root: Path, ids: frozenset[str]) -> None:
    """Everything is there once, the index is true, nothing is half done."""
    daemon.rpc("jobs.run", name="limits")  # or it may move memories between the two looks at the index
    daemon.rpc("sync")
    assert checks.missing(root, ids) == set()
    archived = checks.archived_ids(root)
    assert len(archived) == len(set(archived))
    assert not set(archived) & set(checks.live_ids(root))
    assert checks.index_on_disk(root) == checks.rebuilt_index(root)
    entries = daemon.rpc("history.list", limit=1000)["entries"]
    assert {each["state"] for each in entries} <= {"done", "rolled_back", "interrupted"}


def archives_of(daemon: Daemon) -> list[dict[str, object]]:
    return [e for e in daemon.rpc("history.list", limit=1000)["entries"] if e["operation"] == "archive"]


def test_many_kills_under_load(root: Path, daemon: MakeDaemon, agents: MakeAgents) -> None:
    moments = random.Random(20260101)
    tending = daemon(root, config=UPKEEP_AT_ONCE)
    team = agents(root)
    team.start(2, old=0.3)
    starts = []
    for number in range(KILLS):
        tending.spawn()
        if number % 4:  # every fourth is killed while it starts
            tending.await_ready()
            starts.append(time.monotonic() - tending.started_at)
        if number % 4 == 1:  # and every fourth after it is seen to archive, however long the agents kept it waiting
            before = len(archives_of(tending))
            until(lambda before=before: len(archives_of(tending)) > before, "an archive has begun", 300)  # type: ignore[misc]  # mypy cannot infer the default
        time.sleep(moments.uniform(0.05, 0.4))
        assert tending.process is not None
        assert tending.process.poll() is None, tending.said()
        tending.kill()
    told = team.stop()
    tending.start()
    assert len(archives_of(tending)) > KILLS // 10
    until(lambda: tending.job("archive")["last_result"] == "ok", "the archive runs once more")
    assert_settled(tending, root, told.ids)
    until(lambda: not checks.temporary_files(root), "no temporary file is left")
    print(f"start to ready: median {sorted(starts)[len(starts) // 2]:.2f} s, longest {max(starts):.2f} s")


# --- before each system call of one archive run


def add(root: Path) -> frozenset[str]:
    """Memories of today and some that are due, of three quarters."""
    natives = [memory(days=days) for days in (0, 100, 200, 300, 0)]
    with open(root / "learnings.jsonl", "a") as file:
        file.writelines(map(line, natives))
    return frozenset(native["id"] for native in natives)


QUIET = """
[defaults.schedule]
archive = "off"
limits = "off"
backup = "off"
locks = "off"
permissions = "off"
verify = "off"
"""
# Kinds of calls of one archive run, and how many of each it may make at the most.
CALLS = {"renameat2": 15, "fsync": 40, "unlinkat": 15, "fdatasync": 15, "mkdirat": 12}


@needs_strace
@pytest.mark.root_only
@pytest.mark.parametrize("call", CALLS)
def test_killed_before_each_call_of_an_archive_run(call: str, root: Path, daemon: MakeDaemon) -> None:
    tending = daemon(root, config=QUIET).start()
    ids: frozenset[str] = frozenset()
    for number in range(1, CALLS[call] + 1):
        ids |= add(root)
        tending.rpc("sync")
        killed = archive_until(tending, call, number)
        assert checks.missing(root, ids) == set(), (call, number)
        tending.rpc("archive")
        assert_settled(tending, root, ids)
        if not killed:
            assert number > 1
            until(lambda: not checks.temporary_files(root), "no temporary file is left")
            return
    pytest.fail(f"an archive run makes more than {CALLS[call]} calls of {call}: the sweep must grow")


@needs_strace
@pytest.mark.root_only
@pytest.mark.parametrize(
    ("call", "fault", "most"),
    [("fsync", "EIO", 26), ("renameat2", "EROFS", 12), ("write", "ENOSPC", 12), ("writev", "ENOSPC", 12)],
)
def test_an_archive_run_whose_disk_fails_once(call: str, fault: str, most: int, root: Path, daemon: MakeDaemon) -> None:
    """Each call fails once: the run fails and says so, or was not touched; the next one makes it good."""
    tending = daemon(root, config=QUIET).start()
    ids: frozenset[str] = frozenset()
    failures = 0
    for number in range(1, most):
        ids |= add(root)
        tending.rpc("sync")
        with Fault(tending.pid, call, f"error={fault}", number):
            error = refusal(tending)
        if error is not None:
            failures += 1
            assert os.strerror(getattr(errno, fault)) in error.message, error.message
            assert error.hint
        assert checks.missing(root, ids) == set(), (call, number)
        until(lambda: refusal(tending) is None, "the next run makes it good")
        assert_settled(tending, root, ids)
        tending.until_root(lambda row: row["state"] == "ok", "the root recovers by itself")
    assert failures >= 2  # a backup and the file itself: what an undo needs lies in the journal
    until(lambda: not checks.temporary_files(root), "no temporary file is left")


UNSAFE = """
import json, os, sys
os.chdir(sys.argv[1])
lines = open("learnings.jsonl").readlines()
old = [text for text in lines if int(text.split('"created_at":"')[1][:4]) < 2026 or "Z" in text]
with open("own.tmp", "w") as file:
    file.writelines([])
    os.fsync(file.fileno())
os.rename("own.tmp", "learnings.jsonl")
os.makedirs("archive/2025", exist_ok=True)
with open("archive/2025/learnings_2025_Q1.jsonl", "a") as file:
    file.writelines(old)
    file.flush()
    os.fsync(file.fileno())
"""


@needs_strace
@pytest.mark.root_only
def test_canary_an_archiver_that_removes_before_it_copies_is_caught(root: Path) -> None:
    lost = []
    for call, number in (("fsync", 1), ("rename", 1), ("mkdir", 1), ("write", 1)):
        for path in checks.archives(root):
            path.unlink()
        (root / "learnings.jsonl").write_text("")
        ids = add(root)
        inject = f"inject={call}:signal=SIGKILL:when={number}"
        command = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject]
        subprocess.run([*command, sys.executable, "-c", UNSAFE, str(root)], check=False)
        lost.append(bool(checks.missing(root, ids)))
    assert lost == [False, False, True, True]
