"""Cut the part of a memory's text that shows the words of a query best."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memoryd.core.text_match import Pattern, Spot, fold, patterns_of
from memoryd.search.query_terms import ParsedQuery

WIDTH = 200  # characters of a snippet
_WINDOW = WIDTH - 60  # of which the snippet shows all, with something around it
REDACTED = re.compile(r"\[redacted:[a-z0-9-]*\]")
_MORE = "…"


def query_patterns(query: ParsedQuery) -> tuple[Pattern, ...]:
    """Return patterns of the whole query, of its pieces, and of its informative words in any form."""
    whole = fold(query.raw[:WIDTH].strip(" \t\r\n\"'“”«»"))
    pieces = [fold(piece) for piece in query.pieces if len(piece) > 1 and not piece.isalnum()]
    found = [Pattern(whole, 8, "", whole_word=False, start=False)] if whole and query.phrase is not None else []
    found += [Pattern(piece, 3, "", whole_word=False, start=False) for piece in pieces]
    found += [pattern for term in query.loose for pattern in patterns_of(term)]
    return tuple(dict.fromkeys(found))


def word_names(patterns: Sequence[Pattern], found: Sequence[Spot]) -> list[str]:
    """Return the words found at these spots, as `why` shows them."""
    there = {number for _, _, number in found}
    return [name for number in sorted(there) if (name := patterns[number].name)]


def snippet(patterns: Sequence[Pattern], found: Sequence[Spot], text: str) -> str:
    """Return at most WIDTH characters around the best match; a `[redacted:…]` mark is never cut in two."""
    if len(text) <= WIDTH:
        return " ".join(text.split())
    low, high = _best(patterns, found)
    width = WIDTH - 2
    start = min(max(0, low - max(20, (width - (high - low)) // 3)), len(text) - width)
    start, end = _at_words(text, start, start + width, low, high)
    if "[redacted:" in text:
        start, end = _around_marks(text, start, end)
    cut = " ".join(text[start:end].split())
    return f"{_MORE if start else ''}{cut}{_MORE if end < len(text) else ''}"


def _best(patterns: Sequence[Pattern], found: Sequence[Spot]) -> tuple[int, int]:
    """Return the start and end of the window with the most valuable spots."""
    if not found:
        return 0, 0
    last = max([end for _, end, _ in found])
    if last - found[0][0] <= _WINDOW:
        return found[0][0], last
    best = worth = upto = 0
    window = 0, 0
    inside = [0] * len(patterns)
    for number, (at, _, number_of) in enumerate(found):
        while upto < len(found) and (upto == number or found[upto][1] <= at + _WINDOW):
            which = found[upto][2]
            worth += 0 if inside[which] else patterns[which].worth
            inside[which] += 1
            upto += 1
        if worth > best:
            best, window = worth, (at, max(end for _, end, _ in found[number:upto]))
        inside[number_of] -= 1
        worth -= 0 if inside[number_of] else patterns[number_of].worth
    return window


def _at_words(text: str, start: int, end: int, low: int, high: int) -> tuple[int, int]:
    """Move the cuts to spaces, if there are any nearby."""
    if start:
        space = text.find(" ", start, min(low, start + 20))
        start = space + 1 if space >= 0 else start
    if end < len(text):
        space = text.rfind(" ", max(high, end - 20), end)
        end = space if space >= 0 else end
    return start, end


def _around_marks(text: str, start: int, end: int) -> tuple[int, int]:
    """Move the cuts out of marks."""
    for mark in REDACTED.finditer(text, max(0, start - 60), end + 60):
        if mark.start() < start < mark.end():
            start = mark.end()
        if mark.start() < end < mark.end():
            end = mark.start()
    return start, max(start, end)
