"""Raw inotify through ctypes: what a program that does nothing but read the kernel's events could know, and when."""

from __future__ import annotations

import ctypes
import os
import select
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CLOSE_WRITE, MOVED_TO = 0x8, 0x80
_HEAD = struct.Struct("iIII")

# Run with `python -c READER DIRECTORY...`: reads the events of the first directory, and does nothing with them.
READER = """
import sys, time
from tests.bench.inotify import Inotify
held = [Inotify(each) for each in sys.argv[1:]]
print(flush=True)
while True:
    held[0].wait(1e6)
    time.sleep(0.02)
"""

Event = tuple[float, int, str]  # monotonic seconds when it was read, mask, name


class Inotify:
    """Watches one directory for files closed after writing and files renamed into it."""

    def __init__(self, directory: str) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0 or libc.inotify_add_watch(self._fd, os.fsencode(directory), CLOSE_WRITE | MOVED_TO) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def wait(self, timeout_s: float) -> list[Event]:
        """What has happened, as soon as anything has; empty when nothing did in time."""
        if not select.select([self._fd], [], [], timeout_s)[0]:
            return []
        now = time.monotonic()
        return [(now, mask, name) for mask, name in _parsed(os.read(self._fd, 65_536))]

    def close(self) -> None:
        os.close(self._fd)


def _parsed(data: bytes) -> Iterator[tuple[int, str]]:
    at = 0
    while at < len(data):
        _, mask, _, length = _HEAD.unpack_from(data, at)
        name = data[at + _HEAD.size : at + _HEAD.size + length]
        yield mask, os.fsdecode(name.rstrip(b"\0"))
        at += _HEAD.size + length


@contextmanager
def reading(*directories: Path) -> Iterator[int]:
    """Run a process that does nothing but read the events of directories; yield its id."""
    words = [sys.executable, "-c", READER, *map(str, directories)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()
