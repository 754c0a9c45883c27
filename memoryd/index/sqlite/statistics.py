"""Statistics of the full-text index, cached for one state of it: its size, and how many memories contain a term."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

from memoryd.core.query import Term
from memoryd.core.words import STOP_WORDS
from memoryd.index.sqlite.database import Database, Row
from memoryd.index.sqlite.memories import term_expression

MAX_SCORED = 3_000  # memories with any of the words that FTS5 scores without a limit on the newest
_MAX_BM25 = 2.2  # the limit of BM25 for a word that occurs infinitely often: k1 + 1
_COMMON = 1_000  # counts from here on stay cached while the index changes little
_MIN_COUNT_LIMIT = 4_000  # counting never stops below this number of memories
_LETTERS = 6.5  # average length of a word with the space after it
_MAX_CACHED = 20_000  # words whose frequency is cached
_COUNT = "(SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?))"
_TOTALS = "SELECT block FROM words_data WHERE id = 1"  # maintained by FTS5: number of rows, then of words in each field


class Statistics:
    """Statistics on one connection; used by one thread at a time. `mostly_archived`: so many memories are archived that
    the best matches are not looked up before the others; None: not known yet."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._version = -1
        self._size = self._word_count = 0
        self.mostly_archived: bool | None = None
        self._frequencies: dict[str, int] = {}

    def begin(self) -> bool:
        """Drop what was cached for an older state; False if nothing changed. The first read begins the snapshot."""
        row = self._db.row("PRAGMA data_version")
        version = row[0] if row else 0
        if version == self._version:
            return False
        self._version = version
        self._read_totals()
        return True

    def _read_totals(self) -> None:
        size, *words = _numbers(self._db.row(_TOTALS))
        alike = abs(size - self._size) * 20 < size
        common = {each: count for each, count in self._frequencies.items() if count >= _COMMON} if alike else {}
        self._frequencies, self._size, self._word_count = common, size, sum(words)
        self.mostly_archived = self.mostly_archived if alike else None

    @property
    def size(self) -> int:
        """The number of memories, archived ones included."""
        if not self._db.read_only:
            self._read_totals()  # the writer has no snapshots, in which the totals would be current
        return self._size

    @property
    def usual_length(self) -> float:
        """The average length of a memory in characters, at least 1."""
        return max(_LETTERS * self._word_count / max(self._size, 1), 1.0)

    def term_frequencies(self, terms: Sequence[Term]) -> list[int]:
        """Return the number of memories that contain each term; approximate for common terms. Stop words are not
        counted in a large index: they are taken to be in half of the memories."""
        size = self.size
        if size <= MAX_SCORED:
            return self.count(list(map(term_expression, terms)))
        counts = iter(self.count([term_expression(term) for term in terms if term.text not in STOP_WORDS]))
        return [size // 2 if term.text in STOP_WORDS else next(counts) for term in terms]

    def count(self, expressions: Sequence[str]) -> list[int]:
        """Return the number of memories that match each expression, in one query. Counting stops at a fifth of all
        memories: it does not matter how common a common word is."""
        known = self._frequencies
        missing = [each for each in dict.fromkeys(expressions) if each not in known]
        if missing:
            if len(known) > _MAX_CACHED:
                known.clear()
                missing = list(dict.fromkeys(expressions))
            most = max(self._size // 5, _MIN_COUNT_LIMIT)
            values = [value for each in missing for value in (each, most)]
            row = self._db.row(f"SELECT {', '.join([_COUNT] * len(missing))}", values)
            known.update(zip(missing, row or (), strict=True))
        return [known[each] for each in expressions]

    def idf(self, frequency: int) -> float:
        """Return the inverse document frequency as FTS5 computes it: nearly 0 for a word in half of all memories.

        A frequency may exceed the size: memories have been deleted since it was counted, or a phrase is taken to be in
        one memory of an empty index."""
        return max(log((max(self._size - frequency, 0) + 0.5) / (frequency + 0.5)), 1e-6)

    def full_score(self, terms: Sequence[Term]) -> float:
        """Return the highest BM25 score that these terms could reach together; above 0."""
        return _MAX_BM25 * sum(self.idf(count) for count in self.term_frequencies(terms)) or 1.0


def _numbers(row: Row | None) -> list[int]:
    """Decode the totals of the index: variable-length integers, seven bits a byte, high bits first."""
    numbers, number = [], 0
    for byte in row[0] if row else b"":
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    return numbers or [0]
