"""Vectors by a table of words: a text is the weighted mean of its words, in less than a tenth of a millisecond.

No numpy here: it would cost an idle daemon half as much memory again. Each word is one large integer, whose addition
adds all its numbers at once.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from pathlib import Path

from memoryd.core.vectors import pack_bytes
from memoryd.search.embedding.embedder import EmbedderError
from memoryd.search.embedding.word_alignment import WordAlignment
from memoryd.search.embedding.wordpiece import MAX_WORDS, TABLE, Table, known_words, rows_of, words, words_within

NAME = "static-128-1"
SIZE = 128
MAX_CACHED = 8_192  # words whose integers are kept, half a kilobyte each


class _Kept(dict[str, int]):
    """The integer of each word, made when it is first met."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.table = Table(path)
        self.known = known_words()

    def __missing__(self, word: str) -> int:
        total = sum(map(self.table.row, rows_of(word, self.known)))
        if len(self) < MAX_CACHED:
            self[word] = total
        return total


def _opened(path: Path) -> _Kept:
    try:
        return _Kept(path)
    except (OSError, ValueError, struct.error) as error:
        hint = "reinstall memoryd, or choose another embedder in [search]"
        raise EmbedderError(f"the table of the embedder cannot be read: {error}", hint=hint) from error


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
        self._apart: WordAlignment | None = None

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return a vector of bytes for each text, all zeros where no word is known."""
        kept = self._loaded()
        numbers, get = kept.table.numbers, kept.__getitem__
        return [pack_bytes(numbers(sum(map(get, words(text)[:MAX_WORDS])))) for text in texts]

    def align(self, question: str, texts: Sequence[str]) -> list[float]:
        """Score how well each text matches the words of the query: of each word the nearest, the informative
        ones counting more; -1..1."""
        with self._loading:
            if self._apart is None:
                kept = self._kept or _opened(self._path)
                self._apart = WordAlignment(kept.table, kept.known)
            return self._apart.align(question, texts)

    def knows(self, question: str) -> bool:
        """True if any of its words, or of the words within them, is in the table. A word made of pieces alone
        (`zzzqqq`) would be similar to anything."""
        known = self._loaded().known
        return any(
            word.lower() in known or any(part.lower() in known for part in words_within(word))
            for word in words(question)
            if word.isalnum()
        )

    def rest(self) -> None:
        """Release words and table until they are needed again."""
        with self._loading:
            self._kept = self._apart = None

    def _loaded(self) -> _Kept:
        with self._loading:
            self.asked += 1
            if self._kept is None:
                self._kept = _opened(self._path)
            return self._kept
