"""Memories of topic files into the archive and back, byte for byte."""

from __future__ import annotations

import pytest

from memoryd.core.plan import Kind
from memoryd.core.spans import splice
from memoryd.errors import ConflictError, UsageError
from memoryd.layouts.protocol import AccessCount
from tests.layouts.contract import NOW, carried_out, document
from tests.layouts.markdown_storing import (
    FIRST,
    PATH,
    REAL,
    SECOND,
    TOPICS,
    back,
    forgotten,
)
from tests.layouts.storehouse import done, find, records_of, view_of
from tests.layouts.test_markdown_topics import entry


class TestForget:
    """Into `archive/[topic]/[year].md` under a line that names the file, and back from there."""

    def test_an_entry_goes_into_the_archive_of_its_year(self) -> None:
        stored, after = forgotten({PATH: REAL}, FIRST)
        record = document(TOPICS, PATH, REAL).records[0]
        assert stored.path == "archive/auth/2025.md"
        assert (stored.id, stored.removed) == (FIRST, None)
        assert after[stored.path] == b"<!-- from: oauth2.md -->\n" + record.span.of(REAL)
        assert after[PATH] == REAL.replace(record.span.of(REAL), b"")
        (group,) = stored.plan.groups()
        assert [each.copy for each in group] == [True, False]

    def test_its_id_there_differs_from_that_of_a_namesake(self) -> None:
        shelf = b"<!-- from: oauth2.md -->\n" + entry("2025-08-03", "First")
        files = {PATH: REAL, "archive/auth/2025.md": shelf}
        stored, after = forgotten(files, FIRST)
        assert stored.id in records_of(TOPICS, after, archived=True)
        assert stored.id != FIRST

    def test_an_entry_that_is_archived_already_is_not_repeated(self) -> None:
        text = document(TOPICS, PATH, REAL).records[0].span.of(REAL)
        files = {PATH: REAL, "archive/auth/2025.md": b"<!-- from: oauth2.md -->\n" + text}
        stored, after = forgotten(files, FIRST)
        assert [each.kind for each in stored.plan.actions] == [Kind.REWRITE]
        assert after["archive/auth/2025.md"] == files["archive/auth/2025.md"]
        assert stored.id == FIRST

    @pytest.mark.parametrize("identity", [FIRST, SECOND])
    @pytest.mark.parametrize("end", [b"\n", b"\r\n"])
    def test_there_and_back_again(self, identity: str, end: bytes) -> None:
        before = REAL.replace(b"\n", end) + end
        _, between = forgotten({PATH: before}, identity)
        stored, after = back(between, identity)
        assert after == {PATH: before}
        assert (stored.id, stored.path) == (identity, PATH)
        (group,) = stored.plan.groups()
        assert [(each.kind, each.copy) for each in group] == [(Kind.REWRITE, True), (Kind.REMOVE, False)]

    def test_it_comes_back_below_those_of_its_day_and_above_older_ones(self) -> None:
        files = {
            PATH: entry("2025-03-01", "a") + entry("2025-02-01", "b") + entry("2025-01-01", "c"),
            "archive/auth/2025.md": b"<!-- from: oauth2.md -->\n" + entry("2025-02-01", "x") + entry("2025-01-05", "y"),
        }
        _, after = back(files, "auth/oauth2#2025-02-01:x")
        assert [each.title for each in document(TOPICS, PATH, after[PATH]).records] == ["a", "b", "x", "c"]
        assert after["archive/auth/2025.md"] == entry("2025-01-05", "y")

    def test_a_file_that_is_gone_is_made_again(self) -> None:
        files = {"archive/auth/2025.md": b"<!-- from: oauth2.md -->\n" + entry("2025-02-01", "x")}
        _, after = back(files, "auth/oauth2#2025-02-01:x")
        assert after == {PATH: entry("2025-02-01", "x")}

    def test_files_of_the_base_and_nested_topics(self) -> None:
        for path in ("notes.md", "a/b/c.md"):
            files = {path: b"# T\n\n" + entry("2025-02-01", "x")}
            (identity,) = records_of(TOPICS, files)
            _, between = forgotten(files, identity)
            assert back(between, identity)[1] == files

    def test_odd_names_find_their_way(self) -> None:
        path = "t/a-->b\x01.md"
        files = {path: b"# T\n\n" + entry("2025-02-01", "x")}
        (identity,) = records_of(TOPICS, files)
        stored, between = forgotten(files, identity)
        assert back(between, stored.id)[1] == files

    @pytest.mark.parametrize("name", [b"../x.md", b"x/../../y.md", b".x.md", b"x.txt", b"/etc/x.md"])
    def test_a_line_that_leads_elsewhere_is_not_followed(self, name: bytes) -> None:
        files = {"archive/auth/2025.md": b"<!-- from: " + name + b" -->\n" + entry("2025-02-01", "x")}
        (identity,) = records_of(TOPICS, files, archived=True)
        with pytest.raises(UsageError):
            back(files, identity)

    def test_without_such_a_line_nobody_knows_where(self) -> None:
        files = {"archive/auth/2025.md": entry("2025-02-01", "x")}
        (identity,) = records_of(TOPICS, files, archived=True)
        with pytest.raises(UsageError, match="source file of the entry is unknown"):
            back(files, identity)

    def test_nothing_is_put_into_a_fence_that_never_ends(self) -> None:
        shelf = b"<!-- from: oauth2.md -->\n" + entry("2024-02-01", "x")
        files = {PATH: b"# T\n```\n", "archive/auth/2024.md": shelf}
        with pytest.raises(ConflictError, match="fence"):
            back(files, "auth/oauth2#2024-02-01:x")
        files[PATH] = REAL + b"\n```\n"
        _, after = back(files, "auth/oauth2#2024-02-01:x")
        assert len(document(TOPICS, PATH, after[PATH]).records) == 3

    def test_what_came_back_before_a_crash_is_not_there_twice(self) -> None:
        files = {PATH: REAL, "archive/auth/2025.md": b"<!-- from: oauth2.md -->\n" + entry("2025-08-03", "x")}
        stored = TOPICS.require_writer().unarchive(
            view_of(TOPICS, files), find(TOPICS, files, "auth/oauth2#2025-08-03:x", archived=True)
        )
        half = dict(files) | {PATH: splice(REAL, stored.plan.actions[0].edits)}
        _, after = back(half, "auth/oauth2#2025-08-03:x")
        assert after == carried_out(files, stored.plan)

    def test_a_document_is_taken_out_whole_and_put_back(self) -> None:
        data = b"\xef\xbb\xbf---\na: b\n---\r\nText."
        files = {PATH: data}
        stored, after = forgotten(files, "auth/oauth2")
        assert (after, stored.removed, stored.id) == ({}, data, "auth/oauth2")
        assert [each.kind for each in stored.plan.actions] == [Kind.REMOVE]
        again = TOPICS.require_writer().restore(view_of(TOPICS, after), PATH, [data])
        assert done(TOPICS, after, again) == files
        with pytest.raises(ConflictError):
            TOPICS.require_writer().restore(view_of(TOPICS, files), PATH, [data])

    def test_entries_are_put_back_each_above_the_first_older_one(self) -> None:
        newest, middle, oldest, last = (entry(f"2025-0{9 - number}-01", name) for number, name in enumerate("abcd"))
        torn = {PATH: b"# T\n\n" + middle + last.rstrip(b"\n")}
        lost = [newest, oldest, entry("2024-01-01", "e").rstrip(b"\n")]
        again = TOPICS.require_writer().restore(view_of(TOPICS, torn), PATH, lost)
        after = done(TOPICS, torn, again)
        assert after[PATH] == b"# T\n\n" + newest + middle + oldest + last + lost[-1]
        assert all(edit.span.start == edit.span.end for each in again.plan.actions for edit in each.edits)
        assert not TOPICS.require_writer().restore(view_of(TOPICS, after), PATH, lost).plan
        created = TOPICS.require_writer().restore(view_of(TOPICS, {}), PATH, lost)
        assert done(TOPICS, {}, created) == {PATH: b"".join(lost)}

    def test_what_is_archived_is_not_forgotten_again_nor_a_live_one_unarchived(self) -> None:
        files = {PATH: REAL, "archive/auth/2025.md": b"<!-- from: oauth2.md -->\n" + entry("2025-08-03", "x")}
        archived = find(TOPICS, files, "auth/oauth2#2025-08-03:x", archived=True)
        with pytest.raises(UsageError):
            TOPICS.require_writer().forget(view_of(TOPICS, files), archived)
        with pytest.raises(UsageError):
            TOPICS.require_writer().unarchive(view_of(TOPICS, files), find(TOPICS, files, FIRST))


def test_reading_leaves_no_trace() -> None:
    """Nothing volatile goes into a repository."""
    found = find(TOPICS, {PATH: REAL}, FIRST)
    assert TOPICS.require_writer().count_reads(PATH, found.loaded, {FIRST: AccessCount(3, NOW)}) == ()


def test_native_is_the_text() -> None:
    record = document(TOPICS, PATH, REAL).records[1]
    assert TOPICS.reader.native(PATH, record.span.of(REAL)) == {"text": "## 2025-08-02: Second\n**Context:** d\n---"}
    assert TOPICS.reader.native(PATH, b"\xff") == {"text": "\ufffd"}
