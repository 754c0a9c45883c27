"""The structure of a topic file: lines, code fences, dated entries.

Only `## YYYY-MM-DD: Title` with a valid date, outside code fences, begins an entry. It ends before the next such line
or at the end of the file, so a `---` and an italic "Stored" line after it belong to it. Everything before the first
entry (title, front matter, byte order mark) is not part of an entry. Fences follow CommonMark: up to three spaces,
three or more backticks or tildes, closed by at least as many of the same kind; an unclosed one runs to the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from functools import cached_property, lru_cache
from typing import NamedTuple

from msgspec import Struct

from memoryd.core.defaults import DAY
from memoryd.core.spans import BOM

_ENTRY = re.compile(rb"## (\d{4}-\d{2}-\d{2}): (.+)")
_FENCE = re.compile(rb" {0,3}(`{3,}|~{3,})(.*)", re.DOTALL)
_H1 = re.compile(rb"# +(.+)")
# The beginnings of heading and fence lines; other lines are skipped quickly. In an archive, a line that names a file
# belongs to the heading below it.
_HEADING = rb"## (?P<day>\d{4}-\d{2}-\d{2}): (?P<title>[^\n]+)"
_MARK = rb"\n(?:%s%s|(?P<fence> {0,3}(?:```|~~~)[^\n]*))"
_LIVE = re.compile(_MARK % (b"", _HEADING))
_FROM = rb"(?:[ \t\r\f\v]*<!-- from: (?P<source>[^\n]+) -->[ \t\r\f\v]*\n)?"
_ARCHIVED = re.compile(_MARK % (_FROM, _HEADING))
_EPOCH = date(1970, 1, 1).toordinal()


class Line(NamedTuple):
    """One line without its line break, from offset `start`. `quoted` lines are in front matter or a code fence, fence
    lines included: nothing in them is a heading."""

    number: int
    start: int
    text: bytes
    quoted: bool


class Heading(NamedTuple):
    """A dated heading. `day` is None where the date does not exist; such a heading begins no entry."""

    day: date | None
    title: bytes


class Section(NamedTuple):
    """One dated entry. `source` is the file named by a `<!-- from: x.md -->` line directly above it; `block` is where
    that line begins, or `start` without one."""

    block: int
    start: int
    end: int
    line: int
    day: date
    title: bytes
    source: bytes | None


class Quoted(NamedTuple):
    """Front matter or a code fence: the lines from offset `start` up to `end`, after the last line break."""

    start: int
    end: int


class Outline(Struct, frozen=True, dict=True):
    """The structure of one text. `open_fence` is the offset of a fence that is never closed, `front` the end of the
    front matter (0: none), `undated` the numbers of the heading lines with a date that does not exist."""

    data: bytes
    sections: tuple[Section, ...]
    open_fence: int | None
    front: int
    quoted: tuple[Quoted, ...]
    undated: tuple[int, ...]

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """All lines. Most callers need only the structure, so lines are split on first use."""
        return tuple(self.walk())

    def walk(self) -> Iterator[Line]:
        """Yield the lines one by one."""
        ranges = iter(self.quoted)
        quoted = next(ranges, None)
        for number, start, text in _split(self.data):
            while quoted is not None and start >= quoted.end:
                quoted = next(ranges, None)
            yield Line(number, start, text, quoted is not None and start >= quoted.start)


def outline(data: bytes, *, archived: bool = False) -> Outline:
    """Parse the structure of a file. In an archive (`archived`) the line that names the source is not part of the
    entry."""
    front = _front_matter(data)
    headings, quoted, open_fence = _scan(data, front, archived=archived)
    undated: list[int] = []
    sections: list[Section] = []
    number, at = 1, 0
    ends = [block for block, _, day, *_ in headings if day is not None][1:]
    ends.append(len(data))
    for block, start, day, title, source in headings:
        number += data.count(b"\n", at, start)
        at = start
        if day is None:
            undated.append(number)
        else:
            sections.append(Section(block, start, ends[len(sections)], number, day, title, source))
    return Outline(data, tuple(sections), open_fence, front, tuple(quoted), tuple(undated))


def parse_heading(text: bytes) -> Heading | None:
    """Parse a line as a dated heading; returns None for any other line."""
    match = _ENTRY.fullmatch(text.rstrip())
    if match is None:
        return None
    return Heading(_day(match[1]), match[2].strip())


@lru_cache(maxsize=128)
def _day(text: bytes) -> date | None:
    try:
        return date.fromisoformat(text.decode("ascii"))
    except ValueError:
        return None


def seconds_of(day: date) -> float:
    """Return midnight UTC of `day`, in seconds since the epoch."""
    return float((day.toordinal() - _EPOCH) * DAY)


def first_title(structure: Outline, before: int) -> bytes | None:
    """Return the first H1 before the offset `before`, or None."""
    for line in structure.walk():
        if line.start >= before:
            return None
        match = None if line.quoted else _H1.fullmatch(line.text.rstrip())
        if match is not None:
            return match[1]
    return None


def newline_of(data: bytes) -> bytes:
    """Return the line break that ends the first line of the file."""
    first = data.find(b"\n")
    return b"\r\n" if first > 0 and data[first - 1 : first] == b"\r" else b"\n"


def _split(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    start = len(BOM) if data.startswith(BOM) else 0
    number = 1
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        yield number, start, data[start:end]
        start, number = end + 1, number + 1


def _front_matter(data: bytes) -> int:
    """Return the end of the YAML between two `---` lines at the very beginning, closing line included; 0 without one.

    A dated heading before the closing line shows that the first `---` is only a separator.
    """
    for number, start, text in _split(data):
        line = text.rstrip()
        if number == 1:
            if line != b"---":
                return 0
        elif line in (b"---", b"..."):
            return min(start + len(text) + 1, len(data))
        elif parse_heading(line) is not None:
            return 0
    return 0


# The beginning of an entry: block, start, day (None: invalid date), title, source; see `Section`.
_EntryStart = tuple[int, int, date | None, bytes, bytes | None]


def _scan(data: bytes, front: int, *, archived: bool) -> tuple[list[_EntryStart], list[Quoted], int | None]:
    """Return the headings outside fences, the quoted ranges, and the offset of a fence that is never closed."""
    starts: list[_EntryStart] = []
    quoted = [Quoted(0, front)] if front else []
    fence: bytes | None = None
    fence_start = 0
    bom_size = len(BOM) if data.startswith(BOM) else 0
    shift = bom_size - 1  # a line break is prepended so that the first line matches like any other
    for match in (_ARCHIVED if archived else _LIVE).finditer(b"\n" + data[bom_size:]):
        day, title, mark = match.group("day", "title", "fence")
        if mark is not None:
            start = match.start("fence") + shift
            before, fence = fence, _fence_after(fence, mark) if start >= front else fence
            if before is None and fence is not None:
                fence_start = start
            elif before is not None and fence is None:
                quoted.append(Quoted(fence_start, match.end() + shift + 1))
            continue
        start, title = match.start("day") - len(b"## ") + shift, title.strip()
        if fence is None and title:  # front matter never contains a dated heading
            source = match["source"] if archived else None
            block = start if source is None else match.start() + 1 + shift
            starts.append((block, start, _day(day), title, source))
    if fence is not None:
        quoted.append(Quoted(fence_start, len(data)))
    return starts, quoted, fence_start if fence is not None else None


def _fence_after(fence: bytes | None, text: bytes) -> bytes | None:
    """Return the fence that is open after this line, given the one open before it."""
    match = _FENCE.fullmatch(text)
    if match is None:
        return fence
    mark, rest = match[1], match[2]
    if fence is None:
        return None if mark.startswith(b"`") and b"`" in rest else mark
    is_closed = mark.startswith(fence) and not rest.strip()
    return None if is_closed else fence
