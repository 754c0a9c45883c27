"""Setting and taking away members of a JSON object by exact edits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.core.json_spans import elements, leading_space, line_numbers, members, update_members
from memoryd.core.spans import Span, splice

KEYS = st.sampled_from(("a", "b", "é", 'c"\\', "d"))
VALUES: st.SearchStrategy[Any] = st.sampled_from((1, "x,}", [1, {"a": 2}], {"a": []}, None, "é"))


def revised(text: str, values: dict[str, Any]) -> str:
    """`...` stands for a member that goes."""
    data = text.encode()
    told = {key: None if value is ... else json.dumps(value).encode() for key, value in values.items()}
    return splice(data, update_members(data, data.index(b"{"), told)).decode()


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
    assert leading_space(b'{\n    "a": 1}', 0) == b"\n    "
    assert leading_space(b"{}", 0) == b""


def test_lines_are_counted_from_the_top() -> None:
    assert list(line_numbers(b"a\nb\n\nc", [Span(0, 1), Span(2, 3), Span(5, 6)])) == [1, 2, 4]


SPACE = st.sampled_from(("", " ", "\n  ", "\t"))
TEXTS = st.sampled_from(
    ("1", "-0.5e3", "NaN", '"x,}]"', '"\\""', '"é"', "[1, [2], {}]", '{"a" : [ ]}', "null", "[0.5,1]", "[]")
)
NAMES = st.sampled_from(('"a"', '"b"', '"\\u0061"', '"é"', '""'))


@given(st.lists(st.tuples(SPACE, TEXTS, SPACE), max_size=5), st.data())
def test_an_array_is_cut_as_it_is_walked(parts: list[tuple[str, str, str]], data: st.DataObject) -> None:
    """What a parser cuts at once is what a walk through it finds, also where it is none of the strict kind."""
    before = data.draw(SPACE)
    text = (before + "[" + ",".join(a + value + b for a, value, b in parts) + "]").encode()
    found = elements(text, Span(len(before), len(text)))
    assert [span.of(text).decode() for span in found] == [value for _, value, _ in parts]


@given(st.lists(st.tuples(SPACE, NAMES, SPACE, SPACE, TEXTS, SPACE), max_size=5), SPACE, SPACE)
def test_an_object_is_cut_as_it_is_walked(
    parts: list[tuple[str, str, str, str, str, str]], before: str, after: str
) -> None:
    inner = ",".join(f"{a}{name}{b}:{c}{value}{d}" for a, name, b, c, value, d in parts)
    text = f"{before}{{{inner or after}}}{after}".encode()
    at, end = len(before), len(text) - len(after)
    found = members(text, at, end)
    assert found == members(text, at)
    assert [(each.key, each.value.of(text).decode()) for each in found] == [
        (json.loads(name), value) for _, name, _, _, value, _ in parts
    ]
