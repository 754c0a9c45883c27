"""The semantic arm: whose vectors are compared with whose, and what is said where there are none."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from memoryd.core.query import Filters, Mode
from memoryd.core.records import Record
from memoryd.core.spans import Span
from memoryd.core.vectors import pack_floats
from memoryd.errors import EmbedderError
from memoryd.index.sqlite import SqliteIndex
from memoryd.operations.search import SearchQuery, search
from memoryd.search import semantic
from memoryd.search.embedding.embedder import Embedder
from memoryd.search.embedding.static import Static
from memoryd.search.modes import SearchEngine
from memoryd.search.periods import Period, period_in
from memoryd.search.query_terms import parse_query
from memoryd.search.ranking import Candidate
from memoryd.search.semantic import (
    KNOWN_NAME,
    UNKNOWN_NAME,
    Like,
    Question,
    SemanticSearch,
    VectorsMissingError,
    like_floats,
)
from tests.index.records import put
from tests.search.stored import Stored

NOW = 1_767_225_600.0
DAY = 86_400.0


class Letters:
    """An embedder of four numbers: how often a text has a, b, c and d. Knows no words."""

    name = "letters"
    size = 4
    fast = True
    idle_s = 10.0

    def __init__(self, trouble: str | None = None) -> None:
        self.calls = 0
        self.rested = 0
        self.trouble = trouble

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        self.calls += 1
        if self.trouble:
            raise EmbedderError(self.trouble)
        return [pack_floats([text.count(letter) for letter in "abcd"]) for text in texts]

    def release(self) -> None:
        self.rested += 1


def record(
    number: int, text: str, owner: str = "", embedding: tuple[float, ...] | None = None, age: float = 0.0
) -> Record:
    created = NOW - age * DAY
    return Record(
        Span(number, number + 1), 1, f"m{number}", "note", "", created, created, (), False, {}, text=text, owner=owner,
        embedding=embedding,
    )  # fmt: skip


def fill(catalogue: SqliteIndex, embedder: Letters | Static) -> None:
    rows = catalogue.missing_vectors(embedder.name, 0, 1000)
    vectors = embedder.embed([text for _, text in rows])
    catalogue.put_vectors(embedder.name, [(key, vector) for (key, _), vector in zip(rows, vectors, strict=True)])


def ask(
    catalogue: SqliteIndex,
    meaning: SemanticSearch | None,
    text: str = "",
    mode: Mode = "hybrid",
    like: Like | None = None,
    owner: str | None = None,
    period: Period | None = None,
    filters: Filters | None = None,
) -> list[Candidate]:
    filters = filters or Filters(owner=owner)
    question = Question(parse_query(text), filters, mode, 10, NOW, like=like, period=period)
    with catalogue.reader() as reader:
        return SearchEngine(meaning).find(reader, question)


def bodies(catalogue: SqliteIndex, found: Sequence[Candidate]) -> list[str]:
    with catalogue.reader() as reader:
        known = reader.memories([each.key for each in found])
    return [known[each.key].body for each in found]


def why_not(found: Sequence[Candidate]) -> Any:
    return found[0].why["semantic"]


class TestOfTheConfiguration:
    def test_meaning_finds_what_words_do_not(self, catalogue: SqliteIndex) -> None:
        put(catalogue, "a", record(1, "aaa b"), record(2, "ccc d"), record(3, "dddd"))
        letters = Letters()
        fill(catalogue, letters)
        found = ask(catalogue, SemanticSearch(letters), "xcxc", "semantic")
        assert bodies(catalogue, found)[0] == "ccc d"
        assert found[0].why["semantic"] == {"model": "letters", "cosine": pytest.approx(0.94, abs=0.05)}
        assert bodies(catalogue, ask(catalogue, SemanticSearch(letters), "xcxc", "hybrid"))[0] == "ccc d"
        assert ask(catalogue, SemanticSearch(letters), "xcxc", "text") == []

    @pytest.mark.parametrize("mode", ["semantic", "hybrid"])
    def test_without_an_embedder_the_text_is_searched_and_why_says_so(self, catalogue: SqliteIndex, mode: Mode) -> None:
        put(catalogue, "a", record(1, "plain words"))
        assert why_not(ask(catalogue, None, "words", mode)) == "not available"
        assert (
            why_not(ask(catalogue, SemanticSearch(None, "off by configuration"), "words", mode))
            == "off by configuration"
        )
        found = ask(catalogue, SemanticSearch(Letters("the server is away")), "words", mode)
        assert why_not(found) == "the server is away"
        assert bodies(catalogue, found) == ["plain words"]
        assert why_not(ask(catalogue, SemanticSearch(Letters()), "plain words", mode)) == "no memory has a vector yet"
        fill(catalogue, Letters())
        assert isinstance(why_not(ask(catalogue, SemanticSearch(Letters()), "plain words", mode)), dict), "the canary"

    def test_a_question_of_no_known_word(self, catalogue: SqliteIndex) -> None:
        put(catalogue, "a", record(1, "🦀 sits here"))
        static = Static()
        fill(catalogue, static)
        found = ask(catalogue, SemanticSearch(static), "🦀")
        assert why_not(found) == "no word of the question is known"
        assert bodies(catalogue, found) == ["🦀 sits here"]

    def test_memories_that_have_no_vector_yet_are_found_by_their_words(self, catalogue: SqliteIndex) -> None:
        put(catalogue, "a", record(1, "aaaa"), record(2, "bbbb"))
        letters = Letters()
        fill(catalogue, letters)
        put(catalogue, "b", record(3, "cccc dddd words"))
        assert bodies(catalogue, ask(catalogue, SemanticSearch(letters), "dddd"))[0] == "cccc dddd words"

    def test_an_embedder_rests_when_nobody_asks(self) -> None:
        letters = Letters()
        meaning = SemanticSearch(letters)
        meaning.tidy(0)
        letters.embed(["a"])
        for now, released, rested in ((100, False, 0), (109, False, 0), (111, True, 1), (500, False, 1)):
            assert meaning.tidy(now) is released
            assert letters.rested == rested
        letters.embed(["a"])
        meaning.tidy(600)
        meaning.tidy(611)
        assert letters.rested == 2


class TestOfTheAgents:
    """Vectors that agents stored beside their memories."""

    TEXTS = ("aaaa b", "bbb c", "cc ddd")

    def put(self, catalogue: SqliteIndex, owner: str, scale: float = 1.0, size: int = 4) -> None:
        records = [
            record(number, text, owner, tuple(scale * text.count(each) + 0.01 for each in "abcdefgh"[:size]))
            for number, text in enumerate(self.TEXTS)
        ]
        put(catalogue, f"{owner}/data.json", *records)

    def test_an_embedder_that_makes_the_same_ones_may_ask(self, catalogue: SqliteIndex) -> None:
        self.put(catalogue, "ann", 3.0)
        found = ask(catalogue, SemanticSearch(Letters()), "d", "semantic", owner="ann")
        assert bodies(catalogue, found)[0] == "cc ddd"
        assert why_not(found)["model"] == "own:4"

    def test_one_of_another_size_may_not(self, catalogue: SqliteIndex) -> None:
        self.put(catalogue, "ann", size=5)
        found = ask(catalogue, SemanticSearch(Letters()), "bbb", owner="ann")
        assert why_not(found) == "its vectors have 5 numbers of a model that is not configured"
        assert bodies(catalogue, found) == ["bbb c"]

    def test_one_of_the_same_size_that_makes_others_may_not(self, catalogue: SqliteIndex) -> None:
        """The size alone proves nothing: a stored one has to come out again."""
        records = [
            record(number, text, "ann", tuple(text.count(each) + 0.01 for each in "dcba"))
            for number, text in enumerate(self.TEXTS)
        ]
        put(catalogue, "ann/data.json", *records)
        found = ask(catalogue, SemanticSearch(Letters()), "bbb", owner="ann")
        assert why_not(found) == "its vectors have 4 numbers of a model that is not configured"

    def test_they_are_stored_unchanged_and_get_no_others(self, catalogue: SqliteIndex) -> None:
        self.put(catalogue, "ann")
        letters = Letters()
        fill(catalogue, letters)
        assert list(catalogue.vectors.load("letters", 0)) == []
        kept = [vector for _, vector in catalogue.vectors.load("own:4", 0)]
        assert kept == [pack_floats([text.count(each) + 0.01 for each in "abcd"]) for text in self.TEXTS]
        key = catalogue.vectors.all_allowed(Filters())[0]
        catalogue.put_vectors("letters", [(key, pack_floats([1, 1, 1, 1]))])
        assert catalogue.vector(key) == ("own:4", kept[0]), "what is their own is never written over"

    def test_a_vector_that_changed_under_the_same_text_is_noticed(self, catalogue: SqliteIndex) -> None:
        meaning = SemanticSearch(Letters())
        self.put(catalogue, "ann")
        like = like_floats([0, 0, 0, 1])
        assert bodies(catalogue, ask(catalogue, meaning, like=like, owner="ann"))[0] == "cc ddd"
        records = [record(n, text, "ann", (0, 0, 0, 1.0 if n == 0 else 0.0)) for n, text in enumerate(self.TEXTS)]
        put(
            catalogue,
            "ann/data.json",
            *records[:1],
            record(1, self.TEXTS[1], "ann", (1.0, 0, 0, 0)),
            record(2, self.TEXTS[2], "ann"),
        )
        assert bodies(catalogue, ask(catalogue, meaning, like=like, owner="ann"))[0] == "aaaa b"
        assert len(list(catalogue.vectors.load("own:4", 0))) == 2, "the one without a vector has none any more"

    def test_a_given_vector_asks_always(self, catalogue: SqliteIndex) -> None:
        self.put(catalogue, "ann", size=5)
        like = like_floats([0, 0, 0, 1, 0])
        for meaning in (SemanticSearch(Letters()), SemanticSearch(None)):
            assert bodies(catalogue, ask(catalogue, meaning, like=like, owner="ann"))[0] == "cc ddd"
        with pytest.raises(VectorsMissingError, match="no vectors of 3 numbers here"):
            ask(catalogue, SemanticSearch(None), like=like_floats([1, 2, 3]), owner="ann")

    def test_one_memory_asks_for_those_like_it(self, catalogue: SqliteIndex) -> None:
        self.put(catalogue, "ann", size=5)
        key = catalogue.vectors.all_allowed(Filters())[1]
        model, vector = catalogue.vector(key) or ("", b"")
        found = ask(catalogue, SemanticSearch(None), like=Like(vector, 5, model), owner="ann")
        assert found[0].key == key
        assert found[0].score > found[1].score

    def test_users_stay_apart(self, catalogue: SqliteIndex) -> None:
        self.put(catalogue, "ann")
        put(catalogue, "bob/data.json", record(1, "dddd of bob", "bob", (0, 0, 0, 4.0)))
        meaning = SemanticSearch(Letters())
        assert "dddd of bob" not in bodies(catalogue, ask(catalogue, meaning, "dddd", owner="ann"))
        assert bodies(catalogue, ask(catalogue, meaning, "dddd", owner="bob")) == ["dddd of bob"]


class Measured(Letters):
    """It says how dense the questions are that it is asked about."""

    def __init__(self, found: float, trouble: str | None = None) -> None:
        super().__init__(trouble)
        self.found = found
        self.asked: list[str] = []

    def density(self, question: str) -> float:
        self.asked.append(question)
        if self.trouble:
            raise EmbedderError(self.trouble)
        return self.found


@pytest.mark.parametrize(
    ("mode", "density", "expected"),
    [("hybrid", 0.0, "likely"), ("hybrid", 1.0, "weak"), ("semantic", 1.0, "likely"), ("text", 1.0, None)],
)
def test_a_hit_of_both_searches_is_judged_by_how_dense_the_question_is(
    catalogue: SqliteIndex, mode: Mode, density: float, expected: str | None
) -> None:
    put(catalogue, "a", record(1, "aaa b"), record(2, "ccc dd"), record(3, "bbb"))
    embedder = Measured(density)
    fill(catalogue, embedder)
    found = ask(catalogue, SemanticSearch(embedder), "xcxdxbxa", mode)
    assert (found[0].confidence if found else None) == expected
    assert embedder.asked == (["xcxdxbxa"] if mode == "hybrid" else [])


def test_the_question_is_not_measured_where_no_vector_was_compared(catalogue: SqliteIndex) -> None:
    put(catalogue, "a", record(1, "plain words"))
    found = ask(catalogue, SemanticSearch(Measured(0.0, "the table cannot be read")), "words")
    assert why_not(found) == "the table cannot be read"


@pytest.mark.parametrize("question", ["is the Qxvzkw server up", "is the qxvzkw server up"])
def test_a_word_without_a_meaning_is_a_name_while_few_memories_have_it(catalogue: SqliteIndex, question: str) -> None:
    """Among words that any memory about servers is nearer to."""
    alike = [record(n, f"The server is up again, said monitor {n}.") for n in range(2, 8)]
    put(catalogue, "a", record(1, "QxVzKw keeps the invoices of last year."), *alike)
    table = Static()
    fill(catalogue, table)
    found = ask(catalogue, SemanticSearch(table), question)
    assert bodies(catalogue, found)[0].startswith("QxVzKw")
    assert found[0].why["named"] == UNKNOWN_NAME
    put(catalogue, "b", *(record(n, f"Qxvzkw number {n}") for n in range(20, 24)))
    fill(catalogue, table)
    assert not any("named" in each.why for each in ask(catalogue, SemanticSearch(table), question))


@pytest.mark.parametrize(
    ("question", "worth"),
    [
        ("when does Hamish bring the server back", KNOWN_NAME),
        ("the server is back, says Hamish", KNOWN_NAME),
        ("when does hamish bring the server back", None),
        ("Hamish and the server", None),  # any first word has a capital
        ("It is back. Hamish has the server?", None),
        ("When Does Hamish Bring The Server Back", None),  # a capital tells nothing here
        ("when does HAMISH bring the server back", None),  # an acronym is explained by what is near in meaning
    ],
)
def test_a_capital_inside_a_question_marks_a_name(catalogue: SqliteIndex, question: str, worth: float | None) -> None:
    alike = [record(n, f"The server is back when monitor {n} is up.") for n in range(2, 8)]
    put(catalogue, "a", record(1, "Hamish pays the invoices of last year."), *alike)
    table = Static()
    fill(catalogue, table)
    found = ask(catalogue, SemanticSearch(table), question)
    place = [text.startswith("Hamish") for text in bodies(catalogue, found)].index(True)
    assert found[place].why.get("named") == worth
    assert not worth or place == 0


def test_without_a_library_the_words_are_found_and_the_answer_tells_why(
    catalogue: SqliteIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(catalogue, "a", record(1, "aaa and words"), record(2, "bbb"))
    fill(catalogue, Letters())
    monkeypatch.setitem(sys.modules, "simsimd", None)  # as if it were not installed
    [found] = ask(catalogue, SemanticSearch(Letters()), "words")
    assert "simsimd" in str(found.why["semantic"])
    assert "reinstall" in str(found.why["semantic"])


def parts(name: str, catalogue: SqliteIndex, embedder: Embedder, question: str) -> dict[str, Any]:
    """The part of the score with this name, of each memory that has one, by its text."""
    found = ask(catalogue, SemanticSearch(embedder), question)
    pairs = zip(bodies(catalogue, found), found, strict=True)
    return {body: each.why[name] for body, each in pairs if name in each.why}


def test_a_word_that_few_of_many_memories_have_adds_to_their_score(catalogue: SqliteIndex) -> None:
    letters = Letters()
    rare_words = partial(parts, "rare_words", catalogue, letters)
    put(catalogue, "a", record(1, "a zebra"), record(2, "zebra and okapi"), record(3, "a horse"))
    fill(catalogue, letters)
    assert rare_words("which zebras, horse") == {}, "in a small store each word is rare"
    put(catalogue, "b", *(record(n, f"horse {n} on a ranch") for n in range(200)))
    fill(catalogue, letters)
    assert rare_words("okapi ranch") == {"zebra and okapi": semantic.RARE_WORD}
    less = rare_words("zebras of the horse ranch")
    assert set(less) == {"a zebra", "zebra and okapi"}
    assert 0 < less["a zebra"] < semantic.RARE_WORD
    assert rare_words("a zebra") == {}, "it is a phrase"


def test_a_word_that_no_memory_has_is_looked_for_in_related_words(catalogue: SqliteIndex) -> None:
    table = Static()
    related_words = partial(parts, "related_words", catalogue, table)
    put(catalogue, "a", record(1, "The lease and the rents rose."), record(2, "Wholemeal loaves"), record(3, "A horse"))
    fill(catalogue, table)
    assert related_words("which landlord") == {"The lease and the rents rose.": semantic.RELATED_WORD}
    assert related_words("a loaf with the lease") == {}, "each word is in a memory, also in another form"
    assert related_words("the landlord of the horse, the stallion") == {
        "The lease and the rents rose.": semantic.RELATED_WORD
    }
    both = dict.fromkeys(("The lease and the rents rose.", "A horse"), semantic.RELATED_WORD)
    assert related_words("stallion of the landlord") == both
    put(catalogue, "b", record(9, "The landlord called"))
    fill(catalogue, table)
    assert related_words("which landlord") == {}
    put(catalogue, "c", *(record(n, f"saddle and horse {n}") for n in range(100, 101 + semantic.MAX_RELATED)))
    assert related_words("the stallion") == {}, "words that many memories have tell little"


def test_a_function_word_of_another_language_is_no_name(catalogue: SqliteIndex) -> None:
    """The table does not know `wird`, which one memory has."""
    put(
        catalogue,
        "a",
        record(1, "Gemessen wird nur morgens."),
        record(2, "Die Firma Brandl wartet die Heizungsanlage."),
    )
    table = Static()
    fill(catalogue, table)
    assert not any("named" in each.why for each in ask(catalogue, SemanticSearch(table), "wann wird es warm"))


def test_the_year_of_a_period_is_no_name(catalogue: SqliteIndex) -> None:
    """The table does not know `2025`, which one memory has."""
    put(catalogue, "a", record(1, "The drapes were treated in 2025."), record(2, "Choir practice is on Thursdays."))
    table = Static()
    fill(catalogue, table)
    period = period_in("choir practice in the summer of 2025", NOW)
    [practice, drapes] = ask(catalogue, SemanticSearch(table), "choir practice in the summer of 2025", period=period)
    assert "named" not in drapes.why
    assert "named" not in practice.why
    assert ask(catalogue, SemanticSearch(table), "treated 2025")[0].why["named"] == UNKNOWN_NAME


def test_a_name_of_many_memories_counts_where_few_of_the_period_have_it(catalogue: SqliteIndex) -> None:
    days = [record(n, f"A Qxvzkw of customer {n} came back.", age=20) for n in range(2, 9)]
    put(catalogue, "a", record(1, "Qxvzkw keeps the invoices.", age=200), *days)
    table = Static()
    fill(catalogue, table)
    question = "Qxvzkw server"
    assert not any("named" in each.why for each in ask(catalogue, SemanticSearch(table), question))
    filters = Filters(until=NOW - 100 * DAY)
    [found] = ask(catalogue, SemanticSearch(table), question, filters=filters)
    assert found.why["named"] == UNKNOWN_NAME


def test_a_mix_of_digits_and_letters_is_a_name_though_a_part_of_it_is_a_word(catalogue: SqliteIndex) -> None:
    put(catalogue, "a", record(1, "The board has the max31856 on it."), record(2, "Which board do you want?"))
    table = Static()
    fill(catalogue, table)
    assert table.knows("max31856")
    found = ask(catalogue, SemanticSearch(table), "which board do you want with a max31856")
    assert bodies(catalogue, found)[0] == "The board has the max31856 on it."
    assert found[0].why["named"] == UNKNOWN_NAME


def test_what_is_found_by_meaning_alone_shows_the_words_in_any_form(stored: Stored) -> None:
    stored.texts("the nurses decide", "a decision of nurses")
    fill(stored.catalogue, Static())
    asked = SearchQuery("decision nurses", mode="semantic")
    engine = SearchEngine(SemanticSearch(Static()))
    found = search([stored.place], asked, now=NOW, clock=lambda: 0.0, engine=engine).hits
    assert {hit.id: hit.why["terms"] for hit in found}["m0"] == ["decide", "nurs*"]


@pytest.mark.parametrize("layout", ["jsonl-store", "markdown-topics"])
def test_a_table_that_cannot_be_read_leaves_a_search_by_words(tmp_path: Path, layout: str) -> None:
    """Also where words fill every place, and only names are looked up in the table."""
    stored = Stored(tmp_path / "c.sqlite", layout)
    stored.texts("the boat leaks", "the boat sails")
    engine = SearchEngine(SemanticSearch(Static(tmp_path / "none")))
    for limit in (1, 10):
        request = SearchQuery("boat leaks", mode="hybrid", limit=limit)
        found = search([stored.place], request, now=NOW, clock=lambda: 0.0, engine=engine).hits
        assert found[0].id == "m0"
        assert "cannot be read" in str(found[0].why["semantic"])
