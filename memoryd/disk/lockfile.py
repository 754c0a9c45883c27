"""The single steps with a lock file: open it without harm, flock it, see whose it is, put it away.

A lock file stands in a folder that others write to. So it is looked at before it is opened (opening a pipe
or a device is an act of its own), never followed through a link, never opened in a way that could block.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import sys
from typing import Literal

from memoryd.core.lock_owner import MAX_RECORD
from memoryd.core.staleness import LockOwner, parse_owner
from memoryd.disk import processes
from memoryd.errors import DeniedError, GuardError, RootMissingError

Retired = Literal["removed", "emptied", "left"]

_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_FLOCK = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_SORTS = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class IrregularLockError(GuardError):
    """Something else than a regular file has the lock's name; memoryd does not open it."""


def irregular(name: str, mode: int) -> IrregularLockError:
    sort = next((words for test, words in _SORTS if test(mode)), "no regular file")
    return IrregularLockError(
        f"`{name}` is {sort}, not a regular file; it is not opened",
        hint=f"look who made `{name}` and move it away; the lock is then made anew",
        data={"path": name},
    )


def open_existing(dir_fd: int, name: str, flags: int) -> int | None:
    """A descriptor of the regular file, None when there is none.

    Raises IrregularLockError, and BlockingIOError while another process is just putting the file away.
    """
    try:
        found = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode):
            raise irregular(name, found.st_mode)
        fd = os.open(name, flags | _SAFE, dir_fd=dir_fd)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:  # it became a link since we looked
            raise irregular(name, stat.S_IFLNK) from error
        raise
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        raise irregular(name, mode)
    return fd


def open_or_create(dir_fd: int, name: str) -> tuple[int, bool] | None:
    """A descriptor for reading and writing, and whether we made the file; None when it is in flux: ask again.

    Raises IrregularLockError, DeniedError, RootMissingError; OSError for a full or failing disk.
    """
    try:
        return os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | _SAFE, 0o600, dir_fd=dir_fd), True
    except FileExistsError:
        pass  # the usual case under contention: open what is there
    except FileNotFoundError as error:
        raise RootMissingError(f"the folder of `{name}` is gone", data={"path": name}) from error
    except OSError as error:
        raise _denied(name, error) from error
    try:
        fd = open_existing(dir_fd, name, os.O_RDWR)
    except BlockingIOError:
        return None
    except OSError as error:
        raise _denied(name, error) from error
    return None if fd is None else (fd, False)


def _denied(name: str, error: OSError) -> Exception:
    if error.errno not in _REFUSED:
        return error
    return DeniedError(
        f"`{name}` cannot be opened: {error.strerror}",
        hint="memoryd needs to write in this folder; check its owner and mode, or use mode observe",
        data={"path": name},
    )


def try_flock(fd: int) -> bool:
    """Takes the flock if nobody holds it. Raises DeniedError on a file system without flock: going on with
    another kind of lock would exclude nobody."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_FLOCK:
            raise
        raise DeniedError(
            f"this file system has no flock: {error.strerror}",
            hint="memoryd can only observe this folder: set mode observe for it",
        ) from error
    return True


def unlock(fd: int) -> None:
    fcntl.flock(fd, fcntl.LOCK_UN)


def names(dir_fd: int, name: str, fd: int) -> bool:
    """Does the path still name the file we have open? Else a flock on it excludes nobody."""
    try:
        found = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    ours = os.fstat(fd)
    return (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino)


def read(fd: int) -> bytes:
    """One byte more than any record may have, so that a huge file shows as unreadable."""
    return os.pread(fd, MAX_RECORD + 1, 0)


def read_owner(fd: int) -> LockOwner:
    return parse_owner(read(fd))


def write_record(fd: int, record: bytes) -> None:
    if os.fstat(fd).st_size:  # what was truncated to nothing, ext4 writes to the disk when it is closed
        os.ftruncate(fd, 0)
    os.pwrite(fd, record, 0)


def folder_path(dir_fd: int) -> str | None:
    """Where the folder lies now, as the kernel tells; None where it does not."""
    try:
        return os.readlink(f"/proc/self/fd/{dir_fd}")
    except OSError:
        return None


def retire(dir_fd: int, name: str, fd: int, *, may_empty: bool = True) -> Retired:
    """Puts the lock file away. The caller holds its flock, and the path names it.

    Removed only while nobody else has it open: a waiter would be left with a lock on a file without a
    name, and let a third one in beside it. Else it is emptied (where `may_empty`) and left to the waiter.
    """
    leased = _lease(fd)
    try:
        if (_alone(name, fd) if leased is None else leased) and names(dir_fd, name, fd):
            os.unlink(name, dir_fd=dir_fd)
            return "removed"
    finally:
        if leased:
            _end_lease(fd)
    if may_empty and os.fstat(fd).st_size:
        os.ftruncate(fd, 0)
        return "emptied"
    return "left"


def _alone(name: str, fd: int) -> bool:
    ours = os.fstat(fd)
    answer, _ = processes.open_elsewhere(ours.st_dev, ours.st_ino, own_fds=(fd,), name=os.path.basename(name))
    return answer == "no"


def _lease(fd: int) -> bool | None:
    """A write lease: granted only to the sole opener, and whoever opens meanwhile waits until it ends.
    None where there are no leases (not Linux, a network file system, a file of another user)."""
    if sys.platform != "linux":
        return None
    try:
        # Somebody who opens the file makes the kernel signal us. The default signal, SIGIO, kills.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except BlockingIOError:
        return False
    except OSError:
        return None  # no leases here; `/proc` is asked instead
    return True


def _end_lease(fd: int) -> None:
    if sys.platform == "linux":
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
