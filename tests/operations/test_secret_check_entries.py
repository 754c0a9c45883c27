"""In a topic file the whole entry is judged as it will stand there, labels made of field names included."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from memoryd.core.defaults import Policy
from memoryd.errors import SensitiveError
from memoryd.layouts.protocol import NewMemory
from memoryd.operations import memories
from memoryd.operations.memories import Context
from memoryd.operations.refresh import refresh
from memoryd.store import Store
from tests.layouts.contract import NOW

WHERE = {"topic": "a", "subtopic": "b"}
SMUGGLED: tuple[Mapping[str, Any], ...] = ({"password": 12345}, {"api key": [1, 2]}, {"bearer_x": "zzz"})
MakeStore = Callable[[str | None], Store]


@pytest.fixture
def make_store(tmp_path: Path) -> Iterator[MakeStore]:
    made: list[Store] = []

    def make(secrets: str | None = None) -> Store:
        (tmp_path / "memory").mkdir()
        made.append(
            Store("m", str(tmp_path / "memory"), "markdown-topics", Policy(secrets=secrets), str(tmp_path / "s"))
        )
        made[-1].attach()
        return made[-1]

    yield make
    for store in made:
        store.close()


def _add(store: Store, memory: Mapping[str, Any], *, allow_words: bool = False) -> str:
    identity = memories.add(store, NewMemory(memory, WHERE), NOW, Context(allow_words=allow_words)).id
    refresh(store, None, NOW)
    return identity


@pytest.mark.parametrize("secrets", [None, "literal"])
@pytest.mark.parametrize("more", SMUGGLED, ids=lambda more: next(iter(more)))
def test_a_field_name_that_makes_the_entry_a_secret_is_refused(
    make_store: MakeStore, tmp_path: Path, secrets: str | None, more: Mapping[str, Any]
) -> None:
    store = make_store(secrets)
    with pytest.raises(SensitiveError):
        _add(store, {"title": "Deploy notes", **more})
    assert not (tmp_path / "memory/a/b.md").exists()
    identity = _add(store, {"title": "Deploy notes", "context": "staging"})
    before = (tmp_path / "memory/a/b.md").read_bytes()
    with pytest.raises(SensitiveError):
        memories.update(store, identity, more, NOW, Context())
    assert (tmp_path / "memory/a/b.md").read_bytes() == before


def test_allowed_words_stay_allowed_in_later_changes(make_store: MakeStore, tmp_path: Path) -> None:
    """The other entries of the file are not judged."""
    store = make_store(None)
    identity = _add(store, {"title": "Deploy notes", "password": 12345}, allow_words=True)
    _add(store, {"title": "Another", "context": "staging"})
    with pytest.raises(SensitiveError):
        memories.update(store, identity, {"context": "live"}, NOW, Context())
    memories.update(store, identity, {"context": "live"}, NOW, Context(allow_words=True))
    assert b"**Context:** live" in (tmp_path / "memory/a/b.md").read_bytes()


def test_entries_are_stored_if_checks_are_off(make_store: MakeStore) -> None:
    assert _add(make_store("off"), {"title": "Deploy notes", "password": 12345})
