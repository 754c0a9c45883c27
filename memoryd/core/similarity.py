"""How alike two texts are, by the words they share: the rule that decides whether a memory is said twice.

Tokens are runs of letters or digits after NFKC and case folding (a combining mark belongs to its letter); scripts
that write no spaces (Han, kana, Thai and their neighbours) count character by character, or a whole sentence would be
one token. Similarity is Jaccard's, compared in integers, so that 17/20 is exactly 0.85 and not above it. Texts whose
numbers differ are never the same: "pool size 10" is not "pool size 40".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Set as AbstractSet
from typing import NamedTuple

_ASCII_WORD = re.compile(r"[a-z0-9]+")
_SPACE = re.compile(r"\s+")
_UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x3005, 0x3007),  # ideographic iteration mark, closing mark, zero
    (0x3040, 0x312F),  # hiragana, katakana, bopomofo
    (0x31A0, 0x31FF),
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x1B000, 0x1B16F),  # rare kana
    (0x20000, 0x323AF),  # rare Han
)


class Tokens(NamedTuple):
    """The distinct tokens of a text, and those among them that hold a number."""

    words: frozenset[str]
    numbers: frozenset[str]


class Overlap(NamedTuple):
    """Jaccard's similarity as the exact fraction `shared / together`."""

    shared: int
    together: int

    def exceeds(self, numerator: int, denominator: int) -> bool:
        return denominator * self.shared > numerator * self.together

    def closer_than(self, other: Overlap) -> bool:
        return self.shared * other.together > other.shared * self.together


def tokens(text: str) -> Tokens:
    folded = unicodedata.normalize("NFKC", text).casefold()
    words = frozenset(_ASCII_WORD.findall(folded) if folded.isascii() else _words(folded))
    return Tokens(words, frozenset(word for word in words if any(map(str.isnumeric, word))))


def _words(text: str) -> list[str]:
    found: list[str] = []
    run: list[str] = []
    for char in text:
        unspaced = _is_unspaced(char)
        if not unspaced and unicodedata.category(char)[0] in "LMN":
            run.append(char)
            continue
        if run:
            found.append("".join(run))
            run.clear()
        if unspaced and unicodedata.category(char)[0] in "LMN":
            found.append(char)
    return [*found, "".join(run)] if run else found


def _is_unspaced(char: str) -> bool:
    point = ord(char)
    return point >= 0x0E00 and any(first <= point <= last for first, last in _UNSPACED)


def overlap(a: AbstractSet[str], b: AbstractSet[str]) -> Overlap:
    shared = len(a & b)
    return Overlap(shared, len(a) + len(b) - shared)


def jaccard_over(a: AbstractSet[str], b: AbstractSet[str], numerator: int, denominator: int) -> bool:
    """Is |A ∩ B| / |A ∪ B| strictly above the fraction? Two empty sets are not above anything."""
    return overlap(a, b).exceeds(numerator, denominator)


def is_duplicate(a: str, b: str, numerator: int = 17, denominator: int = 20) -> bool:
    """Do two texts say the same? Strictly above 17/20 unless another fraction is asked for."""
    return same(a, tokens(a), b, tokens(b), numerator, denominator)


def same(a: str, a_tokens: Tokens, b: str, b_tokens: Tokens, numerator: int = 17, denominator: int = 20) -> bool:
    """`is_duplicate` for texts whose tokens are known already. Texts without any token must be equal as they stand."""
    if not a_tokens.words and not b_tokens.words:
        return a == b
    if a_tokens.numbers != b_tokens.numbers:
        return False
    return jaccard_over(a_tokens.words, b_tokens.words, numerator, denominator)


def normalised(text: str) -> str:
    """The text with its compatibility forms, its case and its white space made one."""
    return _SPACE.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()
