"""Where the members and elements of a JSON text stand in its bytes, and exact edits of them.

Made for large documents: nothing is decoded but keys. What is strict JSON is cut by msgspec, whose raw values follow
each other as they stand in the text; anything else (NaN, a repeated key) is walked through here, arrays of numbers at
the speed of a byte search, so that a vector never becomes a list of floats. The text must have been accepted by a JSON
parser before; on anything else these functions raise ValueError or give spans without meaning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from memoryd.core.text import Edit, Span

_SPACE = re.compile(rb"[ \t\r\n]*+")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_TOKEN = re.compile(rb'[\[\]{}]|"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SCALAR = re.compile(rb'[^\s,:\[\]{}"]++')
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Member(NamedTuple):
    """One `"key": value` of an object; `start` is where its key begins. Byte offsets."""

    key: str
    start: int
    value: Span


def skip_space(data: bytes, at: int) -> int:
    match = _SPACE.match(data, at)
    return match.end() if match else at


def value_end(data: bytes, at: int) -> int:
    """The offset after the JSON value that begins at `at`."""
    first = data[at : at + 1]
    if first in (b"[", b"{"):
        return _container_end(data, at)
    match = (_STRING if first == b'"' else _SCALAR).match(data, at)
    if match is None:
        raise ValueError(f"no JSON value begins at byte {at}")
    return match.end()


def _container_end(data: bytes, at: int) -> int:
    depth = 0
    while True:
        match = _TOKEN.search(data, at)
        if match is None:
            raise ValueError("a JSON value has no end")
        at, token = match.end(), data[match.start()]
        if token == 0x5B:  # [
            flat = _flat_array_end(data, at)
            depth, at = (depth, flat) if flat else (depth + 1, at)
        elif token == 0x7B:  # {
            depth += 1
        elif token != 0x22:  # neither a string: ] or }
            depth -= 1
        if depth <= 0:
            return at


def _flat_array_end(data: bytes, at: int) -> int:
    """The end of an array that holds neither strings nor containers; 0 for any other."""
    end = data.find(b"]", at)
    if end < 0 or any(data.find(mark, at, end) >= 0 for mark in (b'"', b"{", b"[")):
        return 0
    return end + 1


def members(data: bytes, at: int, end: int | None = None) -> list[Member]:
    """The members of the object that begins at `at`, in order, repeated keys included. Faster where its `end` is
    known."""
    if data[at : at + 1] != b"{":
        raise ValueError("no object begins here")
    found = _cut_members(data, at, end) if end is not None else None
    return found if found is not None else _walked_members(data, at)


def _cut_members(data: bytes, at: int, end: int) -> list[Member] | None:
    """None where it is no strict JSON, or a key is repeated: of that only the last value would be told."""
    try:
        values = _MEMBERS.decode(memoryview(data)[at:end])
    except (msgspec.DecodeError, RecursionError):
        return None
    found: list[Member] = []
    at = skip_space(data, at + 1)
    for key, value in values.items():
        name = _STRING.match(data, at)
        colon = skip_space(data, name.end()) if name is not None else at
        if name is None or data[colon : colon + 1] != b":" or _key(name.group()) != key:
            return None
        start = skip_space(data, colon + 1)
        found.append(Member(key, at, Span(start, start + len(value))))
        at = _next(data, start + len(value))
    return found if at == end - 1 else None


def _next(data: bytes, at: int) -> int:
    """Where the next value begins after one that ends at `at`, or the bracket that closes all."""
    at = skip_space(data, at)
    return skip_space(data, at + 1) if data[at : at + 1] == b"," else at


def _walked_members(data: bytes, at: int) -> list[Member]:
    found: list[Member] = []
    at = skip_space(data, at + 1)
    while data[at : at + 1] != b"}":
        start, key_end = at, value_end(data, at)
        value_start = skip_space(data, _after(data, key_end, b":"))
        end = value_end(data, value_start)
        found.append(Member(_key(data[start:key_end]), start, Span(value_start, end)))
        at = skip_space(data, end)
        if data[at : at + 1] != b"}":
            at = skip_space(data, _after(data, at, b","))
    return found


def _key(text: bytes) -> str:
    return str(json.loads(text)) if b"\\" in text else text[1:-1].decode()


def elements(data: bytes, array: Span) -> list[Span]:
    """The elements of an array, in order."""
    if data[array.start : array.start + 1] != b"[":
        raise ValueError("no array begins here")
    try:
        values = _ELEMENTS.decode(memoryview(data)[array.start : array.end])
    except (msgspec.DecodeError, RecursionError):
        return _walked_elements(data, array)
    found: list[Span] = []
    at = skip_space(data, array.start + 1)
    for value in values:
        found.append(Span(at, at + len(value)))
        at = _next(data, at + len(value))
    return found


def _walked_elements(data: bytes, array: Span) -> list[Span]:
    found: list[Span] = []
    at = skip_space(data, array.start + 1)
    while data[at : at + 1] != b"]":
        end = value_end(data, at)
        found.append(Span(at, end))
        at = skip_space(data, end)
        if data[at : at + 1] != b"]":
            at = skip_space(data, _after(data, at, b","))
    return found


def lines(data: bytes, spans: Iterable[Span]) -> Iterator[int]:
    """The number of the line on which each begins; the spans are in order."""
    line, at = 1, 0
    for span in spans:
        line, at = line + data.count(b"\n", at, span.start), span.start
        yield line


def _after(data: bytes, at: int, mark: bytes) -> int:
    at = skip_space(data, at)
    if data[at : at + 1] != mark:
        raise ValueError(f"{mark.decode()} is expected at byte {at}")
    return at + 1


def last(found: Sequence[Member], key: str) -> Member | None:
    """Of repeated keys the last one counts, as in every common parser."""
    return next((member for member in reversed(found) if member.key == key), None)


def removals(array: Span, present: Sequence[Span], gone: Collection[int]) -> list[Edit]:
    """Take the elements numbered `gone` out of an array, each with its comma; an array left empty is `[]`."""
    if len(set(gone)) == len(present):
        return [Edit(Span(array.start + 1, array.end - 1), b"")] if present else []
    edits: list[Edit] = []
    number = 0
    while number < len(present):
        begin = number
        while number < len(present) and number in gone:
            number += 1
        if number == begin:
            number += 1
        elif begin > 0:  # with the comma before it, so that what follows the last element stays
            edits.append(Edit(Span(present[begin - 1].end, present[number - 1].end), b""))
        else:
            edits.append(Edit(Span(present[0].start, present[number].start), b""))
    return edits


def addition(data: bytes, array: Span, present: Sequence[Span], new: Sequence[bytes], indent: bytes | None) -> Edit:
    """Put values at the end of an array, separated as its elements are. Into an empty one they go each on its line
    after `indent` (the array's own line is taken to stand two spaces less deep), or all on one when that is None."""
    if present:
        gap = data[present[-2].end : present[-1].start] if len(present) > 1 else _lead(data, array, present)
        return Edit(Span(present[-1].end, present[-1].end), b"".join(gap + value for value in new))
    if indent is None:
        return Edit(Span(array.start, array.end), b"[" + b",".join(new) + b"]")
    inner = b",".join(b"\n" + indent + value for value in new)
    return Edit(Span(array.start, array.end), b"[" + inner + b"\n" + indent[2:] + b"]")


def _lead(data: bytes, array: Span, present: Sequence[Span]) -> bytes:
    return b"," + data[array.start + 1 : present[0].start]


def setting(data: bytes, found: Sequence[Member], brace: int, key: str, value: bytes) -> Edit:
    """Give the member `key` of the object at `brace` this value: the value alone is replaced, or a member is added
    after the last one in the object's own style."""
    member = last(found, key)
    if member is not None:
        return Edit(member.value, value)
    name = _quoted(key)
    if not found:
        return Edit(Span(brace + 1, brace + 1), name + b":" + value)
    at, gap, colon = _style(data, brace, found)
    return Edit(Span(at, at), gap + name + colon + value)


def revision(data: bytes, brace: int, values: Mapping[str, bytes | None]) -> list[Edit]:
    """Give members of the object at `brace` these values and take away those whose value is None, repeated ones too;
    every other byte stays. What is new goes behind the last member, in the object's own style."""
    found = members(data, brace)
    gone = [number for number, each in enumerate(found) if values.get(each.key, b"") is None]
    there = {each.key: each.value for each in found}
    new = [(key, value) for key, value in values.items() if value is not None and key not in there]
    end = value_end(data, brace)
    if len(gone) == len(found):
        inner = b",".join(_quoted(key) + b":" + value for key, value in new)
        return [Edit(Span(brace + 1, end - 1), inner)] if found or new else []
    edits = [Edit(there[key], value) for key, value in values.items() if value is not None and key in there]
    edits += removals(Span(brace, end), [Span(each.start, each.value.end) for each in found], gone)
    if new:
        at, gap, colon = _style(data, brace, found)
        edits.append(Edit(Span(at, at), b"".join(gap + _quoted(key) + colon + value for key, value in new)))
    return edits


def lead(data: bytes, brace: int) -> bytes:
    """The white space between an object's brace and its first member."""
    return data[brace + 1 : skip_space(data, brace + 1)]


def _quoted(key: str) -> bytes:
    return json.dumps(key, ensure_ascii=False).encode()


def _style(data: bytes, brace: int, found: Sequence[Member]) -> tuple[int, bytes, bytes]:
    """Where a new member goes, what stands before it and what between its key and its value."""
    end = found[-1]
    colon = data[value_end(data, end.start) : end.value.start]
    gap = data[found[-2].value.end : end.start] if len(found) > 1 else b"," + data[brace + 1 : end.start]
    return end.value.end, gap, colon
