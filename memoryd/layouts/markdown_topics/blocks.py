"""The plain structure of a topic file: lines, code fences, dated entries.

Only `## YYYY-MM-DD: Title` with a date of the calendar, outside code fences, begins an entry; it ends before the next
such line or at the end of the file, so a `---` and an italic "Stored" line after it are its own. Everything before
the first entry (title, front matter, byte order mark) is no entry. Fences are those of CommonMark: up to three spaces,
three or more backticks or tildes, closed by at least as many of the same kind; an unclosed one runs to the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import cached_property, lru_cache
from typing import NamedTuple

from memoryd.core.policy import DAY

BOM = b"\xef\xbb\xbf"
_ENTRY = re.compile(rb"## (\d{4}-\d{2}-\d{2}): (.+)")
_FENCE = re.compile(rb" {0,3}(`{3,}|~{3,})(.*)", re.DOTALL)
_H1 = re.compile(rb"# +(.+)")
# What any line begins with that is a heading or belongs to a fence: only those few are looked at closely. In an archive
# the line above a heading belongs to it if it names a file.
_HEADING = rb"## (?P<day>\d{4}-\d{2}-\d{2}): (?P<title>[^\n]+)"
_MARK = rb"\n(?:%s%s|(?P<fence> {0,3}(?:```|~~~)[^\n]*))"
_LIVE = re.compile(_MARK % (b"", _HEADING))
_FROM = rb"(?:[ \t\r\f\v]*<!-- from: (?P<source>[^\n]+) -->[ \t\r\f\v]*\n)?"
_SHELVED = re.compile(_MARK % (_FROM, _HEADING))
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


class Quoted(NamedTuple):
    """The lines from offset `start` up to `end` (one behind the last line's own end): front matter or a fence."""

    start: int
    end: int


@dataclass(frozen=True)
class Outline:
    """Of one text. `open_fence` is the offset of a fence that is never closed; `front` the end of the front matter
    (0: none); `undated` are the numbers of the lines that would begin an entry if their date were in the calendar."""

    data: bytes
    sections: tuple[Section, ...]
    open_fence: int | None
    front: int
    quoted: tuple[Quoted, ...]
    undated: tuple[int, ...]

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """All of them: most questions need only some of the few lines that mean something here."""
        return tuple(self.walk())

    def walk(self) -> Iterator[Line]:
        """The same, one by one."""
        ranges = iter(self.quoted)
        quoted = next(ranges, None)
        for number, start, text in _split(self.data):
            while quoted is not None and start >= quoted.end:
                quoted = next(ranges, None)
            yield Line(number, start, text, quoted is not None and start >= quoted.start)


def outline(data: bytes, *, shelved: bool = False) -> Outline:
    """Read the structure of a file. `shelved`: in an archive the line naming the source is no part of an entry."""
    front = _front_matter(data)
    headings, quoted, open_fence = _marked(data, front, shelved=shelved)
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


def heading_of(text: bytes) -> Heading | None:
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
    """Midnight in UTC, since the epoch."""
    return float((day.toordinal() - _EPOCH) * DAY)


def first_title(found: Outline, before: int) -> bytes | None:
    """The first H1 that stands before that offset."""
    for line in found.walk():
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


# Where an entry begins: block, start, day (None: it begins none), title and source; see `Section`.
_Begin = tuple[int, int, date | None, bytes, bytes | None]


def _marked(data: bytes, front: int, *, shelved: bool) -> tuple[list[_Begin], list[Quoted], int | None]:
    """Headings outside of fences, what is quoted, and the offset of a fence that is never closed."""
    begun: list[_Begin] = []
    quoted = [Quoted(0, front)] if front else []
    fence: bytes | None = None
    opened = 0
    skipped = len(BOM) if data.startswith(BOM) else 0
    by = skipped - 1  # the first line is found as any other, behind a line end
    for match in (_SHELVED if shelved else _LIVE).finditer(b"\n" + data[skipped:]):
        day, title, mark = match.group("day", "title", "fence")
        if mark is not None:
            start = match.start("fence") + by
            before, fence = fence, _fence_after(fence, mark) if start >= front else fence
            if before is None and fence is not None:
                opened = start
            elif before is not None and fence is None:
                quoted.append(Quoted(opened, match.end() + by + 1))
            continue
        start, title = match.start("day") - len(b"## ") + by, title.strip()
        if fence is None and title:  # none stands in a front matter, or it would be none
            source = match["source"] if shelved else None
            block = start if source is None else match.start() + 1 + by
            begun.append((block, start, _day(day), title, source))
    if fence is not None:
        quoted.append(Quoted(opened, len(data)))
    return begun, quoted, opened if fence is not None else None


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
