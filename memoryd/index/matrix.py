"""Exact nearest neighbours for databases that cannot compare vectors themselves: one matrix per model, kept in memory
while it is in use.

A matrix is filled once. New vectors are appended; deleted ones are skipped and compacted later. Filters are applied
before the best are selected.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from math import hypot
from operator import add
from typing import Protocol

from memoryd.core.query import Filters
from memoryd.core.vectors import Doubles, Form, dots, form_of, lengths, mean_share, multiplied, positions

IDLE_S = 300.0  # a matrix that no query used for this long is dropped
CHUNK = 1_024  # vectors read at a time: eight times as many take twice as long and 10 MB more for a moment
SAMPLE = 512  # cosines that are sorted to estimate which are high
WIDER = 4  # candidates per wanted result before all memories that pass the filters are queried


class Vectors(Protocol):
    """The packed vectors of an index within one snapshot."""

    @property
    def changes(self) -> int:
        """The number of vectors replaced or added out of key order."""

    def load(self, model: str, after: int) -> Iterator[tuple[int, bytes]]:
        """Yield (key, vector) for each vector of a model with a key above `after`, by key."""

    def allowed(self, filters: Filters, keys: Sequence[int]) -> set[int]:
        """Return the given keys whose memories pass the filters."""

    def all_allowed(self, filters: Filters) -> list[int]:
        """Return the keys of all memories that pass the filters, ascending."""


class Similarities:
    """The cosines of all vectors of a model with one given vector, in the order of their keys. Methods return some of
    them by key."""

    def __init__(self, keys: Sequence[int], cosines: Doubles) -> None:
        self._keys = keys  # those past the cosines are newer
        self._cosines = cosines

    def __len__(self) -> int:
        return len(self._cosines)

    def highest(self, count: int, keys: Sequence[int] | None = None) -> dict[int, float]:
        """Return the nearest `count` of all memories, or of `keys`: nearest first, ties to the newest key."""
        rows = self._high(count) if keys is None else self._rows(keys)
        best = sorted(((self._cosines[row], row) for row in rows), reverse=True)[:count]
        return {self._keys[row]: cosine for cosine, row in best}

    def _high(self, count: int) -> Sequence[int]:
        """Return the rows from which the highest `count` can be selected: those above what a sample shows to be low.
        Sorting all takes ten times as long."""
        step = max(len(self) // SAMPLE, 8)
        sample = sorted(self._cosines[::step], reverse=True)
        place = 2 * count // step + 2
        rows = positions(self._cosines, sample[place]) if place < len(sample) else []
        return rows if len(rows) >= count else range(len(self))

    def of(self, keys: Sequence[int]) -> dict[int, float]:
        """Return the given memories that have a vector."""
        return {self._keys[row]: self._cosines[row] for row in self._rows(keys)}

    def _rows(self, keys: Sequence[int]) -> list[int]:
        rows = ((bisect_left(self._keys, key, 0, len(self)), key) for key in keys)
        return [row for row, key in rows if row < len(self) and self._keys[row] == key]

    def best(self, source: Vectors, filters: Filters, limit: int) -> dict[int, float]:
        """Return the nearest memories that pass the filters: at most `limit`, nearest first, ties to the newest key."""
        for wide in (limit + limit // 4, WIDER * limit):
            some = self.highest(wide)
            allowed = source.allowed(filters, [*some])
            if len(allowed) >= limit or len(some) == len(self):
                return {key: some[key] for key in islice(filter(allowed.__contains__, some), limit)}
        return self.highest(limit, source.all_allowed(filters))


class MatrixCache:
    """The matrices of one index, by model; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._matrices: dict[str, _Matrix] = {}

    def compare(self, source: Vectors, model: str, vector: Sequence[float], less_common: float = 0.0) -> Similarities:
        """Compare a vector, less a share of the mean of all, with all stored vectors of its model."""
        with self._lock:
            matrix = self._matrices.setdefault(model, _Matrix(len(vector)))
            matrix.update(source, model)
            matrix.idle_since = None
            return matrix.compare(vector, less_common)

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
            return {model: len(matrix.keys) for model, matrix in self._matrices.items()}


class _Matrix:
    """Packed vectors of one model. Keys ascend; they are handed out, and so only appended to or replaced."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._changes = -1
        self.idle_since: float | None = None  # seconds; None: used since the last `release_idle`
        self._empty()

    def _empty(self) -> None:
        self._compacted = 0  # the count after the last compaction
        self.keys: list[int] = []
        self._form: Form = "b"
        self._rows = bytearray()
        self._inverse = array("d")  # 1 divided by the length of each; 0 if that is 0
        self._units = [0.0] * self._size  # the sum of all vectors at length 1

    def update(self, source: Vectors, model: str) -> None:
        """Add the vectors that are new, or reload all if vectors were replaced or many were deleted."""
        changes = source.changes
        if changes != self._changes or len(self.keys) > 2 * self._compacted + CHUNK:
            self._empty()
        self._changes = changes
        first = not self.keys
        new = iter(source.load(model, self.keys[-1] if self.keys else 0))
        while piece := list(islice(new, CHUNK)):
            self._add([key for key, _ in piece], b"".join([vector for _, vector in piece]))
        if first:
            self._compacted = len(self.keys)

    def compare(self, vector: Sequence[float], less_common: float) -> Similarities:
        """Compare a vector, less a share of the mean of all, with all others."""
        if not self.keys:
            return Similarities((), memoryview(array("d")))
        share = mean_share(less_common, len(self.keys)) / len(self.keys)
        unit = 1 / (hypot(*vector) or 1)
        given = [number * unit - share * mean for number, mean in zip(vector, self._units, strict=True)]
        products = dots(given, self._rows, self._form)
        return Similarities(self.keys, multiplied(products, self._inverse, 1 / (hypot(*given) or 1)))

    def _add(self, keys: Sequence[int], vectors: bytes) -> None:
        size, form = self._size, form_of(vectors, self._size * len(keys))
        inverse = [1 / length if length else 0.0 for length in lengths(vectors, size, form)]
        numbers = memoryview(vectors).cast(form)
        columns = b"".join([numbers[at::size].tobytes() for at in range(size)])
        self._units = [*map(add, self._units, dots(inverse, columns, form))]
        self._form = form
        self._inverse.extend(inverse)
        self._rows += vectors
        self.keys += keys
