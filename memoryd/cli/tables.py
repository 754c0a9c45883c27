"""Tables for a terminal: cells are measured in columns, and what people copy is never broken.

Only columns that are named as text give way: they are wrapped, or cut to one line. A table that still does not fit is
written without its spare columns, or as blocks of lines, one for each row. `rich.table` costs 24 ms to load, a third of
`memoryd status`, and breaks ids; `rich.cells` measures what is not ASCII, and is loaded with the first such text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

GAP = "  "
INDENT = "  "
MIN_TEXT = 16  # columns of a text column; with less a table is hard to read
ELLIPSIS = "…"
_NUMBER = re.compile(r"-|[\d.]+( [KMG]?B)?")

Style = Callable[[str, str], str]
"""(padded cell, cell) -> the padded cell with its colour."""


def cell_width(text: str) -> int:
    """Return how many columns a terminal uses for the text."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - 5 ms, which ASCII does not need

    return cell_len(text)


def pad(text: str, width: int, right: bool) -> str:
    """Fill the text with spaces up to this many columns; with `right`, align it to the right."""
    spaces = " " * (width - cell_width(text))
    return spaces + text if right else text + spaces


def cut(text: str, width: int) -> str:
    """Return the text on one line of at most this many columns; an ellipsis shows that some is missing."""
    text = " ".join(text.split())
    if cell_width(text) <= width:
        return text
    return (text[: width - 1] if text.isascii() else _chop(text[:width], width - 1)[0]).rstrip() + ELLIPSIS


def _chop(text: str, width: int) -> list[str]:
    """Divide the text into pieces of at most this many columns."""
    from rich.cells import chop_cells  # noqa: PLC0415 - as above

    return chop_cells(text, width)


def wrap(text: str | Sequence[str], width: int) -> list[str]:
    """Return the text in lines of at most this many columns, broken between words, or between the parts given. A longer
    word stays whole: it is a path or an id; text without spaces in wide characters is broken anywhere."""
    lines, line = [], ""
    for word in text.split() if isinstance(text, str) else text:
        joined = f"{line} {word}" if line else word
        if cell_width(joined) <= width:
            line = joined
            continue
        if line:
            lines.append(line)
        *whole, line = [word] if word.isascii() else _chop(word, width)
        lines += whole
    return [*lines, line]


def draw(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    wrapped: Sequence[str] = (),
    one_line: Sequence[str] = (),
    spare: Sequence[str] = (),
    style: Style,
) -> Iterator[str]:
    """Yield the lines of a table at most `width` columns wide, as far as unbroken cells allow. Columns in `wrapped` and
    `one_line` give way, those in `spare` are left out if that is not enough. Numbers are aligned to the right."""
    columns = list(zip(headers, *rows, strict=True))
    widths = [max(map(cell_width, column)) for column in columns]
    text = [at for at, header in enumerate(headers) if header in (*wrapped, *one_line)]
    free = width - sum(each for at, each in enumerate(widths) if at not in text) - len(GAP) * (len(headers) - 1)
    if text and sum(widths[at] for at in text) > free:
        for at in text:
            widths[at] = min(widths[at], free // len(text))
        needed = [max(_longest_word(columns[at]) if headers[at] in wrapped else 0, MIN_TEXT) for at in text]
        whole = [max(map(cell_width, columns[at])) for at in text]
        too_narrow = any(widths[at] < min(each) for at, *each in zip(text, needed, whole, strict=True))
    else:
        too_narrow = sum(widths) + len(GAP) * (len(headers) - 1) > width
    if too_narrow and any(header in spare for header in headers):
        kept = [at for at, header in enumerate(headers) if header not in spare]
        headers, rows = [headers[at] for at in kept], [[row[at] for at in kept] for row in rows]
        yield from draw(headers, rows, width, wrapped=wrapped, one_line=one_line, style=style)
        return
    if too_narrow:
        yield from _blocks(headers, rows, width, (*wrapped, *one_line), style)
        return
    right = [all(map(_NUMBER.fullmatch, column[1:])) for column in columns]
    yield style(GAP.join(pad(*each) for each in zip(headers, widths, right, strict=True)).rstrip(), "header")
    yield style(GAP.join("─" * each for each in widths), "rule")
    for row in rows:
        cells = [
            wrap(cell, each) if header in wrapped else [cut(cell, each) if header in one_line else cell]
            for header, cell, each in zip(headers, row, widths, strict=True)
        ]
        for number in range(max(map(len, cells))):
            parts = [lines[number] if number < len(lines) else "" for lines in cells]
            padded = map(pad, parts, widths, right)
            yield GAP.join(style(part, cell) for part, cell in zip(padded, row, strict=True)).rstrip()


def _longest_word(cells: Sequence[str]) -> int:
    return max((cell_width(word) for cell in cells for word in cell.split() if word.isascii()), default=0)


def _blocks(
    headers: Sequence[str], rows: Sequence[Sequence[str]], width: int, text: Sequence[str], style: Style
) -> Iterator[str]:
    """Yield each row as a block: the cells to copy first, then its texts, wrapped and indented."""
    for row in rows:
        cells = [(header in text, cell) for header, cell in zip(headers, row, strict=True) if cell not in ("", "-")]
        yield from _flow([cell for is_text, cell in cells if not is_text], width, style)
        for cell in (cell for is_text, cell in cells if is_text):
            yield from (INDENT + part for part in wrap(cell, width - len(INDENT)))


def _flow(cells: Sequence[str], width: int, style: Style) -> Iterator[str]:
    """Yield as many cells on a line as it has room for, the lines after the first one indented."""
    line, used = "", 0
    for cell in cells:
        size = cell_width(cell)
        if used and used + len(GAP) + size > width:
            yield line
            line, used = INDENT, len(INDENT) - len(GAP)
        gap = GAP if used > 0 else ""
        line, used = line + gap + style(cell, cell), used + len(gap) + size
    yield line
