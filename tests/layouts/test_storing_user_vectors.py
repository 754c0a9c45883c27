"""Storing into user documents: what is refused, and the vector that a memory is stored with."""

from __future__ import annotations

import math
from typing import Any

import pytest

from memoryd.errors import InvalidMemoryError
from tests.layouts.contract import document
from tests.layouts.storehouse import rules
from tests.layouts.test_user_document import ALICE, doc, item, text
from tests.layouts.user_storing import PLAIN, STORE, VECTOR, add, added, embedder, last_of

TEA = {"content": "drinks", "embedding": VECTOR}


def refusal(memory: dict[str, Any], data: bytes = PLAIN) -> dict[str, str]:
    with pytest.raises(InvalidMemoryError) as refused:
        add({ALICE: data}, memory)
    return rules(refused.value)


class TestRefused:
    @pytest.mark.parametrize(
        ("memory", "fields"),
        [
            ({}, ["content"]),
            ({"content": "", "importance": 1.5, "topics": "x"}, ["content", "importance", "topics"]),
            ({"content": 3, "category": 4, "id": -1}, ["id", "content", "category"]),
            ({"content": "x", "importance": True, "id": "7"}, ["id", "importance"]),
            ({"content": "x", "topics": ["a", 1]}, ["topics"]),
            ({"content": "x", "extra": math.nan, "importance": math.nan}, ["importance", "extra"]),
            ({"content": "\ud800", "extra": {"a": {1}}}, ["content", "extra"]),
            ({"content": "x", "importance": 2, "embedding": [1]}, ["importance", "embedding"]),
            ({"data": {"content": "x", "importance": 2}, "embedding": "no"}, ["importance", "embedding"]),
        ],
    )
    def test_every_field_that_breaks_a_rule_is_named(self, memory: dict[str, Any], fields: list[str]) -> None:
        assert list(refusal(memory)) == fields

    @pytest.mark.parametrize(
        "vector",
        [[], [1.0, 2.0], [1, 2, 3, 4], [0, 0.0, 0], [1, math.inf, 0], [True, 1, 1], ["1", 2, 3], 3, [10**400, 1, 1]],
    )
    def test_a_vector_has_the_size_of_the_file_is_finite_and_not_zero(self, vector: Any) -> None:
        assert list(refusal({"content": "x", "embedding": vector})) == ["embedding"]

    def test_the_first_vector_of_a_file_sets_the_size(self) -> None:
        data = added({ALICE: text(doc())}, {"content": "x", "embedding": [1, 2]})
        assert document(STORE, ALICE, data).facts["dimension"] == 2


class TestEmbedded:
    def test_without_one_it_is_made_in_the_size_of_the_file(self) -> None:
        sizes: list[int] = []

        def embed(content: str, size: int) -> list[float]:
            sizes.append(size)
            return [float(len(content)), *([0.5] * (size - 1))]

        added({}, {"content": "x"}, "alice", embed=embed)
        assert sizes == [384]
        mine = text(doc(item("likes tea", (9.0, 0.5, 0.5))))
        assert last_of(added({ALICE: mine}, {"content": "four"}, embed=embed))["embedding"] == [4.0, 0.5, 0.5]
        assert set(sizes[1:]) == {3}

    def test_with_no_embedder_of_that_size_it_says_what_to_do(self) -> None:
        for files, size, hint in (({}, 384, 'embedder = "minilm"'), ({ALICE: PLAIN}, 3, "`embedding`")):
            with pytest.raises(InvalidMemoryError, match=f"embedding: missing, .* {size} numbers") as refused:
                add(files, {"content": "x"}, "files/alice")
            assert hint in str(refused.value.hint)
            assert refused.value.rpc_code == -32011

    def test_vectors_of_two_models_are_never_mixed(self) -> None:
        """A stored memory must re-embed to a cosine of 0.95; one of three is enough."""
        with pytest.raises(InvalidMemoryError, match="did not make the vectors"):
            add({ALICE: PLAIN}, {"content": "x"}, embed=embedder)
        vector = tuple(embedder("has a dog", 3) or ())
        mixed = text(doc(item("reworded since", (1.0, -1.0, 0.0)), item("has a dog", vector)))
        assert last_of(added({ALICE: mixed}, {"content": "x"}, embed=embedder))["embedding"] == embedder("x", 3)

    @pytest.mark.parametrize("made", [[1.0], [0.0] * 3, [math.nan, 1.0, 1.0]])
    def test_a_vector_that_is_none_is_not_stored(self, made: list[float]) -> None:
        with pytest.raises(InvalidMemoryError):
            add({ALICE: PLAIN}, {"content": "x"}, embed=lambda text, size: made)

    def test_one_that_is_given_needs_no_embedder(self) -> None:
        def embed(content: str, size: int) -> list[float]:
            pytest.fail("nothing is embedded")

        added({ALICE: PLAIN}, TEA, embed=embed)
