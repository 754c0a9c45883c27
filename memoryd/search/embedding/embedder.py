"""What makes vectors of texts, whatever it is."""

from __future__ import annotations

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
    """Makes vectors of one model, which are compared with each other and with no other's."""

    @property
    def name(self) -> str:
        """The model; it changes with anything that changes a vector."""

    @property
    def size(self) -> int:
        """How many numbers a vector has."""

    @property
    def fast(self) -> bool:
        """Whether vectors are made as texts come in, or when there is time."""

    @property
    def asked(self) -> int:
        """How often it was asked."""

    @property
    def idle_s(self) -> float:
        """Seconds without a question after which it may rest."""

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return a packed vector for each text, all zeros where it says nothing. The texts are redacted already. For
        any thread. Raises EmbedderError."""

    def rest(self) -> None:
        """Give back what memory can be had again."""


def unit(numbers: Sequence[float]) -> list[float]:
    """Return the vector with length 1; raises EmbedderError where there is no direction to keep."""
    length = sqrt(sum(map(mul, numbers, numbers)))
    if not length or not isfinite(length):
        raise EmbedderError("a vector has no direction: its numbers are all zero or not finite")
    return [number / length for number in numbers]
