"""Check the parameters of a request: msgspec validates the method's request type, this module words the errors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from operator import attrgetter

import msgspec

from memoryd.control.methods.method_types import Finite, Method, Name, Param, Request
from memoryd.errors import UsageError, nearest

_KINDS: Mapping[str, tuple[object, str]] = {
    "str": (Name, "a string"),
    "int": (int, "a whole number"),
    "float": (Finite, "a number"),
    "bool": (bool, "true or false"),
    "list": (list[str], "a list of strings"),
    "objects": (list[dict[str, object]], "a non-empty list of objects"),
    "numbers": (list[Finite], "a list of finite numbers"),
    "object": (dict[str, object], "an object"),
}

_WORDS: Mapping[type, str] = {list: "a list", str: "a string", bool: "a boolean"}

# msgspec 0.22 prepares a type at its first use and crashes the process if two threads do so at the same time.
_converting = threading.Lock()


Label = Callable[[Param], str]


def check_params(method: Method, params: object, label: Label = attrgetter("name")) -> Request:
    """Return the parameters as the method's request; null counts as absent. Raises UsageError (-32602) with the nearest
    known name, the expected type, or the allowed values. `label` returns what a parameter is called in the message."""
    if params is None:
        params = {}
    if not isinstance(params, Mapping):
        kind = _WORDS.get(type(params), "a number")
        raise UsageError(f"parameters must be an object, not {kind}")
    names = method.request.__struct_fields__
    for name in params:
        if name not in names:
            raise UsageError(f"unknown parameter {name!r}", hint=name_hint(str(name), names))
    given = {name: value for name, value in params.items() if value is not None}
    try:
        with _converting:
            request = msgspec.convert(given, method.request)
    except msgspec.ValidationError as error:
        raise _first_error(method, given, label) or UsageError(str(error)) from None
    for param in method.limited:
        if param.name in given and (invalid := _choice_error(param, given[param.name], label)):
            raise invalid
    _check_alternatives(method, given, label)
    return request


def _check_alternatives(method: Method, given: Collection[str], label: Label) -> None:
    """Raise UsageError unless one of the parameters is given of which one must be."""
    count = len([name for name in method.one_of if name in given])
    if (count > 1 and method.only_one) or (count == 0 and method.one_of):
        names = ", ".join(label(param) for param in method.params if param.name in method.one_of)
        raise UsageError(f"only one of {names} may be given" if count else f"one of {names} must be given")


def name_hint(name: str, candidates: Iterable[str]) -> str:
    """Return a hint for an unknown name: the nearest known one, or all of them."""
    names = list(candidates)
    near = nearest(name, names)
    if near is not None:
        return f"did you mean {near!r}?"
    return f"known: {', '.join(names)}" if names else "it takes none"


def _first_error(method: Method, given: Mapping[str, object], label: Label) -> UsageError | None:
    """Return the error for the first wrong parameter, in the order of the table."""
    for param in method.params:
        if param.name not in given:
            if param.required:
                return UsageError(f"parameter {label(param)!r} is missing", hint=param.help)
            continue
        error = _value_error(param, given[param.name], label)
        if error is not None:
            return error
    return None


def _value_error(param: Param, value: object, label: Label) -> UsageError | None:
    kind, expected = _KINDS[param.type]
    free_text = param.type == "str" and param.option.joined  # free text may hold anything
    if not _conforms(value, str if free_text else kind) or (param.type == "objects" and not value):
        return UsageError(f"{label(param)!r} must be {expected}")
    if param.choices and (error := _choice_error(param, value, label)) is not None:
        return error
    low, high = param.minimum, param.maximum
    if isinstance(value, (int, float)) and ((low is not None and value < low) or (high is not None and value > high)):
        return UsageError(f"{label(param)!r} must be between {low} and {high}")
    return None


def _conforms(value: object, kind: object) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _choice_error(param: Param, value: object, label: Label) -> UsageError | None:
    """Return the error for the first value that is not allowed."""
    for item in value if isinstance(value, list) else [value]:
        if item not in param.choices:
            allowed = ", ".join(param.choices)
            return UsageError(
                f"{label(param)!r} cannot be {item!r}",
                hint=f"{name_hint(str(item), param.choices)} (allowed: {allowed})",
            )
    return None
