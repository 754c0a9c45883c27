"""The static embedder: the vector of a text is the weighted mean of the vectors of its words, from a shipped table.

A text takes less than a tenth of a millisecond, without numpy, which would increase the memory of an idle daemon by
half. Each word's vector is one large integer, so that one addition adds all its numbers.

A text is split into words, and these into their longest known parts: WordPiece tokens, as in uncased BERT models such
as MiniLM. The table contains 128 numbers (8 bits) and a weight for each piece of the vocabulary and for some whole
words. File format: `MVT1`, number of rows, numbers per row (32 bits each, little-endian), a weight for each row (16
bits), then the rows: first those of the lines of `vocabulary.txt`, then those of `words.txt`. The vector of a word is
its row times its weight.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
import threading
import unicodedata
from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from memoryd.search.embedding.embedder import EmbedderError

NAME = "static-128-1"
SIZE = 128
MAX_CACHED = 8_192  # words whose integers are cached, half a kilobyte each
DIRECTORY = Path(__file__).parent / "table"
VOCABULARY = DIRECTORY / "vocabulary.txt"
WORDS = DIRECTORY / "words.txt"
TABLE = DIRECTORY / "static-128.bin"
MAGIC = b"MVT1"
HEAD = struct.Struct("<4sII")
LANE = 32  # bits of each number in a row packed into one integer
MAX_WORDS = 4096  # words of a text that are added: no lane overflows, and more would not change the mean
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


def read_vocabulary(path: Path = VOCABULARY) -> dict[str, int]:
    """Return the number (the 0-based line) of each piece; pieces that continue a word begin with `##`."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return {piece: number for number, piece in enumerate(lines) if piece}


def is_common_word(word: str) -> bool:
    """True for a lower-case word that has a row of its own."""
    sought = f"\n{word}\n".encode()
    return any(sought in words for words in _word_lists())


@cache
def _word_lists() -> tuple[bytes, bytes]:
    return VOCABULARY.read_bytes(), WORDS.read_bytes()


def pieces(word: str, vocabulary: Mapping[str, int]) -> Sequence[int]:
    """Split a word into its longest known prefix and the longest continuations; empty if a part is unknown."""
    whole = vocabulary.get(word)
    if whole is not None:
        return (whole,)
    if len(word) > MAX_WORD_CHARS:
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


def word_rows() -> dict[str, int]:
    """Return the row number of each piece and word."""
    known = read_vocabulary()
    for word in WORDS.read_text(encoding="utf-8").split():
        known.setdefault(word, len(known))
    return known


def rows_of(word: str, known: Mapping[str, int]) -> Sequence[int]:
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
    """The vector table, memory-mapped: pages are loaded on access, and the system may evict them at any time."""

    def __init__(self, path: Path = TABLE) -> None:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._bytes = mmap.mmap(number, 0, prot=mmap.PROT_READ)
        finally:
            os.close(number)
        magic, self.rows, self.size = HEAD.unpack_from(self._bytes)
        self._first = HEAD.size + 2 * self.rows
        if magic != MAGIC or len(self._bytes) != self._first + self.rows * self.size:
            raise ValueError(f"{path}: is not a table of vectors")
        self._lanes = struct.Struct(f"<{self.size}i")
        self._signs = int.from_bytes(self._lanes.pack(*[-1 << LANE - 1] * self.size), "little")

    def row(self, number: int) -> int:
        """Return a row as one integer whose lanes are the numbers times the weight: a text is the sum of its words."""
        (weight,) = struct.unpack_from("<H", self._bytes, HEAD.size + 2 * number)
        at = self._first + number * self.size
        values = array("b", self._bytes[at : at + self.size])
        lanes = self._lanes.pack(*[value * weight for value in values])
        return (int.from_bytes(lanes, "little") ^ self._signs) - self._signs

    def numbers(self, total: int) -> tuple[int, ...]:
        """Return the lanes of a sum of rows. Adding the highest bit of each lane undoes the borrow of negative lanes;
        flipping that bit again restores the sign."""
        lanes: tuple[int, ...] = self._lanes.unpack(
            ((total + self._signs) ^ self._signs).to_bytes(4 * self.size, "little")
        )
        return lanes


def pack_bytes(numbers: Sequence[int]) -> bytes:
    """Pack numbers as one byte each, scaled so that the largest is 127: only the direction matters."""
    most, least = max(numbers), min(numbers)
    largest = max(most, -least)
    if not largest:
        return bytes(len(numbers))
    half = largest // 2
    return array("b", [(127 * number + half) // largest for number in numbers]).tobytes()


# --- the embedder


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

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return a vector of bytes for each text, all zeros if no word is known."""
        cache = self._load()
        numbers, get = cache.table.numbers, cache.__getitem__
        return [pack_bytes(numbers(sum(map(get, words(text)[:MAX_WORDS])))) for text in texts]

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
            self._cache = None

    def _load(self) -> _WordCache:
        with self._loading:
            self.calls += 1
            if self._cache is None:
                self._cache = _open(self._path)
            return self._cache
