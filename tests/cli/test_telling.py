"""What goes to standard error beside an answer or in place of one."""

from __future__ import annotations

import io

import pytest

from memoryd.cli import exits, found
from memoryd.cli.screen import Screen
from memoryd.errors import InvalidMemoryError


def test_every_field_that_is_wrong_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    findings = [{"field": "id", "rule": "may not change"}, {"field": "tags[0]", "rule": "must be a string"}]
    error = InvalidMemoryError("id: may not change (and 1 more)", data={"findings": findings})
    assert exits.tell(error, as_json=False) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines()[1:] == ["  id: may not change", "  tags[0]: must be a string"]


def test_a_text_to_paste_goes_alone_and_what_was_withheld_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    out = io.StringIO()
    fresh = {"users": {"state": "fresh", "lag_ms": 0, "withheld": "memories of several users"}}
    found.hits(Screen(out, fancy=False), {"hits": [], "embedding": "", "fresh": fresh})
    assert out.getvalue() == ""
    assert capsys.readouterr().err == "! users: memories of several users\n"


def test_no_control_character_of_an_error_reaches_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b]0;OWNED\x07\x1b[2J\x9b1m\rname"
    findings = [{"field": evil, "rule": evil}] * 2
    error = InvalidMemoryError(f"no memory has the id {evil}", hint=f"see {evil}", data={"findings": findings})
    exits.tell(error, as_json=True)
    told = capsys.readouterr()
    assert all(each.isprintable() or each == "\n" for each in told.err + told.out)
    assert told.err.count("\n") == 4
