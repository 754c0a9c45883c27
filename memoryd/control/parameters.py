"""Checking the parameters of a request against its row in the method table."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from typing import Any

from memoryd.control.methods import Method, Param
from memoryd.errors import UsageError

_WORDS = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list of strings",
    "object": "an object",
}


def checked(method: Method, params: Any) -> dict[str, Any]:
    """The parameters, known and of the right type; null counts as absent. Raises UsageError (-32602)
    with the nearest known name, the expected type, or the allowed values."""
    if params is None:
        params = {}
    if not isinstance(params, Mapping):
        raise UsageError(f"{method.name}: parameters are named; send an object, not a list")
    known = {param.name: param for param in method.params}
    given = {name: value for name, value in params.items() if value is not None}
    for name in params:
        if name not in known:
            raise UsageError(f"{method.name}: unknown parameter {name!r}", hint=nearest(str(name), known))
    for param in method.params:
        if param.name in given:
            _check(method, param, given[param.name])
        elif param.required:
            raise UsageError(f"{method.name}: parameter {param.name!r} is missing", hint=param.help)
    if method.one_of and not any(name in given for name in method.one_of):
        raise UsageError(f"{method.name}: one of {', '.join(method.one_of)} must be given")
    return given


def nearest(name: str, known: Mapping[str, Any]) -> str:
    """A hint for a wrong name: the nearest known one, or all of them."""
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(known)}" if known else "it takes none"


def _check(method: Method, param: Param, value: Any) -> None:
    if not _fits(param, value):
        raise UsageError(f"{method.name}: {param.name!r} must be {_WORDS[param.type]}")
    for item in value if param.type == "list" else [value]:
        if param.choices and item not in param.choices:
            choices = dict.fromkeys(param.choices)
            raise UsageError(
                f"{method.name}: {param.name!r} cannot be {item!r}",
                hint=f"{nearest(str(item), choices)} (allowed: {', '.join(param.choices)})",
            )
    low, high = param.minimum, param.maximum
    if (low is not None and value < low) or (high is not None and value > high):
        raise UsageError(f"{method.name}: {param.name!r} must lie between {low} and {high}")


def _fits(param: Param, value: Any) -> bool:
    if isinstance(value, bool):
        return param.type == "bool"
    match param.type:
        case "str":
            return isinstance(value, str) and (param.joined or "\0" not in value)  # free text may hold anything
        case "int":
            return isinstance(value, int)
        case "float":
            return isinstance(value, (int, float)) and math.isfinite(value)
        case "list":
            return isinstance(value, list) and all(isinstance(item, str) for item in value)
        case "object":
            return isinstance(value, Mapping)
        case _:
            return False
