"""Split a query into terms. Any text is a valid query: nothing in it is an operator.

A query that is wholly in quotation marks asks for the memories with its phrase alone. If there are none, the marks mean
nothing.

Which spellings are one word (case, accents) is decided in `core.words`. A piece between white space is one unit:
`1.0.21`, `foo_bar`, `C++` or a run of Chinese is a phrase of its parts.

The index contains words as written. If a query finds too little, it is repeated with the forms of its words:
`deploying` becomes `deploy*`, which finds deploy, deployed, deployment, and `use` finds `using` (see `search.stems`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain, islice, pairwise

from msgspec import Struct, field
from msgspec.structs import replace

from memoryd.core.index import IndexReader
from memoryd.core.query import Term
from memoryd.core.words import STOP_WORDS, tokens, unspaced
from memoryd.search.stems import function_words, languages_of, stem_prefix, word_form

MAX_CHARS = 4_096  # characters of a query that are used
MAX_UNITS = 32
MAX_PHRASE = 64  # words

_LONG, _MIDDLE = 7, 5  # letters of a word in another alphabet whose last two are cut off, or the last one
_SENTENCE_END, _POSSESSIVE = ".?!:", ("'s", "’s")
_HANGUL = ("\uac00", "\ud7a3")
_QUOTED = re.compile(r"""\s*(?:"[^"]+"|“[^“”]+”|„[^„“”]+[“”]|«[^«»]+»|»[^«»]+«)\s*""")


class Forms(dict[Term, Term]):
    """The term for each word of a question that matches it in any form. With an index it has the forms found there,
    looked up when a word is first asked for; else the forms that share a prefix."""

    def __init__(
        self, known: Mapping[Term, Term], reader: IndexReader | None = None, languages: tuple[str, ...] = ()
    ) -> None:
        super().__init__(known)
        self._reader = reader
        self._languages = languages

    def __missing__(self, term: Term) -> Term:
        if self._reader is None:
            return _prefix_term(term)
        self[term] = found = word_form(self._reader, term.text, self._languages) or _prefix_term(term)
        return found


class ParsedQuery(Struct, frozen=True, dict=True):
    """A query, `raw` as typed, and the terms it is made of. All are as typed, but those of `forms`.

    `pieces`: the parts between white space, each once. `units`: the words of each piece, each piece once. `phrase`: the
    whole query as one phrase, if several pieces have words. `exact`: each unit as one term. `words`: the single words.
    `languages`: those that it may be in. `function_words`: the words that carry little information there.
    `informative`: the single words without them. `quoted`: it is wholly in quotation marks. `forms`: a term for each
    word in any form.
    """

    raw: str
    pieces: tuple[str, ...]
    units: tuple[tuple[str, ...], ...]
    phrase: Term | None
    exact: tuple[Term, ...]
    words: tuple[Term, ...]
    languages: tuple[str, ...]
    function_words: frozenset[str]
    informative: tuple[Term, ...]
    quoted: bool = False
    forms: Forms = field(default_factory=lambda: Forms({}))

    def with_forms(self, reader: IndexReader) -> ParsedQuery:
        """Return the query with the forms of its words that the index has, as long as it can be read."""
        return replace(self, forms=Forms({}, reader, self.languages))

    def without_reader(self, shown: Sequence[Term] = ()) -> ParsedQuery:
        """Return the query with the forms that were looked up until now, and those of the words that are `shown`."""
        also = {term: self.form_of(term) for term in shown}
        return replace(self, forms=Forms({**self.forms, **also}))

    @cached_property
    def loose(self) -> tuple[Term, ...]:
        """The single words in any form, without stop words."""
        terms = tuple(dict.fromkeys(map(self.form_of, self.words)))
        telling = tuple(term for term in terms if term.text not in self.function_words)
        return (telling or terms)[:MAX_UNITS]

    @cached_property
    def capitalized(self) -> frozenset[str]:
        """The words that begin with a capital inside a sentence, as names do in most languages, but no acronyms; none
        where every word begins so."""
        text = self.raw[:MAX_CHARS]
        tells = any(_starts_with(piece, str.islower) for piece in text.split())
        return frozenset(inner_words(text, str.isupper, str.islower) if tells else ()) - self.function_words

    def form_of(self, term: Term) -> Term:
        """Return a term that matches the word in any form."""
        return self.forms[term]


@lru_cache(maxsize=256)
def parse_query(raw: str) -> ParsedQuery:
    """Split the text of a query."""
    split = raw[:MAX_CHARS].replace("\0", " ").split()
    found = [tuple(tokens(piece)) for piece in split]
    units = tuple(dict.fromkeys(unit for unit in found if unit))[:MAX_UNITS]
    words = tuple(dict.fromkeys(term for unit in units for term in _words_of(unit)))
    every = tuple(chain.from_iterable(found))
    languages = languages_of([term.text for term in words])
    without = function_words(languages)
    return ParsedQuery(
        raw,
        pieces=tuple(dict.fromkeys(split))[: 2 * MAX_UNITS],
        units=units,
        phrase=phrase(every[:MAX_PHRASE]) if sum(map(bool, found)) > 1 else None,
        exact=tuple(map(phrase, units)),
        words=words,
        languages=languages,
        function_words=without,
        informative=(tuple(term for term in words if term.text not in without) or words)[:MAX_UNITS],
        quoted=0 < len(every) <= MAX_PHRASE and _QUOTED.fullmatch(raw) is not None,
    )


def inner_words(text: str, *kinds: Callable[[str], bool]) -> Iterator[str]:
    """Yield the words whose first letters are of these kinds, one after the other, and which begin no sentence, or do
    so as `Eve's`."""
    for before, piece in pairwise([".", *text.split()]):
        inside = before[-1] not in _SENTENCE_END or piece.endswith(_POSSESSIVE)
        if inside and _starts_with(piece, *kinds):
            yield from tokens(piece)


def _starts_with(piece: str, *kinds: Callable[[str], bool]) -> bool:
    letters = islice(filter(str.isalpha, piece), len(kinds))
    return [kind(letter) for kind, letter in zip(kinds, letters, strict=False)] == [True] * len(kinds)


def phrase(words: tuple[str, ...]) -> Term:
    """Return a term that matches the words one after another."""
    return Term(" ".join(words))


def _words_of(unit: tuple[str, ...]) -> list[Term]:
    """Split a run of a script without spaces into pairs of characters, which mostly are its words."""
    if not any(map(unspaced, unit)):
        return [Term(word) for word in unit]
    terms: list[Term] = []
    for number, word in enumerate(unit):
        after = unit[number + 1] if number + 1 < len(unit) else ""
        if unspaced(word) and after and unspaced(after):
            terms.append(phrase((word, after)))
        elif not unspaced(word) or number == 0 or not unspaced(unit[number - 1]):
            terms.append(Term(word))
    return terms


def loose_term(word: str) -> Term:
    """Return a term that matches the forms of a word that share a prefix."""
    return _prefix_term(Term(word))


@lru_cache(maxsize=4_096)
def _prefix_term(term: Term) -> Term:
    start = shared_prefix(term.text) if term.text not in STOP_WORDS and not unspaced(term.text[:1]) else None
    return Term(start, True) if start else term


def shared_prefix(word: str) -> str | None:
    """Return the prefix that all forms of the word share; None if only the word itself can match."""
    if word.isascii():
        return stem_prefix(word) if word.isalpha() else None
    if not word.isalpha():
        return None
    if _HANGUL[0] <= word[-1] <= _HANGUL[1]:
        return word[:-1] if len(word) > 2 else word  # particles are written onto the word
    return word[: -2 if len(word) >= _LONG else -1] if len(word) >= _MIDDLE else None
