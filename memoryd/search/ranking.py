"""Scores from 0 to 1 that are comparable between roots.

The kind of match comes first: the query as a phrase, all of its words, all informative words in any form, some of them,
or a part of a word. Each kind has a span of scores. The position in the span is the score of the index, as a fraction
of the highest score these words could reach in that root, which puts small and large roots on the same scale. Age,
weight in the layout and number of reads take away a tenth of the position at most, so a much better text match always
wins.

Topic files are ranked by the points of seed 001 instead: for keywords, context, tags, recency and use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from math import exp
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from memoryd.core.defaults import DAY
from memoryd.core.index import IndexReader, Match, Memory
from memoryd.core.text_match import fold, has_any
from memoryd.search.query_terms import ParsedQuery

PRIOR_SHARE = 0.1  # of its position in a span, what an old memory without weight and uses loses
_HALF_LIFE = 90 * DAY

Why = Mapping[str, object]
"""The parts of a score by name, plain JSON."""


class Candidate(Struct, frozen=True):
    """A memory that was found. `score` is 0..1 and comparable between roots; `why` lists its parts.

    `text`: how well its words match, 0..1; 0 if it was not found by its words. `confidence`: sure, likely or weak.
    `match`: what the index found, None if it was found by meaning alone. `lost`: what its confidence lost because a
    name or a number that is asked for is missing."""

    key: int
    score: float
    why: Why
    text: float = 0.0
    confidence: str = "weak"
    match: Match | None = None
    lost: float = 0.0


class Span(NamedTuple):
    """The range of scores that one kind of match can get."""

    name: str
    low: float
    high: float


PHRASE = Span("phrase", 0.75, 1.0)
ALL = Span("all words", 0.5, 0.75)
FORMS = Span("all words in some form", 0.4, 0.75)
SOME = Span("some words", 0.05, 0.6)
PART = Span("part of a word", 0.0, 0.05)
_WHOLE = frozenset(span.name for span in (PHRASE, ALL, FORMS))
_SPANS = {span.name: span for span in (PHRASE, ALL, FORMS, SOME, PART)}


class Points(Struct, frozen=True):
    """The weights of seed 001 for topic files: points for each keyword found, for the context (a word of the topic's
    path), for each tag, for a memory of today (decaying by exp(-decay) per day), for every five uses."""

    keyword: float = 3.0
    context: float = 5.0
    tag: float = 2.0
    recency: float = 1.0
    decay: float = 0.1
    uses: float = 1.0


def score(span: Span, match: Match, now: float) -> float:
    """Return the score of a match in its span. `now` in seconds."""
    weight = match.weight
    prior = 0.5 * recency(match.created, now) + 0.15 * match.uses / (match.uses + 5)
    prior += 0.175 if weight is None else 0.35 * min(max(weight, 0.0), 1.0)
    return span.low + (span.high - span.low) * match.score * (1 - PRIOR_SHARE * (1 - prior))


def score_of_words(found: Candidate) -> float | None:
    """Return the score of a candidate's words in the span of its match, without age, weight and uses; None if it was
    not found by its words."""
    span = _SPANS.get(str(found.why.get("match")))
    return None if span is None else span.low + (span.high - span.low) * found.text


_WHY: Mapping[str, Why] = {name: {"match": name} for name in _SPANS}


def candidate(span: Span, match: Match, scored: float) -> Candidate:
    """Return the match as a candidate with this score."""
    return Candidate(match.key, scored, _WHY[span.name], match.score, match=match)


def with_reasons(found: Sequence[Candidate], now: float) -> list[Candidate]:
    """Return candidates with the parts of their text score, which only those that are returned need. `now` in
    seconds."""
    return [each if each.match is None else replace(each, why=_reasons(each.match, each.why, now)) for each in found]


def _reasons(match: Match, why: Why, now: float) -> Why:
    return {
        "match": why["match"],
        "text": round(match.score, 4),
        "recency": round(recency(match.created, now), 4),
        "weight": match.weight,
        "uses": match.uses,
        **why,
    }


def recency(created: float | None, now: float) -> float:
    """Return the recency of a memory: 1 for today, halved with each half-life; 0 if it has no date."""
    if created is None:
        return 0.0
    return float(0.5 ** ((now - created) / _HALF_LIFE)) if created < now else 1.0


class Counts(NamedTuple):
    """The matches of a topic memory: the number of keywords, whether one is in its path, the number of tags."""

    keywords: int
    context: bool
    tags: int


def points_earned(points: Points, counts: Counts, memory: Match | Memory, now: float) -> float:
    """Compute the points of seed 001. `now` in seconds."""
    created = memory.created
    fresh = exp(-points.decay * max(now - created, 0.0) / DAY) if created is not None else 0.0
    return (
        points.keyword * counts.keywords
        + points.context * counts.context
        + points.tag * counts.tags
        + points.recency * fresh
        + points.uses * (memory.uses // 5)
    )


def score_of_points(points: Points, earned: float, of: int) -> float:
    """Convert points to a score for a query of `of` words: one half for a memory that has every word and nothing else;
    from the points of a phrase match on, the score ranks with the phrase matches of other roots."""
    every = points.keyword * of
    found = earned / (earned + every) if earned > 0 else 0.0
    whole = points.keyword * (of + 1) + points.context
    pivot = whole / (whole + every) if every > 0 and whole > every else 1.0
    if found <= 0.5:
        return found
    if found < pivot or pivot == 1.0:
        return 0.5 + (PHRASE.low - 0.5) * (found - 0.5) / (pivot - 0.5)
    return PHRASE.low + (PHRASE.high - PHRASE.low) * (found - pivot) / (1.0 - pivot)


def rank_by_points(
    reader: IndexReader, query: ParsedQuery, found: Sequence[Candidate], *, points: Points, now: float, limit: int
) -> list[Candidate]:
    """Return the best `limit` candidates by their points, ties by how well their text matches. Candidates without any
    word of the query come last."""
    counter = _PointCounter(reader, query, found)
    ranked: list[tuple[float, float, int, float, Counts, Candidate]] = []
    for each in found:
        counts, facts = counter.count(each)
        if "match" in each.why or any(counts):
            earned = points_earned(points, counts, facts, now)
            scored = score_of_points(points, earned, len(query.loose))
            ranked.append((scored, each.text, each.key, earned, counts, each))
    ranked.sort(reverse=True)  # no two have the same key
    best = [
        replace(each, score=scored, why={**each.why, "points": round(earned, 3), **counts._asdict()})
        for scored, _, _, earned, counts, each in ranked[:limit]
    ]
    if len(best) < min(limit, len(found)):
        known = {each.key for each in best}
        best += below([each for each in found if each.key not in known], best, limit)
    return best


def below(found: Iterable[Candidate], ranked: Sequence[Candidate], limit: int) -> list[Candidate]:
    """Return `found` with scores below those that are ranked, at most `limit` with these."""
    lowest = min((each.score for each in ranked), default=1.0)
    return [replace(each, score=each.score * lowest) for each in islice(found, limit - len(ranked))]


FEW_READ = 3  # candidates whose texts are read and searched in less time than the index takes to list memories
MAX_KEYS = 1_000  # memories with a word; for a more common word, the texts of the candidates are searched


class _PointCounter:
    """Count what earns points. For rare words the index lists the memories, which is faster than reading them; of the
    others only those are read whose labels or tags have a word of the query."""

    def __init__(self, reader: IndexReader, query: ParsedQuery, found: Sequence[Candidate]) -> None:
        self._words = words = query.loose
        partial = [each.key for each in found if each.why.get("match") not in _WHOLE]
        few = len(found) <= FEW_READ
        listed = [None] * len(words) if few or not partial else reader.keys_with(words, MAX_KEYS)
        self._rare = [keys for keys in listed if keys is not None]
        self._common = [word for word, keys in zip(words, listed, strict=False) if keys is None]
        labelled = None if few else reader.keys_with_label(words, MAX_KEYS)
        read = {each.key for each in found if each.match is None or labelled is None or each.key in labelled}
        read.update(partial if self._common else ())
        self._memories = reader.memories([*read])

    def count(self, found: Candidate) -> tuple[Counts, Match | Memory]:
        """Return the counts of a candidate, and the rest of what earns points. The whole phrase counts as one more
        word, and as the context."""
        kind, memory, every = found.why.get("match"), self._memories.get(found.key), len(self._words)
        phrase = every > 1 and kind == PHRASE.name
        words = every if kind in _WHOLE else self._words_in(found.key, memory)
        facts = found.match or memory
        assert facts is not None
        if memory is None or not words:
            return Counts(words + phrase, phrase, 0), facts
        tagged = sum(has_any(self._words, fold(tag)) for tag in memory.tags.split("\n")) if memory.tags else 0
        return Counts(words + phrase, phrase or has_any(self._words, fold(memory.labels)), tagged), facts

    def _words_in(self, key: int, memory: Memory | None) -> int:
        """Count the words of the query that the memory has."""
        found = sum([key in keys for keys in self._rare])
        if self._common and memory is not None:
            text = fold(f"{memory.title}\n{memory.labels}\n{memory.tags}\n{memory.body}")
            found += sum(has_any([word], text) for word in self._common)
        return found
