"""Writing the table: 8 bits a number, a weight of 12 bits a row."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from memoryd.search.embedding.static import HEAD, MAGIC
from tests.tools.distill.teacher import Array

HEAVIEST = 4095  # times 127 times the most words of a text it still fits into 31 bits


def write(table: Array, path: Path) -> None:
    rows, size = table.shape
    largest = np.abs(table).max(axis=1)
    weights = np.maximum(np.round(largest / largest.max() * HEAVIEST), largest > 0).astype("<u2")
    scales = np.where(largest > 0, 127 / np.maximum(largest, 1e-12), 0)
    numbers = np.round(table * scales[:, None]).astype("i1")
    path.write_bytes(HEAD.pack(MAGIC, rows, size) + weights.tobytes() + numbers.tobytes())
