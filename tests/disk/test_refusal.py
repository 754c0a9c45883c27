"""Disk errors are distinguished from missing permissions."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from memoryd.core.index import IndexUnavailable
from memoryd.disk.disk_errors import refusal
from memoryd.index.sqlite.database import Database


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "disk-full"),
        (errno.EDQUOT, "disk-full"),
        (errno.EFBIG, "disk-full"),
        (errno.EROFS, "read-only"),
        (errno.EIO, "io-error"),
        (errno.EACCES, None),
        (errno.EPERM, None),
        (errno.ENOENT, None),
    ],
)
def test_of_the_operating_system(number: int, code: str | None) -> None:
    assert refusal(OSError(number, "x")) == code


def test_of_an_index(tmp_path: Path) -> None:
    with pytest.raises(IndexUnavailable) as full:
        fill(tmp_path / "full")
    assert refusal(full.value) == "disk-full"
    with pytest.raises(OSError, match=r"unable to open|No such file") as nowhere:
        Database(str(tmp_path / "no" / "place"))
    assert refusal(nowhere.value) is None
    with pytest.raises(IndexUnavailable, match="unable to open") as gone:
        Database(str(tmp_path / "gone"), read_only=True)
    assert refusal(gone.value) is None
    assert refusal(ValueError("a bug")) is None


def fill(path: Path) -> None:
    """Write into an index that may not grow."""
    db = Database(str(path))
    try:
        db.row("PRAGMA max_page_count = 2")
        for number in range(99):
            db.run(f"CREATE TABLE t{number} (x)")
    finally:
        db.close()
