"""A question that is wholly in quotation marks finds the memories with its phrase alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import UNSET

from memoryd.core.query import Mode
from memoryd.operations.search import SearchQuery, search
from memoryd.search.embedding.static import Static
from memoryd.search.modes import SearchEngine
from memoryd.search.semantic import SemanticSearch
from tests.search.stored import NOW, Stored, memory, search_all

TEXTS = ("the red panda sleeps", "a red and a panda", "Red pandas eat", "a red\u2011panda again", "red panda shop")


@pytest.mark.parametrize("marks", ['""', "“”", "„“", "„”", "«»", "»«"])
@pytest.mark.parametrize("mode", ["text", "hybrid", "semantic"])
@pytest.mark.parametrize("layout", ["jsonl-store", "json-files", "markdown-topics"])
def test_only_memories_with_the_phrase_are_found(tmp_path: Path, layout: str, mode: Mode, marks: str) -> None:
    stored = Stored(tmp_path / "c.sqlite", layout)
    stored.texts(*TEXTS)
    request = SearchQuery(f" {marks[0]}Red panda{marks[1]} ", mode=mode)
    engine = SearchEngine(SemanticSearch(Static()))
    found = search([stored.place], request, now=NOW, clock=lambda: 0.0, engine=engine)
    assert {hit.id for hit in found.hits} == {"m0", "m3", "m4"}
    for hit in found.hits:
        assert hit.why["match"] == "phrase"
        assert hit.why.get("semantic") == (None if mode == "text" else "the question is in quotation marks")
    assert found.missing_words is UNSET


def test_without_a_memory_with_the_phrase_the_marks_mean_nothing(stored: Stored) -> None:
    stored.texts(*TEXTS)
    assert stored.ids('"panda red"') == stored.ids("panda red") != []
    assert search_all([stored], '"red pandas unicorn"')["missing_words"] == ["unicorn"]


@pytest.mark.parametrize(
    "question", ['"red panda" sleeps', 'the "red panda"', 'red panda"', '"red" "panda"', '"red panda']
)
def test_marks_around_a_part_mean_nothing(stored: Stored, question: str) -> None:
    stored.texts(*TEXTS)
    assert len(stored.ids(question)) == len(TEXTS)


def test_a_root_without_the_phrase_shows_nothing_else(stored: Stored, tmp_path: Path) -> None:
    other = Stored(tmp_path / "other.sqlite", name="other")
    other.texts("a red and a panda", "panda")
    assert len(search_all([other], '"red panda"')["hits"]) == 2
    stored.texts("the red panda sleeps")
    for roots in ([stored, other], [other, stored]):
        assert [hit["id"] for hit in search_all(roots, '"red panda"')["hits"]] == ["m0"]


def test_a_root_without_memories_is_no_obstacle(stored: Stored, tmp_path: Path) -> None:
    empty = Stored(tmp_path / "empty.sqlite", name="empty")
    assert search_all([empty], '"red panda"')["hits"] == []
    stored.texts("the red panda sleeps")
    assert [hit["id"] for hit in search_all([empty, stored], '"red panda"')["hits"]] == ["m0"]


def test_the_phrase_is_looked_for_among_the_memories_that_pass_the_filters(stored: Stored) -> None:
    stored.put(memory("task", "red panda", type="task"), memory("note", "panda, red"))
    assert stored.ids('"red panda"', type="note") == ["note"]


def test_a_single_word_is_taken_as_it_is(stored: Stored) -> None:
    stored.texts("deployed", "deploy twice", "deploys")
    assert stored.ids('"deploy"') == ["m1"]
    assert len(stored.ids('"deploying"')) == 3, "none has it: any form"


def test_a_repeated_word_is_a_phrase(stored: Stored) -> None:
    stored.texts("said bye", "bye bye", "bye and bye")
    assert stored.ids('"bye bye"') == ["m1"]
    assert stored.ids("bye bye")[0] == "m1"
    assert len(stored.ids("bye bye")) == 3


def test_a_time_in_quotation_marks_is_only_words(stored: Stored) -> None:
    stored.put(memory("words", "the phrase last week", age=400), memory("week", "the phrase of it", age=7))
    assert stored.ids('"phrase last week"') == ["words"]
    assert "period" not in stored.hits('"phrase last week"')[0]["why"]


def test_nothing_but_marks_finds_nothing(stored: Stored) -> None:
    stored.texts(*TEXTS)
    assert stored.ids('"..."') == []


def test_only_as_many_as_wanted_the_newest_first(stored: Stored) -> None:
    stored.put(*(memory(f"m{number}", "red panda", age=60 - number) for number in range(60)))
    assert stored.ids('"red panda"', limit=3) == ["m59", "m58", "m57"]
