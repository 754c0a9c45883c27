"""Exact nearest neighbours for databases that cannot compare vectors themselves: one matrix per model, kept in memory
while it is in use.

numpy is imported for the first matrix that is not small, not before. A matrix is filled once. New vectors are appended;
deleted ones are skipped and compacted later. Filters are applied before the best are selected.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence
from itertools import islice
from typing import Any

from memoryd.core.vectors import mean_share
from memoryd.index.nearest import Similarities, SmallMatrix, Vectors

IDLE_S = 300.0  # a matrix that no query used for this long is dropped
CHUNK = 1_024  # vectors read at a time: eight times as many take twice as long and 10 MB more for a moment
BLOCK = 1_024  # rows converted to 32-bit floats at a time, in a buffer that fits in the CPU cache


class _MatrixCosines(Similarities):
    def __init__(self, numpy: Any, keys: Any, values: Any) -> None:
        self._numpy = numpy
        self._keys = keys
        self._values = values

    def __len__(self) -> int:
        return len(self._keys)

    def highest(self, count: int, keys: Sequence[int] | None = None) -> dict[int, float]:
        numpy = self._numpy
        rows = numpy.arange(len(self._keys)) if keys is None else self._rows(keys)
        values = self._values[rows]
        if len(rows) > count:
            least = numpy.partition(values, len(values) - count)[len(values) - count]
            rows = rows[values >= least]  # all that equal the least included: ties are resolved below
        rows = rows[numpy.lexsort((-rows, -self._values[rows]))][:count]
        return dict(zip(self._keys[rows].tolist(), self._values[rows].tolist(), strict=True))

    def of(self, keys: Sequence[int]) -> dict[int, float]:
        rows = self._rows(keys)
        return dict(zip(self._keys[rows].tolist(), self._values[rows].tolist(), strict=True))

    def _rows(self, keys: Sequence[int]) -> Any:
        wanted = self._numpy.array(sorted(keys), dtype="i8")
        at = self._numpy.searchsorted(self._keys, wanted)
        inside = at < len(self._keys)
        at, wanted = at[inside], wanted[inside]
        return at[self._keys[at] == wanted]


class MatrixCache:
    """The matrices of one index, by model; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._matrices: dict[str, SmallMatrix | _Matrix] = {}

    def compare(self, source: Vectors, model: str, vector: Sequence[float], less_common: float = 0.0) -> Similarities:
        """Compare a vector, less a share of the mean of all, with all stored vectors of its model."""
        with self._lock:
            matrix = self._updated(source, model, len(vector))
            matrix.idle_since = None
            if isinstance(matrix, SmallMatrix):
                return matrix.compare(vector, less_common)
            keys, rows, lengths = (each[: matrix.count] for each in (matrix.keys, matrix.rows, matrix.lengths))
            common = matrix.units * (mean_share(less_common, matrix.count) / max(matrix.count, 1))
        numpy = importlib.import_module("numpy")
        given = numpy.array(vector, dtype="f4")
        if less_common:
            given = (given / (numpy.linalg.norm(given) or 1) - common).astype("f4")
        values, buffer = numpy.empty(len(keys), "f4"), numpy.empty((BLOCK, len(vector)), "f4")
        for at in range(0, len(keys), BLOCK):
            some = rows[at : at + BLOCK]
            buffer[: len(some)] = some
            numpy.matmul(buffer[: len(some)], given, out=values[at : at + BLOCK])
        return _MatrixCosines(numpy, keys, values / (lengths * (numpy.linalg.norm(given) or 1)))

    def _updated(self, source: Vectors, model: str, size: int) -> SmallMatrix | _Matrix:
        """Return the matrix of a model with all its vectors."""
        matrix = self._matrices.setdefault(model, SmallMatrix(size))
        if not matrix.update(source, model):
            matrix = self._matrices[model] = _Matrix(importlib.import_module("numpy"), size)
            matrix.update(source, model)
        return matrix

    def release_idle(self, now: float) -> None:
        """Drop the matrices that no search used for IDLE_S since an earlier call. `now` in seconds."""
        with self._lock:
            for model, matrix in list(self._matrices.items()):
                if matrix.idle_since is None:
                    matrix.idle_since = now
                elif now - matrix.idle_since > IDLE_S:
                    del self._matrices[model]

    def row_counts(self) -> dict[str, int]:
        """Return the number of vectors in each matrix, deleted ones included, by model."""
        with self._lock:
            return {model: matrix.count for model, matrix in self._matrices.items()}


class _Matrix:
    """Vectors of one model. Keys ascend; slots past `count` are spare. Rows stay packed, one byte or 32 bits a number;
    `lengths` are their norms, `units` the sum of all at length 1. A slice handed out stays valid: rows are only
    appended after it."""

    def __init__(self, numpy: Any, size: int) -> None:
        self._numpy = numpy
        self._size = size
        self._changes = -1
        self.idle_since: float | None = None  # seconds; None: used since the last `release_idle`
        self._empty()

    def _empty(self) -> None:
        self.count = 0
        self._compacted = 0  # the count after the last compaction
        self.keys = self._numpy.empty(0, "i8")
        self.lengths = self._numpy.empty(0, "f4")
        self.units = self._numpy.zeros(self._size, "f8")
        self.rows = self._numpy.empty((0, self._size), "i1")

    def update(self, source: Vectors, model: str) -> bool:
        """Add the vectors that are new, or reload all if vectors were replaced or many were deleted. Return True: all
        are here."""
        changes = source.changes
        if changes != self._changes or self.count > 2 * self._compacted + CHUNK:
            self._empty()
        self._changes = changes
        first = self.count == 0
        new = iter(source.load(model, int(self.keys[self.count - 1]) if self.count else 0))
        while piece := list(islice(new, CHUNK)):
            self._add(piece)
        if first:
            self._compacted = self.count
        return True

    def _add(self, piece: list[tuple[int, bytes]]) -> None:
        numpy, until = self._numpy, self.count + len(piece)
        form = "i1" if len(piece[0][1]) == self._size else "f4"
        numbers = numpy.frombuffer(b"".join(vector for _, vector in piece), dtype=form).reshape(-1, self._size)
        if until > len(self.keys):
            capacity = max(until, len(self.keys) * 5 // 4)
            self.keys = self._grow(self.keys, (capacity,), "i8")
            self.lengths = self._grow(self.lengths, (capacity,), "f4")
            self.rows = self._grow(self.rows, (capacity, self._size), form)
        self.keys[self.count : until] = [key for key, _ in piece]
        floats = numbers.astype("f4")
        lengths = numpy.linalg.norm(floats, axis=1)
        lengths[lengths == 0] = 1  # avoids a division by zero; the cosine is 0 anyway
        self.lengths[self.count : until] = lengths
        self.units += (1 / lengths) @ floats
        self.rows[self.count : until] = numbers
        self.count = until

    def _grow(self, old: Any, shape: tuple[int, ...], form: str) -> Any:
        new = self._numpy.empty(shape, form)
        new[: self.count] = old[: self.count]
        return new
