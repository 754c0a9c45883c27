"""The configured embedder as storing operations use it."""

from __future__ import annotations

from collections.abc import Sequence

from memoryd.core.vectors import pack_floats
from memoryd.operations.memories import vector_maker
from memoryd.search.embedding.static import pack_bytes

TOKEN = "ghp_" + "aB3dE6gH9" * 4


class Lengths:
    """An embedder whose vector is the length of a text and its number of words."""

    name, size, fast, idle_s = "lengths", 2, True, 1.0

    def __init__(self) -> None:
        self.calls = 0
        self.told: list[str] = []

    def release(self) -> None:
        """Release nothing."""

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        self.told += texts
        return [pack_floats([len(text) / 2, len(text.split())]) for text in texts]


class Bytes(Lengths):
    def embed(self, texts: Sequence[str]) -> list[bytes]:
        return [pack_bytes([2, 1]) for _ in texts]


def test_only_of_the_size_of_the_embedder() -> None:
    embed = vector_maker(Lengths())
    assert embed("one two", 384) is None
    assert embed("one two", 2) == [3.5, 2.0]
    assert vector_maker(Bytes())("one", 2) == [127.0, 64.0]


def test_a_text_without_meaning_has_no_vector() -> None:
    assert vector_maker(Lengths())("", 2) is None


def test_no_secret_leaves_for_a_server() -> None:
    made = Lengths()
    vector_maker(made)(f"it is {TOKEN}", 2)
    assert TOKEN not in made.told[0]
