"""Tokens in file names, ids and owners are redacted; everything else is unchanged."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from memoryd.control.protocol import encode_error, encode_notification, encode_reply
from memoryd.core.secrets import redact_values
from memoryd.core.secrets.detect import redact_tokens
from memoryd.errors import NotFoundError
from memoryd.log import configure, get_logger

TOKEN = "ghp_" + "a1B2" * 9
NATIVE = {"path": TOKEN, "id": TOKEN}


def test_names_ids_and_owners_are_redacted_everywhere() -> None:
    answer = {
        "hits": [{"id": f"x/{TOKEN}", "path": f"{TOKEN}.md", "owner": TOKEN, "title": "t"}],
        "gone": [f"a/{TOKEN}"],
        "plan": {"actions": [{"kind": "rewrite", "path": TOKEN, "ids": [TOKEN, "y"], "why": f"{TOKEN} is old"}]},
        "memory": NATIVE,
    }
    shown: Any = redact_values(answer)
    assert shown["memory"] is NATIVE, "what was asked for is given whole"
    assert TOKEN not in json.dumps({**shown, "memory": None})
    assert shown["hits"][0]["id"] == "x/[redacted:github-token]"
    assert shown["plan"]["actions"][0]["ids"][1] == "y"


def test_what_holds_none_is_the_same_object() -> None:
    answer = {"hits": [{"id": "8c7d6f9e-0d8a-4f0c-9c11-b52e23311b7b", "path": "a/deploy-key.md"}], "took_ms": 1.0}
    assert redact_values(answer) is answer


@pytest.mark.parametrize(
    "name", ["task-2026-01", "mem_1795372188907_mnpl6ys01", "password=hunter2xyz", "5a66" * 16, "sk-learn-notes"]
)
def test_only_what_is_a_token_by_its_own_form(name: str) -> None:
    assert redact_tokens(name) == name


def test_answers_errors_events_and_log_lines() -> None:
    error = NotFoundError(f"no {TOKEN}", hint=f"see {TOKEN}", data={"path": TOKEN})
    lines = [
        encode_reply(1, {"path": TOKEN}),
        encode_error(1, error),
        encode_notification("event", {"topic": "change", "paths": [TOKEN]}),
    ]
    assert all(TOKEN.encode() not in each for each in lines)
    stream = io.StringIO()
    configure(style="json", stream=stream, clean=redact_values)
    get_logger("t").warning("changed", path=TOKEN, reason=f"{TOKEN} went")
    assert "[redacted:github-token]" in stream.getvalue()
    assert TOKEN not in stream.getvalue()
