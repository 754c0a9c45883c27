"""Matches of terms and substrings in plain text."""

from __future__ import annotations

import pytest

from memoryd.core.query import Term
from memoryd.core.text_match import fold, has_any, patterns_of, pieces_in, spots, term_counts


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
