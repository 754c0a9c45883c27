"""Vectors from a table of words: a text is the weighted mean of its words, in less than a tenth of a millisecond.

Without numpy, which would increase the memory of an idle daemon by half. Each word's vector is one large integer, so
that one addition adds all its numbers.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from pathlib import Path

from memoryd.core.vectors import pack_bytes
from memoryd.search.embedding.embedder import EmbedderError
from memoryd.search.embedding.word_alignment import WordAlignment
from memoryd.search.embedding.wordpiece import MAX_WORDS, TABLE, Table, rows_of, word_rows, words, words_within

NAME = "static-128-1"
SIZE = 128
MAX_CACHED = 8_192  # words whose integers are cached, half a kilobyte each


class _WordCache(dict[str, int]):
    """A cache of the integer of each word, computed on first use."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.table = Table(path)
        self.known = word_rows()

    def __missing__(self, word: str) -> int:
        total = sum(map(self.table.row, rows_of(word, self.known)))
        if len(self) < MAX_CACHED:
            self[word] = total
        return total


def _open(path: Path) -> _WordCache:
    try:
        return _WordCache(path)
    except (OSError, ValueError, struct.error) as error:
        hint = "reinstall memoryd, or choose another embedder in [search]"
        raise EmbedderError(f"the table of the embedder cannot be read: {error}", hint=hint) from error


class Static:
    """The embedder by word table, loaded when first needed; `release` frees the memory."""

    name = NAME
    size = SIZE
    fast = True
    idle_s = 30.0

    def __init__(self, path: Path = TABLE) -> None:
        self._path = path
        self.calls = 0
        self._loading = threading.Lock()
        self._cache: _WordCache | None = None
        self._alignment: WordAlignment | None = None

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return a vector of bytes for each text, all zeros if no word is known."""
        cache = self._load()
        numbers, get = cache.table.numbers, cache.__getitem__
        return [pack_bytes(numbers(sum(map(get, words(text)[:MAX_WORDS])))) for text in texts]

    def align(self, question: str, texts: Sequence[str]) -> list[float]:
        """Score each text, -1..1: the mean similarity of each query word to its nearest word in the text, with more
        weight on informative words."""
        with self._loading:
            if self._alignment is None:
                kept = self._cache or _open(self._path)
                self._alignment = WordAlignment(kept.table, kept.known)
            return self._alignment.align(question, texts)

    def knows(self, question: str) -> bool:
        """True if any of its words, or of the words within them, is in the table. A word made of pieces alone
        (`zzzqqq`) would be similar to anything."""
        known = self._load().known
        return any(
            word.lower() in known or any(part.lower() in known for part in words_within(word))
            for word in words(question)
            if word.isalnum()
        )

    def release(self) -> None:
        """Release words and table until they are needed again."""
        with self._loading:
            self._cache = self._alignment = None

    def _load(self) -> _WordCache:
        with self._loading:
            self.calls += 1
            if self._cache is None:
                self._cache = _open(self._path)
            return self._cache
