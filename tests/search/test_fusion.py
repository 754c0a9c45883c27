"""Both arms as one ranking."""

from __future__ import annotations

from typing import cast

import pytest

from memoryd.search import semantic
from memoryd.search.ranking import ALL, PHRASE, SOME, Candidate, Span
from memoryd.search.semantic import MIN_SCORE, MIN_TEXT_SCORE, SemanticMatch


def text(key: int, span: Span, score: float) -> Candidate:
    return Candidate(key, score, {"match": span.name})


def together(by_text: list[Candidate], by_meaning: dict[int, SemanticMatch], limit: int = 100) -> list[Candidate]:
    return semantic.fuse(by_text, by_meaning, limit)


def test_the_best_few_are_the_first_of_all() -> None:
    """Each with what made its score; of equals what came in last."""
    by_text = [text(1, ALL, 0.6), text(2, PHRASE, 0.8), text(7, SOME, 0.4), text(8, SOME, 0.4)]
    meant = {key: SemanticMatch(0.5, 0.5, "m") for key in (1, 3, 4, 8)}
    every = together(by_text, meant)
    assert [each.key for each in every] == [2, 1, 7, 8, 4, 3]
    assert [together(by_text, meant, few) for few in range(7)] == [every[:few] for few in range(7)]
    assert every[1].why == {"match": ALL.name, "semantic": meant[1].why()}
    assert every[4].why == {"semantic": meant[4].why()}


def test_a_phrase_match_ranks_first_whatever_its_meaning() -> None:
    """Vectors cover the beginning of a memory; the words may be far behind it."""
    by_text = [text(1, PHRASE, PHRASE.low), text(2, ALL, ALL.high), text(3, ALL, ALL.high)]
    found = together(
        by_text, {1: SemanticMatch(0.0, 0.0, "m"), 2: SemanticMatch(1.0, 1.0, "m"), 4: SemanticMatch(1.0, 1.0, "m")}
    )
    assert found[0].key == 1
    assert all(0 <= each.score <= 1 for each in found)


def test_among_those_that_say_it_meaning_counts() -> None:
    by_text = [text(1, PHRASE, 0.8), text(2, PHRASE, 0.8)]
    assert [each.key for each in together(by_text, {1: SemanticMatch(0.9, None, "m")})] == [1, 2]


@pytest.mark.parametrize("meant", [SemanticMatch(0.5, None, "m"), SemanticMatch(0.5, 0.5, "m")])
def test_what_both_arms_find_beats_what_one_finds(meant: SemanticMatch) -> None:
    found = together([text(1, ALL, 0.6), text(2, ALL, 0.6)], {1: meant, 3: meant})
    assert [each.key for each in found] == [1, 2, 3]


def test_what_is_only_faintly_alike_is_not_found() -> None:
    whole, words = (
        SemanticMatch(MIN_TEXT_SCORE - 0.01, None, "m"),
        SemanticMatch(MIN_SCORE - 0.01, MIN_SCORE - 0.01, "m"),
    )
    found = together([text(1, ALL, 0.6)], {1: SemanticMatch(0.1, None, "m"), 2: whole, 3: words})
    assert [each.key for each in found] == [1]
    assert (
        len(
            together(
                [],
                {
                    1: SemanticMatch(MIN_TEXT_SCORE, None, "m"),
                    2: SemanticMatch(MIN_SCORE + 0.01, MIN_SCORE + 0.01, "m"),
                },
            )
        )
        == 2
    ), "the canary"


def test_a_word_in_common_does_not_outweigh_what_is_meant() -> None:
    found = together([text(1, SOME, SOME.high)], {1: SemanticMatch(0.5, 0.3, "m"), 2: SemanticMatch(0.6, 0.5, "m")})
    assert [each.key for each in found] == [2, 1]


def test_a_name_without_a_meaning_outweighs_what_is_meant() -> None:
    named = {1: SemanticMatch(0.2, 0.3, "m", named=True), 2: SemanticMatch(0.7, 0.7, "m")}
    found = together([text(1, SOME, SOME.low)], named)
    assert [each.key for each in found] == [1, 2]
    why = [cast("dict[str, object]", each.why["semantic"]) for each in found]
    assert why[0]["named"] is True
    assert "named" not in why[1]
