"""What goes to standard error beside an answer or in place of one."""

from __future__ import annotations

import io

import pytest

from memoryd.cli import exits, views_memories
from memoryd.cli.screen import Screen
from memoryd.errors import InvalidMemoryError


def test_every_field_that_is_wrong_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    findings = [{"field": "id", "rule": "may not change"}, {"field": "tags[0]", "rule": "must be a string"}]
    error = InvalidMemoryError("id: may not change (and 1 more)", data={"findings": findings})
    assert exits.report_error(error, as_json=False) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines()[1:] == ["  id: may not change", "  tags[0]: must be a string"]


def test_a_text_to_paste_goes_alone_and_what_was_withheld_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    out = io.StringIO()
    fresh = {"users": {"state": "fresh", "lag_ms": 0, "withheld": "memories of several users"}}
    views_memories.show_hits(Screen(out, fancy=False), {"hits": [], "embedding": "", "fresh": fresh})
    assert out.getvalue() == ""
    assert capsys.readouterr().err == "! users: memories of several users\n"


@pytest.mark.parametrize(
    ("state", "reason", "line"),
    [
        ("stale", "paused", "! t: paused; resume it with `memoryd root resume t`"),
        ("unknown", "missing", "! t: missing"),
    ],
)
def test_a_root_that_is_not_watched_says_why(state: str, reason: str, line: str) -> None:
    out = io.StringIO()
    fresh = {"t": {"state": state, "lag_ms": 0, "generation": 1, "reason": reason}}
    views_memories.show_hits(Screen(out, fancy=False), {"hits": [], "fresh": fresh})
    assert out.getvalue().splitlines() == ["nothing found", line]


def test_words_that_answer_for_meaning_are_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    out = io.StringIO()
    fresh = {name: {"state": "fresh", "lag_ms": 0, "semantic": "off by configuration"} for name in ("a", "b")}
    views_memories.show_hits(Screen(out, fancy=False), {"hits": [{"id": "m", "root": "a"}], "fresh": fresh})
    assert (
        out.getvalue().count("! semantic search was not available, only words were compared: off by configuration\n")
        == 1
    )
    assert capsys.readouterr().err == ""


def test_no_control_character_of_an_error_reaches_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b]0;OWNED\x07\x1b[2J\x9b1m\rname"
    findings = [{"field": evil, "rule": evil}] * 2
    error = InvalidMemoryError(f"no memory has the id {evil}", hint=f"see {evil}", data={"findings": findings})
    exits.report_error(error, as_json=True)
    told = capsys.readouterr()
    assert all(each.isprintable() or each == "\n" for each in told.err + told.out)
    assert told.err.count("\n") == 4
