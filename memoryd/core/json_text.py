"""Where the members of a JSON object stand in its text, so that one value can be replaced alone."""

from __future__ import annotations

import re
from json.decoder import JSONDecoder, scanstring  # type: ignore[attr-defined]  # the stubs omit scanstring
from typing import Any, NamedTuple

_SPACE = re.compile(r"[ \t\r\n]*")
_decoder = JSONDecoder()


class Member(NamedTuple):
    """One `"key": value`; offsets are characters of the text given."""

    key: str
    start: int
    value_start: int
    value_end: int


def skip_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def decode_at(text: str, at: int) -> tuple[Any, int]:
    """The JSON value that begins at `at` and the offset after it; raises ValueError or RecursionError."""
    value, end = _decoder.raw_decode(text, at)
    return value, end


def members(text: str, at: int = 0) -> list[Member]:
    """The top-level members of the object that begins at `at`, in order, duplicates included.

    Raises ValueError when there is no well-formed object."""
    at = skip_space(text, at)
    if text[at : at + 1] != "{":
        raise ValueError("no object begins here")
    found: list[Member] = []
    at = skip_space(text, at + 1)
    if text[at : at + 1] == "}":
        return found
    while True:
        start = at
        if text[at : at + 1] != '"':
            raise ValueError("a key is expected")
        key, at = scanstring(text, at + 1, False)
        at = skip_space(text, at)
        if text[at : at + 1] != ":":
            raise ValueError("a colon is expected")
        value_start = skip_space(text, at + 1)
        _, value_end = decode_at(text, value_start)
        found.append(Member(key, start, value_start, value_end))
        at = skip_space(text, value_end)
        if text[at : at + 1] == "}":
            return found
        if text[at : at + 1] != ",":
            raise ValueError("a comma is expected")
        at = skip_space(text, at + 1)


def with_member(text: str, key: str, value: str) -> str:
    """The object's text with `key` set to the JSON text `value`: the value alone is replaced, or the
    member is added after the last one in the object's own style of separators."""
    found = members(text)
    for member in reversed(found):  # of two equal keys the last one counts
        if member.key == key:
            return text[: member.value_start] + value + text[member.value_end :]
    if not found:
        brace = text.index("{")
        return f'{text[: brace + 1]}"{key}":{value}{text[brace + 1 :]}'
    last = found[-1]
    colon = text[last.start + len_of_key(text, last) : last.value_start]
    lead = text[found[-2].value_end : last.start] if len(found) > 1 else ","
    return f'{text[: last.value_end]}{lead}"{key}"{colon}{value}{text[last.value_end :]}'


def len_of_key(text: str, member: Member) -> int:
    """Length of the quoted key as written (escapes included)."""
    _, end = scanstring(text, member.start + 1, False)
    return int(end) - member.start
