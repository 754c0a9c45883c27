"""The similarity of two texts by their common words: the rule that decides whether two memories are duplicates.

Tokens are runs of letters or digits after NFKC and case folding (a combining mark belongs to its letter). In scripts
without spaces (Han, kana, Thai and similar) every character is a token; otherwise a sentence would be a single one.
The Jaccard similarity is compared in integers, so that 17/20 is exactly 0.85 and not above it. Texts with different
numbers are never duplicates: "pool size 10" is not "pool size 40".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from memoryd.core.words import compared_words

_SPACE = re.compile(r"\s+")


class Tokens(NamedTuple):
    """The distinct tokens of a text, and those that contain a number."""

    words: frozenset[str]
    numbers: frozenset[str]


class Overlap(NamedTuple):
    """The Jaccard similarity as the exact fraction `shared / together`."""

    shared: int
    together: int

    def exceeds(self, numerator: int, denominator: int) -> bool:
        """True if it is strictly above a fraction."""
        return denominator * self.shared > numerator * self.together

    def closer_than(self, other: Overlap) -> bool:
        """True if it is strictly above another one."""
        return self.shared * other.together > other.shared * self.together


def tokens(text: str) -> Tokens:
    """Return the tokens of a text."""
    words = frozenset(compared_words(text))
    return Tokens(words, frozenset(word for word in words if any(map(str.isnumeric, word))))


def overlap(a: AbstractSet[str], b: AbstractSet[str]) -> Overlap:
    """Return the similarity of two sets of tokens."""
    shared = len(a & b)
    return Overlap(shared, len(a) + len(b) - shared)


def jaccard_over(a: AbstractSet[str], b: AbstractSet[str], numerator: int, denominator: int) -> bool:
    """True if |A ∩ B| / |A ∪ B| is strictly above the fraction; never for two empty sets."""
    return overlap(a, b).exceeds(numerator, denominator)


def same(a: str, a_tokens: Tokens, b: str, b_tokens: Tokens, numerator: int = 17, denominator: int = 20) -> bool:
    """True if two texts with these tokens are duplicates: their similarity is strictly above the fraction.

    Texts without tokens must be equal.
    """
    if not a_tokens.words and not b_tokens.words:
        return a == b
    if a_tokens.numbers != b_tokens.numbers:
        return False
    return jaccard_over(a_tokens.words, b_tokens.words, numerator, denominator)


def normalised(text: str) -> str:
    """Return the text with compatibility forms, case and white space normalised."""
    return _SPACE.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()
