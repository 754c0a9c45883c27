"""The front matter of markdown files: scalars and flat lists, and nothing that raises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.layouts.front_matter import MAX_BYTES, read


def test_scalars_with_quotes_and_comments() -> None:
    fields = b"Title: Plain text # a comment\nurl: http://x/y#z\nquoted: \"a: \\\"b\\\" # c\"\nsingle: 'it''s'\n"
    data = b"---\n" + fields + b"---\nText\n"
    front = read(data)
    assert front.fields == {"title": "Plain text", "url": "http://x/y#z", "quoted": 'a: "b" # c', "single": "it's"}
    assert data[front.end :] == b"Text\n"


@pytest.mark.parametrize(
    "lines",
    ["tags: [one, 'two, three', \"four\"]  # c", "tags:\n- one\n  - two, three\n# c\n- 'four' # c"],
)
def test_lists_in_one_line_and_in_several(lines: str) -> None:
    assert read(f"---\n{lines}\n---\n".encode()).list("tags") == ["one", "two, three", "four"]


def test_a_scalar_of_commas_is_a_list_and_the_first_key_that_says_something_counts() -> None:
    front = read(b"---\ntags: one, two\ncreated:\ndate: 2026-01-31\ndate: other\n---\n")
    assert front.list("tags") == ["one", "two"]
    assert front.text("created", "date") == "2026-01-31"
    assert front.text("tags", "none") == "one, two"
    assert front.list("none") == []
    assert front.text("none") == ""


def test_what_is_nested_or_no_field_is_left_out() -> None:
    data = b"---\nmap:\n  inner: 1\n- no list any more\nkey:value\n- x\nlast: y\n---\n"
    assert read(data).fields == {"map": [], "last": "y"}


@pytest.mark.parametrize("data", [b"", b"Text\n", b"---\nopen: x\n", b" ---\na: b\n---\n", b"----\na: b\n---\n"])
def test_a_file_without_it(data: bytes) -> None:
    assert read(data) == ({}, 0)


def test_a_byte_order_mark_and_other_line_ends() -> None:
    data = b"\xef\xbb\xbf---\r\ntitle: T\r\n...\r\nText"
    assert read(data) == ({"title": "T"}, len(data) - 4)
    assert read(b"\xef\xbb\xbfText").end == 3


def test_a_rule_far_below_closes_nothing() -> None:
    assert read(b"---\na: b\n" + b"x\n" * MAX_BYTES + b"---\n") == ({}, 0)


@given(st.binary(max_size=300), st.binary(max_size=50))
def test_nothing_raises_and_the_text_is_what_follows(fields: bytes, text: bytes) -> None:
    data = b"---\n" + fields + b"\n---\n" + text
    assert 0 <= read(data).end <= len(data)
