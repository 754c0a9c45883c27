"""Errors of a full, read-only or failing disk, and a test write that shows whether it accepts writes again.

Only a write shows that: the numbers a disk reports (free blocks, mount flags) do not cover quotas, reserved blocks and
failing hardware.
"""

from __future__ import annotations

import errno
import os
import tempfile

_BY_ERRNO = {
    errno.ENOSPC: "disk-full",
    errno.EDQUOT: "disk-full",
    errno.EROFS: "read-only",
    errno.EFBIG: "disk-full",  # a limit on the size of a file, like `ulimit -f`
    errno.EIO: "io-error",
    errno.ESTALE: "io-error",
    errno.EMFILE: "io-error",
    errno.ENFILE: "io-error",
}


def refusal(error: BaseException | None) -> str | None:
    """Return the protocol's code for a disk error that may pass; None for any other error."""
    return _BY_ERRNO.get(error.errno or 0) if isinstance(error, OSError) else None


FILE_LIMIT_HINT = "raise the limit on open files (`ulimit -n`, `LimitNOFILE=` of a systemd unit)"


def remedy(error: OSError) -> str:
    """Return what a user can do about an error that may pass, as the beginning of a hint."""
    if error.errno == errno.EMFILE:
        return FILE_LIMIT_HINT
    if error.errno == errno.ENFILE:
        return "end other programs: the system has no more open files"
    return "free some space or repair the disk"


PROBE_BYTES = 64 * 1024  # enough for an index file or the beginning of a copy


def probe_write(directory: str) -> None:
    """Write PROBE_BYTES to the disk and discard them. Raises the OSError of a write that fails.

    The file is unnamed if the system supports that, so that no other program sees it.
    """
    with tempfile.TemporaryFile(dir=directory, prefix=".memoryd-") as file:
        file.write(bytes(PROBE_BYTES))
        file.flush()
        os.fsync(file.fileno())
