"""What a hit is worth, and what is not there."""

from __future__ import annotations

import pytest

from memoryd.core.query import Filters, Mode
from memoryd.search.confidence import (
    MAX_WITH_NUMBER,
    MISSING_NAME,
    WITHOUT_NUMBER,
    Missing,
    confidence_of_rerank,
    missing_words,
    with_confidence,
)
from memoryd.search.query_terms import parse_query
from memoryd.search.ranking import Candidate
from tests.search.questions import distractors
from tests.search.stored import Stored, memory, search_all

FILLER = distractors(2)
TOKEN = "ghp_" + "a1B2" * 9
JWT = ".".join(("eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiIxMjM0NTY3ODkw" * 4, "dBjftJeZ4CVP" * 4))


@pytest.fixture
def filled(stored: Stored) -> Stored:
    stored.put(
        memory("dishwasher", "The dishwasher was bought in 2024 and hums."),
        memory("pool", "psycopg pool: max_size=12, see invoices_open_idx and release v14.7.3 of the client"),
        *(memory(f"f{number}", text) for number, text in enumerate(FILLER)),
    )
    return stored


@pytest.mark.parametrize(
    "question",
    ["CVE-2024-3094", "0x80070422", "commit 9f3c1ab", "function parse_ledger_v7", "com.acme.FluxCapacitor.x"],
)
def test_an_identifier_that_does_not_exist_finds_nothing(filled: Stored, question: str) -> None:
    found = search_all([filled], question)
    assert found["hits"] == []
    assert question.rsplit(maxsplit=1)[-1] in found["missing_words"]


def test_a_short_word_with_a_digit_is_no_identifier(filled: Stored) -> None:
    assert filled.ids("2FA for the dishwasher")[0] == "dishwasher"
    assert filled.ids("2FA hums")[0] == "dishwasher"


@pytest.mark.parametrize(
    "question", ["invoices_open_idx", "v14.7.3", "max_size=12", "voices_open_i", "release v14.7.3"]
)
def test_one_that_exists_is_found_also_by_a_part(filled: Stored, question: str) -> None:
    assert filled.ids(question)[0] == "pool"


@pytest.mark.parametrize("question", ["release v4.7.3", "v14.7.31", "max_size=1", "pool v14.7.30"])
def test_a_number_is_no_part_of_a_longer_one(filled: Stored, question: str) -> None:
    filled.put(memory("number", "release v14.7.309"))
    assert filled.ids(question) == []


@pytest.mark.parametrize(
    "question",
    ["/etc/nginx/blog.conf", "~/nginx/blog.conf", "/etc/blog", "https://shop.example.org", "mail ina@example.org"],
)
def test_a_path_or_an_address_that_does_not_exist_finds_nothing(filled: Stored, question: str) -> None:
    filled.put(
        memory("path", "/etc/nginx/shop.conf, /etc/hosts"),
        memory("blog", "The blog of ina and the shop: blog.conf at https://blog.example.org, mail eva@example.org"),
    )
    assert filled.search(question)["hits"] == []
    assert filled.ids("/etc/nginx/shop.conf")[0] == filled.ids("/etc/nginx")[0] == "path"
    assert filled.ids("eva@example.org")[0] == "blog"


def test_beside_other_words_an_unknown_identifier_makes_hits_weak(filled: Stored) -> None:
    question = "which dishwasher hums, model XK-4711-B"
    first = search_all([filled], question)["hits"][0]
    assert (first["id"], first["confidence"]) == ("dishwasher", "weak")
    assert filled.hits("which dishwasher hums")[0]["confidence"] != "weak"


def test_the_words_that_no_memory_has_are_named(filled: Stored) -> None:
    assert search_all([filled], "dishwashers of the zeppelin")["missing_words"] == ["zeppelin"]
    assert "missing_words" not in search_all([filled], "dishwashers")
    assert search_all([filled], "¿cuánto cuesta el zeppelin?")["missing_words"] == ["cuesta", "zeppelin"]
    assert search_all([filled], "welchen Zeppelin haben wir?")["missing_words"] == ["zeppelin", "haben"]
    assert search_all([filled], "combien de zeppelins")["missing_words"] == ["zeppelins"]
    assert "missing_words" not in search_all([filled], "dishwasher in May last year")
    assert "missing_words" not in search_all([filled], "it isn't the dishwasher's client, it's the pool's")


@pytest.mark.parametrize("when", ["of 2027", "on 2027-01-14", "of 14 Jan 2027"])
def test_the_numbers_of_a_date_are_not_missing(filled: Stored, when: str) -> None:
    """No memory says 2027, but the one of the pool was written then."""
    found = search_all([filled], f"the psycopg pool {when}")
    assert "missing_words" not in found
    assert (found["hits"][0]["id"], found["hits"][0]["confidence"]) == ("pool", "sure")


@pytest.mark.parametrize(
    ("question", "named"), [("Zephyrine's address", True), ("Zeppelins and dishwashers", False), ("what's new", False)]
)
def test_an_unknown_name_may_begin_a_question(filled: Stored, question: str, named: bool) -> None:
    with filled.catalogue.reader() as reader:
        assert missing_words(reader, parse_query(question)).name is named


def test_a_word_of_another_root_is_not_missing(filled: Stored, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = Stored(tmp_path_factory.mktemp("other") / "c.sqlite", name="other")
    other.texts("a zeppelin")
    assert search_all([filled, other], "dishwasher zeppelin unicorn")["missing_words"] == ["unicorn"]


def test_the_confidence_follows_the_score(filled: Stored) -> None:
    assert filled.hits("The dishwasher was bought")[0]["confidence"] == "sure"
    assert filled.hits("grandmother bought an unknown bicycle in the harbour")[-1]["confidence"] == "weak"


def test_a_lowest_score_leaves_out_worse_hits(filled: Stored) -> None:
    every = filled.hits("the release and the dishwasher")
    assert len(every) > 1
    least = every[0]["score"]
    found = filled.hits("the release and the dishwasher", min_score=least)
    assert [hit["id"] for hit in found] == [hit["id"] for hit in every if hit["score"] >= least]


@pytest.mark.parametrize(
    ("model", "expected"),
    [("static-128-3", "weak"), ("minilm-l6-v2-int8", "likely"), ("own:384", "likely"), ("own:1536", "weak")],
)
@pytest.mark.parametrize(("mode", "score"), [("hybrid", 0.33), ("semantic", 0.26)])
def test_a_score_with_minilm_is_worth_more(mode: Mode, score: float, model: str, expected: str) -> None:
    hit = Candidate(1, score, {"semantic": {"model": model, "cosine": 0.4}})
    assert [each.confidence for each in with_confidence([hit], Missing(), mode, points=False)] == [expected]


@pytest.mark.parametrize(
    ("cosine", "text", "named", "expected"),
    [(0.1, 0.2, True, "weak"), (0.1, 0.2, False, "sure"), (0.55, 0.2, True, "likely"), (0.6, 0.5, True, "sure")],
)
def test_a_name_alone_makes_no_hit_likely(cosine: float, text: float, named: bool, expected: str) -> None:
    """Asked for the blood type of Ines, that a memory is about Ines puts it first, but does not make it the answer."""
    why = {"semantic": {"model": "static-128-3", "cosine": cosine}, **({"named": 0.6} if named else {})}
    hit = Candidate(1, 0.9, why, text)
    assert [each.confidence for each in with_confidence([hit], Missing(), "hybrid", points=False)] == [expected]


@pytest.mark.parametrize(
    ("score", "density", "expected"),
    [(0.5, 0.0, "likely"), (0.5, 0.5, "weak"), (0.37, 0.0, "weak"), (0.37, -0.5, "likely"), (0.995, 1.0, "sure")],
)
def test_a_dense_question_needs_a_better_hit_unless_that_is_its_phrase(
    score: float, density: float, expected: str
) -> None:
    hit = Candidate(1, score, {"semantic": {"model": "static-128-3", "cosine": 0.4}})
    [judged] = with_confidence([hit], Missing(), "hybrid", points=False, density=density)
    assert (judged.confidence, judged.score) == (expected, score)


def test_a_hit_with_every_word_as_written_needs_no_better_score_however_dense_the_question_is() -> None:
    why = {"semantic": {"model": "static-128-3", "cosine": 0.36}, "named": 0.6}
    some, every = (Candidate(1, 0.98, {**why, "match": match}, 0.6) for match in ("some words", "all words"))
    judged = with_confidence([some, every], Missing(), "hybrid", points=False, density=1.0)
    assert [each.confidence for each in judged] == ["weak", "sure"]


@pytest.mark.parametrize(("mode", "model"), [("text", "static-128-3"), ("hybrid", "minilm-l6-v2-int8")])
def test_the_density_counts_only_where_its_table_is_compared(mode: Mode, model: str) -> None:
    hit = Candidate(1, 0.35, {"semantic": {"model": model, "cosine": 0.4}})
    [judged] = with_confidence([hit], Missing(), mode, points=False, density=1.0)
    assert judged.confidence == "likely"


def test_a_name_makes_no_hit_likely_if_no_memory_has_what_is_asked_of_it() -> None:
    why = {"semantic": {"model": "static-128-3", "cosine": 0.45}, "named": 0.6}
    missing = Missing(("birthday",))
    [hit] = with_confidence([Candidate(1, 0.9, why, 0.2)], missing, "hybrid", points=False)
    [other] = with_confidence([Candidate(1, 0.9, {}, 0.2)], missing, "hybrid", points=False)
    assert (hit.confidence, other.confidence) == ("weak", "likely")


@pytest.fixture
def turbines(stored: Stored) -> Stored:
    stored.put(
        memory("sample", "Turbine 17: the oil sample of the gearbox shows 68 ppm of iron."),
        memory("visit", "22 visitors of the wind park, nine of them from Oslo"),
        memory("birthday", "Grandmother turns eighty in May and wants a boat trip, nothing else."),
        memory("model", "Summaries are made with gpt4 on the laptop with 16 GB of memory, from 09 to 12."),
        *(memory(f"f{number}", text) for number, text in enumerate(FILLER)),
    )
    return stored


@pytest.mark.parametrize("mode", ["text", "hybrid"])
def test_a_hit_without_a_number_of_the_question_is_weak(turbines: Stored, mode: Mode) -> None:
    """Other memories have 22, so that it is not missing."""
    right, wrong = (search_all([turbines], f"oil sample of turbine {number}", mode=mode) for number in (17, 22))
    assert [hit["id"] for hit in (right["hits"][0], wrong["hits"][0])] == ["sample", "sample"]
    assert right["hits"][0]["confidence"] != "weak" == wrong["hits"][0]["confidence"]
    assert "missing_words" not in wrong


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("a present for her 80th birthday", "birthday"),
        ("her birthday: 80", "birthday"),
        ("written with gpt 4", "model"),
        ("a laptop with 16gb", "model"),
        ("made from 9 on", "model"),
        ("how many of them are from Oslo, 9 or 17?", "sample"),
        ("9 are from Oslo", "visit"),
    ],
)
def test_a_number_may_be_written_in_another_way(turbines: Stored, question: str, name: str) -> None:
    with turbines.catalogue.reader() as reader:
        [key] = reader.keys_of(name, Filters())
        assert any(key in keys for keys in missing_words(reader, parse_query(question)).numbers)


def test_a_period_and_a_number_of_many_memories_ask_for_none(turbines: Stored) -> None:
    with turbines.catalogue.reader() as reader:
        assert missing_words(reader, parse_query("logs of May 2025"), "May 2025").numbers == ()
    turbines.put(*(memory(f"room {n}", "room 22") for n in range(MAX_WITH_NUMBER)))
    with turbines.catalogue.reader() as reader:
        assert missing_words(reader, parse_query("turbine 22")).numbers == ()


def test_a_name_counts_while_its_memory_has_no_vector() -> None:
    hit = Candidate(1, 0.9, {"named": 0.6}, 0.5)
    assert [each.confidence for each in with_confidence([hit], Missing(), "hybrid", points=False)] == ["sure"]


@pytest.mark.parametrize(
    ("match", "text", "expected"),
    [("some words", 0.15, "weak"), ("some words", 0.3, "likely"), ("all words", 0.15, "sure"), (None, 0.0, "likely")],
)
def test_words_and_not_points_make_a_hit_of_topic_files_likely(match: str | None, text: float, expected: str) -> None:
    hit = Candidate(1, 0.45, {"match": match} if match else {}, text)
    assert [each.confidence for each in with_confidence([hit], Missing(), "hybrid", points=True)] == [expected]


@pytest.mark.parametrize(
    ("cosines", "text", "lost", "expected"),
    [
        ((0.3, 0.6), 0.2, 0.0, "likely"),
        ((0.6, 0.3), 0.2, 0.0, "likely"),
        ((0.3, 0.3), 0.2, 0.0, "weak"),
        ((0.3, 0.6), 0.2, MISSING_NAME, "weak"),
        ((0.3, 0.3), 0.6, 0.0, "likely"),
        ((0.7, 0.7), 0.2, 0.0, "sure"),
        ((0.7, 0.7), 0.6, WITHOUT_NUMBER, "weak"),
    ],
)
def test_two_embedders_judge_together_after_a_rerank(
    cosines: tuple[float, float], text: float, lost: float, expected: str
) -> None:
    first, second = cosines
    hit = Candidate(1, 0.9, {"semantic": {"model": "static-128-3", "cosine": first}}, text, "sure", lost=lost)
    assert confidence_of_rerank(hit, second) == expected


@pytest.mark.parametrize(("match", "expected"), [("phrase", "sure"), ("some words", "weak")])
def test_a_phrase_stays_as_sure_as_before_a_rerank(match: str, expected: str) -> None:
    assert confidence_of_rerank(Candidate(1, 0.9, {"match": match}, 0.2, "sure"), 0.0) == expected


def test_a_rerank_makes_no_hit_sure() -> None:
    assert confidence_of_rerank(Candidate(1, 0.4, {}, 0.2, "weak"), 0.9) == "likely"


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (TOKEN, ["[redacted:github-token]"]),
        (f"zeppelin token={TOKEN},", ["zeppelin", "[redacted:github-token]"]),
        (f"unicorn {JWT} {JWT}", ["unicorn", "[redacted:jwt]"]),
        ("unicorn password: zeppelin4711", ["unicorn", "password", "[redacted:assignment]"]),
        ("unicorn password: dishwasher", ["unicorn", "password"]),
    ],
)
def test_secrets_are_not_among_the_words_that_no_memory_has(filled: Stored, question: str, expected: list[str]) -> None:
    assert search_all([filled], question)["missing_words"] == expected


@pytest.mark.parametrize(
    ("question", "missing"),
    [
        ("Schlüssel Zeppelin", ["schlüssel", "zeppelin"]),
        ("Schlu\u0308ssel", ["schlüssel"]),
        ("Straße ﬁnal café-yak", ["straße", "ﬁnal", "café", "yak"]),
        ("数据库", ["数据", "据库"]),
        ("Schlüssel 数据 token=ghp_" + "a1B2c3D4" * 5, ["schlüssel", "数据", "[redacted:github-token]"]),
    ],
)
def test_missing_words_are_shown_as_they_are_written(filled: Stored, question: str, missing: list[str]) -> None:
    found = search_all([filled], question)["missing_words"]
    assert [word for word in found if word != "token"] == missing
