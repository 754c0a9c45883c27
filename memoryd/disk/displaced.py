"""The inode that an exchange put aside, watched for what others still append to it.

A program that opened the file before our rename goes on writing into the old inode, and what it writes
there would vanish without a word. So the old inode keeps a temporary name and an open descriptor until
nobody else has it open; bytes past the length we read are carried into the live file by the caller.
"""

from __future__ import annotations

import hashlib
import os

from memoryd.disk.nodes import MB, pread_all
from memoryd.disk.syscalls import is_proven_only_opener, only_opener
from memoryd.disk.temps import unlink_if


class Displaced:
    """A displaced file. The caller's loop: `late(known)`, append it to the live file, `known` grows; once
    `only_ours()`, one more `late`, then `close()`. After kill -9 the temporary name remains, and with it the
    bytes; see `temps` for what the recovery at the next start does.

    `path`: of the live file. `temp`: the name the old inode has beside it, None where the file system
    could not keep one. `base_size`: bytes of it that the rewrite was decided on.
    """

    def __init__(self, directory: int, temp: str | None, fd: int, path: str, *, base_size: int, digest: str) -> None:
        """Takes copies of both descriptors."""
        self.path = path
        self.temp = temp
        self.base_size = base_size
        self._digest = digest
        self._directory = os.dup(directory)
        try:
            self._fd = os.dup(fd)
        except OSError:
            os.close(self._directory)
            raise

    def late(self, known: int) -> bytes:
        """Bytes past `known`, b"" when there are none."""
        more = os.lseek(self._fd, 0, os.SEEK_END) - known  # of all that fstat tells only the size is asked, and often
        return pread_all(self._fd, known, more) if more > 0 else b""

    def intact(self) -> bool:
        """Are the first `base_size` bytes what they were? False when a program wrote in place instead of
        appending; then the whole old inode, not only its end, holds somebody's change."""
        return digest_of(self._fd, self.base_size) == self._digest

    def only_ours(self) -> bool:
        """Has nobody else the inode open, so that nothing more can come?"""
        return only_opener(self._fd, os.path.basename(self.path))

    def is_proven_ours(self) -> bool:
        """As `only_ours`, where the kernel vouches for it: then there is nothing to wait for."""
        return is_proven_only_opener(self._fd)

    def close(self) -> None:
        """Remove the temporary name and let the inode go; whatever was not taken with `late` goes with it."""
        if self._fd < 0:
            return
        if self.temp is not None:
            unlink_if(self._directory, self.temp, self._fd)
        self.leave()

    def leave(self) -> None:
        """Let go of the descriptors but leave the name on disk, for the recovery at the next start."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
            os.close(self._directory)

    def close_if_silent(self, known: int | None = None) -> bool:
        """`close()` if nobody has the inode open and nothing came after `known` (default `base_size`); False
        when there is more to watch. In that order: a writer may write and close between two other looks."""
        if self._fd < 0:
            return True
        if not self.only_ours() or self.late(self.base_size if known is None else known):
            return False
        self.close()
        return True


def digest_of(fd: int, size: int) -> str:
    """SHA-256 (hex) of the first `size` bytes of an open file."""
    digest, start = hashlib.sha256(), 0
    while start < size and (piece := pread_all(fd, start, min(MB, size - start))):
        digest.update(piece)
        start += len(piece)
    return digest.hexdigest()
