"""Adam on the rows of a table, for the steps that fit it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tests.tools.distill.teacher import Array


class Adam:
    """Moves the rows of `table` that a batch touches, in place and with a falling rate, in `steps` steps. `averaged`:
    the mean of the table in every `every`th step from the share `averaged_from` of the steps on."""

    def __init__(self, table: Array, rate: float, steps: int, *, averaged_from: float, every: int) -> None:
        self._table = table
        self._first, self._second, self.averaged = np.zeros_like(table), np.zeros_like(table), np.zeros_like(table)
        self._rate, self._steps = rate, steps
        self._start, self._every = int(steps * averaged_from), every
        self._step = 0

    def step(self, slopes: Iterable[tuple[Array, Array]]) -> None:
        """Move rows against their slopes: each pair is some rows, each once, and the slope of each."""
        self._step += 1
        rate = self._rate * min(1, self._step / 50) * (1 - 0.9 * self._step / self._steps)
        first, second = self._first, self._second
        for rows, slope in slopes:
            first[rows] = 0.9 * first[rows] + 0.1 * slope
            second[rows] = 0.98 * second[rows] + 0.02 * slope * slope
            self._table[rows] -= rate * first[rows] / (np.sqrt(second[rows]) + 1e-7)
        beyond = self._step - self._start
        if beyond > 0 and beyond % self._every == 1:
            self.averaged += (self._table - self.averaged) / (beyond // self._every + 1)


def by_row(rows: Array, slopes: Array) -> tuple[Array, Array]:
    """Return each row once, and the sum of its slopes."""
    order = np.argsort(rows, kind="stable")
    rising = rows[order]
    starts = np.flatnonzero(np.r_[True, rising[1:] != rising[:-1]])
    return rising[starts], np.add.reduceat(slopes[order], starts, axis=0)


def distribution(likeness: Array, warmth: float) -> Array:
    """Return how likely each text is taken for each other one, by their likeness divided by `warmth`."""
    powers = np.exp((likeness - likeness.max(axis=1, keepdims=True)) / warmth)
    return powers / powers.sum(axis=1, keepdims=True)
