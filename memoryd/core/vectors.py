"""Pack, unpack and compare vectors."""

from __future__ import annotations

import importlib
import re
import sys
from array import array
from collections.abc import Mapping, Sequence
from math import hypot, sqrt
from operator import mul
from struct import Struct, pack
from typing import Any, Literal, TypeAlias

from memoryd.errors import MemorydError

Form = Literal["b", "f"]
"""The numbers of packed vectors: signed bytes or floats of 32 bits."""

Doubles: TypeAlias = "memoryview[float]"
"""Numbers of 64 bits side by side."""

Packed: TypeAlias = "bytes | bytearray | memoryview[int]"

FEW = 20  # vectors; the mean of so many counts half
_FROM_MIDDLE = bytes(number ^ 128 for number in range(256))  # a signed byte plus 128
_LONG = 1e15  # the length of a vector; its square is far from the limits of 32 bits
_DTYPES: Mapping[Form, str] = {"b": "int8", "f": "float32"}
_BYTES: Mapping[Form, int] = {"b": 1, "f": 4}  # of a number
_BYTE = 256
_MIDDLES = 128 * (1 + _BYTE + _BYTE**2)
_SIGN = 7 if sys.byteorder == "little" else 0  # the byte of a number of 64 bits
_NOT_NEGATIVE = bytes(byte < 128 for byte in range(256))


class Lanes:
    """`count` signed numbers of 64 bits side by side in one large integer: adding two adds all their numbers, and a
    multiplication by a number multiplies each, as long as every result fits in its bits."""

    def __init__(self, count: int) -> None:
        self._form = Struct(f"<{count}q")
        self._signs = int.from_bytes(self._form.pack(*[-1 << 63] * count), "little")
        self._middle = self._signs >> 56  # 128 in each lane

    def pack(self, numbers: bytes) -> int:
        """Pack numbers of one byte each into one integer."""
        spread = bytearray(self._form.size)
        spread[::8] = numbers.translate(_FROM_MIDDLE)
        return int.from_bytes(spread, "little") - self._middle

    def unpack(self, lanes: int) -> tuple[int, ...]:
        """Return the numbers. Adding the highest bit of each lane undoes the borrow of negative lanes; flipping that
        bit again restores the sign."""
        found: tuple[int, ...] = self._form.unpack(
            ((lanes + self._signs) ^ self._signs).to_bytes(self._form.size, "little")
        )
        return found


def agent_model(size: int) -> str:
    """Return the model name for vectors of this size that agents stored with their memories; they are never
    replaced."""
    return f"own:{size}"


def numbers_in(model: str, vector: bytes) -> int:
    """Return the number of dimensions of a packed vector: one byte each in static models, else 32 bits."""
    return len(vector) if model.startswith("static-") else len(vector) // 4


def pack_floats(numbers: Sequence[float]) -> bytes:
    """Pack numbers as 32-bit floats in native byte order; an index is not moved between machines. Vectors whose squares
    do not fit 32 bits are scaled, which changes no cosine."""
    if not 1 / _LONG < hypot(*numbers) < _LONG:
        largest = max(map(abs, numbers), default=0.0) or 1.0
        numbers = [number / largest for number in numbers]
    return pack(f"{len(numbers)}f", *numbers)  # half the time of an array


def unpack(vector: bytes, size: int) -> Sequence[float]:
    """Unpack a vector of `size` numbers of one byte or 32 bits each."""
    return array("b" if len(vector) == size else "f", vector)


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the cosine of the angle between two vectors, -1 to 1; 0 if one of them is zero."""
    length = sqrt(sum(map(mul, a, a)) * sum(map(mul, b, b)))
    return sum(map(mul, a, b)) / length if length else 0.0


class CannotCompareError(MemorydError):
    """The library that compares vectors cannot be loaded."""


def _simsimd() -> Any:
    try:
        return importlib.import_module("simsimd")  # half a megabyte that a daemon without an embedder does without
    except ImportError as error:  # of a broken installation the message can have many lines
        reason = str(error).strip().partition("\n")[0]
        raise CannotCompareError(f"the vectors cannot be compared: {reason}", hint="reinstall memoryd") from error


def form_of(vector: bytes, size: int) -> Form:
    """Return the form of a packed vector of `size` numbers."""
    return "b" if len(vector) == size else "f"


def _compare(metric: str, ones: bytes, others: Packed, size: int, form: Form) -> Doubles:
    """Compare each of some packed vectors with each of others: first the first one with all others."""
    width = size * _BYTES[form]
    rows = [memoryview(each).cast("B").cast(form, (len(each) // width, size)) for each in (ones, others)]
    return memoryview(_simsimd().cdist(*rows, metric, dtype=_DTYPES[form])).cast("B").cast("d")


def lengths(vectors: bytes, size: int, form: Form) -> list[float]:
    """Return the length of each packed vector."""
    zero = bytes(size * _BYTES[form])
    return [*map(sqrt, _compare("sqeuclidean", zero, vectors, size, form))]


def dots(numbers: Sequence[float], vectors: Packed, form: Form) -> Doubles:
    """Return the dot products of numbers with each of some packed vectors of as many numbers.

    Bytes are multiplied by bytes only, so each number is split into three signed ones."""
    size = len(numbers)
    if form == "f":
        return _compare("dot", array("f", numbers).tobytes(), vectors, size, form)
    factor = 127 * _BYTE**2 / (max(map(abs, numbers)) or 1.0)
    whole = Struct(f"<{size}i").pack(*[round(number * factor) + _MIDDLES for number in numbers])
    parts = whole.translate(_FROM_MIDDLE)
    found = _compare("dot", parts[2::4] + parts[1::4] + parts[::4], vectors, size, form)
    upper, middle, lower = (found[at : at + len(found) // 3] for at in range(0, len(found), len(found) // 3))
    add = _simsimd().wsum
    both = add(upper, middle, alpha=_BYTE / factor, beta=1 / factor)
    return memoryview(add(both, lower, alpha=_BYTE, beta=1 / factor))


def multiplied(some: Doubles | array[float], others: Doubles | array[float], factor: float) -> Doubles:
    """Multiply each number by that of the others, and by the factor."""
    return memoryview(_simsimd().fma(some, others, others, alpha=factor, beta=0.0))


def positions(numbers: Doubles, least: float) -> list[int]:
    """Return where the numbers are that are not less than `least`."""
    ones = array("d", [1.0]) * len(numbers)
    differences = memoryview(_simsimd().wsum(numbers, ones, alpha=1.0, beta=-least)).cast("B").tobytes()
    return [found.start() for found in re.finditer(b"\1", differences[_SIGN::8].translate(_NOT_NEGATIVE))]


def mean_share(share: float, count: int) -> float:
    """Return the share of the mean of `count` vectors to subtract: less of few, whose mean shows what these are about
    and not what all texts have in common."""
    return share * count / (count + FEW)
