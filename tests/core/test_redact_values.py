"""Tokens in file names, ids and owners are redacted; everything else is unchanged."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import inspect, to_builtins

from memoryd.control.methods import METHODS
from memoryd.control.methods.memories import AddResult, StoredMemory
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


def test_results_are_redacted_as_mappings_are() -> None:
    hit = StoredMemory(id=f"x/{TOKEN}", path="a.md")
    result = AddResult(root=TOKEN, id="x", path=f"{TOKEN}.md", memories=[hit], warnings=[TOKEN])
    shown = redact_values(result)
    assert to_builtins(shown) == redact_values(to_builtins(result))
    assert shown.memories == [StoredMemory(id="x/[redacted:github-token]", path="a.md")]
    assert hit.id == f"x/{TOKEN}", "the original is not changed"
    clean = AddResult(root="r", id="x", path="a.md", memories=[])
    assert redact_values(clean) is clean


def test_no_result_holds_what_redaction_does_not_look_into() -> None:
    kinds = {type(each).__name__ for method in METHODS for each in _types(inspect.type_info(method.answer), set())}
    assert kinds <= {
        *("AnyType", "BoolType", "DictType", "FloatType", "IntType", "ListType", "LiteralType", "Metadata"),
        *("NoneType", "StrType", "StructType", "UnionType"),
    }


def _types(kind: inspect.Type, seen: set[type]) -> Iterator[inspect.Type]:
    """A type and the types of all its members."""
    yield kind
    if isinstance(kind, inspect.StructType):
        inner = [] if kind.cls in seen else [field.type for field in kind.fields]
        seen.add(kind.cls)
    else:
        parts = [getattr(kind, name) for name in kind.__struct_fields__]
        inner = [each for part in parts for each in (part if isinstance(part, tuple) else (part,))]
    for each in inner:
        if isinstance(each, inspect.Type):
            yield from _types(each, seen)


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
