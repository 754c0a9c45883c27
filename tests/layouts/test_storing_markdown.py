"""Storing into topic files: where an entry may go, and what may be in it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from msgspec.structs import replace

from memoryd.core.defaults import Policy
from memoryd.core.plan import Kind
from memoryd.errors import UsageError
from memoryd.layouts.protocol import NewMemory
from tests.layouts.contract import document
from tests.layouts.markdown_storing import (
    FULL,
    PATH,
    REAL,
    TOPICS,
    add,
    added,
    refusal,
)
from tests.layouts.storehouse import view_of
from tests.layouts.test_markdown_topics import entry


class TestRecords:
    def test_an_entry_is_searched_by_its_whole_text_and_its_place(self) -> None:
        long = b"w" * 200_000
        record = document(TOPICS, "git-flow/x/merge_queue.md", entry("2025-01-01") + long + b" end\n").records[0]
        assert record.text.endswith(" end\n")
        assert len(record.text) > 200_000
        assert record.labels == ("git-flow", "git", "flow", "x", "merge_queue", "merge", "queue")
        assert (record.weight, record.uses, record.owner, record.embedding) == (None, 0, "", None)

    def test_an_archived_entry_by_the_place_it_came_from(self) -> None:
        data = b"<!-- from: oauth2.md -->\n" + entry("2025-01-01")
        assert document(TOPICS, "archive/auth/2025.md", data).records[0].labels == ("auth", "oauth2")

    def test_a_document_with_its_front_matter(self) -> None:
        record = document(TOPICS, "a/b.md", b"\xef\xbb\xbf---\ntags: [rare]\n---\nText.\n").records[0]
        assert record.text == "---\ntags: [rare]\n---\nText.\n"


@pytest.mark.parametrize(
    ("setting", "machine", "day"),
    [
        (None, 9, "2026-01-31"),  # that of the machine
        ("Asia/Tokyo", 0, "2026-01-31"),
        ("UTC", 9, "2026-01-30"),
    ],
)
def test_a_new_entry_is_of_the_local_day(setting: str | None, machine: int, day: str) -> None:
    evening = datetime(2026, 1, 30, 18, 45, tzinfo=UTC).timestamp()
    view = replace(
        view_of(TOPICS, {}), now=evening, zone=timezone(timedelta(hours=machine)), policy=Policy(timezone=setting)
    )
    assert (
        TOPICS.require_writer().add(view, NewMemory({"title": "T", "solution": "s"}, {"topic": "a"})).id
        == f"a/general#{day}:t"
    )


class TestPlace:
    """`[topic]/[subtopic].md` below the base: never out of it, never hidden, never into the archive."""

    @pytest.mark.parametrize(
        ("topic", "subtopic", "path"),
        [
            ("auth", "oauth2", "auth/oauth2.md"),
            ("auth", "oauth2.md", "auth/oauth2.md"),
            ("Pattern/2025/08", "x", "Pattern/2025/08/x.md"),
            ("東京", "日本 語", "東京/日本 語.md"),
            (" auth ", " x ", "auth/x.md"),
            ("notes/archive", "x", "notes/archive/x.md"),
            ("auth", "index", "auth/index.md"),
        ],
    )
    def test_names(self, topic: str, subtopic: str, path: str) -> None:
        assert add({}, FULL, {"topic": topic, "subtopic": subtopic}).path == path

    def test_without_a_subtopic_it_is_general(self) -> None:
        assert add({}, FULL, {"topic": "auth"}).path == "auth/general.md"

    @pytest.mark.parametrize(
        "topic",
        ["", " ", "/etc", "../x", "a/../../x", "a//b", "a/", ".git", "a/.hidden", "archive", "Archive", "archive/a",
         "a\\b", "a\nb", "a\0b", "a`b", "a.md", "x" * 300, "\udc80", "a/ b", ".", "a/."],
    )  # fmt: skip
    def test_topics_that_are_refused(self, topic: str) -> None:
        with pytest.raises(UsageError, match=r"^topic: "):
            add({}, FULL, {"topic": topic, "subtopic": "x"})

    def test_a_missing_topic_is_answered_with_the_options(self) -> None:
        with pytest.raises(UsageError, match="missing") as caught:
            add({}, FULL, {})
        assert "--topic, and the file with --subtopic" in str(caught.value.hint)

    @pytest.mark.parametrize("name", ["a/b", "..", ".x", "x.md.md", "x" * 200, "x\u0007", "a.tmp.b", ".md", "x~\n"])
    def test_subtopics_that_are_refused(self, name: str) -> None:
        with pytest.raises(UsageError, match=r"^subtopic: "):
            add({}, FULL, {"topic": "auth", "subtopic": name})

    @pytest.mark.parametrize("where", [{}, {"subtopic": "x"}, {"topic": "a", "user": "u"}])
    def test_a_topic_is_needed_and_nothing_else_means_anything(self, where: dict[str, str]) -> None:
        with pytest.raises(UsageError):
            add({}, FULL, where)


class TestEntry:
    def test_it_is_written_as_the_seed_shows_and_today(self) -> None:
        """A missing file holds just the entry."""
        stored = add({}, FULL)
        assert [action.kind for action in stored.plan.actions] == [Kind.CREATE]
        assert added({}, FULL) == (
            b"## 2026-01-31: T\n**Context:** c\n**Problem:** p\n**Solution:** s\n**Code:** x = 1\n---\n"
        )
        assert stored.id == "auth/oauth2#2026-01-31:t"

    def test_a_date_may_be_given(self) -> None:
        assert add({}, {**FULL, "date": "2024-02-29"}).id == "auth/oauth2#2024-02-29:t"

    def test_further_fields_become_labelled_lines(self) -> None:
        made = added({}, {"title": "T", "root_cause": "r", "tags": ["a", "b"], "count": 3, "sure": True, "none": None})
        assert b"\n**Root Cause:** r\n**Tags:** a, b\n**Count:** 3\n**Sure:** true\n---\n" in made
        assert b"None" not in made

    def test_a_whole_entry_is_taken_as_it_is(self) -> None:
        assert added({}, {"text": "## 2025-01-01: X\nanything\r\n"}) == b"## 2025-01-01: X\nanything\n"

    def test_fenced_examples_stay_inside(self) -> None:
        memory = {
            "title": "T",
            "solution": "see\n```md\n## 2025-01-01: fenced\n---\n```",
            "code": "```\n## 2020-01-01: y\n```",
        }
        found = document(TOPICS, PATH, added({PATH: REAL}, memory))
        assert [each.title for each in found.records] == ["T", "First", "Second"]

    @pytest.mark.parametrize(
        ("memory", "fields"),
        [
            ({}, ["title"]),
            ({"title": " \n"}, ["title"]),
            ({"title": 3, "date": "2025-02-30", "context": {}}, ["title", "date", "context"]),
            ({"title": "T", "date": "20250101"}, ["date"]),
            ({"title": "T\x1b", "date": "2025-1-1"}, ["title", "date"]),
            ({"title": "T", "problem": "x\n## 2025-01-01: y"}, ["problem"]),
            ({"title": "T", "problem": "x\n---## 2025-01-01: y"}, ["problem"]),
            ({"title": "T", "context": "```\nx", "solution": "```\ny"}, ["context", "solution"]),
            ({"title": "T", "context": "\ud800", "code": "a\0"}, ["context", "code"]),
            ({"title": "T", "a*b": "x", "": "y", "Root Cause": "1", "root_cause": "2"}, ["a*b", "", "root_cause"]),
            ({"text": 1}, ["text"]),
            ({"text": "no entry"}, ["text"]),
            ({"text": "## 2025-02-30: X\n"}, ["text"]),
            ({"text": "## 2025-01-01: X\n## 2025-01-01: Y\n"}, ["text"]),
            ({"text": "## 2025-01-01: X\n~~~\n"}, ["text"]),
            ({"text": "## 2025-01-01: X\n", "title": "T"}, ["title"]),
        ],
    )
    def test_what_does_not_fit_is_named_by_field_and_rule_all_at_once(
        self, memory: dict[str, Any], fields: list[str]
    ) -> None:
        assert list(refusal({}, memory)) == fields

    def test_no_refusal_repeats_what_was_given(self) -> None:
        token = "ghp_" + "a1B2" * 9
        memory = {"title": "", "date": token, "x": f"{token}\n## 2025-01-01: y", token: "```", f"*{token}": "z"}
        assert token not in repr(refusal({}, memory))

    def test_a_fence_that_never_ends_would_hide_it(self) -> None:
        assert next(iter(refusal({PATH: b"# T\n```\ncode\n"}, FULL))) == "subtopic"

    def test_a_document_stays_the_memory_it_is(self) -> None:
        """What its front matter says to be one would not be found any more."""
        with pytest.raises(UsageError, match="document"):
            add({PATH: b"---\ntags: [x]\n---\nText.\n"}, FULL)
        assert b"---\ntags: [x]\n---\n# Title\n\n## " in added({PATH: b"---\ntags: [x]\n---\n# Title\n"}, FULL)
