"""Pack, unpack and compare vectors. Pure Python: a daemon of small stores does without numpy."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import sqrt
from operator import mul
from struct import Struct

LANE, WIDE = 32, 64  # bits
LARGEST = (1 << LANE - 1) - 1  # number in a lane of LANE bits
_FORMATS = {LANE: "i", WIDE: "q"}
_FROM_MIDDLE = bytes(number ^ 128 for number in range(256))  # a signed byte plus 128


class Lanes:
    """`count` signed numbers side by side in one large integer: adding two adds all their numbers, and a multiplication
    by a number multiplies each, as long as every result fits in its bits, LANE or WIDE."""

    def __init__(self, count: int, bits: int = LANE) -> None:
        self._form = Struct(f"<{count}{_FORMATS[bits]}")
        self._step = bits // 8
        self._signs = int.from_bytes(self._form.pack(*[-1 << bits - 1] * count), "little")
        self._middle = self._signs >> bits - 8  # 128 in each lane

    def pack(self, numbers: bytes) -> int:
        """Pack numbers of one byte each into one integer."""
        spread = bytearray(self._form.size)
        spread[:: self._step] = numbers.translate(_FROM_MIDDLE)
        return int.from_bytes(spread, "little") - self._middle

    def unpack(self, lanes: int) -> tuple[int, ...]:
        """Return the numbers. Adding the highest bit of each lane undoes the borrow of negative lanes; flipping that
        bit again restores the sign."""
        found: tuple[int, ...] = self._form.unpack(
            ((lanes + self._signs) ^ self._signs).to_bytes(self._form.size, "little")
        )
        return found


def agent_model(size: int) -> str:
    """Return the model name for vectors of this size that agents stored with their memories."""
    return f"own:{size}"


def is_agent_model(model: str) -> bool:
    """True if vectors of this model were stored by agents; these are never replaced."""
    return model.startswith("own:")


def numbers_in(model: str, vector: bytes) -> int:
    """Return the number of dimensions of a packed vector: one byte each in static models, else 32 bits."""
    return len(vector) if model.startswith("static-") else len(vector) // 4


def pack_floats(numbers: Sequence[float]) -> bytes:
    """Pack numbers as 32-bit floats in native byte order; an index is not moved between machines."""
    return array("f", numbers).tobytes()


def unpack(vector: bytes, size: int) -> Sequence[float]:
    """Unpack a vector of `size` numbers of one byte or 32 bits each."""
    return array("b" if len(vector) == size else "f", vector)


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the cosine of the angle between two vectors, -1 to 1; 0 if one of them is zero."""
    length = sqrt(sum(map(mul, a, a)) * sum(map(mul, b, b)))
    return sum(map(mul, a, b)) / length if length else 0.0


FEW = 20  # vectors; the mean of so many counts half


def mean_share(share: float, count: int) -> float:
    """Return the share of the mean of `count` vectors to subtract: less of few, whose mean shows what these are about
    and not what all texts have in common."""
    return share * count / (count + FEW)


def without_common(vector: Sequence[float], vectors: Sequence[Sequence[float]], share: float) -> list[float]:
    """Return a vector of length 1 less a share of the mean of the others, each taken at length 1."""
    part = mean_share(share, len(vectors)) / (len(vectors) or 1)
    numbers = _unit(vector)
    for each in vectors:
        numbers = [number - part * other for number, other in zip(numbers, _unit(each), strict=True)]
    return numbers


def _unit(vector: Sequence[float]) -> list[float]:
    length = sqrt(sum(map(mul, vector, vector))) or 1.0
    return [number / length for number in vector]
