"""Which rows of the table a word stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from memoryd.search.embedding.pieces import pieces, read_vocabulary
from memoryd.search.embedding.table import WORDS

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
    within = words_within(word) if word.isascii() else []
    if len(within) > 1:
        return [row for part in within for row in pieces(part.lower(), known)]
    return pieces(lowered, known)


def words_within(name: str) -> list[str]:
    """The words of which a name is put together, in the case they are written in."""
    return _PARTS.findall(name)
