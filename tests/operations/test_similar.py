"""Search by a vector instead of words, over several roots, with separate users."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from memoryd.core.index import FileRow
from memoryd.core.records import Document, Record
from memoryd.core.spans import Fingerprint, Span
from memoryd.errors import BusyError, NotFoundError, UsageError
from memoryd.index.sqlite import SqliteIndex
from memoryd.operations.search import SearchQuery, search, similar_to_memory, similar_to_vector
from memoryd.operations.search_scope import SearchRoot
from memoryd.search.embedding.static import Static
from memoryd.search.modes import SearchEngine
from memoryd.search.semantic import SemanticSearch

NOW = 1_767_225_600.0


def put(
    catalogue: SqliteIndex, path: str, memories: dict[str, tuple[str, tuple[float, ...] | None]], owner: str
) -> None:
    records = tuple(
        Record(
            Span(n, n + 1), 1, name, "note", "", NOW, NOW, (), False, {}, text=text, owner=owner, embedding=embedding
        )
        for n, (name, (text, embedding)) in enumerate(memories.items())
    )
    row = FileRow(path, "source", Fingerprint(1, 1, 1, 1, 1), "0", records=len(records))
    catalogue.replace(row, Document(path, records))


@pytest.fixture
def places(tmp_path: Path) -> Iterator[list[SearchRoot]]:
    """One root of ordinary memories, one of users with their own vectors."""
    plain, users = SqliteIndex(str(tmp_path / "plain.db")), SqliteIndex(str(tmp_path / "users.db"))
    texts = {"disk": "the disk of the build server is full", "space": "no storage left on jenkins", "nuts": "peanuts"}
    put(plain, "a", {name: (text, None) for name, text in texts.items()}, "")
    static = Static()
    rows = plain.missing_vectors(static.name, 0, 10)
    vectors = static.embed([text for _, text in rows])
    plain.put_vectors(static.name, [(key, vector) for (key, _), vector in zip(rows, vectors, strict=True)])
    put(users, "ann", {"a1": ("one", (1.0, 0, 0)), "a2": ("two", (0.9, 0.1, 0)), "a3": ("bare", None)}, "ann")
    put(users, "bob", {"b1": ("three", (0.8, 0.2, 0))}, "bob")
    yield [
        SearchRoot("plain", plain, "jsonl-store", "ok", 1, 0),
        SearchRoot("users", users, "user-document", "ok", 1, 0),
    ]
    plain.close()
    users.close()


def search_by(places: list[SearchRoot], **given: Any) -> list[str]:
    engine = SearchEngine(SemanticSearch(Static()))
    answer = search(places, SearchQuery("", **given), now=NOW, clock=lambda: 0.0, engine=engine)
    return [hit.id for hit in answer.hits]


def test_memories_like_one_are_those_near_to_its_vector_without_itself(places: list[SearchRoot]) -> None:
    like, but = similar_to_memory(places, "disk", None)
    assert search_by(places, like=like, excluded=but) == ["space", "nuts"]
    assert search_by(places, like=like) == ["disk", "space", "nuts"]
    assert search_by(places, like=like, excluded=but, limit=1) == ["space"], "the one left out takes no place"


def test_a_root_whose_vectors_cannot_be_compared_says_so(
    places: list[SearchRoot], monkeypatch: pytest.MonkeyPatch
) -> None:
    def reasons(vector: list[float], user: str | None = None) -> list[object]:
        request = SearchQuery("", like=similar_to_vector(vector), user=user)
        engine = SearchEngine(SemanticSearch(Static()))
        answer = search(places, request, now=NOW, clock=lambda: 0.0, engine=engine)
        return [fresh.withheld for fresh in answer.fresh.values()]

    assert reasons([1, 0, 0])[0] == "no memory was compared: no vectors of 3 numbers here"
    assert reasons([1, 0], "ann")[1] == "no memory was compared: no vectors of 2 numbers here"
    assert reasons([1, 0, 0], "ann") == [UNSET, UNSET]
    monkeypatch.setitem(sys.modules, "simsimd", None)
    why = str(reasons([1, 0, 0], "ann")[1])
    assert why.startswith("no memory was compared: the vectors cannot be compared: ")
    assert why.endswith("; reinstall memoryd")


def test_memories_of_a_user_are_compared_within_that_user(places: list[SearchRoot]) -> None:
    like, but = similar_to_memory(places, "a1", "ann")
    assert search_by(places, like=like, excluded=but, user="ann") == ["a2"]
    assert search_by(places, like=similar_to_vector([1, 0, 0]), user="ann") == ["a1", "a2"]
    assert search_by(places, like=similar_to_vector([1e39, 0, 0]), user="ann") == ["a1", "a2"], (
        "longer than 32 bits hold"
    )
    assert search_by(places, like=similar_to_vector([1, 0, 0])) == [], "of several users one has to be named"


def test_invalid_vectors_and_ids(places: list[SearchRoot]) -> None:
    with pytest.raises(NotFoundError):
        similar_to_memory(places, "nobody", None)
    with pytest.raises(NotFoundError):
        similar_to_memory(places, "b1", "ann")
    with pytest.raises(UsageError, match="has no vector"):
        similar_to_memory(places, "a3", "ann")
    for numbers in ([], ["x"], [0, 0], [float("nan")], [True]):
        with pytest.raises(UsageError, match="vector"):
            similar_to_vector(numbers)
    assert search_by(places, like=similar_to_vector([1, 2])) == [], "no vectors of that size"


@pytest.mark.parametrize("behind", [{"lag_ms": 5}, {"state": "starting"}, {"state": "scanning"}])
def test_a_memory_is_not_called_missing_while_its_root_is_still_being_indexed(
    places: list[SearchRoot], behind: dict[str, Any]
) -> None:
    plain = replace(places[0], **behind)
    with pytest.raises(BusyError, match="plain is still being indexed"):
        similar_to_memory([plain], "nobody", None)
    assert similar_to_memory([plain], "disk", None)[1][0] == "plain"
