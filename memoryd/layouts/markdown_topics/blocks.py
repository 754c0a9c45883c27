"""The plain structure of a topic file: lines, code fences, dated entries.

Only `## YYYY-MM-DD: Title` with a date of the calendar, outside code fences, begins an entry; it ends before the next
such line or at the end of the file, so a `---` and an italic "Stored" line after it are its own. Everything before
the first entry (title, front matter, byte order mark) is no entry. Fences are those of CommonMark: up to three spaces,
three or more backticks or tildes, closed by at least as many of the same kind; an unclosed one runs to the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from memoryd.core.policy import DAY

BOM = b"\xef\xbb\xbf"
_ENTRY = re.compile(rb"## (\d{4}-\d{2}-\d{2}): (.+)")
_FROM = re.compile(rb"<!-- from: (.+) -->")
_FENCE = re.compile(rb" {0,3}(`{3,}|~{3,})(.*)", re.DOTALL)
_H1 = re.compile(rb"# +(.+)")
_EPOCH = date(1970, 1, 1).toordinal()


class Line(NamedTuple):
    """One line without its end, from offset `start`. `quoted`: in a code fence or front matter, where nothing is a
    heading; the lines of the fence itself are quoted too."""

    number: int
    start: int
    text: bytes
    quoted: bool


class Heading(NamedTuple):
    """`day` is None where the date is none of the calendar: then it begins nothing."""

    day: date | None
    title: bytes


class Section(NamedTuple):
    """One dated entry. `source` is the file named by a `<!-- from: x.md -->` line directly above, which begins the
    block at `block` (equal to `start` where there is none)."""

    block: int
    start: int
    end: int
    line: int
    day: date
    title: bytes
    source: bytes | None


@dataclass(frozen=True, slots=True)
class Outline:
    """`open_fence` is the offset of a fence that is never closed; `front` the end of the front matter (0: none)."""

    lines: tuple[Line, ...]
    sections: tuple[Section, ...]
    open_fence: int | None
    front: int


def outline(data: bytes, *, shelved: bool = False) -> Outline:
    """Read the structure of a file. `shelved`: in an archive the line naming the source is no part of an entry."""
    front = _front_matter(data)
    lines, open_fence = _read_lines(data, front)
    return Outline(lines, tuple(_sections(data, lines, shelved=shelved)), open_fence, front)


def heading_of(text: bytes) -> Heading | None:
    match = _ENTRY.fullmatch(text.rstrip())
    if match is None:
        return None
    try:
        return Heading(date.fromisoformat(match[1].decode("ascii")), match[2].strip())
    except ValueError:
        return Heading(None, match[2].strip())


def seconds_of(day: date) -> float:
    """Midnight in UTC, since the epoch."""
    return float((day.toordinal() - _EPOCH) * DAY)


def first_title(lines: Sequence[Line], before: int) -> bytes | None:
    """The first H1 that stands before that offset."""
    for line in lines:
        if line.start >= before:
            return None
        match = None if line.quoted else _H1.fullmatch(line.text.rstrip())
        if match is not None:
            return match[1]
    return None


def newline_of(data: bytes) -> bytes:
    """The line end of the file, by its first line."""
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
    """Where the YAML between two `---` at the very beginning ends, with its closing line; 0 where there is none.

    A dated heading before the closing line means that the first one was a mere separator."""
    for number, start, text in _split(data):
        line = text.rstrip()
        if number == 1:
            if line != b"---":
                return 0
        elif line in (b"---", b"..."):
            return min(start + len(text) + 1, len(data))
        elif heading_of(line) is not None:
            return 0
    return 0


def _read_lines(data: bytes, front: int) -> tuple[tuple[Line, ...], int | None]:
    lines: list[Line] = []
    fence: bytes | None = None
    opened: int | None = None
    for number, start, text in _split(data):
        if start < front:
            lines.append(Line(number, start, text, True))
            continue
        before = fence
        fence = _fence_after(fence, text)
        if before is None and fence is not None:
            opened = start
        lines.append(Line(number, start, text, before is not None or fence is not None))
    return tuple(lines), opened if fence is not None else None


def _fence_after(fence: bytes | None, text: bytes) -> bytes | None:
    """The fence that is open after this line, given the one open before it."""
    match = _FENCE.fullmatch(text)
    if match is None:
        return fence
    mark, rest = match[1], match[2]
    if fence is None:
        return None if mark.startswith(b"`") and b"`" in rest else mark
    closes = mark.startswith(fence) and not rest.strip()
    return None if closes else fence


def _sections(data: bytes, lines: Sequence[Line], *, shelved: bool) -> Iterator[Section]:
    starts: list[tuple[int, Line, date, bytes, bytes | None]] = []
    above: Line | None = None
    for line in lines:
        heading = None if line.quoted else heading_of(line.text)
        if heading is not None and heading.day is not None:
            source = _source(above) if shelved else None
            block = above.start if above is not None and source is not None else line.start
            starts.append((block, line, heading.day, heading.title, source))
        above = line
    ends = [block for block, *_ in starts] + [len(data)]
    for (block, line, day, title, source), end in zip(starts, ends[1:], strict=True):
        yield Section(block, line.start, end, line.number, day, title, source)


def _source(above: Line | None) -> bytes | None:
    match = None if above is None or above.quoted else _FROM.fullmatch(above.text.strip())
    return match[1] if match is not None else None
