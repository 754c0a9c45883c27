"""File system calls: those that Python lacks, and those on entries of an open directory that must not follow links.

Python lacks exclusive and exchanging renames, syncs that reach the disk, creation times, whether another process has a
file open, and inotify events of the names in a directory.

Of the entries of a directory only regular files are opened: a FIFO named like a memory would block the worker forever,
and opening a device may have side effects. All errors are `OSError`s with the path.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import stat
import struct
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from memoryd.core.defaults import MB
from memoryd.core.digest import digest_of
from memoryd.core.spans import Fingerprint

if TYPE_CHECKING:
    from memoryd.core.digest import Hash

UNSUPPORTED = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP})  # the kernel or file system lacks the call

_DARWIN = sys.platform == "darwin"
_NOREPLACE, _EXCHANGE = (4, 2) if _DARWIN else (1, 2)  # <sys/stdio.h> and <linux/fs.h>
_EMPTY_PATH, _BTIME = 0x1000, 0x800  # <fcntl.h>, <linux/stat.h>
IN_CREATE, IN_DELETE, IN_IGNORED, IN_ALL = 0x100, 0x200, 0x8000, 0xFFFF  # <sys/inotify.h>
_IN_MOVED, _IN_SELF = 0xC0, 0xC00
libc = ctypes.CDLL(None, use_errno=True)
"""The C library. Functions are looked up at each call, so that tests can replace it by one that lacks some."""


PIECE = 256 * 1024  # bytes that are hashed at a time: they stay in the processor's cache
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
REGULAR = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


# --- entries of an open directory


class NotBeneathError(OSError):
    """A symlink is in the place of a directory of the root; following it could lead out of the root."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.ELOOP, "a symbolic link on the way is not followed", path)


class NotRegularError(OSError):
    """The path is a link, FIFO, socket, device or directory, or a file that must not be written in place."""

    def __init__(self, path: str, why: str = "not a regular file") -> None:
        super().__init__(errno.EINVAL, why, path)


class TooLargeError(OSError):
    """The file is larger than the caller's limit; nothing was read."""

    def __init__(self, path: str, size: int, limit: int) -> None:
        super().__init__(errno.EFBIG, f"{size} bytes are more than the limit of {limit}", path)


class ChangingError(OSError):
    """The file changed during each of `ATTEMPTS` reads; a writer is at work."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EAGAIN, "the file keeps changing while it is read", path)


NO_FILE = (FileNotFoundError, NotADirectoryError, NotBeneathError, NotRegularError)
NO_READABLE_FILE = (*NO_FILE, TooLargeError)


def fingerprint_of(found: os.stat_result) -> Fingerprint:
    """Return the fingerprint of a regular file, which the caller has checked. `mode` is the permission bits only."""
    return Fingerprint(
        found.st_dev,
        found.st_ino,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
        stat.S_IMODE(found.st_mode),
        found.st_uid,
        found.st_nlink,
    )


def parts_of(path: str) -> list[str]:
    """Split a relative path into components. Raises ValueError if it is not a plain relative path."""
    parts = path.split("/")
    if "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"not a path beneath a root: {path!r}")
    return parts


def lstat(directory: int, name: str, path: str) -> Fingerprint | None:
    """Return the fingerprint of a regular file in an open directory, or None if the name does not exist. Raises
    NotRegularError for any other type."""
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise NotRegularError(path)
    return fingerprint_of(found)


def open_regular(directory: int, name: str, path: str, flags: int = os.O_RDONLY) -> int:
    """Open a regular file and return its descriptor. Raises FileNotFoundError, or NotRegularError for other types.

    The type is checked before the open, since opening a FIFO wakes its writer, and after it, since the file may have
    been replaced in between.
    """
    if lstat(directory, name, path) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    try:
        fd = os.open(name, flags | REGULAR, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise NotRegularError(path) from error
        raise
    regular = False
    try:
        regular = stat.S_ISREG(os.fstat(fd).st_mode)
    finally:
        if not regular:
            os.close(fd)
    if not regular:
        raise NotRegularError(path)
    return fd


def open_found(directory: int, name: str) -> int:
    """Open a file for reading that was found to be a regular one; the caller checks that it still is that one."""
    return os.open(name, os.O_RDONLY | REGULAR, dir_fd=directory)


def pread_all(fd: int, start: int, length: int) -> bytes:
    """Return bytes [start, start + length) of an open file, fewer at its end, without moving the descriptor's offset.
    Usually one read: joining several would copy them all again."""
    pieces: list[bytes] = []
    while length > 0 and (piece := os.pread(fd, min(length, 64 * MB), start)):
        pieces.append(piece)
        start, length = start + len(piece), length - len(piece)
    return b"".join(pieces)


def hash_start(fd: int, size: int) -> Hash:
    """Return the SHA-256 of the first `size` bytes of an open file, to be updated further."""
    digest, start = digest_of(size=size), 0
    while start < size and (piece := pread_all(fd, start, min(PIECE, size - start))):
        digest.update(piece)
        start += len(piece)
    return digest


def open_directory(base: int, name: str, path: str) -> int:
    """Open a directory below an open one without following links. Raises NotBeneathError for a link,
    NotADirectoryError; `path` is named in them."""
    try:
        return os.open(name, _DIRECTORY, dir_fd=base)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        # Linux reports "not a directory" for a link too; a finding should show the difference.
        if error.errno == errno.ELOOP or _is_link(base, name):
            raise NotBeneathError(path) from error
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from error


def leads_out(base: int, root: str, path: str) -> bool:
    """True for a link out of an open directory, whose path is `root`, and for a directory, which then belongs to
    another device. Where a link leads is not looked at: that may be a server that does not answer."""
    try:
        if not stat.S_ISLNK(mode := os.stat(path, dir_fd=base, follow_symlinks=False).st_mode):
            return stat.S_ISDIR(mode)
        target = os.path.join(root, os.path.dirname(path), os.readlink(path, dir_fd=base))
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.EINVAL):
            raise
        return False  # it was replaced meanwhile
    return os.path.commonpath((root, os.path.normpath(target))) != root


def _is_link(base: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=base, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


# --- calls that Python lacks


def rename_with_flags(flags: int, directory: int, source: str, target: str) -> None:
    """Rename within an open directory with system-specific flags. Raises OSError, ENOSYS if there is no such call."""
    rename = getattr(libc, "renameatx_np" if _DARWIN else "renameat2", None)
    if rename is None:
        raise OSError(errno.ENOSYS, "the C library has no rename with flags", target)
    if rename(directory, os.fsencode(source), directory, os.fsencode(target), flags) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), target)


def exchange(directory: int, one: str, other: str) -> None:
    """Exchange two names in an open directory atomically; one may be an absolute path. Raises OSError, with an errno of
    `UNSUPPORTED` if impossible."""
    rename_with_flags(_EXCHANGE, directory, one, other)


def rename_new(directory: int, source: str, target: str) -> None:
    """Rename only if `target` does not exist; otherwise raise FileExistsError.

    If the system has no such rename, `source` is linked to `target`, which is as exclusive, and then unlinked; a crash
    in between leaves both names.
    """
    try:
        rename_with_flags(_NOREPLACE, directory, source, target)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        os.link(source, target, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
        os.unlink(source, dir_fd=directory)


def sync_file(fd: int) -> None:
    """Flush a file to the disk itself. After a failure the caller must discard the file, not retry: the kernel may drop
    the pages and report success to the next call."""
    if sys.platform == "darwin":
        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        except OSError as error:
            if error.errno not in (*UNSUPPORTED, errno.ENOTTY):
                raise
        else:
            return
    os.fsync(fd)


def sync_directory(fd: int) -> None:
    """Make changes of the names in a directory durable; file systems that do not support the call do not need it."""
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise


def birth_time_ns(fd: int) -> int | None:
    """Return the creation time of the open file or directory in epoch nanoseconds; None if unknown."""
    born = getattr(os.fstat(fd), "st_birthtime", None)
    if born is not None:
        return int(born * 1_000_000_000)
    statx = getattr(libc, "statx", None)
    answer = ctypes.create_string_buffer(256)
    if statx is None or statx(fd, b"", _EMPTY_PATH, _BTIME, answer) != 0:
        return None
    (mask,) = struct.unpack_from("I", answer, 0)
    seconds, nanoseconds = struct.unpack_from("qI", answer, 80)
    return int(seconds) * 1_000_000_000 + int(nanoseconds) if mask & _BTIME else None


def watch_names(directory: int) -> int:
    """Open a non-blocking inotify descriptor for names created, removed or renamed in an open directory. Raises OSError
    if the system has no inotify or its limits are exhausted."""
    begin, add = getattr(libc, "inotify_init1", None), getattr(libc, "inotify_add_watch", None)
    if begin is None or add is None:
        raise OSError(errno.ENOSYS, "no inotify here")
    fd = int(begin(os.O_NONBLOCK | os.O_CLOEXEC))
    if fd < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    mask = IN_CREATE | IN_DELETE | _IN_MOVED | _IN_SELF
    if add(fd, b"/proc/self/fd/%d" % directory, mask) < 0:
        code = ctypes.get_errno()
        os.close(fd)
        raise OSError(code, os.strerror(code))
    return fd


def sole_opener_by_lease(fd: int) -> bool | None:
    """Return whether a write lease is granted, which proves that no other process has the inode open; None if there are
    no leases."""
    try:
        return take_lease(fd)
    finally:
        end_lease(fd)


def take_lease(fd: int) -> bool | None:
    """Take a write lease, which is granted only to the sole opener; a process that opens the file then waits until the
    lease ends. False if others have the file open, None if there are no leases (not Linux, a network file system,
    another user's file)."""
    if sys.platform != "linux":
        return None
    try:
        # A process that opens the file makes the kernel signal us. The default signal, SIGIO, would end the process.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError as error:
        return False if error.errno in (errno.EAGAIN, errno.EBUSY) else None
    return True


def end_lease(fd: int) -> None:
    """Release the lease, if there is one."""
    if sys.platform == "linux":
        with suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)


def inherit_owner(fd: int, directory: int) -> None:
    """Give a new file or directory the owner and group of the directory that it is in, if this process is root's.

    The agents run as that user, who could open neither a memory, index file or lock that root created, nor write in
    a directory of root. Where the change is refused (no capability, no such user in this namespace, a file system
    without owners, the user's quota) it stays root's.
    """
    if os.geteuid() != 0:
        return
    above = os.fstat(directory)
    if above.st_uid == 0 or os.fstat(fd).st_uid != 0:  # not ours: put in the place of what was made
        return
    try:
        os.fchown(fd, above.st_uid, above.st_gid)
    except OSError as error:
        if error.errno not in (*UNSUPPORTED, errno.EPERM, errno.EDQUOT):
            raise
