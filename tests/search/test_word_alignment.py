"""Words one by one: what is fetched for all texts at once is what each word by itself would give."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.core.vectors import cosine
from memoryd.search.embedding import static
from memoryd.search.embedding.static import (
    HEAD,
    MAGIC,
    MAX_COMPARED,
    Static,
    Table,
    WordAlignment,
    rows_of,
    word_rows,
    words,
)
from tests.examples import examples

KNOWN = cache(word_rows)
TABLE = cache(Table)
APART = cache(lambda: WordAlignment(TABLE(), KNOWN()))
# Known words, words of pieces, names of words, signs, and what no row stands for.
SAID = ["disk", "full", "the", "Docker", "kubernetes", "maxRetries", "HTTPServer2", "zorbagle", "東", "🦀", "!", "12"]
texts = st.lists(st.sampled_from(SAID), max_size=9).map(" ".join)


def by_hand(question: str, text: str) -> float:
    """Compute it from the integers of the table, word by word."""
    asked, there = _each(question), _each(text)
    lengths = [sum(number * number for number in each) ** 0.5 for each in asked]
    best = [max((cosine(each, other) for other in there), default=0.0) for each in asked]
    return sum(map(float.__mul__, lengths, best)) / (sum(lengths) or 1.0)


def _each(text: str) -> list[tuple[int, ...]]:
    some = [word for word in dict.fromkeys(words(text)) if word.isalnum()][:MAX_COMPARED]
    return [TABLE().numbers(sum(map(TABLE().row, rows_of(word, KNOWN())))) for word in some]


def looked_up_words(patch: pytest.MonkeyPatch) -> list[str]:
    """The words whose rows are looked up from now on: those that are not kept."""
    found: list[str] = []

    def noted(word: str, known: Mapping[str, int]) -> Sequence[int]:
        found.append(word)
        return rows_of(word, known)

    patch.setattr(static, "rows_of", noted)
    return found


@settings(max_examples=examples(60), deadline=None)
@given(texts, st.lists(texts, min_size=1, max_size=6), st.integers(1, 5))
def test_it_is_what_each_word_by_itself_gives(question: str, some: list[str], block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(static, "BLOCK", block)
        found = WordAlignment(TABLE(), KNOWN()).align(question, some)
    assert found == pytest.approx([by_hand(question, text) for text in some], abs=1e-5)


@given(st.text(st.characters(codec="ascii"), max_size=60) | st.text(max_size=30))
def test_the_words_are_those_of_the_vocabulary_without_signs(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(static, "MAX_ALIGNED", 0)  # so that each is looked up
        looked_up = looked_up_words(patch)
        APART().align("", [text])
    assert looked_up == list(dict.fromkeys(word for word in words(text) if word.isalnum()))


def test_a_repeated_query_word_counts_once() -> None:
    assert Static().align("disk full disk", ["disk"]) == Static().align("disk full", ["disk"])


def test_scores_of_some_texts() -> None:
    static = Static()
    texts = ["Docker layers filled the disk", "peanut allergy", "", "🦀"]
    full, nuts, nothing, unknown = static.align("why was the disk full", texts)
    assert full > nuts > nothing
    assert nothing == unknown == 0
    [same] = static.align("disk", ["disk"])
    assert same == pytest.approx(1, abs=1e-5)
    assert static.align("", ["disk"]) == [0]
    assert static.align("disk", []) == []


def test_the_first_words_of_a_long_text() -> None:
    """Each counts once."""
    many = " ".join(f"{number} {number}" for number in range(MAX_COMPARED))
    inside, behind = Static().align("disk", [f"disk {many}", f"{many} disk"])
    assert inside == pytest.approx(1, abs=1e-5)
    assert behind < 0.9


def test_more_words_than_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    """All are forgotten when they become too many, with the same result."""
    texts = [f"word{number} alpha beta{number}" for number in range(40)]
    expected = Static().align("alpha word7", texts)
    monkeypatch.setattr(static, "MAX_ALIGNED", 50)
    few = WordAlignment(TABLE(), KNOWN())
    looked_up = looked_up_words(monkeypatch)
    for turn in range(20):
        assert few.align("alpha word7", texts) == pytest.approx(expected, abs=1e-6)
        few.align(f"turn{turn}", [f"text{turn}"])
    kept: set[str] = set()
    for word in looked_up:
        if word in kept:  # all were forgotten since
            kept.clear()
        kept.add(word)
        assert len(kept) <= 50 + 2 + 81
    assert len(looked_up) > len(set(looked_up))


def test_a_row_that_weighs_nothing_is_near_to_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    flat = array("b", [1, 2, 3, -3, -2, -1]).tobytes()
    path.write_bytes(HEAD.pack(MAGIC, 2, 3) + struct.pack("<2H", 0, 5) + flat)
    made = WordAlignment(Table(path), {"nothing": 0, "something": 1})
    assert made.align("something", ["nothing", "something"]) == pytest.approx([0, 1])
    assert made.align("nothing", ["nothing", "something"]) == [0, 0]
