"""Search by text, by meaning, or by both: the one place where the search modes differ."""

from __future__ import annotations

from collections.abc import Sequence

from memoryd.core.index import IndexReader
from memoryd.search.ranking import Candidate, rank_by_points, with_meaning_below
from memoryd.search.semantic import Question, SemanticSearch
from memoryd.search.text import part_candidates, text_candidates

DEPTH = 50  # candidates of each arm that are joined
POINTED = 50  # memories that are compared by points


class SearchEngine:
    """Search by text and, with `meaning`, by vectors."""

    def __init__(self, meaning: SemanticSearch | None = None) -> None:
        self._meaning = meaning

    def find(self, reader: IndexReader, question: Question) -> list[Candidate]:
        """At most `question.limit` memories, the best first."""
        found = self._find(reader, question)
        fill = question.profile.fill
        if len(found) < question.limit and (fill or not found):
            room, known = question.limit - len(found), [each.key for each in found]
            found += part_candidates(
                reader, question.query, question.filters, room, question.now, known, whole=not fill
            )
        return found

    def _find(self, reader: IndexReader, question: Question) -> list[Candidate]:
        if question.like is not None:
            return self._like_a_vector(reader, question)
        if question.mode == "text":
            return _by_text(reader, question, question.limit)
        if self._meaning is None:
            return _marked(_by_text(reader, question, question.limit), "not available")
        if question.mode == "semantic":
            return self._by_meaning(self._meaning, reader, question)
        return self._by_both(self._meaning, reader, question)

    def _by_meaning(self, meaning: SemanticSearch, reader: IndexReader, question: Question) -> list[Candidate]:
        points = question.profile.points
        found, missing = meaning.alone(reader, question, _depth(question))
        if missing is not None:
            return _marked(_by_text(reader, question, question.limit), missing)
        if points is not None:
            found = rank_by_points(reader, question.query, found, points=points, now=question.now)
        return found[: question.limit]

    def _by_both(self, meaning: SemanticSearch, reader: IndexReader, question: Question) -> list[Candidate]:
        texts = _by_text(reader, question, max(DEPTH, question.limit))
        pointed = question.profile.points is not None
        found, missing = meaning.hybrid(reader, question, texts, question.limit + (len(texts) if pointed else 0))
        if missing is not None:
            return _marked(texts[: question.limit], missing)
        return with_meaning_below(texts, found)[: question.limit] if pointed else found

    def _like_a_vector(self, reader: IndexReader, question: Question) -> list[Candidate]:
        """Search by a given vector, which only vectors can answer."""
        return self._meaning.alone(reader, question, question.limit)[0] if self._meaning is not None else []


def _marked(found: Sequence[Candidate], missing: str) -> list[Candidate]:
    """Add the reason why the semantic search is missing."""
    return [each._replace(why={**each.why, "semantic": missing}) for each in found]


def _by_text(reader: IndexReader, question: Question, limit: int) -> list[Candidate]:
    """Search by text, ranked as the layout wants it."""
    points = question.profile.points
    if points is None:
        return text_candidates(reader, question.query, question.filters, limit, question.now)
    most = max(limit, _depth(question))
    found = text_candidates(reader, question.query, question.filters, most, question.now)
    return rank_by_points(reader, question.query, found, points=points, now=question.now)[:limit]


def _depth(question: Question) -> int:
    """Return the number of candidates to find before they are ranked."""
    return question.limit if question.profile.points is None else max(question.limit * 3 // 2, POINTED)
