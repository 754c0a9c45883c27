"""One look at everything beneath a root: the truth that events only hint at."""

from __future__ import annotations

import errno
import math
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field

from memoryd.core.plan import Fingerprint
from memoryd.disk.nodes import NotBeneathError, fingerprint_of

DEEPEST = 1000  # levels; each directory is walked to from the root, so the cost grows with the square


@dataclass(frozen=True, slots=True)
class Scan:
    """One look at a whole root.

    `files`: regular files. `directories`: path -> (dev, inode), the root as "". `irregular`: links, FIFOs,
    sockets, devices and directories of other devices, none of them entered. `unreadable`: directories and
    files that could not be looked at (or not to their end): what was known beneath them is still to be
    believed. `skipped`: directories left out. `whole` is False where there are more files than were wanted.
    """

    files: dict[str, Fingerprint]
    directories: dict[str, tuple[int, int]]
    irregular: tuple[str, ...]
    unreadable: tuple[str, ...]
    skipped: tuple[str, ...] = ()
    whole: bool = True


@dataclass(slots=True)
class _Found:
    """A `Scan` in the making."""

    files: dict[str, Fingerprint] = field(default_factory=dict)
    directories: dict[str, tuple[int, int]] = field(default_factory=dict)
    irregular: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def scan(
    open_directory: Callable[[str], int],
    identity: tuple[int, int],
    skip_dir: Callable[[str], bool],
    most: float = math.inf,
) -> Scan:
    """Walk from "" down; `open_directory(path)` gives descriptors, `skip_dir(path)` says what is left out. With more
    than `most` files it stops.

    Raises OSError when the root itself cannot be read: an empty answer would read as "all was deleted".
    One directory is open at a time, so depth costs time but no descriptors.
    """
    found = _Found()
    waiting = [""]
    while waiting and len(found.files) <= most:
        path = waiting.pop()
        try:
            fd = open_directory(path)
        except OSError as error:
            _explain(error, path, found)
            continue
        try:
            below = _enter(fd, path, identity[0], found)
            for name in below:
                (found.skipped if skip_dir(name) else waiting).append(name)
        except OSError as error:
            _explain(error, path, found)
        finally:
            os.close(fd)
    odd = tuple(found.irregular), tuple(found.unreadable), tuple(found.skipped)
    return Scan(found.files, found.directories, *odd, whole=len(found.files) <= most)


def _enter(fd: int, path: str, device: int, found: _Found) -> list[str]:
    """File the directory and its entries; the directories below it, none when it is not to be entered."""
    own = os.fstat(fd)
    if own.st_dev != device or path.count("/") >= DEEPEST:
        found.irregular.append(path)
        return []
    found.directories[path] = (own.st_dev, own.st_ino)
    prefix = f"{path}/" if path else ""
    below: list[str] = []
    with os.scandir(fd) as entries:
        for entry in entries:
            name = prefix + entry.name
            try:
                if entry.is_dir(follow_symlinks=False):
                    below.append(name)
                    continue
                state = entry.stat(follow_symlinks=False)
            except OSError as error:
                _explain(error, name, found)
                continue
            if stat.S_ISREG(state.st_mode):
                found.files[name] = fingerprint_of(state)
            else:
                found.irregular.append(name)
    return below


def _explain(error: OSError, path: str, found: _Found) -> None:
    """What a failed look at `path` means: gone (nothing), swapped for a link, or unknown."""
    if not path:
        raise error
    if isinstance(error, NotBeneathError):
        found.irregular.append(path)
    elif error.errno not in (errno.ENOENT, errno.ENOTDIR):
        found.unreadable.append(path)
