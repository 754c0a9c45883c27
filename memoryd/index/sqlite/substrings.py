"""Search for substrings: the words that contain a piece are looked up first, then the memories with these words."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import NamedTuple

from memoryd.core.index import Match, Memory
from memoryd.core.query import Filters, Term, TextQuery
from memoryd.core.text_match import pieces_in
from memoryd.core.words import tokens, unspaced
from memoryd.index.sqlite.database import Database
from memoryd.index.sqlite.memories import Memories, MemoryText, term_expression
from memoryd.index.sqlite.statistics import Statistics
from memoryd.index.sqlite.word_list import WordList

MAX_NARROWING = 3  # words of a piece whose memories are looked up: fewer conditions only leave more to search
MIN_PREFIX = 3  # letters of the last word of a piece that is looked up by the words that begin with it
FEW_WORDS = 20  # words that contain a substring; the memories with so few are looked up at once
NEWEST_SEARCHED = 300  # memories that are searched first if there are more
MAX_WORDS = 400  # words that contain a substring; if there are more, nearly every memory has one of them
_NEWER = "SELECT r.title, r.tags, t.labels, t.body FROM records AS r JOIN texts AS t USING (key) WHERE r.key > ?"
_BETWEEN = "SELECT term FROM vocabulary WHERE term >= ? AND term < ?"
_AMONG = "SELECT term FROM vocabulary WHERE term IN"
# As one row: after each row other threads may run, which would take seconds during a first index.
_TERMS = "SELECT CAST(group_concat(term, char(10)) AS BLOB) FROM vocabulary"


class Substrings:
    """Substring queries on one connection, and the words of its index; used by one thread at a time."""

    def __init__(self, db: Database, memories: Memories, statistics: Statistics, words: WordList) -> None:
        self._db = db
        self._memories = memories
        self._statistics = statistics
        self._word_list = words

    def words_beginning(self, start: str, end: str = "") -> list[str]:
        """Return the words of all memories that begin with `start` and end with `end`, in order."""
        sources = self._memories.last_key(), self._terms, self._words_after
        found = self._word_list.words_beginning(start, *sources, end=end)
        if found is None:
            after = start[:-1] + chr(ord(start[-1]) + 1)
            found = [word for (word,) in self._db.rows(_BETWEEN, (start, after)) if word.endswith(end)]
        return found

    def known_words(self, words: Sequence[str]) -> list[str]:
        """Return those of the words that any memory has, in their order."""
        sources = self._memories.last_key(), self._terms, self._words_after
        found = self._word_list.known_words(words, *sources)
        if found is None:
            rows = self._db.rows(f"{_AMONG} ({','.join('?' * len(words))})", words)
            found = [word for word in words if (word,) in rows]
        return found

    def vocabulary(self) -> str:
        """Return the words of all memories, each between newlines. It may contain words of deleted memories."""
        return self._word_list.words_up_to(self._memories.last_key(), self._terms, self._words_after).decode()

    def find(self, query: TextQuery, filters: Filters, limit: int) -> Iterator[Match]:
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
        return self._memories.few_matching(" OR ".join(term_expression(Term(each)) for each in words), filters, limit)

    def _texts_with(self, piece: str, filters: Filters, without: Collection[int]) -> Iterator[MemoryText]:
        """Yield every memory that may contain the piece, and few others; newest first. Of a piece that is in many words
        the newest memories are searched first, which mostly has found enough before its words are asked for."""
        words = tokens(piece)
        sign = piece if piece.isascii() else ""
        run = max((list(group) for alone, group in groupby(words, unspaced) if alone), key=len, default=[])
        if run:
            yield from self._memories.matching(term_expression(Term(" ".join(run))), filters, without)
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
            holding = self._holding(part, most) if part.inside else term_expression(part.term)
            if holding is None:
                continue
            if not holding:
                return ""
            found.append(holding)
            if number == len(parts) or self._statistics.count(found[-1:])[0] <= FEW_WORDS:
                break
        return " AND ".join(f"({each})" for each in found) or None

    def _holding(self, part: _Part, most: int) -> str | None:
        """Return an expression for the words that contain a part; "" if there are none, None for more than `most`."""
        found = self._words_containing(part.term.text + "\n" * part.ends, most)
        return None if found is None else " OR ".join(term_expression(Term(each)) for each in found)

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
