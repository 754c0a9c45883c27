"""The memories and questions that the word table was refined with."""

from __future__ import annotations

import re

from tests.bench.finding.material import HELD_OUT, HERE, memories, questions
from tests.search.questions import keywords, mixed, paraphrases
from tests.tools.distill.examples import read

FEWEST_WORDS = 4  # two people may ask the same in fewer


def words(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+", text.lower()))


def test_every_block_has_memories_and_questions() -> None:
    blocks = read()
    assert len(blocks) > 1_000
    assert all(len(block.questions) > 1 for block in blocks)


def test_nothing_that_search_is_judged_by_is_among_them_word_for_word() -> None:
    judged: list[str] = []
    for place in (HERE, *HELD_OUT):
        judged += [each.text for each in memories(place)]
        judged += [each.text for each in questions("all", place)]
    for find in (paraphrases, keywords, mixed):
        judged += [text for each in find() for text in (each.memory, each.question)]
    asked = {each for each in map(words, judged) if len(each) >= FEWEST_WORDS}
    assert len(asked) > 1_000
    assert asked.isdisjoint(words(text) for block in read() for text in (*block.memories, *block.questions))
