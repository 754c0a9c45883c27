"""Words one by one: how well those of a question are met by those of each of many texts.

Of a word nothing is kept but which rows of the table make it and how long their sum is, a quarter of what its vector
would take: so the words of most stores all have room. What is compared is fetched from the table, all texts at once.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memoryd.search.embedding.known import rows_of
from memoryd.search.embedding.pieces import words
from memoryd.search.embedding.table import Table

MOST_KEPT = 65_536  # words, some 200 bytes each
MOST_COMPARED = 128  # words of a text that are compared one by one
BLOCK = 1_024  # words whose rows are fetched at a time, into room that the processor's cache holds
NOBODY = 0  # the place of no word
_SIGNS = {number: " " for number in range(128) if not chr(number).isalnum()}


class _Places(dict[str, int]):
    """The place of each word. One that is met for the first time takes the next, and its rows wait in `new`."""

    def __init__(self, known: Mapping[str, int]) -> None:
        super().__init__()
        self._known = known
        self._next = NOBODY + 1
        self.new: list[Sequence[int]] = [(0,)]

    def __missing__(self, word: str) -> int:
        rows = rows_of(word, self._known)
        if not rows:
            self[word] = NOBODY
            return NOBODY
        self.new.append(rows)
        self[word] = place = self._next
        self._next += 1
        return place


class Apart:
    """By one thread at a time."""

    def __init__(self, table: Table, known: Mapping[str, int]) -> None:
        self._numpy = importlib.import_module("numpy")
        self._rows, self._weights = table.matrix(self._numpy)
        self._known = known
        self._begin()

    def _begin(self) -> None:
        numpy = self._numpy
        self._places = _Places(self._known)
        self._parts = numpy.empty(0, "i4")  # the rows of all words, one word behind the other
        self._ends = numpy.zeros(1, "i4")  # where those of each place end, and behind it those of the next begin
        self._lengths = numpy.empty(0, "f4")

    def align(self, question: str, texts: Sequence[str]) -> list[float]:
        """Of each word of the question the nearest of a text, the telling ones counting more; -1..1 for each text."""
        numpy = self._numpy
        if not texts:
            return []
        if len(self._places) >= MOST_KEPT:
            self._begin()
        asked = list(map(self._places.__getitem__, dict.fromkeys(_some_words(question)))) or [NOBODY]
        firsts, places = self._placed(texts)
        self._take_in()
        best = numpy.maximum.reduceat(self._near(numpy.array(asked), places), firsts, axis=0)
        telling = self._lengths[asked]
        found: list[float] = (best @ telling / max(float(telling.sum()), 1e-9)).tolist()
        return found

    def _placed(self, texts: Sequence[str]) -> tuple[Any, Any]:
        """The places of the words of all texts, one text behind the other, and where each text begins."""
        places: list[int] = []
        firsts: list[int] = []
        for text in texts:
            firsts.append(len(places))
            places += map(self._places.__getitem__, _some_words(text))
            if len(places) == firsts[-1]:
                places.append(NOBODY)
        return self._numpy.array(firsts), self._numpy.array(places, "i4")

    def _take_in(self) -> None:
        """What waits gets its length."""
        numpy, new, measured = self._numpy, self._places.new, len(self._lengths)
        if not new:
            return
        ends = numpy.cumsum(list(map(len, new))) + self._ends[-1]
        self._parts = numpy.concatenate([self._parts, [row for rows in new for row in rows]], dtype="i4")
        self._ends = numpy.concatenate([self._ends, ends], dtype="i4")
        new.clear()
        sums = map(self._sums, _blocks(numpy.arange(measured, len(self._ends) - 1)))
        self._lengths = numpy.concatenate([self._lengths, *(numpy.linalg.norm(each, axis=1) for each in sums)])
        self._lengths[NOBODY] = 0

    def _near(self, asked: Any, places: Any) -> Any:
        """The cosines of the word at each place with each of those asked for; what has no length is near to nothing."""
        numpy = self._numpy
        present = numpy.flatnonzero(numpy.bincount(places))
        at = numpy.empty(int(present[-1]) + 1, "i4")
        at[present] = numpy.arange(len(present))
        sought = (self._sums(asked) * self._shrinking(asked)).T
        near = [self._sums(some, sought) * self._shrinking(some) for some in _blocks(present)]
        return numpy.concatenate(near)[at[places]]

    def _shrinking(self, places: Any) -> Any:
        """By what a sum of rows comes to length 1."""
        lengths = self._lengths[places]
        return self._numpy.where(lengths > 0, 1 / self._numpy.maximum(lengths, 1e-9), 0)[:, None]

    def _sums(self, places: Any, columns: Any = None) -> Any:
        """Of each word its rows together; or their product with the columns, which costs less to add."""
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
    """Without signs; in a short text one may be there twice, which changes nothing."""
    found = text.translate(_SIGNS).split() if text.isascii() else [word for word in words(text) if word.isalnum()]
    return found if len(found) <= MOST_COMPARED else list(dict.fromkeys(found))[:MOST_COMPARED]
