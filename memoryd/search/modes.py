"""Search by text, by meaning, or by both: the one place where the search modes differ, and the search by text."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msgspec.structs import replace

from memoryd.core.index import IndexReader, Match
from memoryd.core.query import Filters, Term, TextQuery, informative_terms
from memoryd.search.confidence import Missing, ends_with_number, missing_words, with_confidence
from memoryd.search.periods import Period, names_only_time, version_in
from memoryd.search.query_terms import MAX_CHARS, ParsedQuery, parse_query
from memoryd.search.ranking import (
    ALL,
    FORMS,
    PART,
    PHRASE,
    SOME,
    Candidate,
    Span,
    candidate,
    rank_by_points,
    score,
    with_reasons,
)
from memoryd.search.semantic import Question, SemanticSearch, VectorsMissingError, append_meant, fuse
from memoryd.search.spelling import read_question
from memoryd.search.times import filters_within, newest_first, prefer_times

POOL = 20  # candidates re-ranked by recency and use
MAX_SCORED = 3_000  # memories scored if only some of the words match
SPREAD = 50  # of these, for each place in the results
FILLING = 6  # the same for each remaining place if better matches were found already
SHORT_QUERY_WORDS = 3  # a longer query is not repeated for all of its words in other forms

Found = dict[int, tuple[float, int, Span, Match]]
"""Score, key, span and match of each memory, by its key."""


def text_candidates(
    reader: IndexReader, query: ParsedQuery, filters: Filters, limit: int, now: float
) -> list[Candidate]:
    """Find at most `limit` memories by their words; ties go to the newest key. `now` in seconds."""
    found: Found = {}
    for span, matches in _steps(reader, query, filters, limit, found):
        for match in matches:
            if match.key not in found:
                found[match.key] = score(span, match, now), match.key, span, match
        if len(found) >= limit:
            break
    best = sorted(found.values(), reverse=True)[:limit]  # no two have the same key
    return [candidate(span, match, scored) for scored, _, span, match in best]


def _steps(
    reader: IndexReader, query: ParsedQuery, filters: Filters, limit: int, found: Found
) -> Iterator[tuple[Span, list[Match]]]:
    """Yield the matches of each step, as long as more are needed; `found` grows meanwhile."""
    pool = max(POOL, 2 * limit)
    exact = reader.match(TextQuery(query.exact, phrase=query.phrase), filters, pool)
    whole = "phrase" if query.phrase is not None else "all"  # a question of one unit is its own phrase
    yield PHRASE, [match for match in exact if match.kind == whole]
    yield ALL, [match for match in exact if match.kind != whole]
    if not exact and len(query.loose) <= SHORT_QUERY_WORDS:
        yield FORMS, reader.match(TextQuery(query.loose), filters, pool)
    terms = query.informative if found else query.loose
    if len(terms) > 1:
        budget = FILLING * limit if found else min(SPREAD * limit, MAX_SCORED)
        some = _some_words(reader, query, terms, budget)
        yield SOME, reader.match(some, filters, pool) if some is not None else []


def _some_words(reader: IndexReader, query: ParsedQuery, terms: tuple[Term, ...], budget: int) -> TextQuery | None:
    """Build a query for any of the rarer terms, or any unit as typed; None if no memory has any term."""
    frequencies = reader.term_frequencies(terms)
    known = [(term, frequency) for term, frequency in zip(terms, frequencies, strict=True) if frequency]
    if not known:
        return None
    telling = informative_terms([term for term, _ in known], [count for _, count in known], reader.size, budget)
    units = [term for term in query.exact if " " in term.text]
    return TextQuery((*telling, *units), "any", scale=terms)


def part_candidates(
    reader: IndexReader,
    query: ParsedQuery,
    filters: Filters,
    limit: int,
    now: float,
    known: Collection[int],
    *,
    whole_words: bool = False,
) -> list[Candidate]:
    """Find at most `limit` memories, without those in `known`, that contain a part of the query; the newest are
    searched first. With `whole_words`, not inside a longer word. `now` in seconds."""
    pieces = TextQuery(tuple(map(Term, query.pieces)), "substring", whole_words=whole_words, without=known)
    matches = reader.match(pieces, filters, 2 * limit) if pieces.terms else []
    return _ranked(PART, matches, limit, now)


def _ranked(span: Span, matches: Sequence[Match], limit: int, now: float) -> list[Candidate]:
    found = [candidate(span, match, score(span, match, now)) for match in matches]
    return sorted(found, key=lambda each: (-each.score, -each.key))[:limit]


def find_phrase(reader: IndexReader, question: Question) -> list[Candidate]:
    """Return at most `question.limit` memories with the words of a question one after another, the best first. Meaning
    is not compared, whatever the mode."""
    query, points, limit = question.query, question.profile.points, _depth(question)
    phrase = TextQuery((), phrase=query.phrase or query.exact[0])
    matches = reader.match(phrase, question.filters, max(POOL, 2 * limit))
    found = _ranked(PHRASE, matches, limit, question.now)
    if points is not None:
        found = rank_by_points(reader, query, found, points=points, now=question.now, limit=question.limit)
    found = with_confidence(found, Missing(), "text", points=points is not None)
    if question.mode != "text":
        found = _with_reason(found, "the question is in quotation marks")
    return with_reasons(found, question.now)


DEPTH = 50  # candidates of each search that are fused
MAX_POINTED = 50  # memories that are ranked by points


class SearchEngine:
    """Search by text and, with `meaning`, by vectors."""

    def __init__(self, meaning: SemanticSearch | None = None) -> None:
        self._meaning = meaning

    def find(self, reader: IndexReader, question: Question, missing: Missing | None = None) -> list[Candidate]:
        """Return at most `question.limit` memories, the best first; a misspelt word is read as the nearest one.
        `missing`: the words that no memory has, if they are known already. Raises VectorsMissingError if a given vector
        cannot be compared with any."""
        missing = missing_in(reader, question) if missing is None else missing
        reading = read_question(reader, question, missing)
        if reading.words:
            missing = missing_in(reader, reading.question)
        return with_reasons(reading.explain(self._preferred(reader, reading.question, missing)), question.now)

    def _preferred(self, reader: IndexReader, question: Question, missing: Missing) -> list[Candidate]:
        """Find memories. Those of a time that the question names are preferred, and so are the newest or the oldest
        ones if it asks for these."""
        period = question.period
        version = version_in(question.query.raw[:MAX_CHARS], period, question.now)
        if question.like is not None or not (period or version):
            return self._fill(reader, question, missing)
        found = self._fill(reader, replace(question, limit=max(question.limit, MAX_POINTED)), missing)
        if period is not None:
            within = _within(question, period)
            known = {each.key: each for each in found}
            for each in self._judged(reader, within, Missing(numbers=missing.numbers)) if within.query.units else []:
                known[each.key] = max(known.get(each.key, each), each, key=_score)
            found = list(known.values())
        ranked = prefer_times(reader, question.query, found, period, version, question.now)
        if period is not None and names_only_time(period):
            ranked = newest_first(reader, question.filters, period, ranked, question.limit)
        return ranked[: question.limit]

    def _fill(self, reader: IndexReader, question: Question, missing: Missing) -> list[Candidate]:
        """Return the memories found, and if there are too few, those with a part of a word. If only an identifier is
        asked for that no memory has as a word, a similar one is no answer, and no number is a part of a longer one.
        Where any part of the question counts, the others are looked for as well."""
        parts, whole = question.query, not question.profile.fill
        found = [] if missing.identifiers else self._judged(reader, question, missing)
        if missing.identifiers and whole:
            parts = parse_query(" ".join(missing.identifiers))
            whole = all(map(ends_with_number, missing.identifiers))
        if len(found) < question.limit and (question.profile.fill or not found):
            lacking, known = question.limit - len(found), [each.key for each in found]
            found += part_candidates(reader, parts, question.filters, lacking, question.now, known, whole_words=whole)
        return found

    def _judged(self, reader: IndexReader, question: Question, missing: Missing) -> list[Candidate]:
        found, points = self._find(reader, question), question.profile.points is not None
        density = 0.0 if points else self._density(question, found)
        return with_confidence(found, missing, question.mode, points=points, density=density)

    def _density(self, question: Question, found: Sequence[Candidate]) -> float:
        """Return how dense the question is if its vector was compared; otherwise the table may be unreadable."""
        if self._meaning is None or question.mode != "hybrid":
            return 0.0
        compared = any(isinstance(each.why.get("semantic"), dict) for each in found)
        return self._meaning.density(question.query.raw) if compared else 0.0

    def _find(self, reader: IndexReader, question: Question) -> list[Candidate]:
        if question.like is not None:
            return self._like_a_vector(reader, question)
        if question.mode == "text":
            return _by_text(reader, question, question.limit)
        if self._meaning is None:
            return _with_reason(_by_text(reader, question, question.limit), "not available")
        try:
            search = self._by_meaning if question.mode == "semantic" else self._by_both
            return search(self._meaning, reader, question)
        except VectorsMissingError as reason:
            return _with_reason(_by_text(reader, question, question.limit), str(reason))

    def _by_meaning(self, meaning: SemanticSearch, reader: IndexReader, question: Question) -> list[Candidate]:
        points = question.profile.points
        found = meaning.search(reader, question, _depth(question))
        if points is not None:
            return rank_by_points(reader, question.query, found, points=points, now=question.now, limit=question.limit)
        return found[: question.limit]

    def _by_both(self, meaning: SemanticSearch, reader: IndexReader, question: Question) -> list[Candidate]:
        if question.profile.points is not None:
            return self._by_points(meaning, reader, question)
        asked = meaning.meaning_of(reader, question)  # first: without it the text needs no search to this depth
        texts = _by_text(reader, question, max(DEPTH, question.limit))
        return fuse(texts, meaning.compare(reader, question, asked, texts), question.limit)

    def _by_points(self, meaning: SemanticSearch, reader: IndexReader, question: Question) -> list[Candidate]:
        """Search by text. Meaning earns no points: vectors are only compared if words find too few memories."""
        texts = _by_text(reader, question, question.limit)
        try:
            if len(texts) >= question.limit and meaning.embedder is not None:
                return append_meant(texts, meaning.compare_words(reader, question, texts, full=True), question.limit)
            asked = meaning.meaning_of(reader, question)
            return append_meant(texts, meaning.compare(reader, question, asked, texts), question.limit)
        except VectorsMissingError as reason:
            return _with_reason(texts, str(reason))

    def _like_a_vector(self, reader: IndexReader, question: Question) -> list[Candidate]:
        """Search by a given vector; the text search takes no part. Raises VectorsMissingError."""
        if self._meaning is None:
            raise VectorsMissingError("semantic search is not available")
        return self._meaning.search(reader, question, question.limit)


WARM_MEMORIES = 100  # an index with fewer is loaded by its first question: that takes less than the word table


def warm_up(reader: IndexReader, meaning: SemanticSearch, now: float) -> bool:
    """Load what questions would wait for: the words of the index, among which the forms of their words are looked up;
    for meaning the word table and the vectors. False if it loads nothing for meaning. `now` in seconds."""
    embedder = meaning.embedder
    if reader.size < WARM_MEMORIES:
        return False
    reader.vocabulary()
    if embedder is None or not embedder.fast:
        return False
    SearchEngine(meaning).find(reader, Question(parse_query("a memory"), Filters(), "hybrid", 1, now))
    return True


def missing_in(reader: IndexReader, question: Question) -> Missing:
    """Return the words of a question that no memory has; none if it asks by a vector."""
    if question.like is not None:
        return Missing()
    return missing_words(reader, question.query, question.period.words if question.period is not None else "")


def _score(found: Candidate) -> float:
    return found.score


def _within(question: Question, period: Period) -> Question:
    """Return the question without the words of its period, asked of memories of that period."""
    query = replace(parse_query(period.rest), forms=question.query.forms)
    return replace(question, query=query, filters=filters_within(period, question.filters))


def _with_reason(found: Sequence[Candidate], missing: str) -> list[Candidate]:
    """Add the reason why the semantic search is missing."""
    return [replace(each, why={**each.why, "semantic": missing}) for each in found]


def _by_text(reader: IndexReader, question: Question, limit: int) -> list[Candidate]:
    """Search by text, ranked by the layout's profile."""
    points = question.profile.points
    if points is None:
        return text_candidates(reader, question.query, question.filters, limit, question.now)
    most = max(limit, _depth(question))
    found = text_candidates(reader, question.query, question.filters, most, question.now)
    return rank_by_points(reader, question.query, found, points=points, now=question.now, limit=limit)


def _depth(question: Question) -> int:
    """Return the number of candidates to find before they are ranked."""
    return question.limit if question.profile.points is None else max(question.limit * 3 // 2, MAX_POINTED)
