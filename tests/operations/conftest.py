"""Each test gets a store of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memoryd.core.defaults import Policy
from memoryd.core.records import Document, ParseOffset
from memoryd.layouts.jsonl_store import JsonlReader
from tests.operations.world import World

MakeWorld = Callable[[Policy], World]


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[MakeWorld]:
    made: list[World] = []

    def make(policy: Policy) -> World:
        made.append(World(tmp_path / str(len(made)), policy))
        return made[-1]

    yield make
    for world in made:
        world.store.close()


def memory_disk() -> str | None:
    """A file system in memory, if there is one: the death of a process needs no sync, and a sweep of deaths would
    make ten thousand. None for the usual place."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@pytest.fixture
def quick_path() -> Iterator[Path]:
    """A directory like `tmp_path`, for tests that make hundreds of stores."""
    with tempfile.TemporaryDirectory(prefix="memoryd-test-", dir=memory_disk()) as path:
        yield Path(path)


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    return make_world(Policy())


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The contents that are parsed from here on."""
    seen: list[bytes] = []
    real = JsonlReader.parse

    def spying(self: JsonlReader, path: str, data: bytes, *, now: float, mtime: float, base: ParseOffset) -> Document:
        seen.append(data)
        return real(self, path, data, now=now, mtime=mtime, base=base)

    monkeypatch.setattr(JsonlReader, "parse", spying)
    return seen
