"""Changing memories of topic files line by line, with every other byte where it was."""

from __future__ import annotations

from typing import Any

import pytest

from memoryd.errors import InvalidMemoryError, UsageError
from tests.layouts.contract import document
from tests.layouts.markdown_storing import (
    FIRST,
    PATH,
    REAL,
    SECOND,
    TOPICS,
    updated,
)
from tests.layouts.storehouse import find, rules, view_of
from tests.layouts.test_markdown_topics import entry


class TestUpdate:
    """Only the named lines change."""

    @pytest.mark.parametrize(
        ("changes", "old", "new"),
        [
            ({"context": "new"}, b"**Context:** c\n", b"**Context:** new\n"),
            ({"solution": "new"}, b" s\nmore of it\n\nand more\n", b" new\n"),
            ({"solution": "a\nb"}, b" s\nmore of it\n\nand more\n", b" a\nb\n"),
            ({"problem": None}, b"**Problem:** p\n", b""),
            ({"title": "New  title"}, b"2025-08-03: First", b"2025-08-03: New title"),
            ({"date": "2025-09-01"}, b"## 2025-08-03: First", b"## 2025-09-01: First"),
            ({"code": "x"}, b"and more\n", b"and more\n**Code:** x\n"),
            ({"code": "x\ny"}, b"and more\n", b"and more\n**Code:**\n```\nx\ny\n```\n"),
            ({"root_cause": "r"}, b"and more\n", b"and more\n**Root Cause:** r\n"),
            ({"root_cause": "r", "code": "x"}, b"and more\n", b"and more\n**Code:** x\n**Root Cause:** r\n"),
            ({"before": None}, REAL[REAL.index(b"**Before") : REAL.index(b"\n---\n\n*St")], b""),
            ({"unknown": None, "context": "c"}, b"", b""),
        ],
    )
    def test_of_fields(self, changes: dict[str, Any], old: bytes, new: bytes) -> None:
        assert updated(REAL, FIRST, changes) == REAL.replace(old, new, 1)
        crlf = REAL.replace(b"\n", b"\r\n")
        wanted = crlf.replace(old.replace(b"\n", b"\r\n"), new.replace(b"\n", b"\r\n"), 1)
        assert updated(crlf, FIRST, changes) == wanted

    def test_missing_fields_come_in_their_order(self) -> None:
        data = b"## 2025-08-03: First"
        assert updated(data, FIRST, {"solution": "s", "context": "c"}) == data + b"\n**Context:** c\n**Solution:** s"
        data = b"## 2025-08-03: First\n**Solution:** s\n---\n"
        assert updated(data, FIRST, {"problem": "p"}) == data.replace(b"**S", b"**Problem:** p\n**S")

    def test_of_the_last_entry_without_a_final_newline(self) -> None:
        assert updated(REAL, SECOND, {"context": "e"}) == REAL.replace(b"** d\n", b"** e\n")
        assert updated(REAL, SECOND, {"text": "## 2025-08-02: X\ny\n\n"}).endswith(b"\n\n## 2025-08-02: X\ny")

    def test_of_a_whole_entry(self) -> None:
        """What parts it from the next one stays."""
        record = document(TOPICS, PATH, REAL).records[0]
        new = updated(REAL, FIRST, {"text": "## 2025-08-04: X\n**Context:** y"})
        assert new == REAL.replace(record.span.of(REAL), b"## 2025-08-04: X\n**Context:** y\n\n")

    def test_the_id_follows_title_and_date(self) -> None:
        files = {PATH: REAL}
        found = find(TOPICS, files, FIRST)
        stored = TOPICS.require_writer().update(view_of(TOPICS, files), found, {"title": "New", "date": "2020-01-01"})
        assert stored.id == "auth/oauth2#2020-01-01:new"
        assert stored.plan.actions[0].ids == (stored.id,)

    def test_what_changes_nothing_writes_nothing(self) -> None:
        files = {PATH: REAL}
        stored = TOPICS.require_writer().update(
            view_of(TOPICS, files), find(TOPICS, files, FIRST), {"context": "c", "title": "First"}
        )
        assert not stored.plan
        assert stored.id == FIRST

    @pytest.mark.parametrize(
        ("changes", "fields"),
        [
            ({"title": None}, ["title"]),
            ({"title": "", "date": None, "context": "a\n## 2025-01-01: b"}, ["title", "date", "context"]),
            ({"text": None}, ["text"]),
            ({"text": "x"}, ["text"]),
            ({"text": "## 2025-01-01: b", "context": "x"}, ["context"]),
            ({"solution": "```"}, ["solution"]),
        ],
    )
    def test_it_must_stay_one_entry(self, changes: dict[str, Any], fields: list[str]) -> None:
        with pytest.raises(InvalidMemoryError) as refused:
            updated(REAL, FIRST, changes)
        assert list(rules(refused.value)) == fields

    def test_nothing_to_change_and_archived_ones_are_refused(self) -> None:
        with pytest.raises(UsageError):
            updated(REAL, FIRST, {})
        shelf = {"archive/auth/2025.md": b"<!-- from: oauth2.md -->\n" + entry("2025-01-01", "x")}
        with pytest.raises(UsageError, match="archived"):
            TOPICS.require_writer().update(
                view_of(TOPICS, shelf), find(TOPICS, shelf, "auth/oauth2#2025-01-01:x", archived=True), {"a": 1}
            )

    @pytest.mark.parametrize(
        ("before", "text", "after"),
        [
            (b"---\na: b\n---\nText.\n", "---\na: c\n---\nOther.", b"---\na: c\n---\nOther.\n"),
            (b"Text.", "Other.\n\n", b"Other."),
            (b"\xef\xbb\xbfText.\r\nx\r\n", "a\nb\n", b"\xef\xbb\xbfa\r\nb\r\n"),
        ],
    )
    def test_of_a_document_whole(self, before: bytes, text: str, after: bytes) -> None:
        assert updated(before, "auth/oauth2", {"text": text}) == after

    @pytest.mark.parametrize(
        "changes", [{"title": "x"}, {"text": ""}, {"text": "# Only a title"}, {"text": "a\n## 2025-01-01: b\n"}]
    )
    def test_a_document_stays_one(self, changes: dict[str, Any]) -> None:
        with pytest.raises(InvalidMemoryError):
            updated(b"Text.\n", "auth/oauth2", changes)
