"""Safe access to the files below one root, through directory descriptors.

Every path is walked component by component with O_NOFOLLOW from a descriptor opened once, so neither a
symlink nor a directory swapped between check and use leads out of the root. Only regular files are opened:
a FIFO named like a memory would block the worker forever, and opening a device may have side effects.

Paths are relative, POSIX, `os.fsdecode`d (names need not be UTF-8 and may contain newlines); "" is the root.
"""

from __future__ import annotations

import errno
import math
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING, Self

from memoryd.core.defaults import MB
from memoryd.core.spans import Fingerprint
from memoryd.disk.scan import Scan, scan
from memoryd.disk.syscalls import (
    ChangingError,
    NotBeneathError,
    NotRegularError,
    TooLargeError,
    birth_time_ns,
    fingerprint_of,
    inherit_owner,
    lstat,
    open_directory,
    open_found,
    open_regular,
    parts_of,
    pread_all,
    sync_directory,
)

if TYPE_CHECKING:
    from memoryd.core.digest import Hash

ATTEMPTS = 3  # reads of a file that changes meanwhile


class PathState(StrEnum):
    """State of the root's path. Only `missing` proves absence; `unreadable` means that it could not be checked."""

    SAME = "same"
    MISSING = "missing"
    REPLACED = "replaced"
    UNREADABLE = "unreadable"


class Tree:
    """One root, opened once. While it is open its inode number is not reused, so `identity` proves "the same
    directory" for the lifetime of the tree."""

    def __init__(self, path: str) -> None:
        if not path.startswith("/"):
            raise ValueError(f"a root is an absolute real path: {path!r}")
        self.path = path
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        status = os.fstat(self.fd)
        self.identity: tuple[int, int] = (status.st_dev, status.st_ino)
        self.birth_time_ns = birth_time_ns(self.fd)
        self.max_bytes = 64 * MB  # size limit of a file that is read

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the root; a second call does nothing."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def duplicate(self) -> Tree:
        """Return a second tree of this directory, for another thread; the caller closes it. Raises FileNotFoundError if
        this one was closed meanwhile: its descriptor number may then refer to another file."""
        other = Tree.__new__(Tree)
        other.path, other.identity, other.birth_time_ns = self.path, self.identity, self.birth_time_ns
        other.max_bytes = self.max_bytes
        other.fd = os.dup(self.fd) if self.fd >= 0 else -1
        status = os.fstat(other.fd) if other.fd >= 0 else None
        if status is None or (status.st_dev, status.st_ino) != self.identity:
            other.close()
            raise FileNotFoundError(errno.ENOENT, "the directory was closed", self.path)
        return other

    def path_state(self) -> PathState:
        """Return whether the path still refers to this directory. Never raises: a failed check gives `unreadable`."""
        try:
            status = os.stat(self.path)
        except OSError as error:
            return PathState.MISSING if error.errno in (errno.ENOENT, errno.ENOTDIR) else PathState.UNREADABLE
        if (status.st_dev, status.st_ino) != self.identity:
            return PathState.REPLACED
        # Without these permissions the open descriptor can still list the directory, but not read its files.
        effective = os.access in os.supports_effective_ids
        readable = os.access(self.path, os.R_OK | os.X_OK, effective_ids=effective)
        return PathState.SAME if readable else PathState.UNREADABLE

    @contextmanager
    def parent(self, path: str) -> Iterator[tuple[int, str]]:
        """Yield (descriptor of the directory that contains `path`, last component)."""
        *directories, name = parts_of(path)
        if not directories:
            yield self.fd, name
            return
        fd = self._walk(directories)
        try:
            yield fd, name
        finally:
            os.close(fd)

    def open_directory(self, path: str) -> int:
        """Open a directory, "" for the root; the caller closes it.

        The root is opened again as ".": a descriptor from `dup` would share its read position with other threads
        that list it.
        """
        return self._walk(parts_of(path) if path else ["."])

    def _walk(self, directories: list[str]) -> int:
        here = -1
        try:
            for index, name in enumerate(directories):
                base = self.fd if here < 0 else here
                below = open_directory(base, name, "/".join(directories[: index + 1]))
                here, above = below, here
                if above >= 0:
                    os.close(above)
        except BaseException:
            if here >= 0:
                os.close(here)
            raise
        return here

    def stat(self, path: str) -> Fingerprint | None:
        """Return the fingerprint of a regular file, or None if it or a directory above it is missing."""
        try:
            with self.parent(path) as (directory, name):
                return lstat(directory, name, path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def find(self, path: str) -> Fingerprint | None:
        """Return the fingerprint as `stat` does, but None as well where a link, directory or special file is in the
        way."""
        try:
            return self.stat(path)
        except (NotBeneathError, NotRegularError):
            return None

    def read(self, path: str, *, limit: int | None = None, growing: bool = False) -> tuple[bytes, Fingerprint]:
        """Return all bytes and the fingerprint they belong to, as of one moment: size, mtime and inode are equal before
        and after the read, for the descriptor and for the path. With `growing`, a file that other programs append to
        without a pause is read up to its size at the start; the next check sees that it has changed. Raises
        FileNotFoundError, NotRegularError, TooLargeError, ChangingError, or OSError."""
        max_bytes = self.max_bytes if limit is None else limit
        with self.parent(path) as (directory, name):
            for _ in range(ATTEMPTS):
                fd = open_regular(directory, name, path)
                try:
                    before = fingerprint_of(os.fstat(fd))
                    if before.size > max_bytes:
                        raise TooLargeError(path, before.size, max_bytes)
                    content = pread_all(fd, 0, before.size + 1)  # one more: stale attributes of a network file system
                    after = fingerprint_of(os.fstat(fd))
                finally:
                    os.close(fd)
                current = lstat(directory, name, path)
                stable = before.same_content(after) and before.same_content(current)
                if stable and len(content) == before.size:
                    return content, after
            if growing and current and before.size <= min(len(content), after.size) and before.same_file(current):
                return content[: before.size], before
        raise ChangingError(path)

    @contextmanager
    def scanned(self) -> Iterator[ScannedFiles]:
        """Yield a reader of files that a scan has just found."""
        files = ScannedFiles(self)
        try:
            yield files
        finally:
            files.close()

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return bytes [start, start + length), fewer at the end of the file."""
        with self.parent(path) as (directory, name):
            fd = open_regular(directory, name, path)
            try:
                return pread_all(fd, start, length)
            finally:
                os.close(fd)

    def read_span(self, path: str, start: int, length: int) -> tuple[bytes, Fingerprint]:
        """Read as `read_range`, with the fingerprint of the file that the bytes belong to: both are of one moment.
        Raises ChangingError if it is written meanwhile."""
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

    def read_grown(
        self, path: str, size: int, hash_start: Callable[[int, int], Hash | None]
    ) -> tuple[Hash, bytes, Fingerprint]:
        """Return the SHA-256 of the first `size` bytes, of which none is kept, and the bytes after them, with the
        fingerprint that these had when they were read: a program may append to the file without a pause. Raises
        ChangingError if it is replaced or truncated meanwhile, or if `hash_start` (descriptor, size) returns None."""
        with self.parent(path) as (directory, name):
            fd = open_regular(directory, name, path)
            try:
                before = fingerprint_of(os.fstat(fd))
                digest = hash_start(fd, size)
                added = pread_all(fd, size, before.size - size)
            finally:
                os.close(fd)
            current = lstat(directory, name, path)
        same = current is not None and before.same_file(current) and before.size <= current.size
        if digest is None or not same or size + len(added) != before.size:
            raise ChangingError(path)
        return digest, added, before

    def scan(
        self,
        skip_dir: Callable[[str], bool],
        max_files: float = math.inf,
        *,
        only: Callable[[str], bool] | None = None,
    ) -> Scan:
        """Walk everything below the root except directories for which `skip_dir(path)` is true; stop after more than
        `max_files` files. With `only`, files for whose path it is false are left out and cost no `stat`. See `Scan`.
        Raises OSError if the root cannot be read or was removed."""
        result = scan(self.open_directory, self.identity[0], skip_dir, max_files, only=only)
        self._require_linked()
        return result

    def _require_linked(self) -> None:
        # The C library reports a removed directory as an empty one.
        if os.fstat(self.fd).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, "the root was removed", self.path)

    def listdir(self, path: str) -> list[str]:
        """Return the names in a directory, unordered; [] if it is missing ("" is the root, which must exist)."""
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
            self._require_linked()
        return names

    def mkdir(self, path: str, mode: int | Callable[[str], int] = 0o700) -> list[str]:
        """Create a directory and its missing parents, durably; return the created paths, top first. `mode` applies
        regardless of the umask, and an inherited setgid bit stays; a callable gives it for each path."""
        parts = parts_of(path)
        steps = ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
        return [step for step in steps if self._make_directory(step, mode)]

    def _make_directory(self, path: str, mode: int | Callable[[str], int]) -> bool:
        """Create a directory whose parent exists; False if it exists already."""
        with self.parent(path) as (directory, name):
            created = True
            try:
                os.mkdir(name, 0o700, dir_fd=directory)
            except FileExistsError:
                created = False
            fd = open_directory(directory, name, path)  # also checks what exists there
            try:
                if created:
                    if not os.listdir(fd):  # else its owner has put another one in its place
                        inherit_owner(fd, directory)
                    inherited = os.fstat(fd).st_mode & stat.S_ISGID
                    os.fchmod(fd, (mode if isinstance(mode, int) else mode(path)) | inherited)
                    sync_directory(directory)
            finally:
                os.close(fd)
        return created

    def chmod(self, path: str, mode: int) -> None:
        """Set the permission bits of a directory, or of a regular file with one link; both must belong to us.

        Raises PermissionError for files of other users and for hard links, whose other name may be outside the root.
        """
        fd = self._open_for_mode(path)
        try:
            status = os.fstat(fd)
            linked = stat.S_ISREG(status.st_mode) and status.st_nlink != 1
            if status.st_uid != os.geteuid() or linked:
                raise PermissionError(
                    errno.EPERM, "belongs to another user or has another hard link; its mode was not changed", path
                )
            os.fchmod(fd, mode)
        finally:
            os.close(fd)

    def mode_of(self, path: str) -> int:
        """Return the permission bits of a file or directory (of a link: its own), "" for the root."""
        return stat.S_IMODE(self._status(path).st_mode)

    def owner_of(self, path: str) -> int:
        """Return the user that owns a file or directory (a link itself), "" for the root."""
        return self._status(path).st_uid

    def _status(self, path: str) -> os.stat_result:
        if not path:
            return os.fstat(self.fd)
        with self.parent(path) as (directory, name):
            return os.stat(name, dir_fd=directory, follow_symlinks=False)

    def _open_for_mode(self, path: str) -> int:
        if not path:
            return self.open_directory(path)
        with self.parent(path) as (directory, name):
            if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
                return open_directory(directory, name, path)
            return open_regular(directory, name, path)

    def unlink(self, path: str) -> None:
        """Unlink a path (for a symlink: the link). Raises FileNotFoundError. No check, no sync: for memory files use
        `atomic.remove`."""
        with self.parent(path) as (directory, name):
            os.unlink(name, dir_fd=directory)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        with self.parent(path) as (directory, name):
            os.rmdir(name, dir_fd=directory)


class ScannedFiles:
    """Reads files that a scan has found, with half of the system calls of `Tree.read`. The directory of the last file
    stays open: the next one is mostly there too."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._directory = ""
        self._fd = -1

    def read(self, path: str, found: Fingerprint) -> bytes | None:
        """Return all bytes of a file that is as it was found, from before the read until after it. None for any other:
        `Tree.read` tells what it is."""
        if found.size > self._tree.max_bytes:
            return None
        directory, _, name = path.rpartition("/")
        try:
            if directory != self._directory or self._fd < 0:
                self._open(directory)
            if os.stat(name, dir_fd=self._fd, follow_symlinks=False).st_ino != found.inode:
                return None  # not opened: it may be a FIFO by now
            fd = open_found(self._fd, name)
            try:
                content = os.pread(fd, found.size + 1, 0)
                same = fingerprint_of(os.fstat(fd)) == found
            finally:
                os.close(fd)
        except OSError:
            return None
        return content if same and len(content) == found.size else None

    def _open(self, directory: str) -> None:
        self.close()
        self._fd, self._directory = self._tree.open_directory(directory), directory

    def close(self) -> None:
        """Close the directory."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
