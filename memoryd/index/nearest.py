"""Nearest neighbours without numpy, for small stores; and how both kinds of matrix select the best.

numpy takes 13 MB and a tenth of a second to load, more than everything else that a small store needs for a search by
meaning. Here each dimension is one large integer with the numbers of all memories, 32 bits each: a multiplication by
one number of the question and an addition serve all memories at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from math import hypot, inf, sqrt
from operator import mul
from typing import Protocol

from memoryd.core.query import Filters
from memoryd.core.vectors import LANE, LARGEST, Lanes, mean_share

SMALL = 1_536  # vectors; comparing more takes half a millisecond longer than with numpy
SAMPLE = 8  # one of so many products is sorted to estimate which are high
WIDER = 4  # candidates per wanted result before all memories that pass the filters are queried


class Vectors(Protocol):
    """The packed vectors of an index within one snapshot."""

    @property
    def changes(self) -> int:
        """The number of vectors replaced or added out of key order since the index was opened."""

    def load(self, model: str, after: int) -> Iterator[tuple[int, bytes]]:
        """Yield (key, vector) for each vector of a model with a key above `after`, by key."""

    def allowed(self, filters: Filters, keys: Sequence[int]) -> set[int]:
        """Return the given keys whose memories pass the filters."""

    def all_allowed(self, filters: Filters) -> list[int]:
        """Return the keys of all memories that pass the filters, ascending."""


class Similarities(ABC):
    """The cosines of all vectors of a model with one given vector, in the order of their keys. Methods return some of
    them by key."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def highest(self, count: int, keys: Sequence[int] | None = None) -> dict[int, float]:
        """Return the nearest `count` of all memories, or of `keys`: nearest first, ties to the newest key."""

    @abstractmethod
    def of(self, keys: Sequence[int]) -> dict[int, float]:
        """Return the given memories that have a vector."""

    def best(self, source: Vectors, filters: Filters, limit: int) -> dict[int, float]:
        """Return the nearest memories that pass the filters: at most `limit`, nearest first, ties to the newest key."""
        for wide in (limit + limit // 4, WIDER * limit):
            some = self.highest(wide)
            allowed = source.allowed(filters, [*some])
            if len(allowed) >= limit or len(some) == len(self):
                return {key: some[key] for key in islice(filter(allowed.__contains__, some), limit)}
        return self.highest(limit, source.all_allowed(filters))


class _SmallCosines(Similarities):
    """`products` are the cosines times `scale`: few of them are looked at."""

    def __init__(self, keys: Sequence[int], products: Sequence[float], scale: float) -> None:
        self._keys = keys
        self._products = products
        self._scale = scale

    def __len__(self) -> int:
        return len(self._products)

    def highest(self, count: int, keys: Sequence[int] | None = None) -> dict[int, float]:
        products = self._products
        rows = self._high(count) if keys is None else self._rows(keys)[::-1]
        best = sorted(rows, key=products.__getitem__, reverse=True)[:count]  # equals stay in this order
        return {self._keys[row]: products[row] / self._scale for row in best}

    def _high(self, count: int) -> Sequence[int]:
        """Return the rows from which the highest `count` can be selected, the last first: those above what a sample
        shows to be low. Sorting all takes three times as long."""
        products = self._products
        sample = sorted(products[::SAMPLE], reverse=True)
        least = sample[2 * count // SAMPLE] if 2 * count // SAMPLE < len(sample) else -inf
        rows = [row for row, product in enumerate(products) if product >= least]
        return rows[::-1] if len(rows) >= count else range(len(self) - 1, -1, -1)

    def of(self, keys: Sequence[int]) -> dict[int, float]:
        return {self._keys[row]: self._products[row] / self._scale for row in self._rows(keys)}

    def _rows(self, keys: Sequence[int]) -> list[int]:
        rows = ((bisect_left(self._keys, key), key) for key in keys)
        return [row for row, key in rows if row < len(self) and self._keys[row] == key]


class SmallMatrix:
    """At most SMALL vectors of one model, one byte a number."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._changes = -1
        # No sum of products is larger than the product of the lengths, by the inequality of Cauchy and Schwarz.
        self._scale = LARGEST // (128 * sqrt(size)) - sqrt(size)
        self.idle_since: float | None = None  # seconds; None: used since the last `release_idle`
        self._empty()

    def _empty(self) -> None:
        self._keys: list[int] = []  # replaced when it grows, not changed: it is handed out
        self._inverse: list[float] = []  # 1 divided by the length of each vector
        self._columns = [0] * self._size
        self._lanes = Lanes(0)
        self._units = [0.0] * self._size  # the sum of all vectors at length 1

    @property
    def count(self) -> int:
        """The number of vectors, deleted ones included."""
        return len(self._keys)

    def update(self, source: Vectors, model: str) -> bool:
        """Add the vectors that are new, or reload all if some were replaced. Return False if there are too many for
        this kind of matrix, or numbers of more than a byte."""
        changes = source.changes
        if changes != self._changes:
            self._empty()
        self._changes = changes
        known = self.count
        if self._load(source, model, SMALL):
            return True
        if not known:
            return False
        self._empty()  # the deleted ones
        return self._load(source, model, SMALL * 3 // 4)  # fewer, so that the next ones need no reload

    def _load(self, source: Vectors, model: str, limit: int) -> bool:
        new = list(islice(source.load(model, self._keys[-1] if self._keys else 0), limit + 1 - self.count))
        if self.count + len(new) > limit or any(len(vector) != self._size for _, vector in new):
            return False
        if new:
            self._add([key for key, _ in new], b"".join(vector for _, vector in new))
        return True

    def compare(self, vector: Sequence[float], less_common: float) -> Similarities:
        """Compare a vector, less a share of the mean of all, with all others."""
        share = mean_share(less_common, self.count) / max(self.count, 1)
        unit = _scaled(vector, 1.0)
        less = [number - share * mean for number, mean in zip(unit, self._units, strict=True)]
        given = [*map(round, _scaled(less, self._scale))]
        length = sqrt(sum(map(mul, given, given))) or 1
        products = self._lanes.unpack(sum(map(mul, given, self._columns)))
        return _SmallCosines(self._keys, [*map(mul, products, self._inverse)], length)

    def _add(self, keys: Sequence[int], vectors: bytes) -> None:
        numbers = array("b", vectors)
        rows = (numbers[at : at + self._size] for at in range(0, len(numbers), self._size))
        inverse = [1 / (hypot(*row) or 1) for row in rows]
        lanes, shift = Lanes(len(keys)), LANE * self.count
        for at in range(self._size):
            self._columns[at] += lanes.pack(vectors[at :: self._size]) << shift
            self._units[at] += sum(map(mul, inverse, numbers[at :: self._size]))
        self._keys = [*self._keys, *keys]
        self._lanes = Lanes(self.count)
        self._inverse += inverse


def _scaled(vector: Sequence[float], length: float) -> list[float]:
    """Return a vector at this length; zeros stay zeros."""
    factor = length / (sqrt(sum(map(mul, vector, vector))) or 1)
    return [number * factor for number in vector]
