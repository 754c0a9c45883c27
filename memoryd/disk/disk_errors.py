"""Refusals of a disk, told apart from missing rights, and a test whether it still refuses.

A full, read-only or failing disk may accept a write later. That is found out by writing, because no number it reports
(free blocks, mount flags) covers quotas, reserved blocks and failing hardware.
"""

from __future__ import annotations

import errno
import os

from memoryd.disk.temps import temp_name

_BY_ERRNO = {
    errno.ENOSPC: "disk-full",
    errno.EDQUOT: "disk-full",
    errno.EROFS: "read-only",
    errno.EFBIG: "disk-full",  # a bound on the size of a file, as of `ulimit -f`
    errno.EIO: "io-error",
    errno.ESTALE: "io-error",
    errno.EMFILE: "io-error",
    errno.ENFILE: "io-error",
}


def refusal(error: BaseException | None) -> str | None:
    """Return the code of a refusal that may pass, as the control protocol names it; None for any other error."""
    return _BY_ERRNO.get(error.errno or 0) if isinstance(error, OSError) else None


ROOM = 64 * 1024  # bytes that must fit: an index, or the beginning of a copy

_NAMELESS = getattr(os, "O_TMPFILE", 0)
_NO_NAMELESS = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)


def probe_write(directory: str) -> None:
    """Write some bytes through to the disk and drop them again; OSError says why that fails.

    The file is unnamed if the system supports that, so that no other program sees it.
    """
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
