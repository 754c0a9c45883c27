"""A root to search in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.search.stored import Stored, all_closed


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    with all_closed():
        yield


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    return Stored(tmp_path / "catalogue.sqlite")
