"""Rank the best results of a search once more, by the cosines of a better embedder.

The embedder reads the question and the texts of these few memories, so that nothing has to be filled before, and an
index keeps the vectors of its own embedder. The cosines take the place of those of the search; words, names and times
count as in the search, see `fuse` and `prefer_times`.

For any thread. The embedder runs on the thread of the caller, who holds no reader of an index and no lock meanwhile: a
search without it waits for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from memoryd.core.vectors import cosine, unpack
from memoryd.search.confidence import confidence_of_rerank
from memoryd.search.embedding.embedder import Embedder, IdleRelease
from memoryd.search.ranking import IN_PERIOD, NEWEST_OF_SUBJECT, Candidate, Why
from memoryd.search.semantic import Meant, fuse

JUDGED = 20  # results that are ranked again; those further down stay below them


class Ranked(NamedTuple):
    """A result in its new place. `position`: its place before, from 0."""

    position: int
    candidate: Candidate


class Reranker:
    """Ranks the best results of a search again. The embedder is loaded when first needed."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._idle = IdleRelease(embedder)

    def tidy(self, now: float) -> bool:
        """Let an idle embedder free its memory. True if it did. `now` in seconds."""
        return self._idle.tidy(now)

    def rerank(self, question: str, found: Sequence[Candidate], texts: Sequence[str]) -> list[Ranked]:
        """Return the candidates in their new order, with new scores; ties keep their order. `texts` are those of the
        first JUDGED candidates. Raises EmbedderError."""
        judged = found[: len(texts)]
        if not judged or not question.strip():
            return [Ranked(position, each) for position, each in enumerate(found)]
        # Keys of several roots may be equal: each candidate gets its position as key, the first the highest.
        given = [each._replace(key=-position) for position, each in enumerate(judged)]
        named = [each.key for each in given if each.why.get("named")]
        rare = {each.key: worth for each in given if isinstance(worth := each.why.get("rare_words"), float)}
        meant = Meant(self._embedder.name, self._cosines(question, texts), named, rare)
        fused = [self._ranked(each, judged, meant) for each in fuse(given, meant, len(given))]
        best = _prefer_times(fused)
        lowest = best[-1].candidate.score
        below = [
            Ranked(position, each._replace(score=each.score * lowest))
            for position, each in enumerate(found[len(judged) :], len(judged))
        ]
        return [*best, *below]

    def _cosines(self, question: str, texts: Sequence[str]) -> dict[int, float]:
        """Return the cosine of the question and each text, by the key of its candidate."""
        size = self._embedder.size
        asked, *vectors = (unpack(each, size) for each in self._embedder.embed([question, *texts]))
        return {-position: cosine(asked, vector) for position, vector in enumerate(vectors)}

    def _ranked(self, fused: Candidate, judged: Sequence[Candidate], meant: Meant) -> Ranked:
        """Return the candidate with its new score, and what decided it."""
        before = judged[-fused.key]
        why = {**before.why, "rerank": {**meant.similarity(fused.key), "rank_before": 1 - fused.key}}
        confidence = confidence_of_rerank(before, meant.cosines[fused.key])
        return Ranked(-fused.key, before._replace(score=fused.score, why=why, confidence=confidence))


def _prefer_times(ranked: Sequence[Ranked]) -> list[Ranked]:
    """Prefer the times that the search preferred, as `prefer_times` did: the parts of the scores name them."""
    whys = [each.candidate.why for each in ranked]
    full = 1 + IN_PERIOD * any("period" in why for why in whys)
    full *= 1 + NEWEST_OF_SUBJECT * any("newest" in why for why in whys)
    weighted = [
        each._replace(candidate=each.candidate._replace(score=each.candidate.score * _time_factor(why) / full))
        for each, why in zip(ranked, whys, strict=True)
    ]
    return sorted(weighted, key=lambda each: -each.candidate.score)


def _time_factor(why: Why) -> float:
    newest = why.get("newest")
    return (1 + IN_PERIOD * ("period" in why)) * (1 + (newest if isinstance(newest, float) else 0.0))
