"""Both searches as one ranking."""

from __future__ import annotations

from collections.abc import Mapping

from memoryd.search import semantic
from memoryd.search.ranking import ALL, PHRASE, SOME, Candidate, Span
from memoryd.search.semantic import EXACT, MIN_COSINE, UNKNOWN_NAME, Meant


def text(key: int, span: Span, part: float) -> Candidate:
    return Candidate(key, part, {"match": span.name}, part)


def together(by_text: list[Candidate], cosines: Mapping[int, float], limit: int = 100) -> list[Candidate]:
    return semantic.fuse(by_text, Meant("m", cosines), limit)


def test_the_best_few_are_the_first_of_all() -> None:
    """Each with what made its score; of equals what came in last."""
    by_text = [text(1, ALL, 0.6), text(2, PHRASE, 0.8), text(7, SOME, 0.4), text(8, SOME, 0.4)]
    meant = dict.fromkeys((1, 3, 4, 7, 8), 0.5)
    every = together(by_text, meant)
    assert [each.key for each in every] == [2, 1, 8, 7, 4, 3]
    assert [together(by_text, meant, few) for few in range(7)] == [every[:few] for few in range(7)]
    assert every[1].why == {"match": ALL.name, "semantic": {"model": "m", "cosine": 0.5}}
    assert every[0].why == {"match": PHRASE.name}, "it has no vector"
    assert every[4].why == {"semantic": {"model": "m", "cosine": 0.5}}


def test_a_phrase_match_ranks_first_whatever_its_meaning() -> None:
    """Vectors cover the beginning of a memory; the words may be far behind it."""
    found = together([text(1, PHRASE, 0.1), text(2, ALL, 1.0), text(3, ALL, 1.0)], {1: -0.5, 2: 1.0, 4: 1.0})
    assert found[0].key == 1
    assert found[0].score >= EXACT >= found[1].score
    assert all(0 <= each.score <= 1 for each in found)


def test_among_those_that_say_it_meaning_counts() -> None:
    assert [each.key for each in together([text(1, PHRASE, 0.8), text(2, PHRASE, 0.8)], {1: 0.9, 2: 0.2})] == [1, 2]


def test_what_both_find_beats_what_one_finds() -> None:
    found = together([text(1, ALL, 0.6), text(2, ALL, 0.6)], {1: 0.6, 3: 0.6, 4: 0.3})
    assert [each.key for each in found] == [1, 2, 3, 4]


def test_what_is_only_faintly_alike_is_not_found() -> None:
    found = together([text(1, ALL, 0.6)], {1: 0.0, 2: MIN_COSINE - 0.01, 3: MIN_COSINE})
    assert [each.key for each in found] == [1, 3]


def test_a_word_in_common_does_not_outweigh_what_is_meant() -> None:
    assert [each.key for each in together([text(1, SOME, 0.2)], {1: 0.4, 2: 0.5})] == [2, 1]


def test_most_words_in_common_outweigh_what_is_meant() -> None:
    assert [each.key for each in together([text(1, SOME, 0.5)], {1: 0.3, 2: 0.5})] == [1, 2]


def test_a_memory_without_a_vector_counts_as_far_away() -> None:
    assert [each.key for each in together([text(1, SOME, 0.3)], {2: 0.5, 3: 0.2})] == [2, 1, 3]


def test_a_name_outweighs_what_is_meant() -> None:
    meant = Meant("m", {1: 0.2, 2: 0.7, 3: 0.2}, {1: UNKNOWN_NAME})
    found = semantic.fuse([text(1, SOME, 0.1), text(3, SOME, 0.2)], meant, 9)
    assert [each.key for each in found] == [1, 2, 3]
    assert [each.why.get("named") for each in found] == [UNKNOWN_NAME, None, None]


def test_among_memories_with_the_name_words_and_meaning_decide() -> None:
    """Also far above what a cosine alone can reach, and whichever came last."""
    texts = [text(1, ALL, 0.6), text(2, SOME, 0.4), text(3, SOME, 0.3)]
    found = semantic.fuse(texts, Meant("m", {1: 0.6, 2: 0.6, 3: 0.8}, dict.fromkeys((1, 2, 3), UNKNOWN_NAME)), 9)
    assert [each.key for each in found] == [1, 3, 2]
    scores = [round(each.score, 6) for each in found]
    assert EXACT > scores[0] > scores[1] > scores[2]


def test_a_rare_word_decides_among_similar_memories() -> None:
    texts, meant = [text(1, SOME, 0.1), text(3, SOME, 0.1)], Meant("m", {1: 0.48, 2: 0.52, 3: 0.5})
    assert [each.key for each in semantic.fuse(texts, meant, 9)] == [2, 3, 1]
    found = semantic.fuse(texts, meant._replace(rare={1: 0.05}), 9)
    assert [each.key for each in found] == [1, 2, 3]
    assert [each.why.get("rare_words") for each in found] == [0.05, None, None]
