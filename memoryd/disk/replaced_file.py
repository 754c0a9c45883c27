"""The inode that an exchange replaced, watched for late appends of other programs.

A program that opened the file before our rename continues to write to the old inode, and those bytes would be lost.
So the old inode keeps a temporary name and an open descriptor until no other process has it open; the caller appends
the bytes past the length we read to the live file.
"""

from __future__ import annotations

import os

from memoryd.disk.processes import is_sole_opener
from memoryd.disk.syscalls import hash_start, pread_all, sole_opener_by_lease
from memoryd.disk.temps import SAME_START, unlink_if


class ReplacedFile:
    """A replaced file. The caller's loop: `appended(known)`, append it to the live file, `known` grows; once
    `is_sole_opener()`, one more `appended`, then `close()`. After kill -9 the temporary name remains, and with it the
    bytes; see `temps` for what the recovery at the next start does.

    `path`: of the live file. `temp`: the temporary name of the old inode next to it, None if the file system
    could not keep one. `base_size`: the size that the rewrite was planned with.
    """

    def __init__(self, directory: int, temp: str | None, fd: int, path: str, *, base_size: int, digest: str) -> None:
        """Duplicate both descriptors."""
        self.path = path
        self.temp = temp
        self.base_size = base_size
        self._digest = digest
        self._mtime_ns = os.fstat(fd).st_mtime_ns
        self._directory = os.dup(directory)
        try:
            self._fd = os.dup(fd)
        except OSError:
            os.close(self._directory)
            raise

    def appended(self, known: int) -> bytes:
        """Return the bytes past `known`, b"" if there are none."""
        more = os.lseek(self._fd, 0, os.SEEK_END) - known  # called often; cheaper than fstat
        return pread_all(self._fd, known, more) if more > 0 else b""

    def unmodified(self) -> bool:
        """True if the first `base_size` bytes are unchanged; False if a program wrote in place instead of appending.
        Then its change is in the whole old inode, not only at the end."""
        return hash_start(self._fd, self.base_size).hexdigest() == self._digest

    def written_at(self) -> int | None:
        """Return the modification time (ns) if a program wrote to the inode since it was replaced, else None. Costs one
        fstat."""
        mtime_ns = os.fstat(self._fd).st_mtime_ns
        return None if mtime_ns == self._mtime_ns else mtime_ns

    def is_sole_opener(self) -> bool:
        """True if no other process has the inode open, so that no more bytes can arrive."""
        return is_sole_opener(self._fd, os.path.basename(self.path)[:SAME_START])

    def is_proven_sole_opener(self) -> bool:
        """True if the kernel proves `is_sole_opener`: no waiting is needed then."""
        return sole_opener_by_lease(self._fd) is True

    def close(self) -> None:
        """Remove the temporary name and close the inode; bytes not read with `appended` are lost."""
        if self._fd < 0:
            return
        if self.temp is not None:
            unlink_if(self._directory, self.temp, self._fd)
        self.detach()

    def detach(self) -> None:
        """Close the descriptors but leave the name on disk, for the recovery at the next start."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
            os.close(self._directory)

    def close_if_unused(self, known: int | None = None) -> bool:
        """Call `close()` if no other process has the inode open and no bytes follow `known` (default `base_size`);
        False if it must still be watched. In that order: a writer may write and close between the checks."""
        if self._fd < 0:
            return True
        if not self.is_sole_opener() or self.appended(self.base_size if known is None else known):
            return False
        self.close()
        return True
