"""Standard error, with a result or without one."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import memoryd
from memoryd.cli import exits, views_memories
from memoryd.cli.screen import Screen
from memoryd.errors import InvalidMemoryError


def test_every_field_that_is_wrong_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    findings = [{"field": "id", "rule": "may not change"}, {"field": "tags[0]", "rule": "must be a string"}]
    error = InvalidMemoryError("id: may not change (and 1 more)", data={"findings": findings})
    assert exits.report_error(error, as_json=False) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[1:] == ["  id: may not change", "  tags[0]: must be a string"]


def test_remarks_do_not_mix_with_a_text_to_paste(capsys: pytest.CaptureFixture[str]) -> None:
    out = io.StringIO()
    withheld = "memories of several users (a, b): name one with `user`"
    fresh = {"users": {"state": "fresh", "lag_ms": 0, "withheld": withheld}}
    views_memories.show_hits(Screen(out, fancy=False), {"hits": [], "embedding": "", "fresh": fresh})
    assert out.getvalue() == ""
    assert capsys.readouterr().err == "! users: memories of several users (a, b): name one with `--user`\n"


def test_a_word_that_was_read_as_another_is_not_missing() -> None:
    out = io.StringIO()
    why = {"read_as": {"enforcemnt": "enforcement", "wi-fi": "wifi", "pay1234": "pay-1234"}}
    missing = ["enforcemnt", "wi", "fi", "PAY1234", "zeppelin"]
    result = {"hits": [{"id": "m", "root": "a", "why": why}, {"id": "n", "root": "b"}], "missing_words": missing}
    views_memories.show_hits(Screen(out, fancy=False), result)
    lines = [line for line in out.getvalue().splitlines() if line.startswith("!")]
    read = ["! read enforcemnt as enforcement", "! read wi-fi as wifi", "! read pay1234 as pay-1234"]
    assert lines == [*read, "! no memory has: zeppelin"]


HITS = [{"id": "m", "root": "a", "why": {"period": "last week: ..."}}, {"id": "n", "root": "b"}]


@pytest.mark.parametrize(
    ("since", "until", "empty", "hits", "line"),
    [
        ("2026-11-15T23:00:00Z", "2026-11-22T23:00:00Z", False, HITS, "2026-11-16 to 2026-11-22"),
        ("2026-11-23T23:00:00Z", "2026-11-24T23:00:00Z", False, HITS, "2026-11-24"),
        ("2026-11-24T00:00:00Z", "2026-11-25T00:00:00Z", False, HITS, "2026-11-24 01:00 to 2026-11-25 01:00"),
        ("2026-04-30T22:00:00Z", None, False, HITS, "2026-05-01 and later"),
        (None, "2026-04-30T22:00:00Z", False, HITS, "2026-04-30 and earlier"),
        ("2026-11-24T12:00:00Z", "2026-11-24T13:00:00Z", False, HITS, "2026-11-24 13:00 to 2026-11-24 14:00"),
        ("2026-11-23T23:00:00Z", "2026-11-24T23:00:00Z", True, [], "2026-11-24; no memory is from then"),
        ("2026-11-23T23:00:00Z", "2026-11-24T23:00:00Z", False, [], "2026-11-24"),
        (
            "2026-11-23T23:00:00Z",
            "2026-11-24T23:00:00Z",
            True,
            HITS[1:],
            "2026-11-24; no memory is from then; these are from other times",
        ),
        ("2026-11-23T23:00:00Z", "2026-11-24T23:00:00Z", False, HITS[1:], "2026-11-24; these are from other times"),
    ],
)
def test_the_period_of_a_question_is_shown_in_local_days(
    local_zone: Callable[[str], None],
    since: str | None,
    until: str | None,
    empty: bool,
    hits: list[dict[str, object]],
    line: str,
) -> None:
    out = io.StringIO()
    period = {"words": "then", "since": since, "until": until, "empty": empty}
    local_zone("Europe/Berlin")
    views_memories.show_hits(Screen(out, fancy=False), {"hits": hits, "period": period})
    assert out.getvalue().splitlines()[-1] == f'! read "then" as {line}'


@pytest.mark.parametrize(
    ("state", "reason", "line"),
    [
        ("stale", "paused", "! t: paused; resume it with `memoryd root resume t`"),
        ("unknown", "missing", "! t: missing"),
    ],
)
def test_the_reason_of_an_unwatched_root_is_shown(state: str, reason: str, line: str) -> None:
    out = io.StringIO()
    fresh = {"t": {"state": state, "lag_ms": 0, "generation": 1, "reason": reason}}
    views_memories.show_hits(Screen(out, fancy=False), {"hits": [], "fresh": fresh})
    assert out.getvalue().splitlines() == ["nothing found", line]


def test_missing_semantic_search_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    out = io.StringIO()
    fresh = {name: {"state": "fresh", "lag_ms": 0, "semantic": "off by configuration"} for name in ("a", "b")}
    views_memories.show_hits(Screen(out, fancy=False), {"hits": [{"id": "m", "root": "a"}], "fresh": fresh})
    assert out.getvalue().count("! only words were compared, not meanings: off by configuration\n") == 1
    assert capsys.readouterr().err == ""


def test_no_control_character_of_an_error_reaches_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b]0;OWNED\x07\x1b[2J\x9b1m\rname"
    findings = [{"field": evil, "rule": evil}] * 2
    error = InvalidMemoryError(f"no memory has the id {evil}", hint=f"see {evil}", data={"findings": findings})
    exits.report_error(error, as_json=True)
    captured = capsys.readouterr()
    assert all(each.isprintable() or each == "\n" for each in captured.err + captured.out)
    assert captured.err.count("\n") == 4


@pytest.mark.parametrize(
    ("redirection", "words", "code"),
    [
        (">&-", "version", 0),
        (">&-", "help exit-codes", 0),
        ("2>&-", "try .", 1),
        ("<&- >&- 2>&-", "config show", 0),
        ("<&- >&- 2>&-", "nonsense", 2),
        ("2>&-", "run", 78),  # there is no configuration
    ],
)
def test_a_closed_standard_stream_changes_no_exit_code(redirection: str, words: str, code: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "memoryd", *words.split()]
    done = in_a_shell(f'exec "$@" {redirection}', tmp_path, *command)
    assert (done.returncode, done.stderr) == (code, "")


@pytest.mark.parametrize("words", [["run"], ["try", "."], ["--state-dir", "relative", "ping"]])
def test_a_working_directory_that_was_removed_is_a_wrong_usage(words: list[str], tmp_path: Path) -> None:
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'
    done = in_a_shell(script, tmp_path, sys.executable, "-m", "memoryd", *words)
    assert done.returncode == 2
    assert done.stderr.startswith("memoryd: the working directory does not exist any more\nhint: ")


def in_a_shell(script: str, directory: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command with a home directory that has no configuration."""
    env = {"PATH": os.environ["PATH"], "HOME": str(directory), "PYTHONPATH": str(Path(memoryd.__file__).parents[1])}
    words = ["sh", "-c", script, "sh", *command]
    return subprocess.run(words, cwd=directory, env=env, capture_output=True, text=True, timeout=60, check=False)
