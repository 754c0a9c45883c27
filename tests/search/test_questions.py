"""The questions themselves: enough of them, hard enough for words, and no two answers alike."""

from __future__ import annotations

from statistics import mean

from tests.search.questions import Asked, content_words, distractors, keywords, mixed, paraphrases


def shared(asked: Asked) -> int:
    return len(content_words(asked.question) & content_words(asked.memory))


def test_there_are_enough() -> None:
    assert len(paraphrases()) >= 120
    assert len(keywords()) >= 60
    assert len(mixed()) >= 40
    assert len(distractors()) >= 1000


def test_a_paraphrase_shares_at_most_one_word_with_its_memory() -> None:
    assert max(map(shared, paraphrases())) <= 1
    assert mean(map(shared, paraphrases())) < 0.5
    assert mean(map(shared, mixed())) > 1.5, "the same measure finds words that are shared"


def test_no_two_memories_are_alike() -> None:
    """A distractor that nearly says what an answer says would make its question unfair."""
    answers = [each.memory for each in (*paraphrases(), *keywords(), *mixed())]
    everything = [*answers, *distractors()]
    assert len(set(everything)) == len(everything)
    theirs = [content_words(text) for text in distractors()]
    for answer in answers:
        mine = content_words(answer)
        assert max(len(mine & other) / len(mine | other) for other in theirs) < 0.5, answer


def test_distractors_are_the_same_in_every_run_and_of_many_kinds() -> None:
    assert distractors() == distractors()
    words = set[str]().union(*map(content_words, distractors()))
    assert len(words) > 1400
