"""What the disk refused, told apart from missing rights: a full, read-only or failing disk may take it later."""

from __future__ import annotations

import errno
import os
import sqlite3

_BY_ERRNO = {
    errno.ENOSPC: "disk-full",
    errno.EDQUOT: "disk-full",
    errno.EROFS: "read-only",
    errno.EIO: "io-error",
    errno.ESTALE: "io-error",
    errno.EMFILE: "io-error",
    errno.ENFILE: "io-error",
}
_BY_SQLITE = {sqlite3.SQLITE_FULL: "disk-full", sqlite3.SQLITE_IOERR: "io-error"}
# What SQLite says of a directory it may not write into, whatever the reason.
_AMBIGUOUS = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)


def refusal(error: BaseException | None, directory: str) -> str | None:
    """The code of a refusal that may pass, as the control protocol names it; None for any other error.

    SQLite tells no errno: where it says "read-only" or "cannot open", the file system of `directory` is asked.
    """
    if isinstance(error, OSError):
        return _BY_ERRNO.get(error.errno or 0)
    if not isinstance(error, sqlite3.Error):
        return None
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return _BY_SQLITE.get(code) or (_asked(directory) if code in _AMBIGUOUS else None)


def _asked(directory: str) -> str | None:
    try:
        found = os.statvfs(directory)
    except OSError as error:
        return _BY_ERRNO.get(error.errno or 0)
    if found.f_flag & os.ST_RDONLY:
        return "read-only"
    return "disk-full" if not found.f_bavail or (found.f_files and not found.f_favail) else None
