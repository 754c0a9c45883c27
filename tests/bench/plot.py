"""A picture of the results: how each quantity grows over the sizes, beside its floor (extra `bench`)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.corpora import WRITTEN
from tests.bench.results import Result, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ACROSS = 3
INCHES = (5.0, 3.4)  # of each chart
KINDS = (".svg", ".png")
MISSING = "a plot needs matplotlib: pip install -e '.[bench]'"


class PlotError(Exception):
    """Why no plot can be drawn."""


def check(path: Path) -> None:
    """Raise PlotError, before anything is measured, if a plot could not be drawn."""
    if path.suffix not in KINDS:
        raise PlotError(f"{path}: a plot is one of {', '.join(KINDS)}")
    try:
        import matplotlib  # noqa: F401, PLC0415 - an extra
    except ImportError as error:
        raise PlotError(MISSING) from error


def draw(result: Result, path: Path) -> None:
    """Draw one chart for each quantity, on logarithmic scales, a line for each layout."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra

    charts = [[*group] for _, group in groupby(sorted(result.rows, key=_quantity), key=_quantity)]
    down = -(-len(charts) // ACROSS)
    figure = Figure(figsize=(ACROSS * INCHES[0], down * INCHES[1]), layout="constrained")
    axes = figure.subplots(down, ACROSS, squeeze=False).ravel()
    for place, rows in zip(axes, charts, strict=False):
        _chart(place, rows)
    for place in axes[len(charts) :]:
        place.set_axis_off()
    figure.savefig(path)


def _quantity(row: Row) -> tuple[str, str]:
    return row.case, row.variant


def _chart(place: Axes, rows: Sequence[Row]) -> None:
    place.set_title(", ".join(each for each in _quantity(rows[0]) if each), fontsize=10)
    for layout, group in groupby(sorted(rows, key=lambda each: (each.layout, each.size)), key=lambda each: each.layout):
        points = [*group]
        color = f"C{sorted(WRITTEN).index(layout)}" if layout else "black"
        measured = [(each.size, each.p50) for each in points if each.p50 > 0]  # a logarithm needs it
        floors = [(each.size, each.floor) for each in points if each.floor]
        if measured:
            place.plot(*zip(*measured, strict=True), marker="o", color=color, label=layout or "several")
        if floors:
            place.plot(*zip(*floors, strict=True), linestyle=":", color=color)
    place.set_xscale("log")
    place.set_yscale("log")
    place.set_xlabel("memories")
    place.set_ylabel(f"{rows[0].unit} (dotted: floor)")
    if place.get_legend_handles_labels()[0]:
        place.legend(fontsize=7)
