"""The OpenRPC document that `rpc.discover` returns, made from the method table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from memoryd.control.methods import Method, Param
from memoryd.control.wire import error_kinds

_SCHEMA = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "object": "object",
}


def document(methods: Iterable[Method], version: str) -> dict[str, Any]:
    """OpenRPC 1.3.2. Extensions: `x-command`, `x-kind`, `x-mutates`."""
    errors = {kind.name: {"code": kind.rpc_code, "message": kind.name} for kind in error_kinds()}
    return {
        "openrpc": "1.3.2",
        "info": {
            "title": "memoryd",
            "version": version,
            "description": "JSON-RPC 2.0 over a Unix stream socket, one UTF-8 JSON object a line.",
        },
        "methods": [_method(method) for method in methods],
        "components": {"errors": errors},
    }


def _method(method: Method) -> dict[str, Any]:
    result = {
        "type": "object",
        "properties": {f.name: {"type": _SCHEMA[f.type], "description": f.help} for f in method.result},
    }
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


def _param(param: Param) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": _SCHEMA[param.type]}
    values = {"type": "string", "enum": list(param.choices)} if param.choices else {"type": "string"}
    if param.type == "list":
        schema["items"] = values
    elif param.choices:
        schema |= values
    if param.minimum is not None:
        schema["minimum"] = param.minimum
    if param.maximum is not None:
        schema["maximum"] = param.maximum
    return {"name": param.name, "summary": param.help, "required": param.required, "schema": schema}
