"""Taking, judging and clearing lock files: real flocks, real processes, real races."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from memoryd.core.lock_owner import encode_owner, parse_owner
from memoryd.core.lock_staleness import Kind, State
from memoryd.disk import processes, syscalls
from memoryd.disk.locks import file as lockfile
from memoryd.disk.locks import hold as locking
from memoryd.disk.locks import queue as lockqueue
from memoryd.disk.locks.file import IrregularLockError
from memoryd.disk.locks.hold import DirectoryLock, LockLostError
from memoryd.disk.locks.inspect import LockRules, clear, inspect
from memoryd.disk.temps import still_holds
from memoryd.errors import BusyError, DeniedError, RootMissingError, ShuttingDownError
from memoryd.operations.locks import lock_row

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel through /proc and leases")

Spawn = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[Spawn]:
    """Run a piece of Python in the directory; `wait_for` lines come on its stdout."""
    started: list[subprocess.Popen[str]] = []

    def start(code: str, *arguments: object, ready: bool = False) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", code, *map(str, arguments)],
            cwd=tmp_path,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        started.append(process)
        if ready:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


SLEEPER = "print('ready', flush=True); input()"
HOLDER = """
import fcntl, os, sys, time
file = open('.lock', 'w')
fcntl.flock(file, fcntl.LOCK_EX)
file.write(f'{os.getpid()} {time.time()}')
file.flush()
print('ready', flush=True)
input()
"""
WAITER = """
import fcntl, os
file = open('.lock', 'w')
print('ready', flush=True)
fcntl.flock(file, fcntl.LOCK_EX)
print(os.fstat(file.fileno()).st_ino, os.stat('.lock').st_ino, os.stat('.lock').st_size, flush=True)
input()
"""


def dead_pid(spawn: Spawn) -> int:
    process = spawn("pass")
    process.communicate()
    return process.pid


def put(path: Path, content: str | bytes, age: float = 31.0, now: float | None = None) -> bytes:
    """A lock file whose own time lies `age` seconds back."""
    content = content.encode() if isinstance(content, str) else content
    path.write_bytes(content)
    at = (time.time() if now is None else now) - age
    os.utime(path, (at, at))
    return content


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "never came true"
        time.sleep(0.002)


# ---- taking and releasing -------------------------------------------------------------------------


def test_the_lock_is_made_with_our_record_and_taken_away(tmp_path: Path, folder: int) -> None:
    with DirectoryLock(folder).hold(1) as held:
        found = (tmp_path / ".lock").read_bytes()
        assert (tmp_path / ".lock").stat().st_mode & 0o777 == 0o600
        assert held.created
        held.check()
    owner = parse_owner(found)
    assert (owner.pid, owner.host) == (os.getpid(), os.uname().nodename)
    assert owner.stamp == pytest.approx(time.time(), abs=60)
    assert os.listdir(tmp_path) == []


def test_it_goes_away_after_an_error_too(tmp_path: Path, folder: int) -> None:
    with pytest.raises(RuntimeError, match="boom"), DirectoryLock(folder).hold(1):
        raise RuntimeError("boom")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("sort", ["empty", "dead", "other-host", "rubbish", "our-own-number"])
def test_a_left_over_file_does_not_block_and_stays_as_it_was(
    tmp_path: Path, folder: int, spawn: Spawn, sort: str
) -> None:
    living = spawn(SLEEPER, ready=True)
    content = {
        "empty": "",
        "dead": f"{dead_pid(spawn)} {time.time()}",
        "other-host": f'{{"pid":{living.pid},"host":"elsewhere.example"}}',
        "rubbish": "x" * 5000,
        "our-own-number": f"{os.getpid()}",
    }[sort]
    before = put(tmp_path / ".lock", content, age=0)
    stat = (tmp_path / ".lock").stat()
    with DirectoryLock(folder).hold(0) as held:
        assert not held.created
        held.check()
        assert (tmp_path / ".lock").read_bytes() == before
    after = (tmp_path / ".lock").stat()
    assert (tmp_path / ".lock").read_bytes() == before
    assert (after.st_ino, after.st_mtime_ns) == (stat.st_ino, stat.st_mtime_ns)


def test_a_killed_holder_is_no_obstacle(tmp_path: Path, folder: int, spawn: Spawn) -> None:
    holder = spawn(HOLDER, ready=True)
    with pytest.raises(BusyError), DirectoryLock(folder).hold(0):
        pass
    holder.kill()
    os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)  # a zombie now: nobody has reaped it
    with DirectoryLock(folder).hold(0):
        pass
    assert (tmp_path / ".lock").exists()


def test_busy_names_the_one_holder(folder: int, spawn: Spawn) -> None:
    holder = spawn(HOLDER, ready=True)
    with pytest.raises(BusyError) as caught, DirectoryLock(folder).hold(0.1):
        pass
    data = caught.value.data
    assert str(holder.pid) in caught.value.message
    assert (data["path"], data["pid"], data["starved"]) == (".lock", holder.pid, False)
    assert 0 <= data["age_s"] < 60


@linux_only
def test_busy_names_the_holder_of_an_emptied_file(tmp_path: Path, folder: int, spawn: Spawn) -> None:
    holder = spawn(HOLDER, ready=True)
    os.truncate(tmp_path / ".lock", 0)  # as every published-order waiter does on opening
    with pytest.raises(BusyError) as caught, DirectoryLock(folder).hold(0):
        pass
    assert caught.value.data["pid"] == holder.pid


GREEDY = """
import fcntl, time
file = open('.lock', 'a')
fcntl.flock(file, fcntl.LOCK_EX)
print('ready', flush=True)
while True:
    time.sleep(0.005)
    fcntl.flock(file, fcntl.LOCK_UN)
    fcntl.flock(file, fcntl.LOCK_EX)
"""


def test_beside_a_writer_that_takes_it_again_at_once_our_turn_comes(folder: int, spawn: Spawn) -> None:
    """Looking from time to time never falls into the microsecond in which the flock is free."""
    spawn(GREEDY, ready=True)
    for _ in range(5):
        with DirectoryLock(folder).hold(10) as held:
            assert not held.created


def flock_threads() -> int:
    return sum(thread.name == "memoryd-flock" for thread in threading.enumerate())


def test_waits_that_were_given_up_cost_no_more_than_a_few_threads(folder: int, spawn: Spawn) -> None:
    wait_until(lambda: flock_threads() == 0)  # of the tests before this one
    before = len(os.listdir("/proc/self/fd"))
    holder = spawn(HOLDER, ready=True)
    clock = iter(range(0, 10_000, 5))
    for _ in range(lockqueue.MAX_WAITING + 3):
        with pytest.raises(BusyError, match=str(holder.pid)):
            DirectoryLock(folder, monotonic=lambda: next(clock) / 1.0, sleep=lambda _: None).hold(12)
    assert flock_threads() == lockqueue.MAX_WAITING
    holder.communicate("\n")
    wait_until(lambda: flock_threads() == 0)
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before)
    with DirectoryLock(folder).hold(1):
        assert flock_threads() == 0


def test_a_wait_that_was_given_up_leaves_no_lock_file_behind(folder: int) -> None:
    with DirectoryLock(folder).hold(1), pytest.raises(BusyError):
        DirectoryLock(folder).hold(0.05)
    wait_until(lambda: ".lock" not in os.listdir(folder))


def test_a_lock_file_that_was_empty_before_the_wait_stays(folder: int) -> None:
    fd = os.open(".lock", os.O_CREAT | os.O_RDWR, dir_fd=folder)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with pytest.raises(BusyError):
        DirectoryLock(folder).hold(0.05)
    os.close(fd)
    wait_until(lambda: flock_threads() == 0)
    assert ".lock" in os.listdir(folder)


def test_the_end_of_memoryd_ends_a_wait_in_the_queue(folder: int, spawn: Spawn) -> None:
    holder = spawn(HOLDER, ready=True)
    sleeps: list[float] = []

    def sleep(seconds: float) -> None:
        sleeps.append(seconds)
        if len(sleeps) == 3:
            raise ShuttingDownError("ending")

    with pytest.raises(ShuttingDownError):
        DirectoryLock(folder, sleep=sleep).hold(60)
    holder.communicate("\n")
    wait_until(lambda: flock_threads() == 0)
    with DirectoryLock(folder).hold(0):
        pass


def test_changing_holders_are_distinguished_from_a_single_one(tmp_path: Path, folder: int) -> None:
    """Another process replaces the lock file before each check."""
    others: list[int] = []

    def next_writer(_: float) -> None:
        path = tmp_path / ".lock"
        path.unlink(missing_ok=True)
        others.append(os.open(path, os.O_RDWR | os.O_CREAT))
        fcntl.flock(others[-1], fcntl.LOCK_EX)

    next_writer(0)
    clock = iter(range(1000))
    lock = DirectoryLock(folder, monotonic=lambda: float(next(clock)), sleep=next_writer)
    with pytest.raises(BusyError, match="changes hands") as caught, lock.hold(30):
        pass
    assert caught.value.data["starved"] is True
    for fd in others:
        os.close(fd)


def test_a_living_process_named_in_a_free_file_is_waited_for(tmp_path: Path, folder: int, spawn: Spawn) -> None:
    other = spawn(SLEEPER, ready=True)
    content = put(tmp_path / ".lock", f'{{"pid":{other.pid}}}', age=-2)
    with pytest.raises(BusyError, match=str(other.pid)), DirectoryLock(folder).hold(0.05):
        pass
    assert (tmp_path / ".lock").read_bytes() == content
    with DirectoryLock(folder, honour_soft=False).hold(0):
        pass
    assert (tmp_path / ".lock").read_bytes() == content


def test_the_wait_ends_when_that_process_takes_its_file_away(tmp_path: Path, folder: int, spawn: Spawn) -> None:
    other = spawn(SLEEPER, ready=True)
    put(tmp_path / ".lock", f"{other.pid}", age=-2)
    lock = DirectoryLock(folder, sleep=lambda _: (tmp_path / ".lock").unlink(missing_ok=True))
    with pytest.raises(BusyError), lock.hold(0):
        pass
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            (tmp_path / ".lock").unlink()

    put(tmp_path / ".lock", f"{other.pid}", age=-2)
    with DirectoryLock(folder, sleep=sleep).hold(60) as held:
        assert held.created
    assert len(waits) >= 4  # three waits, and the settling


def test_a_process_younger_than_the_lock_is_not_its_holder(tmp_path: Path, folder: int, spawn: Spawn) -> None:
    other = spawn(SLEEPER, ready=True)
    put(tmp_path / ".lock", f"{other.pid}", age=100)
    with DirectoryLock(folder).hold(0) as held:
        assert not held.created


def test_a_claim_written_while_we_settle_counts(tmp_path: Path, folder: int, spawn: Spawn) -> None:
    """Programs that make the file first and write their number a moment later."""
    other = spawn(SLEEPER, ready=True)
    put(tmp_path / ".lock", "", age=0)

    def claim(_: float) -> None:
        put(tmp_path / ".lock", f"{other.pid}", age=-2)

    with pytest.raises(BusyError, match=str(other.pid)), DirectoryLock(folder, sleep=claim).hold(0):
        pass


def test_losing_the_name_shows_at_the_guard(tmp_path: Path, folder: int) -> None:
    with DirectoryLock(folder).hold(1) as held:
        (tmp_path / ".lock").unlink()
        with pytest.raises(LockLostError):
            held.check()
        (tmp_path / ".lock").write_text("somebody else's")
        with pytest.raises(LockLostError):
            held.check()
    assert (tmp_path / ".lock").read_text() == "somebody else's"


def test_a_name_lost_while_settling_is_taken_again(tmp_path: Path, folder: int) -> None:
    sleeps: list[float] = []

    def sleep(seconds: float) -> None:
        sleeps.append(seconds)
        if len(sleeps) == 1:
            (tmp_path / ".lock").unlink()

    with DirectoryLock(folder, sleep=sleep).hold(60) as held:
        held.check()
    assert sleeps.count(locking.SETTLE_S) == 2


@linux_only
def test_a_writer_inside_with_a_removed_file_is_seen(tmp_path: Path, folder: int, spawn: Spawn) -> None:
    with DirectoryLock(folder).hold(1) as held:
        held.check()
        (tmp_path / ".lock").rename(tmp_path / "ours")
        inside = spawn(HOLDER, ready=True)
        (tmp_path / ".lock").unlink()
        (tmp_path / "ours").rename(tmp_path / ".lock")
        with pytest.raises(LockLostError, match=str(inside.pid)):
            held.check()
    with pytest.raises(BusyError, match=str(inside.pid)), DirectoryLock(folder).hold(0):
        pass
    assert os.listdir(tmp_path) == []
    inside.communicate("\n")
    with DirectoryLock(folder).hold(0) as held:
        held.check()


@linux_only
def test_release_leaves_the_file_to_a_waiter(tmp_path: Path, folder: int, spawn: Spawn) -> None:
    with DirectoryLock(folder).hold(1):
        waiter = spawn(WAITER, ready=True)
        wait_until(lambda: any(row.waiting and row.pid == waiter.pid for row in processes.flocks()))
    assert waiter.stdout is not None
    has, named, size = waiter.stdout.readline().split()
    assert has == named
    assert size == "0"


@pytest.mark.parametrize("refusals", [1, 2, 99])
def test_a_failed_removal_is_retried(
    tmp_path: Path, folder: int, refusals: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work under the lock is complete; a file that stays is known to be stale."""
    real, asked = os.unlink, []

    def refusing(path: str, *, dir_fd: int | None = None) -> None:
        asked.append(path)
        if len(asked) <= refusals:
            raise OSError(errno.EIO, "Input/output error")
        real(path, dir_fd=dir_fd)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", refusing)
        with DirectoryLock(folder).hold(1):
            pass
    assert (tmp_path / ".lock").exists() == (refusals == 99)
    if refusals == 99:
        report = clear(folder, ".lock", LockRules(time.time()))
        assert report is not None
        assert report.action == "removed"


def test_release_keeps_a_record_that_is_not_ours(tmp_path: Path, folder: int) -> None:
    with DirectoryLock(folder).hold(1):
        (tmp_path / ".lock").write_text("2")
    assert (tmp_path / ".lock").read_text() == "2"


def test_a_file_made_in_vain_is_not_left_behind(tmp_path: Path, folder: int) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), DirectoryLock(folder, sleep=interrupted).hold(5):
        pass
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("leases", [True, False])
def test_threads_exclude_each_other(folder: int, tmp_path: Path, leases: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not leases:
        monkeypatch.setattr(syscalls, "take_lease", lambda fd: None)
    inside = 0
    most = 0

    def work(_: int) -> None:
        nonlocal inside, most
        with DirectoryLock(folder).hold(60) as held:
            inside += 1
            most = max(most, inside)
            held.check()
            inside -= 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(24)))
    assert most == 1


def test_without_leases_and_proc_the_file_is_emptied_and_stays(
    tmp_path: Path, folder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syscalls, "take_lease", lambda fd: None)
    monkeypatch.setattr(processes, "HAS_PROC", False)
    with DirectoryLock(folder).hold(1):
        assert (tmp_path / ".lock").stat().st_size > 0
    assert (tmp_path / ".lock").stat().st_size == 0


def test_no_descriptor_stays_open(folder: int, tmp_path: Path, spawn: Spawn) -> None:
    def count() -> int:
        return processes.resources().open_fds

    holder = spawn(HOLDER, ready=True)
    before = count()
    with pytest.raises(BusyError), DirectoryLock(folder).hold(0):
        pass
    inspect(folder, ".lock", LockRules(time.time()))
    clear(folder, ".lock", LockRules(time.time()))
    assert count() == before
    holder.kill()


# ---- what is no lock file -------------------------------------------------------------------------


def make_symlink(path: Path) -> None:
    (path.parent / "memories.jsonl").write_text("precious")
    path.symlink_to("memories.jsonl")


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        fd = os.open(path.parent, os.O_RDONLY)
        sock.bind(f"/proc/self/fd/{fd}/{path.name}" if sys.platform == "linux" else str(path))
        os.close(fd)


IRREGULAR: dict[str, Callable[[Path], Any]] = {
    "a symbolic link": make_symlink,
    "a pipe": os.mkfifo,
    "a directory": os.mkdir,
    "a socket": make_socket,
}


@pytest.mark.parametrize("sort", IRREGULAR)
@pytest.mark.parametrize("force", [False, True])
def test_only_a_regular_file_is_opened(tmp_path: Path, folder: int, sort: str, force: bool) -> None:
    IRREGULAR[sort](tmp_path / ".lock")
    before = os.lstat(tmp_path / ".lock")
    with pytest.raises(IrregularLockError, match=sort), DirectoryLock(folder).hold(0):
        pass
    for report in (
        inspect(folder, ".lock", LockRules(time.time() + 500)),
        clear(folder, ".lock", LockRules(time.time() + 500, kind="soft"), force=force),
    ):
        assert report is not None
        assert (report.state, report.action) == (State.UNPROVABLE, "none")
        assert sort in report.evidence
    assert os.lstat(tmp_path / ".lock") == before
    if sort == "a symbolic link":
        assert (tmp_path / "memories.jsonl").read_text() == "precious"


def test_a_link_created_after_the_check_is_not_followed(
    tmp_path: Path, folder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "regular").touch()
    make_symlink(tmp_path / ".lock")
    regular = os.stat(tmp_path / "regular")
    monkeypatch.setattr("memoryd.disk.locks.file.os.stat", lambda *_, **__: regular)
    with pytest.raises(IrregularLockError, match="symbolic link"):
        lockfile.open_existing(folder, ".lock", os.O_RDWR)


def test_a_missing_folder_is_no_lock_that_is_held(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    fd = os.open(tmp_path / "root", os.O_RDONLY)
    (tmp_path / "root").rmdir()
    with pytest.raises(RootMissingError), DirectoryLock(fd).hold(5):
        pass
    os.close(fd)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_a_folder_we_may_not_write_in_is_said_so(folder: int, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("memoryd.disk.locks.file.os.open", refuse)
    with pytest.raises(DeniedError, match="cannot open"), DirectoryLock(folder).hold(0):
        pass


def test_a_full_disk_keeps_its_own_error(folder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("memoryd.disk.locks.file.os.open", full)
    with pytest.raises(OSError, match="No space"), DirectoryLock(folder).hold(0):
        pass


def test_a_file_system_without_flock_is_no_reason_to_go_on(
    folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("memoryd.disk.locks.file.fcntl.flock", none)
    with pytest.raises(DeniedError, match="no flock"), DirectoryLock(folder).hold(0):
        pass


# ---- judging and clearing -------------------------------------------------------------------------


def swept(folder: int, tmp_path: Path, name: str = ".lock", **options: Any) -> tuple[State, bool]:
    """The verdict of looking, checked to touch nothing, and whether clearing removed the file."""
    path = tmp_path / name
    before, stat = path.read_bytes(), path.stat()
    looked = inspect(folder, name, LockRules(time.time(), **options))
    assert looked is not None
    assert path.read_bytes() == before
    assert path.stat().st_mtime_ns == stat.st_mtime_ns
    done = clear(folder, name, LockRules(time.time(), **options))
    assert done is not None
    assert done.state == looked.state
    gone = not path.exists()
    assert gone == (done.action == "removed")
    if not gone and done.action == "none":
        assert path.read_bytes() == before
        assert path.stat().st_mtime_ns == stat.st_mtime_ns
    return done.state, gone


def test_dead_and_older_than_the_grace_time_goes(tmp_path: Path, folder: int, spawn: Spawn) -> None:
    put(tmp_path / ".lock", f"{dead_pid(spawn)} {time.time() - 31}")
    assert swept(folder, tmp_path) == (State.STALE, True)


def test_dead_and_younger_stays(tmp_path: Path, folder: int, spawn: Spawn) -> None:
    put(tmp_path / ".lock", f"{dead_pid(spawn)}", age=29)
    assert swept(folder, tmp_path) == (State.HELD, False)


def test_a_young_stamp_counts_more_than_an_old_file(tmp_path: Path, folder: int, spawn: Spawn) -> None:
    put(tmp_path / ".lock", f"{dead_pid(spawn)} {time.time() - 10}", age=500)
    assert swept(folder, tmp_path) == (State.HELD, False)


def test_a_dead_owner_whose_flock_is_held_stays(tmp_path: Path, folder: int, spawn: Spawn) -> None:
    holder = spawn(HOLDER, ready=True)
    put(tmp_path / ".lock", f"{dead_pid(spawn)}")
    assert swept(folder, tmp_path) == (State.HELD, False)
    report = inspect(folder, ".lock", LockRules(time.time()))
    assert report is not None
    assert report.pid == holder.pid if sys.platform == "linux" else report.pid is not None
    forced = clear(folder, ".lock", LockRules(time.time(), kind="soft"), force=True)
    assert forced is not None
    assert forced.action == "none"


def test_alive_stays(tmp_path: Path, folder: int, spawn: Spawn) -> None:
    """The process began before the lock: judged from a later time, so that nobody has to wait."""
    other = spawn(SLEEPER, ready=True)
    put(tmp_path / ".lock", f"{other.pid}", age=0)
    report = clear(folder, ".lock", LockRules(time.time() + 31))
    assert report is not None
    assert (report.state, report.action, report.pid) == (State.HELD, "none", other.pid)


def test_a_reused_number_is_dead(tmp_path: Path, folder: int, spawn: Spawn) -> None:
    other = spawn(SLEEPER, ready=True)
    put(tmp_path / ".lock", f"{other.pid}", age=31)
    report = inspect(folder, ".lock", LockRules(time.time()))
    assert report is not None
    assert "reused" in report.evidence
    assert swept(folder, tmp_path) == (State.STALE, True)


def test_a_zombie_is_dead(tmp_path: Path, folder: int, spawn: Spawn) -> None:
    zombie = spawn("pass")
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    put(tmp_path / ".lock", f"{zombie.pid}", age=0)
    report = clear(folder, ".lock", LockRules(time.time() + 31))
    assert report is not None
    assert (report.state, report.action) == (State.STALE, "removed")


def test_a_process_we_may_not_signal_lives(
    tmp_path: Path, folder: int, spawn: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = spawn(SLEEPER, ready=True)
    put(tmp_path / ".lock", f"{other.pid}", age=0)

    def refuse(_pid: int, _signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr("memoryd.disk.processes.os.kill", refuse)
    report = clear(folder, ".lock", LockRules(time.time() + 31))
    monkeypatch.undo()
    assert report is not None
    assert (report.state, report.action) == (State.HELD, "none")


@pytest.mark.parametrize(("age", "state", "gone"), [(31, State.UNPROVABLE, False), (400, State.STALE, True)])
@pytest.mark.parametrize("sort", ["empty", "rubbish", "other host"])
def test_nobody_to_prove_dead(
    tmp_path: Path, folder: int, spawn: Spawn, sort: str, age: float, state: State, gone: bool
) -> None:
    other = f'{{"pid":{dead_pid(spawn)},"host":"elsewhere.example"}}'
    put(tmp_path / ".lock", {"empty": "", "rubbish": "\0\0", "other host": other}[sort], age=age)
    put(tmp_path / ".archive.lock", {"empty": "", "rubbish": "\0\0", "other host": other}[sort], age=age)
    assert swept(folder, tmp_path) == (state, gone)
    assert swept(folder, tmp_path, ".archive.lock", kind="soft") == (State.UNPROVABLE, False)


def test_our_own_host_by_name_is_the_same_host(tmp_path: Path, folder: int, spawn: Spawn) -> None:
    put(tmp_path / ".lock", encode_owner(dead_pid(spawn), time.time() - 40, os.uname().nodename), age=40)
    assert swept(folder, tmp_path) == (State.STALE, True)


def test_a_network_file_system_is_never_swept(tmp_path: Path, folder: int, spawn: Spawn) -> None:
    put(tmp_path / ".lock", f"{dead_pid(spawn)}", age=4000)
    assert swept(folder, tmp_path, network_fs=True) == (State.UNPROVABLE, False)


def test_the_watch_of_the_caller_counts(tmp_path: Path, folder: int) -> None:
    put(tmp_path / ".lock", "", age=4000)
    assert swept(folder, tmp_path, watched_s=3.0) == (State.UNPROVABLE, False)
    assert swept(folder, tmp_path, watched_s=31.0) == (State.STALE, True)


def test_the_identity_changes_when_somebody_touches_the_file(tmp_path: Path, folder: int) -> None:
    put(tmp_path / ".lock", "")
    first, again = (inspect(folder, ".lock", LockRules(time.time())) for _ in range(2))
    put(tmp_path / ".lock", "", age=5)
    touched = inspect(folder, ".lock", LockRules(time.time()))
    assert first is not None
    assert again is not None
    assert touched is not None
    assert first.identity == again.identity != touched.identity


@linux_only
def test_a_dead_soft_lock_goes_unless_somebody_has_it_open(tmp_path: Path, folder: int, spawn: Spawn) -> None:
    put(tmp_path / ".archive.lock", f'{{"pid":{dead_pid(spawn)},"started_at":"2025-10-09T08:53:20Z"}}')
    reader = spawn("f = open('.archive.lock'); print('ready', flush=True); input()", ready=True)
    assert swept(folder, tmp_path, ".archive.lock", kind="soft") == (State.HELD, False)
    reader.communicate("\n")
    assert swept(folder, tmp_path, ".archive.lock", kind="soft") == (State.STALE, True)


def test_where_the_system_does_not_tell_who_has_it_open_a_soft_lock_stays(
    tmp_path: Path, folder: int, spawn: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "HAS_PROC", False)
    put(tmp_path / ".archive.lock", f"{dead_pid(spawn)}")
    assert swept(folder, tmp_path, ".archive.lock", kind="soft") == (State.UNPROVABLE, False)


def test_force_removes_an_unprovable_soft_lock_and_says_so(tmp_path: Path, folder: int) -> None:
    put(tmp_path / ".archive.lock", "rubbish", age=4000)
    report = clear(folder, ".archive.lock", LockRules(time.time(), kind="soft"), force=True)
    assert report is not None
    assert (report.state, report.action) == (State.UNPROVABLE, "removed")
    assert report.evidence.endswith("removed by force")
    assert not (tmp_path / ".archive.lock").exists()


def test_force_does_nothing_for_a_flock_lock(tmp_path: Path, folder: int) -> None:
    put(tmp_path / ".lock", "rubbish", age=100)
    report = clear(folder, ".lock", LockRules(time.time()), force=True)
    assert report is not None
    assert (report.state, report.action) == (State.UNPROVABLE, "none")


@linux_only
def test_a_stale_lock_that_a_waiter_has_open_is_emptied_and_left_to_it(
    tmp_path: Path, folder: int, spawn: Spawn
) -> None:
    put(tmp_path / ".lock", f"{dead_pid(spawn)}")
    spawn("f = open('.lock', 'a'); print('ready', flush=True); input()", ready=True)
    inode = (tmp_path / ".lock").stat().st_ino
    report = clear(folder, ".lock", LockRules(time.time()), sleep=lambda _: None)
    assert report is not None
    assert (report.state, report.action) == (State.STALE, "emptied")
    assert ((tmp_path / ".lock").stat().st_ino, (tmp_path / ".lock").stat().st_size) == (inode, 0)
    mtime = (tmp_path / ".lock").stat().st_mtime_ns
    again = clear(folder, ".lock", LockRules(time.time() + 400), sleep=lambda _: None)
    assert again is not None
    assert again.action == "left"
    assert (tmp_path / ".lock").stat().st_mtime_ns == mtime


@pytest.mark.parametrize("kind", [".lock", "soft"])
def test_a_lock_that_is_renamed_over_a_stale_one_stays(
    tmp_path: Path, folder: int, spawn: Spawn, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the last look at the name and its removal."""
    put(tmp_path / ".lock", f"{dead_pid(spawn)}")
    put(tmp_path / "theirs", f"{os.getppid()}", age=0)
    inode, real, looks = (tmp_path / "theirs").stat().st_ino, still_holds, []

    def late(dir_fd: int, name: str, fd: int) -> bool:
        found = real(dir_fd, name, fd)
        looks.append(name)
        if len(looks) == 2:  # the first one is that of the sweep that decides to clear it
            os.rename(tmp_path / "theirs", tmp_path / ".lock")
        return found

    monkeypatch.setattr("memoryd.disk.locks.file.still_holds", late)
    monkeypatch.setattr("memoryd.disk.locks.inspect.still_holds", late)
    report = clear(folder, ".lock", LockRules(time.time(), kind=kind), sleep=lambda _: None)
    assert len(looks) > 2
    assert report is not None
    assert report.action == "left"
    assert os.listdir(tmp_path) == [".lock"]
    assert (tmp_path / ".lock").stat().st_ino == inode
    assert (tmp_path / ".lock").read_text() == f"{os.getppid()}"


def test_no_lock_is_no_report(folder: int) -> None:
    assert inspect(folder, ".lock", LockRules(0)) is None
    assert clear(folder, ".lock", LockRules(0)) is None


def test_looking_does_not_keep_the_flock(tmp_path: Path, folder: int) -> None:
    put(tmp_path / ".lock", "4711")
    report = inspect(folder, ".lock", LockRules(time.time()))
    assert report is not None
    assert report.pid == 4711
    fd = os.open(tmp_path / ".lock", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(fd)


def test_what_may_not_be_opened_is_unprovable(tmp_path: Path, folder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / ".lock", "4711", age=400)

    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(lockfile, "open_existing", refuse)
    report = clear(folder, ".lock", LockRules(time.time()))
    assert report is not None
    assert (report.state, report.pid) == (State.UNPROVABLE, None)
    assert "Permission denied" in report.evidence
    assert report.age_s == pytest.approx(400, abs=60)


@linux_only
def test_a_file_that_another_sweeper_is_putting_away_is_left_alone(tmp_path: Path, folder: int) -> None:
    put(tmp_path / ".lock", "", age=400)
    sweeper = os.open(tmp_path / ".lock", os.O_RDWR)
    fcntl.fcntl(sweeper, fcntl.F_SETSIG, signal.SIGURG)
    fcntl.fcntl(sweeper, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    try:
        report = clear(folder, ".lock", LockRules(time.time()))
        assert report is not None
        assert (report.state, report.action) == (State.HELD, "none")
        with pytest.raises(BusyError), DirectoryLock(folder).hold(0):
            pass
    finally:
        os.close(sweeper)


@linux_only
def test_an_opener_during_the_lease_does_not_kill_us(tmp_path: Path) -> None:
    """The kernel signals the holder of a lease; the signal it uses by default ends a process."""
    code = (
        "import os, sys; from memoryd.disk import syscalls\n"
        "fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n"
        "assert syscalls.take_lease(fd)\n"
        "try: os.open(sys.argv[1], os.O_RDONLY | os.O_NONBLOCK)\n"
        "except BlockingIOError: print('survived')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / ".lock")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "survived\n"), done.stderr


def test_the_flock_is_given_back_before_the_rest_is_found_out(
    tmp_path: Path, folder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / ".lock", "2")

    def asked(_pid: int) -> tuple[str, None]:
        with open(tmp_path / ".lock") as other:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return "dead", None

    monkeypatch.setattr(processes, "liveness", asked)
    assert inspect(folder, ".lock", LockRules(time.time())) is not None


def test_a_new_lock_under_the_name_is_not_removed_for_the_old_one(
    tmp_path: Path, folder: int, spawn: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old file is judged stale, and a new holder takes the name before it is removed."""
    put(tmp_path / ".lock", f"{dead_pid(spawn)}")
    really = lockfile.try_flock

    def then_a_new_holder_comes(fd: int) -> bool:
        taken = really(fd)
        (tmp_path / ".lock").unlink()
        (tmp_path / ".lock").write_text("new")
        return taken

    monkeypatch.setattr(lockfile, "try_flock", then_a_new_holder_comes)
    assert clear(folder, ".lock", LockRules(time.time())) is None
    assert (tmp_path / ".lock").read_text() == "new"


def test_of_two_sweepers_one_wins(tmp_path: Path, folder: int, spawn: Spawn) -> None:
    dead = dead_pid(spawn)
    together = threading.Barrier(2)

    def sweep(_: int) -> str:
        together.wait(20)
        report = clear(folder, ".lock", LockRules(time.time()))
        return "gone" if report is None else report.action

    with ThreadPoolExecutor(2) as pool:
        for _ in range(25):
            put(tmp_path / ".lock", f"{dead}")
            done = list(pool.map(sweep, range(2)))
            assert done.count("removed") == 1, done
            assert not (tmp_path / ".lock").exists()


def test_a_report_is_what_the_protocol_shows(tmp_path: Path, folder: int) -> None:
    put(tmp_path / ".lock", "", age=31)
    report = inspect(folder, ".lock", LockRules(time.time()))
    assert report is not None
    shown = to_builtins(lock_row(report))
    assert set(shown) == {"path", "age_s", "state", "evidence"}
    assert shown["state"] == "unprovable"


# ---- among writers that release in the published order --------------------------------------------

WRITER = """
import fcntl, os, random, sys, time
number, seconds, work = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
sections = open(f'sections.{number}', 'w')
print('ready', flush=True)
input()
end = time.monotonic() + seconds
while time.monotonic() < end:
    fd = open('.lock', 'w')
    fcntl.flock(fd, fcntl.LOCK_EX)
    began = time.monotonic_ns()
    fd.write(f'{os.getpid()} {time.time()}')
    fd.flush()
    time.sleep(random.uniform(0.5, 1.5) * work)
    ended = time.monotonic_ns()
    fcntl.flock(fd, fcntl.LOCK_UN)
    fd.close()
    try:
        os.remove('.lock')
    except FileNotFoundError:
        pass
    sections.write(f'{began} {ended}\\n')
    time.sleep(random.uniform(0.005, 0.020))
sections.close()
"""


def among_writers(
    spawn: Spawn, tmp_path: Path, count: int, work: float, commit: Callable[[], tuple[int, int]]
) -> tuple[int, int, int]:
    """Commits among `count` writers for 3 s: (our commits, those inside a writer's section, the sections)."""
    seconds = 3.0
    writers = [spawn(WRITER, number, seconds, work, ready=True) for number in range(count)]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    commits: list[tuple[int, int]] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(BusyError):  # lost or starved: that is reported, not forced
            commits.append(commit())
        time.sleep(random.uniform(0.002, 0.010))
    for writer in writers:
        writer.communicate()
    lines = [line for n in range(count) for line in (tmp_path / f"sections.{n}").read_text().splitlines()]
    sections = [tuple(map(int, line.split())) for line in lines]
    overlaps = sum(
        any(began <= committed and checked <= ended for began, ended in sections) for checked, committed in commits
    )
    return len(commits), overlaps, len(sections)


def replace_target(tmp_path: Path) -> int:
    """Rename over the target, as a commit does at its end."""
    os.replace(tmp_path / "ours.tmp", tmp_path / "ours")
    return time.monotonic_ns()


@pytest.mark.slow
@linux_only
@pytest.mark.parametrize(("count", "work"), [(2, 0.002), (4, 0.001), (3, 0.020)])
def test_no_commit_falls_into_the_section_of_a_published_order_writer(
    tmp_path: Path, folder: int, spawn: Spawn, count: int, work: float
) -> None:
    """Commits in which the scheduler took the processor away between check and rename do not count: in that gap any
    program can come, and what covers it is the look at the target before the rename."""
    lock = DirectoryLock(folder)

    def preemptions() -> int:
        return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw

    def commit() -> tuple[int, int]:
        while True:
            with lock.hold(1) as held:
                (tmp_path / "ours.tmp").write_text("x")
                checked, before = time.monotonic_ns(), preemptions()
                held.check()
                committed = replace_target(tmp_path)
                if preemptions() == before:
                    return checked, committed

    commits, overlaps, sections = among_writers(spawn, tmp_path, count, work, commit)
    assert overlaps == 0
    assert sections > 20
    if work < 0.005:  # with long sections memoryd may starve, and says so
        assert commits > 3


@pytest.mark.slow  # as the test that it is for
def test_the_same_test_catches_a_writer_that_only_takes_the_flock(tmp_path: Path, spawn: Spawn) -> None:
    def commit() -> tuple[int, int]:
        with open(tmp_path / ".lock", "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            (tmp_path / "ours.tmp").write_text("x")
            return time.monotonic_ns(), replace_target(tmp_path)

    commits, overlaps, _ = among_writers(spawn, tmp_path, 4, 0.010, commit)
    assert commits > 3
    assert overlaps > 0
