"""What makes vectors of texts, whatever it is; and how vectors are packed."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import isfinite, sqrt
from operator import mul
from typing import Protocol

from memoryd.errors import MemorydError


class EmbedderError(MemorydError):
    """No vector can be had now: a package is missing, a server does not answer or answers something else."""

    name = "embedder"
    rpc_code = -32603
    exit_code = 69


class Embedder(Protocol):
    """Vectors of one model are compared with each other and with no other's. `name` changes with anything that
    changes a vector; vectors of a `fast` one are made as texts come in, those of others when there is time. `asked`
    counts how often it was; nobody having asked for `idle_s` seconds, it may `rest`."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def fast(self) -> bool: ...
    @property
    def asked(self) -> int: ...
    @property
    def idle_s(self) -> float: ...

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """A packed vector for each text, all zeros where it says nothing. The texts are redacted already. For any
        thread. Raises EmbedderError."""

    def rest(self) -> None:
        """Give back what memory can be had again."""


def pack_floats(numbers: Sequence[float]) -> bytes:
    """32 bits each, in the order of this machine: a catalogue never leaves it."""
    return array("f", numbers).tobytes()


def numbers_in(model: str, vector: bytes) -> int:
    """How many numbers a packed vector of this model has: static ones have a byte each."""
    return len(vector) if model.startswith("static-") else len(vector) // 4


def unpack(vector: bytes, size: int) -> Sequence[float]:
    """The numbers of a packed vector of `size` numbers: a byte each, or 32 bits each."""
    return array("b" if len(vector) == size else "f", vector)


def pack_bytes(numbers: Sequence[int]) -> bytes:
    """A byte each, the largest as 127: the direction is what counts."""
    most, least = max(numbers), min(numbers)
    largest = max(most, -least)
    if not largest:
        return bytes(len(numbers))
    half = largest // 2
    return array("b", [(127 * number + half) // largest for number in numbers]).tobytes()


def unit(numbers: Sequence[float]) -> list[float]:
    """Of length 1; raises EmbedderError where there is no direction to keep."""
    length = sqrt(sum(map(mul, numbers, numbers)))
    if not length or not isfinite(length):
        raise EmbedderError("a vector has no direction: its numbers are all zero, or without bound")
    return [number / length for number in numbers]


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    length = sqrt(sum(map(mul, a, a)) * sum(map(mul, b, b)))
    return sum(map(mul, a, b)) / length if length else 0.0
