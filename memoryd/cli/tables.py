"""Tables for a terminal: cells are measured in columns, and what people copy is never broken.

Only columns that are named as text give way: they are wrapped, or cut to one line. A table that still does not fit is
written as blocks of lines, one for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from unicodedata import category, east_asian_width

GAP = "  "
INDENT = "  "
MIN_TEXT = 16  # columns of a text column; with less a table is hard to read
ELLIPSIS = "…"

Style = Callable[[str, str], str]
"""(padded cell, cell) -> the padded cell with its colour."""


def cell_width(text: str) -> int:
    """Return how many columns a terminal uses for the text."""
    return len(text) if text.isascii() else sum(map(_char_width, text))


def _char_width(char: str) -> int:
    if category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(char) in "WF" else 1


def pad(text: str, width: int) -> str:
    """Fill the text with spaces up to this many columns."""
    return text + " " * (width - cell_width(text))


def cut(text: str, width: int) -> str:
    """Return the text on one line of at most this many columns; an ellipsis shows that some is missing."""
    text = " ".join(text.split())
    if cell_width(text) <= width:
        return text
    return _head(text, width - 1).rstrip() + ELLIPSIS


def _head(text: str, width: int) -> str:
    """Return the longest beginning of the text that fits."""
    used = 0
    for at, char in enumerate(text):
        used += _char_width(char)
        if used > width:
            return text[:at]
    return text


def wrap(text: str, width: int) -> list[str]:
    """Return the text in lines of at most this many columns, broken between words. A longer word stays whole: it is a
    path or an id; text without spaces in wide characters is broken anywhere."""
    lines, line = [], ""
    for word in text.split():
        rest = word
        joined = f"{line} {rest}" if line else rest
        if cell_width(joined) <= width:
            line = joined
            continue
        if line:
            lines.append(line)
        while cell_width(rest) > width and not rest.isascii():
            head = _head(rest, width) or rest[0]
            lines.append(head)
            rest = rest[len(head) :]
        line = rest
    return [*lines, line] if line or not lines else lines


def draw(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    wrapped: Sequence[str] = (),
    one_line: Sequence[str] = (),
    style: Style,
) -> Iterator[str]:
    """Yield the lines of a table at most `width` columns wide, as far as unbroken cells allow. Columns in `wrapped` and
    `one_line` give way."""
    columns = list(zip(headers, *rows, strict=True))
    widths = [max(map(cell_width, column)) for column in columns]
    text = [at for at, header in enumerate(headers) if header in (*wrapped, *one_line)]
    free = width - sum(each for at, each in enumerate(widths) if at not in text) - len(GAP) * (len(headers) - 1)
    if text and sum(widths[at] for at in text) > free:
        for at in text:
            widths[at] = min(widths[at], free // len(text))
        needed = [max(_longest_word(columns[at]) if headers[at] in wrapped else 0, MIN_TEXT) for at in text]
        too_narrow = any(widths[at] < min(need, _whole(columns[at])) for at, need in zip(text, needed, strict=True))
    else:
        too_narrow = sum(widths) + len(GAP) * (len(headers) - 1) > width
    if too_narrow:
        yield from _blocks(headers, rows, width, (*wrapped, *one_line), style)
        return
    yield style(GAP.join(map(pad, headers, widths)).rstrip(), "header")
    yield style(GAP.join("─" * each for each in widths), "rule")
    for row in rows:
        cells = [
            wrap(cell, each) if header in wrapped else [cut(cell, each) if header in one_line else cell]
            for header, cell, each in zip(headers, row, widths, strict=True)
        ]
        for number in range(max(map(len, cells))):
            parts = [lines[number] if number < len(lines) else "" for lines in cells]
            yield GAP.join(
                style(pad(part, each), cell) for part, each, cell in zip(parts, widths, row, strict=True)
            ).rstrip()


def _longest_word(cells: Sequence[str]) -> int:
    return max((cell_width(word) for cell in cells for word in cell.split() if word.isascii()), default=0)


def _whole(cells: Sequence[str]) -> int:
    return max(map(cell_width, cells))


def _blocks(
    headers: Sequence[str], rows: Sequence[Sequence[str]], width: int, text: Sequence[str], style: Style
) -> Iterator[str]:
    """Yield each row as a block: the cells to copy first, then its texts, wrapped and indented."""
    for row in rows:
        solid = [
            cell for header, cell in zip(headers, row, strict=True) if header not in text and cell not in ("", "-")
        ]
        line, used = "", 0
        for cell in solid:
            size = cell_width(cell)
            if used and used + len(GAP) + size > width:
                yield line
                line, used = INDENT, len(INDENT) - len(GAP)
            gap = GAP if used > 0 else ""
            line, used = line + gap + style(cell, cell), used + len(gap) + size
        yield line
        for header, cell in zip(headers, row, strict=True):
            if header in text and cell not in ("", "-"):
                for part in wrap(cell, width - len(INDENT)):
                    yield INDENT + part
