"""Rank the best results of a search once more, with the cosines of another embedder.

The embedder reads the question and the texts of these few memories, so that nothing has to be filled before, and an
index keeps the vectors of its own embedder. Two embedders that are alike in quality make different mistakes, so their
cosines are averaged; words, names and times count as in the search, see `fuse` and `prefer_times`.

For any thread. The embedder runs on the thread of the caller, who holds no reader of an index and no lock meanwhile: a
search without it waits for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from memoryd.core.vectors import cosine, unpack
from memoryd.search.confidence import confidence_of_rerank, mean_cosine
from memoryd.search.embedding import static
from memoryd.search.embedding.embedder import Embedder, IdleRelease
from memoryd.search.ranking import Candidate
from memoryd.search.semantic import Meant, fuse
from memoryd.search.times import is_of_period, version_worth, weigh_times

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
        given = [replace(each, key=-position) for position, each in enumerate(judged)]
        named, rare = _added(given, "named"), _added(given, "rare_words")
        cosines = self._cosines(question, texts)
        means = {each.key: mean_cosine(each, cosines[each.key], self._share) for each in given}
        fused = fuse(given, Meant(self.model, means, named, rare), len(given))
        period = any(map(is_of_period, judged))
        version = any(version_worth(each) is not None for each in judged)
        explained = [self._explained(each, judged[-each.key], cosines[each.key]) for each in fused]
        ranked = sorted(weigh_times(explained, period=period, version=version), key=lambda each: -each.score)
        best = [Ranked(-each.key, replace(each, key=judged[-each.key].key)) for each in ranked]
        lowest = best[-1].candidate.score
        below = [
            Ranked(position, replace(each, score=each.score * lowest))
            for position, each in enumerate(found[len(judged) :], len(judged))
        ]
        return [*best, *below]

    def _cosines(self, question: str, texts: Sequence[str]) -> dict[int, float]:
        """Return the cosine of the question and each text, by the key of its candidate."""
        size = self._embedder.size
        asked, *vectors = (unpack(each, size) for each in self._embedder.embed([question, *texts]))
        return {-position: cosine(asked, vector) for position, vector in enumerate(vectors)}

    def _explained(self, fused: Candidate, before: Candidate, cosine: float) -> Candidate:
        """Return a fused candidate with what decided its place before and now."""
        rerank = {"model": self.model, "cosine": round(cosine, 4), "rank_before": 1 - fused.key}
        confidence = confidence_of_rerank(before, cosine)
        return replace(fused, why={**before.why, "rerank": rerank}, confidence=confidence)


def _added(found: Sequence[Candidate], reason: str) -> dict[int, float]:
    """Return what this reason added to the score of each candidate that has it, by key."""
    return {each.key: worth for each in found if isinstance(worth := each.why.get(reason), float)}
