"""Search by meaning, and fuse its results with those of the text search.

The configured embedder turns a query into a vector, which is compared with vectors of the same model only. Vectors that
agents stored with their memories are used as they are: compared with a given vector, with that of another memory, or
with one of an embedder that is shown to make the same vectors.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from memoryd.core.index import IndexReader, Sample
from memoryd.core.query import Filters, Mode
from memoryd.core.vectors import agent_model, cosine, pack_floats, unpack
from memoryd.errors import MemorydError
from memoryd.search.embedding.embedder import Embedder
from memoryd.search.embedding.static import words
from memoryd.search.query_terms import ParsedQuery
from memoryd.search.ranking import PART, PHRASE, SOME, Candidate, Points, Why, text_part

SAME = 0.95  # a stored vector that an embedder makes again with this cosine is of its model
SAMPLES = 3
MAX_JUDGED = 256  # samples whose result is cached
MAX_NAMED = 3  # memories; a name in more of them no longer distinguishes them
ALIGN_CHARS = 2_000  # characters from the start of a memory whose words are compared one by one
POOL = 64  # nearest memories that are compared in detail
WORD_WEIGHT = 0.3  # weight of the word alignment in the similarity, if words were compared
LOW, HIGH = 0.15, 0.95  # similarities mapped to score 0 and to MAX_SEMANTIC
MAX_SEMANTIC = 0.9
# Minimum similarity of a match by meaning alone, with and without word alignment. With it, all correct results of
# tests/search are above 0.4; without it (MiniLM, whole texts), 99 of 100 are above 0.3.
MIN_SCORE, MIN_TEXT_SCORE = 0.33, 0.25
# The text score of a match of only some words, if there is also a semantic match: PARTIAL_WEIGHT * part **
# PARTIAL_POWER. One or two common words count for almost nothing: more made paraphrase results worse (tests/search).
PARTIAL_WEIGHT, PARTIAL_POWER = 0.5, 2.5
NAMED = 0.9  # score of a rare name: nearly as certain as a match of all words
EXACT = 0.99  # phrase matches score above this, everything else below


class Like(NamedTuple):
    """A vector to search by instead of words: of a model, or (None) of any model of its size."""

    vector: bytes
    size: int
    model: str | None = None


@dataclass(frozen=True, slots=True)
class RankingProfile:
    """The ranking of a layout's memories. `points`: by the points of seed 001. `fill`: add substring matches if words
    find too little; otherwise the parts of the query are searched literally, only if words find nothing."""

    points: Points | None = None
    fill: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """A search in one root: for a query or, instead, for a vector (`like`). `now` in seconds."""

    query: ParsedQuery
    filters: Filters
    mode: Mode
    limit: int
    now: float
    profile: RankingProfile = field(default_factory=RankingProfile)
    like: Like | None = None


class VectorsMissingError(Exception):
    """There are no vectors to compare; the message says why. Only the text is searched then."""


class SemanticSearch:
    """Search by meaning, for any thread. `reason` says why there is no embedder. Each result comes with the reason why
    there is none (None: there is one)."""

    def __init__(self, embedder: Embedder | None, reason: str = "off") -> None:
        self.embedder = embedder
        self._reason = reason
        self._lock = threading.Lock()
        self._idle = (0, float("inf"))  # the embedder's call count, and when it was last read
        self._verdicts: dict[tuple[Sample, ...], bool] = {}

    def search(self, reader: IndexReader, question: Question, limit: int) -> tuple[list[Candidate], str | None]:
        """Search by meaning alone: at most `limit` memories, or why there are none."""
        try:
            found = self._match(reader, question, (), max(limit, POOL))
        except VectorsMissingError as reason:
            return [], str(reason)
        ranked = sorted(found.items(), key=lambda each: (-meaning_score(each[1]), -each[0]))
        return [Candidate(key, meaning_score(meant), {"semantic": meant.why()}) for key, meant in ranked[:limit]], None

    def hybrid(
        self, reader: IndexReader, question: Question, by_text: Sequence[Candidate], limit: int
    ) -> tuple[list[Candidate], str | None]:
        """Search by text and meaning: at most `limit` memories, or why there is only the text."""
        try:
            found = self._match(reader, question, [each.key for each in by_text], POOL)
        except VectorsMissingError as reason:
            return [], str(reason)
        return fuse(by_text, found, limit), None

    def tidy(self, now: float) -> None:
        """Let an idle embedder free its memory. `now` in seconds."""
        if self.embedder is None:
            return
        asked, since = self._idle
        if self.embedder.calls != asked:
            self._idle = self.embedder.calls, now
        elif now - since > self.embedder.idle_s:
            self.embedder.release()
            self._idle = asked, float("inf")

    def _match(
        self, reader: IndexReader, question: Question, also: Sequence[int], limit: int
    ) -> dict[int, SemanticMatch]:
        """Match the nearest memories, and those of `also`."""
        model, vector = self._vector(reader, question)
        near = reader.nearest(vector, model, question.filters, limit, also)
        if near is None:
            raise VectorsMissingError("no memory has a vector yet")
        cosines = {each.key: each.cosine for each in near}
        texts = self._texts(reader, question, model, list(cosines))
        aligned = self._align(question, texts)
        named = self._rare_names(question, texts)
        return {key: SemanticMatch(value, aligned.get(key), model, key in named) for key, value in cosines.items()}

    def _texts(self, reader: IndexReader, question: Question, model: str, keys: list[int]) -> Mapping[int, str]:
        """Return the opening texts of the memories by key, if the embedder compares single words."""
        if not hasattr(self.embedder, "align") or question.like is not None or not keys:
            return {}
        if model != getattr(self.embedder, "name", None):
            return {}
        return reader.openings(keys, ALIGN_CHARS)

    def _align(self, question: Question, texts: Mapping[int, str]) -> dict[int, float]:
        """Return how well the words of the query match words of each memory, by key."""
        align = getattr(self.embedder, "align", None)
        if align is None or not texts:
            return {}
        return dict(zip(texts, align(question.query.raw, list(texts.values())), strict=True))

    def _rare_names(self, question: Question, texts: Mapping[int, str]) -> set[int]:
        """Return the few memories with a word of the query that the embedder does not know: a name, whose only meaning
        is the memories that contain it."""
        knows = getattr(self.embedder, "knows", None)
        if knows is None or not texts:
            return set()
        unknown = {word.casefold() for word in words(question.query.raw) if word.isalnum() and not knows(word)}
        if not unknown:
            return set()
        found = {key for key, text in texts.items() if _has(text.casefold(), unknown)}
        return found if len(found) <= MAX_NAMED else set()

    def _vector(self, reader: IndexReader, question: Question) -> tuple[str, Sequence[float]]:
        """Return the model and the vector to compare with."""
        samples, like = reader.vector_samples(question.filters.owner, SAMPLES), question.like
        if like is None:
            return self._embed(samples, question)
        return self._model_of(samples, like), unpack(like.vector, like.size)

    def _model_of(self, samples: Sequence[Sample], like: Like) -> str:
        if like.model is not None:
            return like.model
        if any(each.model == agent_model(like.size) for each in samples):
            return agent_model(like.size)
        if self.embedder is not None and self.embedder.size == like.size:
            return self.embedder.name
        raise VectorsMissingError(f"no vectors of {like.size} numbers here")

    def _embed(self, samples: Sequence[Sample], question: Question) -> tuple[str, Sequence[float]]:
        embedder = self.embedder
        if embedder is None:
            raise VectorsMissingError(self._reason)
        if not question.query.raw.strip():
            raise VectorsMissingError("no words to compare")
        if samples and not self._reproduces(samples, embedder):
            size = len(samples[0].vector) // 4
            raise VectorsMissingError(f"its vectors have {size} numbers of a model that is not configured")
        knows = getattr(embedder, "knows", None)
        if knows is not None and not knows(question.query.raw):
            raise VectorsMissingError("no word of the question is known")
        try:
            [vector] = embedder.embed([question.query.raw])
        except MemorydError as error:
            raise VectorsMissingError(error.message) from error
        if not any(vector):
            raise VectorsMissingError("no word of the question is known")
        return agent_model(embedder.size) if samples else embedder.name, unpack(vector, embedder.size)

    def _reproduces(self, samples: Sequence[Sample], embedder: Embedder) -> bool:
        """True if the embedder reproduces the stored vectors, checked on these samples; cached."""
        shown = tuple(samples)
        with self._lock:
            if shown not in self._verdicts:
                if len(self._verdicts) >= MAX_JUDGED:
                    self._verdicts.clear()
                self._verdicts[shown] = _reproduced(samples, embedder)
            return self._verdicts[shown]


def _has(text: str, unknown: set[str]) -> bool:
    """True if the text has one of the words; it is only split if one of them occurs as a substring."""
    return any(map(text.__contains__, unknown)) and not unknown.isdisjoint(words(text))


def _reproduced(samples: Sequence[Sample], embedder: Embedder) -> bool:
    fitting = [each for each in samples if each.model == agent_model(embedder.size)]
    if not fitting:
        return False
    try:
        made = embedder.embed([each.text for each in fitting])
    except MemorydError as error:
        raise VectorsMissingError(error.message) from error
    size = embedder.size
    pairs = zip(made, fitting, strict=True)
    return any(cosine(unpack(vector, size), unpack(each.vector, size)) >= SAME for vector, each in pairs)


def like_floats(numbers: Sequence[float]) -> Like:
    """Return a vector to search by, given as numbers."""
    return Like(pack_floats(numbers), len(numbers))


# --- fusion with the text search


class SemanticMatch(NamedTuple):
    """A match by meaning. `cosine`: of the whole texts. `words`: the similarity of single words (None: not compared).
    `named`: it is one of few memories with a word of the query that the embedder does not know."""

    cosine: float
    words: float | None
    model: str
    named: bool = False

    def why(self) -> Why:
        """Return the parts of the score by name, as plain JSON."""
        parts: dict[str, object] = {"model": self.model, "cosine": round(self.cosine, 4)}
        if self.words is not None:
            parts["words"] = round(self.words, 4)
        if self.named:
            parts["named"] = True
        return parts


def nearness(meant: SemanticMatch) -> float:
    """Return the similarity of the meanings, -1..1."""
    return meant.cosine if meant.words is None else (1 - WORD_WEIGHT) * meant.cosine + WORD_WEIGHT * meant.words


def below_threshold(meant: SemanticMatch) -> bool:
    """True if the similarity is too low for a match by meaning alone."""
    return nearness(meant) < (MIN_TEXT_SCORE if meant.words is None else MIN_SCORE)


def meaning_score(meant: SemanticMatch) -> float:
    """Return the score of a match by meaning, 0..1."""
    near = nearness(meant)
    return MAX_SEMANTIC * min(max((near - LOW) / (HIGH - LOW), 0.0), 1.0) + max(
        near - HIGH, 0.0
    )  # above HIGH, more similar still ranks first


def fuse(by_text: Sequence[Candidate], by_meaning: Mapping[int, SemanticMatch], limit: int) -> list[Candidate]:
    """Fuse both rankings, 1 - (1-a)(1-b): at most `limit` candidates, best first; ties go to the newest key.

    Either search can find a memory alone, and one found by both scores higher. A phrase match (the text search's upper
    spans) is nearly certain; a match by meaning never is."""
    texts = {each.key: each for each in by_text}
    scores = [
        (_fused_score(texts.get(key), by_meaning.get(key)), key)
        for key in {**texts, **by_meaning}
        if key in texts or not below_threshold(by_meaning[key])
    ]
    scores.sort(reverse=True)
    return [Candidate(key, score, _why(texts.get(key), by_meaning.get(key))) for score, key in scores[:limit]]


def _fused_score(text: Candidate | None, meant: SemanticMatch | None) -> float:
    by_text = text.score if text is not None else 0.0
    match = text.why.get("match") if text is not None else None
    if text is not None and meant is not None and match in (SOME.name, PART.name):
        by_text = NAMED if meant.named else PARTIAL_WEIGHT * text_part(text) ** PARTIAL_POWER
    by_meaning = meaning_score(meant) if meant is not None else 0.0
    score = 1 - (1 - by_text) * (1 - by_meaning)
    return EXACT + (1 - EXACT) * score if match == PHRASE.name else EXACT * score


def _why(text: Candidate | None, meant: SemanticMatch | None) -> Why:
    """Merge the parts of the scores of both searches."""
    why: dict[str, object] = dict(text.why) if text is not None else {}
    return why if meant is None else {**why, "semantic": meant.why()}
