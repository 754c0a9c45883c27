"""The version of an index file that was replaced last, kept to be overwritten by the version after next.

To overwrite a file that has its blocks takes a third of the time of a new file of 4 MB, because nothing is allocated,
journalled or freed. The spare file is in the state directory, so that no directory of memories ever shows it, and it
becomes the live file by an exchange of the two names.

A program may still read the spare file, which it opened while that was the live one. So it is overwritten only under a
write lease: the kernel grants one to the sole opener, and whoever has looked the name up but not opened the file yet
waits until the content is complete. Without leases, or with the state directory on another file system, there is no
spare file, and each version is a new file.

Nor is a file overwritten that an earlier process left: if that process was killed right after an exchange, the file is
still the live one on the disk, and would be again, half overwritten, after a power failure.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, suppress

from memoryd.core.spans import Content, Fingerprint
from memoryd.disk.syscalls import REGULAR, end_lease, exchange, fingerprint_of, sync_file, take_lease
from memoryd.disk.temps import copy_metadata, write_content

# Not blocking: a program that has a lease on the file would otherwise be waited for, up to 45 seconds.
_FLAGS = os.O_RDWR | REGULAR


class SpareFile:
    """The spare file of one index file; `path` is absolute, in the state directory."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._supported = True
        self._overwritable = False  # there is a file, and the disk, too, knows it as no live one

    def fill(self, content: Content, *, like: int, pause: Callable[[], None]) -> Fingerprint | None:
        """Write the content, complete and on disk, with the owner, mode and attributes of the open file `like`. None if
        there can be no spare file; nothing is left of it then."""
        fd = self._open(os.fstat(like).st_dev) if self._supported else None
        if fd is None:
            return None
        try:
            write_content(fd, content, pause)
            os.ftruncate(fd, os.lseek(fd, 0, os.SEEK_CUR))
            copy_metadata(fd, like)
            sync_file(fd)
            return fingerprint_of(os.fstat(fd))
        except OSError:
            self.discard()  # a new file, next to the live one, shows whether the disk is at fault
            return None
        finally:
            end_lease(fd)  # also where a child that is just being started has a copy of the descriptor
            os.close(fd)

    def exchange(self, directory: int, name: str) -> bool:
        """Exchange this file with the live one, `name` in an open directory. False if the system refuses that. The file
        is not overwritten before `confirm`: on the disk, it may still be the live one."""
        self._overwritable = False
        try:
            # In this order: watchers of the directory see the name go and come back, not come and go.
            exchange(directory, name, self._path)
        except FileNotFoundError:
            raise
        except OSError:  # a rename within the directory may be allowed
            self._supported = False
            self.discard()
            return False
        return True

    def confirm(self) -> None:
        """Allow the file to be overwritten: the directory of the live file is synced."""
        self._overwritable = True

    def state(self) -> Fingerprint:
        """Return the fingerprint of the file."""
        return fingerprint_of(os.lstat(self._path))

    def discard(self) -> None:
        """Remove the file. If that fails, it stays and is never overwritten."""
        self._overwritable = False
        with suppress(OSError):
            os.unlink(self._path)

    def _open(self, device: int) -> int | None:
        """Open the file under a lease, or a new one if another program has it open or as a further link."""
        fd = self._open_under_lease(_FLAGS, device) if self._overwritable else None
        if fd is None and self._supported:
            self.discard()
            fd = self._open_under_lease(_FLAGS | os.O_CREAT | os.O_EXCL, device)
        if not self._supported:
            self.discard()
        self._overwritable = fd is not None
        return fd

    def _open_under_lease(self, flags: int, device: int) -> int | None:
        """Open the file if it is on this device and nobody else has it. None if not, or if the state directory is full
        or read-only: its own writes report that."""
        with suppress(OSError), ExitStack() as unless_used:
            fd = os.open(self._path, flags, 0o600)
            unless_used.callback(os.close, fd)
            alone, found = take_lease(fd), os.fstat(fd)
            self._supported = alone is not None and found.st_dev == device
            if self._supported and alone and found.st_nlink == 1:
                unless_used.pop_all()
                return fd
        return None
