"""A disk that refuses is told apart from missing rights."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

import pytest

from memoryd.disk.refusal import refusal


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "disk-full"),
        (errno.EDQUOT, "disk-full"),
        (errno.EROFS, "read-only"),
        (errno.EIO, "io-error"),
        (errno.EACCES, None),
        (errno.EPERM, None),
        (errno.ENOENT, None),
    ],
)
def test_of_the_operating_system(number: int, code: str | None) -> None:
    assert refusal(OSError(number, "x"), "/") == code


def test_of_sqlite(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "full")
    db.execute("PRAGMA max_page_count = 2")
    with pytest.raises(sqlite3.OperationalError) as full:
        db.executescript("".join(f"CREATE TABLE t{number} (x);" for number in range(99)))
    db.close()
    assert refusal(full.value, str(tmp_path)) == "disk-full"
    with pytest.raises(sqlite3.OperationalError) as nowhere:
        sqlite3.connect(tmp_path / "no" / "place").execute("SELECT 1")
    assert refusal(nowhere.value, str(tmp_path)) is None
    assert refusal(ValueError("a bug"), str(tmp_path)) is None
