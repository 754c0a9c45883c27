"""Other forms of the words of a question: those of the index with the same stem, in the language of the question."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from memoryd.core.index import IndexReader
from memoryd.core.query import Term
from memoryd.errors import MemorydError
from memoryd.search.embedding.vocabulary import VOCABULARY
from memoryd.search.query_terms import parse_query
from memoryd.search.stems import languages_of, sharing_a_stem, stem_prefix, stems, word_form
from tests.search.stored import Stored

ENGLISH = ("english",)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("use", "using"),
        ("decide", "decision"),
        ("conclude", "conclusion"),
        ("extend", "extension"),
        ("submit", "submission"),
        ("describe", "description"),
        ("receive", "reception"),
        ("produce", "production"),
        ("verify", "verification"),
        ("edit", "editors"),
        ("retry", "retries"),
    ],
)
def test_related_english_words_share_a_stem(one: str, other: str) -> None:
    assert not stems(one, ENGLISH).isdisjoint(stems(other, ENGLISH))


@pytest.mark.parametrize(
    ("one", "other"),
    [("better", "bet"), ("station", "state"), ("general", "generation"), ("news", "new"), ("bus", "bud")],
)
def test_other_words_share_none(one: str, other: str) -> None:
    assert stems(one, ENGLISH).isdisjoint(stems(other, ENGLISH))


@pytest.mark.parametrize("languages", [ENGLISH, ("english", "german", "french", "spanish")])
def test_the_words_that_share_a_stem_are_the_same_all_at_once(languages: tuple[str, ...]) -> None:
    words = (
        "use", "using", "used", "decide", "decision", "decisive", "submit", "submission", "edit", "editor", "receive",
        "reception", "corrio", "corriendo", "repare", "reparer", "pasillo", "pasillos", "haus", "hauser", "or", "miss",
    )  # fmt: skip
    for word in words:
        expected = [each for each in words if not stems(word, languages).isdisjoint(stems(each, languages))]
        assert [*sharing_a_stem(words, word, languages)] == expected


@pytest.mark.parametrize("languages", [ENGLISH, ("english", "german", "french", "spanish")])
def test_no_word_of_a_large_vocabulary_with_the_same_stem_is_left_out(languages: tuple[str, ...]) -> None:
    """Words are compared by their first letters before they are stemmed; stemmers change letters within a word, too."""
    words = [*filter(str.isascii, filter(str.isalpha, VOCABULARY.read_text().split())), "pruefung", "prufungen"]
    by_start: dict[str, list[str]] = {}
    for word in words:
        by_start.setdefault(word[:2], []).append(word)
    found = 0
    for word in words[::-50]:
        near, wanted = tuple(by_start[word[:2]]), stems(word, languages)
        expected = [each for each in near if not wanted.isdisjoint(stems(each, languages))]
        assert [*sharing_a_stem(near, word, languages)] == expected
        found += len(expected) > 1
    assert found > 100


@pytest.mark.parametrize(
    ("word", "prefix"),
    [("differ", "differ"), ("better", "better"), ("stations", "station"), ("retries", "retri"), ("use", None)],
)
def test_the_prefix_is_the_stem(word: str, prefix: str | None) -> None:
    assert stem_prefix(word) == prefix


@pytest.mark.parametrize(
    ("question", "languages"),
    [
        ("where is the pool", ENGLISH),
        ("wo ist der Schlüssel", ("english", "german")),
        ("was the meeting moved", ENGLISH),
        ("où sont les chevaux", ("english", "french")),
        ("por qué tarda la prueba", ("english", "spanish")),
        ("pool timeout", ("english", "german", "french", "spanish")),
        ("", ("english", "german", "french", "spanish")),
    ],
)
def test_function_words_tell_the_language(question: str, languages: tuple[str, ...]) -> None:
    words = [word for unit in parse_query(question).units for word in unit]
    assert languages_of(words) == languages


def test_function_words_of_the_language_tell_nothing() -> None:
    asked = parse_query("wann wird die Heizung gewartet")
    assert [term.text for term in asked.informative] == ["heizung", "gewartet"]
    assert "the" in asked.function_words


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("we are using the mirror", "use"),
        ("it was used twice", "using"),
        ("the decision was late", "when did we decide"),
        ("das Haus am See", "Häuser"),
        ("ein Zug nach Basel", "wegen der Züge"),
        ("die Bücher von Rainer", "welches Buch"),
        ("le cheval boite", "les chevaux"),
        ("le vélo est réparé", "réparer"),
        ("el hermano corrió ayer", "corriendo"),
        ("los pasillos son largos", "pasillo"),
    ],
)
def test_other_forms_of_a_word_are_found(written: str, asked: str, stored: Stored) -> None:
    stored.texts(written, "nothing of that kind", "rien de tel", "etwas anderes", "otra cosa")
    assert stored.ids(asked)[0] == "m0"


def test_a_word_as_typed_ranks_before_another_form(stored: Stored) -> None:
    stored.texts("they use gauges", "using gauges", "a used gauge")
    assert stored.ids("using gauges")[0] == "m1"


def test_a_rare_form_tells_no_more_than_its_word(stored: Stored) -> None:
    stored.texts(*["pay the milk"] * 5, "pays the milk", *["nothing of note"] * 94)
    scores = {hit["id"]: hit["score"] for hit in stored.hits("pay insurance")}
    assert set(scores) == {"m0", "m1", "m2", "m3", "m4", "m5"}
    assert scores["m5"] == pytest.approx(scores["m0"], rel=0.2)


def test_a_rare_form_tells_as_much_as_its_word_in_a_long_memory(stored: Stored) -> None:
    """FTS5 adds little for a word of a long text, and so little is subtracted for the rarity of the form."""
    other = " ".join(f"word{number}" for number in range(500))
    stored.texts(*["pay the milk"] * 20, f"{other} pays", f"{other} paid", f"{other} paid pay", *["nothing"] * 100)
    texts = {hit["id"]: hit["why"]["text"] for hit in stored.hits("pay insurance", limit=50)}
    assert texts["m21"] == pytest.approx(texts["m20"], rel=0.2)
    assert texts["m22"] > texts["m20"] > 0


def test_irregular_forms_are_found(stored: Stored) -> None:
    stored.texts("Rainer sent the parcel", "two children and a dog", "nothing else")
    assert stored.ids("sending")[0] == stored.ids("who sends parcels")[0] == "m0"
    assert stored.ids("child")[0] == "m1"


def test_a_form_is_shown_where_it_was_found(stored: Stored) -> None:
    stored.texts("filler " * 80 + "the nurses decide alone " + "filler " * 80)
    [hit] = stored.hits("decision of nurses")
    assert "decide alone" in hit["snippet"]
    assert set(hit["why"]["terms"]) == {"decide", "nurs*"}


def test_forms_are_looked_up_only_where_no_memory_has_every_word(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Questions are mostly asked once, and the forms of a new word take as long as finding a rare one."""
    asked: list[str] = []

    def looked_up(reader: IndexReader, word: str, languages: tuple[str, ...]) -> Term | None:
        asked.append(word)
        return word_form(reader, word, languages)

    monkeypatch.setattr("memoryd.search.query_terms.word_form", looked_up)
    stored.texts("the nurses decide", "the nurses eat")
    assert stored.ids("nurses decide") == ["m0", "m1"]
    assert asked == []
    assert stored.ids("nurses deciding")[0] == "m0"
    assert sorted(asked) == ["deciding", "nurses"]


def test_a_word_in_another_form_is_not_missing(stored: Stored) -> None:
    stored.texts("die Züge sind voll")
    assert "missing_words" not in stored.search("Zug")
    assert stored.search("Zug Bahnsteig")["missing_words"] == ["bahnsteig"]


def test_topic_files_count_a_word_once_in_whatever_form(tmp_path: Path) -> None:
    topics = Stored(tmp_path / "c.sqlite", "markdown-topics")
    topics.texts("use and using and used", "gauge")
    assert topics.hits("use gauge")[0]["why"]["keywords"] == 1


def test_the_number_of_forms_is_limited(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    stored.texts("use used uses using")
    monkeypatch.setattr("memoryd.search.stems.MAX_FORMS", 2)
    with stored.catalogue.reader() as reader:
        assert word_form(reader, "use", ENGLISH) == Term("use", forms=("used", "uses"))


def test_what_has_no_stem_has_no_forms(stored: Stored) -> None:
    stored.texts("a2 go 数据 слово")
    with stored.catalogue.reader() as reader:
        assert [word_form(reader, word, ENGLISH) for word in ("a2", "go", "数", "слово", "the")] == [None] * 5
        assert word_form(reader, "zzz", ENGLISH) == Term("zzz")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "Stemmer", None)  # as if it were not installed
    with pytest.raises(MemorydError, match="PyStemmer"):
        stems("word", ("romanian",))
