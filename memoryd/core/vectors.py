"""Pack, unpack and compare vectors. Pure Python: an idle daemon should not load numpy."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import sqrt
from operator import mul


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
