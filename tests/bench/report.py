"""The benchmark's results as text: plain tables of 100 columns, and the figures of the README."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from tests.bench import goals
from tests.bench.results import Growth, Result, Row, rounded

COLUMNS = 100
HEAD = ("layout", "memories", "x floor", "p50", "p99", "floor", "n", "goal", "met")
MET = {True: "yes", False: "NO", None: ""}

Quantity = tuple[str, str]
"""A case and its variant."""


class Figure(NamedTuple):
    """A row of the README's table: several quantities stand in its order in each cell.

    `takes`: what takes the time or the memory, told where a goal is missed.
    """

    label: str
    quantities: Sequence[Quantity]
    takes: str


FIGURES: Sequence[Figure] = (
    Figure(
        "file closed → found by a search; in a user document of 7 MB",
        ((goals.SEARCHABLE, ""), (goals.SEARCHABLE, "document of 7 MB")),
        "reading and parsing a topic or session file whole",
    ),
    Figure(
        "file closed → index file on disk",
        ((goals.INDEX_FILE, ""),),
        "the settle time, and writing the file whole",
    ),
    Figure(
        "`sync` after one write; `--search-only`; with nothing to do",
        (
            (goals.SYNC, "after one write"),
            (goals.SYNC, "search only, after one write"),
            (goals.SYNC, "nothing to do"),
        ),
        "the index file is written whole and synced to disk: 4 MB at 10,000, 40 at 100,000",
    ),
    Figure(
        "process start → searchable: first index; known store",
        ((goals.FIRST_INDEX, "searchable"), (goals.KNOWN_START, "searchable")),
        "validation, secrets and rows of each file, in one interpreter",
    ),
    Figure(
        "search by words: for one memory, in the daemon; over the socket; mixed; during a first index",
        (
            (goals.SEARCH, "needle, in the daemon"),
            (goals.SEARCH, "needle"),
            (goals.SEARCH, "text"),
            (goals.SEARCH_BUSY, "text"),
        ),
        "ranking and snippets in Python; the interpreter's lock beside a first index",
    ),
    Figure(
        "search by words and meaning; first one",
        ((goals.SEARCH, "hybrid"), (goals.KNOWN_START, "first hybrid question")),
        "scoring by FTS5, ranking in Python",
    ),
    Figure(
        "20,000 files by 4 writers → searchable; in new directories",
        ((goals.BURST, "files"), (goals.BURST, "files in new directories")),
        "the first index's cost per file",
    ),
    Figure(
        "2,000 files written beside the daemon: 1 writer; 4",
        ((goals.WRITERS, "one writer"), (goals.WRITERS, "4 writers")),
        "two processors for the writers, their harness and the daemon",
    ),
    Figure(
        "idle, three roots: CPU; wake-ups",
        ((goals.IDLE, "processor"), (goals.IDLE, "wake-ups, /proc")),
        "checks of paths that report no event",
    ),
    Figure(
        "resident memory in use; `memoryd ping`",
        ((goals.MEMORY, "in use"), (goals.CLIENT, "ping")),
        "the interpreter and the required packages are 34 MB",
    ),
)


def table(cells: Sequence[Sequence[str]]) -> str:
    """Align the columns: the first to the left, all others to the right."""
    widths = [max(len(line[at]) for line in cells) for at in range(len(cells[0]))]
    return "\n".join(
        "  ".join(
            f"{cell:<{width}}" if at == 0 else f"{cell:>{width}}"
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    )


def number(value: float | None) -> str:
    """Three significant digits without an exponent, `-` for what is not known."""
    if value is None or value != value:
        return "-"
    short = rounded(value)
    return f"{short:,.0f}" if abs(short) >= 100 else f"{short:.6f}".rstrip("0").rstrip(".")


def text(result: Result, about: Mapping[str, str]) -> str:
    """One table for each quantity, its goal beside it and its growth below it. `about`: what each case measures."""
    parts = []
    for (case, variant), rows in _groups(result.rows):
        title = f"{case}, {variant} ({rows[0].unit})" if variant else f"{case} ({rows[0].unit})"
        fitted = [each for each in result.growth if (each.case, each.variant) == (case, variant)]
        body = table([HEAD, *map(_cells, rows)])
        parts.append("\n".join([f"{title}: {about[case]}"[:COLUMNS], body, *_growth_lines(fitted)]))
    return "\n\n".join(parts)


def _groups(rows: Iterable[Row]) -> Iterator[tuple[tuple[str, str], list[Row]]]:
    order = {quantity: at for at, quantity in enumerate(dict.fromkeys((each.case, each.variant) for each in rows))}
    held = sorted(rows, key=lambda each: (order[each.case, each.variant], each.layout, each.size))
    for quantity, group in groupby(held, key=lambda each: (each.case, each.variant)):
        yield quantity, [*group]


def _cells(row: Row) -> tuple[str, ...]:
    lost = f", {row.lost} lost" if row.lost else ""
    return (
        row.layout or "several",
        f"{row.size:,}",
        number(row.ratio),
        number(row.p50),
        number(row.p99),
        number(row.floor),
        str(row.n),
        row.goal.text(row.unit) if row.goal else "",
        MET[row.met] + lost,
    )


def _growth_lines(fitted: Sequence[Growth]) -> Iterator[str]:
    """As few lines as hold all exponents."""
    if not fitted:
        return
    said = [*map(_exponent, fitted)]
    limit = f" (goal <= {fitted[0].goal:g})" if fitted[0].goal is not None else ""
    line = f"exponent of growth{limit}: {said[0]}"
    for each in said[1:]:
        if len(line) + len(each) + 2 > COLUMNS:
            yield line + ","
            line = f"  {each}"
        else:
            line += f", {each}"
    yield line


def _exponent(growth: Growth) -> str:
    """The exponent of a layout, beside that of its floor."""
    missed = "NO" if growth.met is False else ""
    floor = f"floor {growth.floor:g}" if growth.floor is not None else ""
    beside = ", ".join(filter(None, (missed, floor)))
    return f"{growth.layout or 'several'} {growth.exponent:g}{f' ({beside})' if beside else ''}"


def readme(result: Result) -> str:
    """The README's table: the slowest layout of each quantity at each size, its floor in brackets, the goal, and
    the reason of a miss."""
    sizes = sorted({each.size for each in result.rows})
    head = ("median (floor)", *(f"{size:,} memories" for size in sizes), "goal", "why it is missed")
    lines = [head, ("---",) * len(head)]
    for label, quantities, takes in FIGURES:
        worst = [[_slowest(result.rows, quantity, size) for size in sizes] for quantity in quantities]
        found = [row for rows in worst for row in rows if row]
        if found:
            cells = ("; ".join(map(_figure, column)) for column in zip(*worst, strict=True))
            why = takes if any(row.met is False for row in found) else ""
            lines.append((label, *cells, "; ".join(map(_goals, worst)), why))
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _slowest(rows: Iterable[Row], quantity: Quantity, size: int) -> Row | None:
    """The row that misses its goal and has the highest median, else the one with the highest median."""
    held = [each for each in rows if (each.case, each.variant) == quantity and each.size == size]
    return max(held, key=lambda each: (each.met is False, each.p50), default=None)


def _figure(row: Row | None) -> str:
    if row is None:
        return "-"
    floor = f" ({number(row.floor)})" if row.floor is not None else ""
    lost = f" and {row.lost:,} lost" if row.lost else ""
    missed = f" **missed**{lost}" if row.met is False else ""
    return f"{number(row.p50)} {row.unit}{floor}{missed}"


def _goals(rows: Sequence[Row | None]) -> str:
    """The goals at the sizes, once if they are equal; limits of p99 are left to the tables."""
    found = [each.goal.text(each.unit).split(", p99")[0] if each.goal else "-" for each in rows if each]
    texts = [each.replace("<=", "≤").replace(" x floor", " × floor") for each in dict.fromkeys(found or ["-"])]
    return " / ".join(texts).replace(" / ≤ ", " / " if texts[0] != "-" else " / ≤ ")
