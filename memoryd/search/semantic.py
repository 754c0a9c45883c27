"""Search by meaning, and fuse its results with those of the text search.

The configured embedder turns a query into a vector, which is compared with vectors of the same model only. Vectors that
agents stored with their memories are used as they are: compared with a given vector, with that of another memory, or
with one of an embedder that is shown to make the same vectors.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from math import exp, log
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from memoryd.core.index import IndexReader, Sample
from memoryd.core.query import Filters, Mode, Term, TextQuery
from memoryd.core.vectors import CannotCompareError, agent_model, cosine, pack_floats, unpack
from memoryd.core.words import tokens
from memoryd.errors import MemorydError
from memoryd.search.embedding.embedder import Embedder, IdleRelease
from memoryd.search.periods import Period
from memoryd.search.query_terms import ParsedQuery, loose_term
from memoryd.search.ranking import PHRASE, Candidate, Points, Why, below

SAME = 0.95  # a stored vector that an embedder makes again with this cosine is of its model
SAMPLES = 3
MAX_JUDGED = 256  # samples whose result is cached
POOL = 64  # nearest memories that are fused with those found by their words
# All texts have much in common, long ones most of all, and so their vectors. This share of the mean of all vectors is
# subtracted from that of the question; without it, long memories are similar to any question (tests.bench.finding).
LESS_COMMON = 0.6
# What a match of the text adds to the cosine: TEXT_WEIGHT * text ** TEXT_POWER. One or two common words count for
# almost nothing: more made the results of paraphrases worse (tests.bench.finding).
TEXT_WEIGHT, TEXT_POWER = 1.5, 2.5
MAX_NAMED = 3  # memories that pass the filters; a name in more of them no longer distinguishes them
# What a name adds: more than any meaning does; less if the embedder knows it, as of `Norway` its vector says something.
UNKNOWN_NAME, KNOWN_NAME = 0.6, 0.3
# What a word adds that only one memory has; less if a few have it, and nothing from FEW memories or a share of all on.
# A rare word tells more about a memory than its share of the text score (tests.bench.finding).
RARE_WORD, FEW, FEW_OF_ALL = 0.06, 10, 0.05
LESS_RARE = 1.5  # how slowly that falls with the number of memories
# What a word adds that is near in meaning to one that no memory has, unless more than MAX_RELATED memories have it.
RELATED_WORD, MAX_RELATED = 0.03, 50
# A sum of cosine and text is mapped to 0..1: linearly from LOW on, and with less and less of it beyond the score BEND,
# which no cosine alone exceeds, so that no two sums get the same score.
LOW, BEND = 0.1, 0.9
MIN_COSINE = 0.1  # of a match by meaning alone; fewer of ten right answers are below it than one
EXACT = 0.99  # phrase matches score above this, everything else below


class Like(NamedTuple):
    """A vector to search by instead of words: of a model, or (None) of any model of its size."""

    vector: bytes
    size: int
    model: str | None = None


class RankingProfile(Struct, frozen=True):
    """The ranking of a layout's memories. `points`: by the points of seed 001. `fill`: add substring matches if words
    find too little; otherwise the parts of the query are searched literally, only if words find nothing."""

    points: Points | None = None
    fill: bool = False


class Question(Struct, frozen=True):
    """A search in one root: for a query or, instead, for a vector (`like`). `now` in seconds; `period` is the time that
    the query names."""

    query: ParsedQuery
    filters: Filters
    mode: Mode
    limit: int
    now: float
    profile: RankingProfile = field(default_factory=RankingProfile)
    like: Like | None = None
    period: Period | None = None

    @property
    def period_words(self) -> list[str]:
        """The words that name the period."""
        return tokens(self.period.words) if self.period is not None else []


class VectorsMissingError(Exception):
    """There are no vectors to compare; the message says why. Only the text is searched then."""


class Meaning(NamedTuple):
    """The vector of a question, of this model."""

    model: str
    vector: Sequence[float]


class SemanticSearch:
    """Search by meaning, for any thread. `reason` says why there is no embedder. Searches raise VectorsMissingError."""

    def __init__(self, embedder: Embedder | None, reason: str = "off") -> None:
        self.embedder = embedder
        self._reason = reason
        self._lock = threading.Lock()
        self._idle = None if embedder is None else IdleRelease(embedder)
        self._verdicts: dict[tuple[Sample, ...], bool] = {}

    def search(self, reader: IndexReader, question: Question, limit: int) -> list[Candidate]:
        """Search by meaning alone: at most `limit` memories."""
        found = self._match(reader, question, self.meaning_of(reader, question), (), max(limit, POOL))
        ranked = sorted(found.cosines.items(), key=lambda each: (-each[1], -each[0]))
        return [Candidate(key, scaled(cosine), {"semantic": found.similarity(key)}) for key, cosine in ranked[:limit]]

    def compare(self, reader: IndexReader, question: Question, meaning: Meaning, by_text: Sequence[Candidate]) -> Meant:
        """Compare the meaning with that of the nearest memories and those found by text."""
        found = self._match(reader, question, meaning, [each.key for each in by_text], POOL)
        return self.compare_words(reader, question, by_text)._replace(model=found.model, cosines=found.cosines)

    def compare_words(
        self, reader: IndexReader, question: Question, by_text: Sequence[Candidate], *, full: bool = False
    ) -> Meant:
        """Return what single words of the question add to scores, without comparing vectors. `full`: there is no place
        for memories that were not found by text."""
        named = self._named(reader, question)
        if _is_phrase(by_text):
            return Meant("", {}, named)
        rare, missing = _rare_words(reader, question.query)
        return Meant("", {}, named, rare, {} if full else self._related(reader, missing, by_text))

    def density(self, question: str) -> float:
        """Return how dense a question is, 0 for a typical one or if the embedder cannot tell."""
        measure = getattr(self.embedder, "density", None)
        return measure(question) if measure is not None else 0.0

    def tidy(self, now: float) -> bool:
        """Let an idle embedder free its memory. True if it did. `now` in seconds."""
        return self._idle is not None and self._idle.tidy(now)

    def _match(
        self, reader: IndexReader, question: Question, meaning: Meaning, also: Sequence[int], limit: int
    ) -> Meant:
        """Match the nearest memories, and those of `also`."""
        model, vector = meaning
        less = LESS_COMMON if question.like is None else 0.0
        try:
            near = reader.nearest(vector, model, question.filters, limit, also, less_common=less)
        except CannotCompareError as error:
            raise VectorsMissingError(f"{error.message}; {error.hint}") from error
        if near is None:
            raise VectorsMissingError("no memory has a vector yet")
        return Meant(model, near)

    def _named(self, reader: IndexReader, question: Question) -> dict[int, float]:
        """Return what a name that the question has adds to the score of each of the few memories with it. The meaning
        of a name is little more than the memories that contain it."""
        without = question.query.function_words.union(question.period_words)
        terms = [term for term in question.query.exact if term.text not in without]
        names = {term: worth for term in terms if (worth := self._worth_of_name(question.query, term))}
        found = reader.keys_with(list(names), MAX_NAMED)
        named: dict[int, float] = {}
        for name, keys in zip(names, found, strict=True):
            for key in self._with_name(reader, question.filters, name) if keys is None else keys:
                named[key] = max(named.get(key, 0.0), names[name])
        return named

    def _worth_of_name(self, query: ParsedQuery, term: Term) -> float:
        """Return what a term adds to scores if it is a name, or 0."""
        if _mixes_digits(term) or not self._knows(term.text):
            return UNKNOWN_NAME
        return KNOWN_NAME if query.capitalized.issuperset(term.text.split()) else 0.0

    def _with_name(self, reader: IndexReader, filters: Filters, name: Term) -> list[int]:
        """Return the memories that pass the filters and have a name that too many have in all, if few are left."""
        if filters == Filters(owner=filters.owner):
            return []
        passing = reader.match(TextQuery((name,)), filters, MAX_NAMED + 1)
        return [each.key for each in passing] if len(passing) <= MAX_NAMED else []

    def _related(self, reader: IndexReader, missing: Sequence[str], by_text: Sequence[Candidate]) -> dict[int, float]:
        """Return what words near in meaning to those that no memory has add to the score of each memory that was not
        found by text."""
        related = getattr(self.embedder, "related", None)
        if related is None:
            return {}
        added: Counter[int] = Counter()
        for word in missing:
            terms = [loose_term(each) for each in related(word)]
            found = reader.keys_with(terms, MAX_RELATED) if terms else []
            added.update({key for keys in found for key in keys or ()})
        known = {each.key for each in by_text}
        return {key: RELATED_WORD * count for key, count in added.items() if key not in known}

    def meaning_of(self, reader: IndexReader, question: Question) -> Meaning:
        """Return the vector to compare with."""
        samples, like = reader.vector_samples(question.filters.owner, SAMPLES), question.like
        if like is None:
            return self._embed(samples, question)
        return Meaning(self._model_of(samples, like), unpack(like.vector, like.size))

    def _model_of(self, samples: Sequence[Sample], like: Like) -> str:
        if like.model is not None:
            return like.model
        if any(each.model == agent_model(like.size) for each in samples):
            return agent_model(like.size)
        if self.embedder is not None and self.embedder.size == like.size:
            return self.embedder.name
        raise VectorsMissingError(f"no vectors of {like.size} numbers here")

    def _embed(self, samples: Sequence[Sample], question: Question) -> Meaning:
        embedder = self.embedder
        if embedder is None:
            raise VectorsMissingError(self._reason)
        if not question.query.raw.strip():
            raise VectorsMissingError("no words to compare")
        if samples and not self._reproduces(samples, embedder):
            size = len(samples[0].vector) // 4
            raise VectorsMissingError(f"its vectors have {size} numbers of a model that is not configured")
        if not self._knows(question.query.raw):
            raise VectorsMissingError("no word of the question is known")
        try:
            [vector] = embedder.embed([question.query.raw])
        except MemorydError as error:
            raise VectorsMissingError(error.message) from error
        if not any(vector):
            raise VectorsMissingError("no word of the question is known")
        return Meaning(agent_model(embedder.size) if samples else embedder.name, unpack(vector, embedder.size))

    def _knows(self, text: str) -> bool:
        """False if the embedder knows no word of a text; True if it cannot tell."""
        knows = getattr(self.embedder, "knows", None)
        try:
            return knows is None or knows(text)
        except MemorydError as error:
            raise VectorsMissingError(error.message) from error

    def _reproduces(self, samples: Sequence[Sample], embedder: Embedder) -> bool:
        """True if the embedder reproduces the stored vectors, checked on these samples; cached."""
        shown = tuple(samples)
        with self._lock:
            if shown not in self._verdicts:
                if len(self._verdicts) >= MAX_JUDGED:
                    self._verdicts.clear()
                self._verdicts[shown] = _reproduced(samples, embedder)
            return self._verdicts[shown]


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


def _mixes_digits(term: Term) -> bool:
    """True for a mix of digits and letters, of which an embedder may know a part: the `max` of `max31856`."""
    return any(map(str.isdigit, term.text)) and any(map(str.isalpha, term.text))


# --- fusion with the text search


class Meant(NamedTuple):
    """The memories matched by meaning, by key: the cosine of each with vectors of this model; and what a name, rare
    words and words related to missing ones add to the scores of some."""

    model: str
    cosines: Mapping[int, float]
    named: Mapping[int, float] = MappingProxyType({})
    rare: Mapping[int, float] = MappingProxyType({})
    related: Mapping[int, float] = MappingProxyType({})

    def similarity(self, key: int) -> Why:
        """Return the cosine of a memory as plain JSON."""
        return {"model": self.model, "cosine": round(self.cosines[key], 4)}

    def why(self, key: int) -> Why:
        """Return the parts of a score by name, as plain JSON."""
        why: dict[str, object] = {"semantic": self.similarity(key)} if key in self.cosines else {}
        if key in self.named:
            why["named"] = self.named[key]
        if key in self.rare:
            why["rare_words"] = round(self.rare[key], 4)
        if key in self.related:
            why["related_words"] = round(self.related[key], 4)
        return why


def without_name(found: Candidate) -> float:
    """Return the score of a hit by both searches without what its name adds."""
    semantic, rare = found.why.get("semantic"), found.why.get("rare_words")
    if not isinstance(semantic, dict):  # it has no vector yet: what else would count is unknown
        return found.score
    similarity = TEXT_WEIGHT * found.text**TEXT_POWER + semantic["cosine"]
    return EXACT * scaled(similarity + (rare if isinstance(rare, float) else 0.0))


def scaled(similarity: float) -> float:
    """Return the score of a sum of cosine and text, 0..1."""
    score = max(similarity - LOW, 0.0)
    return score if score <= BEND else 1 - (1 - BEND) * exp((BEND - score) / (1 - BEND))


def _is_phrase(by_text: Sequence[Candidate]) -> bool:
    """True if the first match contains the question as a phrase, so that its words decide nothing."""
    return bool(by_text) and by_text[0].why.get("match") == PHRASE.name


def _rare_words(reader: IndexReader, query: ParsedQuery) -> tuple[dict[int, float], list[str]]:
    """Return what the words of a question that few memories have, in any form, add to the score of each of these; and
    the words that no memory has."""
    few = min(FEW, FEW_OF_ALL * reader.size)
    words = {query.form_of(word): word.text for word in query.informative}
    counts = dict(zip(words, reader.term_frequencies(list(words)), strict=True))
    rare = [(term, RARE_WORD * (1 - log(count, few) ** LESS_RARE)) for term, count in counts.items() if 0 < count < few]
    found = reader.keys_with([term for term, _ in rare], FEW) if rare else []
    added: dict[int, float] = {}
    for (_, worth), keys in zip(rare, found, strict=True):
        added.update((key, added.get(key, 0.0) + worth) for key in keys or ())
    return added, [word for term, word in words.items() if not counts[term]]


def fuse(by_text: Sequence[Candidate], meant: Meant, limit: int) -> list[Candidate]:
    """Fuse both rankings by a weighted sum: at most `limit` candidates, best first; ties go to the newest key.

    A memory that contains the words of the question one after another ranks before all others, then those with a name.
    One that has no vector yet counts as far away as the last of the nearest."""
    texts = {each.key: each for each in by_text}
    _, cosines, named, rare, related = meant
    farthest = min(cosines.values(), default=0.0)
    scores: list[tuple[float, int]] = []
    for key in {**texts, **cosines}:
        text, cosine = texts.get(key), cosines.get(key, farthest)
        if text is None and cosine < MIN_COSINE:
            continue
        added = rare.get(key, 0.0) + related.get(key, 0.0) + named.get(key, 0.0)
        added += TEXT_WEIGHT * text.text**TEXT_POWER if text is not None else 0.0
        score = EXACT * scaled(cosine + added)
        if text is not None and text.why.get("match") == PHRASE.name:
            score = EXACT + (1 - EXACT) * (score + text.score) / 2
        scores.append((score, key))
    scores.sort(reverse=True)
    return [_fused(key, score, texts.get(key), meant) for score, key in scores[:limit]]


def _fused(key: int, score: float, text: Candidate | None, meant: Meant) -> Candidate:
    """Merge the parts of the scores of both searches."""
    if text is None:
        return Candidate(key, score, meant.why(key))
    return replace(text, score=score, why={**text.why, **meant.why(key)})


def append_meant(ranked: Sequence[Candidate], meant: Meant, limit: int) -> list[Candidate]:
    """Append the nearest memories below those that are `ranked`, at most `limit` in all, and complete the `why` of
    each."""
    best = [replace(each, why={**each.why, **meant.why(each.key)}) for each in ranked]
    if len(best) < limit:
        known = {each.key for each in ranked}
        others = {key: cosine for key, cosine in meant.cosines.items() if key not in known}
        best += below(fuse((), meant._replace(cosines=others), limit - len(best)), ranked, limit)
    return best
