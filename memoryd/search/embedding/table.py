"""The shipped table: for each piece of the vocabulary and some whole words, 128 numbers of 8 bits and a weight.

File: `MVT1`, rows, numbers a row (32 bits each, little-endian), a weight for each row (16 bits), then the rows. A word
counts as its row times its weight. Rows are first the lines of `vocabulary.txt`, then those of `words.txt`.
"""

from __future__ import annotations

import mmap
import os
import struct
from array import array
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "table"
TABLE = HERE / "static-128.bin"
WORDS = HERE / "words.txt"
MAGIC = b"MVT1"
HEAD = struct.Struct("<4sII")
LANE = 32  # bits of a number in a row made one integer
MOST_WORDS = 4096  # words of a text that are added: no lane can run over, and more do not move the mean


class Table:
    """Mapped, not read: what is looked at comes into memory, and the system may take it back at any time."""

    def __init__(self, path: Path = TABLE) -> None:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._bytes = mmap.mmap(number, 0, prot=mmap.PROT_READ)
        finally:
            os.close(number)
        magic, self.rows, self.size = HEAD.unpack_from(self._bytes)
        self._first = HEAD.size + 2 * self.rows
        if magic != MAGIC or len(self._bytes) != self._first + self.rows * self.size:
            raise ValueError(f"{path}: is no table of vectors")
        self._lanes = struct.Struct(f"<{self.size}i")
        self._signs = int.from_bytes(self._lanes.pack(*[-1 << LANE - 1] * self.size), "little")

    def row(self, number: int) -> int:
        """A row as one integer whose lanes are the numbers times the weight: a text is the sum of its words."""
        (weight,) = struct.unpack_from("<H", self._bytes, HEAD.size + 2 * number)
        at = self._first + number * self.size
        values = array("b", self._bytes[at : at + self.size])
        lanes = self._lanes.pack(*[value * weight for value in values])
        return (int.from_bytes(lanes, "little") ^ self._signs) - self._signs

    def matrix(self, numpy: Any) -> tuple[Any, Any]:
        """All rows without their weights, and the weights; mapped as well."""
        rows = numpy.frombuffer(self._bytes, "i1", self.rows * self.size, self._first)
        weights = numpy.frombuffer(self._bytes, "<u2", self.rows, HEAD.size)
        return rows.reshape(self.rows, self.size), weights

    def numbers(self, total: int) -> tuple[int, ...]:
        """The lanes of a sum of rows. What a negative lane borrows of the next is given back by adding the highest bit
        of each; flipped again, that bit is the sign."""
        lanes: tuple[int, ...] = self._lanes.unpack(
            ((total + self._signs) ^ self._signs).to_bytes(4 * self.size, "little")
        )
        return lanes
