"""The static embedder: the vector of a text is the weighted mean of the vectors of its words, from a shipped table.

A text takes less than a tenth of a millisecond, without numpy, which would increase the memory of an idle daemon by
half. Each word's vector is one large integer, so that one addition adds all its numbers.

A text is split into words, and these into their longest known parts: WordPiece tokens, as in uncased BERT models such
as MiniLM. The table contains 128 numbers (8 bits) and a weight for each piece of the vocabulary and for some whole
words. File format: `MVT1`, number of rows, numbers per row (32 bits each, little-endian), a weight for each row (16
bits), then the rows: first those of the lines of `vocabulary.txt`, then those of `words.txt`. The vector of a word is
its row times its weight.

To compare the single words of a query with those of many texts, only a word's row numbers in the table and the length
of their sum are cached, a quarter of the size of its vector, so that the words of most stores fit. The rows to compare
are read from the table, for all texts at once, with numpy.
"""

from __future__ import annotations

import importlib
import mmap
import os
import re
import struct
import threading
import unicodedata
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

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

    def matrix(self, numpy: Any) -> tuple[Any, Any]:
        """Return all rows without their weights, and the weights, both as views of the mapping."""
        rows = numpy.frombuffer(self._bytes, "i1", self.rows * self.size, self._first)
        weights = numpy.frombuffer(self._bytes, "<u2", self.rows, HEAD.size)
        return rows.reshape(self.rows, self.size), weights

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


# --- comparison word by word

MAX_ALIGNED = 65_536  # words whose numbers are cached, some 200 bytes each
MAX_COMPARED = 128  # words of a text that are compared
BLOCK = 1_024  # words whose rows are read at a time, into a buffer that fits in the CPU cache
NO_WORD = 0  # the number of an unknown word
_SIGNS = {number: " " for number in range(128) if not chr(number).isalnum()}


class _WordNumbers(dict[str, int]):
    """The number of each word. A new word gets the next number, and its rows are added to `new`."""

    def __init__(self, known: Mapping[str, int]) -> None:
        super().__init__()
        self._known = known
        self._next = NO_WORD + 1
        self.new: list[Sequence[int]] = [(0,)]

    def __missing__(self, word: str) -> int:
        rows = rows_of(word, self._known)
        if not rows:
            self[word] = NO_WORD
            return NO_WORD
        self.new.append(rows)
        self[word] = place = self._next
        self._next += 1
        return place


class WordAlignment:
    """Alignment of the words of a query with those of texts. For one thread at a time."""

    def __init__(self, table: Table, known: Mapping[str, int]) -> None:
        self._numpy = importlib.import_module("numpy")
        self._rows, self._weights = table.matrix(self._numpy)
        self._known = known
        self._begin()

    def _begin(self) -> None:
        numpy = self._numpy
        self._places = _WordNumbers(self._known)
        self._parts = numpy.empty(0, "i4")  # the rows of all words, concatenated
        self._ends = numpy.zeros(1, "i4")  # the end of the rows of each place, which is the start of the next
        self._lengths = numpy.empty(0, "f4")

    def align(self, question: str, texts: Sequence[str]) -> list[float]:
        """Score each text, -1..1: the mean similarity of each query word to its nearest word in the text, with more
        weight on informative words."""
        numpy = self._numpy
        if not texts:
            return []
        if len(self._places) >= MAX_ALIGNED:
            self._begin()
        query = list(map(self._places.__getitem__, dict.fromkeys(_some_words(question)))) or [NO_WORD]
        firsts, places = self._number(texts)
        self._add_new()
        best = numpy.maximum.reduceat(self._similarities(numpy.array(query), places), firsts, axis=0)
        weights = self._lengths[query]
        found: list[float] = (best @ weights / max(float(weights.sum()), 1e-9)).tolist()
        return found

    def _number(self, texts: Sequence[str]) -> tuple[Any, Any]:
        """Return the start of each text, and the places of the words of all texts, concatenated."""
        places: list[int] = []
        firsts: list[int] = []
        for text in texts:
            firsts.append(len(places))
            places += map(self._places.__getitem__, _some_words(text))
            if len(places) == firsts[-1]:
                places.append(NO_WORD)
        return self._numpy.array(firsts), self._numpy.array(places, "i4")

    def _add_new(self) -> None:
        """Compute the lengths of new words."""
        numpy, new, measured = self._numpy, self._places.new, len(self._lengths)
        if not new:
            return
        ends = numpy.cumsum(list(map(len, new))) + self._ends[-1]
        self._parts = numpy.concatenate([self._parts, [row for rows in new for row in rows]], dtype="i4")
        self._ends = numpy.concatenate([self._ends, ends], dtype="i4")
        new.clear()
        sums = map(self._sums, _blocks(numpy.arange(measured, len(self._ends) - 1)))
        self._lengths = numpy.concatenate([self._lengths, *(numpy.linalg.norm(each, axis=1) for each in sums)])
        self._lengths[NO_WORD] = 0

    def _similarities(self, query: Any, places: Any) -> Any:
        """Return the cosines of the word at each place with each query word; 0 for words without a length."""
        numpy = self._numpy
        present = numpy.flatnonzero(numpy.bincount(places))
        at = numpy.empty(int(present[-1]) + 1, "i4")
        at[present] = numpy.arange(len(present))
        columns = (self._sums(query) * self._inverse_lengths(query)).T
        near = [self._sums(some, columns) * self._inverse_lengths(some) for some in _blocks(present)]
        return numpy.concatenate(near)[at[places]]

    def _inverse_lengths(self, places: Any) -> Any:
        """Return the factor that normalises each sum of rows to length 1."""
        lengths = self._lengths[places]
        return self._numpy.where(lengths > 0, 1 / self._numpy.maximum(lengths, 1e-9), 0)[:, None]

    def _sums(self, places: Any, columns: Any = None) -> Any:
        """Sum the rows of each word; with `columns` sum their products with them, which costs less."""
        numpy = self._numpy
        firsts = self._ends[places]
        counts = self._ends[places + 1] - firsts
        begin = numpy.cumsum(counts) - counts
        parts = self._parts[numpy.repeat(firsts - begin, counts) + numpy.arange(int(counts.sum()))]
        values = self._rows.take(parts, axis=0).astype("f4")
        if columns is not None:
            values = values @ columns
        values *= self._weights[parts][:, None]
        return numpy.add.reduceat(values, begin, axis=0)


def _blocks(places: Any) -> Iterator[Any]:
    return (places[first : first + BLOCK] for first in range(0, len(places), BLOCK))


def _some_words(text: str) -> list[str]:
    """Return the words of a text without signs, MAX_COMPARED at most. A short text may repeat a word, which changes no
    result."""
    found = text.translate(_SIGNS).split() if text.isascii() else [word for word in words(text) if word.isalnum()]
    return found if len(found) <= MAX_COMPARED else list(dict.fromkeys(found))[:MAX_COMPARED]


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
