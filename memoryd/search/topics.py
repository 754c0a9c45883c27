"""Topic files are ranked by the points of seed 001: for keywords, context, tags, recency and use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Protocol

from memoryd.search.asked import Asked
from memoryd.search.candidates import Candidate
from memoryd.search.explaining import fold, needles, present
from memoryd.search.scoring import ALL, FORMS, PHRASE, Points, Told, of_points, pointed

_WHOLE = frozenset(span.name for span in (PHRASE, ALL, FORMS))


class Memory(Protocol):
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
    def memories(self, keys: Sequence[int]) -> Mapping[int, Memory]: ...


def by_points(
    reader: Reader, asked: Asked, found: Sequence[Candidate], limit: int, *, points: Points, now: float
) -> list[Candidate]:
    """The same memories in the order of their points; who says the whole question word by word stays before all."""
    memories = reader.memories([each.key for each in found])
    points_of = _Telling(asked, points, now)
    ranked = [points_of.scored(each, memories[each.key]) for each in found if each.key in memories]
    return sorted(ranked, key=attrgetter("score", "key"), reverse=True)[:limit]


class _Telling:
    """Counts for one question; many memories share their path and their tags, so these are looked at once."""

    def __init__(self, asked: Asked, points: Points, now: float) -> None:
        self._points = points
        self._now = now
        self._words = needles(asked, words_only=True)
        self._in_line = cache(lambda line: present(self._words, fold(line)))

    def scored(self, found: Candidate, memory: Memory) -> Candidate:
        tagged = sum(1 for tag in memory.tags.split("\n") if tag and self._in_line(tag))
        told = Told(self._keywords(found, memory), bool(self._in_line(memory.labels)), tagged)
        earned = pointed(self._points, told, (memory.created, memory.weight, memory.uses), self._now)
        # The measure of the index parts those with equal points.
        score = of_points(self._points, earned, len(self._words)) * 0.99 + 0.01 * found.why["text"]
        if found.why["match"] == PHRASE.name:
            score = PHRASE.low + (PHRASE.high - PHRASE.low) * score
        why = {**found.why, "points": round(earned, 3)}
        why |= {"keywords": told.keywords, "context": told.context, "tags": told.tags}
        return Candidate(found.key, score, why)

    def _keywords(self, found: Candidate, memory: Memory) -> int:
        """How many of the words it has: the index has said so where it is all of them."""
        if found.why["match"] in _WHOLE:
            return len(self._words)
        return present(self._words, fold(f"{memory.title}\n{memory.labels}\n{memory.tags}\n{memory.body}"))
