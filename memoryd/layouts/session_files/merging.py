"""Duplicates inside one session: same type, same title, and contents that share more than 0.85 of their words.

The version with the higher confidence is kept whole, no field mixing; in a tie the earlier one. What has the same
title and says something else stays: a later look at a subject is no duplicate of the first.

The daemon's own merging is no extraction: `extraction_count` and `last_updated` stay as they are, or a session would
look young to the archiver for sixty days more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from memoryd.core.digest import sha256
from memoryd.core.json_elements import removals
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import Record
from memoryd.core.similarity import Overlap, Tokens, overlap, same, tokens
from memoryd.core.text import Edit
from memoryd.layouts.base import Loaded, UpkeepView
from memoryd.layouts.one_document import look, text_of
from memoryd.layouts.session_files.reading import Session, key_of, take_apart
from memoryd.layouts.session_files.schema import confidence

THRESHOLD = Fraction(17, 20)  # to be exceeded


class Said(NamedTuple):
    """A memory with its place in the array, its content and that content's tokens."""

    place: int
    record: Record
    content: str
    words: Tokens

    def says(self, other: Said, threshold: Fraction) -> bool:
        above = (threshold.numerator, threshold.denominator)
        return same(self.content, self.words, other.content, other.words, *above)

    def closeness(self, other: Said) -> Overlap:
        return overlap(self.words.words, other.words.words)


class Merge(NamedTuple):
    """`kept` stands for all of `gone`, each of which says the same as it does itself."""

    kept: Said
    gone: tuple[Said, ...]

    @property
    def place(self) -> int:
        return min(self.kept.place, *(each.place for each in self.gone))


def dedupe(view: UpkeepView, threshold: float | None) -> Plan:
    """One rewrite for each session that says something twice."""
    above = THRESHOLD if threshold is None else Fraction(str(threshold)).limit_denominator(10_000)
    actions = (_action(path, loaded, view, above) for path, loaded in view.live.items())
    return Plan(tuple(action for action in actions if action is not None))


def _action(path: str, loaded: Loaded, view: UpkeepView, threshold: Fraction) -> Action | None:
    facts = loaded.document.facts
    if not facts.get("twins") or facts.get("damaged"):
        return None
    whole = look(loaded.data)
    session = take_apart(loaded.data, whole.value) if whole.value else None
    if session is None:
        return None
    merges = [merge for group in _groups(session, loaded) for merge in find_merges(group, threshold)]
    merges = [merge for merge in merges if not _held(merge, loaded.data, view)]
    if not merges:
        return None
    gone = sorted((each, merge.kept) for merge in merges for each in merge.gone)
    return Action(
        Kind.REWRITE,
        path,
        f"{len(gone)} said twice in this session",
        tuple(each.record.id for each, _ in gone),
        tuple(_edits(loaded.data, session, merges)),
        base=sha256(loaded.data),
        whys=tuple(_why(each, kept) for each, kept in gone),
        aside=tuple(each.record.span for each, _ in gone),
    )


def _why(gone: Said, kept: Said) -> str:
    scores = f"confidence {confidence(gone.record.native):g} against {confidence(kept.record.native):g}"
    return f"says the same as {kept.record.id} ({scores})"


def _held(merge: Merge, data: bytes, view: UpkeepView) -> bool:
    """Somebody took one of these back by an undo: only a command merges it again."""
    if not view.unattended or not view.held:
        return False
    return any(sha256(each.record.span.of(data)) in view.held for each in (*merge.gone, merge.kept))


def _groups(session: Session, loaded: Loaded) -> Iterator[list[Said]]:
    places = {span.start: place for place, span in enumerate(session.elements)}
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in loaded.document.records:
        groups.setdefault(key_of(record.native), []).append(record)
    for group in groups.values():
        if len(group) > 1:
            texts = [text_of(record.native, "content") for record in group]
            yield [Said(places[r.span.start], r, t, tokens(t)) for r, t in zip(group, texts, strict=True)]


def find_merges(group: Sequence[Said], threshold: Fraction = THRESHOLD) -> Iterator[Merge]:
    """Of memories with one key. The most confident come first, so that each one taken out says the same as the one
    that stays, and not merely as one that went too; it goes to the most similar of those that stay."""
    gone: dict[int, list[Said]] = {}
    kept: list[Said] = []
    for said in sorted(group, key=lambda each: (-confidence(each.record.native), each.place)):
        match = closest(said, (other for other in kept if said.says(other, threshold)))
        if match is None:
            kept.append(said)
        else:
            gone.setdefault(match.place, []).append(said)
    yield from (Merge(said, tuple(gone[said.place])) for said in kept if said.place in gone)


def closest(said: Said, others: Iterable[Said]) -> Said | None:
    """The most similar one, of equals the first."""
    best: Said | None = None
    for other in others:
        if best is None or said.closeness(other).closer_than(said.closeness(best)):
            best = other
    return best


def _edits(data: bytes, session: Session, merges: Sequence[Merge]) -> Iterator[Edit]:
    """The kept version goes to the earliest place, whole; the others leave with their commas."""
    gone: set[int] = set()
    for merge in merges:
        gone |= {each.place for each in (merge.kept, *merge.gone)} - {merge.place}
        if merge.kept.place != merge.place:
            yield Edit(session.elements[merge.place], merge.kept.record.span.of(data))
    yield from removals(session.array, session.elements, gone)
