"""Topic files are ranked by the points of seed 001: for keywords, context, tags, recency and use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from memoryd.search.asked import Asked
from memoryd.search.candidates import Candidate
from memoryd.search.explaining import fold, keywords, names, needles, spots
from memoryd.search.scoring import PHRASE, Points, Told, of_points, pointed


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
    reader: Reader, asked: Asked, found: Sequence[Candidate], points: Points, limit: int, now: float
) -> list[Candidate]:
    """The same memories in the order of their points; who says the whole question word by word stays before all."""
    memories = reader.memories([each.key for each in found])
    ranked = [_pointed(asked, each, memories[each.key], points, now) for each in found if each.key in memories]
    return sorted(ranked, key=lambda each: (-each.score, -each.key))[:limit]


def _pointed(asked: Asked, found: Candidate, memory: Memory, points: Points, now: float) -> Candidate:
    worth = (memory.created, memory.weight, memory.uses)
    every = needles(asked)
    text = f"{memory.title}\n{memory.labels}\n{memory.tags}\n{memory.body}"
    tagged = sum(1 for tag in memory.tags.split("\n") if tag and keywords(asked, tag))
    told = Told(len(names(every, spots(every, fold(text)))), bool(keywords(asked, memory.labels)), tagged)
    earned = pointed(points, told, worth, now)
    part = of_points(points, earned, len(asked.loose))
    # The measure of the index parts those with equal points.
    score = part * 0.99 + 0.01 * found.why["text"]
    if found.why["match"] == PHRASE.name:
        score = PHRASE.low + (PHRASE.high - PHRASE.low) * score
    why = {**found.why, "points": round(earned, 3), "keywords": told.keywords, "context": told.context, "tags": tagged}
    return found._replace(score=score, why=why)
