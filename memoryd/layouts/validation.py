"""Checks of new memories, and their encoding as JSON.

Shared by the layouts whose memories are JSON objects. An error names fields and rules, never a value: the value may be
a secret.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeGuard

from memoryd.core.dates import parse_stamp
from memoryd.core.records import JsonObject, NativeMemory
from memoryd.core.secrets import redact
from memoryd.errors import InvalidMemoryError, UsageError

_COMPACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_MAX_NAME = 80  # characters of a field name in a message


class FieldSpec(NamedTuple):
    """A field that `add` and `update` accept: its type, its help text, and whether `add` requires it.

    `add --help`, `memoryd help layouts` and the schemas of the MCP tools are made from these.
    """

    type: Literal["text", "texts", "integer", "number", "numbers", "object", "objects"]
    help: str
    required: bool = False


class Problem(NamedTuple):
    """The `code` of a finding and its message, which names field and rule and never the content."""

    code: str
    message: str


class Violation(NamedTuple):
    """A broken rule of a field, worded so that "FIELD: RULE" says what is required."""

    field: str
    rule: str


class Rule(NamedTuple):
    """A check of one value; `message` says what a value must be."""

    fits: Callable[[object], bool]
    message: str


def reject(
    problems: Iterable[Violation], hint: str = "nothing was stored; correct the fields named", extra: str | None = None
) -> None:
    """Raise InvalidMemoryError if there are any `problems`; the message has the first, `data["findings"]` all of them.
    `extra` names the optional dependency that would help."""
    unique = list(dict.fromkeys(Violation(_printable(each.field), each.rule) for each in problems))
    if not unique:
        return
    more = f" (and {len(unique) - 1} more)" if len(unique) > 1 else ""
    findings = [each._asdict() for each in unique]
    message = f"{unique[0].field}: {unique[0].rule}{more}"
    data = {"findings": findings} if extra is None else {"findings": findings, "extra": extra}
    raise InvalidMemoryError(message, hint=hint, data=data)


def violations(rules: Mapping[str, Rule], native: NativeMemory, fields: Collection[str]) -> Iterator[Violation]:
    """Yield the rules that `native` breaks in any of `fields`; an absent field breaks none."""
    for field, rule in rules.items():
        if field in fields and field in native and not rule.fits(native[field]):
            yield Violation(field, rule.message)


def not_encodable(native: NativeMemory) -> Iterator[Violation]:
    """Yield the fields that JSON in UTF-8 cannot hold: NaN, lone surrogates, other types, too deep nesting."""
    if try_encode(native) is not None:
        return
    fields: Iterable[tuple[object, object]] = native.items()  # agents may send keys that are not text
    for key, value in fields:
        if not isinstance(key, str):
            yield Violation(str(type(key).__name__), "field names must be text")
        elif try_encode({key: value}) is None:
            yield Violation(_printable(key), "must be a value that JSON in UTF-8 can hold")


def try_encode(native: NativeMemory) -> bytes | None:
    """Return `encode(native)`, or None if JSON cannot hold it; `not_encodable` yields the reasons."""
    if not all(isinstance(key, str) for key in native):
        return None
    try:
        return encode(native)
    except (TypeError, ValueError, RecursionError):
        return None


def _printable(field: str) -> str:
    return redact(field.encode("utf-8", "replace").decode("utf-8"))[:_MAX_NAME]


def only_location(location: Mapping[str, str], layout: str, name: str = "") -> str:
    """Return the value of the location parameter `name`, or "" if the layout needs none. Raises UsageError if it is
    missing or another parameter is given."""
    given = {key: value for key, value in location.items() if value}
    other = next((key for key in given if key != name), None)
    if other is not None:
        raise UsageError(f"{other}: not supported by the layout {layout}")
    if name and name not in given:
        raise UsageError(
            f"{name}: missing; the layout {layout} requires it",
            hint=f"name it with --{name}; the ids that `memoryd list` prints begin with those there are",
        )
    return given.get(name, "")


def differences(native: NativeMemory, changes: NativeMemory) -> JsonObject:
    """Return the items of `changes` that differ from `native`; the value None removes a field."""

    def is_same(key: str, value: object) -> bool:
        if value is None or key not in native:
            return value is None and key not in native
        return json.dumps(native[key]) == json.dumps(value)  # in Python, True == 1

    return {key: value for key, value in changes.items() if not is_same(key, value)}


def with_changes(native: NativeMemory, changes: NativeMemory) -> JsonObject:
    """Return the memory with `changes` applied."""
    return {key: value for key, value in {**native, **changes}.items() if value is not None or key not in changes}


def encode(value: object) -> bytes:
    """Return minified JSON without escapes. Raises TypeError, ValueError or RecursionError (see `not_encodable`)."""
    return _COMPACT.encode(value).encode()


def indented_like(value: object, lead: bytes) -> bytes:
    """Return JSON in the style of the object around it. `lead` is the white space before the object's first member:
    with a line break in it, the value is spread over lines, each indented by two more spaces."""
    if b"\n" not in lead:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2).encode()
    return text.replace(b"\n", b"\n" + lead.rpartition(b"\n")[2])


def is_text(value: object) -> TypeGuard[str]:
    """Return True for a string."""
    return isinstance(value, str)


def is_flag(value: object) -> bool:
    """Return True for a boolean."""
    return isinstance(value, bool)


def is_count(value: object) -> bool:
    """Return True for an integer from 0 to 2**53 - 1, which every JSON reader represents exactly."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def is_texts(value: object) -> TypeGuard[list[str]]:
    """Return True for a list of strings."""
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def is_zoned_stamp(value: object) -> bool:
    """Return True for an ISO 8601 time stamp with a time zone."""
    stamp = parse_stamp(value)
    return stamp is not None and stamp.zoned


STAMP = Rule(is_zoned_stamp, "must be an ISO 8601 time with a time zone")
FLAG = Rule(is_flag, "must be true or false")
COUNT = Rule(is_count, "must be a whole number of 0 or more")
TEXTS = Rule(is_texts, "must be a list of texts")
