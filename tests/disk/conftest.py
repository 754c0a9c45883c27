"""What several tests of the disk start with; nothing that one of them opens stays open behind it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.disk.journal import Journal


@pytest.fixture(autouse=True)
def journals(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Journal]]:
    """Those that the test opens, some of them to be left as by a kill; all are closed at its end."""
    opened: list[Journal] = []
    real = Journal.__init__

    def remembering(self: Journal, path: str) -> None:
        real(self, path)
        opened.append(self)

    monkeypatch.setattr(Journal, "__init__", remembering)
    yield opened
    for journal in opened:
        journal.close()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    """A descriptor of the temporary directory."""
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)
