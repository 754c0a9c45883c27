"""Storing into topic files: on top of the file, and pruned in the same step."""

from __future__ import annotations

import re
from datetime import date

from msgspec.structs import replace

from memoryd.core.defaults import Policy
from memoryd.core.plan import Kind
from memoryd.core.spans import sha256
from memoryd.layouts.protocol import NewMemory, UpkeepView
from tests.layouts.contract import Files, document, upkeep_view
from tests.layouts.markdown_storing import (
    FULL,
    PATH,
    REAL,
    TOPICS,
    WHERE,
    add,
    added,
)
from tests.layouts.storehouse import done, view_of
from tests.layouts.test_markdown_topics import entries, entry


class TestOnTop:
    """A new entry goes to the top of the file, below its title and introduction."""

    def test_above_all_others_below_the_title(self) -> None:
        data = added({PATH: REAL}, FULL)
        assert data == REAL.replace(b"# Title\n\n", b"# Title\n\n" + added({}, FULL) + b"\n", 1)

    def test_whatever_its_date_is(self) -> None:
        data = added({PATH: REAL}, {**FULL, "date": "2001-01-01"})
        assert [each.title for each in document(TOPICS, PATH, data).records] == ["T", "First", "Second"]

    def test_nothing_is_glued_where_the_final_newline_is_missing(self) -> None:
        assert added({PATH: b"# Title"}, FULL).startswith(b"# Title\n\n## 2026")

    def test_the_line_ends_are_those_of_the_file(self) -> None:
        before = REAL.replace(b"\n", b"\r\n")
        data = added({PATH: before}, {**FULL, "code": "a\nb"})
        assert b"\n" not in data.replace(b"\r\n", b"")
        assert data.endswith(before[len(b"# Title\r\n\r\n") :])

    def test_an_unclosed_fence_further_down_stays_where_it_is(self) -> None:
        before = REAL + b"\n```\nnever closed"
        assert added({PATH: before}, FULL).endswith(before[len(b"# Title\n\n") :])

    def test_equal_titles_of_one_day_get_different_ids(self) -> None:
        files = {PATH: added({}, FULL)}
        stored = add(files, {**FULL, "context": "other"})
        assert re.fullmatch(r"auth/oauth2#2026-01-31:t~[0-9a-f]{6}", stored.id)
        again = {PATH: added(files, {**FULL, "context": "other"})}
        assert add(again, {**FULL, "context": "other"}).id == stored.id  # the new one is the first of the two
        assert len(document(TOPICS, PATH, again[PATH]).records) == 2


class TestPrune:
    """Above ten entries or 5,120 bytes the oldest leave with the same change: archive first, then the file."""

    def test_the_eleventh_entry_pushes_the_oldest_out(self) -> None:
        files: Files = {PATH: b"# Title\n\n" + entries(10, 3000)}
        stored = add(files, FULL)
        (group,) = stored.plan.groups()
        assert [(each.kind, each.path, each.copy) for each in group] == [
            (Kind.CREATE, "archive/auth/2025.md", True),
            (Kind.REWRITE, PATH, False),
        ]
        after = done(TOPICS, files, stored)
        oldest = document(TOPICS, PATH, files[PATH]).records[-1]
        assert after["archive/auth/2025.md"] == b"<!-- from: oauth2.md -->\n" + oldest.span.of(files[PATH])
        assert len(document(TOPICS, PATH, after[PATH]).records) == 10
        assert after[PATH] == files[PATH].replace(b"# Title\n\n", b"# Title\n\n" + added({}, FULL) + b"\n").replace(
            oldest.span.of(files[PATH]), b""
        )
        assert not TOPICS.upkeep.prune(_upkeep(after))
        assert group[-1].ids == (stored.id, oldest.id)

    def test_a_restored_entry_is_not_pruned_while_unchanged(self) -> None:
        files: Files = {PATH: b"# Title\n\n" + entries(10, 3000)}
        *_, oldest = (each.span.of(files[PATH]) for each in document(TOPICS, PATH, files[PATH]).records)
        view = replace(view_of(TOPICS, files), pinned=frozenset({sha256(oldest)}))
        after = done(TOPICS, files, TOPICS.require_writer().add(view, NewMemory(FULL, WHERE)))
        assert oldest in after[PATH]
        assert list(after) == [PATH]  # nor does another leave in its place

    def test_ten_entries_and_5120_bytes_are_not_too_much(self) -> None:
        empty = len(added({PATH: entries(9, 3000)}, FULL)) - 3000
        fits = {PATH: entries(9, 5120 - empty)}
        assert len(added(fits, FULL)) == 5120
        assert [each.kind for each in add(fits, FULL).plan.actions] == [Kind.REWRITE]
        above = {PATH: entries(9, 5121 - empty)}
        assert [each.kind for each in add(above, FULL).plan.actions] == [Kind.CREATE, Kind.REWRITE]

    def test_five_stay_whatever_their_size(self) -> None:
        files = {PATH: entries(4, 9000)}
        assert [each.kind for each in add(files, FULL).plan.actions] == [Kind.REWRITE]

    def test_the_archive_named_is_that_of_the_entries_own_year(self) -> None:
        files = {PATH: entries(10, 3000, date(2024, 12, 15))}
        assert add(files, FULL).plan.actions[0].path == "archive/auth/2024.md"

    def test_what_is_older_than_all_is_left_to_the_next_prune(self) -> None:
        files = {PATH: entries(10, 3000)}
        stored = add(files, {**FULL, "date": "2001-01-01"})
        assert [each.kind for each in stored.plan.actions] == [Kind.REWRITE]
        after = done(TOPICS, files, stored)
        assert TOPICS.upkeep.prune(_upkeep(after)).actions[-1].ids == (stored.id,)

    def test_the_id_is_that_after_the_prune(self) -> None:
        """Its namesake was archived, so it gets the id without a suffix."""
        same = entry("2026-01-31", "T")
        files = {PATH: b"".join(entry("2026-02-05", f"n{each}") for each in range(9)) + same}
        stored = add(files, FULL)
        assert stored.id == "auth/oauth2#2026-01-31:t"
        done(TOPICS, files, stored)

    def test_an_archive_that_cannot_take_it_keeps_it_where_it_is(self) -> None:
        broken = entry("2025-12-30", "hidden").replace(b"---", b"```")
        files = {PATH: entries(10, 3000), "archive/auth/2025.md": b"```\n" + broken}
        stored = add(files, FULL)
        after = done(TOPICS, files, stored)
        texts = [each.span.of(files[PATH]) for each in document(TOPICS, PATH, files[PATH]).records]
        assert all(text.rstrip() in after[PATH] + after["archive/auth/2025.md"] for text in texts)


def _upkeep(files: Files) -> UpkeepView:
    return upkeep_view(TOPICS, files, Policy())
