"""What other processes do with our files, and what our own process uses. The only importer of psutil.

Where the system does not tell (no `/proc`, another user's process), the answer says so: "unknown", a
count of what was skipped, or None. Nothing here raises for a process that went away meanwhile.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import psutil

from memoryd.core.staleness import Alive, Answer

_ON_LINUX = sys.platform == "linux"

# inotify sees nothing of changes made elsewhere, and flock and process numbers mean little, on these.
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
    """Whether the process runs, and when it began (epoch seconds; None when that is not told).

    A zombie holds nothing and is dead. A process we may not signal is alive.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return "dead", None
    except PermissionError:
        pass  # it exists and belongs to somebody else; its start can mostly be read all the same
    except (OverflowError, OSError):
        return "unknown", None
    try:
        process = psutil.Process(pid)
        if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return "dead", None
        return "alive", float(process.create_time())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return "dead", None
    except (psutil.AccessDenied, OSError):
        return "alive", None


def namesake(pid: int) -> int | None:
    """A process that has this number inside its own container, where numbers mean other processes."""
    for number in _numbers():
        try:
            with open(f"/proc/{number}/status", "rb") as status:
                lines = status.read().splitlines()
        except OSError:
            continue  # it went away, or it is not ours to read: both are no proof either way
        spaces = next((line.split()[1:] for line in lines if line.startswith(b"NSpid:")), [])
        if len(spaces) > 1 and int(spaces[-1]) == pid:
            return number
    return None


def _numbers() -> Iterator[int]:
    """The processes that run now; none where there is no `/proc`."""
    if not _ON_LINUX:
        return
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            yield int(entry)


def open_elsewhere(dev: int, inode: int, *, own_fds: Collection[int], name: str | None = None) -> tuple[Answer, int]:
    """Does any descriptor but our `own_fds` refer to that file? And how many processes could not be asked.

    `name` (the file's base name) keeps the search from touching descriptors of other files, one of which
    may lie on a dead network mount and hang whoever asks for its state.
    """
    if not _ON_LINUX:
        return "unknown", 0
    skipped = 0
    for number in _numbers():
        excluded = own_fds if number == os.getpid() else ()
        try:
            if any(_refers(link, dev, inode) for link in _links(number, name, excluded)):
                return "yes", skipped
        except PermissionError:
            skipped += 1
        except OSError:
            continue  # it went away while we looked
    return "no", skipped


def _links(number: int, name: str | None, excluded: Collection[int]) -> Iterator[str]:
    """The `/proc/PID/fd` entries of one process whose file has that base name."""
    for entry in os.listdir(f"/proc/{number}/fd"):
        link = f"/proc/{number}/fd/{entry}"
        if int(entry) not in excluded and (name is None or _target(link).rpartition("/")[2] == name):
            yield link


def _target(link: str) -> str:
    """The path a descriptor was opened by, as it is now; "" when it was closed meanwhile."""
    try:
        return os.readlink(link).removesuffix(" (deleted)")
    except FileNotFoundError:
        return ""


def _refers(link: str, dev: int, inode: int) -> bool:
    try:
        found = os.stat(link)
    except OSError:
        return False  # closed meanwhile, or not a file
    return (found.st_dev, found.st_ino) == (dev, inode)


@dataclass(frozen=True, slots=True)
class Flock:
    """One row of the kernel's lock table; `waiting` for a process that stands in the queue."""

    pid: int
    inode: int
    waiting: bool


def flocks() -> list[Flock]:
    """All flocks the kernel tells us of; empty where it does not."""
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
    """Who holds the flock of that inode, as far as the kernel names it. For messages, not for decisions:
    the device is not compared, because file systems with subvolumes show another one there."""
    return next((row.pid for row in flocks() if row.inode == inode and not row.waiting and row.pid > 0), None)


def inside_removed(path: str) -> int | None:
    """A process that holds, or waits for, the flock of a *removed* file that had this absolute path.

    Writers that unlock and only then remove their lock file leave the next one of the queue inside with a
    lock on a file that has no name any more. It shows nowhere but here.
    """
    gone = f"{path} (deleted)"
    for number in {row.pid for row in flocks()} - {os.getpid(), 0, -1}:
        try:
            if any(os.readlink(f"/proc/{number}/fd/{entry}") == gone for entry in os.listdir(f"/proc/{number}/fd")):
                return number
        except OSError:
            continue  # it went away, closed the file, or belongs to another user
    return None


def network_file_system(path: str) -> str | None:
    """The type of the file system `path` lies on when other machines share it, else None."""
    here = os.path.realpath(path)
    best, kind = "", ""
    for part in psutil.disk_partitions(all=True):
        mount = part.mountpoint.rstrip("/")
        if (here == mount or here.startswith(mount + "/")) and len(mount) >= len(best):
            best, kind = mount, part.fstype.lower()  # the last of equals lies on top
    return kind if kind in _NETWORK_TYPES else None


_INITIAL_PIDS = "pid:[4026531836]"  # PROC_PID_INIT_INO of the kernel


def is_contained() -> bool:
    """Do we run in a PID namespace of our own, as in a container? Then a number that is not there proves nothing."""
    try:
        return os.readlink("/proc/self/ns/pid") != _INITIAL_PIDS
    except OSError:
        return False  # no namespaces, or no `/proc`


def resources() -> dict[str, int | float]:
    """What this process uses now: `rss_bytes`, `open_fds`, `threads`, `cpu_s` (user and system)."""
    process = psutil.Process()
    with process.oneshot():
        times = process.cpu_times()
        return {
            "rss_bytes": int(process.memory_info().rss),
            "open_fds": int(process.num_fds()),
            "threads": int(process.num_threads()),
            "cpu_s": float(times.user + times.system),
        }


def trim_heap() -> bool:
    """Gives free heap back to the system, where psutil can; worth it after start and after a big scan."""
    trim = getattr(psutil, "heap_trim", None)
    if trim is None:
        return False
    trim()
    return True
