"""What a run of the benchmark finds: rows with their percentiles, exponents of growth, and their JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import msgspec

from tests.bench.goals import GROWTH, Goal, goal_of


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One measured quantity at one size. `floor` is the median of the floor, in the same unit; `lost` counts what was
    not found at all, which no goal allows. `layout` is empty where several layouts are measured together."""

    case: str
    variant: str
    layout: str
    size: int
    unit: str
    n: int
    p50: float
    p99: float
    floor: float | None = None
    lost: int = 0

    @property
    def ratio(self) -> float | None:
        """p50 as a multiple of the floor; None without a floor."""
        return self.p50 / self.floor if self.floor else None

    @property
    def goal(self) -> Goal | None:
        """The goal at this size, if one is set."""
        return goal_of(self.case, self.variant, self.layout, self.size)

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal."""
        if self.goal is None:
            return False if self.lost else None
        return not self.lost and self.goal.allows(self.p50, self.p99, self.floor)


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """How one quantity grows over the sizes: p50 ~ size ** exponent; `floor` is the exponent of its floor."""

    case: str
    variant: str
    layout: str
    sizes: tuple[int, ...]
    exponent: float
    floor: float | None = None

    @property
    def goal(self) -> float | None:
        """The highest exponent allowed, if one is set."""
        return GROWTH.get((self.case, self.variant))

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal."""
        return None if self.goal is None else self.exponent <= self.goal


class Result(msgspec.Struct, kw_only=True):
    """A whole run. `machine` says where and on which version it was measured."""

    machine: Mapping[str, str]
    quick: bool
    seconds: float
    rows: tuple[Row, ...]
    growth: tuple[Growth, ...]


def row(
    case: str,
    variant: str,
    layout: str,
    size: int,
    values: Iterable[float],
    *,
    floor: Iterable[float] = (),
    unit: str = "ms",
    lost: int = 0,
) -> Row:
    """Summarise the values of one quantity and of its floor."""
    held, base = [*values], [*floor]
    return Row(
        case=case,
        variant=variant,
        layout=layout,
        size=size,
        unit=unit,
        n=len(held),
        p50=rounded(percentile(held, 50)),
        p99=rounded(percentile(held, 99)),
        floor=rounded(percentile(base, 50)) if base else None,
        lost=lost,
    )


def percentile(values: Iterable[float], percent: float) -> float:
    """Return the smallest value that at least so many per cent of all do not exceed (nearest rank); nan of nothing."""
    held = sorted(values)
    if not held:
        return math.nan
    return held[max(0, math.ceil(len(held) * percent / 100) - 1)]


def rounded(value: float, digits: int = 3) -> float:
    """Round to so many significant digits."""
    if not math.isfinite(value) or value == 0:
        return value
    return round(value, digits - 1 - math.floor(math.log10(abs(value))))


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """Fit y = c * x ** e to the points (x, y) by least squares of the logarithms, and return e."""
    xs, ys = [math.log(x) for x, _ in points], [math.log(y) for _, y in points]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread


def growth(rows: Iterable[Row]) -> tuple[Growth, ...]:
    """Fit each quantity that was measured at two sizes or more."""
    found = []
    for (case, variant, layout), group in groupby(sorted(rows, key=_key), key=_key):
        measured = [each for each in group if each.p50 > 0]  # nan is not greater
        fitted = _fitted((each.size, each.p50) for each in measured)
        if fitted is not None:
            floor = _fitted((each.size, each.floor) for each in measured if each.floor)
            sizes = tuple(sorted(each.size for each in measured))
            found.append(Growth(case=case, variant=variant, layout=layout, sizes=sizes, exponent=fitted, floor=floor))
    return tuple(found)


def _fitted(points: Iterable[tuple[float, float]]) -> float | None:
    """Return the exponent to two digits; None of fewer than two points."""
    held = [*points]
    return round(exponent(held), 2) + 0.0 if len(held) > 1 else None  # never -0


def _key(each: Row) -> tuple[str, str, str]:
    return each.case, each.variant, each.layout


def save(result: Result, path: Path) -> None:
    """Write the result as JSON."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")


def load(path: Path) -> Result:
    """Read what `save` wrote."""
    return msgspec.json.decode(path.read_bytes(), type=Result)
