"""Split a user's document into the elements of its list of memories.

A document in the form that the real program writes is split in one pass of the strict parser, which yields the length
of each value. Anything unusual (another order of fields, repeated keys, elements that are not memories, syntax that
only Python's parser accepts) is split value by value, with the same result.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from memoryd.core.json_spans import (
    DocumentSpan,
    Member,
    decode,
    elements,
    find_document,
    is_utf8,
    last_member,
    members,
    skip_space,
    text_bounds,
    value_end,
)
from memoryd.core.records import NativeMemory
from memoryd.core.spans import Span
from memoryd.layouts.user_document import schema

_SPACE = rb"[ \t\r\n]*+"
_HEAD = re.compile(rb"\{%b(\"data\")%b:%b" % (_SPACE, _SPACE, _SPACE))
_JOINT = re.compile(rb"%b,%b\"embedding\"%b:%b" % (_SPACE, _SPACE, _SPACE, _SPACE))
_END = re.compile(rb"%b\}" % _SPACE)
_BETWEEN = re.compile(rb"%b,%b" % (_SPACE, _SPACE))


class Element(NamedTuple):
    """One element of `memories`: the spans of the element, its data and its embedding, and the data as an object."""

    span: Span
    data: Member
    embedding: Span | None
    native: NativeMemory


class ParsedDocument(NamedTuple):
    """A document split into parts. An element that is not a memory is None in `items`, with a reason."""

    value: Span
    members: list[Member]
    array: Span
    elements: list[Span]
    items: list[Element | None]
    reasons: dict[int, str]


class _Array(NamedTuple):
    """The list of memories: the last four fields of `ParsedDocument`."""

    span: Span
    elements: list[Span]
    items: list[Element | None]
    reasons: dict[int, str]


class _Element(msgspec.Struct, gc=False):
    data: msgspec.Raw
    embedding: msgspec.Raw = msgspec.Raw()


class _Document(msgspec.Struct, gc=False):
    memories: list[_Element]


_decode = msgspec.json.Decoder(_Document).decode
_decode_list = msgspec.json.Decoder(list[_Element]).decode


def parse_document(data: bytes) -> tuple[DocumentSpan, ParsedDocument | None]:
    """Return the span of the document and its parts; None where it is not an object with a list of memories."""
    parsed = parse_fast(data)
    if parsed is not None:
        return DocumentSpan(parsed.value), parsed
    document = find_document(data)
    return document, split_document(data, document.value) if document.value is not None else None


def parse_sound_document(data: bytes) -> ParsedDocument | None:
    """Return the parts of a file that is one sound document and nothing else, else None."""
    document, parsed = parse_document(data)
    return parsed if document.rest is None else None


# --- one pass


def parse_fast(data: bytes) -> ParsedDocument | None:
    """Return the parts of a document, None where the file is not strict JSON in the form of the program."""
    value = Span(*text_bounds(data))
    try:
        decoded = _decode(memoryview(data)[value.start : value.end])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not is_utf8(data):  # the parser does not check what it skips
        return None
    present: list[Member] = []
    array: _Array | None = None
    at = skip_space(data, value.start + 1)
    while data[at : at + 1] == b'"':
        colon = value_end(data, at)
        key, start = data[at + 1 : colon - 1], skip_space(data, skip_space(data, colon) + 1)
        parsed_array = _parse_array(data, start, decoded.memories) if key == b"memories" else None
        if b"\\" in key or (parsed_array is None and key == b"memories"):
            return None
        array = parsed_array or array
        end = parsed_array.span.end if parsed_array is not None else value_end(data, start)
        present.append(Member(key.decode(), at, Span(start, end)))
        at = _skip_comma(data, end)
    return ParsedDocument(value, present, *array) if array is not None else None


def _parse_array(data: bytes, start: int, decoded: list[_Element]) -> _Array | None:
    spans: list[Span] = []
    items: list[Element | None] = []
    reasons: dict[int, str] = {}
    at = skip_space(data, start + 1)
    for number, each in enumerate(decoded):
        item = _parse_element(data, at, each)
        if item is None:
            return None
        spans.append(item.span)
        items.append(_check_element(item, number, reasons))
        at = _skip_comma(data, item.span.end)
    at = skip_space(data, at)
    return _Array(Span(start, at + 1), spans, items, reasons) if data[at : at + 1] == b"]" else None


def parse_elements(data: bytes, span: Span, *, follows: bool) -> list[Element] | None:
    """Return the elements that fill this part of a list, with a comma before the first if it `follows` others; None
    where they do not, or are not strict JSON in the form of the program."""
    if span.start == span.end:
        return []
    at = _skip_comma(data, span.start) if follows else skip_space(data, span.start)
    text = data[at : span.end]
    try:
        decoded = _decode_list(b"[%b]" % text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if (follows and at == span.start) or not decoded or not is_utf8(text):
        return None
    found: list[Element] = []
    for each in decoded:
        item = _parse_element(data, _skip_comma(data, found[-1].span.end) if found else at, each)
        if item is None or schema.unusable_reason(item.native) is not None:
            return None
        found.append(item)
    return found if found[-1].span.end == span.end else None


def _parse_element(data: bytes, at: int, decoded: _Element) -> Element | None:
    """Split an element, whose values must be where the form has them: of a repeated key the parser returns the last."""
    head = _HEAD.match(data, at)
    text, vector = bytes(decoded.data), bytes(decoded.embedding)
    if head is None or not data.startswith(text, head.end()):
        return None
    inner, embedding = Span(head.end(), head.end() + len(text)), None
    end = inner.end
    if vector:
        separator = _JOINT.match(data, end)
        if separator is None or not data.startswith(vector, separator.end()):
            return None
        end = separator.end() + len(vector)
        embedding = Span(separator.end(), end)
    tail = _END.match(data, end)
    if tail is None:
        return None
    return Element(Span(at, tail.end()), Member("data", head.start(1), inner), embedding, try_decode(text))


def _skip_comma(data: bytes, at: int) -> int:
    match = _BETWEEN.match(data, at)
    return match.end() if match is not None else at


# --- value by value


def split_document(data: bytes, value: Span) -> ParsedDocument | None:
    """Return the parts, None where the value is not an object with a list of memories."""
    if data[value.start : value.start + 1] != b"{":
        return None
    parts = members(data, value.start, value.end)
    array = last_member(parts, "memories")
    if array is None or data[array.value.start : array.value.start + 1] != b"[":
        return None
    spans = elements(data, array.value)
    reasons: dict[int, str] = {}
    items = [_read_element(data, span, number, reasons) for number, span in enumerate(spans)]
    return ParsedDocument(value, parts, array.value, spans, items, reasons)


def _read_element(data: bytes, span: Span, number: int, reasons: dict[int, str]) -> Element | None:
    if data[span.start : span.start + 1] != b"{":
        reasons[number] = "not an object"
        return None
    parts = members(data, span.start, span.end)
    inner, embedding = last_member(parts, "data"), last_member(parts, "embedding")
    if inner is None:
        reasons[number] = "data: missing"
        return None
    native = try_decode(inner.value.of(data))
    return _check_element(Element(span, inner, embedding.value if embedding else None, native), number, reasons)


def _check_element(item: Element, number: int, reasons: dict[int, str]) -> Element | None:
    reason = schema.unusable_reason(item.native)
    if reason is not None:
        reasons[number] = reason
    return item if reason is None else None


def try_decode(text: bytes) -> Any:
    """Return the JSON value of `text`, or None if it cannot be decoded."""
    try:
        return decode(text)
    except (ValueError, RecursionError):  # a number out of range
        return None
