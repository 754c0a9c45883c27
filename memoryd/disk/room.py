"""Does a disk take writes? Found out by writing, because no number it tells (free blocks, mount flags) covers
quotas, reserved blocks and failing hardware."""

from __future__ import annotations

import errno
import os

from memoryd.disk.temps import temp_name

ROOM = 64 * 1024  # bytes that must fit: an index, or the beginning of a copy

_NAMELESS = getattr(os, "O_TMPFILE", 0)
_NO_NAMELESS = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)


def prove_room(directory: str) -> None:
    """Write some bytes through to the disk and let them go again; OSError says why it cannot be done.

    The file has no name where the system can make such a one, so that nobody sees it come and go."""
    fd = _open(directory)
    try:
        left = ROOM
        while left:
            left -= os.write(fd, bytes(left))
        os.fsync(fd)
    finally:
        os.close(fd)


def _open(directory: str) -> int:
    if _NAMELESS:
        try:
            return os.open(directory, _NAMELESS | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno not in _NO_NAMELESS:
                raise
    path = os.path.join(directory, temp_name("room"))
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.unlink(path)
    return fd
