"""Taking a lock whose existence is the lock, in the form of the program that invented it: a file that appears whole and
at once, holding `{"pid": ..., "started_at": ...}`. It is given back only while it is still the file we made."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from memoryd.core.dates import iso
from memoryd.disk.syscalls import UNSUPPORTED
from memoryd.disk.temps import temp_name
from memoryd.errors import BusyError
from memoryd.log import get_logger

log = get_logger(__name__)

_held: set[tuple[int, int]] = set()  # device and inode of those this process is inside of


def is_held_here(dev: int, inode: int) -> bool:
    """Is this process inside that lock right now?"""
    return (dev, inode) in _held


@contextmanager
def hold_soft(dir_fd: int, name: str, wall: Callable[[], float] = time.time) -> Iterator[None]:
    """Raises BusyError when the file is there, whoever made it: the sweep clears what is provably left over."""
    record = {"pid": os.getpid(), "started_at": iso(wall()), "host": os.uname().nodename, "owner": "memoryd"}
    try:
        fd = _publish(dir_fd, name, json.dumps(record).encode())
    except FileExistsError as error:
        hint = "`memoryd lock list` shows who; a dead holder's is cleared by the lock sweep"
        raise BusyError(f"`{name}` is held by another program", hint=hint, data={"path": name}) from error
    found = os.fstat(fd)
    made = (found.st_dev, found.st_ino)
    _held.add(made)
    try:
        yield
    finally:
        _held.discard(made)
        try:
            _give_back(dir_fd, name, made)
        finally:
            os.close(fd)  # not before: as long as it is open no other file gets its number


def _publish(dir_fd: int, name: str, record: bytes) -> int:
    """The lock and its record appear in one step: a lock that names nobody could never be proved left over."""
    temp = temp_name(name)
    fd = _written(dir_fd, temp, record)
    try:
        os.fsync(fd)
        os.link(temp, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd, follow_symlinks=False)
        os.unlink(temp, dir_fd=dir_fd)
    except BaseException as error:
        os.close(fd)
        with suppress(FileNotFoundError):
            os.unlink(temp, dir_fd=dir_fd)
        if isinstance(error, OSError) and error.errno in {*UNSUPPORTED, errno.EPERM}:
            return _written(dir_fd, name, record)  # a file system without hard links
        raise
    return fd


def _written(dir_fd: int, name: str, record: bytes) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, 0o600, dir_fd=dir_fd)
    os.write(fd, record)
    return fd


def _give_back(dir_fd: int, name: str, made: tuple[int, int]) -> None:
    """What the disk keeps is cleared by the next sweep: it names us, and we are not inside."""
    try:
        with suppress(FileNotFoundError):
            found = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
            if (found.st_dev, found.st_ino) == made:
                os.unlink(name, dir_fd=dir_fd)
    except OSError as error:
        log.warning("a lock could not be given back", name=name, reason=error.strerror)
