"""A reference parser of topic files that checks every line in turn. The layout's parser, which checks only a few lines,
is compared with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from memoryd.core.findings import Finding
from memoryd.core.spans import BOM
from memoryd.layouts.markdown_topics.lint import glued_heading_at
from memoryd.layouts.markdown_topics.outline import Line, Section, parse_heading

_FENCE = re.compile(rb" {0,3}(`{3,}|~{3,})(.*)", re.DOTALL)
_FROM = re.compile(rb"<!-- from: (.+) -->")
_LABEL = re.compile(rb"\*\*([A-Za-z]+):\*\*")


class Plain(NamedTuple):
    lines: tuple[Line, ...]
    sections: tuple[Section, ...]
    open_fence: int | None
    front: int
    undated: tuple[int, ...]


def plain_outline(data: bytes, *, archived: bool) -> Plain:
    front = _front(data)
    lines, open_fence = _lines(data, front)
    headings = [(line, parse_heading(line.text)) for line in lines if not line.quoted]
    undated = tuple(line.number for line, heading in headings if heading is not None and heading.day is None)
    return Plain(lines, tuple(_sections(data, lines, archived=archived)), open_fence, front, undated)


def _split(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    start = len(BOM) if data.startswith(BOM) else 0
    for number, text in enumerate(data[start:].split(b"\n"), 1):
        if start < len(data):
            yield number, start, text
        start += len(text) + 1


def _front(data: bytes) -> int:
    for number, start, text in _split(data):
        line = text.rstrip()
        if number == 1 and line != b"---":
            return 0
        if number > 1 and line in (b"---", b"..."):
            return min(start + len(text) + 1, len(data))
        if parse_heading(line) is not None:
            return 0
    return 0


def _lines(data: bytes, front: int) -> tuple[tuple[Line, ...], int | None]:
    lines: list[Line] = []
    fence: bytes | None = None
    opened: int | None = None
    for number, start, text in _split(data):
        before = fence
        if start >= front:
            fence = _fence_after(fence, text)
        if before is None and fence is not None:
            opened = start
        lines.append(Line(number, start, text, start < front or before is not None or fence is not None))
    return tuple(lines), opened if fence is not None else None


def _fence_after(fence: bytes | None, text: bytes) -> bytes | None:
    match = _FENCE.fullmatch(text)
    if match is None:
        return fence
    mark, rest = match[1], match[2]
    if fence is None:
        return None if mark.startswith(b"`") and b"`" in rest else mark
    return None if mark.startswith(fence) and not rest.strip() else fence


def _sections(data: bytes, lines: tuple[Line, ...], *, archived: bool) -> Iterator[Section]:
    begun: list[Section] = []
    for above, line in zip((None, *lines), lines, strict=False):
        heading = None if line.quoted else parse_heading(line.text)
        if heading is not None and heading.day is not None:
            named = archived and above is not None and not above.quoted and _FROM.fullmatch(above.text.strip())
            block, source = (above.start, named[1]) if named and above is not None else (line.start, None)
            begun.append(Section(block, line.start, 0, line.number, heading.day, heading.title, source))
    ends = [*(each.block for each in begun[1:]), len(data)]
    return (each._replace(end=end) for each, end in zip(begun, ends, strict=False))


def plain_findings(path: str, found: Plain) -> Iterator[Finding]:
    """Findings about single lines, and about the labels of entries."""
    for line in found.lines:
        if line.number in found.undated:
            yield Finding(
                "invalid-date", path, "the date does not exist, so the line does not begin an entry", line.number
            )
        elif glued_heading_at(line) is not None:
            yield Finding(
                "glued-heading", path, "an entry is glued to the line before it, so it is not read", line.number
            )
    for section in found.sections:
        lines = [each for each in found.lines if section.start <= each.start < section.end and not each.quoted]
        named = {label.decode() for each in lines for label in _LABEL.findall(each.text)}
        missing = [label for label in ("Context", "Problem", "Solution") if label not in named]
        if missing:
            listed = missing[0] if len(missing) == 1 else f"{', '.join(missing[:-1])} and {missing[-1]}"
            yield Finding("missing-labels", path, f"the entry lacks {listed}", section.line)
