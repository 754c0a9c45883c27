"""The walk over everything below a root: its files and directories, and what could not be read."""

from __future__ import annotations

import errno
import math
import os
import stat
from collections.abc import Callable

from msgspec import Struct, field

from memoryd.core.spans import Fingerprint
from memoryd.disk.syscalls import NotBeneathError, fingerprint_of

MAX_DEPTH = 1000  # levels; each directory is walked to from the root, so the cost is quadratic


class Scan(Struct):
    """The result of walking a whole root.

    `files`: regular files. `directories`: path -> (dev, inode), the root as "". `irregular`: links, FIFOs,
    sockets, devices and directories of other devices, none of them entered. `unreadable`: directories and
    files that could not be read (completely): earlier knowledge of what is below them stays valid.
    `skipped`: directories left out. `complete` is False if the walk stopped at the limit on files.
    """

    files: dict[str, Fingerprint] = field(default_factory=dict)
    directories: dict[str, tuple[int, int]] = field(default_factory=dict)
    irregular: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    complete: bool = True


def scan(
    open_directory: Callable[[str], int],
    device: int,
    skip_dir: Callable[[str], bool],
    max_files: float = math.inf,
    *,
    only: Callable[[str], bool] | None = None,
) -> Scan:
    """Walk down from "", not beyond `device`; `open_directory(path)` returns descriptors, `skip_dir(path)` is true for
    directories to leave out, `only(path)` for the files that are wanted. The walk stops after more than `max_files`
    files.

    Raises OSError if the root itself cannot be read: an empty result would mean that everything was deleted.
    One directory is open at a time, so depth costs time but no descriptors.
    """
    found = Scan()
    waiting = [""]
    while waiting and len(found.files) <= max_files:
        path = waiting.pop()
        try:
            fd = open_directory(path)
        except OSError as error:
            _record_error(error, path, found)
            continue
        try:
            below = _enter(fd, path, device, found, only)
            for name in below:
                (found.skipped if skip_dir(name) else waiting).append(name)
        except OSError as error:
            _record_error(error, path, found)
        finally:
            os.close(fd)
    found.complete = len(found.files) <= max_files
    return found


def _enter(fd: int, path: str, device: int, found: Scan, only: Callable[[str], bool] | None) -> list[str]:
    """Record the directory and its entries; return the directories below it, none if it is not to be entered."""
    status = os.fstat(fd)
    if status.st_dev != device or path.count("/") >= MAX_DEPTH:
        found.irregular.append(path)
        return []
    found.directories[path] = (status.st_dev, status.st_ino)
    prefix = f"{path}/" if path else ""
    below: list[str] = []
    with os.scandir(fd) as entries:
        for entry in entries:
            name = prefix + entry.name
            try:
                if entry.is_dir(follow_symlinks=False):
                    below.append(name)
                    continue
                if only is not None and not only(name):
                    continue
                state = entry.stat(follow_symlinks=False)
            except OSError as error:
                _record_error(error, name, found)
                continue
            if stat.S_ISREG(state.st_mode):
                found.files[name] = fingerprint_of(state)
            else:
                found.irregular.append(name)
    return below


def _record_error(error: OSError, path: str, found: Scan) -> None:
    """Record what an error at `path` means: gone (nothing), replaced by a link, or unknown."""
    if not path:
        raise error
    if isinstance(error, NotBeneathError):
        found.irregular.append(path)
    elif error.errno not in (errno.ENOENT, errno.ENOTDIR):
        found.unreadable.append(path)
