"""A lock that memoryd left behind, by a death or because a removal failed, blocks neither memoryd nor the agents."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memoryd.errors import BusyError
from tests.agents import line, memory
from tests.daemon import Daemon, refused, until
from tests.end_to_end import checks
from tests.end_to_end.conftest import MakeDaemon
from tests.end_to_end.faults import Fault, archive_until, needs_strace
from tests.layouts import session_samples

pytestmark = [pytest.mark.slow, pytest.mark.root_only, needs_strace]

SOFT = ".archive.lock"
QUIET = """
[defaults]
archive_sessions = true
[defaults.schedule]
archive = "off"
backup = "off"
dedupe = "off"
limits = "off"
locks = "off"
permissions = "off"
verify = "off"
"""
SWEPT = QUIET.replace('locks = "off"', 'locks = "every 1s"')
# Calls of an archive run of one session, and how many of each it may make at the most.
CALLS = {"write": 20, "fsync": 20, "linkat": 4, "renameat": 4, "unlinkat": 8}


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    """An empty directory of session files."""
    path = tmp_path / "sessions"
    path.mkdir(mode=0o700)
    return path


def add_session(root: Path, number: int) -> str:
    """Write a session that is due for the archive and return its name."""
    started = datetime.now(UTC) - timedelta(days=400, minutes=number)
    name = f"{started:%Y-%m-%d-%H-%M-%S}-session-{number}"
    path = root / session_samples.path_of(name)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(session_samples.text(session_samples.session(session_samples.memory(), name=name)))
    return name


def archived(root: Path) -> list[str]:
    """The names of the sessions in the archive."""
    return sorted(json.loads(path.read_bytes())["session_id"] for path in root.glob("archive/2*/*.json"))


def live(root: Path) -> list[str]:
    """The paths of the sessions outside of the archive."""
    return sorted(str(path) for path in root.glob("2*/*.json"))


def archives(tending: Daemon) -> bool:
    try:
        tending.rpc("archive")
    except BusyError:
        return False
    return True


@pytest.mark.parametrize("call", CALLS)
def test_an_archive_run_that_was_killed_can_be_repeated_at_once(call: str, sessions: Path, daemon: MakeDaemon) -> None:
    """Killed before each call: neither an empty lock nor a complete one blocks the next run, not even for a moment."""
    tending = daemon(sessions, config=QUIET, layout="session-files").start()
    names: list[str] = []
    for number in range(1, CALLS[call] + 1):
        names.append(add_session(sessions, number))
        tending.rpc("sync")
        died = archive_until(tending, call, number)
        if died:
            assert archives(tending), f"blocked after a death before {call} number {number}"
        assert (archived(sessions), live(sessions)) == (sorted(names), []), (call, number)
        assert not (sessions / SOFT).exists()
        if not died:
            assert number > 1
            until(lambda: not checks.temporary_files(sessions), "no temporary file is left")
            return
    pytest.fail(f"an archive run makes more than {CALLS[call]} calls of {call}: the sweep must grow")


def test_a_soft_lock_that_could_not_be_removed_does_not_block_memoryd_itself(
    sessions: Path, daemon: MakeDaemon
) -> None:
    """It names the daemon, which is alive; but the daemon knows that it no longer holds it."""
    tending = daemon(sessions, config=QUIET, layout="session-files").start()
    names = [add_session(sessions, 1)]
    tending.rpc("sync")
    with Fault(tending.pid, "unlinkat", "error=EIO", "1+", only=SOFT):
        assert tending.rpc("archive")["receipt"], "the run itself is complete"
    assert json.loads((sessions / SOFT).read_bytes())["pid"] == tending.pid
    (row,) = tending.rpc("lock.list")["locks"]
    assert (row["path"], row["state"]) == (SOFT, "stale")
    names.append(add_session(sessions, 2))
    tending.rpc("sync")
    assert isinstance(refused(lambda: tending.rpc("archive")), BusyError)
    tending.rpc("jobs.run", name="locks")
    assert not (sessions / SOFT).exists()
    assert tending.rpc("archive")["receipt"]
    assert (archived(sessions), live(sessions)) == (sorted(names), [])


def test_the_schedule_removes_a_soft_lock_that_could_not_be_removed(sessions: Path, daemon: MakeDaemon) -> None:
    tending = daemon(sessions, config=SWEPT, layout="session-files").start()
    add_session(sessions, 1)
    tending.rpc("sync")
    with Fault(tending.pid, "unlinkat", "error=EIO", "1+", only=SOFT):
        assert tending.rpc("archive")["receipt"]
    add_session(sessions, 2)
    tending.rpc("sync")
    until(lambda: archives(tending), "the next run is not blocked")
    assert live(sessions) == []


def add(tending: Daemon, content: str) -> str:
    return str(tending.rpc("memory.add", memory={"type": "learning", "content": content})["id"])


def test_a_lock_whose_removal_fails_once_is_removed(root: Path, daemon: MakeDaemon) -> None:
    tending = daemon(root, config=QUIET).start()
    with Fault(tending.pid, "unlinkat", "error=EIO", 1, only=".lock"):
        stored = add(tending, "a heron")
        until(lambda: not (root / ".lock").exists(), "the removal is tried again")
    assert checks.live_ids(root) == [stored]


def test_a_lock_whose_removal_fails_again_and_again_is_swept(root: Path, daemon: MakeDaemon) -> None:
    """An agent that goes by existence would otherwise wait until memoryd ends."""
    (root / "learnings.jsonl").write_text(line(memory()))
    tending = daemon(root, config=SWEPT).start()
    tending.rpc("sync")
    with Fault(tending.pid, "unlinkat", "error=EIO", "1+", only=".lock"):
        stored = add(tending, "a heron")
        tending.rpc("sync")  # comes after the release
    until(lambda: not (root / ".lock").exists(), "the sweep removes it")
    assert "could not release the lock" in tending.said()
    assert stored in checks.live_ids(root)
    entries = tending.rpc("history.list")["entries"]
    assert [each["by"] for each in entries if each["operation"] == "lock-clear"] == ["schedule"]
