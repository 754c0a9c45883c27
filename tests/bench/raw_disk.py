"""What the disk itself takes: the least that makes an append, a new file and a rewrite durable."""

from __future__ import annotations

import os
import time
from pathlib import Path


class RawDisk:
    """Everything happens in one new directory, which should lie on the disk that is compared with."""

    def __init__(self, place: Path, *, grown: bytes, slower_s: float = 0.0) -> None:
        """`grown`: what the file that is appended to holds already, and the one that is rewritten. `slower_s`: so much
        longer each sync takes, as that of a slower disk."""
        self._slower_s = slower_s
        place.mkdir()
        self._place = place
        self._number = 0
        self._folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        self._appended = os.open(place / "appended", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._content = grown
        os.write(self._appended, grown)
        os.fsync(self._appended)

    def append(self, line: bytes) -> None:
        """A write and an fsync on a file that stays open."""
        os.write(self._appended, line)
        self._sync(self._appended)

    def create(self, content: bytes) -> None:
        """A new file, and its name in the folder."""
        self._number += 1
        self._written(self._place / f"made-{self._number}", content)
        self._sync(self._folder)

    def rewrite(self, size: int) -> None:
        """So many bytes beside a file, then in its place."""
        content = (self._content * (size // max(1, len(self._content)) + 1))[:size]
        self._written(self._place / "rewritten.tmp", content)
        os.rename(self._place / "rewritten.tmp", self._place / "rewritten")
        self._sync(self._folder)

    def _written(self, path: Path, content: bytes) -> None:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(file, content)
            self._sync(file)
        finally:
            os.close(file)

    def _sync(self, fd: int) -> None:
        os.fsync(fd)
        if self._slower_s:
            time.sleep(self._slower_s)

    def close(self) -> None:
        os.close(self._appended)
        os.close(self._folder)
