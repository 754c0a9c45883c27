"""Find terms and substrings in plain text, for snippets and for engines that score texts.

Texts are folded (case and accents) character by character, so that offsets in the folded text are valid in the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from memoryd.core.query import Term
from memoryd.core.words import tokens, unspaced

_BEYOND = re.compile(r"[^\x00-\x7f]+")
_BETWEEN_WORDS = "[^0-9a-z]+"  # in a text in ASCII, in lower case
_MAX_MATCHES, _REACH = 12, 4_000  # matches per pattern; characters searched after the first match of any pattern


class Pattern(Struct, frozen=True, cache_hash=True):
    """A folded text to find. `worth` ranks it for snippets (the whole query before a part of it before a word); `name`
    is how `why` shows it."""

    text: str
    worth: int
    name: str
    whole_word: bool = True  # only as a whole word
    start: bool = True  # only at the start of a word


Spot = tuple[int, int, int]
"""A match: start, end, and the index of the pattern. A plain tuple because there are very many."""


class _Folded(dict[str, str]):
    """A cache of characters without case and accent, each a single character."""

    def __missing__(self, char: str) -> str:
        bare = unicodedata.normalize("NFKD", char).casefold()[:1]
        self[char] = made = bare or char
        return made


_FOLDED = _Folded()


def fold(text: str) -> str:
    """Return the text without case and accents, with the same length."""
    return (text if text.isascii() else _BEYOND.sub(_folded, text)).lower()


def _folded(run: re.Match[str]) -> str:
    return "".join([_FOLDED[char] for char in run.group()])


@lru_cache(maxsize=4_096)
def patterns_of(term: Term) -> tuple[Pattern, ...]:
    """Return the patterns that find a term of the index in a folded text, one for the term and one for each form."""
    return (_pattern(term), *map(_pattern, map(Term, term.forms)))


def _pattern(term: Term) -> Pattern:
    alone = [word.replace("\ue000", "++").replace("\ue001", "#") for word in term.text.split(" ")]
    apart = "" if unspaced(alone[0]) else " "
    text = apart.join(alone)
    signs = not text[-1:].isalnum() or unspaced(alone[0])
    return Pattern(fold(text), 1, text + "*" * term.prefix, not term.prefix and not signs, not unspaced(alone[0]))


def spots(patterns: Sequence[Pattern], folded: str) -> list[Spot]:
    """Return the first few matches of each pattern in a folded text, in order."""
    firsts = [(folded.find(each.text), number) for number, each in enumerate(patterns) if each.text in folded]
    if not firsts:
        return []
    last = max(firsts)[0]  # search this far for every pattern: matches may be close together there
    found = [spot for at, number in firsts for spot in _spots(number, patterns[number], folded, at, last=last)]
    found.sort()
    return found


def _spots(
    number: int, pattern: Pattern, folded: str, at: int, most: int = _MAX_MATCHES, *, last: int = 0
) -> list[Spot]:
    """Return the matches from `at` on. A long text is searched only near the first match and near `last`."""
    text, reach = pattern.text, len(folded)
    found: list[Spot] = []
    while at >= 0 and len(found) < most:
        end = at + len(text)
        begins = not pattern.start or at == 0 or not folded[at - 1].isalnum()
        if begins and not (pattern.whole_word and folded[end : end + 1].isalnum()):
            reach = reach if found else max(at, last) + _REACH
            found.append((at, end, number))
        at = folded.find(text, end, reach)
    return found


def has_any(terms: Sequence[Term], folded: str) -> bool:
    """True if one of the terms occurs in a folded text."""
    for term in terms:
        for pattern in patterns_of(term):
            if pattern.text in folded and _spots(0, pattern, folded, folded.find(pattern.text), 1):
                return True
    return False


def has_words(fields: Sequence[str], terms: Sequence[Term]) -> bool:
    """True if the index of these fields matches each of the terms, which have no prefix and no forms."""
    plain = "\n".join(fields).lower()
    if plain.isascii():  # it is searched in a fraction of the time in which it is split into words
        parts = [term.text.split(" ") for term in terms]
        words = [word for part in parts for word in part]
        if not all(has_any((Term(word),), plain) for word in words if word.isascii()):
            return False
        if len(words) == len(terms) and all(map(str.isascii, words)):
            return True
        phrases = (part for part in parts if len(part) > 1 and all(map(str.isascii, part)))
        if not all(re.search(_BETWEEN_WORDS.join(part), plain) for part in phrases):
            return False
    split = "\n".join([f" {' '.join(tokens(field))} " for field in fields])
    return all(f" {term.text} " in split for term in terms)


def term_counts(terms: Sequence[Term], text: str) -> list[int]:
    """Count the matches of each term in a text, at most a dozen and only near the first one."""
    folded = fold(text)
    return [sum(len(_spots(0, each, folded, folded.find(each.text))) for each in patterns_of(term)) for term in terms]


def pieces_in(pieces: Sequence[str], text: str, *, whole_words: bool) -> list[str]:
    """Return the casefolded pieces that occur in a text, as written or without optional marks (accents, points).

    With `whole_words`, a piece must not be part of a longer word.
    """
    folded = text.casefold()
    present = [piece for piece in pieces if _occurs(piece, folded, whole_words)]
    if present or text.isascii():
        return present
    bare = " ".join(tokens(text))
    return [piece for piece in pieces if (words := " ".join(tokens(piece))) and _occurs(words, bare, whole_words)]


def _occurs(piece: str, text: str, whole_words: bool) -> bool:
    at = text.find(piece)
    while whole_words and at >= 0 and (_inside_a_word(text, at) or _inside_a_word(text, at + len(piece))):
        at = text.find(piece, at + 1)
    return at >= 0


def _inside_a_word(text: str, at: int) -> bool:
    """True if the characters around `at` belong to one word. Never in Hebrew and Arabic, where the article and other
    words are joined to the next word."""
    around = text[max(at - 1, 0) : at + 1]
    return len(around) == 2 and around.isalnum() and not any(unspaced(each) or _prefixing(each) for each in around)


def _prefixing(letter: str) -> bool:
    return "\u0590" <= letter <= "\u06ff"
