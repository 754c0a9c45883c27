"""Byte spans of the members and elements of a JSON text, and exact edits of them.

Made for large documents: only keys are decoded. Strict JSON is split by msgspec, whose raw values come in the order
of the text; anything else (NaN, a duplicate key) is scanned here, arrays of numbers by a plain byte search, so that a
vector never becomes a list of floats. The text must have been accepted by a JSON parser before; for other text these
functions raise ValueError or return meaningless spans.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from memoryd.core.spans import BOM, Edit, Span, splice

_SPACE = re.compile(rb"[ \t\r\n]*+")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_COMMA = re.compile(rb"[ \t\r\n]*+,?+[ \t\r\n]*+")
_NAME = re.compile(  # of a member: from the end of the member before it to its value
    rb'[ \t\r\n]*+,?+[ \t\r\n]*+"([^"\\]*+(?:\\.[^"\\]*+)*+)"[ \t\r\n]*+:[ \t\r\n]*+', re.DOTALL
)
_TOKEN = re.compile(rb'[\[\]{}]|"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SCALAR = re.compile(rb'[^\s,:\[\]{}"]++')
_VALUE = msgspec.json.Decoder(msgspec.Raw)
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_REFUSED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError)
_BLANK = b" \t\r\n\0"
_ASCII = re.compile(rb"[\x00-\x7f]")
_PIECE = 16 * 1024  # bytes


class Member(NamedTuple):
    """One `"key": value` of an object, in byte offsets; `start` is the start of its key."""

    key: str
    start: int
    value: Span


def skip_space(data: bytes, at: int) -> int:
    """Return the offset of the first byte from `at` on that is not JSON white space."""
    match = _SPACE.match(data, at)
    return match.end() if match else at


def value_end(data: bytes, at: int) -> int:
    """Return the offset after the JSON value that starts at `at`."""
    first = data[at : at + 1]
    if first in (b"[", b"{"):
        return _container_end(data, at)
    match = (_STRING if first == b'"' else _SCALAR).match(data, at)
    if match is None:
        raise ValueError(f"no JSON value starts at byte {at}")
    return match.end()


def _container_end(data: bytes, at: int) -> int:
    depth = 0
    while True:
        match = _TOKEN.search(data, at)
        if match is None:
            raise ValueError("a JSON value is not terminated")
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
    """Return the end of an array that contains neither strings nor containers; 0 for any other."""
    end = data.find(b"]", at)
    if end < 0 or any(data.find(mark, at, end) >= 0 for mark in (b'"', b"{", b"[")):
        return 0
    return end + 1


def members(data: bytes, at: int, end: int | None = None) -> list[Member]:
    """Return the members of the object that starts at `at`, in order, with duplicate keys. Faster if `end` is known."""
    if data[at : at + 1] != b"{":
        raise ValueError(f"no JSON object starts at byte {at}")
    strict = _split_members(data, at, end) if end is not None else None
    return strict if strict is not None else _scan_members(data, at)


def _split_members(data: bytes, at: int, end: int) -> list[Member] | None:
    """Return None if this is not strict JSON or has a duplicate key, of which msgspec returns only the last value."""
    try:
        values = _MEMBERS.decode(memoryview(data)[at:end])
    except (msgspec.DecodeError, RecursionError):
        return None
    found: list[Member] = []
    at += 1
    for key, value in values.items():
        name = _NAME.match(data, at)
        if name is None or (name[1] != key.encode() and _key(b'"%b"' % name[1]) != key):
            return None
        start = name.end()
        at = start + len(value)
        found.append(Member(key, name.start(1) - 1, Span(start, at)))
    return found if skip_space(data, at) == end - 1 else None


def _next(data: bytes, at: int) -> int:
    """Return the offset of the next value, or of the closing bracket, after a value that ends at `at`."""
    match = _COMMA.match(data, at)
    return match.end() if match else at


def _scan_members(data: bytes, at: int) -> list[Member]:
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
    """Return the spans of the elements of an array, in order."""
    if data[array.start : array.start + 1] != b"[":
        raise ValueError(f"no JSON array starts at byte {array.start}")
    try:
        values = _ELEMENTS.decode(memoryview(data)[array.start : array.end])
    except (msgspec.DecodeError, RecursionError):
        return _scan_elements(data, array)
    found: list[Span] = []
    at = skip_space(data, array.start + 1)
    for value in values:
        found.append(Span(at, at + len(value)))
        at = _next(data, at + len(value))
    return found


def _scan_elements(data: bytes, array: Span) -> list[Span]:
    found: list[Span] = []
    at = skip_space(data, array.start + 1)
    while data[at : at + 1] != b"]":
        end = value_end(data, at)
        found.append(Span(at, end))
        at = skip_space(data, end)
        if data[at : at + 1] != b"]":
            at = skip_space(data, _after(data, at, b","))
    return found


def line_numbers(data: bytes, spans: Iterable[Span]) -> Iterator[int]:
    """Yield the 1-based line number on which each span starts. The spans must be in order."""
    line, at = 1, 0
    for span in spans:
        line, at = line + data.count(b"\n", at, span.start), span.start
        yield line


def _after(data: bytes, at: int, mark: bytes) -> int:
    at = skip_space(data, at)
    if data[at : at + 1] != mark:
        raise ValueError(f"{mark.decode()} expected at byte {at}")
    return at + 1


def last_member(found: Sequence[Member], key: str) -> Member | None:
    """Return the member with this key; the last one if the key is repeated, as in every common parser."""
    return next((member for member in reversed(found) if member.key == key), None)


def remove_elements(array: Span, present: Sequence[Span], gone: Collection[int]) -> list[Edit]:
    """Return edits that remove the elements with the indexes `gone` and their commas; an empty array becomes `[]`."""
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
        elif begin > 0:  # with the comma before it, so that the space after the last element stays
            edits.append(Edit(Span(present[begin - 1].end, present[number - 1].end), b""))
        else:
            edits.append(Edit(Span(present[0].start, present[number].start), b""))
    return edits


def append_elements(
    data: bytes, array: Span, present: Sequence[Span], new: Sequence[bytes], indent: bytes | None
) -> Edit:
    """Return an edit that adds values at the end of an array, separated like its elements.

    In an empty array each goes on its own line after `indent`, and the closing bracket is indented two spaces less;
    all go on one line if `indent` is None.
    """
    if present:
        gap = data[present[-2].end : present[-1].start] if len(present) > 1 else _lead(data, array, present)
        return Edit(Span(present[-1].end, present[-1].end), b"".join(gap + value for value in new))
    if indent is None:
        return Edit(Span(array.start, array.end), b"[" + b",".join(new) + b"]")
    inner = b",".join(b"\n" + indent + value for value in new)
    return Edit(Span(array.start, array.end), b"[" + inner + b"\n" + indent[2:] + b"]")


def _lead(data: bytes, array: Span, present: Sequence[Span]) -> bytes:
    return b"," + data[array.start + 1 : present[0].start]


def set_member(data: bytes, found: Sequence[Member], brace: int, key: str, value: bytes) -> Edit:
    """Return an edit that sets the member `key` of the object at `brace`.

    Only the value is replaced; a new member is added after the last one, in the style of the object.
    """
    member = last_member(found, key)
    if member is not None:
        return Edit(member.value, value)
    name = _quoted(key)
    if not found:
        return Edit(Span(brace + 1, brace + 1), name + b":" + value)
    at, gap, colon = _style(data, brace, found)
    return Edit(Span(at, at), gap + name + colon + value)


def update_members(data: bytes, brace: int, values: Mapping[str, bytes | None]) -> list[Edit]:
    """Return edits that set members of the object at `brace`, and remove those whose value is None with all duplicates.

    Every other byte stays. New members follow the last one, in the style of the object.
    """
    found = members(data, brace)
    gone = [number for number, each in enumerate(found) if values.get(each.key, b"") is None]
    there = {each.key: each.value for each in found}
    new = [(key, value) for key, value in values.items() if value is not None and key not in there]
    end = value_end(data, brace)
    if len(gone) == len(found):
        inner = b",".join(_quoted(key) + b":" + value for key, value in new)
        return [Edit(Span(brace + 1, end - 1), inner)] if found or new else []
    edits = [Edit(there[key], value) for key, value in values.items() if value is not None and key in there]
    edits += remove_elements(Span(brace, end), [Span(each.start, each.value.end) for each in found], gone)
    if new:
        at, gap, colon = _style(data, brace, found)
        edits.append(Edit(Span(at, at), b"".join(gap + _quoted(key) + colon + value for key, value in new)))
    return edits


def leading_space(data: bytes, brace: int) -> bytes:
    """Return the white space between the opening brace of an object and its first member."""
    return data[brace + 1 : skip_space(data, brace + 1)]


def _quoted(key: str) -> bytes:
    return json.dumps(key, ensure_ascii=False).encode()


def _style(data: bytes, brace: int, found: Sequence[Member]) -> tuple[int, bytes, bytes]:
    """Return the offset for a new member, the separator before it, and the separator between key and value."""
    end = found[-1]
    colon = data[value_end(data, end.start) : end.value.start]
    gap = data[found[-2].value.end : end.start] if len(found) > 1 else b"," + data[brace + 1 : end.start]
    return end.value.end, gap, colon


def with_member(text: bytes, key: str, value: bytes) -> bytes:
    """Return the text of an object with `key` set to the JSON text `value`; see `set_member`."""
    brace = skip_space(text, 0)
    found = members(text, brace, len(text.rstrip(b" \t\r\n")))
    return splice(text, [set_member(text, found, brace, key, value)])


class DocumentSpan(NamedTuple):
    """The location of the JSON document in a file.

    `value`: its span; None if there is none, and `problem` says why. `rest`: bytes of an older, longer text after it.
    `second`: the rest is itself a JSON object or array.
    """

    value: Span | None
    rest: Span | None = None
    second: bool = False
    problem: str = ""


def text_bounds(data: bytes) -> tuple[int, int]:
    """Return the start and end of the text without byte order mark and surrounding white space."""
    start = skip_space(data, len(BOM) if data.startswith(BOM) else 0)
    return start, max(start, len(data.rstrip(b" \t\r\n")))


def find_document(data: bytes) -> DocumentSpan:
    """Find the JSON document in the content of a file, also if it is followed by other bytes. Never raises."""
    start, end = text_bounds(data)
    text = data[start:end]
    if _is_strict(text):
        return DocumentSpan(Span(start, end))
    if not text.strip(_BLANK):
        return DocumentSpan(None, problem="the file is empty")
    return _find_lenient(data, start, end)


def _is_strict(value: bytes) -> bool:
    try:
        _VALUE.decode(value)
    except _REFUSED:
        return False
    return is_utf8(value)  # msgspec does not check the encoding of strings that it skips


def is_utf8(data: bytes) -> bool:
    """True if the bytes are valid UTF-8. Checked in pieces: most pieces of a document of vectors are plain ASCII."""
    at = 0
    while at < len(data):
        cut = _ASCII.search(data, at + _PIECE)
        end = cut.start() if cut is not None else len(data)
        piece = data[at:end]
        if not piece.isascii() and not _decodes(piece):
            return False
        at = end
    return True


def _decodes(text: bytes) -> bool:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _find_lenient(data: bytes, start: int, end: int) -> DocumentSpan:
    """Use the parser of Python, without decoding numbers; take the first value if more bytes follow."""
    try:
        text = data[start:end].decode("utf-8")
    except UnicodeDecodeError as error:
        return _torn(data, start, error.start, f"is not UTF-8 at byte {start + error.start}")
    value, size, reason = _first_value(text)
    if value is None:
        return DocumentSpan(None, problem=reason)
    first = Span(start, start + len(text[:size].encode()))
    if size == len(text):
        return DocumentSpan(first)
    return _with_rest(data, first)


def _torn(data: bytes, start: int, sound: int, problem: str) -> DocumentSpan:
    """Find a complete document before bytes that are not UTF-8."""
    text = data[start : start + sound].decode("utf-8")
    value, size, _ = _first_value(text)
    if not isinstance(value, dict):
        return DocumentSpan(None, problem=problem)
    return _with_rest(data, Span(start, start + len(text[:size].encode())))


def _with_rest(data: bytes, first: Span) -> DocumentSpan:
    behind = data[first.end :].strip(_BLANK)
    again, _, _ = _first_value(behind.decode("utf-8", "replace"))
    return DocumentSpan(first, Span(first.end, len(data)), isinstance(again, dict | list))


def _first_value(text: str) -> tuple[object, int, str]:
    """Return the first JSON value (None for none), the offset after it, and why there is none.

    Numbers are read as 0, so that a large document of vectors creates no floats.
    """
    if not text.startswith(("{", "[")):
        return None, 0, "it does not start with a JSON object or array"
    try:
        value, end = _counting.raw_decode(text)
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", None) or type(error).__name__
        return None, 0, f"{reason.removesuffix(' at')} at character {getattr(error, 'pos', 0) + 1}"
    return value, end, ""


def _number(_text: str) -> int:
    return 0


_counting = json.JSONDecoder(parse_float=_number, parse_int=_number, parse_constant=_number)


def decode(value: bytes) -> Any:
    """Decode a JSON value that `find_document` accepted. Raises ValueError for numbers with too many digits."""
    try:
        return msgspec.json.decode(value)
    except _REFUSED:
        return json.loads(value)
