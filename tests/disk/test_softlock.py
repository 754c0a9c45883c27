"""A lock whose existence is the lock: made exclusively, honoured when there, given back only while ours."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.disk.softlock import hold_soft
from memoryd.errors import BusyError

NAME = ".archive.lock"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def test_it_names_us_while_held_and_is_gone_afterwards(folder: int, tmp_path: Path) -> None:
    with hold_soft(folder, NAME, wall=lambda: 0.0):
        record = json.loads((tmp_path / NAME).read_text())
        assert record == {"pid": os.getpid(), "started_at": "1970-01-01T00:00:00Z"}
        with pytest.raises(BusyError), hold_soft(folder, NAME):
            pass
    assert not (tmp_path / NAME).exists()


def test_another_program_s_lock_is_left_alone(folder: int, tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("theirs")
    with pytest.raises(BusyError, match="another program"), hold_soft(folder, NAME):
        pass
    assert (tmp_path / NAME).read_text() == "theirs"


def test_a_lock_that_was_replaced_is_not_ours_to_remove(folder: int, tmp_path: Path) -> None:
    with hold_soft(folder, NAME):
        (tmp_path / NAME).unlink()
        (tmp_path / NAME).write_text("theirs")
    assert (tmp_path / NAME).read_text() == "theirs"


def test_a_link_is_not_followed(folder: int, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("precious")
    (tmp_path / NAME).symlink_to("target")
    with pytest.raises(BusyError), hold_soft(folder, NAME):
        pass
    assert (tmp_path / "target").read_text() == "precious"
