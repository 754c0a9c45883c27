"""Suggestions which memories say nearly the same: same type, and 0.85 of their words in common (the server's bound).

Nothing is ever merged here: the server has a `consolidate` of its own, which keeps where a memory came from.
Similarity is Jaccard's over the sets of words, compared in whole numbers; texts whose numbers differ are not alike,
since "pool size 10" and "pool size 40" are two memories. Each memory is compared with those it can be similar to
at all: of two sets so alike, the rarest few words of each have one in common, and their sizes are near.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import Record
from memoryd.core.similarity import overlap, tokens
from memoryd.layouts.base import UpkeepView

THRESHOLD = Fraction(17, 20)


class Text(NamedTuple):
    """A memory as far as similarity is concerned; `ranked` holds its words from rare to common."""

    path: str
    id: str
    words: frozenset[str]
    numbers: frozenset[str]
    ranked: Sequence[str]


def suggest(view: UpkeepView, threshold: float | None) -> Plan:
    bound = THRESHOLD if threshold is None else min(max(Fraction(str(threshold)), Fraction(0)), Fraction(1))
    by_type: dict[str, list[tuple[str, Record]]] = {}
    for path, loaded in view.live.items():
        for record in loaded.document.records:
            if not record.archived and isinstance(record.native.get("content"), str):
                by_type.setdefault(record.type, []).append((path, record))
    notes = [note for group in by_type.values() for note in _alike(_texts(group), bound)]
    return Plan(notes=tuple(sorted(notes, key=lambda note: (note.path, note.ids))))


def _texts(group: Iterable[tuple[str, Record]]) -> list[Text]:
    read = [(path, record.id, tokens(record.native["content"])) for path, record in group]
    rarity = Counter(word for _, _, found in read for word in found.words)
    return [
        Text(path, identity, found.words, found.numbers, sorted(found.words, key=lambda word: (rarity[word], word)))
        for path, identity, found in read
        if found.words
    ]


def _alike(texts: list[Text], bound: Fraction) -> Iterator[Action]:
    """From short to long; each is told once, with the first it resembles, and is no measure for others then."""
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
            why = f"says nearly the same as {found.id} in {found.path}; consolidate them if one is enough"
            yield Action(Kind.NOTE, text.path, why, (text.id, found.id))
            continue
        for word in rare:
            measures.setdefault((word, text.numbers), []).append(text)


def _similar(one: Text, other: Text, bound: Fraction) -> bool:
    found = overlap(one.words, other.words)
    return found.shared * bound.denominator >= bound.numerator * found.together
