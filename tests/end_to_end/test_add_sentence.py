"""`memoryd add "a sentence"`: a real daemon stores it by the rules of each layout."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from memoryd.cli.fields import sentence_fields, split_sentence
from memoryd.errors import UsageError
from tests.daemon import Daemon

SENTENCE = "The pool needs 20 connections"
OPTIONS = {
    "jsonl-store": [],
    "json-files": [],
    "markdown-topics": ["--topic", "db", "--subtopic", "pool"],
    "session-files": ["--session", "2026-11-02-09-00-00-pool"],
}


@pytest.mark.parametrize("layout", OPTIONS)
def test_a_sentence_is_stored_and_found(layout: str, tmp_path: Path) -> None:
    root = tmp_path / "memories"
    root.mkdir()
    with Daemon(tmp_path / "d", root, layout=layout).start() as daemon:
        words = daemon.command("add", *OPTIONS[layout], SENTENCE)
        done = subprocess.run(words, capture_output=True, text=True, env=daemon.env, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert [hit["title"] for hit in daemon.rpc("memory.search", query="connections")["hits"]] == [SENTENCE]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["The pool", "is full", "importance=3"], ("The pool is full", ["importance=3"])),
        (["type=core", 'content="x = y"'], ("", ["type=core", 'content="x = y"'])),
        (["content", "=", "x"], ("", ["content", "=", "x"])),
        (["contnt"], ("", ["contnt"])),
        ([], ("", [])),
    ],
)
def test_only_text_with_a_space_is_a_sentence(words: list[str], expected: tuple[str, list[str]]) -> None:
    assert split_sentence(words) == expected


@pytest.mark.parametrize(
    ("layout", "given", "expected"),
    [
        ("jsonl-store", ["type=core"], [f'content="{SENTENCE}"', "type=core"]),
        ("session-files", ["title=Pool"], ['type="learning"', f'content="{SENTENCE}"', "title=Pool"]),
        ("session-files", ["content=x"], ['type="learning"', f'title="{SENTENCE}"', "content=x"]),
        (None, ["type=core"], [f'content="{SENTENCE}"', "type=core"]),
    ],
)
def test_a_field_that_is_given_is_not_filled_in(layout: str | None, given: list[str], expected: list[str]) -> None:
    assert sentence_fields(SENTENCE, layout, given) == expected


@pytest.mark.parametrize(
    ("layout", "sentence", "given"),
    [
        ("jsonl-store", SENTENCE, ["content=x"]),
        ("markdown-topics", SENTENCE, ["title=x"]),
        ("session-files", "long " * 100 + "end", ["content=x"]),
    ],
)
def test_a_sentence_that_no_field_would_hold_is_refused(layout: str, sentence: str, given: list[str]) -> None:
    name = given[0].partition("=")[0]
    with pytest.raises(UsageError, match=f"the text is the {name}, but {name}=... is given too"):
        sentence_fields(sentence, layout, given)
