"""Suggestions of near-duplicate memories: same type, and at least 0.85 of their words in common, as the server has it.

Nothing is merged: the server's own `consolidate` records where a memory came from. Similarity is Jaccard's over sets of
words, compared in integers; texts with different numbers are not similar, since "pool size 10" and "pool size 40" are
two memories. Each memory is compared only with candidates: two sets that similar have close sizes, and share one of
their rarest words.
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
    read = [(path, record.id, tokens(record.native["content"])) for path, record in group]
    rarity = Counter(word for _, _, found in read for word in found.words)
    return [
        Text(path, identity, found.words, found.numbers, sorted(found.words, key=lambda word: (rarity[word], word)))
        for path, identity, found in read
        if found.words
    ]


def _similar_pairs(texts: list[Text], bound: Fraction) -> Iterator[Action]:
    """Compare from short to long. Each memory is reported once, with the first similar one, and others are then not
    compared with it."""
    measures: dict[tuple[str, frozenset[str]], list[Text]] = {}
    for text in sorted(texts, key=lambda each: (len(each.words), each.path)):
        size = len(text.words)
        needed = -(-bound.numerator * size // bound.denominator)
        rare = text.ranked[: size - needed + 1]
        near = (each for word in rare for each in measures.get((word, text.numbers), ()))
        found = next(
            (each for each in near if len(each.words) >= needed and each.id != text.id and _similar(each, text, bound)),
            None,
        )
        if found is not None:
            why = f"nearly the same as {found.id} in {found.path}; consolidate them if one is enough"
            yield Action(Kind.NOTE, text.path, why, (text.id, found.id))
            continue
        for word in rare:
            measures.setdefault((word, text.numbers), []).append(text)


def _similar(one: Text, other: Text, bound: Fraction) -> bool:
    found = overlap(one.words, other.words)
    return found.shared * bound.denominator >= bound.numerator * found.together
