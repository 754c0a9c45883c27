"""Comparison of the single words of a query with those of many texts.

Only a word's row numbers in the table and the length of their sum are cached, a quarter of the size of its vector, so
that the words of most stores fit. The rows to compare are read from the table, for all texts at once.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memoryd.search.embedding.wordpiece import Table, rows_of, words

MAX_CACHED = 65_536  # words, some 200 bytes each
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
        if len(self._places) >= MAX_CACHED:
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
