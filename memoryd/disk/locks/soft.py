"""Soft locks: files whose existence is the lock, in the format of the program that introduced them."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from memoryd.core.dates import iso
from memoryd.disk.locks.file import create
from memoryd.disk.syscalls import UNSUPPORTED
from memoryd.disk.temps import temp_name
from memoryd.errors import BusyError
from memoryd.log import get_logger

log = get_logger(__name__)

_held: set[tuple[int, int]] = set()  # (device, inode) of each soft lock this process holds


def is_held_here(dev: int, inode: int) -> bool:
    """True if this process holds that soft lock."""
    return (dev, inode) in _held


@contextmanager
def hold_soft(dir_fd: int, name: str, wall: Callable[[], float] = time.time) -> Iterator[None]:
    """Hold a soft lock: a file that appears complete, in one step, containing `{"pid": ..., "started_at": ...}`. It is
    removed only if it is still our file.

    Raises BusyError if the file exists, whichever program created it: the sweep clears provably stale locks."""
    record = {"pid": os.getpid(), "started_at": iso(wall()), "host": os.uname().nodename, "owner": "memoryd"}
    try:
        fd = _publish(dir_fd, name, json.dumps(record).encode())
    except FileExistsError as error:
        hint = "`memoryd lock list` shows who; a dead holder's is cleared by the lock sweep"
        raise BusyError(f"`{name}` is held by another program", hint=hint, data={"path": name}) from error
    status = os.fstat(fd)
    identity = (status.st_dev, status.st_ino)
    _held.add(identity)
    try:
        yield
    finally:
        _held.discard(identity)
        try:
            _release(dir_fd, name, identity)
        finally:
            os.close(fd)  # not earlier: while it is open, no other file can reuse the inode number


def _publish(dir_fd: int, name: str, record: bytes) -> int:
    """Create the lock with its record in one step: a lock without a record could never be proved stale."""
    temp = temp_name(name)
    fd = create(dir_fd, temp, record)
    try:
        os.fsync(fd)
        os.link(temp, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd, follow_symlinks=False)
        os.unlink(temp, dir_fd=dir_fd)
    except BaseException as error:
        os.close(fd)
        with suppress(FileNotFoundError):
            os.unlink(temp, dir_fd=dir_fd)
        if isinstance(error, OSError) and error.errno in {*UNSUPPORTED, errno.EPERM}:
            return create(dir_fd, name, record)  # a file system without hard links
        raise
    return fd


def _release(dir_fd: int, name: str, identity: tuple[int, int]) -> None:
    """Remove the lock. Leftovers are cleared by the next sweep: this process no longer holds the recorded lock."""
    try:
        with suppress(FileNotFoundError):
            status = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
            if (status.st_dev, status.st_ino) == identity:
                os.unlink(name, dir_fd=dir_fd)
    except OSError as error:
        log.warning("could not release the lock", name=name, reason=error.strerror)
