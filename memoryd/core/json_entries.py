"""Add and remove one entry of a JSON document that belongs to another program, and keep every other byte.

Comments and trailing commas, as in the settings of editors, are allowed: `without_comments` replaces them by spaces, so
that the offsets of the strict JSON that remains are those of the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from memoryd.core.json_spans import elements, last_member, members, skip_space, text_bounds, value_end
from memoryd.core.spans import BOM, Edit, Span

FIRST = 0  # as a key: an element of a list, which is added at its front
Keys = Sequence[str | int]
"""The place of an entry: names of members, and `FIRST` as the last one for an element of a list."""

# Whatever is not terminated is skipped up to its end, so that a damaged file takes no longer than a valid one.
_STRING = rb'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?'
_COMMENT = re.compile(_STRING + rb"|(?P<comment>//[^\r\n]*|/\*.*?\*/)|/\*.*", re.DOTALL)
_TRAILING = re.compile(_STRING + rb"|(?P<comma>,)(?=[ \t\r\n]*[}\]])", re.DOTALL)
_VISIBLE = re.compile(rb"[^\r\n]")
_REST = re.compile(rb"(?:[ \t]*(?>/\*[^\r\n]*?\*/|//[^\r\n]*))+(?=[ \t]*\r?\n)")  # comments up to the end of the line
_INDENT = re.compile(rb"[ \t]*")
_DEFAULT_INDENT = "  "


class _Step(NamedTuple):
    """A container on the way to an entry, the spans of what is in it, and the place of what leads to the entry."""

    at: int
    items: list[Span]
    place: int | None


def without_comments(data: bytes) -> bytes:
    """Return the text with spaces in place of comments; line breaks stay."""
    return _COMMENT.sub(lambda found: _VISIBLE.sub(b" ", found[0]) if found["comment"] else found[0], data)


def strict(data: bytes) -> bytes:
    """Return the text with spaces in place of comments and trailing commas."""
    return _TRAILING.sub(lambda found: b" " if found["comma"] else found[0], without_comments(data))


def trailing_commas(data: bytes) -> int:
    """Count the trailing commas, which strict JSON does not allow."""
    return sum(found["comma"] is not None for found in _TRAILING.finditer(without_comments(data)))


def nested(keys: Keys, value: object) -> object:
    """Return the value in the objects and lists that the keys name."""
    for key in reversed(keys):
        value = [value] if key == FIRST else {key: value}
    return value


def with_entry(tree: object, keys: Keys, value: object) -> object:
    """Return a decoded document with the entry added. Raises TypeError for a container of another type."""
    if not keys:
        return value
    if keys[0] == FIRST:
        if not isinstance(tree, list):
            raise TypeError("what should be the list for the entry is not a list")
        return [value, *tree]
    if not isinstance(tree, dict):
        raise TypeError(f"what should hold {keys[0]!r} is not an object")
    below = tree.get(keys[0])
    return {**tree, keys[0]: nested(keys[1:], value) if keys[0] not in tree else with_entry(below, keys[1:], value)}


def without_entry(tree: object, keys: Keys, value: object) -> object:
    """Return a decoded document without the entry; its containers stay."""
    if isinstance(tree, list):
        at = tree.index(value)
        return [*tree[:at], *tree[at + 1 :]]
    if not isinstance(tree, dict):
        return tree
    if len(keys) == 1:
        return {key: each for key, each in tree.items() if key != keys[0]}
    return {**tree, keys[0]: without_entry(tree[keys[0]], keys[1:], value)}


def insertion(data: bytes, keys: Keys, value: object) -> tuple[Edit, int]:
    """Return the edit that adds an entry in front of what is in its container, and how many containers there were.

    The text is valid but for comments and trailing commas, and the containers have the right types. The newlines and
    the indentation are those of the text.
    """
    mask = strict(data)
    start, end = text_bounds(mask)
    newline = b"\r\n" if b"\r\n" in data else b"\n"
    if start == end:  # nothing, or comments only
        broken = newline if data.removeprefix(BOM) and not data.endswith(b"\n") else b""
        text = _pretty(nested(keys, value), _DEFAULT_INDENT, newline)
        return Edit(Span(len(data), len(data)), broken + text + newline), 0
    path = _path(mask, start, keys, value)
    at, depth = path[-1].at, len(path)
    key = keys[depth - 1]
    name = b"" if key == FIRST else json.dumps(key).encode() + b": "
    edit = _compact if b"\n" not in data[start:end] and mask[skip_space(mask, start + 1)] != 0x7D else _indented
    return edit(data, mask, at, name, nested(keys[depth:], value)), depth


def _compact(_: bytes, mask: bytes, at: int, name: bytes, value: object) -> Edit:
    follows = mask[skip_space(mask, at + 1)] not in b"}]"
    text = name + json.dumps(value, ensure_ascii=False).encode() + (b", " if follows else b"")
    return Edit(Span(at + 1, at + 1), text)


def _indented(data: bytes, mask: bytes, at: int, name: bytes, value: object) -> Edit:
    newline = b"\r\n" if b"\r\n" in data else b"\n"
    first = skip_space(mask, at + 1)
    follows = mask[first] not in b"}]"
    outer = _indent_of_line(data, at)
    unit = _unit(data, mask)
    inner = _indent_of_line(data, first) if follows and b"\n" in data[at:first] else outer + unit.encode()
    rest = _REST.match(data, at + 1)
    place = rest.end() if rest else at + 1
    text = newline + inner + name + _pretty(value, unit, newline + inner) + (b"," if follows else b"")
    if b"\n" not in data[place:first]:
        text += newline + (inner if follows else outer)
    return Edit(Span(place, place), text)


def _pretty(value: object, indent: str, newline: bytes) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=indent).encode().replace(b"\n", newline)


def _indent_of_line(data: bytes, at: int) -> bytes:
    found = _INDENT.match(data, data.rfind(b"\n", 0, at) + 1)
    return found[0] if found else b""


def _unit(data: bytes, mask: bytes) -> str:
    """Return the indentation of one level: that of the first member of the document, or two spaces."""
    start, _ = text_bounds(mask)
    first = skip_space(mask, start + 1)
    if mask[first : first + 1] == b"}" or b"\n" not in data[start:first]:
        return _DEFAULT_INDENT
    return _indent_of_line(data, first).decode()


def _path(mask: bytes, start: int, keys: Keys, value: object) -> list[_Step]:
    """Return the containers that exist on the way to an entry; only the last one may lack what leads to it."""
    path: list[_Step] = []
    at: int | None = start
    for key in keys:
        if at is None:
            break
        end = value_end(mask, at)
        if key == FIRST:
            items = elements(mask, Span(at, end))
            equal = (place for place, each in enumerate(items) if json.loads(each.of(mask)) == value)
            path.append(_Step(at, items, next(equal, None)))
            break
        inside = members(mask, at, end)
        found = last_member(inside, str(key))
        spans = [Span(each.start, each.value.end) for each in inside]
        path.append(_Step(at, spans, inside.index(found) if found else None))
        at = found.value.start if found else None
    return path


def removal(data: bytes, keys: Keys, value: object, depth: int) -> list[Edit]:
    """Return the edits that remove an entry which is there, with the comma and the line that become empty.

    `depth`: how many of its containers existed before it; of the others, those that hold nothing else are removed.
    """
    plain, mask = without_comments(data), strict(data)
    path = _path(mask, text_bounds(mask)[0], keys, value)
    while len(path) > max(depth, 1) and len(path[-1].items) == 1:
        at = path[-1].at
        if data[at : value_end(mask, at)] != plain[at : value_end(mask, at)]:
            break  # it has a comment
        path.pop()
    _, items, index = path[-1]
    assert index is not None
    gone = items[index]
    after = skip_space(plain, gone.end)
    if plain[after : after + 1] == b",":
        if after == gone.end:
            return [Edit(_whole_line(data, Span(gone.start, after + 1)), b"")]
        return [Edit(_whole_line(data, gone), b""), Edit(Span(after, after + 1), b"")]
    if not index:
        return [Edit(_whole_line(data, gone), b"")]
    comma = plain.rindex(b",", items[index - 1].end, gone.start)
    if not data[comma + 1 : gone.start].strip():
        return [Edit(Span(comma, gone.end), b"")]
    return [Edit(_whole_line(data, gone), b""), Edit(Span(comma, comma + 1), b"")]


def _whole_line(data: bytes, gone: Span) -> Span:
    """Return the span with the rest of its lines if that is blank, else with the spaces after it."""
    begin = data.rfind(b"\n", 0, gone.start) + 1
    blank = _INDENT.match(data, gone.end)
    end = blank.end() if blank else gone.end
    line = 2 if data.startswith(b"\r\n", end) else 1 if data.startswith(b"\n", end) else 0
    if line and not data[begin : gone.start].strip(b" \t") and begin:
        return Span(begin, end + line)
    return Span(gone.start, end if not line else gone.end)
