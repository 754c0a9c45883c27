"""Sections of the reference, rendered as text for a terminal or as a man page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

WIDTH = 80  # columns
_SHORT = 14  # columns of the longest term that shares a line with its text


class Entry(NamedTuple):
    """A term of a table and its meaning."""

    term: str
    text: str


class Section(NamedTuple):
    """A heading, paragraphs separated by blank lines, then entries, then `code` that is printed verbatim."""

    title: str
    text: str = ""
    entries: tuple[Entry, ...] = ()
    code: str = ""


def as_text(sections: Iterable[Section], width: int = WIDTH) -> str:
    """Return the sections as plain text, wrapped at `width` columns."""
    return "\n".join("".join(f"{line}\n" for line in _section_lines(each, width)) for each in sections)


def _section_lines(section: Section, width: int) -> Iterator[str]:
    yield section.title
    first = True
    for paragraph in _paragraphs(section.text):
        yield from [] if first else [""]
        yield from textwrap.wrap(paragraph, width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
        first = False
    if section.text and section.entries:
        yield ""
    yield from _entry_lines(section.entries, width)
    if section.code:
        yield from ["", *(f"  {line}".rstrip() for line in section.code.strip("\n").splitlines())]


def _entry_lines(entries: Sequence[Entry], width: int) -> Iterator[str]:
    """Yield two columns if all terms are short, else each term above its text."""
    longest = max((len(each.term) for each in entries), default=0)
    for entry in entries:
        indent = " " * (4 + longest if longest <= _SHORT else 6)
        head = f"  {entry.term}" if longest > _SHORT else ""
        if head:
            yield from textwrap.wrap(head, width, subsequent_indent=" " * 8, break_on_hyphens=False)
        first = indent if head else f"  {entry.term:<{longest}}  "
        for paragraph in _paragraphs(entry.text):
            yield from textwrap.wrap(
                paragraph, width, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False
            )
            first = indent


def as_man_page(sections: Sequence[Section], *, version: str, summary: str) -> str:
    """Return a man page (roff, section 1) of memoryd with these sections."""
    lines = [
        f'.TH MEMORYD 1 "" "memoryd {version}" "memoryd"',
        ".SH NAME",
        f"memoryd \\- {_roff(summary)}",
    ]
    for section in sections:
        lines.append(f'.SH "{_roff(section.title.upper())}"')
        for paragraph in _paragraphs(section.text):
            lines += [".PP", _roff(paragraph)]
        for entry in section.entries:
            lines += [".TP", f".B {_roff(entry.term)}", *(_roff(each) for each in _paragraphs(entry.text))]
        if section.code:
            lines += [".PP", ".nf", *(_roff(line) for line in section.code.strip("\n").splitlines()), ".fi"]
    return "".join(f"{line}\n" for line in lines)


def _paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text, each on one line."""
    return [" ".join(each.split()) for each in text.split("\n\n") if each.strip()]


def _roff(text: str) -> str:
    """Return the text with the special characters of roff escaped."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return "\\&" + text if text.startswith(".") else text
