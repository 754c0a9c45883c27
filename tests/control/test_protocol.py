"""The protocol without sockets: any bytes give requests or error replies, never an exception."""

from __future__ import annotations

import json
import math
import os
import re
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, to_builtins

from memoryd.control import protocol, wire
from memoryd.control.discover import document
from memoryd.control.methods import METHODS, TABLE, by_command, groups
from memoryd.control.methods.method_types import Finite, Method, Name, Option, Request, Result, parameter
from memoryd.control.parameters import check_params
from memoryd.control.protocol import InvalidRequest, LineReader, RpcRequest, decode_request
from memoryd.errors import ConfigError, ConflictError, DiskError, MemorydError, UnauthorisedError, UsageError
from tests import parameters

REQUESTS = [
    (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', RpcRequest(1, "ping", None)),
    (b'{"jsonrpc":"2.0","id":"a","method":"ping","params":{}}', RpcRequest("a", "ping", {})),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', RpcRequest(None, "ping", None)),
    (b'{"jsonrpc":"2.0","method":"ping"}', RpcRequest(None, "ping", None, notification=True)),
    (b' {"jsonrpc":"2.0","id":7,"method":"x","extra":1} \r', RpcRequest(7, "x", None)),
]

INVALID = [
    (b"", wire.PARSE_ERROR, None),
    (b"nonsense", wire.PARSE_ERROR, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"pi', wire.PARSE_ERROR, None),
    (b'{"id": NaN}', wire.PARSE_ERROR, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', wire.PARSE_ERROR, None),
    (b'"\\ud800"', wire.PARSE_ERROR, None),
    (b"[" * 200_000, wire.PARSE_ERROR, None),
    (b'{"a":' * 200_000, wire.PARSE_ERROR, None),
    (b"[]", wire.INVALID_REQUEST, None),
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', wire.INVALID_REQUEST, None),
    (b"3", wire.INVALID_REQUEST, None),
    (b'"ping"', wire.INVALID_REQUEST, None),
    (b"{}", wire.INVALID_REQUEST, None),
    (b'{"jsonrpc":"1.0","id":4,"method":"ping"}', wire.INVALID_REQUEST, 4),
    (b'{"jsonrpc":"2.0","id":4}', wire.INVALID_REQUEST, 4),
    (b'{"jsonrpc":"2.0","id":4,"method":5}', wire.INVALID_REQUEST, 4),
    (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', wire.INVALID_REQUEST, None),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', wire.INVALID_REQUEST, None),
    (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', wire.INVALID_REQUEST, None),
]


@pytest.mark.parametrize(("line", "request_"), REQUESTS)
def test_a_request_is_read(line: bytes, request_: RpcRequest) -> None:
    assert decode_request(line) == request_


@pytest.mark.parametrize(("line", "code", "request_id"), INVALID)
def test_anything_else_is_an_invalid_request_with_the_standard_code(line: bytes, code: int, request_id: object) -> None:
    invalid = decode_request(line)
    assert isinstance(invalid, InvalidRequest)
    assert (invalid.code, invalid.id) == (code, request_id)
    reply = json.loads(protocol.encode_invalid_request(invalid))
    assert reply["id"] == request_id
    assert reply["error"]["code"] == code
    assert reply["error"]["data"]["code"]


@given(st.binary(max_size=300))
def test_no_bytes_raise(line: bytes) -> None:
    assert isinstance(decode_request(line), RpcRequest | InvalidRequest)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params"]), json_values))
def test_no_object_raises(message: dict[str, Any]) -> None:
    line = json.dumps(message).encode()
    assert isinstance(decode_request(line), RpcRequest | InvalidRequest)


@given(st.lists(st.binary(max_size=20).filter(lambda b: b"\n" not in b), max_size=10), st.integers(1, 7))
def test_lines_do_not_depend_on_the_chunks(lines: list[bytes], step: int) -> None:
    """Any split of the stream into chunks yields the same lines."""
    stream = b"".join(line + b"\n" for line in lines)
    reader = LineReader(limit=20)
    got = [line for at in range(0, len(stream), step) for line in reader.feed(stream[at : at + step])]
    assert got == [line for line in lines if line.strip()]
    assert not reader.partial


def test_the_line_limit_is_exact() -> None:
    reader = LineReader(limit=10)
    assert reader.feed(b"0123456789\n") == [b"0123456789"]
    assert reader.feed(b"ok\n01234567890") == [b"ok"]
    assert reader.too_long
    assert reader.feed(b"\nok\n") == []


def test_a_long_line_is_detected_before_its_end() -> None:
    reader = LineReader(limit=10)
    assert [reader.feed(b"x" * 6), reader.feed(b"x" * 6)] == [[], []]
    assert reader.too_long


ODD_VALUES = [
    (float("nan"), None),
    (float("inf"), None),
    ("caf\udce9", "caf\\xe9"),
    ("\ud800", "\\ud800"),
    (os.fsdecode(b"\xff.md"), "\\xff.md"),
    ((1, 2), [1, 2]),
    (object, str(object)),
    ({1: "a", None: "b\udcff"}, {"1": "a", "None": "b\\xff"}),
]


@pytest.mark.parametrize(("value", "decoded"), ODD_VALUES)
def test_any_result_becomes_one_line_of_json(value: Any, decoded: Any) -> None:
    line = protocol.encode_reply(1, {"v": value})
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == {"jsonrpc": "2.0", "id": 1, "result": {"v": decoded}}


@given(st.dictionaries(st.text(st.characters(codec=None)), json_values | st.text(st.characters(codec=None))))
def test_every_result_is_encodable(result: dict[str, Any]) -> None:
    assert json.loads(protocol.encode_reply(1, result))["id"] == 1


def test_a_result_above_the_line_limit_is_truncated() -> None:
    result = {"findings": [{"message": "x" * 50}] * 1000, "summary": {"error": 1000}}
    line = protocol.encode_reply(1, result, limit=4096)
    decoded = json.loads(line)["result"]
    assert len(line) <= 4097
    assert decoded["truncated"] == {"findings": 1000}
    assert 0 < len(decoded["findings"]) < 1000
    assert decoded["summary"] == {"error": 1000}
    assert len(result["findings"]) == 1000


def test_the_longest_list_is_truncated_at_any_depth() -> None:
    """A job on thousands of memories was done, so the reply with its plan must not be an error."""
    ids = [f"{number:032}" for number in range(1000)]
    actions = [{"kind": "append", "ids": ids, "why": "old"}, {"kind": "rewrite", "ids": ids[:3], "why": "old"}]
    line = protocol.encode_reply(1, {"plan": {"actions": actions}, "receipt": "r-1"}, limit=4096)
    decoded = json.loads(line)["result"]
    assert len(line) <= 4097
    assert decoded["truncated"] == {"plan.actions.0.ids": 1000}
    assert decoded["receipt"] == "r-1"
    shortened = decoded["plan"]["actions"][0].pop("ids")
    assert 0 < len(shortened) < 1000
    assert shortened == ids[: len(shortened)]
    assert decoded["plan"]["actions"] == [{"kind": "append", "why": "old"}, actions[1]]
    assert len(ids) == 1000


def test_a_result_that_cannot_be_shortened_is_an_error_with_a_hint() -> None:
    reply = json.loads(protocol.encode_reply(1, {"text": "x" * 5000}, limit=4096))
    assert reply["error"]["data"]["hint"]


@pytest.mark.parametrize("kind", wire.error_kinds())
def test_an_error_survives_the_wire(kind: type[MemorydError]) -> None:
    """Code, message, hint and data come back as the same kind of error."""
    reply = json.loads(protocol.encode_error(9, kind("what", hint="do", data={"changed": ["a"]})))
    assert reply["error"]["code"] == kind.rpc_code
    assert reply["error"]["data"]["code"] == kind.name
    again = wire.error_from_object(reply["error"])
    assert type(again) is kind
    assert (again.message, again.hint, again.data) == ("what", "do", {"changed": ["a"]})


@pytest.mark.parametrize("code", ["disk-full", "read-only", "io-error"])
def test_what_the_disk_refused_is_the_code_of_its_error(code: str) -> None:
    """The client passes it on as it got it: `--json` prints it a second time."""
    error = DiskError("what", hint="do", data={"code": code})
    reply = json.loads(protocol.encode_error(9, error))["error"]
    assert (reply["code"], reply["data"]) == (-32014, {"code": code, "hint": "do"})
    again = wire.error_from_object(reply)
    assert type(again) is DiskError
    assert wire.error_object(again) == reply


def test_an_unknown_error_is_still_an_error() -> None:
    assert type(wire.error_from_object({"code": -32006, "message": "m"})) is ConflictError
    assert wire.error_from_object({"code": -32603, "message": "m", "data": {"code": "embedder"}}).exit_code == 1
    assert type(wire.error_from_object({"code": -1, "message": "m", "data": "?"})) is MemorydError
    assert type(wire.error_from_object(None)) is MemorydError


class Sample(Request):
    """A parameter of each type."""

    root: Annotated[Name | None, parameter("")] = None
    n: Annotated[Annotated[int, Meta(ge=0, le=9)] | None, parameter("")] = None
    x: Annotated[Finite | None, parameter("")] = None
    dry_run: Annotated[bool, parameter("")] = False
    topics: Annotated[list[Literal["a", "b"]] | None, parameter("")] = None
    level: Annotated[Literal["low", "high"] | None, parameter("")] = None
    fields: Annotated[dict[str, object] | None, parameter("")] = None
    words: Annotated[str | None, parameter("", Option(joined=True))] = None
    vector: Annotated[list[Finite] | None, parameter("")] = None


METHOD = Method("m", None, "", "", "", Sample, Result, "read", False)

GOOD = [
    (None, {}),
    ({}, {}),
    ({"root": None}, {}),
    ({"root": "a", "n": 3, "x": 1, "dry_run": True}, {"root": "a", "n": 3, "x": 1, "dry_run": True}),
    ({"topics": ["b"], "level": "low", "fields": {}}, {"topics": ["b"], "level": "low", "fields": {}}),
    ({"words": "any\0text"}, {"words": "any\0text"}),
    ({"vector": [1, 0.5]}, {"vector": [1, 0.5]}),
]
BAD = [
    ([], "must be an object, not a list"),
    (5, "must be an object, not a number"),
    (0.5, "must be an object, not a number"),
    (True, "must be an object, not a boolean"),
    ("root", "must be an object, not a string"),
    ({"rooot": "a"}, "did you mean 'root'"),
    ({"zzz": None}, "known: root"),
    ({"root": 1}, "a string"),
    ({"root": "a\0b"}, "a string"),
    ({"n": True}, "a whole number"),
    ({"n": 1.0}, "a whole number"),
    ({"n": -1}, "between"),
    ({"n": 10}, "between"),
    ({"x": math.nan}, "a number"),
    ({"dry_run": 1}, "true or false"),
    ({"topics": "a"}, "a list of strings"),
    ({"topics": ["c"]}, "allowed: a, b"),
    ({"level": "lo"}, "did you mean 'low'"),
    ({"fields": []}, "an object"),
    ({"vector": ["1"]}, "finite numbers"),
    ({"vector": [True]}, "finite numbers"),
    ({"vector": [math.inf]}, "finite numbers"),
    ({"vector": [10**400]}, "finite numbers"),
]


@pytest.mark.parametrize("method", ["memory.get", "memory.forget", "memory.unarchive", "archive"])
def test_every_id_that_an_agent_may_have_written_is_accepted(method: str) -> None:
    """JSON allows a NUL byte in a string, and so in the id or type of a memory."""
    given_ = {"ids": ["a\0b"]} if method == "archive" else {"id": "a\0b"}
    assert parameters.given(check_params(TABLE[method], given_)) == given_


@pytest.mark.parametrize(("given_", "expected"), GOOD)
def test_right_parameters_pass(given_: Any, expected: dict[str, Any]) -> None:
    assert parameters.given(check_params(METHOD, given_)) == expected


@pytest.mark.parametrize(("given_", "expected"), BAD)
def test_wrong_parameters_are_refused_and_explained(given_: Any, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_params(METHOD, given_)
    assert expected in f"{caught.value.message} {caught.value.hint}"


def test_a_required_parameter_and_one_of_several() -> None:
    with pytest.raises(UsageError, match="missing"):
        check_params(TABLE["undo"], {})
    with pytest.raises(UsageError, match="one of name, path"):
        check_params(TABLE["root.pause"], {})
    assert parameters.given(check_params(TABLE["root.pause"], {"path": "/x"})) == {"path": "/x"}


def test_the_table_is_sound() -> None:
    """Names and commands are unique, parameters too, and everything is explained."""
    assert len(TABLE) == len(METHODS)
    commands = [method.command for method in METHODS if method.command]
    assert len(set(commands)) == len(commands)
    assert not {command for command in commands if len(command) == 1} & {(word,) for word in groups()}
    for method in METHODS:
        assert method.summary.endswith(".")
        assert method.description
        assert method.example
        assert method.result
        names = [param.name for param in method.params]
        assert len(set(names)) == len(names)
        assert set(method.one_of) <= set(names)
        assert all(param.help for param in method.params)
        assert sum(param.repeatable for param in method.params if param.cli == "argument") <= 1
    assert by_command(("backup", "list")) is TABLE["backup.list"]


def test_discover_describes_every_row() -> None:
    described = to_builtins(document(METHODS, "1"))
    assert described["openrpc"].startswith("1.")
    assert [method["name"] for method in described["methods"]] == [method.name for method in METHODS]
    names = {kind.name for kind in wire.error_kinds()}
    assert names == set(described["components"]["errors"])
    assert {UnauthorisedError.name, ConfigError.name} <= names
    sync = next(method for method in described["methods"] if method["name"] == "sync")
    assert {p["name"]: p["schema"]["type"] for p in sync["params"]} == {
        "root": "string",
        "search_only": "boolean",
        "timeout_ms": "integer",
    }


def test_a_list_on_the_command_line_is_repeatable() -> None:
    """Else the client would send one bare string, which the server refuses."""
    lists = [(m.name, p) for m in METHODS for p in m.params if p.type == "list" and p.cli]
    assert lists
    assert [(name, param.name) for name, param in lists if not param.repeatable] == []


def test_discover_defines_every_referenced_type() -> None:
    described = to_builtins(document(METHODS, "1"))
    defined = set(described["components"]["schemas"])
    referenced = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(described)))
    assert referenced
    assert referenced <= defined
    hits = next(method for method in described["methods"] if method["name"] == "memory.search")["result"]["schema"]
    assert hits["properties"]["hits"]["items"] == {"$ref": "#/components/schemas/HitRow"}


def test_discover_allows_null_where_a_result_may_be_null() -> None:
    methods = {method["name"]: method for method in to_builtins(document(METHODS, "1"))["methods"]}
    status, config = (methods[name]["result"]["schema"]["properties"] for name in ("status", "config.show"))
    for member in (status["notice"], config["path"]):
        assert "type" not in member
        assert member["anyOf"] == [{"type": "string"}, {"type": "null"}]
