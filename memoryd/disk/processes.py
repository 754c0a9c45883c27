"""Queries about other processes and the resources of this one. The only importer of psutil.

If the system does not provide the answer (no `/proc`, another user's process), the result says so: "unknown", a
count of skipped processes, or None. No function raises for a process that exits meanwhile.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_NOFILE, RUSAGE_SELF, getrlimit, getrusage, setrlimit
from typing import NamedTuple

import psutil
from msgspec import Struct

from memoryd.core.lock_staleness import Alive, Answer
from memoryd.disk.syscalls import libc, sole_opener_by_lease
from memoryd.disk.temps import is_our_temp, target_of

HAS_PROC = sys.platform == "linux"
"""True if /proc shows other processes. Without it nothing is claimed about them."""

# On these, inotify misses changes made on other machines, and flock and PIDs mean little.
_NETWORK_TYPES = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "afpfs", "webdav", "davfs", "ncpfs", "afs", "coda"),
        *("ceph", "lustre", "gfs2", "ocfs2", "gpfs", "beegfs", "orangefs", "glusterfs"),
        *("9p", "virtiofs", "vboxsf", "vmhgfs", "prl_fs", "drvfs"),  # a virtual machine's view of its host
        *("fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.rclone", "fuse.davfs"),
        *("fuse.goofys", "fuse.gcsfuse", "fuse.juicefs", "fuse.curlftpfs", "fuse.vmhgfs-fuse"),
    )
)


def liveness(pid: int) -> tuple[Alive, float | None]:
    """Return whether the process runs, and its start time (epoch seconds; None if unknown).

    A zombie holds nothing and is dead, unless only its first thread has ended. A process we may not signal is alive.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return "dead", None
    except PermissionError:
        pass  # it exists and belongs to another user; its start time is usually readable
    except (OverflowError, OSError):
        return "unknown", None
    try:
        process = psutil.Process(pid)
        if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD) and process.num_threads() <= 1:
            return "dead", None
        return "alive", float(process.create_time())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return "dead", None
    except (psutil.AccessDenied, OSError):
        return "alive", None


def namesake(pid: int) -> int | None:
    """Return a process that has this PID inside its own container's PID namespace, or None."""
    for number in _numbers():
        try:
            with open(f"/proc/{number}/status", "rb") as status:
                lines = status.read().splitlines()
        except OSError:
            continue  # it exited or is not readable: neither proves anything
        spaces = next((line.split()[1:] for line in lines if line.startswith(b"NSpid:")), [])
        if len(spaces) > 1 and int(spaces[-1]) == pid:
            return number
    return None


def _numbers() -> Iterator[int]:
    """Yield the PIDs of all running processes; none without `/proc`."""
    if not HAS_PROC:
        return
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            yield int(entry)


def is_sole_opener(fd: int, name: str) -> bool:
    """True if no other process has this inode open, or if the system has no way to find out.

    On Linux a write lease is granted only to the sole opener; without leases, /proc is searched for descriptors whose
    path contains `name`. Descriptors of this process other than `fd` count as others.
    """
    alone = sole_opener_by_lease(fd)
    return open_elsewhere(fd, lambda path: name in path)[0] != "yes" if alone is None else alone


def open_elsewhere(fd: int, is_named: Callable[[str], bool] = lambda _: True) -> tuple[Answer, int]:
    """Return whether any descriptor except `fd` refers to its file, and the number of unreadable processes.

    `is_named` tells by a path whether it may be that file, so that no stat is called on descriptors of other files: one
    on a dead network mount would hang.
    """
    if not HAS_PROC:
        return "unknown", 0
    found, skipped = os.fstat(fd), 0
    ours = f"/proc/{os.getpid()}/fd/{fd}"
    for number in _numbers():
        try:
            if any(link != ours and is_named(_target(link)) and _refers(link, found) for link in _links(number)):
                return "yes", skipped
        except PermissionError:
            skipped += 1
        except OSError:
            continue  # it exited meanwhile
    return "no", skipped


def _links(number: int) -> Iterator[str]:
    """Yield the `/proc/PID/fd` entries of one process."""
    return (f"/proc/{number}/fd/{entry}" for entry in os.listdir(f"/proc/{number}/fd"))


def _target(link: str) -> str:
    """Return the current path of the file a descriptor refers to; "" if it was closed meanwhile."""
    try:
        return os.readlink(link).removesuffix(" (deleted)")
    except FileNotFoundError:
        return ""


def _refers(link: str, found: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(link), found)
    except OSError:
        return False  # closed meanwhile, or not a file


class Flock(Struct, frozen=True):
    """One row of the kernel's lock table; `waiting`: the process is queued for the lock."""

    pid: int
    inode: int
    waiting: bool


def flocks() -> list[Flock]:
    """Return all flocks in /proc/locks; empty if it cannot be read."""
    try:
        with open("/proc/locks", encoding="ascii", errors="replace") as table:
            rows = [line.split() for line in table]
    except OSError:
        return []
    found = []
    for row in rows:
        waiting = "->" in row
        cells = [cell for cell in row if cell != "->"]
        if len(cells) > 5 and cells[1] == "FLOCK" and cells[4].isdecimal():
            found.append(Flock(int(cells[4]), int(cells[5].rpartition(":")[2]), waiting))
    return found


def flock_holder(inode: int) -> int | None:
    """Return the PID that holds the flock of that inode, or None if unknown. For messages, not for decisions: the
    device is not compared, because file systems with subvolumes show a different one there."""
    return next((row.pid for row in flocks() if row.inode == inode and not row.waiting and row.pid > 0), None)


def deleted_lock_holder(path: str) -> int | None:
    """Return a process that holds, or waits for, the flock of a *deleted* file that had this absolute path.

    Writers that unlock first and then remove their lock file leave the next process in the queue with a lock on an
    unlinked file. Only the lock table shows that.
    """
    for number in {row.pid for row in flocks()} - {os.getpid(), 0, -1}:
        try:
            if any(_is_deleted(os.readlink(link), path) for link in _links(number)):
                return number
        except OSError:
            continue  # it exited, closed the file, or belongs to another user
    return None


def _is_deleted(link: str, path: str) -> bool:
    """True if the link shows the deleted file of that path, also by the temporary name the sweep renames it to."""
    former = link.removesuffix(" (deleted)")
    return former != link and (former == path or (is_our_temp(former) and target_of(former) == path))


def network_file_system(path: str) -> str | None:
    """Return the type of the file system that contains `path` if other machines share it, or None."""
    here = _with_slash(os.path.realpath(path))
    best, kind = "", ""
    for part in psutil.disk_partitions(all=True):
        mount = _with_slash(part.mountpoint)
        if here.startswith(mount) and len(mount) >= len(best):
            best, kind = mount, part.fstype.lower()  # of several on one mount point the last is on top
    return kind if kind in _NETWORK_TYPES else None


EXPORTS = ("/var/lib/nfs/etab", "/proc/fs/nfsd/exports")  # of exportfs, and of the kernel
_OCTAL = re.compile(rb"\\([0-3][0-7]{2})")


def is_exported(path: str) -> bool:
    """True if the NFS server of this machine exports the directory, or one above or below it: it reads a file for its
    clients without keeping it open as long as they do."""
    here = _with_slash(os.path.realpath(path))
    return any(here.startswith(each) or each.startswith(here) or _is_within(here, each) for each in _exports())


def _is_within(path: str, place: str) -> bool:
    """True if the directory is within the place under another name: NFSv4 exports are often bind mounts."""
    with suppress(OSError):
        found = os.stat(place)
        return any(os.path.samestat(os.stat(path[:end]), found) for end, sign in enumerate(path, 1) if sign == "/")
    return False


def _exports() -> Iterator[str]:
    """Yield the exported directories, each with a slash at its end."""
    for table in EXPORTS:
        with suppress(OSError), open(table, "rb") as file:
            places = [line.split(maxsplit=1)[0] for line in file if line.startswith(b"/")]
            decoded = (_OCTAL.sub(lambda found: bytes([int(found[1], 8)]), each) for each in places)
            yield from (_with_slash(os.fsdecode(each)) for each in decoded)


def _with_slash(path: str) -> str:
    """Return the path of a directory with one slash at its end: the paths within it begin with that."""
    return path.rstrip("/") + "/"


# Names in the `.git` directory of a work tree, and the operation that is in progress while they exist.
_GIT_OPERATIONS = {
    "MERGE_HEAD": "a merge",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase or the applying of patches",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "index.lock": "a git command",
}


def blocked_by_git(path: str) -> str | None:
    """Return the reason not to write into the git work tree that contains `path`; None if git is idle or there is no
    work tree."""
    git_dirs = (_git_dir(above / ".git") for above in (Path(path), *Path(path).parents))
    git_dir = next(filter(None, git_dirs), None)
    if git_dir is not None:
        for name, what in _GIT_OPERATIONS.items():
            if os.path.lexists(found := os.path.join(git_dir, name)):
                return f"{what} is under way in the git work tree ({found})"
    return None


def _git_dir(path: Path) -> str | None:
    """Return `.git` if it is a directory, or the directory that such a file (linked work tree, submodule) names."""
    if os.path.isdir(path):
        return str(path)
    if not os.path.exists(path):
        return None
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            first = file.read(4096).strip()
    except OSError:
        return None
    if not first.startswith("gitdir:"):
        return None
    return os.path.realpath(os.path.join(path.parent, first.removeprefix("gitdir:").strip()))


_INITIAL_PIDS = "pid:[4026531836]"  # PROC_PID_INIT_INO of the kernel


def is_contained() -> bool:
    """True if this process runs in its own PID namespace, as in a container; a missing PID then proves nothing."""
    try:
        return os.readlink("/proc/self/ns/pid") != _INITIAL_PIDS
    except OSError:
        return False  # no namespaces, or no `/proc`


class Usage(NamedTuple):
    """The resources that this process uses. `cpu_s`: user and system; `wakeups`: voluntary context switches of all
    threads since the start (psutil counts those of the main thread)."""

    rss_bytes: int
    open_fds: int
    threads: int
    cpu_s: float
    wakeups: int


def resources() -> Usage:
    """Return the current use of this process."""
    process = psutil.Process()
    with process.oneshot():
        times = process.cpu_times()
        return Usage(
            rss_bytes=int(process.memory_info().rss),
            open_fds=int(process.num_fds()),
            threads=int(process.num_threads()),
            cpu_s=float(times.user + times.system),
            wakeups=getrusage(RUSAGE_SELF).ru_nvcsw,
        )


def trim_heap() -> bool:
    """Return free heap to the system if psutil supports it; worthwhile after start and after a large scan. True if
    done."""
    trim = getattr(psutil, "heap_trim", None)
    if trim is None:
        return False
    trim()
    return True


_M_ARENA_MAX = -8  # <malloc.h>


def use_one_heap() -> bool:
    """Let all threads allocate from one heap, where the C library is glibc: by default it makes one for each, and what
    is free in one of them is of no use to the others. Call it before threads are started. True if done."""
    set_option = getattr(libc, "mallopt", None)
    return set_option is not None and bool(set_option(_M_ARENA_MAX, 1))


_MOST_FILES = 8192  # open files of a daemon with hundreds of roots; macOS accepts no more than 10,240


def raise_file_limit() -> None:
    """Allow this process as many open files as it may have: up to the hard limit of the system, `_MOST_FILES` at
    most. A limit that is higher already stays."""
    soft, hard = getrlimit(RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # the limit that there is stays
            setrlimit(RLIMIT_NOFILE, (wanted, hard))


def file_limit() -> int:
    """Return how many files this process may have open at a time."""
    soft, _ = getrlimit(RLIMIT_NOFILE)
    return sys.maxsize if soft == RLIM_INFINITY else soft
