"""A user's document taken apart: where its memories stand, with their data and their embeddings.

A large document in the form that the program writes is cut in one pass of the strict parser, which tells how long each
value is. Whatever is odd about it (another order of fields, repeated keys, elements that are no memories, what Python's
parser alone lets in) is cut value by value, to the same result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from memoryd.core.json_elements import Member, elements, last, members, skip_space, value_end
from memoryd.core.text import Span
from memoryd.layouts.one_document import Whole, bounds, decode, is_utf8, look
from memoryd.layouts.user_document import schema

_SPACE = rb"[ \t\r\n]*+"
_HEAD = re.compile(rb"\{%b(\"data\")%b:%b" % (_SPACE, _SPACE, _SPACE))
_JOINT = re.compile(rb"%b,%b\"embedding\"%b:%b" % (_SPACE, _SPACE, _SPACE, _SPACE))
_END = re.compile(rb"%b\}" % _SPACE)
_BETWEEN = re.compile(rb"%b,%b" % (_SPACE, _SPACE))


class Item(NamedTuple):
    """One element of `memories`: where it, its data and its embedding stand, and its data as an object."""

    span: Span
    data: Member
    embedding: Span | None
    native: Mapping[str, Any]


class Taken(NamedTuple):
    """A document taken apart. An element that is no memory is an `Item`'s None, with the reason."""

    value: Span
    members: list[Member]
    array: Span
    elements: list[Span]
    items: list[Item | None]
    reasons: dict[int, str]


class _Array(NamedTuple):
    """The list of memories alone: the last four parts of `Taken`."""

    span: Span
    elements: list[Span]
    items: list[Item | None]
    reasons: dict[int, str]


class _Element(msgspec.Struct, gc=False):
    data: msgspec.Raw
    embedding: msgspec.Raw = msgspec.Raw()


class _Document(msgspec.Struct, gc=False):
    memories: list[_Element]


_decode = msgspec.json.Decoder(_Document).decode


def looked_at(data: bytes) -> tuple[Whole, Taken | None]:
    """The file as a whole, and the document in it taken apart; None where it is no object with a list of memories."""
    taken = _cut(data)
    if taken is not None:
        return Whole(taken.value), taken
    whole = look(data)
    return whole, take_apart(data, whole.value) if whole.value is not None else None


def taken_whole(data: bytes) -> Taken | None:
    """Of a file that is one sound document with a list of memories, and nothing else."""
    whole, taken = looked_at(data)
    return taken if whole.rest is None else None


# --- in one pass


def _cut(data: bytes) -> Taken | None:
    """None where it is not strict JSON in the form of the program."""
    value = Span(*bounds(data))
    try:
        found = _decode(memoryview(data)[value.start : value.end])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not is_utf8(data):  # what the parser skips it does not check
        return None
    present: list[Member] = []
    array: _Array | None = None
    at = skip_space(data, value.start + 1)
    while data[at : at + 1] == b'"':
        colon = value_end(data, at)
        key, start = data[at + 1 : colon - 1], skip_space(data, skip_space(data, colon) + 1)
        again = _cut_array(data, start, found.memories) if key == b"memories" else None
        if b"\\" in key or (again is None and key == b"memories"):
            return None
        array = again or array
        end = again.span.end if again is not None else value_end(data, start)
        present.append(Member(key.decode(), at, Span(start, end)))
        at = _past(_BETWEEN, data, end)
    return Taken(value, present, *array) if array is not None else None


def _cut_array(data: bytes, start: int, found: list[_Element]) -> _Array | None:
    spans: list[Span] = []
    items: list[Item | None] = []
    reasons: dict[int, str] = {}
    at = skip_space(data, start + 1)
    for number, each in enumerate(found):
        item = _cut_element(data, at, each)
        if item is None:
            return None
        spans.append(item.span)
        items.append(_usable(item, number, reasons))
        at = _past(_BETWEEN, data, item.span.end)
    at = skip_space(data, at)
    return _Array(Span(start, at + 1), spans, items, reasons) if data[at : at + 1] == b"]" else None


def _cut_element(data: bytes, at: int, found: _Element) -> Item | None:
    """Its values must stand just where the form has them: of a repeated key the parser tells the last value alone."""
    head = _HEAD.match(data, at)
    text, vector = bytes(found.data), bytes(found.embedding)
    if head is None or not data.startswith(text, head.end()):
        return None
    inner, embedding = Span(head.end(), head.end() + len(text)), None
    end = inner.end
    if vector:
        joint = _JOINT.match(data, end)
        if joint is None or not data.startswith(vector, joint.end()):
            return None
        end = joint.end() + len(vector)
        embedding = Span(joint.end(), end)
    tail = _END.match(data, end)
    if tail is None:
        return None
    return Item(Span(at, tail.end()), Member("data", head.start(1), inner), embedding, decoded(text))


def _past(mark: re.Pattern[bytes], data: bytes, at: int) -> int:
    match = mark.match(data, at)
    return match.end() if match is not None else at


# --- value by value


def take_apart(data: bytes, value: Span) -> Taken | None:
    """None where the value is no object with a list of memories."""
    if data[value.start : value.start + 1] != b"{":
        return None
    found = members(data, value.start, value.end)
    array = last(found, "memories")
    if array is None or data[array.value.start : array.value.start + 1] != b"[":
        return None
    spans = elements(data, array.value)
    reasons: dict[int, str] = {}
    items = [_item(data, span, number, reasons) for number, span in enumerate(spans)]
    return Taken(value, found, array.value, spans, items, reasons)


def _item(data: bytes, span: Span, number: int, reasons: dict[int, str]) -> Item | None:
    if data[span.start : span.start + 1] != b"{":
        reasons[number] = "is no object"
        return None
    found = members(data, span.start, span.end)
    inner, embedding = last(found, "data"), last(found, "embedding")
    if inner is None:
        reasons[number] = "data: missing"
        return None
    native = decoded(inner.value.of(data))
    return _usable(Item(span, inner, embedding.value if embedding else None, native), number, reasons)


def _usable(item: Item, number: int, reasons: dict[int, str]) -> Item | None:
    reason = schema.unusable(item.native)
    if reason is not None:
        reasons[number] = reason
    return item if reason is None else None


def decoded(text: bytes) -> Any:
    try:
        return decode(text)
    except (ValueError, RecursionError):  # a number without any bound
        return None
