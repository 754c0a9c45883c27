"""The semantic arm: memories by what they mean, and both arms together.

A question becomes a vector by the embedder of the configuration, and is compared with vectors of the same model alone.
Where agents stored vectors beside their memories, those are used as they are: by a vector that is given, by that of
another memory, or by an embedder that is shown to make the same ones.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from memoryd.core.asking import Filters
from memoryd.errors import MemorydError
from memoryd.search.candidates import Candidate
from memoryd.search.embedding.embedder import Embedder, cosine, pack_floats, unpack
from memoryd.search.embedding.pieces import words
from memoryd.search.fusion import POOL, Meant, meaning_score, together
from memoryd.search.vectors import Measured, Shelf, Source

SAME = 0.95  # a stored vector that an embedder makes again with this cosine is of its model
SAMPLES = 3


class Sample(Protocol):
    @property
    def model(self) -> str: ...
    @property
    def vector(self) -> bytes: ...
    @property
    def text(self) -> str: ...


class Vectors(Source, Protocol):
    """The vectors of a catalogue as this arm sees them."""

    def samples(self, owner: str | None, limit: int) -> Sequence[Sample]: ...
    def beginnings(self, keys: Sequence[int], characters: int) -> Mapping[int, str]: ...


class Reader(Protocol):
    @property
    def vectors(self) -> Vectors: ...


class Like(NamedTuple):
    """A vector that is given in place of words: of a model, or (None) of any model of its size."""

    vector: bytes
    size: int
    model: str | None = None


class Question(Protocol):
    """What this arm needs to know of a question."""

    @property
    def asked(self) -> Any: ...
    @property
    def filters(self) -> Filters: ...
    @property
    def like(self) -> Like | None: ...
    @property
    def now(self) -> float: ...


class Unavailable(Exception):  # noqa: N818 - no error: the answer then comes from the text alone
    """Why there is nothing to compare with."""


class Semantic:
    """For any thread. `reason` says why there is no embedder."""

    def __init__(self, embedder: Embedder | None, reason: str = "off") -> None:
        self.embedder = embedder
        self._reason = reason
        self._shelf = Shelf()
        self._judging = threading.Lock()
        self._resting = (0, float("inf"))  # how often the embedder was asked, and when that was seen
        self._same: WeakKeyDictionary[Any, dict[tuple[str | None, int], bool]] = WeakKeyDictionary()

    def alone(self, reader: Reader, question: Question, limit: int) -> tuple[list[Candidate], str | None]:
        """At most `limit` memories by meaning; or why there are none."""
        try:
            found = self._look(reader, question, (), max(limit, POOL))
        except Unavailable as reason:
            return [], str(reason)
        ranked = sorted(found.items(), key=lambda each: (-meaning_score(each[1]), -each[0]))
        return [Candidate(key, meaning_score(meant), {"semantic": meant.why()}) for key, meant in ranked[:limit]], None

    def hybrid(
        self, reader: Reader, question: Question, by_text: Sequence[Candidate], limit: int
    ) -> tuple[list[Candidate], str | None]:
        """At most `limit` memories by both; or why there is only the text."""
        try:
            found = self._look(reader, question, [each.key for each in by_text], POOL)
        except Unavailable as reason:
            return [], str(reason)
        return together(by_text, found, limit), None

    def tidy(self, now: float) -> None:
        """What nobody asked for lately gives its memory back. `now` in seconds."""
        self._shelf.tidy(now)
        if self.embedder is None:
            return
        asked, since = self._resting
        if self.embedder.asked != asked:
            self._resting = self.embedder.asked, now
        elif now - since > self.embedder.idle_s:
            self.embedder.rest()
            self._resting = asked, float("inf")

    # --- inner workings

    def _look(self, reader: Reader, question: Question, also: Sequence[int], limit: int) -> dict[int, Meant]:
        """How near the nearest are, and those of `also`."""
        model, measured = self._measure(reader, question)
        best = measured.best(reader.vectors, question.filters, limit)
        cosines = {each.key: each.cosine for each in best} | measured.of(also)
        texts = self._texts(reader, question, model, list(cosines))
        aligned = self._aligned(question, texts)
        named = self._named(question, texts)
        return {key: Meant(value, aligned.get(key), model, key in named) for key, value in cosines.items()}

    def _texts(self, reader: Reader, question: Question, model: str, keys: list[int]) -> Mapping[int, str]:
        """The memories by their words, where the embedder knows words."""
        if not hasattr(self.embedder, "align") or question.like is not None or not keys:
            return {}
        return reader.vectors.beginnings(keys, ALIGNED) if model == getattr(self.embedder, "name", None) else {}

    def _aligned(self, question: Question, texts: Mapping[int, str]) -> dict[int, float]:
        """How well each word of the question is met by some word of the memory."""
        align = getattr(self.embedder, "align", None)
        if align is None or not texts:
            return {}
        return dict(zip(texts, align(question.asked.raw, list(texts.values())), strict=True))

    def _named(self, question: Question, texts: Mapping[int, str]) -> set[int]:
        """The few memories with a word of the question that the embedder does not know: a name, which has no meaning
        but the memories it stands in."""
        knows = getattr(self.embedder, "knows", None)
        if knows is None or not texts:
            return set()
        strange = {word.casefold() for word in words(question.asked.raw) if word.isalnum() and not knows(word)}
        if not strange:
            return set()
        found = {key for key, text in texts.items() if _has(text.casefold(), strange)}
        return found if len(found) <= FEW_NAMED else set()

    def _measure(self, reader: Reader, question: Question) -> tuple[str, Measured]:
        source, like = reader.vectors, question.like
        samples = source.samples(question.filters.owner, SAMPLES)
        model, vector, size = self._given(samples, like) if like else self._asked(source, samples, question)
        measured = self._shelf.measure(source, model, vector, size, question.now)
        if not len(measured):
            raise Unavailable("no memory has a vector yet")
        return model, measured

    def _given(self, samples: Sequence[Sample], like: Like) -> tuple[str, bytes, int]:
        if like.model is not None:
            return like.model, like.vector, like.size
        if any(each.model == own(like.size) for each in samples):
            return own(like.size), like.vector, like.size
        if self.embedder is not None and self.embedder.size == like.size:
            return self.embedder.name, like.vector, like.size
        raise Unavailable(f"no vectors of {like.size} numbers here")

    def _asked(self, source: Source, samples: Sequence[Sample], question: Question) -> tuple[str, bytes, int]:
        embedder = self.embedder
        if embedder is None:
            raise Unavailable(self._reason)
        if not question.asked.raw.strip():
            raise Unavailable("no words to compare")
        if samples and not self._makes(source, samples, question.filters.owner, embedder):
            size = len(samples[0].vector) // 4
            raise Unavailable(f"its vectors have {size} numbers of a model that is not configured")
        knows = getattr(embedder, "knows", None)
        if knows is not None and not knows(question.asked.raw):
            raise Unavailable("no word of the question is known")
        try:
            [vector] = embedder.embed([question.asked.raw])
        except MemorydError as error:
            raise Unavailable(error.message) from error
        if not any(vector):
            raise Unavailable("no word of the question is known")
        return own(embedder.size) if samples else embedder.name, vector, embedder.size

    def _makes(self, source: Source, samples: Sequence[Sample], owner: str | None, embedder: Embedder) -> bool:
        """Whether the embedder makes the vectors that are stored, shown on some of them; judged once for a state."""
        state = (owner, source.home.changes)
        with self._judging:
            judged = self._same.setdefault(source.home, {})
            if state not in judged:
                judged[state] = _made_again(samples, embedder)
            return judged[state]


def _has(text: str, strange: set[str]) -> bool:
    """One of them as a word; where none stands at all the text is not taken apart."""
    return any(map(text.__contains__, strange)) and not strange.isdisjoint(words(text))


FEW_NAMED = 3  # memories; a name that more have is no longer what tells them apart
ALIGNED = 2_000  # characters of a memory whose words are compared one by one


def own(size: int) -> str:
    """The model under which vectors of this size lie that agents stored."""
    return f"own:{size}"


def _made_again(samples: Sequence[Sample], embedder: Embedder) -> bool:
    fitting = [each for each in samples if each.model == own(embedder.size)]
    if not fitting:
        return False
    try:
        made = embedder.embed([each.text for each in fitting])
    except MemorydError as error:
        raise Unavailable(error.message) from error
    size = embedder.size
    pairs = zip(made, fitting, strict=True)
    return any(cosine(unpack(vector, size), unpack(each.vector, size)) >= SAME for vector, each in pairs)


def like_floats(numbers: Sequence[float]) -> Like:
    """A vector that somebody gives."""
    return Like(pack_floats(numbers), len(numbers))
