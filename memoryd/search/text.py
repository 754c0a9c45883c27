"""The text arm: memories by their words, the best first.

All words first; only where too few have them, the words in other forms, then some of the words, the rare ones: what
stands in more than a tenth of the memories says too little to look for alone. Each step costs what it finds, so the
sum of what is looked at is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from memoryd.core.asking import Filters
from memoryd.search.asked import Asked, Term
from memoryd.search.candidates import Candidate
from memoryd.search.scoring import ALL, FORMS, PHRASE, SOME, Span, Worth, rarity, scored, share

POOL = 50  # memories of a step that are weighed against each other by more than their text
NEWEST = 2_500  # memories that are measured in one step
FEW = 5  # a word in no more memories than this is never too common


class Matched(Protocol):
    """One memory that the index found; `score` is its own measure."""

    @property
    def key(self) -> int: ...
    @property
    def score(self) -> float: ...
    @property
    def created(self) -> float | None: ...
    @property
    def weight(self) -> float | None: ...
    @property
    def uses(self) -> int: ...


class Reader(Protocol):
    """What is asked of a catalogue, within one snapshot."""

    @property
    def size(self) -> int: ...
    def frequency(self, expression: str) -> int: ...
    def best(self, expression: str, filters: Filters, limit: int, newest: int) -> Sequence[Matched]: ...


class Step(NamedTuple):
    """One way to look: `rarities` are those of all the words that could have matched, added up."""

    span: Span
    expression: str
    rarities: float
    few: bool  # surely no more than NEWEST match


def text_candidates(reader: Reader, asked: Asked, filters: Filters, limit: int, now: float) -> list[Candidate]:
    """At most `limit`; ties go to what came into the catalogue last."""
    found: dict[int, Candidate] = {}
    for step in _steps(reader, asked):
        if len(found) >= limit:
            break
        for match in reader.best(step.expression, filters, max(POOL, 2 * limit), 0 if step.few else NEWEST):
            if match.key not in found:
                part = share(match.score, step.rarities)
                worth = Worth(match.created, match.weight, match.uses)
                found[match.key] = Candidate(match.key, *scored(step.span, part, worth, now))
    return sorted(found.values(), key=lambda each: (-each.score, -each.key))[:limit]


def _steps(reader: Reader, asked: Asked) -> Iterator[Step]:
    """Made one after the other as they are needed."""
    exact = asked.exact
    if not exact:
        return
    often = [reader.frequency(term.expression) for term in exact]
    if min(often):
        whole = asked.phrase
        if whole is not None:
            count = reader.frequency(whole.expression)
            if count:
                yield Step(PHRASE, whole.expression, rarity(count, reader.size), count <= NEWEST)
        together = " AND ".join(term.expression for term in exact)
        span = ALL if whole is not None else PHRASE
        yield Step(span, together, _rarities(reader, often), min(often) <= NEWEST)
    yield from _loose_steps(reader, asked)


def _loose_steps(reader: Reader, asked: Asked) -> Iterator[Step]:
    loose = asked.loose
    often = {term: reader.frequency(term.expression) for term in loose}
    rarities = _rarities(reader, often.values())
    known = {term: count for term, count in often.items() if count}
    if known and len(known) == len(loose):
        together = " AND ".join(term.expression for term in loose)
        yield Step(FORMS, together, rarities, min(known.values()) <= NEWEST)
    if len(loose) > 1 and known:
        chosen = _telling(known, reader.size)
        phrases = [term.expression for term in asked.exact if " " in term.text]
        some = " OR ".join([*(term.expression for term in chosen), *phrases])
        yield Step(SOME, some, rarities, sum(known[term] for term in chosen) <= NEWEST)


def _telling(known: dict[Term, int], size: int) -> list[Term]:
    """The words that are worth looking for alone, the rarest first, while what they find can be measured."""
    rising = sorted(known, key=lambda term: known[term])
    common = max(size / 10, FEW)
    chosen = [term for term in rising if known[term] <= common] or rising[:1]
    total, most = 0, len(chosen)
    for number, term in enumerate(chosen):
        total += known[term]
        if total > 2 * NEWEST and number:
            most = number
            break
    return chosen[:most]


def _rarities(reader: Reader, counts: Iterable[int]) -> float:
    return sum(rarity(count, reader.size) for count in counts)
