"""Memories that hold a piece of what was asked inside their words: what is left when words alone find too little.

Sound: every memory in whose title, text or tags any piece of the question stands, whatever its case, is found, as far
as the limit allows. The words of the index that hold the piece are looked up first, so that only memories with such
a word are read; each is then looked through itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain, groupby
from typing import Protocol

from memoryd.core.asking import Filters
from memoryd.core.words import tokens, unspaced
from memoryd.search.asked import Asked
from memoryd.search.candidates import Candidate
from memoryd.search.scoring import PART, reasons, scored

MOST_WORDS = 400  # of the index that hold a piece; of more nearly every memory has one


class Told(Protocol):
    @property
    def key(self) -> int: ...
    @property
    def title(self) -> str: ...
    @property
    def tags(self) -> str: ...
    @property
    def body(self) -> str: ...
    @property
    def created(self) -> float | None: ...
    @property
    def weight(self) -> float | None: ...
    @property
    def uses(self) -> int: ...


class Reader(Protocol):
    def words_with(self, piece: str, most: int) -> tuple[int, list[str] | None]: ...
    def each(self, expression: str, filters: Filters) -> Iterator[Told]: ...
    def every(self, filters: Filters, *, after: int = 0, sign: str = "") -> Iterator[Told]: ...


def part_candidates(
    reader: Reader, asked: Asked, filters: Filters, limit: int, now: float, known: Collection[int]
) -> list[Candidate]:
    """At most `limit`, without those in `known`; the last that came in are looked at first."""
    pieces = tuple(dict.fromkeys(piece.casefold() for piece in asked.pieces))
    seen = set(known)
    found: list[Candidate] = []
    for memory in chain.from_iterable(_possible(reader, piece, filters) for piece in pieces):
        if memory.key in seen:
            continue
        seen.add(memory.key)
        held = _held(pieces, f"{memory.title}\n{memory.tags}\n{memory.body}")
        if held:
            worth = (memory.created, memory.weight, memory.uses)
            part = len(held) / len(pieces)
            found.append(Candidate(memory.key, scored(PART, part, worth, now), reasons(PART, part, worth, now)))
        if len(found) >= 2 * limit:
            break
    return sorted(found, key=lambda each: (-each.score, -each.key))[:limit]


def _held(pieces: Sequence[str], text: str) -> list[str]:
    """The pieces that stand in a text, as it is written or without marks that writers leave out as they like."""
    folded = text.casefold()
    held = [piece for piece in pieces if piece in folded]
    if held or text.isascii():
        return held
    bare = " ".join(tokens(text))
    return [piece for piece in pieces if (words := " ".join(tokens(piece))) and words in bare]


def _possible(reader: Reader, piece: str, filters: Filters) -> Iterator[Told]:
    """The memories that may hold the piece, and few others."""
    words = tokens(piece)
    sign = piece if piece.isascii() else ""
    run = max((list(group) for alone, group in groupby(words, unspaced) if alone), key=len, default=[])
    if run:
        return reader.each(f'"{" ".join(run)}"', filters)
    longest = max((word for word in words if word.isalnum()), key=len, default="")
    upto, holding = reader.words_with(longest, MOST_WORDS) if longest else (0, None)
    if holding is None:
        return reader.every(filters, sign=sign if longest else piece)
    some = " OR ".join(f'"{word}"' for word in holding)
    return chain(reader.every(filters, after=upto), reader.each(some, filters) if some else ())
