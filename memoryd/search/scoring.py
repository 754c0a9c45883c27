"""What a score is made of, so that it means the same in every root.

A score lies in 0..1. First comes how a memory matches: the whole question word by word, all of its words, all that
tell something in any form, some of them, or a part of a word. Each of these has a span of its own, and within it
counts how well the words are matched: the measure of the index (BM25, fields weighted) as a part of the most that
these words could earn in that root. A root with few memories and one with many so come to the same scale. What a
memory is worth beside its text (its age, its weight in its own layout, how often it was read) moves it within the span
by a fifth at most: much better text always wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log
from types import MappingProxyType
from typing import Any, NamedTuple

from memoryd.core.policy import DAY

STANDING = 0.2  # the share of age, weight and uses in a span
_HALF_LIFE = 90 * DAY
_MOST_OF_A_WORD = 2.2  # BM25 of a word that is there without end: k1 + 1


class Span(NamedTuple):
    name: str
    low: float
    high: float


PHRASE = Span("phrase", 0.75, 1.0)
ALL = Span("all words", 0.5, 0.85)
FORMS = Span("all words in some form", 0.4, 0.75)
SOME = Span("some words", 0.05, 0.6)
PART = Span("part of a word", 0.0, 0.05)


@dataclass(frozen=True, slots=True)
class Points:
    """How seed 001 scores topic files: so much for each keyword found, for the context (a word of the topic's path),
    for a tag, for a memory of today (falling by `decay` a day), for each five uses."""

    keyword: float = 3.0
    context: float = 5.0
    tag: float = 2.0
    recency: float = 1.0
    decay: float = 0.1
    uses: float = 1.0


NO_POINTS: Mapping[str, float] = MappingProxyType({})


Worth = tuple[float | None, float | None, int]
"""What is known of a memory beside its text: when it was made (seconds), its weight, its uses."""


def rarity(frequency: int, size: int) -> float:
    """What finding a word tells, as the index measures it: next to nothing where half of all memories have it."""
    return max(log((size - frequency + 0.5) / (frequency + 0.5)), 1e-6)


def share(score: float, rarities: float) -> float:
    """A measure of the index as a part of the most that words of these rarities could earn; 0..1."""
    return min(score / (_MOST_OF_A_WORD * rarities), 1.0) if rarities else 0.0


def scored(span: Span, part: float, worth: Worth, now: float) -> float:
    """The score of a match that is `part` (0..1) of the best of its span."""
    created, weight, uses = worth
    standing = 0.5 * recency(created, now) + 0.15 * uses / (uses + 5)
    standing += 0.175 if weight is None else 0.35 * min(max(weight, 0.0), 1.0)
    return span.low + (span.high - span.low) * ((1 - STANDING) * part + STANDING * standing)


def reasons(span: Span, part: float, worth: Worth, now: float) -> dict[str, Any]:
    """What such a score is made of."""
    return {
        "match": span.name,
        "text": round(part, 4),
        "recency": round(recency(worth[0], now), 4),
        "weight": worth[1],
        "uses": worth[2],
    }


def recency(created: float | None, now: float) -> float:
    """1 for today, half of it after each half-life; 0 where nobody knows."""
    if created is None:
        return 0.0
    return float(0.5 ** ((now - created) / _HALF_LIFE)) if created < now else 1.0


class Told(NamedTuple):
    """What of a question a memory of topic files has: so many of its words, one of them in its path, in its tags."""

    keywords: int
    context: bool
    tags: int


def pointed(points: Points, told: Told, worth: Worth, now: float) -> float:
    """The points of seed 001."""
    created, _, uses = worth
    fresh = exp(-points.decay * max(now - created, 0.0) / DAY) if created is not None else 0.0
    return (
        points.keyword * told.keywords
        + points.context * told.context
        + points.tag * told.tags
        + points.recency * fresh
        + points.uses * (uses // 5)
    )


def of_points(points: Points, earned: float, of: int) -> float:
    """Points as a score: one half for a memory that has every word and nothing else."""
    every = points.keyword * of
    found = earned / (earned + every) if earned > 0 else 0.0
    return found if found <= 0.5 else 0.5 + (found - 0.5) / 2
