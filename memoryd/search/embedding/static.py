"""The static embedder: the vector of a text is the weighted mean of the vectors of its words, from a shipped table.

A text takes some tenths of a millisecond. Each word's vector is one large integer, so that one addition adds all its
numbers. The first words weigh more.

A text is split into words, and these into their longest known parts: WordPiece tokens, as in uncased BERT models such
as MiniLM. The table contains 128 numbers (8 bits) and a weight for each piece of the vocabulary and for some whole
words. File format: `MVT1`, number of rows, numbers per row (32 bits each, little-endian), a weight for each row (16
bits), then the rows: first those of the lines of `vocabulary.txt`, then those of `words.txt`. The vector of a word is
its row times its weight.
"""

from __future__ import annotations

import os
import re
import struct
import threading
import unicodedata
import weakref
from array import array
from collections.abc import Iterator, Sequence
from math import hypot, log
from operator import mul
from pathlib import Path

from memoryd.core.vectors import Lanes
from memoryd.errors import EmbedderError
from memoryd.search.embedding.vocabulary import DIRECTORY, Numbers, known_words, related_words

NAME = "static-128-3"
SIZE = 128
MAX_CACHED = 4_096  # words whose integers are cached, a kilobyte each
TABLE = DIRECTORY / "static-128.bin"
MAGIC = b"MVT1"
HEAD, WEIGHT = struct.Struct("<4sII"), struct.Struct("<H")
MAX_WORDS = 4096  # words of a text that are added: more would not change the mean
# The first words of a text often name its subject: each has this much more weight than the OTHERS, by 8 * exp(-n / 7)
# (tests.bench.finding).
FIRST, OTHERS = (8, 7, 6, 5, 5, 4, 3, 3, 3, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1), 8
# The logarithm of the length of a vector for each character of its text, for a question whose hits lose and gain no
# confidence; half of the questions of tests.bench.finding have more than 13.2.
TYPICAL_DENSITY = 13.04
MAX_WORD_CHARS = 100  # a longer string is not a word of any language and stays unknown

# Of ASCII every sign is a token of its own; the rest is decided character by character.
_ASCII = re.compile(r"[A-Za-z0-9]+|[!-/:-@\[-`{-~]")
_WORD_OR_SIGN = re.compile(r"[^\W_]+|[^\s\w]|_")
# `maxRetries`, `HTTPServer2`: the words within a name
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_IDEOGRAPH = re.compile(
    "([\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f"
    "\U0002b820-\U0002ceaf\uf900-\ufaff\U0002f800-\U0002fa1f])"
)


# --- tokens


def words(text: str) -> list[str]:
    """Split a text into words and signs, in order; case is preserved, accents are removed, ideographs are split."""
    if text.isascii():
        return _ASCII.findall(text)
    bare = "".join(sign for sign in unicodedata.normalize("NFD", text) if unicodedata.category(sign) != "Mn")
    return _WORD_OR_SIGN.findall(_IDEOGRAPH.sub(r" \1 ", bare))


def is_common_word(word: str) -> bool:
    """True for a lower-case word that has a row of its own."""
    return word in known_words()


def pieces(word: str, vocabulary: Numbers) -> Sequence[int]:
    """Split a word into its longest known prefix and the longest continuations; empty if a part is unknown."""
    whole = vocabulary.get(word)
    if whole is not None:
        return (whole,)
    if len(word) > MAX_WORD_CHARS:
        return ()
    found = list(_longest_parts(word, vocabulary))
    return () if -1 in found else found


def _longest_parts(word: str, vocabulary: Numbers) -> Iterator[int]:
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


def rows_of(word: str, known: Numbers) -> Sequence[int]:
    """Return the rows of a word: of the word itself, or of the words within it, or of its pieces."""
    lowered = word.lower()
    whole = known.get(lowered)
    if whole is not None:
        return (whole,)
    within = words_within(word) if word.isascii() else []
    if len(within) > 1:
        return [row for part in within for row in pieces(part.lower(), known)]
    return pieces(lowered, known)


def words_within(name: str) -> list[str]:
    """Split a compound name into words; case is preserved."""
    return _PARTS.findall(name)


# --- the table of vectors


class Table:
    """The vector table, read row by row: mapped into memory, a hundred words would make most of it resident."""

    def __init__(self, path: Path = TABLE) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._file)
        magic, self.rows, self.size = HEAD.unpack(os.pread(self._file, HEAD.size, 0))
        self._first = HEAD.size + WEIGHT.size * self.rows
        self._weights = os.pread(self._file, WEIGHT.size * self.rows, HEAD.size)
        if magic != MAGIC or os.fstat(self._file).st_size != self._first + self.rows * self.size:
            raise ValueError(f"{path}: is not a table of vectors")
        self._lanes = Lanes(self.size)  # a word of 100 characters may be as many rows
        self.numbers = self._lanes.unpack

    def row(self, number: int) -> int:
        """Return a row as one integer whose lanes are the numbers times the weight: a text is the sum of its words."""
        weight: int
        (weight,) = WEIGHT.unpack_from(self._weights, WEIGHT.size * number)
        return self._lanes.pack(os.pread(self._file, self.size, self._first + number * self.size)) * weight


def pack_bytes(numbers: Sequence[int]) -> bytes:
    """Pack numbers as one byte each, scaled so that the largest is 127: only the direction matters."""
    most, least = max(numbers), min(numbers)
    largest = max(most, -least)
    if not largest:
        return bytes(len(numbers))
    half = largest // 2
    return array("b", [(127 * number + half) // largest for number in numbers]).tobytes()


def sum_of_words(rows: Sequence[int]) -> int:
    """Add the words of a text; the first ones weigh more."""
    more: int = sum(map(mul, FIRST, rows))
    return OTHERS * sum(rows) + more


# --- the embedder


class _WordCache(dict[str, int]):
    """A cache of the integer of each word, computed on first use."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.table = Table(path)
        self.known = known_words()

    def __missing__(self, word: str) -> int:
        total = sum(map(self.table.row, rows_of(word, self.known)))
        if len(self) < MAX_CACHED:
            self[word] = total
        return total

    def sum_of(self, text: str) -> Sequence[int]:
        """Return the sum of the vectors of the words of a text."""
        return self.table.numbers(sum_of_words([*map(self.__getitem__, words(text)[:MAX_WORDS])]))


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

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return a vector of bytes for each text, all zeros if no word is known."""
        cache = self._load()
        return [pack_bytes(cache.sum_of(text)) for text in texts]

    def density(self, question: str) -> float:
        """Return how dense a question is, -1 to 1: the length of its vector for each character, as a logarithm; 0 for a
        typical question and for one without known words. Common words have short vectors."""
        length, signs = hypot(*self._load().sum_of(question)), len(" ".join(question.split()))
        return min(max(log(length / signs) - TYPICAL_DENSITY, -1.0), 1.0) if length else 0.0

    def knows(self, question: str) -> bool:
        """True if any of its words, or of the words within them, is in the table. A word made of pieces alone
        (`zzzqqq`) would be similar to anything."""
        known = self._load().known
        return any(
            word.lower() in known or any(part.lower() in known for part in words_within(word))
            for word in words(question)
            if word.isalnum()
        )

    def related(self, word: str) -> Sequence[str]:
        """Return the words nearest in meaning to an English word."""
        return related_words(word)

    def release(self) -> None:
        """Release words and table until they are needed again."""
        with self._loading:
            self._cache = None

    def _load(self) -> _WordCache:
        with self._loading:
            self.calls += 1
            if self._cache is None:
                self._cache = _open(self._path)
            return self._cache
