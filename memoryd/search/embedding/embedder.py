"""The protocol of an embedder, which turns texts into vectors."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, sqrt
from operator import mul
from typing import Protocol

from memoryd.errors import EmbedderError


class Embedder(Protocol):
    """An embedding model. Only vectors of the same model are comparable."""

    @property
    def name(self) -> str:
        """The name of the model; it changes with anything that changes a vector."""

    @property
    def size(self) -> int:
        """The number of dimensions of a vector."""

    @property
    def fast(self) -> bool:
        """True if vectors are made as memories are indexed, False if in the background."""

    @property
    def calls(self) -> int:
        """The number of calls so far, to detect that it is idle."""

    @property
    def idle_s(self) -> float:
        """The seconds without a call after which `release` may be called."""

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return a packed vector for each text, all zeros for a text without meaning. The texts are already redacted.
        For any thread. Raises EmbedderError."""

    def release(self) -> None:
        """Free memory that can be loaded again."""


class IdleRelease:
    """Lets an embedder free its memory once it was idle for its `idle_s`."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._idle = (0, float("inf"))  # the embedder's call count, and when it was last read

    def tidy(self, now: float) -> bool:
        """Note whether the embedder was called since the last time, or release it. True if it was released. `now` in
        seconds."""
        asked, since = self._idle
        if self._embedder.calls != asked:
            self._idle = self._embedder.calls, now
            return False
        if now - since <= self._embedder.idle_s:
            return False
        self._embedder.release()
        self._idle = asked, float("inf")
        return True


def unit(numbers: Sequence[float]) -> list[float]:
    """Return the vector scaled to length 1. Raises EmbedderError if its numbers are all zero or not finite."""
    length = sqrt(sum(map(mul, numbers, numbers)))
    if not length or not isfinite(length):
        raise EmbedderError("a vector has no direction: its numbers are all zero or not finite")
    return [number / length for number in numbers]
