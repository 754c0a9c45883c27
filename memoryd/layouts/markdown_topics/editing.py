"""Changing one entry: only the lines of the fields that are named, everything else byte for byte.

A field is a line `**Label:** value` with the lines below it, up to the next such line, a heading, a separator or the
end of the entry; blank lines at its end are not its own. Where two lines carry one label the first is meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from memoryd.core.text import Edit, Span
from memoryd.layouts.markdown_topics.blocks import Line, newline_of, outline
from memoryd.layouts.markdown_topics.writing import LABELS, field_line, label_of

_LABELLED = re.compile(rb"\*\*([^*\n]+?):\*\*")
_BOUNDARY = re.compile(rb"#{1,6}(?:[ \t].*)?|-{3,}|\*{3,}|_{3,}")
_HEADING = re.compile(rb"## (\d{4}-\d{2}-\d{2}):[ \t]+(.*\S)")


class Field(NamedTuple):
    """Offsets in the text of the entry: where its line begins, where its value begins, where its last line ends
    without and with its line end."""

    label: str
    start: int
    value: int
    end: int
    after: int


def heading_edits(entry: bytes, title: str | None, day: date | None) -> Iterator[Edit]:
    """The date and the title of the entry's first line, where they are given."""
    match = _HEADING.match(entry)
    assert match is not None, "an entry begins with its heading"
    if day is not None:
        yield Edit(Span(*match.span(1)), day.isoformat().encode())
    if title is not None:
        yield Edit(Span(*match.span(2)), title.encode())


def field_edits(entry: bytes, texts: Mapping[str, str | None], newline: bytes) -> Iterator[Edit]:
    """Each field set, put in where it is missing (the seed's four in their order, others after them), or taken out
    where it is None."""
    fields, top = fields_of(entry)
    known = {field.label.casefold(): field for field in reversed(fields)}
    for key in sorted(texts, key=_rank):
        label, text = label_of(key), texts[key]
        label = next((each for each in LABELS if each.casefold() == label.casefold()), label)
        field = known.get(label.casefold())
        if text is None:
            yield from [Edit(Span(field.start, field.after), b"")] if field is not None else []
            continue
        line = field_line(label, text).replace("\n", newline.decode()).encode()
        if field is not None:
            yield Edit(Span(field.value, field.end), line.removeprefix(f"**{label}:**".encode()))
        else:
            at = _place(entry, fields, top, label)
            lead = b"" if entry[:at].endswith(b"\n") else newline
            yield Edit(Span(at, at), lead + line + (b"" if lead else newline))


def _rank(key: str) -> int:
    names = [label.casefold() for label in LABELS]
    label = label_of(key).casefold()
    return names.index(label) if label in names else len(names)


def _place(entry: bytes, fields: Sequence[Field], top: int, label: str) -> int:
    """Behind the last field that comes before it; right below the heading where there is none."""
    before = [field.after for field in fields if field.start < top and _rank(field.label) <= _rank(label)]
    first = entry.find(b"\n") + 1
    return max(before, default=first or len(entry))


def fields_of(entry: bytes) -> tuple[list[Field], int]:
    """The fields in order, and where the first part of the entry ends: at a heading, a separator or the end."""
    lines = outline(entry).lines[1:]
    starts = [(line, _label(line)) for line in lines if _label(line) is not None or _is_boundary(line)]
    found: list[Field] = []
    for number, (line, match) in enumerate(starts):
        if match is not None:
            limit = starts[number + 1][0].start if number + 1 < len(starts) else len(entry)
            body = entry[line.start : limit].rstrip()
            end = line.start + max(len(body), match.end())
            after = entry.find(b"\n", end, limit) + 1 or limit
            found.append(
                Field(match[1].decode("utf-8", "replace").strip(), line.start, line.start + match.end(), end, after)
            )
    top = next((line.start for line, match in starts if match is None), len(entry))
    return found, top


def _label(line: Line) -> re.Match[bytes] | None:
    return None if line.quoted else _LABELLED.match(line.text)


def _is_boundary(line: Line) -> bool:
    return not line.quoted and _BOUNDARY.fullmatch(line.text.rstrip()) is not None


def style_of(entry: bytes, data: bytes) -> bytes:
    """The line end of the entry, or of its file where it is a single line."""
    return newline_of(entry if b"\n" in entry else data)
