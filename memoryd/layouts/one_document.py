"""A file that is one JSON document: where it begins and ends, and what is wrong with it as a whole.

Shared by the layouts that keep many memories in one JSON file. Large files are checked without being decoded; only
what the strict parser refuses and Python's own accepts (NaN, half surrogates) takes the slow way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from memoryd.core.findings import Finding
from memoryd.core.json_elements import skip_space
from memoryd.core.records import Document
from memoryd.core.text import Span

FRESH_S = 2.0  # a file that does not parse and is younger than this is being written
BOM = b"\xef\xbb\xbf"
_REFUSED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError)
_BLANK = b" \t\r\n\0"
_ASCII = re.compile(rb"[\x00-\x7f]")
_PIECE = 16 * 1024  # bytes


class Whole(NamedTuple):
    """`value` is the span of the document, None where there is none; `rest` are the bytes of an older, longer text
    behind it. `problem` says why nothing can be read."""

    value: Span | None
    rest: Span | None = None
    second: bool = False
    problem: str = ""


def bounds(data: bytes) -> tuple[int, int]:
    """Where the text begins and ends between a byte order mark and the white space around it."""
    start = skip_space(data, len(BOM) if data.startswith(BOM) else 0)
    return start, max(start, len(data.rstrip(b" \t\r\n")))


def look(data: bytes) -> Whole:
    start, end = bounds(data)
    if not data[start:end].strip(_BLANK):
        return Whole(None, problem="the file is empty")
    if _is_strict(data[start:end]):
        return Whole(Span(start, end))
    return _look_again(data, start, end)


def _is_strict(value: bytes) -> bool:
    try:
        msgspec.json.decode(value, type=msgspec.Raw)
    except _REFUSED:
        return False
    return is_utf8(value)  # skipped strings are not checked for their encoding


def is_utf8(data: bytes) -> bool:
    """Asked a piece at a time: most pieces of a document of vectors are plain ASCII, which is told at a glance."""
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


def _look_again(data: bytes, start: int, end: int) -> Whole:
    """With Python's parser, numbers left undecoded; and the first value alone where more bytes follow."""
    try:
        text = data[start:end].decode("utf-8")
    except UnicodeDecodeError as error:
        return _torn(data, start, error.start, f"is not UTF-8 at byte {start + error.start}")
    found, size, reason = _first_value(text)
    if found is None:
        return Whole(None, problem=reason)
    first = Span(start, start + len(text[:size].encode()))
    if size == len(text):
        return Whole(first)
    return _with_rest(data, first)


def _torn(data: bytes, start: int, sound: int, problem: str) -> Whole:
    """What is no text may stand behind a whole document."""
    text = data[start : start + sound].decode("utf-8")
    found, size, _ = _first_value(text)
    if not isinstance(found, dict):
        return Whole(None, problem=problem)
    return _with_rest(data, Span(start, start + len(text[:size].encode())))


def _with_rest(data: bytes, first: Span) -> Whole:
    behind = data[first.end :].strip(_BLANK)
    again, _, _ = _first_value(behind.decode("utf-8", "replace"))
    return Whole(first, Span(first.end, len(data)), isinstance(again, dict | list))


def _first_value(text: str) -> tuple[Any, int, str]:
    """The first JSON value (None for none), the offset after it, and why there is none. Numbers become None's stand-in
    so that a large document of vectors costs no floats."""
    if not text.startswith(("{", "[")):
        return None, 0, "no JSON document begins here"
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
    """One JSON value that `look` found sound, as Python objects; ValueError for numbers without any bound."""
    try:
        return msgspec.json.decode(value)
    except _REFUSED:
        return json.loads(value)


def unread(path: str, whole: Whole, code: str, *, now: float, mtime: float) -> Document:
    """The document of a file that cannot be read: waited for while it is fresh, then reported."""
    if abs(now - mtime) < FRESH_S:
        return Document(path, (), (), 1, 1, pending=True)
    message = f"Invalid JSON: {whole.problem}; `memoryd backup list` shows what can be restored"
    return Document(path, (), (Finding(code, path, message),), 1, 1)


def marks(path: str, data: bytes, whole: Whole) -> list[Finding]:
    """What is odd about the file as a whole although it can be read."""
    found: list[Finding] = []
    if data.startswith(BOM):
        found.append(Finding("byte-order-mark", path, "the file begins with a byte order mark", 1))
    if whole.rest is not None:
        line = data.count(b"\n", 0, whole.rest.start) + 1
        size = whole.rest.end - whole.rest.start
        code = "second-object" if whole.second else "torn-file"
        found.append(Finding(code, path, f"{size} bytes stand behind the document", line))
    return found


def sound(text: str) -> str:
    """The text without half surrogates, which Python's parser lets in and no index takes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def text_of(native: Mapping[str, Any], key: str) -> str:
    """The member where it is a text, else nothing."""
    found = native.get(key)
    return sound(found) if isinstance(found, str) else ""
