"""Cosines between the embeddings of one document. With numpy where it is installed, else in plain Python."""

from __future__ import annotations

import importlib
import math
from array import array
from collections.abc import Callable, Sequence
from operator import mul
from typing import Any, TypeAlias

import msgspec

Vector: TypeAlias = "array[float]"  # the class takes no parameter at run time before 3.12
Near = Callable[[int, float], list[tuple[int, float]]]

MOST_PLAIN = 2_000  # vectors that plain Python compares with each other in less than a minute
_BLOCK = 256
_SLACK = 1e-9  # 0.95 itself must count as 0.95
_decode = msgspec.json.Decoder(list[float]).decode


def numbers_in(text: bytes) -> list[float]:
    """Of a JSON value; none where it is no array of numbers that floats can hold."""
    try:
        return _decode(text)
    except msgspec.DecodeError:
        return []


def packed(numbers: list[float]) -> Vector:
    return array("d", numbers)


def vector(text: bytes) -> Vector:
    """The numbers of a JSON array that was found finite."""
    return packed(_decode(text))


def unit(text: bytes) -> Vector:
    """A vector of length 1 from the text of a JSON array that was found finite and not all zero."""
    numbers = _decode(text)
    largest = max(map(abs, numbers)) or 1.0  # numbers too small for a float make no direction
    scaled = [number / largest for number in numbers]  # so that no square vanishes or overflows
    norm = math.sqrt(math.fsum(map(mul, scaled, scaled))) or 1.0
    return array("d", (number / norm for number in scaled))


def cosine(a: Vector, b: Vector) -> float:
    return math.fsum(map(mul, a, b))


def nearness(vectors: Sequence[Vector]) -> Near | None:
    """`near(row, floor)`: the later rows whose cosine with `row` is at least `floor`. None where there are too many
    vectors to compare without numpy."""
    numpy = _numpy()
    if numpy is not None:
        return _Blocks(numpy, vectors).near
    return _plain(vectors) if len(vectors) <= MOST_PLAIN else None


def _numpy() -> Any:
    """An optional package: only speed depends on it."""
    try:
        return importlib.import_module("numpy")
    except ImportError:
        return None


def _plain(vectors: Sequence[Vector]) -> Near:
    def near(row: int, floor: float) -> list[tuple[int, float]]:
        mine = vectors[row]
        found = ((other, sum(map(mul, mine, vectors[other]))) for other in range(row + 1, len(vectors)))
        return [(other, value) for other, value in found if value >= floor - _SLACK]

    return near


class _Blocks:
    """Rows multiplied a block at a time, so that memory stays within a few megabytes; rows are asked for in order."""

    def __init__(self, numpy: Any, vectors: Sequence[Vector]) -> None:
        self._numpy = numpy
        self._vectors = vectors
        self._matrix = numpy.array([numpy.frombuffer(each, dtype="f8") for each in vectors], dtype="f4")
        self._first = 0
        self._block: Any = None

    def near(self, row: int, floor: float) -> list[tuple[int, float]]:
        if self._block is None or not self._first <= row < self._first + _BLOCK:
            self._first = row
            self._block = self._matrix[row : row + _BLOCK] @ self._matrix.T
        values = self._block[row - self._first, row + 1 :]
        likely = self._numpy.nonzero(values >= floor - 1e-4)[0].tolist()
        exact = ((row + 1 + each, cosine(self._vectors[row], self._vectors[row + 1 + each])) for each in likely)
        return [(other, value) for other, value in exact if value >= floor - _SLACK]
