"""Text cut into the pieces of a vocabulary, as uncased BERT models do it: words first, then the longest known parts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

VOCABULARY = Path(__file__).parent / "table" / "vocabulary.txt"
LONGEST_WORD = 100  # characters; what is longer is no word of any language and stays unknown

# Of ASCII every sign is a token of its own; the rest is decided character by character.
_ASCII = re.compile(r"[A-Za-z0-9]+|[!-/:-@\[-`{-~]")
_WORD_OR_SIGN = re.compile(r"[^\W_]+|[^\s\w]|_")
_IDEOGRAPH = re.compile(
    "([\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f"
    "\U0002b820-\U0002ceaf\uf900-\ufaff\U0002f800-\U0002fa1f])"
)


def words(text: str) -> list[str]:
    """Words and signs in order, in the case they are written in; accents are taken off, ideographs stand alone."""
    if text.isascii():
        return _ASCII.findall(text)
    bare = "".join(sign for sign in unicodedata.normalize("NFD", text) if unicodedata.category(sign) != "Mn")
    return _WORD_OR_SIGN.findall(_IDEOGRAPH.sub(r" \1 ", bare))


def read_vocabulary(path: Path = VOCABULARY) -> dict[str, int]:
    """Piece -> its number, which is its line; pieces that continue a word begin with `##`."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return {piece: number for number, piece in enumerate(lines) if piece}


def pieces(word: str, vocabulary: Mapping[str, int]) -> Sequence[int]:
    """The longest known beginning, then the longest continuations; empty where a part of the word is unknown."""
    whole = vocabulary.get(word)
    if whole is not None:
        return (whole,)
    if len(word) > LONGEST_WORD:
        return ()
    found = list(_longest_parts(word, vocabulary))
    return () if -1 in found else found


def _longest_parts(word: str, vocabulary: Mapping[str, int]) -> Iterator[int]:
    start, prefix = 0, ""
    while start < len(word):
        end = len(word)
        while end > start and (number := vocabulary.get(prefix + word[start:end])) is None:
            end -= 1
        if end == start or number is None:
            yield -1
            return
        yield number
        start, prefix = end, "##"
