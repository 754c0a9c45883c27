"""The OpenRPC document that `rpc.discover` returns, made from the method table and its types."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from memoryd.control.methods.method_types import Field, Method, Param
from memoryd.control.methods.process import DiscoverResult
from memoryd.control.wire import error_kinds
from memoryd.core.records import JsonObject

_SCHEMA = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "numbers": "array",
    "objects": "array",
    "object": "object",
}


def document(methods: Iterable[Method], version: str) -> DiscoverResult:
    """Return the OpenRPC 1.3.2 document of the methods. Extensions: `x-command`, `x-kind`, `x-mutates`."""
    table = list(methods)
    errors = {kind.name: {"code": kind.rpc_code, "message": kind.name} for kind in error_kinds()}
    answers = list(dict.fromkeys(method.answer for method in table))
    _, types = msgspec.json.schema_components(answers, ref_template="#/components/schemas/{name}")
    return DiscoverResult(
        openrpc="1.3.2",
        info={
            "title": "memoryd",
            "version": version,
            "description": "JSON-RPC 2.0 over a Unix stream socket, one UTF-8 JSON object a line.",
        },
        methods=[_method(method, types[method.answer.__name__]) for method in table],
        components={"errors": errors, "schemas": {name: _without_defaults(each) for name, each in types.items()}},
    )


def _method(method: Method, answer: JsonObject) -> JsonObject:
    properties = _without_defaults(answer)["properties"]
    members = {field.name: _member(field, properties[field.name]) for field in method.result}
    result = {"type": "object", "properties": members}
    return {
        "name": method.name,
        "summary": method.summary,
        "description": method.description,
        "paramStructure": "by-name",
        "params": [_param(param) for param in method.params],
        "result": {"name": "result", "schema": result},
        "x-command": " ".join(method.command) if method.command else None,
        "x-kind": method.kind,
        "x-mutates": method.mutates,
    }


def _member(field: Field, schema: JsonObject) -> JsonObject:
    """Return the schema of a member of a result. One that may be null names its types itself, in `anyOf`."""
    kind = {} if "anyOf" in schema else {"type": _SCHEMA[field.type]}
    return {**schema, **kind, "description": field.help}


def _without_defaults(schema: JsonObject) -> JsonObject:
    """Return the schema of a type without default values: members with their default are absent from a result."""
    members = {
        name: {key: value for key, value in each.items() if key != "default"}
        for name, each in schema["properties"].items()
    }
    return {**schema, "properties": members}


def _param(param: Param) -> JsonObject:
    schema: JsonObject = {"type": _SCHEMA[param.type]}
    values = {"type": "string", "enum": list(param.choices)} if param.choices else {"type": "string"}
    if param.type == "list":
        schema["items"] = values
    elif param.type == "numbers":
        schema["items"] = {"type": "number"}
    elif param.type == "objects":
        schema |= {"items": {"type": "object"}, "minItems": 1}
    elif param.choices:
        schema |= values
    if param.minimum is not None:
        schema["minimum"] = param.minimum
    if param.maximum is not None:
        schema["maximum"] = param.maximum
    return {"name": param.name, "summary": param.help, "required": param.required, "schema": schema}
