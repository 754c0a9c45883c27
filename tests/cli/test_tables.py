"""Tables on a terminal: nothing that people copy is broken, and no line is wider than the terminal allows."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.cli.screen import Screen, epoch_of, format_time, make_screen
from memoryd.cli.tables import cell_width, cut, draw, wrap
from memoryd.cli.views import VIEWS, event_line, show_findings, show_history, show_plan, show_roots
from memoryd.cli.views_memories import show_hits, show_memories
from memoryd.cli.views_status import show_status

NOW = 1_764_062_400.0  # 2025-11-25T09:20:00Z


def plain(padded: str, cell: str) -> str:
    del cell
    return padded


def shown(view: Any, result: dict[str, Any], width: int = 80, *, fancy: bool = True) -> list[str]:
    out = io.StringIO()
    view(Screen(out, fancy=fancy, colour=False, width=width, now=NOW), result)
    return out.getvalue().splitlines()


def test_a_wide_character_takes_two_columns_and_a_combining_one_none() -> None:
    assert [cell_width(text) for text in ("abc", "東京", "é", "e\N{COMBINING ACUTE ACCENT}")] == [3, 4, 1, 1]


def test_columns_after_wide_characters_are_aligned() -> None:
    lines = list(draw(("title", "id"), [["東京", "a-1"], ["abcd", "a-2"]], 80, style=plain))
    assert [cell_width(line.partition("a-")[0]) for line in lines[2:]] == [7, 7]


@given(st.text("ab 東é", max_size=60), st.integers(4, 30))
def test_text_is_cut_and_wrapped_to_its_width(text: str, width: int) -> None:
    short = cut(text, width)
    assert cell_width(short) <= width
    assert short.endswith("…") == (cell_width(" ".join(text.split())) > width)
    lines = wrap(text, width)
    assert "".join(lines).replace(" ", "") == "".join(text.split())
    assert all(cell_width(line) <= width or (line.isascii() and " " not in line) for line in lines)


ENTRY = {
    "receipt": "20261122-gezcn17",
    "at": NOW - 180,
    "root": "memories",
    "operation": "permissions",
    "by": "schedule",
}


@pytest.mark.parametrize("width", [80, 120])
def test_the_history_has_one_line_a_change_with_whole_receipts(width: int) -> None:
    entries = [{**ENTRY, "summary": "closed to other users: " + ", ".join(f"tasks-{n}.jsonl" for n in range(9))}] * 3
    lines = shown(show_history, {"entries": entries}, width)
    assert len(lines) == 2 + 3
    assert all(cell_width(line) <= width for line in lines)
    assert all("20261122-gezcn17  3 min ago  memories" in line and line.endswith("…") for line in lines[2:])


def test_a_history_too_wide_for_the_terminal_does_without_who_made_the_change() -> None:
    entries = [{**ENTRY, "root": "agents/memories", "summary": "closed 9 files to other users"}] * 2
    narrow = shown(show_history, {"entries": entries})
    assert len(narrow) == 2 + 2
    assert not any("schedule" in line for line in narrow)
    assert all("schedule" in line for line in shown(show_history, {"entries": entries}, 120)[2:])


def test_numbers_are_aligned_to_the_right() -> None:
    lines = list(draw(("root", "size", "next"), [["a", "9 B", "1 d"], ["b", "12.5 KB", "-"]], 80, style=plain))
    assert lines == ["root     size  next", "────  ───────  ────", "a         9 B  1 d", "b     12.5 KB  -"]


def test_a_plan_names_the_jobs_that_only_wait_until_they_may_write() -> None:
    root = {
        "name": "agents",
        "due": {"archive": None, "verify": NOW + 9},
        "waits": {"archive": "observe", "backup": "x"},
    }
    action = {"kind": "copy", "path": ".", "ids": [], "why": "not backed up yet"}
    lines = shown(show_plan, {"roots": [{**root, "actions": [action]}]})
    assert lines[1] == "  next: at once, when writing is allowed: archive, backup, verify in 9 s"
    assert lines[-1].split("  ")[:2] == ["back up", "all files"]


def test_the_next_runs_of_a_plan_are_wrapped_between_jobs() -> None:
    due = {**dict.fromkeys(("archive", "limits", "dedupe", "backup", "verify"), NOW + 86_400), "locks": NOW + 9}
    lines = shown(show_plan, {"roots": [{"name": "agents", "actions": [], "due": {**due, "rescan": None}}]})
    assert lines == [
        "agents",
        "  next: locks in 9 s, archive in 24 h, backup in 24 h, dedupe in 24 h,",
        "  limits in 24 h, verify in 24 h",
        "nothing to do",
    ]


def test_a_search_result_breaks_no_word_and_no_id() -> None:
    identity = "Frontend/billing-for-a-customer#2025-01-23:a-title-that-goes-on-and-on"
    hit = {"id": identity, "root": "memory", "path": "Frontend/billing-for-a-customer.md", "title": "A title"}
    lines = shown(show_hits, {"hits": [{**hit, "snippet": "timeouts " * 20}]})
    assert f"  {identity}" in lines
    assert all(cell_width(line) <= 80 for line in lines)
    assert {word for line in lines[3:] for word in line.split()} == {"timeouts"}


def test_the_words_that_were_found_are_marked_on_a_terminal_only() -> None:
    hit = {"title": "The warmup of C++", "snippet": "Warmups, swarms; 東京の c++ and c++x", "path": "a", "root": "r"}
    found = {"hits": [{**hit, "why": {"terms": ["warm*", "c++", "東京*"]}}]}
    out = io.StringIO()
    show_hits(Screen(out, fancy=True, colour=True, now=NOW), found)
    marked = re.findall(r"\x1b\[1;38;5;130m(.*?)\x1b\[0m", out.getvalue())
    assert marked == ["warmup", "C++", "Warmups", "東京", "c++"]
    assert "\x1b" not in "".join(shown(show_hits, found))
    assert "\x1b" not in "".join(shown(show_hits, found, fancy=False))


def test_an_event_has_no_signs_of_a_programming_language() -> None:
    event = {"at": NOW, "topic": "change", "root": "a", "paths": ["a b.md", "c.md"], "gone": [], "reason": None}
    text = event_line({**event, "index": True})
    assert text.endswith("change   a            paths=a b.md,c.md index=yes")


def test_a_time_far_away_is_a_date() -> None:
    screen = Screen(io.StringIO(), fancy=True, now=NOW)
    assert screen.when(NOW - 400 * 86_400) == format_time(NOW - 400 * 86_400)[:10]
    assert screen.when(NOW - 7.9) == "7 s ago"


def test_a_root_that_was_added_says_why_it_is_not_used() -> None:
    row = {"name": "editor", "state": "degraded", "layout": None, "mode": "maintain", "path": "/n/editor"}
    lines = shown(show_roots, {"roots": [{**row, "reasons": ["no layout fits"]}]})
    assert lines[-1] == "! editor: no layout fits"
    assert "None" not in "".join(lines)


def test_a_root_that_was_removed_is_not_shown_as_one_that_is_there() -> None:
    row = {"name": "editor", "state": "degraded", "path": "/n/editor", "reasons": ["no layout fits"]}
    assert shown(VIEWS["root.remove"], {"roots": [row]}) == ["removed editor; the files in /n/editor stay as they are"]


def test_no_id_of_a_list_is_broken() -> None:
    ids = [
        "46311f05-a361-4f87-9ed8-2aa963237f84",
        "prb-execution/timeouts#2026-11-25:a-long-title-of-an-entry-that-goes-on",
    ]
    memories = [
        {"id": each, "root": "agents", "type": "learning", "created": None, "title": "東京 " * 30} for each in ids
    ]
    lines = shown(show_memories, {"memories": memories})
    assert all(any(each in line.split() for line in lines) for each in ids)
    assert all(cell_width(line) <= 80 for line in lines)


def test_the_message_of_a_finding_is_wrapped_and_its_place_is_whole() -> None:
    place = "projects/some-long-name/topics/another-long-name/entry.md"
    finding = {"root": "r", "path": place, "severity": "error", "code": "corrupt-file", "message": "word " * 40}
    lines = shown(show_findings, {"findings": [finding], "summary": {"error": 1}})
    assert sum(f"r/{place}" in line for line in lines) == 1
    assert " ".join(lines).count("word") == 40
    assert all(cell_width(line) <= 80 for line in lines)


def root_row(number: int, **more: Any) -> dict[str, Any]:
    counts = {"findings": {"error": 1, "warning": 2, "info": 0}, "backups": {"count": 5}}
    return {
        "name": f"root-{number}",
        "state": "ok",
        "memories": 12_345,
        "bytes": 1e7,
        "last_scan": NOW,
        **counts,
        **more,
    }


def test_the_status_of_ten_roots_fits_a_screen_and_shows_the_worst_reason_of_each() -> None:
    reasons = ["fs.inotify.max_user_watches is 8192; raise it with: sysctl -w fs.inotify.max_user_watches=524288", "b"]
    bad = [root_row(each, state="degraded", reasons=reasons) for each in range(4)]
    result = {"version": "1", "state": "degraded", "roots": [*bad, *map(root_row, range(4, 10))]}
    lines = shown(show_status, result)
    assert len(lines) <= 23
    assert all(cell_width(line) <= 80 for line in lines)
    assert sum(line.startswith("! root-") for line in lines) == 4
    assert "4 more; see `memoryd status ROOT`" in lines
    assert any(reasons[0] in line for line in shown(show_status, result, fancy=False))


def test_the_status_of_a_first_index_shows_how_far_it_is() -> None:
    progress = {"step": "reading", "unit": "bytes", "done": 1 << 20, "total": 4 << 20, "percent": 25}
    row = root_row(1, state="scanning", progress={**progress, "rate": 1 << 20, "left_s": 3.0}, watch={"mode": "events"})
    text = "\n".join(shown(show_status, {"roots": [row]}))
    assert "reading 25 % (1.0 MB of 4.0 MB), 1.0 MB/s, 3.0 s left" in text
    assert "0 of 0" not in text
    assert "ms behind" not in "\n".join(shown(show_status, {"roots": [{**row, "last_scan": None}]}))
    assert any("scanning 25 %" in line for line in shown(show_status, {"roots": [row, root_row(2)]}))


@given(st.datetimes(datetime(1970, 1, 1), datetime(2199, 12, 31)))  # noqa: DTZ001 - made aware below
def test_utc_text_is_read_as_datetime_reads_it(at: datetime) -> None:
    aware = at.replace(tzinfo=UTC, microsecond=0)
    assert epoch_of(aware.strftime("%Y-%m-%dT%H:%M:%SZ")) == aware.timestamp()


def test_other_text_is_no_time() -> None:
    for text in ("2026-11-25", "yesterday at noon TZ", "2026-11-25T09:30:00+01:00", None, True):
        assert epoch_of(text) is None


def test_times_are_local_and_relative_on_a_terminal(local_zone: Callable[[str], None]) -> None:
    local_zone("America/New_York")
    assert format_time("2026-11-25T09:30:00Z") == "2026-11-25 04:30:00"
    terminal = Screen(io.StringIO(), fancy=True, now=NOW)
    assert [terminal.when(NOW + each) for each in (-180, 0, 18_000)] == ["3 min ago", "now", "in 5 h"]
    assert Screen(io.StringIO(), fancy=False, now=NOW).when(NOW) == format_time(NOW)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_colour_the_tables_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    make_screen(out).table(("name", "state"), [("a", "ok")])
    assert "─" in out.getvalue()
    assert "\x1b" not in out.getvalue()
    monkeypatch.delenv("NO_COLOR")
    out = Terminal()
    make_screen(out).table(("name", "state"), [("a", "ok")])
    assert "\x1b[38;5;28mok" in out.getvalue()


@pytest.mark.parametrize("columns", ["1", "2"])
def test_a_terminal_too_narrow_for_a_character_shows_everything(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setattr("os.environ", {"TERM": "xterm", "COLUMNS": columns, "NO_COLOR": "1"})
    out = Terminal()
    make_screen(out).table(("name", "title"), [("a", "東京 と 日本語 の 文")], wrapped=("title",))
    make_screen(out).note("東京")
    assert "".join(out.getvalue().split()) == "a東京と日本語の文東京"
