"""The nearest vectors, exactly: all of a catalogue's lie in one matrix while they are in use.

numpy is imported with the first question, not before: an idle daemon does without it. A matrix is filled once and then
grows with what came in; what has gone is passed over, and left out when it has become much. Filters are applied before
the best are taken.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from memoryd.core.asking import Filters
from memoryd.search.embedding.embedder import unpack

IDLE_S = 300.0  # a matrix that nobody asked for so long is dropped
PIECE = 8_192  # vectors that are read at a time
BLOCK = 1_024  # rows that become numbers of 32 bits at a time, in room that the processor's cache holds
WIDER = 4  # so many times the wanted number are taken before all that the filters let in are asked for


class Home(Protocol):
    """What the readers of one catalogue share; `changes` counts vectors that became others under their key."""

    @property
    def changes(self) -> int: ...


class Source(Protocol):
    """The vectors of a catalogue, within one snapshot."""

    @property
    def home(self) -> Any: ...
    def load(self, model: str, after: int) -> Iterator[tuple[int, bytes]]: ...
    def allowed(self, filters: Filters, keys: Sequence[int]) -> set[int]: ...
    def all_allowed(self, filters: Filters) -> list[int]: ...


class Near(NamedTuple):
    key: int
    cosine: float


class Measured:
    """The cosines of all vectors with one."""

    def __init__(self, numpy: Any, keys: Any, values: Any) -> None:
        self._numpy = numpy
        self._keys = keys
        self._values = values

    def __len__(self) -> int:
        return len(self._keys)

    def best(self, source: Source, filters: Filters, limit: int) -> list[Near]:
        """At most `limit` of those that the filters let in, the nearest first; of equals the last that came in."""
        for wide in (limit + limit // 4, WIDER * limit):
            some = self._highest(self._values, wide)
            keys = self._keys[some].tolist()
            allowed = source.allowed(filters, keys)
            found = [Near(key, float(self._values[row])) for key, row in zip(keys, some, strict=True) if key in allowed]
            if len(found) >= limit or len(some) == len(self._keys):
                return found[:limit]
        rows = self._rows(source.all_allowed(filters))
        highest = rows[self._highest(self._values[rows], limit)]
        return [Near(int(self._keys[row]), float(self._values[row])) for row in highest]

    def of(self, keys: Sequence[int]) -> dict[int, float]:
        """The cosines of these, where they have a vector."""
        rows = self._rows(keys)
        return dict(zip(self._keys[rows].tolist(), self._values[rows].tolist(), strict=True))

    def _highest(self, values: Any, count: int) -> Any:
        """Where the highest are, falling; of equals the last."""
        numpy = self._numpy
        rows = numpy.arange(len(values))
        if len(values) > count:
            least = numpy.partition(values, len(values) - count)[len(values) - count]
            rows = numpy.flatnonzero(values >= least)  # with all that are equal to the least: which counts is told next
        return rows[numpy.lexsort((-rows, -values[rows]))][:count]

    def _rows(self, keys: Sequence[int]) -> Any:
        wanted = self._numpy.array(sorted(keys), dtype="i8")
        at = self._numpy.searchsorted(self._keys, wanted)
        inside = at < len(self._keys)
        at, wanted = at[inside], wanted[inside]
        return at[self._keys[at] == wanted]


class Shelf:
    """The matrices of all catalogues; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._matrices: WeakKeyDictionary[Home, dict[str, _Matrix]] = WeakKeyDictionary()

    def measure(self, source: Source, model: str, vector: bytes, size: int, now: float) -> Measured:
        """How near all vectors of the model are to this one of the same model and size. `now` in seconds."""
        numpy = importlib.import_module("numpy")
        with self._lock:
            matrix = self._of(source.home).setdefault(model, _Matrix(numpy, size))
            matrix.bring_up(source, model)
            matrix.asked = now
            keys, rows, lengths = (each[: matrix.count] for each in (matrix.keys, matrix.rows, matrix.lengths))
        asked = numpy.array(unpack(vector, size), dtype="f4")
        values, room = numpy.empty(len(keys), "f4"), numpy.empty((BLOCK, size), "f4")
        for at in range(0, len(keys), BLOCK):
            some = rows[at : at + BLOCK]
            room[: len(some)] = some
            numpy.matmul(room[: len(some)], asked, out=values[at : at + BLOCK])
        return Measured(numpy, keys, values / (lengths * (numpy.linalg.norm(asked) or 1)))

    def tidy(self, now: float) -> None:
        """Drop what nobody asked for lately."""
        with self._lock:
            for models in list(self._matrices.values()):
                for model in [name for name, matrix in models.items() if now - matrix.asked > IDLE_S]:
                    del models[model]

    def held(self) -> int:
        """How many matrices there are."""
        with self._lock:
            return sum(map(len, self._matrices.values()))

    def _of(self, home: Home) -> dict[str, _Matrix]:
        return self._matrices.setdefault(home, {})


class _Matrix:
    """Keys rise; what lies behind `count` is room. Rows stay as they are packed, a byte or 32 bits a number; `lengths`
    are theirs. Those who were given a part of it keep what they have: rows are only ever added behind it."""

    def __init__(self, numpy: Any, size: int) -> None:
        self._numpy = numpy
        self._size = size
        self._changes = -1
        self.asked = 0.0
        self._empty()

    def _empty(self) -> None:
        self.count = 0
        self._whole = 0  # how many there were when gone ones were last left out
        self.keys = self._numpy.empty(0, "i8")
        self.lengths = self._numpy.empty(0, "f4")
        self.rows = self._numpy.empty((0, self._size), "i1")

    def bring_up(self, source: Source, model: str) -> None:
        changes = source.home.changes
        if changes != self._changes or self.count > 2 * self._whole + PIECE:
            self._empty()
        self._changes = changes
        first = self.count == 0
        new = iter(source.load(model, int(self.keys[self.count - 1]) if self.count else 0))
        while piece := list(islice(new, PIECE)):
            self._add(piece)
        if first:
            self._whole = self.count

    def _add(self, piece: list[tuple[int, bytes]]) -> None:
        numpy, until = self._numpy, self.count + len(piece)
        form = "i1" if len(piece[0][1]) == self._size else "f4"
        numbers = numpy.frombuffer(b"".join(vector for _, vector in piece), dtype=form).reshape(-1, self._size)
        if until > len(self.keys):
            room = max(until, len(self.keys) * 5 // 4)
            self.keys = self._grown(self.keys, (room,), "i8")
            self.lengths = self._grown(self.lengths, (room,), "f4")
            self.rows = self._grown(self.rows, (room, self._size), form)
        self.keys[self.count : until] = [key for key, _ in piece]
        lengths = numpy.linalg.norm(numbers.astype("f4"), axis=1)
        self.lengths[self.count : until] = numpy.where(lengths > 0, lengths, 1)  # near to nothing all the same
        self.rows[self.count : until] = numbers
        self.count = until

    def _grown(self, old: Any, shape: tuple[int, ...], form: str) -> Any:
        new = self._numpy.empty(shape, form)
        new[: self.count] = old[: self.count]
        return new
