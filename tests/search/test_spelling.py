"""Misspelt words are read as the nearest word of the index, and `why` says so."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.search import spelling
from memoryd.search.spelling import MIN_LETTERS, is_one_letter_apart, words_near
from tests.index.records import put_texts
from tests.index.toy import ToyIndex
from tests.search.stored import Stored, memory

WORDS = st.text("abc", max_size=6)


def edits(word: str) -> set[str]:
    """Every word that one change of a letter makes of this one."""
    cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    removed = {left + right[1:] for left, right in cuts if right}
    swapped = {left + right[1] + right[0] + right[2:] for left, right in cuts if len(right) > 1}
    other = {left + letter + right[1:] for left, right in cuts if right for letter in "abc"}
    added = {left + letter + right for left, right in cuts for letter in "abc"}
    return (removed | swapped | other | added) - {word}


@given(WORDS, WORDS)
def test_one_letter_apart_is_one_edit(one: str, other: str) -> None:
    if abs(len(one) - len(other)) <= 1:
        assert is_one_letter_apart(one, other) == (other in edits(one))


@given(WORDS.flatmap(lambda word: st.tuples(st.just(word), st.sampled_from(sorted(edits(word))))))
def test_every_edit_is_one_letter_apart(pair: tuple[str, str]) -> None:
    assert is_one_letter_apart(*pair)
    assert is_one_letter_apart(*reversed(pair))


@given(st.text("abc", min_size=MIN_LETTERS, max_size=9))
def test_every_word_one_edit_away_is_near_and_no_other(word: str) -> None:
    near = sorted(each for each in edits(word) if each.startswith(word[0]))
    others = [word, *sorted(edits(near[0]) - edits(word))]
    index = ToyIndex()
    put_texts(index, "a", " ".join((*near, *others)))
    assert words_near(index, word) == near


@pytest.mark.parametrize("asked", ["regsitry", "registr", "regestry", "regiistry", "Regsitry"])
def test_a_misspelt_word_finds_the_nearest(asked: str, stored: Stored) -> None:
    stored.put(memory("a", "the registry of packages is mirrored"), memory("b", "the pool needs twenty connections"))
    first = stored.hits(f"where is the {asked}")[0]
    assert first["id"] == "a"
    assert first["why"]["terms"] == ["registr*"]


def test_why_says_how_the_word_was_read(stored: Stored) -> None:
    stored.put(memory("a", "the registry of packages is mirrored"))
    assert stored.hits("the regsitry")[0]["why"]["read_as"] == {"regsitry": "registry"}
    assert "read_as" not in stored.hits("the registry")[0]["why"]


def test_of_several_the_most_frequent_is_taken(stored: Stored) -> None:
    stored.texts("the zorbel", "a zerbel met", "one zerbel left")
    assert stored.hits("zarbel")[0]["why"].get("read_as") == {"zarbel": "zerbel"}


@pytest.mark.parametrize(
    ("asked", "read"),
    [
        ("jubernetes", "kubernetes"),
        ("ubernetes", "kubernetes"),
        ("kkubernetes", "kubernetes"),
        ("ukbernetes", "kubernetes"),
        ("Ocnfig", "config"),
        ("afka", None),
        ("kafak", "kafka"),
        ("jafka", "kafka"),
        ("akfka", "kafka"),
        ("kfaka", "kafka"),
    ],
)
def test_the_first_letter_may_be_wrong_and_a_word_of_five_letters(asked: str, read: str | None, stored: Stored) -> None:
    stored.texts("the config of kubernetes is in git", "kafka has three brokers")
    reasons = [hit["why"].get("read_as") for hit in stored.hits(f"where is the {asked}")]
    assert reasons == [read and {asked.lower(): read}]


def test_a_word_that_begins_alike_is_nearer(stored: Stored) -> None:
    stored.texts("the kerbel", "a zarbel met", "one zarbel left", "zerbel")
    assert stored.hits("zurbel")[0]["why"]["read_as"] == {"zurbel": "zarbel"}
    assert stored.hits("kurbel")[0]["why"]["read_as"] == {"kurbel": "kerbel"}


@pytest.mark.parametrize(
    ("asked", "read"), [("welchen platz bucht sie im Zug", None), ("welchen plazza bucht sie im Zug", "piazza")]
)
def test_a_short_word_of_another_language_is_not_read_as_an_english_one(
    asked: str, read: str | None, stored: Stored
) -> None:
    stored.texts("a plate in the Zug", "the piazza")
    assert {hit["why"].get("read_as", {}).get("plazza") for hit in stored.hits(asked)} == {read}
    assert all("platz" not in hit["why"].get("read_as", {}) for hit in stored.hits(asked))


@pytest.mark.parametrize("asked", ["regstr", "ergstry", "pol", "gate77"])
def test_other_words_are_not_replaced(asked: str, stored: Stored) -> None:
    stored.texts("the registry", "a pool", "gate78 is open")
    assert all("read_as" not in hit["why"] for hit in stored.hits(f"open {asked}"))


def test_a_damaged_query_is_no_error(stored: Stored) -> None:
    stored.texts("the registry")
    for asked in ("\n[a-z]registr\n", "registr" * 400, "(((((((", "\\1registr"):
        stored.hits(asked)


@pytest.mark.parametrize(
    ("kept", "asked"),
    [
        ("wi-fi", "wifi"),
        ("wifi", "wi-fi"),
        ("e mail server", "e-mail"),
        ("wifi", "(wi-fi)"),
        ("kuchebar", "ku\u0308-chebar"),
    ],
)
def test_compounds_are_read_as_they_are_written(kept: str, asked: str, stored: Stored) -> None:
    stored.texts(f"the {kept} of the office is slow", "the printer is slow")
    assert stored.ids(f"{asked} office", mode="text")[0] == "m0"
    assert stored.hits(asked, mode="text")[0]["why"]["text"] > 0.2


def test_a_word_of_thousands_of_letters_is_no_compound(stored: Stored) -> None:
    """Each way to split it would be a column of one query."""
    stored.texts("the printer is slow")
    found = stored.search("aB" * 2_048, mode="text")
    assert found["hits"] == []
    assert found["fresh"]["root"]["state"] == "fresh"


def test_the_list_of_common_words_is_read_only_for_a_longer_word_that_no_memory_has(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    common = Mock(return_value=True)
    monkeypatch.setattr(spelling, "is_common_word", common)
    stored.texts("the zanzibar ledger")
    assert stored.ids("zanzibar") == ["m0"]
    assert stored.ids("yurt") == stored.ids("zamzibar") == []
    common.assert_called_once_with("zamzibar")


def test_beside_a_misspelt_word_others_are_shown_in_the_form_that_was_found(stored: Stored) -> None:
    stored.texts("Tomorrow we decide about the kitchen", "The decision stands")
    hit = stored.hits("decision kitchn")[0]
    assert hit["why"]["read_as"] == {"kitchn": "kitchen"}
    assert set(hit["why"]["terms"]) == {"decide", "kitchen*"}


@pytest.mark.parametrize(
    ("kept", "asked", "read"),
    [
        ("rename_all_users", "renameAllUsers()", {"renameallusers": "rename-all-users"}),
        ("chart-of-accounts", "chartOfAccounts", {"chartofaccounts": "chart-of-accounts"}),
        ("parseInvoiceHeader", "parse_invoice_header", {"parse_invoice_header": "parseinvoiceheader"}),
        ("HTTPServer2", "http_server2", {"http_server2": "httpserver2"}),
        ("PAY-1234", "PAY1234", {"pay1234": "pay-1234"}),
    ],
)
def test_names_are_read_as_they_are_written(kept: str, asked: str, read: dict[str, str], stored: Stored) -> None:
    stored.texts(f"we changed {kept} on Monday", "all users parse an invoice, a chart, accounts and a header")
    hit = stored.hits(asked)[0]
    assert (hit["id"], hit["why"]["read_as"]) == ("m0", read)


@pytest.mark.parametrize("asked", ["Mülller", "Mu\u0308lller"])
def test_a_misspelt_word_may_have_accents(asked: str, stored: Stored) -> None:
    stored.texts("Frau Müller wohnt am See")
    assert stored.hits(f"wo wohnt {asked}")[0]["why"]["read_as"] == {"mülller": "muller"}
