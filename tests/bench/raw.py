"""What the disk itself takes: the least that makes an append, a new file and a rewrite durable."""

from __future__ import annotations

import os
from pathlib import Path


class RawDisk:
    """Everything happens in one new directory, which should lie on the disk that is compared with."""

    def __init__(self, place: Path, *, grown: bytes) -> None:
        """`grown`: what the file that is appended to holds already, and the one that is rewritten."""
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
        os.fsync(self._appended)

    def create(self, content: bytes) -> None:
        """A new file, and its name in the folder."""
        self._number += 1
        self._written(self._place / f"made-{self._number}", content)
        os.fsync(self._folder)

    def rewrite(self, size: int) -> None:
        """So many bytes beside a file, then in its place."""
        content = (self._content * (size // max(1, len(self._content)) + 1))[:size]
        self._written(self._place / "rewritten.tmp", content)
        os.rename(self._place / "rewritten.tmp", self._place / "rewritten")
        os.fsync(self._folder)

    def _written(self, path: Path, content: bytes) -> None:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(file, content)
            os.fsync(file)
        finally:
            os.close(file)

    def close(self) -> None:
        os.close(self._appended)
        os.close(self._folder)
