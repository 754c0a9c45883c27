"""In a directory of memory files every memory with any piece of the query is found."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from memoryd.index.sqlite import word_list
from memoryd.search.query_terms import parse_query
from tests.examples import examples
from tests.search.questions import distractors
from tests.search.stored import Stored, memory

ALPHABET = "abcé-_.+#\"' 数据ß🎉A\n"
TEXTS = st.lists(st.text(ALPHABET + "\0", max_size=20), min_size=1, max_size=8)
QUERIES = st.text(ALPHABET, min_size=1, max_size=8)


def by_hand(texts: list[str], query: str) -> set[str]:
    """Search as the server of that layout does: any piece, in any case. A question in quotation marks wants more."""
    pieces = query.lower().split()
    return {f"m{number}" for number, text in enumerate(texts) if any(piece in text.lower() for piece in pieces)}


@settings(max_examples=examples(120), deadline=None)
@given(texts=TEXTS, query=QUERIES)
@example(texts=["a _", "a A"], query="A_A _")
@example(texts=["cab", "c"], query="b A_A")
def test_whatever_holds_a_piece_is_found(
    texts: list[str], query: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assume(not parse_query(query).quoted)
    made = Stored(Path(tmp_path_factory.mktemp("parts")) / "c.sqlite", "json-files")
    made.texts(*texts)
    found = made.ids(query, limit=20)
    made.close()
    assert by_hand(texts, query) <= set(found)


@pytest.fixture
def folder(tmp_path: Path) -> Stored:
    return Stored(tmp_path / "c.sqlite", "json-files")


def test_a_piece_of_a_word_fills_up_behind_words(folder: Stored) -> None:
    folder.texts("the host is up", "a ghosted room", "localhost", "nothing of it")
    assert folder.ids("host") == ["m0", "m2", "m1"]
    assert [hit["why"]["match"] for hit in folder.hits("host")] == ["phrase", "part of a word", "part of a word"]


@pytest.mark.parametrize("layout", ["jsonl-store", "markdown-topics", "session-files", "user-document"])
def test_in_other_layouts_a_piece_of_a_word_finds_nothing(layout: str, tmp_path: Path) -> None:
    stored = Stored(tmp_path / "c.sqlite", layout)
    stored.texts("the host is up", "a ghosted room", "see a==> there")
    assert stored.ids("host") == ["m0"]
    assert stored.ids("osted") == []
    assert stored.ids("==>") == ["m2"], "signs belong to no word"


def test_other_parts_of_a_question_for_an_unknown_identifier_are_found_as_weak_hits(folder: Stored) -> None:
    folder.texts("the function that parses the ledger", "nothing of it")
    hits = folder.hits("function parse_ledger_v7")
    assert [(hit["id"], hit["confidence"]) for hit in hits] == [("m0", "weak")]
    assert folder.ids("parse_ledger_v7") == []


def test_pieces_across_signs_and_in_tags_and_titles(folder: Stored) -> None:
    folder.put(memory("a", "see foo-bar.py"), memory("b", "", tags=("fo-baz",)), memory("c", "", title="It's fo-bac"))
    assert set(folder.ids("o-ba")) == {"a", "b", "c"}
    assert folder.ids("O-BAR.P") == ["a"]
    assert folder.ids("t's") == ["c"]


def test_filters_and_limit_hold_for_pieces_too(folder: Stored) -> None:
    folder.put(*(memory(f"m{number}", "ghosted", type="x" if number % 2 else "y") for number in range(20)))
    assert len(folder.ids("host", limit=7)) == 7
    assert len(folder.ids("host", type="x", limit=50)) == 10


def test_newer_memories_are_found_as_well(folder: Stored) -> None:
    """The word list is cached; the words of newer memories are added to it until it is loaded again."""
    folder.texts("ghosted")
    assert folder.ids("host") == ["m0"]
    folder.put(memory("later", "frosthost"), memory("m0", "gone now"))
    assert folder.ids("host") == ["later"]


def test_and_when_very_many_came_in(folder: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_list, "LOAD", 1_000_000)
    folder.texts("ghosted")
    folder.ids("host")
    folder.put(*(memory(f"n{number}", f"x{number}host") for number in range(9)))
    assert len(folder.ids("host", limit=20)) == 10


def test_a_long_word_list_is_extended_by_the_words_of_newer_memories(
    folder: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_list, "LOAD", 0)
    folder.texts("ghosted", "hostel")
    assert set(folder.ids("host")) == {"m0", "m1"}
    folder.put(memory("title", "", title="Frosthost"), memory("tag", "", tags=("höstlich",)), memory("m1", "gone now"))
    assert set(folder.ids("host")) == {"m0", "title", "tag"}


def test_a_piece_that_nearly_every_word_holds(folder: Stored) -> None:
    chance = random.Random(3)
    words = ["e".join(chance.choices("abcdfghij", k=4)) for _ in range(2_000)]
    folder.put(*(memory(f"m{number}", " ".join(words[number * 20 : number * 20 + 20])) for number in range(100)))
    assert len(folder.ids("e", limit=100)) == 100


def test_a_name_with_signs_inside_of_a_longer_one(folder: Stored) -> None:
    """The index knows `C++` as a word only where it stands alone."""
    others = [f"a cab by {chr(97 + number)}c{chr(97 + number)}" for number in range(25)]
    folder.texts("C++", "since c++17", "in ObjC++", "ObjC++17", "objc", *others)
    assert set(folder.ids("C++", limit=40)) == {"m0", "m1", "m2", "m3"}


def test_signs_alone(folder: Stored) -> None:
    folder.texts("a == b", "a != b", "nothing")
    assert folder.ids("!=") == ["m1"]
    assert set(folder.ids("= !")) == {"m0", "m1"}


def test_a_question_of_common_words_still_finds_them_all(folder: Stored) -> None:
    folder.texts(*distractors(1)[:30], "zebra")
    assert len(folder.ids("the zebra", limit=40)) > 15
    assert folder.ids("the zebra", limit=40)[0] == "m30"
