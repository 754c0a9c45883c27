"""A topic file is read by looking at the few lines that mean something: that must tell exactly what a look at every
line tells, and what is left out of a look back must change no answer."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memoryd.core.spans import Edit, Span, splice
from memoryd.layouts.markdown_topics.archive_file import (
    ArchivedEntry,
    archive_insertions,
    escape_source,
    missing_entries,
    round_trips,
    without_newline,
)
from memoryd.layouts.markdown_topics.fields import fits_a_line, render_entry
from memoryd.layouts.markdown_topics.lint import glued_heading_at, glued_headings, lint_file
from memoryd.layouts.markdown_topics.outline import Outline, first_title, outline
from memoryd.layouts.markdown_topics.parser import id_at
from tests.layouts.contract import PARSED, PLANNED
from tests.layouts.markdown_storing import PATH, TOPICS, add
from tests.layouts.plain_outline import Plain, plain_findings, plain_outline
from tests.layouts.storehouse import done

LINES = (
    b"",
    b" ",
    b"---",
    b"--- ",
    b"...",
    b"----",
    b"```",
    b"````",
    b"   ```py",
    b"    ```",
    b"``` a`b",
    b"~~~",
    b"~~~~ ",
    b"~~~ x",
    b"`` `",
    b"# Title",
    b"#  Title \r",
    b"## 2025-01-02: One",
    b"## 2025-01-02: One",
    b"## 2025-01-03: Two \t",
    b"## 2025-01-01:  \x0b",
    b"## 2025-01-01: \x0bx\x0c",
    b"## 2025-13-01: never",
    b"## 2025-1-01: x",
    b" ## 2025-01-01: x",
    b"### 2025-01-01: x",
    b"## 2025-01-01:x",
    b"---## 2025-01-01: glued",
    b"--- \t## 2025-01-01: glued",
    b"*Stored*## 2025-01-01: glued",
    b"*Stored* ## 2025-02-30: glued",
    b"text ## 2025-01-01: no",
    b"<!-- from: a.md -->",
    b" \t<!-- from: a.md --> \r",
    b"<!-- from: a --> b -->",
    b"<!-- from:  -->",
    b"<!-- from: a.md --> x",
    b"\xef\xbb\xbf## 2025-01-01: x",
    b"**Context:** c",
    b"a **Problem:** p **Solution:** s",
    b"\xff\x00",
)
texts = st.tuples(
    st.sampled_from([b"", b"", b"\xef\xbb\xbf", b"---\n", b"\n"]),
    st.lists(st.sampled_from(LINES), max_size=12),
    st.sampled_from([b"\n", b"\n", b"\r\n"]),
    st.sampled_from([b"", b"\n"]),
).map(lambda each: each[0] + each[2].join(each[1]) + each[3])


class TestOutline:
    @PARSED
    @given(st.one_of(texts, st.binary(max_size=12)), st.booleans())
    @example(b"## 2025-01-01:  \x0b\n", False)
    @example(b" \t<!-- from: a.md --> \r\n## 2025-01-01: x", True)
    @example(b"--- ## 2025-01-01: glued", False)
    @example(b"---\n```\n---\n## 2025-01-01: x\n", False)
    @example(b"---\na: b\n---\n<!-- from: x -->\n## 2025-01-01: x\n", True)
    @example(b"```\n<!-- from: a.md -->\n## 2025-01-01: x\n```\n## 2025-01-01: x", True)
    @example(b"## 2025-01-01: x\n<!-- from: a.md -->\n<!-- from: b.md -->\n## 2025-01-01: x", True)
    def test_it_tells_what_every_line_tells(self, data: bytes, archived: bool) -> None:
        found, plain = outline(data, archived=archived), plain_outline(data, archived=archived)
        assert Plain(found.lines, found.sections, found.open_fence, found.front, found.undated) == plain
        assert [line for line, _ in glued_headings(found)] == [
            line for line in plain.lines if glued_heading_at(line) is not None
        ]

    @PARSED
    @given(texts, st.booleans())
    @example(b"## 2025-01-01: x\n```\n**Context:** c\n```\n**Problem:** p\n", False)
    def test_its_findings_are_those_of_every_line(self, data: bytes, archived: bool) -> None:
        plain = plain_outline(data, archived=archived)
        told = lint_file("a/b.md", data, outline(data, archived=archived), archived=archived, now=4e9, words=False)
        wanted = [*plain_findings("a/b.md", plain)]
        codes = {"invalid-date", "glued-heading", "missing-labels"}
        assert [each for each in told if each.code in codes] == wanted
        if plain.open_fence is not None:
            line = next(each.number for each in plain.lines if each.start == plain.open_fence)
            again = lint_file("a/b.md", data, outline(data, archived=archived), archived=archived, now=4e9, words=False)
            assert [each.line for each in again if each.code == "unclosed-fence"] == [line]

    @given(texts, st.integers(0, 60))
    def test_a_title_is_looked_for_no_further_than_asked(self, data: bytes, before: int) -> None:
        lines = (line for line in outline(data).lines if line.start < before and not line.quoted)
        titles = [line.text.rstrip()[1:].lstrip(b" ") for line in lines if line.text.startswith(b"# ")]
        assert first_title(outline(data), before) == next((each for each in titles if each), None)


def plain_missing(found: Outline, moves: list[ArchivedEntry]) -> list[ArchivedEntry]:
    known = {(each.source, without_newline(found.data[each.start : each.end])) for each in found.sections}
    left: list[ArchivedEntry] = []
    for move in moves:
        named = (escape_source(move.source), without_newline(move.text))
        if named not in known and (None, without_newline(move.text)) not in known:
            known.add(named)
            left.append(move)
    return left


def plain_reads_back(before: Outline, moves: list[ArchivedEntry], edits: list[Edit]) -> bool:
    after = outline(splice(before.data, edits), archived=True)
    old, new = (
        Counter((each.source, each.day, without_newline(found.data[each.start : each.end])) for each in found.sections)
        for found in (before, after)
    )
    old.update((escape_source(move.source), move.day, without_newline(move.text)) for move in moves)
    return old == new


def moved(data: bytes, source: str) -> list[ArchivedEntry]:
    """The entries of a text, as if they left a file of that name."""
    return [ArchivedEntry("", each.day, source, data[each.start : each.end]) for each in outline(data).sections]


class TestShelf:
    @PARSED
    @given(
        texts, texts, st.sampled_from(["a.md", "b.md", "a\n-->.md"]), st.sampled_from([b"", b"<!-- from: a.md -->\n"])
    )
    def test_what_is_missing_is_found_by_every_entry(self, data: bytes, other: bytes, source: str, lead: bytes) -> None:
        moves = moved(data, source) + moved(other, source)
        shelf = outline(lead + data, archived=True)
        assert missing_entries(shelf, moves) == plain_missing(shelf, moves)

    @PARSED
    @given(texts, texts)
    def test_what_is_put_in_is_read_back_by_every_entry(self, shelf: bytes, data: bytes) -> None:
        found, moves = outline(shelf, archived=True), moved(data, "a.md")
        if moves:
            edits = archive_insertions(found, moves)
            assert edits is None or plain_reads_back(found, moves, [*edits])

    @PARSED
    @given(texts, texts, st.data())
    @example(b"## 2025-01-02: One\na\n## 2025-01-02: One\nb\n", b"## 2025-01-02: One\nb\n", None)
    def test_wherever_it_is_put_in(self, shelf: bytes, data: bytes, draw: st.DataObject | None) -> None:
        """Not only where the layout would put it: the answer is the same, yes or no."""
        found, moves = outline(shelf, archived=True), moved(data, "a.md")
        at = sorted(draw.draw(st.lists(st.integers(0, len(shelf)), min_size=1, max_size=2))) if draw else [0]
        whole = b"".join(b"<!-- from: a.md -->\n" + without_newline(move.text) + b"\n" for move in moves)
        pieces = [draw.draw(st.one_of(st.just(whole), texts)) if draw else whole for _ in at]
        edits = [Edit(Span(each, each), piece) for each, piece in zip(at, pieces, strict=True)]
        assert round_trips(found, moves, edits) == plain_reads_back(found, moves, edits)

    def test_an_entry_that_is_swallowed_is_not_read_back(self) -> None:
        """The canary: both answers do come."""
        shelf = outline(b"<!-- from: a.md -->\n## 2025-01-02: One\nx\n", archived=True)
        (move,) = moved(b"## 2025-01-03: Two\ny\n", "a.md")
        good = b"<!-- from: a.md -->\n## 2025-01-03: Two\ny\n"
        assert round_trips(shelf, [move], [Edit(Span(0, 0), good)])
        assert not round_trips(shelf, [move], [Edit(Span(0, 0), good + b"```\n")])
        assert not round_trips(shelf, [move], [Edit(Span(0, 0), good.replace(b"y", b"z"))])
        assert not round_trips(shelf, [], [Edit(Span(0, 0), good)])

    @pytest.mark.parametrize(
        ("at", "new", "moves"),
        [
            # The text above looks the same, but differs.
            (b"ab", b"AB\n<!-- from: a.md -->\n## 2025-01-02: One\n", b"## 2025-01-02: One\nab\n"),
            # The text below does.
            (b"\nab", b"\nq\n<!-- from: a.md -->\n## 2025-01-02: Two", b"## 2025-01-02: One\nq\n"),
            # Another file is named.
            (b"## ", b"<!-- from: b.md -->\n", b""),
        ],
    )
    def test_what_only_looks_the_same_is_not_read_back(self, at: bytes, new: bytes, moves: bytes) -> None:
        data = b"<!-- from: a.md -->\n## 2025-01-02: One\nab\n"
        edits = [Edit(Span(data.index(at), data.index(at)), new)]
        found = outline(data, archived=True)
        assert not plain_reads_back(found, moved(moves, "a.md"), edits)
        assert not round_trips(found, moved(moves, "a.md"), edits)


titles = st.sampled_from(["One", "one!", "Two", "Three", "T" * 300])


class TestIds:
    @PLANNED
    @given(st.lists(st.tuples(titles, st.integers(0, 2), st.booleans()), max_size=13), titles, st.integers(0, 3))
    def test_the_returned_id_is_that_in_the_new_file(
        self, entries: list[tuple[str, int, bool]], title: str, age: int
    ) -> None:
        """Where an entry of the same name leaves in the same step as well."""
        newest = date(2025, 2, 3)
        data = b"# T\n\n" + b"".join(
            f"## {newest - timedelta(days)}: {name}\n{'x' * 900 if long else 'y'}\n".encode()
            for name, days, long in entries
        )
        memory: dict[str, Any] = {"title": title, "date": (newest - timedelta(age)).isoformat()}
        stored = add({PATH: data}, memory)
        after = done(TOPICS, {PATH: data}, stored)[PATH]
        at = next(each.start for each in outline(after).sections if each.start >= len(b"# T\n\n"))
        assert stored.id == id_at(PATH, after, at)


class TestLines:
    @PARSED
    @given(
        st.one_of(
            st.text(max_size=20),
            st.lists(st.sampled_from(LINES), max_size=2).map(lambda e: b"\n".join(e).decode("utf-8", "replace")),
        ),
        st.sampled_from(["context", "code", "Root Cause", "x"]),
    )
    def test_what_fits_a_line_makes_one_entry(self, value: str, key: str) -> None:
        if value.strip() and fits_a_line(value):
            assert len(outline(render_entry("T", date(2025, 1, 1), {key: value})).sections) == 1

    @pytest.mark.parametrize("value", ["a\n## 2025-01-01: x", "```", "~~~ x", " ```\nx"])
    def test_what_may_not_fit_is_proved(self, value: str) -> None:
        assert not fits_a_line(value)
