"""Stat and open single entries of an open directory without following links.

Only regular files are opened: a FIFO named like a memory would block the worker forever, and opening a device may have
side effects. All errors are `OSError`s with the path.
"""

from __future__ import annotations

import errno
import os
import stat

from memoryd.core.plan import Fingerprint

MB = 1024 * 1024
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_REGULAR = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


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
        fd = os.open(name, flags | _REGULAR, dir_fd=directory)
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


def pread_all(fd: int, start: int, length: int) -> bytes:
    """Return bytes [start, start + length) of an open file, fewer at its end, without moving the descriptor's offset.
    Usually one read: joining several would copy them all again."""
    pieces: list[bytes] = []
    while length > 0 and (piece := os.pread(fd, min(length, 64 * MB), start)):
        pieces.append(piece)
        start, length = start + len(piece), length - len(piece)
    return b"".join(pieces)


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


def _is_link(base: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=base, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False
