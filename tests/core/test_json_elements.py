"""Setting and taking away members of a JSON object by exact edits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.core.json_elements import lead, lines, revision
from memoryd.core.text import Span, splice

KEYS = st.sampled_from(("a", "b", "é", 'c"\\', "d"))
VALUES: st.SearchStrategy[Any] = st.sampled_from((1, "x,}", [1, {"a": 2}], {"a": []}, None, "é"))


def revised(text: str, values: dict[str, Any]) -> str:
    """`...` stands for a member that goes."""
    data = text.encode()
    told = {key: None if value is ... else json.dumps(value).encode() for key, value in values.items()}
    return splice(data, revision(data, data.index(b"{"), told)).decode()


@pytest.mark.parametrize(
    ("text", "values", "wanted"),
    [
        ('{"a":1,"b":2}', {"a": 7}, '{"a":7,"b":2}'),
        ('{"a":1,"b":2}', {"a": ...}, '{"b":2}'),
        ('{"a":1,"b":2}', {"b": ...}, '{"a":1}'),
        ('{"a":1,"b":2}', {"b": ..., "a": 7, "c": 3}, '{"a":7,"c":3}'),
        ('{"a":1,"a":2,"b":3}', {"a": ...}, '{"b":3}'),
        ('{"a":1,"a":2}', {"a": 7}, '{"a":1,"a":7}'),
        ('{"a":1}', {"a": ..., "b": 2, "c": 3}, '{"b":2,"c":3}'),
        ('{"a":1}', {"a": ...}, "{}"),
        ("{ }", {"b": 2}, '{"b":2}'),
        ("{ }", {"b": ...}, "{ }"),
        ('x{ "a" : 1 ,\t"b" : 2 }y', {"c": 3, "d": 4}, 'x{ "a" : 1 ,\t"b" : 2 ,\t"c" : 3 ,\t"d" : 4 }y'),
        ('{\n  "a": 1\n}', {"b": 2}, '{\n  "a": 1,\n  "b": 2\n}'),
        ('{\n  "a": 1,\n  "b": {"a": 5}\n}', {"a": ...}, '{\n  "b": {"a": 5}\n}'),
    ],
)
def test_only_the_named_members_change(text: str, values: dict[str, Any], wanted: str) -> None:
    assert revised(text, values) == wanted


@given(
    members=st.lists(st.tuples(KEYS, VALUES), max_size=6),
    values=st.dictionaries(KEYS, VALUES | st.just(...), max_size=4),
    indent=st.sampled_from((None, 2, 0)),
)
def test_any_object_reads_as_it_should(
    members: list[tuple[str, Any]], values: dict[str, Any], indent: int | None
) -> None:
    joint, sep = ("\n" + " " * indent, ": ") if indent is not None else ("", ":")
    inner = f",{joint}".join(f"{json.dumps(key)}{sep}{json.dumps(value)}" for key, value in members)
    found = json.loads(revised(f"{{{joint}{inner}{joint}}}", values))
    wanted = {key: value for key, value in {**dict(members), **values}.items() if value is not ...}
    assert found == wanted


def test_the_lead_is_the_white_space_before_the_first_member() -> None:
    assert lead(b'{\n    "a": 1}', 0) == b"\n    "
    assert lead(b"{}", 0) == b""


def test_lines_are_counted_from_the_top() -> None:
    assert list(lines(b"a\nb\n\nc", [Span(0, 1), Span(2, 3), Span(5, 6)])) == [1, 2, 4]
