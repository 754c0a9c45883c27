"""A lock whose existence is the lock: made exclusively, honoured when there, given back only while ours."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import memoryd
from memoryd.core.lock_staleness import State
from memoryd.disk.locks.inspect import LockRules, clear, inspect
from memoryd.disk.locks.soft import hold_soft
from memoryd.errors import BusyError

NAME = ".archive.lock"
ROOT = str(Path(memoryd.__file__).parents[1])


def test_it_names_this_process_while_held_and_is_removed_afterwards(folder: int, tmp_path: Path) -> None:
    with hold_soft(folder, NAME, wall=lambda: 0.0):
        record = json.loads((tmp_path / NAME).read_text())
        assert {key: record[key] for key in ("pid", "started_at")} == {
            "pid": os.getpid(),
            "started_at": "1970-01-01T00:00:00Z",
        }
        with pytest.raises(BusyError), hold_soft(folder, NAME):
            pass
    assert not (tmp_path / NAME).exists()


def test_another_program_s_lock_is_left_alone(folder: int, tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("theirs")
    with pytest.raises(BusyError, match="another program"), hold_soft(folder, NAME):
        pass
    assert (tmp_path / NAME).read_text() == "theirs"


def test_a_lock_that_was_replaced_is_not_ours_to_remove(folder: int, tmp_path: Path) -> None:
    with hold_soft(folder, NAME):
        (tmp_path / NAME).unlink()
        (tmp_path / NAME).write_text("theirs")
    assert (tmp_path / NAME).read_text() == "theirs"


def test_a_link_is_not_followed(folder: int, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("precious")
    (tmp_path / NAME).symlink_to("target")
    with pytest.raises(BusyError), hold_soft(folder, NAME):
        pass
    assert (tmp_path / "target").read_text() == "precious"


def test_it_is_never_there_without_its_record(folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed right before it appears, or by a power cut: nothing of the name is there."""
    seen: list[list[str]] = []

    def looking(fd: int) -> None:
        seen.append(sorted(os.listdir(tmp_path)))
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", looking)
    with pytest.raises(OSError, match="Input/output"), hold_soft(folder, NAME):
        pass
    assert [name for names in seen for name in names if name == NAME] == []
    assert os.listdir(tmp_path) == []


def test_one_that_could_not_be_removed_is_known_to_be_stale(
    folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names this living process; but this process knows that it is not inside."""
    real = os.unlink

    def refusing(path: str, *, dir_fd: int | None = None) -> None:
        if path == NAME:
            raise OSError(errno.EIO, "Input/output error")
        real(path, dir_fd=dir_fd)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", refusing)
        with hold_soft(folder, NAME):
            inside = inspect(folder, NAME, LockRules(time.time(), kind="soft"))
            assert inside is not None
            assert inside.state is State.HELD
    assert (tmp_path / NAME).exists()
    report = clear(folder, NAME, LockRules(time.time(), kind="soft"))
    assert report is not None
    assert (report.state, report.action) == (State.STALE, "removed")
    assert os.listdir(tmp_path) == []


def test_at_a_start_one_of_an_earlier_memoryd_goes_at_once(folder: int, tmp_path: Path) -> None:
    host = os.uname().nodename
    (tmp_path / NAME).write_text(json.dumps({"pid": 1, "started_at": "x", "host": host, "owner": "memoryd"}))
    young = clear(folder, NAME, LockRules(time.time(), kind="soft"))
    assert young is not None
    assert young.state is State.HELD
    report = clear(folder, NAME, LockRules(time.time(), kind="soft", own_locks_stale=True))
    assert report is not None
    assert report.action == "removed"
    (tmp_path / NAME).write_text(json.dumps({"pid": 1, "started_at": "x", "host": host}))
    other = clear(folder, NAME, LockRules(time.time(), kind="soft", own_locks_stale=True))
    assert other is not None
    assert other.action == "none"


LOOK = """
import os, sys, time
from memoryd.disk.locks.inspect import LockRules, clear
fd = os.open(sys.argv[1], os.O_RDONLY)
soft = clear(fd, ".archive.lock", LockRules(time.time() + 3600, kind="soft"))
young = clear(fd, ".lock", LockRules(time.time() + 60))
old = clear(fd, ".lock", LockRules(time.time() + 3600))
print(soft.state, soft.action, young.state, young.action, old.state, old.action)
"""


@pytest.mark.root_only
@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")
def test_from_inside_a_container_a_living_holder_of_the_host_keeps_its_lock(tmp_path: Path) -> None:
    """Its number means nothing there: the soft lock stays, a free `.lock` goes by age alone."""
    record = json.dumps({"pid": os.getpid(), "started_at": "2026-01-01T00:00:00Z"})
    for name in (NAME, ".lock"):
        (tmp_path / name).write_text(record)
    words = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", LOOK, str(tmp_path)]
    said = subprocess.run(words, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": ROOT})
    assert said.stdout.split() == ["unprovable", "none", "unprovable", "none", "stale", "removed"]
    assert (tmp_path / NAME).exists()
