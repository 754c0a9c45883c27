"""The shipped table is as good as its figures say, and the joined arms are no worse than the better one."""

from __future__ import annotations

import hashlib
import json

import pytest

from memoryd.search.embedding.static import HEAD, SIZE, TABLE, Static, Table
from memoryd.search.embedding.vocabulary import DIRECTORY, known_words
from tests.bench.quality import FIGURES, MODES, SETS, Quality, measure, quality

MARGIN = 0.02


@pytest.fixture(scope="module")
def measured() -> dict[str, dict[str, Quality]]:
    return measure(Static())


def test_the_figures_beside_the_table_are_those_of_the_table(measured: dict[str, dict[str, Quality]]) -> None:
    """Rounding of another processor may turn a rank or two around, no more."""
    kept = json.loads(FIGURES.read_text(encoding="utf-8"))
    assert kept["model"] == Static.name
    assert kept["sha256"] == hashlib.sha256(TABLE.read_bytes()).hexdigest()
    for name in SETS:
        for mode in MODES:
            told = Quality(**kept["figures"][name][mode])
            assert measured[name][mode] == pytest.approx(told, abs=MARGIN), (name, mode)


def test_paraphrases_are_found(measured: dict[str, dict[str, Quality]]) -> None:
    assert measured["paraphrases"]["hybrid"].mrr >= 0.60
    assert measured["paraphrases"]["text"].mrr < 0.2, (
        "words alone find next to nothing: the questions are what they say"
    )


@pytest.mark.parametrize("name", SETS)
def test_both_arms_together_are_no_worse_than_the_better_one(
    measured: dict[str, dict[str, Quality]], name: str
) -> None:
    arms = measured[name]
    assert arms["hybrid"].mrr >= max(arms["text"].mrr, arms["semantic"].mrr) - MARGIN


def test_by_keyword_both_are_never_below_the_text(measured: dict[str, dict[str, Quality]]) -> None:
    arms = measured["keywords"]
    assert arms["hybrid"] >= arms["text"]
    assert arms["hybrid"].first == 1


def test_the_measure() -> None:
    assert quality([1, 2, None, 4]) == Quality(0.438, 0.25, 0.5)


def test_the_table_has_a_row_for_each_word_it_knows() -> None:
    table = Table()
    assert (table.rows, table.size) == (len(known_words()), SIZE)
    assert TABLE.stat().st_size == HEAD.size + table.rows * (2 + SIZE)


def test_it_says_where_it_comes_from() -> None:
    notice = (DIRECTORY / "NOTICE").read_text(encoding="utf-8")
    for word in (
        "all-MiniLM-L6-v2",
        "Apache License, Version 2.0",
        "WordNet",
        "python -m tests.tools.distill",
    ):
        assert word in notice
    assert "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION" in (DIRECTORY / "LICENSE").read_text(
        encoding="utf-8"
    )
