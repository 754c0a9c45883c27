"""The text arm: memories by their words, the best first.

All words first; only where too few have them, the words in other forms, then some of the words, the rare ones: what
stands in more than a tenth of the memories says too little to look for alone.

What a question costs follows from how many memories have its words, and is bounded: the index measures only by words
that tell something, and of a great many memories with a word only the last that came in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple, Protocol

from memoryd.core.asking import Filters
from memoryd.search.asked import Asked, Term
from memoryd.search.candidates import Candidate
from memoryd.search.explaining import counted
from memoryd.search.scoring import ALL, FORMS, PHRASE, SOME, Span, Worth, rarity, reasons, scored, share
from memoryd.search.stems import STOP_WORDS

POOL = 20  # memories of a step that are weighed against each other by more than their text
CHEAP = 3_000  # memories with any of the words: so many the index may measure without a second thought
NEWEST = 2_500  # memories that are measured where more match
SPREAD = 50  # memories that are measured for each place where only some of the words can be asked for
FILLING = 6  # the same for each place that is left where something better was found already
SHORT = 3  # words; a longer question is not asked again for all of them in other forms
FEW = 5  # a word in no more memories than this is never too common


Matched = tuple[int, float, float | None, float | None, int]
"""One memory that the index found: key, its own measure, and what the memory is worth beside its text."""


class Told(Protocol):
    """One memory with its texts."""

    @property
    def key(self) -> int: ...
    @property
    def title(self) -> str: ...
    @property
    def tags(self) -> str: ...
    @property
    def labels(self) -> str: ...
    @property
    def body(self) -> str: ...
    @property
    def created(self) -> float | None: ...
    @property
    def weight(self) -> float | None: ...
    @property
    def uses(self) -> int: ...


class Reader(Protocol):
    """What is asked of a catalogue, within one snapshot. `usual_length` is that of a text, in characters."""

    @property
    def size(self) -> int: ...
    @property
    def usual_length(self) -> float: ...
    def frequency(self, expression: str) -> int: ...
    def matching(self, expression: str, filters: Filters, most: int) -> Sequence[Told] | None: ...
    def best(
        self, expression: str, filters: Filters, limit: int, *, newest: int = 0, within: str = ""
    ) -> Sequence[Matched]: ...
    def best_with(
        self, expression: str, phrase: str, filters: Filters, limit: int
    ) -> Sequence[tuple[Matched, bool]]: ...


Found = tuple[float, int, Span, float, Worth]
"""Score, key, and a match that is a part (0..1) of the best of its span."""
Matches = list[tuple[int, float, Worth]]


class Sought(NamedTuple):
    """A term and how many memories have it."""

    term: Term
    often: int


def text_candidates(reader: Reader, asked: Asked, filters: Filters, limit: int, now: float) -> list[Candidate]:
    """At most `limit`; ties go to what came into the catalogue last."""
    found: dict[int, Found] = {}
    for span, matches in _steps(reader, asked, filters, limit, found):
        for key, part, worth in matches:
            if key not in found:
                found[key] = scored(span, part, worth, now), key, span, part, worth
        if len(found) >= limit:
            break
    best = sorted(found.values(), key=itemgetter(0, 1), reverse=True)[:limit]
    return [Candidate(key, score, reasons(span, part, worth, now)) for score, key, span, part, worth in best]


def _steps(
    reader: Reader, asked: Asked, filters: Filters, limit: int, found: dict[int, Found]
) -> Iterator[tuple[Span, Matches]]:
    """One after the other as they are needed; `found` grows meanwhile."""
    look = _Look(reader, filters, max(POOL, 2 * limit))
    whole, every = look.exact(asked)
    yield PHRASE, whole
    yield ALL, every
    if not (whole or every) and len(asked.loose) <= SHORT:
        yield FORMS, look.together(asked.loose)
    if len(asked.loose) > 1:
        budget = FILLING * limit if found else min(SPREAD * limit, CHEAP)
        yield SOME, look.some(asked.telling if found else asked.loose, asked, budget)


class _Look:
    """Ways to look into one catalogue for one question."""

    def __init__(self, reader: Reader, filters: Filters, pool: int) -> None:
        self._reader = reader
        self._filters = filters
        self._pool = pool

    def sought(self, terms: Iterable[Term]) -> list[Sought]:
        return [Sought(term, self._count(term)) for term in terms]

    def _count(self, term: Term) -> int:
        """That a word which says nothing is common needs no counting where there are many memories."""
        if term.text in STOP_WORDS and self._reader.size > CHEAP:
            return self._reader.size // 2
        return self._reader.frequency(term.expression)

    def exact(self, asked: Asked) -> tuple[Matches, Matches]:
        """Memories with the question word by word, and those with all of its words (some in both)."""
        whole = asked.phrase
        if whole is None:
            return self.together(asked.exact), []
        if self._reader.size > CHEAP:
            every = self.together(asked.exact)
            return self._phrase(whole) if every else [], every
        expression = _all_of(asked.exact)
        rows = self._reader.best_with(expression, whole.expression, self._filters, self._pool)
        shares = self._shares([row for row, _ in rows], asked.exact)
        return [each for each, (_, told) in zip(shares, rows, strict=True) if told], shares

    def _phrase(self, whole: Term) -> Matches:
        few = self._reader.matching(whole.expression, self._filters, self._pool)
        if few is not None:
            return self._read([Sought(whole, 1)], few)
        return self._measured(whole.expression, [whole], newest=NEWEST)

    def together(self, terms: Sequence[Term]) -> Matches:
        """Memories with all of the terms. Where there are many memories, what matches is fetched first: mostly it is
        next to nothing, while measuring costs as much as all memories with any of the words."""
        if not terms:
            return []
        every = _all_of(terms)
        if self._reader.size <= CHEAP or (len(terms) == 1 and self._count(terms[0]) <= CHEAP):
            return self._measured(every, terms)
        few = self._reader.matching(every, self._filters, self._pool)
        if few is not None:
            return self._read(self.sought(terms), few) if few else []
        telling = _affordable(self.sought(terms), self._common, CHEAP)
        by = [each.term for each in telling]
        within = every if len(telling) < len(terms) else ""
        return self._measured(_all_of(by), by, newest=NEWEST, within=within)

    def some(self, terms: Sequence[Term], asked: Asked, budget: int) -> Matches:
        """Memories with any of the telling terms, or a unit of them as it was typed."""
        known = [each for each in self.sought(terms) if each.often]
        if not known:
            return []
        telling = _affordable(known, self._common, budget)
        units = [term.expression for term in asked.exact if " " in term.text]
        by = " OR ".join([*(each.term.expression for each in telling), *units])
        return self._measured(by, terms, newest=NEWEST if len(telling) == 1 else 0)

    @property
    def _common(self) -> float:
        return max(self._reader.size / 10, FEW)

    def _measured(self, expression: str, terms: Sequence[Term], *, newest: int = 0, within: str = "") -> Matches:
        """By the index, as a part of what all of the terms could earn."""
        rows = self._reader.best(expression, self._filters, self._pool, newest=newest, within=within)
        return self._shares(rows, terms)

    def _shares(self, rows: Sequence[Matched], terms: Sequence[Term]) -> Matches:
        most = sum(rarity(self._count(term), self._reader.size) for term in terms) if rows else 0.0
        return [(row[0], share(row[1], most), row[2:]) for row in rows]

    def _read(self, terms: Sequence[Sought], memories: Iterable[Told]) -> Matches:
        """Measured here as the index would."""
        rarities = [rarity(each.often, self._reader.size) for each in terms]
        plain = [each.term for each in terms]
        found: Matches = []
        for each in memories:
            length = 0.25 + 0.75 * len(each.body) / self._reader.usual_length
            fields = ((3, each.title), (2, f"{each.labels}\n{each.tags}"), (1, each.body))
            counts = zip(*([weight * n for n in counted(plain, text)] for weight, text in fields), strict=True)
            parts = (sum(each) / (sum(each) + 1.2 * length) for each in counts)
            part = sum(map(float.__mul__, rarities, parts)) / (sum(rarities) or 1.0)
            found.append((each.key, part, (each.created, each.weight, each.uses)))
        return found


def _all_of(terms: Iterable[Term]) -> str:
    return " AND ".join(term.expression for term in terms)


def _affordable(terms: Sequence[Sought], common: float, budget: int) -> list[Sought]:
    """The terms that tell something, the rarest first, while what they find can be measured; the rarest in any case."""
    rising = sorted(terms, key=lambda each: each.often)
    chosen = [each for each in rising if each.often <= common] or rising[:1]
    total = 0
    for number, each in enumerate(chosen):
        total += each.often
        if total > budget and number:
            return chosen[:number]
    return chosen
