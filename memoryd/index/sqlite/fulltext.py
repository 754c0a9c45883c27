"""Full-text search: render a query for FTS5, bound its cost, and scale BM25 scores to 0..1.

The cost of a query depends on how many memories contain its words, because FTS5 scores every memory with any of them.
So in a large index only rare words are scored, and only the newest of very many matches. If few memories match, they
are read and scored here instead.

Which spellings are one word (case, accents, scripts) is decided in `core.words`. Filters are part of each query, so
that they apply before the best matches are selected.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, groupby
from math import log
from operator import itemgetter
from typing import NamedTuple

import msgspec

from memoryd.core.index import Match, MatchKind, Memory
from memoryd.core.query import Filters, Term, TextQuery, informative_terms
from memoryd.core.text_match import has_words, pieces_in, term_counts
from memoryd.core.words import STOP_WORDS, tokens, unspaced
from memoryd.index.sqlite.database import Database, Row
from memoryd.index.sqlite.memories import Memories, MemoryText, conditions
from memoryd.index.sqlite.word_list import WordList

MAX_SCORED = 3_000  # memories with any of the words that FTS5 scores without a limit on the newest
NEWEST = 2_500  # memories that are scored if more match
MAX_RARE = 1_000  # memories with the rare terms that are looked up before the others
SPLIT = 5  # characters of texts that are split into words in the time in which FTS5 reads one match
MANY = 300  # matches; of more, only the records of the best are looked up
SPARE = 3  # times the matches that are wanted: mostly enough of them pass the filters
RARE = 1.5  # a form is rare if its term, in any form, is in this many times more memories
MAX_NARROWING = 3  # words of a piece whose memories are looked up: fewer conditions only leave more to search
MIN_PREFIX = 3  # letters of the last word of a piece that is looked up by the words that begin with it
FEW_WORDS = 20  # words that contain a substring; the memories with so few are looked up at once
NEWEST_SEARCHED = 300  # memories that are searched first if there are more
MAX_WORDS = 400  # words that contain a substring; if there are more, nearly every memory has one of them
_MAX_BM25 = 2.2  # the limit of BM25 for a word that occurs infinitely often: k1 + 1
_COMMON = 1_000  # counts from here on stay cached while the index changes little
_MIN_COUNT_LIMIT = 4_000  # counting never stops below this number of memories
_LETTERS = 6.5  # average length of a word with the space after it
_MAX_CACHED = 20_000  # words whose frequency is cached

_BM25 = "-bm25(words, 3.0, 2.0, 1.0)"  # title, labels and tags, body
_SIGNALS = "r.created, r.weight, r.uses"
_ROWIDS = "SELECT rowid FROM words WHERE words MATCH ?"
_KEYS = "(SELECT json_group_array(rowid) FROM words WHERE words MATCH ?)"  # as one row: half the time of many
_FIRST_KEYS = f"SELECT json_group_array(rowid) FROM ({_ROWIDS} LIMIT ?)"  # noqa: S608 - constants only
_key_set = msgspec.json.Decoder(set[int]).decode
_PHRASE_FIRST = "ORDER BY whole DESC, score DESC, w.rowid DESC LIMIT ?"
_FROM = "FROM words AS w CROSS JOIN records AS r ON r.key = w.rowid WHERE words MATCH ?"
_SURPLUS = f"SELECT rowid, ({_BM25}) * ? FROM words WHERE words MATCH ?"  # noqa: S608 - constants only
_RARE = (  # both materialised: FTS5 cannot score within an aggregate
    "WITH part (key, much) AS MATERIALIZED ({}),"
    " rare AS MATERIALIZED (SELECT key, sum(much) AS much FROM part GROUP BY key) "
)
_FROM_RARE = _FROM.replace(" WHERE ", " LEFT JOIN rare ON rare.key = w.rowid WHERE ")
# The filters are applied to the best alone: a record takes as long to look up as a match to score.
_BEST = (
    f"SELECT key, score, {_SIGNALS} FROM (SELECT w.rowid AS key, {_BM25} AS score FROM words AS w"  # noqa: S608 - constants
    " WHERE words MATCH ?{among} ORDER BY score DESC, w.rowid DESC LIMIT ?) CROSS JOIN records AS r USING (key)"
    " WHERE 1{where}"
)
_FEW_LEFT_OUT = (Filters(), Filters(owner=""))  # archived memories only
_SHARE_ARCHIVED = "SELECT avg(archived) FROM records"
_COUNT = "(SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?))"
_NEWER = "SELECT r.title, r.tags, t.labels, t.body FROM records AS r JOIN texts AS t USING (key) WHERE r.key > ?"
_BETWEEN = "SELECT term FROM vocabulary WHERE term >= ? AND term < ?"
# As one row: after each row other threads may run, which would take seconds during a first index.
_TERMS = "SELECT CAST(group_concat(term, char(10)) AS BLOB) FROM vocabulary"
_TOTALS = "SELECT block FROM words_data WHERE id = 1"  # maintained by FTS5: number of rows, then of words in each field


class FullText:
    """Full-text queries on one connection; used by one thread at a time."""

    def __init__(self, db: Database, memories: Memories, words: WordList) -> None:
        self._db = db
        self._memories = memories
        self._word_list = words
        self._version = -1
        self._size = self._word_count = 0
        # So many are archived that the best matches are not looked up before the others; None: not known yet.
        self._mostly_archived: bool | None = None
        self._frequencies: dict[str, int] = {}

    @property
    def size(self) -> int:
        """The number of memories, archived ones included."""
        if not self._db.read_only:
            self._read_totals()  # the writer has no snapshots, in which the totals would be current
        return self._size

    def term_frequencies(self, terms: Sequence[Term]) -> list[int]:
        """Return the number of memories that contain each term; approximate for common terms. Stop words are not
        counted in a large index: they are taken to be in half of the memories."""
        size = self.size
        if size <= MAX_SCORED:
            return self._count(list(map(_expression, terms)))
        counts = iter(self._count([_expression(term) for term in terms if term.text not in STOP_WORDS]))
        return [size // 2 if term.text in STOP_WORDS else next(counts) for term in terms]

    def keys_with(self, terms: Sequence[Term], most: int) -> list[Collection[int] | None]:
        """Return the keys of the memories that contain each term; None for a term in more than `most` of them."""
        counts = self.term_frequencies(terms)
        few = [_expression(term) for term, count in zip(terms, counts, strict=True) if 0 < count <= most]
        row = self._db.row(f"SELECT {', '.join([_KEYS] * len(few))}", few) if few else None
        found = map(_key_set, row or ())
        return [None if count > most else next(found) if count else set() for count in counts]

    def keys_with_label(self, terms: Sequence[Term], most: int) -> Collection[int] | None:
        """Return the keys of the memories with one of the terms in their labels or tags; None if they are more than
        `most`."""
        some = " OR ".join(map(_expression, terms))
        row = self._db.row(_FIRST_KEYS, (f"labels : ({some})", most + 1)) if some else None
        keys = _key_set(row[0]) if row else set()
        return keys if len(keys) <= most else None

    def match(self, query: TextQuery, filters: Filters, limit: int) -> list[Match]:
        """Return the memories that match, at most `limit`, best first within each kind; ties go to the newest key."""
        if query.mode == "substring":
            return list(self._substring(query, filters, limit))
        if query.mode == "any":
            return self._any(query, filters, limit)
        if query.phrase is not None and not query.terms:
            return self._with_phrase(query.phrase, filters, limit)
        if query.phrase is not None and self.size <= MAX_SCORED:
            return self._phrase_and_all(query.phrase, query.terms, filters, limit)
        return self._all(query.terms, query.phrase, filters, limit)

    def words_beginning(self, start: str) -> list[str]:
        """Return the words of all memories that begin with `start`, in order."""
        found = self._word_list.words_beginning(start, self._memories.last_key(), self._terms, self._words_after)
        if found is None:
            after = start[:-1] + chr(ord(start[-1]) + 1)
            found = [row[0] for row in self._db.rows(_BETWEEN, (start, after))]
        return found

    def vocabulary(self) -> str:
        """Return the words of all memories, each between newlines. It may contain words of deleted memories."""
        return self._word_list.words_up_to(self._memories.last_key(), self._terms, self._words_after).decode()

    # --- caches of one state

    def begin(self) -> bool:
        """Drop what was cached for an older state; False if nothing changed. The first read begins the snapshot."""
        row = self._db.row("PRAGMA data_version")
        version = row[0] if row else 0
        if version == self._version:
            return False
        self._version = version
        self._read_totals()
        return True

    def _read_totals(self) -> None:
        size, *words = _numbers(self._db.row(_TOTALS))
        alike = abs(size - self._size) * 20 < size
        common = {each: count for each, count in self._frequencies.items() if count >= _COMMON} if alike else {}
        self._frequencies, self._size, self._word_count = common, size, sum(words)
        self._mostly_archived = self._mostly_archived if alike else None

    def _count(self, expressions: Sequence[str]) -> list[int]:
        """Return the number of memories that match each expression, in one query. Counting stops at a fifth of all
        memories: it does not matter how common a common word is."""
        known = self._frequencies
        missing = [each for each in dict.fromkeys(expressions) if each not in known]
        if missing:
            if len(known) > _MAX_CACHED:
                known.clear()
                missing = list(dict.fromkeys(expressions))
            most = max(self._size // 5, _MIN_COUNT_LIMIT)
            values = [value for each in missing for value in (each, most)]
            row = self._db.row(f"SELECT {', '.join([_COUNT] * len(missing))}", values)
            known.update(zip(missing, row or (), strict=True))
        return [known[each] for each in expressions]

    # --- words

    def _phrase_and_all(self, phrase: Term, terms: Sequence[Term], filters: Filters, limit: int) -> list[Match]:
        """Return memories with all of the terms, in one query, those with the phrase first."""
        where, values = conditions(filters)
        columns = f"w.rowid, {_BM25} AS score, {_SIGNALS}, w.rowid IN ({_ROWIDS}) AS whole"
        query = f"SELECT {columns} {_FROM}{where} {_PHRASE_FIRST}"
        rows = self._db.rows(query, (_expression(phrase), _all_of(terms), *values, limit))
        full = self._full_score(terms) if rows else 1.0
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
        every = _all_of(terms)
        if self.size <= MAX_SCORED or (len(terms) == 1 and self.term_frequencies(terms)[0] <= MAX_SCORED):
            return self._matches(self._best(every, terms, filters, limit), terms, "all")
        few = self._few_with_all(terms, filters, limit)
        if few is not None:
            found = self._score(terms, self.term_frequencies(terms), few, "all") if few else []
        else:
            informative = informative_terms(terms, self.term_frequencies(terms), self._size, MAX_SCORED)
            within = every if len(informative) < len(terms) else ""
            rows = self._best(_all_of(informative), informative, filters, limit, newest=NEWEST, within=within)
            found = self._matches(rows, informative, "all")
        whole = self._phrase(phrase, terms, few, filters, limit) if phrase is not None and found else []
        known = {match.key for match in whole}
        return [*whole, *(match for match in found if match.key not in known)]

    def _phrase(
        self, phrase: Term, terms: Sequence[Term], every: list[Memory] | None, filters: Filters, limit: int
    ) -> list[Match]:
        """Return memories with the phrase, of these terms; `every`: all those with the terms, if they are few."""
        if every is not None and _length(every) <= SPLIT * sum(self.term_frequencies(terms)):
            return self._score([phrase], [1], [each for each in every if has_words(_fields(each), [phrase])], "phrase")
        return self._with_phrase(phrase, filters, limit)

    def _with_phrase(self, phrase: Term, filters: Filters, limit: int) -> list[Match]:
        """Return memories with the phrase. To score a few here takes less time than FTS5, which would count first."""
        few = self._match_few(_expression(phrase), filters, limit)
        if few is not None:
            return self._score([phrase], [1], few, "phrase")
        rows = self._best(_expression(phrase), (phrase,), filters, limit, newest=NEWEST)
        return self._matches(rows, [phrase], "phrase")

    def _any(self, query: TextQuery, filters: Filters, limit: int) -> list[Match]:
        scale = query.scale or query.terms
        expression = " OR ".join(map(_expression, query.terms))
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
        if newest and self._count([expression])[0] > newest:
            at = f"SELECT w.rowid {_FROM}{where} ORDER BY w.rowid DESC LIMIT 1 OFFSET ?"
            row = self._db.row(at, (within or expression, *values, newest))
            among, given = " AND w.rowid > ?", (expression, row[0] if row else 0)
        if within:
            among, given = f"{among} AND +w.rowid IN ({_ROWIDS})", (*given, within)
        rare, surplus = self._rare_forms(terms)
        few_left_out = filters in _FEW_LEFT_OUT and not self._mostly_archived
        if not rare and few_left_out and sum(self.term_frequencies(terms)) > MANY:
            rows = self._db.rows(_BEST.format(among=among, where=where), (*given, SPARE * limit, *values))
            if len(rows) >= limit:
                return sorted(rows, key=itemgetter(1, 0), reverse=True)[:limit]
            if self._mostly_archived is None:
                [share] = self._db.row(_SHARE_ARCHIVED) or (0,)
                self._mostly_archived = share > 1 - 1 / SPARE
        score, source = (f"{_BM25} - coalesce(much, 0)", _FROM_RARE) if rare else (_BM25, _FROM)
        columns = f"w.rowid, {score} AS score, {_SIGNALS}"
        query = f"{rare}SELECT {columns} {source}{among}{where} ORDER BY score DESC, w.rowid DESC LIMIT ?"
        return self._db.rows(query, (*surplus, *given, *values, limit))

    def _rare_forms(self, terms: Sequence[Term]) -> tuple[str, list[str | float]]:
        """Return what to subtract from the score of memories with a rare form of a term, as SQL (empty if nothing is)
        and its values.

        FTS5 gives each form a weight of its own, the highest to the rarest; but a form is no more informative than its
        term. A form adds less to the score of a long memory, and so less is subtracted."""
        pairs = [(each, form) for each in terms if each.forms for form in _forms_of(each)]
        if not pairs:
            return "", []
        whole = self.term_frequencies([term for term, _ in pairs])
        alone = self.term_frequencies([form for _, form in pairs])
        values: list[str | float] = []
        for (_, form), of_term, of_form in zip(pairs, whole, alone, strict=True):
            if 0 < of_form * RARE < of_term:
                values += (1 - _idf(of_term, self._size) / _idf(of_form, self._size), _expression(form))
        if not values:
            return "", []
        return _RARE.format(" UNION ALL ".join([_SURPLUS] * (len(values) // 2))), values

    def _match_few(self, expression: str, filters: Filters, limit: int) -> list[Memory] | None:
        """Return the memories that match, newest first; None, without reading their texts, if there are more than
        `limit`."""
        where, values = conditions(filters)
        query = f"SELECT w.rowid {_FROM}{where} ORDER BY w.rowid LIMIT ?"  # descending takes FTS5 more time
        keys = [key for (key,) in self._db.rows(query, (expression, *values, limit + 1))]
        return list(self._memories.memories(keys[::-1]).values()) if len(keys) <= limit else None

    def _few_with_all(self, terms: Sequence[Term], filters: Filters, limit: int) -> list[Memory] | None:
        """Return the memories with all of the terms, as `_match_few` does. First those with the rare terms are looked
        up: if they are few, their texts are searched for the other terms, whose many memories FTS5 would all read."""
        counts = self.term_frequencies(terms)
        rare = informative_terms(terms, counts, self._size, MAX_RARE)
        others = {term: count for term, count in zip(terms, counts, strict=True) if term not in rare}
        if others and (len(rare) > 1 or min(counts) <= limit) and not any(term.prefix or term.forms for term in others):
            few = self._match_few(_all_of(rare), filters, limit)
            if few is not None and _length(few) <= SPLIT * sum(others.values()):
                return [each for each in few if has_words(_fields(each), [*others])]
        return self._match_few(_all_of(terms), filters, limit)

    # --- scores

    def _full_score(self, terms: Sequence[Term]) -> float:
        """Return the highest BM25 score that these terms could reach together; above 0."""
        return _MAX_BM25 * sum(_idf(count, self._size) for count in self.term_frequencies(terms)) or 1.0

    def _matches(self, rows: Sequence[Row], terms: Sequence[Term], kind: MatchKind) -> list[Match]:
        """Scale the BM25 scores of rows by the highest score the terms could reach."""
        full = self._full_score(terms) if rows else 1.0
        return [
            Match(key, min(max(score / full, 0.0), 1.0), kind, created, weight, uses)
            for key, score, created, weight, uses in rows
        ]

    def _score(
        self, terms: Sequence[Term], counts: Sequence[int], memories: Iterable[Memory], kind: MatchKind
    ) -> list[Match]:
        """Score memories as BM25 would. `counts` is the number of memories with each term."""
        weights = [_idf(count, self._size) for count in counts]
        usual_length = max(_LETTERS * self._word_count / max(self._size, 1), 1.0)  # in characters
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

    # --- substrings

    def _substring(self, query: TextQuery, filters: Filters, limit: int) -> Iterator[Match]:
        """Yield memories that contain a piece. Words that contain it are looked up first, so that only memories with
        such a word are read; each of these is then searched itself."""
        pieces = tuple(dict.fromkeys(term.text.casefold() for term in query.terms))
        few = self._few_with_whole_words(pieces, filters, limit) if query.whole_words and pieces else None
        every = (self._texts_with(piece, filters, query.without) for piece in pieces)
        texts: Iterable[Memory | MemoryText] = chain.from_iterable(every) if few is None else few
        seen = set(query.without)
        found = 0
        for each in texts:
            if found >= limit:
                return
            if each.key in seen:
                continue
            seen.add(each.key)
            present = pieces_in(pieces, f"{each.title}\n{each.tags}\n{each.body}", whole_words=query.whole_words)
            if present:
                yield Match(each.key, len(present) / len(pieces), "substring", each.created, each.weight, each.uses)
                found += 1

    def _few_with_whole_words(self, pieces: Sequence[str], filters: Filters, limit: int) -> list[Memory] | None:
        """Return every memory that may have one of the pieces as whole words, and few others; None if they are more
        than `limit`, or a piece has no word or a sign beyond ASCII, which may be none in the index (`™` is `tm`). A
        word may also be joined to letters beyond ASCII."""
        words: dict[str, None] = {}
        for piece in pieces:
            longest = max(filter(str.isalnum, tokens(piece)), key=len, default="")
            plain = longest and all(each.isascii() or each.isalnum() for each in piece)
            joined = self._words_containing(longest, MAX_WORDS, beyond_ascii=True) if plain else None
            if joined is None:
                return None
            words |= dict.fromkeys((longest, *joined))
        return self._match_few(" OR ".join(_expression(Term(each)) for each in words), filters, limit)

    def _texts_with(self, piece: str, filters: Filters, without: Collection[int]) -> Iterator[MemoryText]:
        """Yield every memory that may contain the piece, and few others; newest first. Of a piece that is in many words
        the newest memories are searched first, which mostly has found enough before its words are asked for."""
        words = tokens(piece)
        sign = piece if piece.isascii() else ""
        run = max((list(group) for alone, group in groupby(words, unspaced) if alone), key=len, default=[])
        if run:
            yield from self._memories.matching(_expression(Term(" ".join(run))), filters, without)
            return
        if not words:
            yield from self._memories.all_with(piece, filters, without)
            return
        parts = _parts(words, piece)
        holding = self._words_with(parts, FEW_WORDS)
        older = self._memories.last_key() - NEWEST_SEARCHED
        if holding is None:
            yield from self._memories.all_with(sign, filters, without, above=older)
            holding = self._words_with(parts, MAX_WORDS)
        if holding is None:
            yield from self._memories.all_with(sign, filters, without, upto=older)
        elif holding:
            among = sign if not all(map(str.isalnum, words)) else ""
            yield from self._memories.matching(holding, filters, without, among)

    def _words_with(self, parts: Sequence[_Part], most: int) -> str | None:
        """Return an expression for the words of the index that can hold the longest words of a piece: for one of them,
        and for others while many memories match. "" if one is in no word, None if each is in more than `most`."""
        found: list[str] = []
        for number, part in enumerate(parts, 1):
            holding = self._holding(part, most) if part.inside else _expression(part.term)
            if holding is None:
                continue
            if not holding:
                return ""
            found.append(holding)
            if number == len(parts) or self._count(found[-1:])[0] <= FEW_WORDS:
                break
        return " AND ".join(f"({each})" for each in found) or None

    def _holding(self, part: _Part, most: int) -> str | None:
        """Return an expression for the words that contain a part; "" if there are none, None for more than `most`."""
        found = self._words_containing(part.term.text + "\n" * part.ends, most)
        return None if found is None else " OR ".join(_expression(Term(each)) for each in found)

    def _words_containing(self, piece: str, most: int, *, beyond_ascii: bool = False) -> list[str] | None:
        sources = self._memories.last_key(), self._terms, self._words_after
        return self._word_list.words_containing(piece, most, *sources, beyond_ascii=beyond_ascii)

    def _terms(self) -> bytes:
        row = self._db.row(_TERMS)
        return row[0] or b"" if row else b""

    def _words_after(self, key: int) -> Iterator[str]:
        """Yield the words of all memories with a higher key."""
        texts = self._db.rows(_NEWER, (key,))
        return chain.from_iterable(tokens("\n".join(parts)) for parts in texts)


class _Part(NamedTuple):
    """A word of a piece; `inside`: it may be in a longer word of a memory; `ends`: which then ends with it."""

    term: Term
    inside: bool
    ends: bool = False


def _parts(words: Sequence[str], piece: str) -> list[_Part]:
    """Return some words of a piece, the longest first. Only the first word of a plain piece may be inside a longer one,
    since signs stand around the others; a word of a memory may begin with the last one. C++ and C# are looked for
    without their signs, which the index treats as letters."""
    plain = piece.isascii()
    found = {word: _Part(Term(word), inside=True) for word in words if word.isalnum()}
    if plain and words[0] in found and len(found) < len(set(words)):
        found[words[0]] = _Part(Term(words[0]), inside=True, ends=True)
    if plain and len(found) > 1 and all(map(str.isalnum, words)):
        found |= {word: _Part(Term(word), inside=False) for word in words[1:-1]}
        if len(words[-1]) >= MIN_PREFIX and words[-1] not in words[:-1]:
            found[words[-1]] = _Part(Term(words[-1], prefix=True), inside=False)
    ordered = sorted(found.values(), key=lambda each: (each.inside, -len(each.term.text), each.term.text))
    return ordered[:MAX_NARROWING] or [_Part(Term(words[0]), inside=True)]


@lru_cache(maxsize=4_096)  # a question counts its terms several times
def _expression(term: Term) -> str:
    """Render a term for FTS5, quoted, so that nothing in it is an operator."""
    if term.forms:
        return f"({' OR '.join(map(_expression, _forms_of(term)))})"
    text = term.text.replace('"', '""')
    return f'"{text}"*' if term.prefix else f'"{text}"'


def _forms_of(term: Term) -> list[Term]:
    """Return the term without its forms, and each of them."""
    return [Term(term.text, term.prefix), *map(Term, term.forms)]


def _all_of(terms: Iterable[Term]) -> str:
    return " AND ".join(map(_expression, terms))


def _length(memories: Iterable[Memory]) -> int:
    return sum([len(each.body) for each in memories])


def _fields(memory: Memory) -> tuple[str, str, str]:
    """Return the fields of a memory as they are indexed."""
    return memory.title, f"{memory.labels}\n{memory.tags}", memory.body


def _idf(frequency: int, size: int) -> float:
    """Return the inverse document frequency as FTS5 computes it: nearly 0 for a word in half of all memories.

    A frequency may exceed the size: memories have been deleted since it was counted, or a phrase is taken to be in one
    memory of an empty index."""
    return max(log((max(size - frequency, 0) + 0.5) / (frequency + 0.5)), 1e-6)


def _numbers(row: Row | None) -> list[int]:
    """Decode the totals of the index: variable-length integers, seven bits a byte, high bits first."""
    numbers, number = [], 0
    for byte in row[0] if row else b"":
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    return numbers or [0]
