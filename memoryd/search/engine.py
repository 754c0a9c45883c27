"""One way to ask, whatever finds: by text, by meaning, or both. Here the modes part; nowhere else.

The embedded engine needs nothing but the catalogue. Another one, shared by many machines, can stand in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from memoryd.core.asking import Filters, Mode
from memoryd.search import substrings, text, topics
from memoryd.search.asked import Asked
from memoryd.search.candidates import Candidate
from memoryd.search.scoring import Points
from memoryd.search.semantic import Like

DEPTH = 50  # candidates of each arm that are joined
POINTED = 15  # memories that are compared by points


@dataclass(frozen=True, slots=True)
class Taste:
    """How a layout wants its memories ranked. `points`: by those of seed 001. `fill`: pieces of words fill up whenever
    words find too little; otherwise only when they find nothing."""

    points: Points | None = None
    fill: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    asked: Asked
    filters: Filters
    mode: Mode
    limit: int
    now: float
    taste: Taste = field(default_factory=Taste)
    like: Like | None = None  # in place of words


class Words(text.Reader, substrings.Reader, topics.Reader, Protocol):
    """What the text arm asks of a catalogue within one snapshot."""


class Reader(Protocol):
    """A catalogue as engines see it."""

    @property
    def words(self) -> Words: ...


class Meaning(Protocol):
    """The semantic arm. Each answer comes with the reason why it could not look (None: it could)."""

    def alone(self, reader: Any, question: Question, limit: int) -> tuple[list[Candidate], str | None]: ...

    def hybrid(
        self, reader: Any, question: Question, by_text: Sequence[Candidate], limit: int
    ) -> tuple[list[Candidate], str | None]: ...


class Engine(Protocol):
    def find(self, reader: Any, question: Question) -> list[Candidate]:
        """At most `question.limit` memories, the best first; called within a snapshot of the reader."""


class Embedded:
    """SQLite's full text and, with `meaning`, vectors."""

    def __init__(self, meaning: Meaning | None = None) -> None:
        self._meaning = meaning

    def find(self, reader: Reader, question: Question) -> list[Candidate]:
        found = self._find(reader, question)
        if len(found) < question.limit and (question.taste.fill or not found):
            room, known = question.limit - len(found), [each.key for each in found]
            found += substrings.part_candidates(
                reader.words, question.asked, question.filters, room, question.now, known
            )
        return found

    def _find(self, reader: Reader, question: Question) -> list[Candidate]:
        if question.like is not None:
            return self._alike(reader, question)
        if question.mode == "text":
            return by_text(reader.words, question, question.limit)
        if self._meaning is None:
            return _marked(by_text(reader.words, question, question.limit), "not available")
        if question.mode == "semantic":
            found, missing = self._meaning.alone(reader, question, question.limit)
            return found if missing is None else _marked(by_text(reader.words, question, question.limit), missing)
        texts = by_text(reader.words, question, max(DEPTH, question.limit))
        found, missing = self._meaning.hybrid(reader, question, texts, question.limit)
        return found if missing is None else _marked(texts[: question.limit], missing)

    def _alike(self, reader: Reader, question: Question) -> list[Candidate]:
        """Nothing but vectors can answer this."""
        return self._meaning.alone(reader, question, question.limit)[0] if self._meaning is not None else []


def _marked(found: Sequence[Candidate], missing: str) -> list[Candidate]:
    """By text alone, and why."""
    return [each._replace(why={**each.why, "semantic": missing}) for each in found]


def by_text(words: Words, question: Question, limit: int) -> list[Candidate]:
    """The text arm, ranked to the layout's taste."""
    points = question.taste.points
    if points is None:
        return text.text_candidates(words, question.asked, question.filters, limit, question.now)
    found = text.text_candidates(words, question.asked, question.filters, max(limit * 3 // 2, POINTED), question.now)
    return topics.by_points(words, question.asked, found, limit, points=points, now=question.now)
