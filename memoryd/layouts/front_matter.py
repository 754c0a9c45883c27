"""The front matter of a markdown file: the block between two `---` lines at its top, read as scalars and flat lists.

A small part of YAML covers what note programs write: `key: value`, `key: [a, b]`, and `key:` with `- item` lines below.
Deeper or invalid values are skipped; nothing raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from memoryd.core.spans import BOM

Value = str | list[str]

MAX_BYTES = 64 * 1024  # of front matter; a longer block is the text of a note that begins with a rule
_BLOCK = re.compile(rb"\A---[ \t]*\r?\n(?P<fields>.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_ITEM = re.compile(r"\s*-\s(?P<value>.*)")
_NO_KEY = tuple(" \t#-'\"[{")  # first characters of lines that are not top-level fields
_IN_LIST = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^,]*)\s*(?:,|$)""")
_QUOTED = re.compile(r"""(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^']|'')*)')\s*(?:#.*)?""")
_COMMENT = re.compile(r"(?:\A|\s)#.*")


class FrontMatter(NamedTuple):
    """The fields by lower-case key, and `end`, the byte offset of the text after the block."""

    fields: Mapping[str, Value]
    end: int

    def text(self, *keys: str) -> str:
        """Return the first non-empty scalar of these keys, else ""."""
        values = (self.fields.get(key) for key in keys)
        return next((value for value in values if isinstance(value, str) and value), "")

    def list(self, key: str) -> list[str]:
        """Return the items of a list; a scalar is split at its commas."""
        value = self.fields.get(key, [])
        items = value.split(",") if isinstance(value, str) else value
        return [each.strip() for each in items if each.strip()]


def read(data: bytes) -> FrontMatter:
    """Return the fields at the top of a file; none if there is no front matter or it is not closed."""
    start = len(BOM) if data.startswith(BOM) else 0
    block = _BLOCK.match(data[start : start + MAX_BYTES])
    if block is None:
        return FrontMatter({}, start)
    return FrontMatter(_fields(block["fields"].decode("utf-8", "replace")), start + block.end())


def _fields(text: str) -> dict[str, Value]:
    """Return the fields of the block; the first of equal keys wins."""
    fields: dict[str, Value] = {}
    items: list[str] | None = None  # the list of the key above, which had no value on its line
    for line in text.splitlines():
        item = _ITEM.match(line)
        key, colon, value = line.partition(":")
        if item is not None and items is not None:
            items.append(_scalar(item["value"]))
        elif colon and not line.startswith(_NO_KEY) and value[:1] in ("", " ", "\t"):
            items = [] if not _COMMENT.sub("", value).strip() else None
            fields.setdefault(key.strip().lower(), items if items is not None else _value(value.strip()))
        elif line.strip() and not line.lstrip().startswith("#"):
            items = None
    return fields


def _value(text: str) -> Value:
    if text.startswith("[") and _COMMENT.sub("", text).rstrip().endswith("]"):
        return list(_items(_COMMENT.sub("", text).strip()[1:-1]))
    return _scalar(text)


def _items(text: str) -> Iterator[str]:
    at = 0
    while at < len(text) and (match := _IN_LIST.match(text, at)) is not None and match.end() > at:
        yield _scalar(match[1])
        at = match.end()


def _scalar(text: str) -> str:
    """Return a scalar without its quotes, or without its trailing comment."""
    text = text.strip()
    quoted = _QUOTED.fullmatch(text)
    if quoted is not None and quoted["double"] is not None:
        return re.sub(r"\\(.)", r"\1", quoted["double"])
    if quoted is not None:
        return quoted["single"].replace("''", "'")
    return _COMMENT.sub("", text).strip()
