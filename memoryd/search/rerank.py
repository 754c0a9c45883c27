"""Rank the best results of a search once more, with the cosines of another embedder.

The embedder reads the question and the texts of these few memories, so that nothing has to be filled before, and an
index keeps the vectors of its own embedder. Two embedders that are alike in quality make different mistakes, so their
cosines are averaged; words, names and times count as in the search, see `fuse` and `prefer_times`.

For any thread. The embedder runs on the thread of the caller, who holds no reader of an index and no lock meanwhile: a
search without it waits for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from memoryd.core.vectors import cosine, unpack
from memoryd.search.confidence import confidence_of_rerank, mean_cosine
from memoryd.search.embedding import static
from memoryd.search.embedding.embedder import Embedder, IdleRelease
from memoryd.search.ranking import IN_PERIOD, NEWEST_OF_SUBJECT, Candidate, Why
from memoryd.search.semantic import Meant, fuse

JUDGED = 20  # results that are ranked again; those further down stay below them
# The share of the embedder's cosine in the mean with that of the search: of MiniLM, and of the shipped table. Of six
# from 0.25 to 1, the best that makes no confidence worse (tests.bench.finding).
MODEL_SHARE, TABLE_SHARE = 0.75, 0.4


class Ranked(NamedTuple):
    """A result in its new place. `position`: its place before, from 0."""

    position: int
    candidate: Candidate


class Reranker:
    """Ranks the best results of a search again. The embedder is loaded when first needed."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._share = TABLE_SHARE if embedder.name == static.NAME else MODEL_SHARE
        self._idle = IdleRelease(embedder)

    @property
    def model(self) -> str:
        """The name of its model."""
        return self._embedder.name

    @property
    def fast(self) -> bool:
        """True if it takes milliseconds."""
        return self._embedder.fast

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
        cosines = self._cosines(question, texts)
        means = {each.key: mean_cosine(each, cosines[each.key], self._share) for each in given}
        fused = fuse(given, Meant(self.model, means, named, rare), len(given))
        best = _prefer_times([self._ranked(each, judged, cosines) for each in fused])
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

    def _ranked(self, fused: Candidate, judged: Sequence[Candidate], cosines: Mapping[int, float]) -> Ranked:
        """Return the candidate with its new score, and what decided it."""
        before, own = judged[-fused.key], cosines[fused.key]
        why = {**before.why, "rerank": {"model": self.model, "cosine": round(own, 4), "rank_before": 1 - fused.key}}
        confidence = confidence_of_rerank(before, own)
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
