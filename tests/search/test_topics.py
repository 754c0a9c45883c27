"""Topic files are ranked by the points of seed 001, which are settings."""

from __future__ import annotations

from math import exp
from pathlib import Path

import pytest
from msgspec.structs import replace

from memoryd.core.query import Mode
from memoryd.operations.search import SearchQuery, search
from memoryd.search import ranking
from memoryd.search.modes import SearchEngine
from memoryd.search.semantic import SemanticSearch
from tests.search.stored import NOW, Stored, memory
from tests.search.test_semantic import Letters, fill


@pytest.fixture
def topics(tmp_path: Path) -> Stored:
    return Stored(tmp_path / "c.sqlite", "markdown-topics")


def points(stored: Stored, query: str, **more: object) -> dict[str, float]:
    return {hit["id"]: hit["why"]["points"] for hit in stored.hits(query, **more)}


def test_three_for_each_word_and_recency_by_the_day(topics: Stored) -> None:
    topics.put(memory("a", "zebra giraffe", age=0), memory("b", "zebra", age=10), memory("c", "zebra", age=None))
    found = points(topics, "giraffe zebra")
    assert found["a"] == pytest.approx(3 + 3 + 1, abs=0.001)
    assert found["b"] == pytest.approx(3 + exp(-1), abs=0.001)
    assert found["c"] == 3


def test_five_for_the_context_two_for_a_tag_one_for_five_uses(topics: Stored) -> None:
    topics.put(
        memory("context", "zebra", labels=("animals",), age=None),
        memory("tagged", "zebra", tags=("animals",), age=None),
        memory("used", "zebra animals", uses=11, age=None),
    )
    assert points(topics, "zebra animal") == {"context": 3 + 3 + 5, "tagged": 3 + 3 + 2, "used": 3 + 3 + 2}
    assert topics.ids("zebra animal")[0] == "context"


def test_a_word_of_the_path_is_worth_more_than_one_of_the_text(topics: Stored) -> None:
    topics.put(memory("text", "authentication here", age=1), memory("topic", "else", labels=("authentication",), age=1))
    assert topics.ids("authentication") == ["topic", "text"]


@pytest.mark.parametrize("query", ["giraffe zebra", "zebra animal", "elephants giraffes zebra", "Zebra élan C++"])
def test_a_word_counts_whether_the_index_lists_its_memories_or_not(
    topics: Stored, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.put(
        memory("both", "giraffes and a zebra", title="Elephants", age=1),
        memory("one", "an Elan in C++", labels=("animals",), age=2),
        memory("tagged", "zebras", tags=("elephant",), age=3),
    )
    read = points(topics, query)
    monkeypatch.setattr(ranking, "FEW_READ", 0)
    assert points(topics, query) == read, "the index lists its memories"
    monkeypatch.setattr(ranking, "MAX_KEYS", -1)
    assert points(topics, query) == read, "they are too many to be listed"
    assert read


def test_points_part_what_the_text_does_not(topics: Stored) -> None:
    topics.put(memory("old", "zebra zebra", age=300), memory("new", "a zebra, once", age=0))
    assert topics.ids("zebra") == ["new", "old"]


def test_the_whole_question_word_by_word_earns_a_match_and_its_context(topics: Stored) -> None:
    topics.put(memory("apart", "stripes of a zebra", age=0), memory("phrase", "the zebra stripes again", age=1000))
    assert topics.ids("zebra stripes") == ["phrase", "apart"]


def test_the_points_decide_also_over_a_phrase(topics: Stored) -> None:
    topics.put(
        memory("near", "of zebras and stripes: a zebra has stripes", labels=("zebra",), age=0, uses=100),
        memory("phrase", "the zebra stripes again", age=1000),
    )
    assert topics.ids("zebra stripes") == ["near", "phrase"]


@pytest.mark.parametrize("mode", ["text", "hybrid", "semantic"])
def test_points_decide_in_every_mode_and_meaning_adds_what_comes_below(topics: Stored, mode: Mode) -> None:
    topics.put(
        memory("old", "zebra abab", age=180),
        memory("older", "zebra abab abab zebra", age=181),
        memory("newest", "zebra ccc, said long after all of these words", age=2),
        memory("meant", "abab", age=0),
    )
    fill(topics.catalogue, Letters())
    asked = SearchQuery("zebra", mode=mode)
    engine = SearchEngine(SemanticSearch(Letters()))
    found = search([topics.place], asked, now=NOW, clock=lambda: 0.0, engine=engine).hits
    assert [hit.id for hit in found] == ["newest", "old", "older", *(["meant"] if mode != "text" else [])]
    scores = [hit.score for hit in found]
    assert scores == sorted(scores, reverse=True)
    text = search([topics.place], replace(asked, max_tokens=1000), now=NOW, clock=lambda: 0.0, engine=engine).embedding
    assert isinstance(text, str)
    assert text.index("ccc") < text.index("abab")


def test_vectors_are_not_compared_if_words_find_enough(topics: Stored) -> None:
    topics.put(memory("a", "zebra abab"), memory("b", "zebra"), memory("meant", "abab"))
    fill(topics.catalogue, Letters())
    letters = Letters()
    for limit, calls in ((2, 0), (3, 1)):
        asked = SearchQuery("zebra", mode="hybrid", limit=limit)
        engine = SearchEngine(SemanticSearch(letters))
        assert len(search([topics.place], asked, now=NOW, clock=lambda: 0.0, engine=engine).hits) == limit
        assert letters.calls == calls
    engine = SearchEngine(SemanticSearch(None, "off by configuration"))
    asked = SearchQuery("zebra", mode="hybrid", limit=2)
    hits = search([topics.place], asked, now=NOW, clock=lambda: 0.0, engine=engine).hits
    assert [hit.why["semantic"] for hit in hits] == ["off by configuration"] * 2


def test_the_points_are_settings(topics: Stored) -> None:
    topics.put(memory("text", "authentication here", age=1), memory("topic", "else", labels=("authentication",), age=1))
    topics.policy = replace(topics.policy, score_context=0.0, score_keyword=10.0)
    found = points(topics, "authentication")
    assert found["text"] == found["topic"] == pytest.approx(10 + exp(-0.1), abs=0.001)


def test_the_scale_is_that_of_other_roots(topics: Stored) -> None:
    topics.put(memory("all", "zebra giraffe lion", age=None), memory("one", "lion", age=None))
    scores = {hit["id"]: hit["score"] for hit in topics.hits("lion zebra giraffe")}
    assert scores["all"] == pytest.approx(0.5, abs=0.02)
    assert 0.2 < scores["one"] < 0.3
