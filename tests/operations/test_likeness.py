"""Asking by a vector in place of words, over roots, with users kept apart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.catalogue import Catalogue, FileRow
from memoryd.core.plan import Fingerprint
from memoryd.core.records import Document, Record
from memoryd.core.text import Span
from memoryd.errors import NotFoundError, UsageError
from memoryd.operations.likeness import like_memory, like_numbers
from memoryd.operations.search import Asked, Place, search
from memoryd.search.embedding.static import Static
from memoryd.search.engine import Embedded
from memoryd.search.semantic import Semantic

NOW = 1_767_225_600.0


def put(catalogue: Catalogue, path: str, memories: dict[str, tuple[str, tuple[float, ...] | None]], owner: str) -> None:
    records = tuple(
        Record(
            Span(n, n + 1), 1, name, "note", "", NOW, NOW, (), False, {}, text=text, owner=owner, embedding=embedding
        )
        for n, (name, (text, embedding)) in enumerate(memories.items())
    )
    row = FileRow(path, "source", Fingerprint(1, 1, 1, 1, 1), "0", records=len(records))
    catalogue.replace(row, Document(path, records))


@pytest.fixture
def places(tmp_path: Path) -> Iterator[list[Place]]:
    """One root of ordinary memories, one of users with vectors of their own."""
    plain, users = Catalogue(str(tmp_path / "plain.db")), Catalogue(str(tmp_path / "users.db"))
    texts = {"disk": "the disk of the build server is full", "space": "no storage left on jenkins", "nuts": "peanuts"}
    put(plain, "a", {name: (text, None) for name, text in texts.items()}, "")
    static = Static()
    rows = plain.vectors.missing(static.name, 0, 10)
    vectors = static.embed([text for _, text in rows])
    plain.vectors.put(static.name, [(key, vector) for (key, _), vector in zip(rows, vectors, strict=True)])
    put(users, "ann", {"a1": ("one", (1.0, 0, 0)), "a2": ("two", (0.9, 0.1, 0)), "a3": ("bare", None)}, "ann")
    put(users, "bob", {"b1": ("three", (0.8, 0.2, 0))}, "bob")
    yield [
        Place("plain", plain, "jsonl-store", "ok", 1, 0),
        Place("users", users, "user-document", "ok", 1, 0),
    ]
    plain.close()
    users.close()


def asked(places: list[Place], **given: Any) -> list[str]:
    engine = Embedded(Semantic(Static()))
    answer = search(places, Asked("", **given), now=NOW, clock=lambda: 0.0, engine=engine)
    return [hit["id"] for hit in answer["hits"]]


def test_memories_like_one_are_those_near_to_its_vector_without_itself(places: list[Place]) -> None:
    like, but = like_memory(places, "disk", None)
    assert asked(places, like=like, but=but) == ["space", "nuts"]
    assert asked(places, like=like) == ["disk", "space", "nuts"]
    assert asked(places, like=like, but=but, limit=1) == ["space"], "the one left out takes no place"


def test_those_of_a_user_are_compared_with_those_of_the_same_user(places: list[Place]) -> None:
    like, but = like_memory(places, "a1", "ann")
    assert asked(places, like=like, but=but, user="ann") == ["a2"]
    assert asked(places, like=like_numbers([1, 0, 0]), user="ann") == ["a1", "a2"]
    assert asked(places, like=like_numbers([1, 0, 0])) == [], "of several users one has to be named"


def test_what_cannot_be_asked_by(places: list[Place]) -> None:
    with pytest.raises(NotFoundError):
        like_memory(places, "nobody", None)
    with pytest.raises(NotFoundError):
        like_memory(places, "b1", "ann")
    with pytest.raises(UsageError, match="has no vector"):
        like_memory(places, "a3", "ann")
    for numbers in ([], ["x"], [0, 0], [float("nan")], [True]):
        with pytest.raises(UsageError, match="vector"):
            like_numbers(numbers)
    assert asked(places, like=like_numbers([1, 2])) == [], "no vectors of that size"
