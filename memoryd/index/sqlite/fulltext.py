"""Full-text search: render a query for FTS5, bound its cost, and scale BM25 scores to 0..1.

The cost of a query depends on how many memories contain its words, because FTS5 scores every memory with any of them.
So in a large index only rare words are scored, and only the newest of very many matches. If few memories match, they
are read and scored here instead.

Which spellings are one word (case, accents, scripts) is decided in `core.words`. Filters are part of each query, so
that they apply before the best matches are selected.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from operator import itemgetter

import msgspec

from memoryd.core.index import Match, MatchKind, Memory
from memoryd.core.query import Filters, Term, TextQuery, informative_terms
from memoryd.core.text_match import has_words, term_counts
from memoryd.index.sqlite.database import Database, Row
from memoryd.index.sqlite.memories import FROM_MATCHES, Memories, all_of, conditions, forms_of, term_expression
from memoryd.index.sqlite.statistics import MAX_SCORED, Statistics
from memoryd.index.sqlite.substrings import Substrings

NEWEST = 2_500  # memories that are scored if more match
MAX_RARE = 1_000  # memories with the rare terms that are looked up before the others
SPLIT = 5  # characters of texts that are split into words in the time in which FTS5 reads one match
MANY = 300  # matches; of more, only the records of the best are looked up
SPARE = 3  # times the matches that are wanted: mostly enough of them pass the filters
RARE = 1.5  # a form is rare if its term, in any form, is in this many times more memories

_BM25 = "-bm25(words, 3.0, 2.0, 1.0)"  # title, labels and tags, body
_SIGNALS = "r.created, r.weight, r.uses"
_ROWIDS = "SELECT rowid FROM words WHERE words MATCH ?"
_KEYS = "(SELECT json_group_array(rowid) FROM words WHERE words MATCH ?)"  # as one row: half the time of many
_FIRST_KEYS = f"SELECT json_group_array(rowid) FROM ({_ROWIDS} LIMIT ?)"  # noqa: S608 - constants only
_key_set = msgspec.json.Decoder(set[int]).decode
_PHRASE_FIRST = "ORDER BY whole DESC, score DESC, w.rowid DESC LIMIT ?"
_SURPLUS = f"SELECT rowid, ({_BM25}) * ? FROM words WHERE words MATCH ?"  # noqa: S608 - constants only
_RARE = (  # both materialised: FTS5 cannot score within an aggregate
    "WITH part (key, much) AS MATERIALIZED ({}),"
    " rare AS MATERIALIZED (SELECT key, sum(much) AS much FROM part GROUP BY key) "
)
_FROM_RARE = FROM_MATCHES.replace(" WHERE ", " LEFT JOIN rare ON rare.key = w.rowid WHERE ")
# The filters are applied to the best alone: a record takes as long to look up as a match to score.
_BEST = (
    f"SELECT key, score, {_SIGNALS} FROM (SELECT w.rowid AS key, {_BM25} AS score FROM words AS w"  # noqa: S608 - constants
    " WHERE words MATCH ?{among} ORDER BY score DESC, w.rowid DESC LIMIT ?) CROSS JOIN records AS r USING (key)"
    " WHERE 1{where}"
)
_FEW_LEFT_OUT = (Filters(), Filters(owner=""))  # archived memories only
_SHARE_ARCHIVED = "SELECT avg(archived) FROM records"


class FullText:
    """Full-text queries on one connection; used by one thread at a time."""

    def __init__(self, db: Database, memories: Memories, statistics: Statistics, substrings: Substrings) -> None:
        self._db = db
        self._memories = memories
        self._statistics = statistics
        self._substrings = substrings

    def keys_with(self, terms: Sequence[Term], most: int) -> list[Collection[int] | None]:
        """Return the keys of the memories that contain each term; None for a term in more than `most` of them."""
        counts = self._statistics.term_frequencies(terms)
        few = [term_expression(term) for term, count in zip(terms, counts, strict=True) if 0 < count <= most]
        row = self._db.row(f"SELECT {', '.join([_KEYS] * len(few))}", few) if few else None
        found = map(_key_set, row or ())
        return [None if count > most else next(found) if count else set() for count in counts]

    def keys_with_label(self, terms: Sequence[Term], most: int) -> Collection[int] | None:
        """Return the keys of the memories with one of the terms in their labels or tags; None if they are more than
        `most`."""
        some = " OR ".join(map(term_expression, terms))
        row = self._db.row(_FIRST_KEYS, (f"labels : ({some})", most + 1)) if some else None
        keys = _key_set(row[0]) if row else set()
        return keys if len(keys) <= most else None

    def match(self, query: TextQuery, filters: Filters, limit: int) -> list[Match]:
        """Return the memories that match, at most `limit`, best first within each kind; ties go to the newest key."""
        if query.mode == "substring":
            return list(self._substrings.find(query, filters, limit))
        if query.mode == "any":
            return self._any(query, filters, limit)
        if query.phrase is not None and not query.terms:
            return self._with_phrase(query.phrase, filters, limit)
        if query.phrase is not None and self._statistics.size <= MAX_SCORED:
            return self._phrase_and_all(query.phrase, query.terms, filters, limit)
        return self._all(query.terms, query.phrase, filters, limit)

    def _phrase_and_all(self, phrase: Term, terms: Sequence[Term], filters: Filters, limit: int) -> list[Match]:
        """Return memories with all of the terms, in one query, those with the phrase first."""
        where, values = conditions(filters)
        columns = f"w.rowid, {_BM25} AS score, {_SIGNALS}, w.rowid IN ({_ROWIDS}) AS whole"
        query = f"SELECT {columns} {FROM_MATCHES}{where} {_PHRASE_FIRST}"
        rows = self._db.rows(query, (term_expression(phrase), all_of(terms), *values, limit))
        full = self._statistics.full_score(terms) if rows else 1.0
        return [
            Match(key, min(score / full, 1.0), "phrase" if whole else "all", *worth)
            for key, score, *worth, whole in rows
        ]

    def _all(self, terms: Sequence[Term], phrase: Term | None, filters: Filters, limit: int) -> list[Match]:
        """Return memories with all of the terms, those with the phrase first. In a large index the matches are counted
        before they are scored: there are mostly few, while scoring costs as much as all memories with any of the
        words."""
        if not terms:
            return []
        every, size, counts = all_of(terms), self._statistics.size, self._statistics.term_frequencies(terms)
        if size <= MAX_SCORED or (len(terms) == 1 and counts[0] <= MAX_SCORED):
            return self._matches(self._best(every, terms, filters, limit), terms, "all")
        few = self._few_with_all(terms, filters, limit)
        if few is not None:
            found = self._score(terms, counts, few, "all") if few else []
        else:
            informative = informative_terms(terms, counts, size, MAX_SCORED)
            within = every if len(informative) < len(terms) else ""
            rows = self._best(all_of(informative), informative, filters, limit, newest=NEWEST, within=within)
            found = self._matches(rows, informative, "all")
        whole = self._phrase(phrase, terms, few, filters, limit) if phrase is not None and found else []
        known = {match.key for match in whole}
        return [*whole, *(match for match in found if match.key not in known)]

    def _phrase(
        self, phrase: Term, terms: Sequence[Term], every: list[Memory] | None, filters: Filters, limit: int
    ) -> list[Match]:
        """Return memories with the phrase, of these terms; `every`: all those with the terms, if they are few."""
        if every is not None and _length(every) <= SPLIT * sum(self._statistics.term_frequencies(terms)):
            return self._score([phrase], [1], [each for each in every if has_words(_fields(each), [phrase])], "phrase")
        return self._with_phrase(phrase, filters, limit)

    def _with_phrase(self, phrase: Term, filters: Filters, limit: int) -> list[Match]:
        """Return memories with the phrase. To score a few here takes less time than FTS5, which would count first."""
        few = self._memories.few_matching(term_expression(phrase), filters, limit)
        if few is not None:
            return self._score([phrase], [1], few, "phrase")
        rows = self._best(term_expression(phrase), (phrase,), filters, limit, newest=NEWEST)
        return self._matches(rows, [phrase], "phrase")

    def _any(self, query: TextQuery, filters: Filters, limit: int) -> list[Match]:
        scale = query.scale or query.terms
        expression = " OR ".join(map(term_expression, query.terms))
        alone = len(set(query.terms) & set(scale)) == 1
        newest = NEWEST if alone else 0
        rows = self._best(expression, query.terms, filters, limit, newest=newest) if expression else []
        return self._matches(rows, scale, "any")

    def _best(
        self, expression: str, terms: Sequence[Term], filters: Filters, limit: int, *, newest: int = 0, within: str = ""
    ) -> list[Row]:
        """Return the best by BM25 that also match `within`. If more than `newest` match, only the newest are scored: a
        word this common carries no information."""
        where, values = conditions(filters)
        among = ""
        given: tuple[str | float, ...] = (expression,)
        if newest and self._statistics.count([expression])[0] > newest:
            at = f"SELECT w.rowid {FROM_MATCHES}{where} ORDER BY w.rowid DESC LIMIT 1 OFFSET ?"
            row = self._db.row(at, (within or expression, *values, newest))
            among, given = " AND w.rowid > ?", (expression, row[0] if row else 0)
        if within:
            among, given = f"{among} AND +w.rowid IN ({_ROWIDS})", (*given, within)
        rare, surplus = self._rare_forms(terms)
        few_left_out = filters in _FEW_LEFT_OUT and not self._statistics.mostly_archived
        if not rare and few_left_out and sum(self._statistics.term_frequencies(terms)) > MANY:
            rows = self._db.rows(_BEST.format(among=among, where=where), (*given, SPARE * limit, *values))
            if len(rows) >= limit:
                return sorted(rows, key=itemgetter(1, 0), reverse=True)[:limit]
            if self._statistics.mostly_archived is None:
                [share] = self._db.row(_SHARE_ARCHIVED) or (0,)
                self._statistics.mostly_archived = share > 1 - 1 / SPARE
        score, source = (f"{_BM25} - coalesce(much, 0)", _FROM_RARE) if rare else (_BM25, FROM_MATCHES)
        columns = f"w.rowid, {score} AS score, {_SIGNALS}"
        query = f"{rare}SELECT {columns} {source}{among}{where} ORDER BY score DESC, w.rowid DESC LIMIT ?"
        return self._db.rows(query, (*surplus, *given, *values, limit))

    def _rare_forms(self, terms: Sequence[Term]) -> tuple[str, list[str | float]]:
        """Return what to subtract from the score of memories with a rare form of a term, as SQL (empty if nothing is)
        and its values.

        FTS5 gives each form a weight of its own, the highest to the rarest; but a form is no more informative than its
        term. A form adds less to the score of a long memory, and so less is subtracted."""
        pairs = [(each, form) for each in terms if each.forms for form in forms_of(each)]
        if not pairs:
            return "", []
        whole = self._statistics.term_frequencies([term for term, _ in pairs])
        alone = self._statistics.term_frequencies([form for _, form in pairs])
        values: list[str | float] = []
        for (_, form), of_term, of_form in zip(pairs, whole, alone, strict=True):
            if 0 < of_form * RARE < of_term:
                values += (1 - self._statistics.idf(of_term) / self._statistics.idf(of_form), term_expression(form))
        if not values:
            return "", []
        return _RARE.format(" UNION ALL ".join([_SURPLUS] * (len(values) // 2))), values

    def _few_with_all(self, terms: Sequence[Term], filters: Filters, limit: int) -> list[Memory] | None:
        """Return the memories with all of the terms, as `Memories.few_matching` does. First those with the rare terms
        are looked up: if they are few, their texts are searched for the other terms, whose many memories FTS5 would all
        read."""
        counts = self._statistics.term_frequencies(terms)
        rare = informative_terms(terms, counts, self._statistics.size, MAX_RARE)
        others = {term: count for term, count in zip(terms, counts, strict=True) if term not in rare}
        if others and (len(rare) > 1 or min(counts) <= limit) and not any(term.prefix or term.forms for term in others):
            few = self._memories.few_matching(all_of(rare), filters, limit)
            if few is not None and _length(few) <= SPLIT * sum(others.values()):
                return [each for each in few if has_words(_fields(each), [*others])]
        return self._memories.few_matching(all_of(terms), filters, limit)

    # --- scores

    def _matches(self, rows: Sequence[Row], terms: Sequence[Term], kind: MatchKind) -> list[Match]:
        """Scale the BM25 scores of rows by the highest score the terms could reach."""
        full = self._statistics.full_score(terms) if rows else 1.0
        return [
            Match(key, min(max(score / full, 0.0), 1.0), kind, created, weight, uses)
            for key, score, created, weight, uses in rows
        ]

    def _score(
        self, terms: Sequence[Term], counts: Sequence[int], memories: Iterable[Memory], kind: MatchKind
    ) -> list[Match]:
        """Score memories as BM25 would. `counts` is the number of memories with each term."""
        weights = [self._statistics.idf(count) for count in counts]
        usual_length = self._statistics.usual_length  # in characters
        found: list[Match] = []
        for each in memories:
            length = 0.25 + 0.75 * len(each.body) / usual_length
            fields = zip((3, 2, 1), _fields(each), strict=True)
            counts_by_term = zip(
                *([weight * n for n in term_counts(terms, text)] for weight, text in fields), strict=True
            )
            parts = (sum(times) / (sum(times) + 1.2 * length) for times in counts_by_term)
            part = sum(map(float.__mul__, weights, parts)) / (sum(weights) or 1.0)
            found.append(Match(each.key, part, kind, each.created, each.weight, each.uses))
        return found


def _length(memories: Iterable[Memory]) -> int:
    return sum([len(each.body) for each in memories])


def _fields(memory: Memory) -> tuple[str, str, str]:
    """Return the fields of a memory as they are indexed."""
    return memory.title, f"{memory.labels}\n{memory.tags}", memory.body
