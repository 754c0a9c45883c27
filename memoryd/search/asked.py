"""What somebody typed as the words that are looked for. Any text is a legal question: nothing in it is an operator.

A piece between white space is one unit: `1.0.21`, `foo_bar`, `C++` or a run of Chinese is a phrase of its parts. The
expressions made here hold nothing but words of the index, in quotes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import NamedTuple

from memoryd.core.words import tokens, unspaced
from memoryd.search.stems import STOP_WORDS, beginning

LONGEST = 4_096  # characters that are looked at; who pastes a book is answered by its beginning
MOST = 32  # units


class Term(NamedTuple):
    """A word by which memories are found: `expression` is for the index, `text` what it begins with or is."""

    expression: str
    text: str
    prefix: bool = False


@dataclass(frozen=True)
class Asked:
    """`raw` as typed."""

    raw: str

    @cached_property
    def pieces(self) -> tuple[str, ...]:
        """Between white space, each once."""
        return tuple(dict.fromkeys(self.raw[:LONGEST].split()))[: 2 * MOST]

    @cached_property
    def units(self) -> tuple[tuple[str, ...], ...]:
        """The words of each piece, each piece once."""
        return tuple(dict.fromkeys(unit for unit in self._each if unit))[:MOST]

    @cached_property
    def _each(self) -> list[tuple[str, ...]]:
        """The words of each piece, in order."""
        return [tuple(tokens(piece)) for piece in self.raw[:LONGEST].split()]

    @cached_property
    def phrase(self) -> Term | None:
        """All of it, word by word, where it is more than one unit."""
        if len(self.units) < 2:
            return None
        return phrase(tuple(chain.from_iterable(self._each))[: 2 * MOST])

    @cached_property
    def exact(self) -> tuple[Term, ...]:
        """Each unit as it was typed."""
        return tuple(phrase(unit) for unit in self.units)

    @cached_property
    def loose(self) -> tuple[Term, ...]:
        """The words of the units apart from each other and in any form, without those that say nothing."""
        terms = tuple(dict.fromkeys(_beginning(term) for term in self._apart))
        telling = tuple(term for term in terms if term.text not in STOP_WORDS)
        return (telling or terms)[:MOST]

    @cached_property
    def telling(self) -> tuple[Term, ...]:
        """The same words just as they were typed."""
        return (tuple(term for term in self._apart if term.text not in STOP_WORDS) or self._apart)[:MOST]

    @cached_property
    def _apart(self) -> tuple[Term, ...]:
        return tuple(dict.fromkeys(term for unit in self.units for term in _apart(unit)))


def phrase(words: tuple[str, ...]) -> Term:
    text = " ".join(words)
    return Term(f'"{text}"', text)


def _apart(unit: tuple[str, ...]) -> list[Term]:
    """A run of a script without spaces falls into pairs, which mostly are its words."""
    if not any(map(unspaced, unit)):
        return [phrase((word,)) for word in unit]
    terms: list[Term] = []
    for number, word in enumerate(unit):
        after = unit[number + 1] if number + 1 < len(unit) else ""
        if unspaced(word) and after and unspaced(after):
            terms.append(phrase((word, after)))
        elif not unspaced(word) or number == 0 or not unspaced(unit[number - 1]):
            terms.append(phrase((word,)))
    return terms


@lru_cache(maxsize=4_096)
def _beginning(term: Term) -> Term:
    start = beginning(term.text) if term.text not in STOP_WORDS and not unspaced(term.text[:1]) else None
    return Term(f'"{start}"*', start, True) if start else term
