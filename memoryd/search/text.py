"""Search by text, best matches first.

All words come first; if too few memories have them, then other forms of the words, then some of the words, the rare
ones. If words find nothing, or too little in layouts that want it, memories that contain a part of the query as typed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from memoryd.core.index import IndexReader, Match
from memoryd.core.query import Filters, Term, TextQuery, informative_terms
from memoryd.search.query_terms import ParsedQuery
from memoryd.search.ranking import ALL, FORMS, PART, PHRASE, SOME, Candidate, Span, candidate, score

POOL = 20  # candidates re-ranked by recency and use
MAX_SCORED = 3_000  # memories scored if only some of the words match
SPREAD = 50  # of these, for each place in the results
FILLING = 6  # the same for each remaining place if better matches were found already
SHORT_QUERY_WORDS = 3  # a longer query is not repeated for all of its words in other forms

Found = dict[int, tuple[float, Span, Match]]
"""Score, span and match of each memory, by its key."""


def text_candidates(
    reader: IndexReader, query: ParsedQuery, filters: Filters, limit: int, now: float
) -> list[Candidate]:
    """Find at most `limit` memories by their words; ties go to the newest key. `now` in seconds."""
    found: Found = {}
    for span, matches in _steps(reader, query, filters, limit, found):
        for match in matches:
            if match.key not in found:
                found[match.key] = score(span, match, now), span, match
        if len(found) >= limit:
            break
    best = sorted(found.items(), key=lambda each: (each[1][0], each[0]), reverse=True)[:limit]
    return [candidate(span, match, now) for _, (_, span, match) in best]


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
    if len(query.loose) > 1:
        budget = FILLING * limit if found else min(SPREAD * limit, MAX_SCORED)
        some = _some_words(reader, query, query.telling if found else query.loose, budget)
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
    whole: bool = False,
) -> list[Candidate]:
    """Find at most `limit` memories, without those in `known`, that contain a part of the query; the newest are
    searched first. With `whole`, not inside a longer word. `now` in seconds."""
    pieces = TextQuery(tuple(map(Term, query.pieces)), "substring", whole=whole)
    if not pieces.terms:
        return []
    matches = reader.match(pieces, filters, 2 * limit + len(known))
    new = [match for match in matches if match.key not in known][: 2 * limit]
    found = [candidate(PART, match, now) for match in new]
    return sorted(found, key=lambda each: (-each.score, -each.key))[:limit]
