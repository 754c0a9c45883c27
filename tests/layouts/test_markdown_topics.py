"""Topic markdown: the five laws, what is an entry, the index around hand-written text, pruning to the byte, and the
one real folder there is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from memoryd.core.defaults import Policy
from memoryd.core.findings import Finding
from memoryd.core.plan import Kind, Plan
from memoryd.core.records import Document, FileStats, Record, Role
from memoryd.core.spans import sha256, splice
from memoryd.layouts.codes import severity
from memoryd.layouts.markdown_topics import MARKDOWN_TOPICS, MarkdownTopicsReader
from memoryd.layouts.markdown_topics.fields import insert_on_top, render_entry, require_one_entry
from memoryd.layouts.markdown_topics.index import render, update_index
from memoryd.layouts.markdown_topics.names import heading_for
from memoryd.layouts.markdown_topics.outline import outline
from memoryd.layouts.protocol import IndexView, Layout, LoadedFile, UpkeepView
from memoryd.operations.upkeep import plan_row
from tests.layouts.contract import (
    NOW,
    PARSED,
    Files,
    LayoutContract,
    carried_out,
    document,
    index_of,
    upkeep_view,
    whole,
)

TOPICS = MARKDOWN_TOPICS
CORPUS = Path(__file__).parent.parent / "corpora" / "markdown-topics-real" / "memory"
TOKEN = "ghp_" + "a1B2" * 9


def entry(day: str, title: str = "A title", size: int = 0, end: str = "\n") -> bytes:
    """An entry as the seed writes it, of `size` bytes when given."""
    head = f"## {day}: {title}\n**Context:** c\n**Problem:** p\n**Solution:** "
    tail = f"\n---{end}"
    return (head + "s" * max(1, size - len(head) - len(tail)) + tail).encode()


def entries(count: int, total: int, first: date = date(2025, 12, 31)) -> bytes:
    """That many entries, newest first, a day apart, of that many bytes together."""
    sizes = [total // count] * count
    sizes[0] += total - sum(sizes)
    days = [date.fromordinal(first.toordinal() - number).isoformat() for number in range(count)]
    made = b"".join(entry(day, f"number {n}", size) for n, (day, size) in enumerate(zip(days, sizes, strict=True)))
    assert len(made) == total
    return made


LONG: Files = {
    "auth/oauth2.md": b"# OAuth2\n\nIntroduction.\n\n" + entries(12, 3000),
    "auth/sessions.md": entries(8, 5600) + b"\n",
    "auth/same.md": b"".join(entry("2025-05-05", f"same {n}") for n in range(13)).rstrip(b"\n"),
    "archive/auth/2025.md": b"<!-- from: oauth2.md -->\n" + entry("2025-01-01", "long ago"),
    "index.md": b"# Memory Index\n\n## Topics\n### Auth\n- `oauth2.md` - By hand",
}
ODD: Files = {
    "t/fenced.md": b"# T\n```md\n## 2025-01-01: no entry\n---\n```\n" + entries(11, 3000) + b"~~~\n## 2020-01-01: no\n",
    "t/crlf.md": entries(11, 3000).replace(b"\n", b"\r\n"),
    "t/bom.md": b"\xef\xbb\xbf" + entries(11, 3000) + b"*Stored: today*",
    "t/front.md": b"---\ntitle: Plain\n---\nJust a note.\n",
    "t/twice.md": entry("2025-02-02") * 12,
    "Pattern/2025/08/deep.md": b"---\n" + entry("2025-01-01") + b"---" + entry("2024-12-31"),
    "notes.md": b"# Notes\n\n- a\n",
    "archive/t/2025.md": b"# Kept by hand\n" + entry("2025-12-25", "hand", end="") + b"\n```\nopen\n",
    "index.md": b"My own notes about `t/front.md`.\n",
}


class TestMarkdownTopicsContract(LayoutContract):
    layout: ClassVar[Layout] = TOPICS
    samples: ClassVar[Sequence[Mapping[str, bytes]]] = (LONG, ODD)

    def same_memory(self, live: bytes, archived: bytes) -> bool:
        return live.rstrip(b"\r\n") == archived.rstrip(b"\r\n")

    def archived_texts(self, path: str, archive: bytes) -> list[bytes]:
        return [record.span.of(archive) for record in document(TOPICS, path, archive).records]

    def alone(self, record: Record) -> str:
        return re.sub(r"~[0-9a-f]{6}(\.\d+)?$", "", record.id)  # alone, nothing collides with it

    def comes_up(self, record: Record) -> bool:
        return record.type == "document"  # the introduction of a file whose entries have all been moved

    def no_memory(self, text: bytes) -> bool:
        return not text or b"\0" in text or b"\xff" in text  # any other text is a note

    def _live(self, files: Files) -> list[Record]:
        return [record for record in super()._live(files) if "~" not in record.id and record.type == "entry"]

    def _archive_plan(self, files: Files) -> Plan:
        return TOPICS.upkeep.prune(upkeep_view(TOPICS, files, Policy()))


# --- roles


@pytest.mark.parametrize(
    ("path", "role"),
    [
        ("index.md", Role.INDEX),
        ("a/b.md", Role.SOURCE),
        ("Pattern/2025/08/x.md", Role.SOURCE),
        ("top.md", Role.SOURCE),
        ("a/index.md", Role.SOURCE),
        ("a/archive/b.md", Role.SOURCE),
        ("东京/ a\n.md", Role.SOURCE),
        ("archive/a/2024.md", Role.ARCHIVE),
        ("archive/a/b/2024.md", Role.ARCHIVE),
        ("archive/2024.md", Role.ARCHIVE),
        (".git/a.md", Role.FOREIGN),
        ("a/.hidden/b.md", Role.FOREIGN),
        ("a/.b.md", Role.FOREIGN),
        ("a/b.txt", Role.FOREIGN),
        ("a/b.md.tmp", Role.TEMP),
        ("a/b.sync-conflict-20250101.md", Role.TEMP),
    ],
)
def test_every_markdown_file_but_archive_and_hidden_ones_is_a_source(path: str, role: Role) -> None:
    assert TOPICS.reader.role(path) is role


# --- what is an entry


def read(data: bytes, path: str = "topic/sub.md", **how: float) -> Document:
    return document(TOPICS, path, data, **how)


def texts(data: bytes, path: str = "topic/sub.md") -> list[bytes]:
    return [record.span.of(data) for record in read(data, path).records]


def codes(found: Document) -> list[str]:
    return [finding.code for finding in found.findings]


class TestEntries:
    def test_one_entry_with_all_it_tells(self) -> None:
        (record,) = read(b"# T\n\n" + entry("2025-08-03", "Fix: the `x` + y"), "a/b-c.md").records
        assert record.id == "a/b-c#2025-08-03:fix-the-x-y"
        assert (record.title, record.type, record.line) == ("Fix: the `x` + y", "entry", 3)
        assert (record.created, record.used, record.tags) == (1754179200.0, None, ("a",))
        assert not record.archived

    def test_an_entry_ends_before_the_next_or_with_the_file(self) -> None:
        """The italic closing line after `---` is the last entry's own."""
        one, two = entry("2025-02-02") + b"\n", entry("2025-01-01") + b"*Stored: 2025-01-01 by x*"
        assert texts(b"# T\n\ntext\n" + one + two) == [one, two]

    @pytest.mark.parametrize(
        "line",
        [
            "## 2025-13-01: T", "## 2025-02-29: T", "## 0000-01-01: T", "## 2025-1-1: T", "##  2025-01-01: T",
            " ## 2025-01-01: T", "### 2025-01-01: T", "## 2025-01-01 T", "## 2025-01-01:T", "## 2025-01-01:",
            "## 2025-01-01: ", "## T", "## ２025-01-01: T",
        ],
    )  # fmt: skip
    def test_other_headings_begin_none(self, line: str) -> None:
        assert len(read(entry("2025-01-02") + line.encode() + b"\nmore\n").records) == 1

    @pytest.mark.parametrize(
        ("fence", "closing"),
        [("```", "```"), ("~~~", "~~~"), ("   ```yaml", "````  "), ("`````", "`````"), ("~~~ `x`", "~~~~")],
    )
    def test_nothing_in_a_fence_begins_one(self, fence: str, closing: str) -> None:
        inside = f"{fence}\n## 2025-01-01: no\n---\n{closing}\n".encode()
        data = entry("2025-02-02") + inside + entry("2025-01-01")
        assert texts(data) == [entry("2025-02-02") + inside, entry("2025-01-01")]

    @pytest.mark.parametrize(
        ("fence", "other"), [("```", "~~~"), ("````", "```"), ("~~~", "```"), ("```", "```yaml"), ("```", "    ```")]
    )
    def test_a_fence_is_closed_by_its_own_kind_only(self, fence: str, other: str) -> None:
        data = f"{fence}\n{other}\n## 2025-01-01: no\n{fence}\n".encode() + entry("2025-01-02")
        assert [record.created for record in read(data).records] == [1735776000.0]

    def test_backticks_in_a_line_are_not_a_fence(self) -> None:
        assert len(read(b"```not `a` fence\n" + entry("2025-01-01")).records) == 1

    def test_an_unclosed_fence_hides_what_follows_and_is_reported(self) -> None:
        found = read(entry("2025-02-02") + b"```\n" + entry("2025-01-01"))
        assert len(found.records) == 1
        assert [(f.code, f.line) for f in found.findings] == [("unclosed-fence", 6)]

    @pytest.mark.parametrize("lead", [b"", b"\xef\xbb\xbf", b"\r\n", b"---\ntitle: x\n---\n", b"---\n"])
    def test_text_before_the_first_entry_is_not_an_entry(self, lead: bytes) -> None:
        assert texts(lead + entry("2025-01-01")) == [entry("2025-01-01")]

    def test_windows_lines(self) -> None:
        data = (entry("2025-02-02") + entry("2025-01-01")).replace(b"\n", b"\r\n")
        found = read(data)
        assert [record.title for record in found.records] == ["A title", "A title"]
        assert codes(found) == ["crlf-newlines"]

    def test_a_document_without_entries_is_one_memory(self) -> None:
        """Front matter and plain notes are found, and never pruned."""
        data = b"---\ntitle: x\n---\n# The title\n\ntext\n" + b"x" * 6000
        found = read(data, "a/b.md")
        assert [(r.id, r.type, r.title, r.span.of(data)) for r in found.records] == [
            ("a/b", "document", "The title", data)
        ]
        assert found.facts["front_matter"]
        assert codes(found) == ["oversize"]
        assert not TOPICS.upkeep.prune(upkeep_view(TOPICS, {"a/b.md": data}, Policy()))

    @pytest.mark.parametrize("data", [b"", b"\n \n", b"# Title\n\n---\n", b"\xef\xbb\xbf", b"# T\n<!-- note -->\n"])
    def test_an_empty_file_and_a_bare_title_are_not_memories(self, data: bytes) -> None:
        assert read(data).records == ()

    def test_bytes_that_are_not_text_are_waited_for_and_then_reported(self) -> None:
        for data in (entry("2025-01-01") + b"caf\xc3", entry("2025-01-01") + b"\0\0\0"):
            fresh, old = read(data, mtime=NOW - 1), read(data)
            assert (fresh.pending, fresh.findings) == (True, ())
            assert not old.pending
            assert codes(old) in (["invalid-encoding"], ["nul-bytes"])
            assert len(old.records) == 1

    def test_the_facts_of_a_file(self) -> None:
        data = b"# The title\n\n" + entry("2025-01-01", "old") + entry("2025-02-02", "new") + b"# in the entry\n"
        facts = {"h1": "The title", "newest": "new", "entries": 2, "size": len(data), "front_matter": False}
        assert read(data).facts == facts
        assert read(b"```\n# no\n```\n" + entry("2025-01-01")).facts["h1"] == ""


class TestIds:
    def test_those_that_collide_all_carry_the_hash_of_their_text(self) -> None:
        one, two = entry("2025-01-01", "Same") + b"one\n", entry("2025-01-01", "same!") + b"two\n"
        base = "topic/sub#2025-01-01:same"
        expected = [f"{base}~{sha256(text.rstrip())[:6]}" for text in (one, two)]
        assert [record.id for record in read(one + two).records] == expected

    def test_equal_ones_are_numbered(self) -> None:
        mark = "topic/sub#2025-01-01:a-title~" + sha256(entry("2025-01-01").rstrip())[:6]
        assert [r.id for r in read(entry("2025-01-01") * 3).records] == [mark, f"{mark}.2", f"{mark}.3"]

    def test_an_archived_entry_keeps_the_id_of_its_file(self) -> None:
        archive = b"<!-- from: sub.md -->\n" + entry("2024-01-01") + entry("2023-01-01", "By hand")
        found = read(archive, "archive/a/b/2024.md")
        assert [(r.id, r.archived, r.tags) for r in found.records] == [
            ("a/b/sub#2024-01-01:a-title", True, ("a", "b")),
            ("archive/a/b/2024#2023-01-01:by-hand", True, ("archive", "a", "b")),
        ]

    @pytest.mark.parametrize(
        ("title", "slug"),
        [("!?", "entry"), ("Ünïcode 东京", "ünïcode-东京"), ("a_b/c", "a-b-c"), ("x " * 90, "x-" * 39 + "x")],
    )
    def test_slugs(self, title: str, slug: str) -> None:
        assert read(entry("2025-01-01", title)).records[0].id == f"topic/sub#2025-01-01:{slug}"

    def test_names_that_are_not_text(self) -> None:
        assert read(entry("2025-01-01"), "a\udcff/b\nc.md").records[0].id == "a\\xff/b c#2025-01-01:a-title"


class TestFindings:
    def test_a_sound_file_has_none(self) -> None:
        assert read(b"# T\n\n" + entry("2025-02-02") + entry("2025-01-01", end="")).findings == ()

    def test_not_newest_first_is_reported_once_and_not_changed(self) -> None:
        data = entry("2025-01-01") + entry("2025-03-03") + entry("2025-02-02") + entry("2025-04-04")
        assert [(f.code, f.line) for f in read(data).findings] == [("not-newest-first", 6)]
        assert TOPICS.repair.fixes("a/b.md", LoadedFile(data, read(data)), NOW) == ()

    def test_missing_labels_are_a_warning_and_extra_ones_nothing(self) -> None:
        found = read(b"## 2025-01-01: T\n**Context:** c\n**Root Cause:** r\n```\n**Problem:** fenced\n```\n---\n")
        assert [(f.code, str(severity(f)), f.message) for f in found.findings] == [
            ("missing-labels", "warning", "the entry lacks Problem and Solution")
        ]

    @pytest.mark.parametrize(
        ("data", "told"), [(entries(5, 5120), []), (entries(5, 5121), ["oversize"]), (entries(6, 5121), [])]
    )
    def test_oversize_is_what_pruning_cannot_help(self, data: bytes, told: list[str]) -> None:
        assert codes(read(data)) == told

    def test_a_date_that_does_not_exist(self) -> None:
        found = read(entry("2025-01-02") + b"## 2025-02-30: T\n")
        assert [(f.code, f.line) for f in found.findings] == [("invalid-date", 6)]

    def test_a_date_in_the_future(self) -> None:
        assert codes(read(entry("2026-02-01"))) == []  # it has begun elsewhere on earth
        assert codes(read(entry("2026-02-02"))) == ["future-stamp"]

    @pytest.mark.parametrize("end", [b"---", b"----- ", b"---\n*Stored: today*"])
    @pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
    def test_a_glued_entry_is_reported_and_healed_by_a_newline(self, end: bytes, newline: bytes) -> None:
        """Nothing but the newline is put in, and the second time there is nothing to heal."""
        data = (b"## 2025-02-02: A\ntext\n" + end + entry("2025-01-01")).replace(b"\n", newline)
        found = read(data)
        assert len(found.records) == 1
        assert "glued-heading" in codes(found)
        (fix,) = TOPICS.repair.fixes("topic/sub.md", LoadedFile(data, found), NOW)
        healed = splice(data, fix.edits)
        assert len(read(healed).records) == 2
        assert healed.replace(newline, b"") == data.replace(newline, b"")
        assert TOPICS.repair.fixes("topic/sub.md", LoadedFile(healed, read(healed)), NOW) == ()

    @pytest.mark.parametrize("text", [b"as `---## 2025-01-01: T` shows", b"```\n---## 2025-01-01: T\n```"])
    def test_what_only_looks_glued_is_left(self, text: bytes) -> None:
        data = entry("2025-01-01") + text
        assert codes(read(data)) == []
        assert TOPICS.repair.fixes("topic/sub.md", LoadedFile(data, read(data)), NOW) == ()

    def test_a_secret_is_named_by_pattern_and_line_and_never_shown(self) -> None:
        data = entry("2025-02-02") + entry("2025-01-01", f"Use {TOKEN} now") + f"again {TOKEN}\n".encode()
        found = read(data)
        assert [(f.code, f.line, f.message) for f in found.findings] == [
            ("secret-shape", 6, "text shaped like a secret: github-token"),
            ("secret-shape", 11, "text shaped like a secret: github-token"),
        ]
        assert found.records[1].title == "Use [redacted:github-token] now"
        assert TOKEN.lower() not in repr(found).lower()

    def test_no_description_in_the_index_shows_one(self) -> None:
        written = index_of(TOPICS, {"a/b.md": f"# Key {TOKEN}\n\ntext\n".encode()}).files["index.md"]
        assert b"- `b.md` - Key [redacted:github-token]\n" in written

    def test_words_are_reported_only_when_asked_for(self) -> None:
        data = b"# T\n\n## 2025-01-01: Key Learnings\n**Context:** c\n**Problem:** monkey\n**Solution:** s\n"
        assert codes(read(data)) == []
        found = MarkdownTopicsReader(sensitive_words=True).parse("a/b.md", data, now=NOW, mtime=0.0, base=None)  # type: ignore[arg-type]  # unused
        assert [(f.code, f.line, str(severity(f))) for f in found.findings] == [
            ("sensitive-word", 3, "info"),
            ("sensitive-word", 5, "info"),
        ]


# --- index.md

REAL = b"""# Memory Index

## Topics
### Validation
- `execution-context.md` - Claude Code validation patterns

### Templates
- `prb-self-contained.md` - PRB template self-containment patterns"""


def notes(*paths: str) -> dict[str, str]:
    return {path: f"about {path}" for path in paths}


def made(content: bytes, *paths: str) -> str:
    new = update_index(content, notes(*paths))
    assert new is not None
    assert update_index(new, notes(*paths)) == new
    return new.decode("utf-8", "surrogateescape")


def view_of(paths: Sequence[str], content: bytes, own: Sequence[str]) -> IndexView:
    files = {path: FileStats(path, Role.SOURCE, 1, 0, 0, 0, {"h1": path.rpartition("/")[2]}) for path in paths}
    return IndexView((), files, {"index.md": content}, NOW, state={"headings": list(own)} if own else {})


class TestIndex:
    def test_created_in_the_known_form(self) -> None:
        assert made(b"", "prb-execution/b.md", "prb-execution/a.md", "auth/x.md", "Pattern/2025/08/p.md", "top.md") == (
            "# Memory Index\n\n## Topics\n- `top.md` - about top.md\n\n### Auth\n- `x.md` - about auth/x.md\n\n"
            "### Pattern 2025 08\n- `p.md` - about Pattern/2025/08/p.md\n\n### Prb Execution\n"
            "- `a.md` - about prb-execution/a.md\n- `b.md` - about prb-execution/b.md\n"
        )

    def test_not_created_for_nothing(self) -> None:
        assert index_of(TOPICS, {}).files == {}
        assert index_of(TOPICS, {"archive/a/2024.md": entry("2024-01-01")}).files == {}

    def test_missing_lines_are_added_to_their_topics_and_hand_written_ones_stay(self) -> None:
        text = made(
            REAL, "validation/execution-context.md", "templates/prb-self-contained.md", "templates/b.md", "new-one/c.md"
        )
        assert (
            text == REAL.decode() + "\n- `b.md` - about templates/b.md\n\n### New One\n- `c.md` - about new-one/c.md\n"
        )

    def test_a_line_whose_file_is_gone_goes_and_its_heading_stays(self) -> None:
        text = made(REAL, "templates/prb-self-contained.md")
        assert text == REAL.decode().replace("- `execution-context.md` - Claude Code validation patterns\n", "")

    def test_nothing_to_do_is_nothing_written(self) -> None:
        known = ("validation/execution-context.md", "templates/prb-self-contained.md")
        assert update_index(REAL, notes(*known)) == REAL

    def test_any_other_text_is_left_alone(self) -> None:
        before = (
            b"<!-- head -->\n# Memory Index\nIntro.\n\n## Topics\nRead these first:\n\n### Auth\nBy Ann.\n"
            b"* `a.md`: hers\n  goes on\n> quote\n\n```\n- `gone.md` - in a fence\n```\n\n"
            b"## Notes\n- `gone.md` - not ours\n"
        )
        after = made(before, "auth/a.md", "auth/b.md", "zeta/z.md")
        assert (
            after.replace("- `b.md` - about auth/b.md\n", "").replace("\n### Zeta\n- `z.md` - about zeta/z.md\n", "")
            == before.decode()
        )
        assert "  goes on\n- `b.md` - about auth/b.md\n> quote" in after
        assert after.index("### Zeta") < after.index("## Notes")

    def test_freely_worded_headings_and_orders_stay(self) -> None:
        before = (
            b"# Memory Index\n## Topics\n### Signing in (OAuth)\n- `z.md` - zz\n- `a.md` - aa\n"
            b"### PRB execution\n- `p.md` - pp\n"
        )
        assert made(before, "auth/a.md", "auth/z.md", "prb-execution/p.md") == before.decode()

    def test_a_topic_that_was_renamed_takes_its_descriptions_along(self) -> None:
        before = b"# Memory Index\n## Topics\n### Old\n- `a.md` - by hand\n"
        assert made(before, "new/a.md") == "# Memory Index\n## Topics\n### Old\n\n### New\n- `a.md` - by hand\n"

    def test_after_any_renaming_of_directories_it_equals_a_rebuild(self) -> None:
        content, own = b"", list[str]()
        for paths in (
            ("auth-1/x.md", "auth-1/b.md", "zeta/z.md", "top.md"),
            ("auth-2/x.md", "auth-2/b.md", "zeta/z.md", "top.md"),
            ("b1/x.md", "b1/b.md", "b1/a.md", "zeta/z.md", "zeta/top.md"),
            ("b1/x.md", "authentication/b.md"),
            ("auth/b.md",),
            ("zz/x.md", "auth/b.md"),
            ("zz/x.md",),
            ("base.md",),
            ("base.md", "zz/x.md", "a.md"),
            ("zz/x.md",),
            ("base.md", "zz/x.md"),
        ):
            pauses = list[None]()
            view = replace(view_of(paths, content, own), pause=partial(pauses.append, None))
            result, again = whole(render(view)), whole(render(view_of(paths, b"", [])))
            assert len(pauses) == 3, "before and after each step"
            content, own = result.files["index.md"], result.next_state["headings"]
            assert content == again.files["index.md"]
            assert render(view_of(paths, content, own)).files == {}

    def test_the_heading_of_a_removed_directory_stays_if_it_has_more_content(self) -> None:
        before = b"# Memory Index\n## Topics\n### Auth\nBy Ann.\n- `a.md` - aa\n\n### Old\n- `b.md` - bb\n\n## Notes\n"
        after = update_index(before, notes("new/a.md"), {"Auth", "Old"})
        assert after == (b"# Memory Index\n## Topics\n### Auth\nBy Ann.\n\n### New\n- `a.md` - aa\n\n## Notes\n")

    def test_a_hand_written_heading_that_is_longer_than_the_directory_keeps_its_lines(self) -> None:
        before = b"# Memory Index\n## Topics\n### Authentication\n- `oauth2.md` - by hand\n"
        assert made(before, "auth/oauth2.md") == before.decode()
        view = view_of(("auth/oauth2.md",), before, [])
        assert render(view).next_state == {}
        assert b"### Authentication\n" in (update_index(before, {}) or b""), "also without any line"

    def test_equal_names_in_different_topics(self) -> None:
        text = made(b"", "a/notes.md", "b/notes.md", "a-b/notes.md", "a/b/notes.md")
        assert text.count("`notes.md`") == 4
        assert text.count("### A B\n") == 1
        assert made(text.encode(), "b/notes.md", "a-b/notes.md").count("`notes.md`") == 2

    def test_windows_lines_are_kept(self) -> None:
        text = made(
            REAL.replace(b"\n", b"\r\n"), "validation/execution-context.md", "templates/prb-self-contained.md", "x/y.md"
        )
        assert "\n" not in text.replace("\r\n", "")
        assert text.endswith("### X\r\n- `y.md` - about x/y.md\r\n")

    @pytest.mark.parametrize("end", [b"", b"\n", b"\n\n"])
    def test_another_form_gets_a_block_and_nothing_outside_of_it_changes(self, end: bytes) -> None:
        before = b"# My notes\n\n- [a](t/a.md)\n- `gone.md` - mine" + end
        text = made(before, "t/a.md", "t/b.md").encode()
        assert text.startswith(before)
        assert text.endswith(
            b"\n\n<!-- memoryd:begin -->\n### T\n- `a.md` - about t/a.md\n"
            b"- `b.md` - about t/b.md\n<!-- memoryd:end -->\n"
        )
        assert made(text + b"tail", "t/a.md") == text.decode().replace("- `b.md` - about t/b.md\n", "") + "tail"

    @pytest.mark.parametrize(
        "content",
        [
            b"# Memory Index\n## Topics\n```\nnever closed\n",
            b"<!-- memoryd:begin -->\n",
            b"<!-- memoryd:end -->\n<!-- memoryd:begin -->\n",
            b"<!-- memoryd:begin -->\n<!-- memoryd:begin -->\n<!-- memoryd:end -->\n",
        ],
    )
    def test_an_index_that_cannot_be_preserved_is_left_alone_and_reported(self, content: bytes) -> None:
        found = index_of(TOPICS, {"index.md": content, "a/b.md": entry("2025-01-01")})
        assert found.files == {}
        assert [(f.code, f.path) for f in found.findings] == [("index-unmanaged", "index.md")]

    def test_descriptions_are_the_title_of_the_file_else_of_the_newest_entry_else_its_name(self) -> None:
        files = {
            "a/one.md": b"# First  title\n\n" + entry("2025-01-01"),
            "a/two.md": entry("2025-01-01", "old") + entry("2025-02-02", "new"),
            "a/three.md": b"plain\n",
        }
        text = index_of(TOPICS, files).files["index.md"].decode()
        assert text.splitlines()[4:] == ["- `one.md` - First  title", "- `three.md` - three", "- `two.md` - new"]

    def test_counts(self) -> None:
        found = index_of(TOPICS, {**LONG, "a/b.md": b"text\n"})
        assert (found.memories, found.archived, found.by_type) == (34, 1, {"entry": 33, "document": 1})

    def test_unlistable_names_are_reported(self) -> None:
        found = index_of(TOPICS, {"a/b`c.md": b"text\n", "a/b\nc.md": b"text\n", "a/d e.md": b"text\n"})
        assert b"`d e.md`" in found.files["index.md"]
        assert [(f.code, f.path) for f in found.findings] == [
            ("unlistable-name", "a/b\nc.md"),
            ("unlistable-name", "a/b`c.md"),
        ]

    def test_names_that_are_not_utf_8_are_reported_and_not_listed(self) -> None:
        """An index with their bytes is no UTF-8: many programs cannot read such a file at all."""
        names = ["a/n\udcfe.md", "bad\udcff/n.md"]
        found = index_of(TOPICS, {**dict.fromkeys(names, b"text\n"), "a/ü.md": b"# T\xffitle\n"})
        assert "- `ü.md` - T" in found.files["index.md"].decode()
        assert [(f.code, f.path) for f in found.findings] == [("unlistable-name", each) for each in names]
        assert {f.message for f in found.findings} == {"the name is not valid UTF-8, so it cannot be listed"}

    def test_names_that_are_not_utf_8_leave_an_index_that_has_them(self) -> None:
        """As an earlier version wrote it."""
        stats = {path: FileStats(path, Role.SOURCE, 5, 1, 0, 1, {}) for path in ("bad\udcff/n\udcfe.md", "a/b.md")}
        before = b"# Memory Index\n\n## Topics\n\n### A\n- `b.md` - b\n\n### Bad\xff\n- `n\xfe.md` - n\n"
        view = IndexView([], stats, {"index.md": before}, NOW, state={"headings": ["A", "Bad\udcff"]})
        found = whole(render(view))
        assert found.files["index.md"].decode() == "# Memory Index\n\n## Topics\n\n### A\n- `b.md` - b\n"

    @PARSED
    @given(data=st.data())
    def test_whatever_files_and_text_there_are_twice_is_once(self, data: st.DataObject) -> None:
        """And each file is listed, each line outside the lists is still there."""
        part = st.text(st.sampled_from("ab-_# `ß东🔥\u2028\udcff.*()"), min_size=1, max_size=4)
        paths = data.draw(
            st.sets(st.lists(part, min_size=1, max_size=3).map(lambda p: "/".join(p) + ".md"), max_size=6)
        )
        files = {path: "d" for path in paths if TOPICS.reader.role(path) is Role.SOURCE and "`" not in path}
        shards = (
            "# Memory Index\n", "## Topics\n", "### A\n", "### B x\n", "- `a.md` - hers\n", "- `b.md`\n", "\n",
            "text\n", "```\n", "  more\n", "## Notes\n", "---\n", "\r\n", "x",
            "<!-- memoryd:begin -->\n", "<!-- memoryd:end -->\n",
        )  # fmt: skip
        before = "".join(data.draw(st.lists(st.sampled_from(shards), max_size=10))).encode()
        after = update_index(before, files)
        if after is None:
            return
        assert update_index(after, files) == after
        kept = [line for line in after.splitlines() if not line.lstrip().startswith(b"- `")]
        assert [
            line for line in before.splitlines() if line.strip() and not line.startswith(b"- `") and line not in kept
        ] == []
        for path in files:
            assert f"`{path.rpartition('/')[2]}`".encode("utf-8", "surrogateescape") in after


# --- pruning


def pruned(files: Files, held: frozenset[str] = frozenset()) -> tuple[Plan, Files]:
    seen = upkeep_view(TOPICS, files, Policy())
    plan = TOPICS.upkeep.prune(UpkeepView(seen.live, seen.archive, seen.policy, seen.now, held))
    return plan, carried_out(files, plan)


def moved(plan: Plan) -> list[str]:
    return [identity for action in plan.actions if not action.copy for identity in action.ids]


class TestPruning:
    @pytest.mark.parametrize(
        ("count", "size", "gone"),
        [
            (10, 4000, 0),
            (10, 5120, 0),
            (11, 4000, 1),
            (12, 5120, 2),
            (5, 9000, 0),
            (5, 5121, 0),
            (6, 9000, 1),
            (0, 9000, 0),
            (30, 60_000, 25),
        ],
    )
    def test_above_ten_entries_or_five_kilobytes_the_oldest_leave(self, count: int, size: int, gone: int) -> None:
        data = entries(count, size) if count else b"x" * size
        plan, after = pruned({"a/b.md": data})
        found = read(data, "a/b.md").records
        assert moved(plan) == [record.id for record in found[len(found) - gone :]]
        assert after["a/b.md"] == data[: found[-gone].span.start if gone else len(data)]
        assert not pruned(after)[0]

    def test_nine_entries_of_5121_bytes_lose_the_oldest_until_it_fits(self) -> None:
        plan, after = pruned({"a/b.md": entries(9, 5121)})
        assert len(moved(plan)) == 1
        assert len(after["a/b.md"]) <= 5120

    def test_five_stay_whatever_their_size_and_that_is_reported(self) -> None:
        _, after = pruned({"a/b.md": entries(9, 20_000)})
        found = read(after["a/b.md"])
        assert len(found.records) == 5
        assert codes(found) == ["oversize"]

    def test_of_equal_dates_the_lowest_in_the_file_leave(self) -> None:
        data = b"".join(entry("2025-05-05", f"number {n}") for n in range(12))
        plan, _ = pruned({"a/b.md": data})
        assert [identity.partition(":")[2] for identity in moved(plan)] == ["number-10", "number-11"]

    def test_the_date_decides_not_the_place(self) -> None:
        data = entry("2020-01-01", "misplaced") + entries(10, 3000)
        plan, after = pruned({"a/b.md": data})
        assert moved(plan) == ["a/b#2020-01-01:misplaced"]
        assert after["a/b.md"] == entries(10, 3000)

    def test_the_entrys_own_date_names_the_year(self) -> None:
        """An entry of 2024-12-15 pruned in 2026 goes to archive/<topic>/2024.md."""
        _, after = pruned({"a/b.md": entries(10, 3000) + entry("2024-12-15", "old")})
        assert after["archive/a/2024.md"] == b"<!-- from: b.md -->\n" + entry("2024-12-15", "old")

    def test_nested_topics_and_files_without_one(self) -> None:
        long = entries(10, 3000) + entry("2024-12-15")
        _, after = pruned({"a/b/c.md": long, "top.md": long})
        assert {"archive/a/b/2024.md", "archive/2024.md"} <= set(after)

    def test_archives_are_newest_first_with_the_source_and_the_very_bytes(self) -> None:
        """Nothing is glued, also where an entry has no final newline."""
        old = b"# By hand\n\n<!-- from: x.md -->\n" + entry("2024-06-01", "there", end="")
        late, early = entry("2024-08-01", "late") + b"\n", entry("2024-02-01", "early", end="")
        _, after = pruned({"a/b.md": entries(10, 3000) + late + early, "archive/a/2024.md": old})
        assert after["archive/a/2024.md"] == (
            b"# By hand\n\n<!-- from: b.md -->\n" + late + b"<!-- from: x.md -->\n" + entry("2024-06-01", "there")
            + b"<!-- from: b.md -->\n" + early + b"\n"
        )  # fmt: skip
        assert after["a/b.md"] == entries(10, 3000)

    def test_entries_archived_later_are_above_those_archived_earlier_on_the_same_day(self) -> None:
        files = {"a/b.md": b"".join(entry("2024-05-05", f"number {n}") for n in range(11))}
        files = pruned(files)[1]
        files["a/b.md"] = entry("2024-05-05", "number x") + files["a/b.md"]
        files = pruned(files)[1]
        titles = [record.title for record in read(files["archive/a/2024.md"], "archive/a/2024.md").records]
        assert titles == ["number 9", "number 10"]

    def test_an_entry_that_is_there_already_is_not_repeated(self) -> None:
        """A crash between the two writes costs nothing."""
        long = entries(10, 3000) + entry("2024-12-15", end="")
        plan, after = pruned({"a/b.md": long})
        assert [action.kind for action in plan.actions] == [Kind.CREATE, Kind.REWRITE]
        crashed = {**after, "a/b.md": long}
        plan, again = pruned(crashed)
        assert [action.kind for action in plan.actions] == [Kind.REWRITE]
        assert again == after

    @pytest.mark.parametrize(
        ("source", "copies"), [(b"", 1), (b"<!-- from: b.md -->\n", 1), (b"<!-- from: c.md -->\n", 2)]
    )
    def test_the_same_text_from_another_file_is_kept_too(self, source: bytes, copies: int) -> None:
        archive = source + entry("2024-12-15")
        _, after = pruned({"a/b.md": entries(10, 3000) + entry("2024-12-15"), "archive/a/2024.md": archive})
        assert after["archive/a/2024.md"].count(entry("2024-12-15")) == copies

    def test_copies_come_first_and_each_file_ends_a_group(self) -> None:
        long = entries(9, 3000) + entry("2024-12-15") + entry("2023-12-15")
        plan, after = pruned({"a/b.md": long, "a/c.md": long, "d/e.md": long})
        shown = [[(action.kind, action.path, action.copy) for action in group] for group in plan.groups()]
        assert shown == [
            [(Kind.CREATE, "archive/a/2023.md", True), (Kind.REWRITE, "a/b.md", False)],
            [(Kind.REWRITE, "a/c.md", False)],
            [(Kind.CREATE, "archive/d/2023.md", True), (Kind.REWRITE, "d/e.md", False)],
        ]  # one archive serves both files of the topic and is written once
        assert after["archive/a/2023.md"].count(b"<!-- from:") == 2

    def test_a_secret_blocks_no_pruning(self) -> None:
        """Moving is not storing, or files would grow without bound."""
        secret = entry("2024-12-15", f"password {TOKEN}")
        plan, after = pruned({"a/b.md": entries(10, 3000) + secret})
        assert after["archive/a/2024.md"].endswith(secret)
        assert TOKEN not in repr(plan_row(plan))

    def test_what_an_undo_brought_back_stays_and_nothing_leaves_in_its_place(self) -> None:
        long = entries(10, 3000) + entry("2024-12-15", "back")
        held = frozenset({sha256(entry("2024-12-15", "back"))})
        assert not pruned({"a/b.md": long}, held)[0]
        plan, _ = pruned({"a/b.md": entry("2026-01-01") + long}, held)
        assert moved(plan) == [read(entries(10, 3000), "a/b.md").records[-1].id]

    def test_an_entry_with_an_unclosed_fence_stays(self) -> None:
        """Nobody knows what else is in it."""
        last = entry("2024-12-15") + b"```\n" + entry("2020-01-01")
        assert not pruned({"a/b.md": entries(10, 3000) + last})[0]
        plan, _ = pruned({"a/b.md": entries(11, 3000) + last})
        assert moved(plan) == [read(entries(11, 3000), "a/b.md").records[-1].id]

    def test_nothing_is_put_below_an_unclosed_fence_of_the_archive(self) -> None:
        archive = entry("2024-12-20", "hand") + b"```\n"
        _, after = pruned({"a/b.md": entries(10, 3000) + entry("2024-12-15"), "archive/a/2024.md": archive})
        assert after["archive/a/2024.md"] == b"<!-- from: b.md -->\n" + entry("2024-12-15") + archive

    def test_what_could_not_be_read_back_is_not_moved(self) -> None:
        """This entry's last line would become the source of the entry below it."""
        old = entry("2024-12-15") + b"<!-- from: z.md -->\n"
        plan, after = pruned({"a/b.md": entries(10, 3000) + old, "archive/a/2024.md": entry("2024-01-01")})
        assert not plan
        assert [note.path for note in plan.notes] == ["a/b.md"]
        assert after["archive/a/2024.md"] == entry("2024-01-01")

    def test_windows_lines_stay_windows_lines(self) -> None:
        long = (entries(10, 3000) + entry("2024-12-15")).replace(b"\n", b"\r\n")
        _, after = pruned({"a/b.md": long})
        assert b"\n" not in after["archive/a/2024.md"].replace(b"\r\n", b"")

    def test_only_files_that_may_be_due_are_read(self) -> None:
        files = {
            "a/1.md": entries(10, 5120),
            "a/2.md": entries(11, 3000),
            "a/3.md": entries(6, 5121),
            "a/4.md": entries(5, 9000),
        }
        summaries = {path: _summary(path, data) for path, data in files.items()}
        assert TOPICS.upkeep.paths(summaries) == ("a/2.md", "a/3.md")

    def test_by_name_any_entry_goes_and_nothing_by_age(self) -> None:
        files = {"a/b.md": entry("2025-02-02", "one") + entry("2024-01-01", "two")}
        view = upkeep_view(TOPICS, files, Policy())
        assert not TOPICS.upkeep.archive(view, None)
        after = carried_out(files, TOPICS.upkeep.archive(view, ["a/b#2025-02-02:one"]))
        assert after["a/b.md"] == entry("2024-01-01", "two")
        assert after["archive/a/2025.md"] == b"<!-- from: b.md -->\n" + entry("2025-02-02", "one")

    def test_a_name_that_would_end_the_comment(self) -> None:
        _, after = pruned({"a/b --> c.md": entries(10, 3000) + entry("2024-12-15")})
        (record,) = read(after["archive/a/2024.md"], "archive/a/2024.md").records
        assert record.span.of(after["archive/a/2024.md"]) == entry("2024-12-15")


def _summary(path: str, data: bytes) -> FileStats:
    found = document(TOPICS, path, data)
    return FileStats(path, Role.SOURCE, len(data), found.units, found.broken, len(found.records), found.facts)


class TestRecovery:
    def test_an_emptied_file_gets_back_what_is_not_archived(self) -> None:
        backup = b"# T\n\n" + entry("2025-02-02", "one") + entry("2025-01-01", "two")
        archived = frozenset({"a/b#2025-01-01:two"})
        fix = TOPICS.repair.recover("a/b.md", LoadedFile(b"\n", read(b"\n", "a/b.md")), backup, archived, NOW)
        assert fix is not None
        assert splice(b"\n", fix.edits) == b"# T\n\n" + entry("2025-02-02", "one")
        assert (fix.safe, fix.ids) == (False, ("a/b#2025-02-02:one",))

    def test_a_file_that_holds_anything_is_left(self) -> None:
        assert (
            TOPICS.repair.recover("a/b.md", LoadedFile(b"x", read(b"x")), entry("2025-01-01"), frozenset(), NOW) is None
        )


def test_nothing_is_written_during_a_merge_or_rebase() -> None:
    assert TOPICS.files.waits_for_git


# --- writing entries


class TestWriting:
    def test_the_form_of_the_seed(self) -> None:
        made = render_entry(
            "A  title\n", date(2025, 8, 3), {"context": "c", "problem": "p", "solution": "s", "code": "x = 1"}
        )
        assert (
            made == b"## 2025-08-03: A title\n**Context:** c\n**Problem:** p\n**Solution:** s\n**Code:** x = 1\n---\n"
        )
        assert codes(read(made)) == []

    def test_other_fields_are_kept_and_empty_ones_left_out(self) -> None:
        made = render_entry(
            "T", date(2025, 1, 1), {"root_cause": "r", "context": "", "Key Insight": "k", "problem": None}
        )
        assert made == b"## 2025-01-01: T\n**Root Cause:** r\n**Key Insight:** k\n---\n"

    @pytest.mark.parametrize("code", ["a\nb", "```\n## 2025-01-01: x\n```\nmore", "## 2025-01-01: x\ny", "a\n````\nb"])
    def test_code_of_several_lines_is_fenced(self, code: str) -> None:
        if code.startswith("```"):
            code = "see\n" + code
        made = render_entry("T", date(2025, 1, 1), {"code": code})
        assert len(read(made).records) == 1
        assert outline(made).open_fence is None
        assert code.encode() in made

    @pytest.mark.parametrize("text", ["x\n## 2025-01-01: y", "x\n```\ny"])
    def test_text_that_would_not_stay_one_entry_is_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match="fence"):
            render_entry("T", date(2025, 1, 1), {"problem": text})

    def test_whole_entries_are_checked(self) -> None:
        assert require_one_entry(b"\n" + entry("2025-01-01").rstrip()) == entry("2025-01-01")
        for text in (
            b"",
            b"text\n" + entry("2025-01-01"),
            b"## 2025-02-30: T\n",
            entry("2025-01-01") * 2,
            entry("2025-01-01") + b"~~~\n",
        ):
            with pytest.raises(ValueError, match=r"\w+ \w+"):
                require_one_entry(text)

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            (b"", b"{new}"),
            (b"# T\n", b"# T\n\n{new}"),
            (b"# T\n\n", b"# T\n\n{new}"),
            (b"# T", b"# T\n\n{new}"),
            (b"\xef\xbb\xbf", b"\xef\xbb\xbf\n\n{new}"),
            (b"## 2024-01-01: a\n---", b"{new}\n## 2024-01-01: a\n---"),
            (b"# T\nIntro\n## 2024-01-01: a\n---", b"# T\nIntro\n{new}\n## 2024-01-01: a\n---"),
            (b"---\nk: v\n---\n", b"---\nk: v\n---\n\n{new}"),
        ],
    )
    def test_a_new_entry_goes_on_top_below_the_title(self, before: bytes, after: bytes) -> None:
        new = entry("2025-01-01")
        done = splice(before, [insert_on_top(outline(before), new)])
        assert done == after.replace(b"{new}", new)
        assert texts(done)[0].rstrip() == new.rstrip()

    def test_it_takes_the_line_ends_of_the_file(self) -> None:
        before = b"# T\r\n\r\n" + entry("2024-01-01").replace(b"\n", b"\r\n")
        done = splice(before, [insert_on_top(outline(before), entry("2025-01-01"))])
        assert b"\n" not in done.replace(b"\r\n", b"")
        assert len(texts(done)) == 2

    def test_nothing_is_hidden_in_a_fence(self) -> None:
        with pytest.raises(ValueError, match="fence"):
            insert_on_top(outline(b"# T\n```\n"), entry("2025-01-01"))


# --- the real directory


def corpus() -> Files:
    return {str(path.relative_to(CORPUS)): path.read_bytes() for path in CORPUS.rglob("*.md")}


class TestRealFolder:
    """16 entries in 12 topic files (17 if fences are ignored); `index.md` gains 10 lines and keeps its 2
    descriptions, nothing is pruned, nothing blocked."""

    def test_its_licence_is_next_to_it(self) -> None:
        assert (CORPUS.parent / "LICENSE.upstream").read_text().startswith("MIT License")

    def test_sixteen_entries_in_twelve_files(self) -> None:
        files = corpus()
        found = [document(TOPICS, path, files[path]) for path in TOPICS.reader.source_paths(files)]
        assert len(found) == 12
        assert [record.type for each in found for record in each.records] == ["entry"] * 16
        assert [finding for each in found for finding in each.findings] == []

    def test_they_would_be_seventeen_if_fences_were_ignored(self) -> None:
        """What the count above is worth."""
        lines = [line for data in corpus().values() for line in data.split(b"\n")]
        assert sum(bool(re.match(rb"## \d{4}-\d{2}-\d{2}: .+$", line)) for line in lines) == 17

    def test_the_index_gains_ten_lines_and_keeps_its_own(self) -> None:
        files = corpus()
        result = index_of(TOPICS, files)
        before, after = files["index.md"].decode().splitlines(), result.files["index.md"].decode().splitlines()
        added = [line for line in after if line not in before]
        assert len([line for line in added if line.startswith("- `")]) == 10
        assert [line for line in added if line.startswith("### ")] == [
            "### Prb Execution", "### Prb Generation", "### Roles", "### System",
        ]  # fmt: skip
        assert [line for line in added if not line.startswith(("- `", "### "))] == []
        assert [line for line in before if line not in after] == []
        assert result.findings == ()
        assert index_of(TOPICS, {**files, **result.files}).files == {}

    def test_nothing_is_pruned(self) -> None:
        plan = TOPICS.upkeep.prune(upkeep_view(TOPICS, corpus(), Policy()))
        assert (plan.actions, plan.notes) == ((), ())


def test_headings_are_the_topics_words_with_capitals() -> None:
    assert heading_for("prb-execution") == "Prb Execution"
    assert heading_for("Pattern/2025/08") == "Pattern 2025 08"
    assert heading_for("macOS_notes") == "MacOS Notes"


def test_no_finding_shows_what_a_memory_says() -> None:
    odd = (
        b"## 2025-02-30: wordx\n---## 2025-01-01: wordx\n" + entry("2024-01-01", "wordx") + entry("2024-02-02", "wordx")
    )
    found: tuple[Finding, ...] = read(odd + b"wordx\n" * 900 + b"\xff```\n").findings
    assert len({finding.code for finding in found}) >= 4
    assert "wordx" not in repr(found)
