"""The engines that the contract is asked of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from memoryd.core.index import IndexWriter
from memoryd.index.sqlite import open_index
from tests.index.toy import ToyIndex

ENGINES: dict[str, Callable[[Path], IndexWriter]] = {
    "sqlite": lambda path: open_index(str(path)),
    "toy": lambda _: ToyIndex(),
}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], IndexWriter]]:
    """Opens an empty index by its name; all are closed at the end."""
    with ExitStack() as opened:
        yield lambda name: opened.enter_context(closing(ENGINES[request.param](tmp_path / name)))


@pytest.fixture
def index(engine: Callable[[str], IndexWriter]) -> IndexWriter:
    """An empty one."""
    return engine("index")
