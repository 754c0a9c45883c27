"""The table as a file: 8 bits a number, a weight of 12 bits a row; and the words nearest to each word of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import Stemmer

from memoryd.core.words import STOP_WORDS
from memoryd.search.embedding.static import HEAD, MAGIC, WEIGHT
from memoryd.search.embedding.vocabulary import RELATED_WORDS
from tests.tools.distill.teacher import Array

HEAVIEST = 4095  # times 127 times the most words of a text it still fits into 31 bits


def write(table: Array, path: Path) -> None:
    rows, size = table.shape
    largest = np.abs(table).max(axis=1)
    weights = np.maximum(np.round(largest / largest.max() * HEAVIEST), largest > 0).astype("<u2")
    scales = np.where(largest > 0, 127 / np.maximum(largest, 1e-12), 0)
    numbers = np.round(table * scales[:, None]).astype("i1")
    path.write_bytes(HEAD.pack(MAGIC, rows, size) + weights.tobytes() + numbers.tobytes())


def read(path: Path) -> Array:
    """Return the rows of a table, each times its weight."""
    content = path.read_bytes()
    _, rows, size = HEAD.unpack_from(content)
    weights = np.frombuffer(content, "<u2", rows, HEAD.size).astype("f4")
    numbers = np.frombuffer(content, "i1", rows * size, HEAD.size + weights.size * WEIGHT.size).reshape(rows, size)
    return numbers * weights[:, None]


def write_related(table: Array, words: Sequence[str], lemmas: Collection[str], path: Path) -> None:
    """Write the RELATED_WORDS words with the highest cosines for each row of a lemma, each with a different stem: among
    the rows of lemmas and their inflected forms, without stop words."""
    stems = Stemmer.Stemmer("english").stemWords(list(words))
    lengths = np.linalg.norm(table, axis=1)
    real = [number for number, word in enumerate(words) if len(word) > 2 and word.isalpha() and lengths[number]]
    known = {stem for word, stem in zip(words, stems, strict=True) if word in lemmas}
    others = np.array([n for n in real if stems[n] in known and words[n] not in STOP_WORDS])
    units = table[others] / lengths[others, None]
    records = []
    for number in real:
        if words[number] in lemmas:
            nearest: dict[str, int] = {stems[number]: number}
            for other in others[np.argsort(-(units @ table[number]), kind="stable")[: 40 * RELATED_WORDS]]:
                nearest.setdefault(stems[other], int(other))
            records.append([*nearest.values()][: RELATED_WORDS + 1])
    path.write_bytes(np.array(records, "<u2").tobytes())
