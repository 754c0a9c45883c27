"""Taking a lock whose existence is the lock, in the form of the program that invented it: a file made with O_EXCL
holding `{"pid": ..., "started_at": ...}`. It is given back only while it is still the file we made."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from memoryd.core.dates import iso
from memoryd.errors import BusyError


@contextmanager
def hold_soft(dir_fd: int, name: str, wall: Callable[[], float] = time.time) -> Iterator[None]:
    """Raises BusyError when the file is there, whoever made it: the sweep clears what is provably left over."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(name, flags, 0o600, dir_fd=dir_fd)
    except FileExistsError as error:
        hint = "`memoryd lock list` shows who; a dead holder's is cleared by the lock sweep"
        raise BusyError(f"`{name}` is held by another program", hint=hint, data={"path": name}) from error
    try:
        os.write(fd, json.dumps({"pid": os.getpid(), "started_at": iso(wall())}).encode())
        yield
    finally:
        ours = os.fstat(fd)
        os.close(fd)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.stat(name, dir_fd=dir_fd, follow_symlinks=False), ours):
                os.unlink(name, dir_fd=dir_fd)
