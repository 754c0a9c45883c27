"""Where in a memory the words of a question stand, and the piece of its text that shows them best.

Only for the few that are shown: the texts are looked through as they are, folded letter by letter so that places stay.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from memoryd.core.words import unspaced
from memoryd.search.asked import Asked, Term

WIDTH = 200  # characters of a snippet
_WINDOW = WIDTH - 60  # of which the snippet shows all, with something around it
_MOST_SPOTS, _REACH = 12, 4_000  # of one word, and characters from the first of them, or from that of another word
_MARK = re.compile(r"\[redacted:[a-z0-9-]*\]")
_MORE = "…"


class Needle(NamedTuple):
    """What is looked for in a folded text. `worth`: the whole question before a piece of it before a word."""

    text: str
    worth: int
    name: str
    whole: bool = True  # a word of its own
    start: bool = True  # or at least the beginning of one


Spot = tuple[int, int, int]
"""Where one stands, from and to, and the number of the needle. No class: there are very many of them."""


class _Same(dict[str, str]):
    """Each character as one character without case and accent."""

    def __missing__(self, char: str) -> str:
        bare = unicodedata.normalize("NFKD", char).casefold()[:1]
        self[char] = made = bare or char
        return made


_SAME = _Same()


def fold(text: str) -> str:
    """As long as the text, character by character."""
    return text.lower() if text.isascii() else "".join([_SAME[char] for char in text])


def needles(asked: Asked, *, words_only: bool = False) -> tuple[Needle, ...]:
    """The telling words, and unless only they are wanted the pieces they come from and the whole question."""
    found: list[Needle] = []
    if not words_only:
        whole = fold(asked.raw[:WIDTH].strip(" \t\r\n\"'“”«»"))
        pieces = [fold(piece) for piece in asked.pieces if len(piece) > 1 and not piece.isalnum()]
        found += [Needle(whole, 8, "", whole=False, start=False)] if whole and asked.phrase is not None else []
        found += [Needle(piece, 3, "", whole=False, start=False) for piece in pieces]
    found += [_of_term(term) for term in asked.loose]
    return tuple(dict.fromkeys(found))


@lru_cache(maxsize=4_096)
def _of_term(term: Term) -> Needle:
    alone = [word.replace("\ue000", "++").replace("\ue001", "#") for word in term.text.split(" ")]
    apart = "" if unspaced(alone[0]) else " "
    text = apart.join(alone)
    signs = not text[-1:].isalnum() or unspaced(alone[0])
    return Needle(fold(text), 1, text + "*" * term.prefix, not term.prefix and not signs, not unspaced(alone[0]))


def spots(needles: Sequence[Needle], folded: str) -> list[Spot]:
    """Where in a folded text they stand, the first few of each, in order."""
    found: list[Spot] = []
    firsts = [folded.find(needle[0]) for needle in needles]
    last = max(firsts, default=0)  # so far all words are looked for: there they may stand together
    for number, (needle, at) in enumerate(zip(needles, firsts, strict=True)):
        if at >= 0:
            found += _spots(number, needle, folded, at, last=last)
    found.sort()
    return found


def _spots(number: int, needle: Needle, folded: str, at: int, most: int = _MOST_SPOTS, *, last: int = 0) -> list[Spot]:
    """From the first place on that might be one; the rest of a long text is not looked through for more of them, but
    for what is near `last`."""
    text, _, _, whole, start = needle
    found: list[Spot] = []
    reach = len(folded)
    while at >= 0 and len(found) < most:
        end = at + len(text)
        begins = not start or at == 0 or not folded[at - 1].isalnum()
        if begins and not (whole and folded[end : end + 1].isalnum()):
            found.append((at, end, number))
            reach = max(found[0][0], last) + _REACH
        at = folded.find(text, end, reach)
    return found


def names(needles: Sequence[Needle], found: Sequence[Spot]) -> list[str]:
    """The words that stand there, as `why` tells them."""
    there = {number for _, _, number in found}
    return [name for number in sorted(there) if (name := needles[number].name)]


def snippet(needles: Sequence[Needle], found: Sequence[Spot], text: str) -> str:
    """At most WIDTH characters around what matches best; a mark of something redacted is there whole or not at all."""
    if len(text) <= WIDTH:
        return " ".join(text.split())
    low, high = _best(needles, found)
    room = WIDTH - 2
    start = min(max(0, low - max(20, (room - (high - low)) // 3)), max(0, len(text) - room))
    end = min(len(text), start + room)
    start, end = _at_words(text, start, end, low, high)
    start, end = _around_marks(text, start, end)
    cut = " ".join(text[start:end].split())
    return f"{_MORE if start else ''}{cut}{_MORE if end < len(text) else ''}"


def _best(needles: Sequence[Needle], found: Sequence[Spot]) -> tuple[int, int]:
    """From the first to the last spot of the window that holds the most."""
    if not found:
        return 0, 0
    last = max(end for _, end, _ in found)
    if last - found[0][0] <= _WINDOW:
        return found[0][0], last
    best = worth = upto = 0
    window = 0, 0
    inside = [0] * len(needles)
    for number, (at, _, needle) in enumerate(found):
        while upto < len(found) and (upto == number or found[upto][1] <= at + _WINDOW):
            which = found[upto][2]
            worth += 0 if inside[which] else needles[which][1]
            inside[which] += 1
            upto += 1
        if worth > best:
            best, window = worth, (at, max(end for _, end, _ in found[number:upto]))
        inside[needle] -= 1
        worth -= 0 if inside[needle] else needles[needle][1]
    return window


def _at_words(text: str, start: int, end: int, low: int, high: int) -> tuple[int, int]:
    """Cut between words, where there are such."""
    if start:
        space = text.find(" ", start, min(low, start + 20))
        start = space + 1 if space >= 0 else start
    if end < len(text):
        space = text.rfind(" ", max(high, end - 20), end)
        end = space if space >= 0 else end
    return start, end


def _around_marks(text: str, start: int, end: int) -> tuple[int, int]:
    low, high = max(0, start - 60), end + 60
    if text.find("[redacted:", low, high) < 0:
        return start, end
    for mark in _MARK.finditer(text, low, high):
        if mark.start() < start < mark.end():
            start = mark.end()
        if mark.start() < end < mark.end():
            end = mark.start()
    return start, max(start, end)


def present(needles: Sequence[Needle], folded: str) -> int:
    """How many of them stand in a folded text."""
    return sum(1 for needle in needles if (at := folded.find(needle[0])) >= 0 and _spots(0, needle, folded, at, 1))


def counted(terms: Sequence[Term], text: str) -> list[int]:
    """How often each stands in a text, a dozen times at most and not far below the first."""
    folded = fold(text)
    return [len(_spots(0, needle, folded, folded.find(needle.text))) for needle in map(_of_term, terms)]
