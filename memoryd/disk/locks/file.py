"""Primitive operations on a lock file: create or open it safely, flock it, read its owner, remove it.

A lock file is in a directory that other programs write to. So its type is checked before it is opened (opening a
pipe or a device has side effects), links are never followed, and the open never blocks.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import suppress
from typing import Literal

from memoryd.core.lock_owner import MAX_RECORD, LockOwner, parse_owner
from memoryd.core.lock_staleness import Answer
from memoryd.disk import processes, syscalls
from memoryd.disk.temps import still_holds, temp_name
from memoryd.errors import DeniedError, GuardError, RootMissingError

RetireOutcome = Literal["removed", "emptied", "left"]

_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_FLOCK = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_FILE_TYPES = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class IrregularLockError(GuardError):
    """The lock path is not a regular file; memoryd does not open it."""


def irregular_error(name: str, mode: int) -> IrregularLockError:
    """Return the error for a lock path that is not a regular file; `mode` is its st_mode."""
    sort = next((words for test, words in _FILE_TYPES if test(mode)), "a special file")
    return IrregularLockError(
        f"`{name}` is {sort}, not a regular file; it is not opened",
        hint=f"find out which program made `{name}` and move it away; memoryd then creates the lock",
        data={"path": name},
    )


def open_existing(dir_fd: int, name: str, flags: int) -> int | None:
    """Open the regular file and return its descriptor, or None if it does not exist.

    Raises IrregularLockError, and BlockingIOError while another process is removing the file.
    """
    try:
        status = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode):
            raise irregular_error(name, status.st_mode)
        fd = os.open(name, flags | _SAFE, dir_fd=dir_fd)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:  # replaced by a link since the stat
            raise irregular_error(name, stat.S_IFLNK) from error
        raise
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        raise irregular_error(name, mode)
    return fd


def create(dir_fd: int, name: str, record: bytes = b"") -> int:
    """Create a lock file, with its record if it has one, and return its descriptor. Raises FileExistsError."""
    fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | _SAFE, 0o600, dir_fd=dir_fd)
    try:
        syscalls.inherit_owner(fd, dir_fd)
        if record:
            os.write(fd, record)
    except BaseException:
        os.close(fd)
        if record:  # without it nobody could ever clear the lock; a flock file stays: another process may have it open
            os.unlink(name, dir_fd=dir_fd)
        raise
    return fd


def open_or_create(dir_fd: int, name: str) -> tuple[int, bool] | None:
    """Open for reading and writing. Return (fd, created), or None if the file is changing; retry.

    Raises IrregularLockError, DeniedError, RootMissingError; OSError for a full or failing disk.
    """
    try:
        return create(dir_fd, name), True
    except FileExistsError:
        pass  # the usual case under contention: open the existing file
    except FileNotFoundError as error:
        raise RootMissingError(f"the directory of `{name}` does not exist", data={"path": name}) from error
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
        f"cannot open `{name}`: {error.strerror}",
        hint="memoryd needs to write in this directory; check its owner and mode, or use mode observe",
        data={"path": name},
    )


def try_flock(fd: int) -> bool:
    """Take the flock if it is free. Raises DeniedError on a file system without flock: another kind of lock would
    exclude no other program."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_FLOCK:
            raise
        raise DeniedError(
            f"this file system has no flock: {error.strerror}",
            hint="memoryd can only observe this directory: set its mode to observe",
        ) from error
    return True


def unlock(fd: int) -> None:
    """Release the flock of an open lock file."""
    fcntl.flock(fd, fcntl.LOCK_UN)


def read(fd: int) -> bytes:
    """Read up to MAX_RECORD + 1 bytes; the extra byte reveals oversized files."""
    return os.pread(fd, MAX_RECORD + 1, 0)


def read_owner(fd: int) -> LockOwner:
    """Return the owner recorded in an open lock file."""
    return parse_owner(read(fd))


def write_record(fd: int, record: bytes) -> None:
    """Write the owner record into an open lock file."""
    if os.fstat(fd).st_size:  # ext4 flushes a file that was truncated to zero when it is closed
        os.ftruncate(fd, 0)
    os.pwrite(fd, record, 0)


def directory_path(dir_fd: int) -> str | None:
    """Return the directory's current path, or None if unknown."""
    try:
        return os.readlink(f"/proc/self/fd/{dir_fd}")
    except OSError:
        return None


def retire(dir_fd: int, name: str, fd: int, *, may_empty: bool = True, contested: bool = False) -> RetireOutcome:
    """Remove the lock file. The caller holds its flock, and the path refers to it.

    It is removed only while no other process has it open: a waiter would get the lock on an unlinked file, and a
    third process could lock a new one at the same time. Otherwise it is truncated (if `may_empty`) and left to the
    waiter. `contested`: another program created the file and may rename a new one over it at any moment.
    """
    leased = syscalls.take_lease(fd)
    try:
        is_unused = open_elsewhere(name, fd)[0] == "no" if leased is None else leased
        if is_unused and still_holds(dir_fd, name, fd):
            if not contested:
                os.unlink(name, dir_fd=dir_fd)
                return "removed"
            if _remove_this(dir_fd, name, fd):
                return "removed"
    finally:
        if leased:
            syscalls.end_lease(fd)
    if may_empty and os.fstat(fd).st_size and still_holds(dir_fd, name, fd):
        os.ftruncate(fd, 0)
        return "emptied"
    return "left"


def _remove_this(dir_fd: int, name: str, fd: int) -> bool:
    """Rename, verify, then delete; a file that another program renamed to the path meanwhile is restored."""
    aside = temp_name(name)
    try:
        syscalls.rename_new(dir_fd, name, aside)
    except FileNotFoundError:
        return False
    if still_holds(dir_fd, aside, fd):
        os.unlink(aside, dir_fd=dir_fd)
        return True
    with suppress(FileExistsError):  # yet another file has taken the path: it stays
        syscalls.rename_new(dir_fd, aside, name)
    return False


def open_elsewhere(name: str, fd: int) -> tuple[Answer, int]:
    """Return whether another process has this lock file open, as `processes.open_elsewhere` does."""
    base = os.path.basename(name)
    return processes.open_elsewhere(fd, lambda path: os.path.basename(path) == base)
