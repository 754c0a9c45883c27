"""Matches of terms and substrings in plain text."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memoryd.core.query import Term
from memoryd.core.text_match import fold, has_any, has_words, patterns_of, pieces_in, spots, term_counts
from memoryd.core.words import tokens
from tests.examples import examples

FIELD = st.text("abC1 _.+#\n'é日", max_size=9)


@pytest.mark.parametrize("text", ["Straße", "Café ＦＵＬＬ", "数据", "İstanbul ﬁne", "plain"])
def test_a_folded_text_has_the_same_places(text: str) -> None:
    assert len(fold(text)) == len(text)


def test_case_and_accents_do_not_count() -> None:
    assert fold("CAFÉ") == "cafe"


@pytest.mark.parametrize(
    ("term", "text", "count"),
    [
        (Term("host"), "host, hosts and HOST", 2),
        (Term("host", prefix=True), "host, hosts and ghost", 2),
        (Term("数 据"), "数据库的数据", 2),
        (Term("c \ue000"), "C++", 0),
        (Term("word"), "word " * 50, 12),
        (Term("none"), "host", 0),
        (Term("use", forms=("using", "used")), "Using what we use, not what is reused", 2),
    ],
)
def test_terms_are_counted(term: Term, text: str, count: int) -> None:
    assert term_counts([term], text) == [count]


def test_spots_are_in_order_and_numbered() -> None:
    terms = [Term("zebra", forms=("zebu",)), Term("lion")]
    patterns = [pattern for term in terms for pattern in patterns_of(term)]
    assert spots(patterns, "a lion, a zebra") == [(2, 6, 2), (10, 15, 0)]
    assert has_any(terms, "a lion")
    assert has_any(terms, "one zebu")
    assert not has_any(terms, "a zeb, lions")


@settings(max_examples=examples(300), deadline=None)
@given(fields=st.lists(FIELD, min_size=3, max_size=3), asked=st.lists(FIELD, min_size=1, max_size=2))
@example(fields=["a", "b", ""], asked=["a b"])
@example(fields=["a", "b", "ab, a; b"], asked=["a b", "ab"])
@example(fields=["C++ a", "C# b", "c"], asked=["c b"])
@example(fields=["C++ a", "C# b", "c"], asked=["C++ a", "c#"])
def test_a_text_has_the_words_that_the_index_has(fields: list[str], asked: list[str]) -> None:
    terms = [Term(" ".join(words)) for text in asked if (words := tokens(text))]
    indexed = [f" {' '.join(tokens(field))} " for field in fields]
    assert has_words(fields, terms) == all(any(f" {each.text} " in words for words in indexed) for each in terms)


@pytest.mark.parametrize(
    ("piece", "text", "inside", "whole"),
    [
        ("host", "a Ghosted room", True, False),
        ("host", "the HOST is up", True, True),
        ("==>", "see a==> there", True, True),
        ("cafe", "im Café", True, True),
        ("据", "数据库", True, True),
        ("x", "nothing", False, False),
    ],
)
def test_pieces(piece: str, text: str, inside: bool, whole: bool) -> None:
    assert pieces_in([piece], text, whole_words=False) == [piece] * inside
    assert pieces_in([piece], text, whole_words=True) == [piece] * whole
