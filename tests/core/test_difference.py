"""What a restore would take and give is told line by line."""

from __future__ import annotations

from memoryd.core.difference import difference, unified


def test_lines_only_here_and_only_there() -> None:
    assert difference(b"a\nb\nb\n", b"b\nc\n") == (["a", "b"], ["c"])


def test_equal_contents_differ_in_nothing() -> None:
    assert unified("f", *difference(b"x\n\n", b"x\n")) == ""


def test_what_is_no_text_is_escaped_and_much_is_counted() -> None:
    shown = unified("f", *difference(b"\xff\n", b"\n".join(b"%d" % n for n in range(300))))
    assert shown.startswith("--- f\n+++ f\n-\\xff\n+0\n")
    assert shown.endswith("... and 101 more lines\n")
