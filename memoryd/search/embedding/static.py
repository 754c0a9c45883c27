"""Vectors by a table of words: a text is the weighted mean of its words, in less than a tenth of a millisecond.

No numpy here: it would cost an idle daemon half as much memory again. Each word is one large integer, whose addition
adds all its numbers at once.
"""

from __future__ import annotations

import importlib
import re
import struct
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from memoryd.search.embedding.embedder import EmbedderError, pack_bytes
from memoryd.search.embedding.pieces import pieces, read_vocabulary, words
from memoryd.search.embedding.table import MOST_WORDS, TABLE, WORDS, Table

NAME = "static-128-1"
SIZE = 128
MOST_KEPT = 8_192  # words whose integers are kept, half a kilobyte each
MOST_APART = 16_384  # words that are kept as rows of their own, the same each
MOST_COMPARED = 128  # words of a text that are compared one by one

# `maxRetries`, `HTTPServer2`: the words within a name
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def known_words() -> dict[str, int]:
    """Piece or word -> its row."""
    known = read_vocabulary()
    for word in WORDS.read_text(encoding="utf-8").split():
        known.setdefault(word, len(known))
    return known


def rows_of(word: str, known: Mapping[str, int]) -> Sequence[int]:
    """The rows that a word stands for: its own, those of the words within it, or those of its pieces."""
    lowered = word.lower()
    whole = known.get(lowered)
    if whole is not None:
        return (whole,)
    within = _PARTS.findall(word) if word.isascii() else []
    if len(within) > 1:
        return [row for part in within for row in pieces(part.lower(), known)]
    return pieces(lowered, known)


class _Kept(dict[str, int]):
    """The integer of each word, made when it is first met."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.table = Table(path)
        self.known = known_words()

    def __missing__(self, word: str) -> int:
        total = sum(map(self.table.row, rows_of(word, self.known)))
        if len(self) < MOST_KEPT:
            self[word] = total
        return total


def _opened(path: Path) -> _Kept:
    try:
        return _Kept(path)
    except (OSError, ValueError, struct.error) as error:
        hint = "install memoryd anew, or choose another embedder in [search]"
        raise EmbedderError(f"the table of the embedder cannot be read: {error}", hint=hint) from error


class _Apart:
    """Each word by itself, as a row of length 1 and the length it had. The first row is nobody's: no word, no sign."""

    def __init__(self, kept: _Kept) -> None:
        self._numpy = importlib.import_module("numpy")
        self._kept = kept
        self._begin()

    def _begin(self) -> None:
        self._places: dict[str, int] = {}
        self._rows = self._numpy.zeros((MOST_APART, self._kept.table.size), "f4")
        self._lengths = self._numpy.zeros(MOST_APART, "f4")

    def align(self, question: str, texts: Sequence[str]) -> list[float]:
        numpy = self._numpy
        asked, *compared = map(_some_words, (question, *texts))
        self._make_room(set(asked).union(*compared))
        rows = [self._placed(each) for each in compared]
        firsts = numpy.cumsum([0, *map(len, rows)])[:-1]
        sought = self._placed(asked)
        near = self._rows[sought] @ self._rows[numpy.concatenate(rows)].T
        best = numpy.maximum.reduceat(near, firsts, axis=1)
        telling = self._lengths[sought]
        found: list[float] = (telling @ best / max(float(telling.sum()), 1e-9)).tolist()
        return found

    def _make_room(self, needed: set[str]) -> None:
        """Every word that is needed has its row afterwards."""
        if len(self._places) + len(needed) >= MOST_APART:
            self._begin()
        for word in needed - self._places.keys():
            place = self._places[word] = len(self._places) + 1
            row = self._numpy.array(self._kept.table.numbers(self._kept[word]), dtype="f4")
            length = self._lengths[place] = self._numpy.linalg.norm(row)
            self._rows[place] = row / max(length, 1e-9)

    def _placed(self, some: Sequence[str]) -> list[int]:
        return list(map(self._places.__getitem__, some)) or [0]


def _some_words(text: str) -> list[str]:
    return [word for word in dict.fromkeys(words(text)) if word.isalnum()][:MOST_COMPARED]


class Static:
    """Loaded when first needed; `rest` gives the memory back."""

    name = NAME
    size = SIZE
    fast = True
    idle_s = 30.0

    def __init__(self, path: Path = TABLE) -> None:
        self._path = path
        self.asked = 0
        self._loading = threading.Lock()
        self._kept: _Kept | None = None
        self._apart: _Apart | None = None

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        kept = self._loaded()
        numbers, get = kept.table.numbers, kept.__getitem__
        return [pack_bytes(numbers(sum(map(get, words(text)[:MOST_WORDS])))) for text in texts]

    def align(self, question: str, texts: Sequence[str]) -> list[float]:
        """How well the words of the question are met by words of each text: of each word the nearest, the telling
        ones counting more; -1..1."""
        with self._loading:
            if self._apart is None:
                self._apart = _Apart(self._kept or _opened(self._path))
            return self._apart.align(question, texts)

    def knows(self, question: str) -> bool:
        """Is any of its words, or of the words within them, one of the table? What is put together from pieces alone
        (`zzzqqq`) would be near to anything."""
        known = self._loaded().known
        return any(
            word.lower() in known or any(part.lower() in known for part in _PARTS.findall(word))
            for word in words(question)
            if word.isalnum()
        )

    def rest(self) -> None:
        """Forget words and table until they are needed again."""
        with self._loading:
            self._kept = self._apart = None

    def _loaded(self) -> _Kept:
        with self._loading:
            self.asked += 1
            if self._kept is None:
                self._kept = _opened(self._path)
            return self._kept
