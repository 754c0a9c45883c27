"""The difference that a restore would make is reported line by line."""

from __future__ import annotations

from memoryd.core.difference import compare


def difference(before: bytes, after: bytes) -> str:
    return compare({"f": before}, {"f": after}).text


def test_lines_only_here_and_only_there() -> None:
    assert compare({"f": b"a\nb\nb\n"}, {"f": b"b\nc\n"}) == (2, 1, "--- f\n+++ f\n-a\n-b\n+c\n")


def test_the_lines_of_several_files_count_together() -> None:
    live = {"f": b"a\n", "g": None}
    assert compare(live, {"f": b"b\n", "g": b"c\nd\n"})[:2] == (1, 3)


def test_equal_contents_differ_in_nothing() -> None:
    assert difference(b"x\n\n", b"x\n") == ""


def test_what_is_no_text_is_escaped_and_much_is_counted() -> None:
    shown = difference(b"\xff\n", b"\n".join(b"%d" % n for n in range(300)))
    assert shown.startswith("--- f\n+++ f\n-\\xff\n+0\n")
    assert shown.endswith("... and 101 more lines\n")


def test_a_secret_is_shown_by_its_pattern_also_where_only_one_of_its_lines_differs() -> None:
    """A report must not leak what it found: no line of a key, no token."""
    body = [b"MIIEowIBAAKCAQEAcanary0123456789abcdefghijkl", b"canary9876543210zyxwvutsrqponmlkjihgfedcba012"]
    key = b"-----BEGIN RSA PRIVATE KEY-----\n%s\n%s\n-----END RSA PRIVATE KEY-----\n"
    before = key % (body[0], body[0])
    after = key % (body[0], body[1]) + b"use ghp_canaryABCDEFGHIJKLMNOP0123456789abcd here\n"
    shown = difference(before, after)
    assert shown == "--- f\n+++ f\n-[redacted:pem]\n+[redacted:pem]\n+use [redacted:github-token] here\n"


def test_a_document_of_one_long_line_is_cut() -> None:
    """The whole answer must fit into one line of the protocol."""
    shown = difference(b"x" * 3_000_000, b"y")
    assert shown == f"--- f\n+++ f\n-{'x' * 400}... and 2999600 more characters\n+y\n"
