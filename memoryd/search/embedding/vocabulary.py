"""The words that the word table knows, each with its number, in less than a megabyte.

A dictionary of its 40,000 words would take 4.6 MB, a tenth of an idle daemon. Here the words stay one piece of text; a
hash table of their numbers, two bytes each, finds them.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from io import BytesIO
from pathlib import Path
from typing import Protocol

from memoryd.log import get_logger

log = get_logger(__name__)

DIRECTORY = Path(__file__).parent / "table"
VOCABULARY = DIRECTORY / "vocabulary.txt"
WORDS = DIRECTORY / "words.txt"
RELATED = DIRECTORY / "related.bin"  # records by number: of a word, and of the words nearest to it in meaning
RELATED_WORDS = 11
_RECORD = struct.Struct(f"<{1 + RELATED_WORDS}H")
SLOTS = 1 << 17  # three for each word: seven of ten unknown words meet an empty one first


class Numbers(Protocol):
    """Numbers of words: a `Vocabulary` or a dictionary."""

    def get(self, word: str, /) -> int | None:
        """Return the number of a word, None if it is unknown."""


def read_pieces() -> dict[str, int]:
    """Return the number (the 0-based line) of each piece; pieces that continue a word begin with `##`."""
    lines = VOCABULARY.read_text(encoding="utf-8").split("\n")
    return {piece: number for number, piece in enumerate(lines) if piece}


@cache
def known_words() -> Vocabulary:
    """Return the pieces of words, then the whole words; a word's number is its row in the table of vectors."""
    return Vocabulary(VOCABULARY.read_bytes() + WORDS.read_bytes())


@lru_cache(maxsize=1_024)
def related_words(word: str) -> Sequence[str]:
    """Return the words nearest in meaning to an English word, the nearest first; none of a word that is not listed, or
    if the list cannot be read."""
    number = known_words().get(word)
    if number is None:
        return ()
    try:
        return tuple(map(known_words().word, _nearest(number)))
    except (OSError, struct.error, ValueError) as failure:  # as while memoryd is being upgraded
        log.warning("related words not read", file=str(RELATED), error=str(failure))
        return ()


def _nearest(number: int) -> Sequence[int]:
    with RELATED.open("rb", buffering=0) as file:

        def record(at: int) -> Sequence[int]:
            file.seek(at * _RECORD.size)
            return _RECORD.unpack(file.read(_RECORD.size))

        count = RELATED.stat().st_size // _RECORD.size
        at = bisect_left(range(count), number, key=lambda each: record(each)[0])
        first, *nearest = record(at) if at < count else (None,)
    return nearest if first == number else ()


class Vocabulary:
    """Words with their numbers: the 0-based lines of a text in UTF-8, fewer than 65,535. An empty line is no word."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._starts = array("I", [0])
        self._slots = array("H", bytes(2 * SLOTS))  # the number of a word plus one; 0: empty
        self._fill(BytesIO(text))

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __contains__(self, word: str) -> bool:
        return self.get(word) is not None

    def get(self, word: str) -> int | None:
        """Return the number of a word, None if it is unknown."""
        slots, slot = self._slots, hash(word) % SLOTS
        while found := slots[slot]:
            start, end = self._starts[found - 1 : found + 1]
            if self._text[start:end].rstrip(b"\n") == word.encode(errors="surrogatepass"):
                return found - 1
            slot = (slot + 1) % SLOTS
        return None

    def word(self, number: int) -> str:
        """Return the word with this number."""
        start, end = self._starts[number : number + 2]
        return self._text[start:end].rstrip(b"\n").decode()

    def _fill(self, lines: Iterable[bytes]) -> None:
        slots, starts, at = self._slots, self._starts, 0
        for number, line in enumerate(lines, start=1):
            at += len(line)
            starts.append(at)
            if word := line.rstrip(b"\n").decode():
                slot = hash(word) % SLOTS
                while slots[slot]:
                    slot = (slot + 1) % SLOTS
                slots[slot] = number
