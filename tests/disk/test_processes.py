"""Queries about other processes."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from memoryd.disk import processes
from memoryd.disk.temps import temp_name

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="/proc")


def test_we_live_since_a_while() -> None:
    alive, started = processes.liveness(os.getpid())
    assert alive == "alive"
    assert started is not None
    assert 0 <= time.time() - started < 1e7


def test_a_reaped_process_is_dead_and_so_is_a_zombie() -> None:
    child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "pass"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    os.kill(child.pid, 0)  # it would pass for alive
    assert processes.liveness(child.pid) == ("dead", None)
    child.wait()
    assert processes.liveness(child.pid) == ("dead", None)


def test_a_number_the_system_cannot_take_is_unknown() -> None:
    assert processes.liveness(2**80) == ("unknown", None)


@linux_only
@pytest.mark.root_only
@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")
def test_a_process_of_another_user_is_alive_for_real() -> None:
    code = (
        "import os, sys; from memoryd.disk import processes; os.setuid(65534);"
        "pid = os.getppid()\n"
        "try: os.kill(pid, 0)\n"
        "except PermissionError: print(*processes.liveness(pid))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    alive, started = done.stdout.split()
    assert alive == "alive"
    assert started == "None" or float(started) <= time.time()


def test_a_process_that_may_not_be_queried_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(_: int) -> None:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "Process", denied)
    assert processes.liveness(os.getpid()) == ("alive", None)


@linux_only
@pytest.mark.parametrize("aside", [False, True])
def test_who_is_inside_with_a_removed_lock_file(tmp_path: Path, aside: bool) -> None:
    """Also where the sweep moved it aside before it removed it."""
    path = tmp_path / ".lock"
    code = "import fcntl; f = open('.lock', 'w'); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert processes.deleted_lock_holder(str(path)) is None
        (path.rename(tmp_path / temp_name(".lock")) if aside else path).unlink()
        assert processes.deleted_lock_holder(str(path)) == child.pid
        child.kill()


@linux_only
def test_who_has_a_file_open(tmp_path: Path) -> None:
    path = tmp_path / "a name\nwith a break"
    path.touch()
    fd = os.open(path, os.O_RDONLY)
    try:
        assert processes.open_elsewhere(fd)[0] == "no"
        with open(path):
            assert processes.open_elsewhere(fd)[0] == "yes"
            assert processes.open_elsewhere(fd, lambda other: other == "other")[0] == "no"
            path.unlink()
            assert processes.open_elsewhere(fd, lambda other: other == str(path))[0] == "yes"
    finally:
        os.close(fd)


@linux_only
def test_unreadable_processes_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really = os.listdir

    def listing(path: str) -> list[str]:
        if path.endswith("/1/fd"):
            raise PermissionError
        return really(path)

    monkeypatch.setattr("memoryd.disk.processes.os.listdir", listing)
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        answer, skipped = processes.open_elsewhere(fd)
    finally:
        os.close(fd)
    assert answer == "no"
    assert skipped >= 1


def test_without_proc_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "HAS_PROC", False)
    assert processes.open_elsewhere(0) == ("unknown", 0)
    assert processes.namesake(os.getpid()) is None


@linux_only
@pytest.mark.root_only
@pytest.mark.skipif(os.geteuid() != 0, reason="needs a PID namespace of its own")
def test_a_container_process_with_that_number_is_found() -> None:
    command = ["unshare", "--pid", "--fork", "--kill-child", "sh", "-c", "sh -c 'echo $$; read x; :'; :"]
    inside = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert inside.stdout is not None
    number = int(inside.stdout.readline())
    found = processes.namesake(number)
    inside.communicate("\n")
    assert found is not None
    assert found != number
    assert processes.namesake(2**22) is None


class Part(NamedTuple):
    """A mount as psutil gives it."""

    mountpoint: str
    fstype: str


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/ada", None),
        ("/home/ada/net", "nfs4"),
        ("/home/ada/net/x", "nfs4"),
        ("/home/ada/network", None),
        ("/home/ada/net/local", None),
        ("/home/ada/ssh/x", "fuse.sshfs"),
        ("/", None),
    ],
)
def test_the_deepest_mount_decides(monkeypatch: pytest.MonkeyPatch, path: str, expected: str | None) -> None:
    parts = [
        Part("/", "ext4"),
        Part("/home/ada/net", "ext4"),
        Part("/home/ada/net", "nfs4"),  # mounted over the one before
        Part("/home/ada/net/local", "xfs"),
        Part("/home/ada/ssh", "fuse.sshfs"),
    ]
    monkeypatch.setattr(psutil, "disk_partitions", lambda **_: parts)
    monkeypatch.setattr("memoryd.disk.processes.os.path.realpath", lambda path: path)
    assert processes.network_file_system(path) == expected


@pytest.mark.parametrize("at", ["/", "/mnt/a", "/mnt/a/"])
def test_a_mount_is_no_mount_of_a_longer_name(monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    monkeypatch.setattr(psutil, "disk_partitions", lambda **_: [Part(at, "nfs")])
    found = [processes.network_file_system(path) for path in ("/mnt/a", "/mnt/a/b", "/mnt/ab", "/mnt/ab/c")]
    assert found == ["nfs"] * 4 if at == "/" else ["nfs", "nfs", None, None]


def test_a_real_folder_has_some_file_system(tmp_path: Path) -> None:
    assert processes.network_file_system(str(tmp_path)) is None or tmp_path.exists()


@linux_only
def test_the_lock_table_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = tmp_path / "locks"
    table.write_text(
        "1: FLOCK  ADVISORY  WRITE 4711 08:02:5678 0 EOF\n"
        "1: -> FLOCK  ADVISORY  WRITE 4712 08:02:5678 0 EOF\n"
        "2: POSIX  ADVISORY  READ  4713 08:02:5678 128 128\n"
        "3: FLOCK  ADVISORY  WRITE -1 08:02:99 0 EOF\n"
        "rubbish\n"
    )
    really = open
    monkeypatch.setattr(processes, "open", lambda path, **how: really(table, **how), raising=False)
    rows = processes.flocks()
    assert [(row.pid, row.inode, row.waiting) for row in rows] == [(4711, 5678, False), (4712, 5678, True)]
    assert processes.flock_holder(5678) == 4711
    assert processes.flock_holder(99) is None


def test_our_own_use_of_resources() -> None:
    found = processes.resources()
    assert all(value >= 0 for value in found)
    assert found.rss_bytes > 1_000_000


def test_wake_ups_of_every_thread_count() -> None:
    def wait_often() -> None:
        for _ in range(100):  # on a loaded machine some end before they have begun
            threading.Event().wait(0.002)

    before = processes.resources().wakeups
    thread = threading.Thread(target=wait_often)
    thread.start()
    thread.join()
    assert processes.resources().wakeups - before >= 50


def test_the_heap_is_trimmed_where_that_can_be_done(monkeypatch: pytest.MonkeyPatch) -> None:
    assert processes.trim_heap() == hasattr(psutil, "heap_trim")
    monkeypatch.delattr(psutil, "heap_trim", raising=False)
    assert processes.trim_heap() is False


@linux_only
def test_a_container_is_distinguished_from_the_host() -> None:
    mine = os.readlink("/proc/self/ns/pid")
    assert processes.is_contained() is (mine != "pid:[4026531836]")


_HEAPS = """
import ctypes, sys, threading
from memoryd.disk.processes import use_one_heap
from memoryd.disk.syscalls import libc

assert sys.argv[1] == "many" or use_one_heap()
kept, everyone = [], threading.Barrier(4)

def allocate():
    kept.append(bytes(100_000))
    everyone.wait()

threads = [threading.Thread(target=allocate) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc.fdopen.restype = ctypes.c_void_p
stream = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, stream)
libc.fflush(stream)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no heaps of threads")
def test_threads_allocate_from_one_heap() -> None:
    def heaps(how: str) -> int:
        ran = subprocess.run([sys.executable, "-c", _HEAPS, how], capture_output=True, text=True, check=True)
        return ran.stdout.count("<heap ")

    assert heaps("one") == 1
    assert heaps("many") > 1


def test_the_heap_of_another_c_library_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "libc", object())
    assert processes.use_one_heap() is False


@pytest.mark.parametrize(
    ("line", "exported"),
    [
        ("{path}\t192.168.0.0/24(rw,sync)", True),
        ("{above}/\t*(ro)", True),
        ("{path}/deeper\t*(ro)", True),
        ("/\t*(ro)", True),
        ("{path}er\t*(ro)", False),
        ("# {path}\t*(ro)", False),
        ("{other}\t*(ro)", True),
        ("{other}er\t*(ro)", False),
        (r"/\777{path}\t*(ro)", False),
        ("", False),
    ],
)
def test_directories_that_the_nfs_server_exports(
    line: str, exported: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, path, other = tmp_path / "etab", tmp_path / "my memories", tmp_path / "other name"
    path.mkdir()
    other.symlink_to(path)  # as a bind mount, it is one directory with two paths
    given = (
        line.format(path=path, above=tmp_path, other=other)
        .replace("other name", r"other\040name")
        .replace(" memories", r"\040memories")
    )
    table.write_text(f"# Version 1.1\n{given}\n")
    monkeypatch.setattr(processes, "EXPORTS", (str(tmp_path / "missing"), str(table)))
    assert processes.is_exported(str(path)) is exported
