"""Reading beneath one root, through directory descriptors.

Every path is walked component by component with O_NOFOLLOW from a descriptor opened once, so neither a
symlink nor a directory swapped between look and use leads out of the root. Only regular files are opened:
a FIFO named like a memory would block the worker for ever, a device may act on being opened.

Paths are relative, POSIX, `os.fsdecode`d (names need not be UTF-8 and may hold newlines); "" is the root.
"""

from __future__ import annotations

import errno
import math
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from types import TracebackType
from typing import Self

from memoryd.core.plan import Fingerprint
from memoryd.disk.nodes import (
    MB,
    ChangingError,
    NotBeneathError,
    NotRegularError,
    TooLargeError,
    fingerprint_of,
    look,
    open_directory,
    open_regular,
    parts_of,
    pread_all,
)
from memoryd.disk.scan import Scan, scan
from memoryd.disk.syscalls import born_ns, sync_directory

__all__ = [
    "MB",
    "ChangingError",
    "NotBeneathError",
    "NotRegularError",
    "Presence",
    "Scan",
    "TooLargeError",
    "Tree",
]

ATTEMPTS = 3  # reads of a file that changes meanwhile


class Presence(StrEnum):
    """What the root's path shows. Only `missing` is proof of absence; `unreadable` is "could not look"."""

    SAME = "same"
    MISSING = "missing"
    REPLACED = "replaced"
    UNREADABLE = "unreadable"


class Tree:
    """One root, opened once. While it is open its inode number is not given to another directory, so
    `identity` stays proof of "the same directory" for as long as the tree lives."""

    def __init__(self, path: str) -> None:
        if not path.startswith("/"):
            raise ValueError(f"a root is an absolute real path: {path!r}")
        self.path = path
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        found = os.fstat(self.fd)
        self.identity: tuple[int, int] = (found.st_dev, found.st_ino)
        self.born_ns = born_ns(self.fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the root; a second call does nothing."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def twin(self) -> Tree:
        """The same directory by a descriptor of its own, for another thread; whoever gets it closes it. Raises
        FileNotFoundError where this one was closed meanwhile: then its number may be another file's already."""
        twin = Tree.__new__(Tree)
        twin.path, twin.identity, twin.born_ns = self.path, self.identity, self.born_ns
        twin.fd = os.dup(self.fd) if self.fd >= 0 else -1
        found = os.fstat(twin.fd) if twin.fd >= 0 else None
        if found is None or (found.st_dev, found.st_ino) != self.identity:
            twin.close()
            raise FileNotFoundError(errno.ENOENT, "the directory was closed", self.path)
        return twin

    def presence(self) -> Presence:
        """Is the path still this directory? Never raises: what cannot be looked at is `unreadable`."""
        try:
            found = os.stat(self.path)
        except OSError as error:
            return Presence.MISSING if error.errno in (errno.ENOENT, errno.ENOTDIR) else Presence.UNREADABLE
        if (found.st_dev, found.st_ino) != self.identity:
            return Presence.REPLACED
        # Our open descriptor can still list it, but nothing in it can be looked at.
        effective = os.access in os.supports_effective_ids
        may_look = os.access(self.path, os.R_OK | os.X_OK, effective_ids=effective)
        return Presence.SAME if may_look else Presence.UNREADABLE

    @contextmanager
    def parent(self, path: str) -> Iterator[tuple[int, str]]:
        """(descriptor of the directory that holds `path`, last name); the descriptor is only lent."""
        *folders, name = parts_of(path)
        if not folders:
            yield self.fd, name
            return
        fd = self._walk(folders)
        try:
            yield fd, name
        finally:
            os.close(fd)

    def open_directory(self, path: str) -> int:
        """A new descriptor of a directory, "" for the root; the caller closes it.

        The root is opened afresh as ".": a copy made by `dup` would share its reading position with other
        threads that list it.
        """
        return self._walk(parts_of(path) if path else ["."])

    def _walk(self, folders: list[str]) -> int:
        here = -1
        try:
            for index, name in enumerate(folders):
                base = self.fd if here < 0 else here
                below = open_directory(base, name, "/".join(folders[: index + 1]))
                here, above = below, here
                if above >= 0:
                    os.close(above)
        except BaseException:
            if here >= 0:
                os.close(here)
            raise
        return here

    def stat(self, path: str) -> Fingerprint | None:
        """Fingerprint of a regular file, None when it or a directory above it is gone."""
        try:
            with self.parent(path) as (directory, name):
                return look(directory, name, path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read(self, path: str, *, limit: int = 64 * MB, growing: bool = False) -> tuple[bytes, Fingerprint]:
        """All bytes and the fingerprint they belong to. Both are of one moment: size, mtime and inode are
        the same before and after, at the descriptor and at the name. With `growing` a file that others
        append to without a pause is read as far as it went when the reading began; the next look finds it
        changed. Raises FileNotFoundError, NotRegularError, TooLargeError, ChangingError, or what the disk
        says."""
        with self.parent(path) as (directory, name):
            for _ in range(ATTEMPTS):
                fd = open_regular(directory, name, path)
                try:
                    before = fingerprint_of(os.fstat(fd))
                    if before.size > limit:
                        raise TooLargeError(path, before.size, limit)
                    content = pread_all(fd, 0, before.size + 1)
                    after = fingerprint_of(os.fstat(fd))
                finally:
                    os.close(fd)
                there = look(directory, name, path)
                still = before.same_content(after) and before.same_content(there)
                if still and len(content) == before.size:
                    return content, after
            if growing and there and before.size <= min(len(content), after.size) and before.same_file(there):
                return content[: before.size], before
        raise ChangingError(path)

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Bytes [start, start + length), fewer at the end of the file."""
        with self.parent(path) as (directory, name):
            fd = open_regular(directory, name, path)
            try:
                return pread_all(fd, start, length)
            finally:
                os.close(fd)

    def read_span(self, path: str, start: int, length: int) -> tuple[bytes, Fingerprint]:
        """As `read_range`, with the fingerprint of the file that the bytes belong to: both are of one moment.
        Raises ChangingError where it is written meanwhile."""
        with self.parent(path) as (directory, name):
            fd = open_regular(directory, name, path)
            try:
                before = fingerprint_of(os.fstat(fd))
                content = pread_all(fd, start, length)
                if not before.same_content(fingerprint_of(os.fstat(fd))):
                    raise ChangingError(path)
                return content, before
            finally:
                os.close(fd)

    def scan(self, skip_dir: Callable[[str], bool], most: float = math.inf) -> Scan:
        """Look at everything beneath the root but directories that `skip_dir(path)` refuses, and no further where there
        are more than `most` files; see `Scan`.
        Raises OSError when the root cannot be read or was removed."""
        found = scan(self.open_directory, self.identity, skip_dir, most)
        self._still_linked()
        return found

    def _still_linked(self) -> None:
        # The C library reports a removed directory as an empty one.
        if os.fstat(self.fd).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, "the root was removed", self.path)

    def listdir(self, path: str) -> list[str]:
        """Names in a directory in no order, [] when it is missing ("" is the root, which must be there)."""
        try:
            fd = self.open_directory(path)
        except (FileNotFoundError, NotADirectoryError):
            if not path:
                raise
            return []
        try:
            names = os.listdir(fd)
        finally:
            os.close(fd)
        if not path:
            self._still_linked()
        return names

    def mkdir(self, path: str, mode: int = 0o700) -> list[str]:
        """Make a directory and those above it, durably; the paths that were made, top first."""
        made: list[str] = []
        parts = parts_of(path)
        for depth in range(1, len(parts) + 1):
            step = "/".join(parts[:depth])
            with self.parent(step) as (directory, name):
                with suppress(FileExistsError):  # what stands there is judged by opening it
                    os.mkdir(name, mode, dir_fd=directory)
                    made.append(step)
                    sync_directory(directory)
                os.close(open_directory(directory, name, step))
        return made

    def chmod(self, path: str, mode: int) -> None:
        """Set the permission bits of a directory or a regular file with one name, both our own.

        PermissionError for other people's files and for hard links, whose other name may lie outside.
        """
        fd = self._open_for_mode(path)
        try:
            found = os.fstat(fd)
            linked = stat.S_ISREG(found.st_mode) and found.st_nlink != 1
            if found.st_uid != os.geteuid() or linked:
                raise PermissionError(errno.EPERM, "not ours alone, its mode stays", path)
            os.fchmod(fd, mode)
        finally:
            os.close(fd)

    def mode_of(self, path: str) -> int:
        """The permission bits of a file or directory (of a link: its own), "" for the root."""
        if not path:
            return stat.S_IMODE(os.fstat(self.fd).st_mode)
        with self.parent(path) as (directory, name):
            return stat.S_IMODE(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)

    def owner_of(self, path: str) -> int:
        """The user that owns a file or directory (a link itself), "" for the root."""
        if not path:
            return os.fstat(self.fd).st_uid
        with self.parent(path) as (directory, name):
            return os.stat(name, dir_fd=directory, follow_symlinks=False).st_uid

    def _open_for_mode(self, path: str) -> int:
        if not path:
            return self.open_directory(path)
        with self.parent(path) as (directory, name):
            if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
                return open_directory(directory, name, path)
            return open_regular(directory, name, path)

    def unlink(self, path: str) -> None:
        """Remove a name (of a link: the link); FileNotFoundError when missing. No check, no sync: for
        memory files use `atomic.remove`."""
        with self.parent(path) as (directory, name):
            os.unlink(name, dir_fd=directory)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        with self.parent(path) as (directory, name):
            os.rmdir(name, dir_fd=directory)
