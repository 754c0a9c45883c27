"""When the kernel's table of locks must be asked, and when nobody can be inside with a removed lock file."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from memoryd.disk import processes, syscalls
from memoryd.disk.locks.hold import DirectoryLock
from memoryd.disk.locks.trace import FOREIGN_S, RECHECK_S, Trace
from memoryd.errors import BusyError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify, leases and /proc/locks")

# The published order: unlock, then remove. A second one that waited is then inside with a file that has no name.
FIRST = """
import fcntl, os, sys
file = open('.lock', 'w'); fcntl.flock(file, fcntl.LOCK_EX)
print('ready', flush=True); sys.stdin.readline()
fcntl.flock(file, fcntl.LOCK_UN); file.close(); os.remove('.lock')
print('gone', flush=True); sys.stdin.readline()
"""
SECOND = """
import fcntl, sys
file = open('.lock', 'w'); print('ready', flush=True)
fcntl.flock(file, fcntl.LOCK_EX); print('inside', flush=True); sys.stdin.readline()
"""


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Table:
    """Counts how often the table of locks is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = 0
        self._real: Callable[[str], int | None] = processes.deleted_lock_holder
        monkeypatch.setattr(processes, "deleted_lock_holder", self._ask)

    def _ask(self, path: str) -> int | None:
        self.asked += 1
        return self._real(path)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def trace(folder: int, clock: Clock) -> Iterator[Trace]:
    made = Trace(clock)
    made.follow(folder, ".lock")
    assert made.followed
    yield made
    made.close()


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    return Table(monkeypatch)


def take(folder: int, trace: Trace) -> None:
    with DirectoryLock(folder, trace=trace).hold(5) as held:
        held.check()


def known(folder: int, trace: Trace, clock: Clock, table: Table) -> None:
    """Nobody has been there for long, and the table has said so."""
    clock.now += 2 * FOREIGN_S
    take(folder, trace)
    table.asked = 0


def test_the_lock_table_is_read_once_only(folder: int, trace: Trace, clock: Clock, table: Table) -> None:
    take(folder, trace)
    clock.now += 2 * RECHECK_S
    take(folder, trace)
    assert table.asked == 2, "whoever was there before may still be on his way"
    clock.now += 2 * FOREIGN_S
    table.asked = 0
    for _ in range(5):
        take(folder, trace)
    assert table.asked == 1


def test_the_lock_table_is_reread_for_earlier_changes(folder: int, trace: Trace, clock: Clock, table: Table) -> None:
    for _ in range(10):
        with DirectoryLock(folder, trace=trace).hold(1.0) as held:
            held.check()
    assert table.asked == 1
    clock.now += 2 * RECHECK_S
    with DirectoryLock(folder, trace=trace).hold(1.0) as held:
        held.check()
    assert table.asked == 2
    with open(f"/proc/self/fd/{folder}/.lock", "w"):
        pass
    os.unlink(f"/proc/self/fd/{folder}/.lock")
    with DirectoryLock(folder, trace=trace).hold(1.0) as held:
        held.check()
        held.check()
    assert table.asked > 3, "after a stranger each look counts"


def test_other_files_are_no_reason_to_ask(
    tmp_path: Path, folder: int, trace: Trace, clock: Clock, table: Table
) -> None:
    known(folder, trace, clock, table)
    (tmp_path / "learnings.jsonl.tmp").write_bytes(b"1")
    (tmp_path / "learnings.jsonl.tmp").rename(tmp_path / "learnings.jsonl")
    take(folder, trace)
    assert table.asked == 0


def made_and_removed(path: Path) -> None:
    path.write_bytes(b"1")
    path.unlink()


def moved_over(path: Path) -> None:
    (path.parent / "other").write_bytes(b"1")
    (path.parent / "other").rename(path)
    path.rename(path.parent / "away")


@pytest.mark.parametrize("act", [made_and_removed, moved_over])
def test_a_foreign_change_has_the_lock_table_read_for_a_while(
    act: Callable[[Path], None], tmp_path: Path, folder: int, trace: Trace, clock: Clock, table: Table
) -> None:
    known(folder, trace, clock, table)
    act(tmp_path / ".lock")
    for _ in range(2):
        table.asked = 0
        take(folder, trace)
        assert table.asked >= 2
    clock.now += FOREIGN_S / 2
    take(folder, trace)
    clock.now += FOREIGN_S
    table.asked = 0
    take(folder, trace)
    take(folder, trace)
    assert table.asked == 1


def test_a_foreign_change_during_our_lock_is_detected_by_the_guard(
    tmp_path: Path, folder: int, trace: Trace, clock: Clock, table: Table
) -> None:
    known(folder, trace, clock, table)
    with DirectoryLock(folder, trace=trace).hold(5) as held:
        held.check()
        assert table.asked == 0
        (tmp_path / ".lock").rename(tmp_path / "kept")
        (tmp_path / "kept").rename(tmp_path / ".lock")
        held.check()
        assert table.asked == 1


def descriptor_of(target: str) -> str:
    """The one open descriptor of this process that leads to `target`."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # that of the listing itself is gone
            if os.readlink(f"/proc/self/fd/{number}") == target:
                found.append(f"/proc/self/fd/{number}")
    [path] = found
    return path


def test_an_opener_of_our_removed_file_is_searched_for(folder: int, trace: Trace, clock: Clock, table: Table) -> None:
    """One that opened it in the moment it was removed: the kernel let him wait, and then in."""
    known(folder, trace, clock, table)
    take(folder, trace)
    assert table.asked == 0
    late = os.open(descriptor_of(f"{os.readlink(f'/proc/self/fd/{folder}')}/.lock (deleted)"), os.O_RDWR)
    fcntl.flock(late, fcntl.LOCK_EX | fcntl.LOCK_NB)  # we keep the file, but not its flock
    take(folder, trace)
    assert table.asked >= 2
    os.close(late)


def test_a_writer_inside_with_a_removed_file_is_found(
    tmp_path: Path, folder: int, trace: Trace, clock: Clock, table: Table
) -> None:
    known(folder, trace, clock, table)
    with _running(tmp_path, FIRST) as first, _running(tmp_path, SECOND) as second:
        _say(first, "gone")
        assert second.stdout is not None
        assert second.stdout.readline() == "inside\n"
        with pytest.raises(BusyError, match=str(second.pid)):
            DirectoryLock(folder, trace=trace).hold(0.1).__enter__()
    assert table.asked


class _running:  # noqa: N801 - reads like a function where it is used
    def __init__(self, place: Path, code: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", code],
            cwd=place,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> subprocess.Popen[str]:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        return self._process

    def __exit__(self, *unused: object) -> None:
        self._process.kill()
        self._process.communicate()


def _say(process: subprocess.Popen[str], answer: str) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == f"{answer}\n"


def test_without_inotify_the_lock_table_is_always_read(
    folder: int, table: Table, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setattr(syscalls, "libc", object())
    trace = Trace(clock)
    trace.follow(folder, ".lock")
    assert not trace.followed
    known(folder, trace, clock, table)
    take(folder, trace)
    assert table.asked >= 2


def test_lost_events_are_a_stranger(folder: int, trace: Trace, clock: Clock, table: Table) -> None:
    known(folder, trace, clock, table)
    overflow = struct.pack("iIII", -1, 0x4000, 0, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "read", lambda fd, size: overflow)
        assert not trace.is_clear()
    assert trace.followed


def test_a_folder_that_goes_away_is_followed_no_more(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "root").mkdir()
    fd = os.open(tmp_path / "root", os.O_RDONLY | os.O_DIRECTORY)
    trace = Trace(clock)
    trace.follow(fd, ".lock")
    (tmp_path / "root").rmdir()
    os.close(fd)
    deadline = time.monotonic() + 10
    while trace.followed and time.monotonic() < deadline:
        assert not trace.is_clear()
    assert not trace.followed


def test_nothing_stays_open(folder: int, clock: Clock) -> None:
    before = len(os.listdir("/proc/self/fd"))
    trace = Trace(clock)
    for _ in range(3):
        trace.follow(folder, ".lock")
        take(folder, trace)
        take(folder, trace)
    trace.close()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_at_rest_no_removed_file_is_held(folder: int, tmp_path: Path) -> None:
    """Else the disk could not be mounted read-only."""
    trace = Trace()
    trace.follow(folder, ".lock")
    with DirectoryLock(folder, trace=trace).hold(1):
        pass
    trace.close_removed()
    links = (os.path.join("/proc/self/fd", fd) for fd in os.listdir("/proc/self/fd"))
    held = [os.readlink(link) for link in links if os.path.islink(link)]
    assert not [each for each in held if each.startswith(f"{tmp_path}/.lock")]
    trace.close()
