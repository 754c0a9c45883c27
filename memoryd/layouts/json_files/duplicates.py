"""Suggestions of near-duplicate memories: same type, and at least 0.85 of their words in common, as in the server.

Nothing is merged: only the server's `consolidate` records where a memory came from. Similarity is the Jaccard index of
the sets of words, computed in integers; texts with different numbers are not similar, since "pool size 10" and "pool
size 40" are two memories. Each memory is compared only with candidates: sets that are so similar have nearly the same
size, and share one of their rarest words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import Record
from memoryd.core.similarity import overlap, tokens
from memoryd.layouts.protocol import UpkeepView

THRESHOLD = Fraction(17, 20)


class Text(NamedTuple):
    """A memory prepared for comparison; `ranked` holds its words from rare to common."""

    path: str
    id: str
    words: frozenset[str]
    numbers: frozenset[str]
    ranked: Sequence[str]


def suggest(view: UpkeepView, threshold: float | None) -> Plan:
    """Return a note for each memory that nearly equals another one."""
    bound = THRESHOLD if threshold is None else min(max(Fraction(str(threshold)), Fraction(0)), Fraction(1))
    by_type: dict[str, list[tuple[str, Record]]] = {}
    for path, loaded in view.live.items():
        for record in loaded.document.records:
            if not record.archived and isinstance(record.native.get("content"), str):
                by_type.setdefault(record.type, []).append((path, record))
    notes = [note for group in by_type.values() for note in _similar_pairs(_texts(group), bound)]
    return Plan(notes=tuple(sorted(notes, key=lambda note: (note.path, note.ids))))


def _texts(group: Iterable[tuple[str, Record]]) -> list[Text]:
    tokenized = [(path, record.id, tokens(record.native["content"])) for path, record in group]
    frequency = Counter(word for _, _, text in tokenized for word in text.words)
    return [
        Text(path, identity, text.words, text.numbers, sorted(text.words, key=lambda word: (frequency[word], word)))
        for path, identity, text in tokenized
        if text.words
    ]


def _similar_pairs(texts: list[Text], bound: Fraction) -> Iterator[Action]:
    """Yield a note for each memory that is similar to a shorter one, with the first such. Memories are compared from
    short to long; those already reported are not compared again."""
    by_word: dict[tuple[str, frozenset[str]], list[Text]] = {}
    for text in sorted(texts, key=lambda each: (len(each.words), each.path)):
        size = len(text.words)
        needed = -(-bound.numerator * size // bound.denominator)
        rare = text.ranked[: size - needed + 1]
        candidates = (each for word in rare for each in by_word.get((word, text.numbers), ()))
        others = (other for other in candidates if len(other.words) >= needed and other.id != text.id)
        match = next((other for other in others if _similar(other, text, bound)), None)
        if match is not None:
            why = f"nearly the same as {match.id} in {match.path}; consolidate them if one is enough"
            yield Action(Kind.NOTE, text.path, why, (text.id, match.id))
            continue
        for word in rare:
            by_word.setdefault((word, text.numbers), []).append(text)


def _similar(one: Text, other: Text, bound: Fraction) -> bool:
    common = overlap(one.words, other.words)
    return common.shared * bound.denominator >= bound.numerator * common.together
