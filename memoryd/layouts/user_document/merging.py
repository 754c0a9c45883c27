"""Duplicates within one user's document; nothing ever crosses from one user to another.

Acted on, when a person asks: equal text (compatibility forms, case and white space made one) or a cosine of at least
0.95. From 0.75 on, two memories are only named as alike: the program's own table has different facts at 0.72. The one
of higher importance stays, in a tie the earlier one; its topics become the union, its content is never touched. Each
memory that goes matches the one that stays itself: no chains.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from memoryd.core.digest import sha256
from memoryd.core.json_elements import Member, addition, elements, last, members, removals, setting
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.policy import DAY
from memoryd.core.records import Record
from memoryd.core.similarity import normalised
from memoryd.core.text import Edit, Span
from memoryd.layouts.base import Loaded, UpkeepView
from memoryd.layouts.one_document import decode
from memoryd.layouts.user_document.cutting import Item, Taken, looked_at
from memoryd.layouts.user_document.reading import STAMPS
from memoryd.layouts.user_document.stamping import stamped
from memoryd.layouts.user_document.vectors import nearness, unit

THRESHOLD = 0.95
ALIKE = 0.75
NAMED = 50  # suggestions for one document
DUE_COUNT, DUE_AFTER = 10, DAY  # the program itself looks for duplicates above this count, once a day


class One(NamedTuple):
    """A memory with its place in the array; `text` is its content made comparable."""

    place: int
    record: Record
    item: Item
    text: str


class Pair(NamedTuple):
    """`gone` says what `kept` says; `cosine` is None where the texts themselves are equal."""

    kept: One
    gone: One
    cosine: float | None

    @property
    def why(self) -> str:
        alike = "equal text" if self.cosine is None else f"cosine {self.cosine:.3f}"
        levels = (self.gone.record.facts["importance"], self.kept.record.facts["importance"])
        return f"says the same as {self.kept.record.id} ({alike}; importance {levels[0]:g} against {levels[1]:g})"


class Found(NamedTuple):
    """What goes, and what is only alike. `unseen`: vectors that could not be compared for their number."""

    pairs: list[Pair]
    alike: list[Pair]
    unseen: int = 0


def dedupe(view: UpkeepView, threshold: float | None) -> Plan:
    """Unattended only suggestions, for documents that the program itself would look through by now: its agents keep a
    cache and would undo the change."""
    bound = THRESHOLD if threshold is None else threshold
    actions: list[Action] = []
    notes: list[Action] = []
    for path in view.live:
        loaded = view.live[path]
        taken = _taken(loaded)
        if taken is None or (view.unattended and not is_due(loaded.document.facts, len(taken.items), view.now)):
            continue
        found = find(loaded, taken, bound)
        notes += _notes(path, found, told=view.unattended)
        if not view.unattended and (action := _action(path, loaded, taken, found, view.now)):
            actions.append(action)
    return Plan(tuple(actions), tuple(notes))


def is_due(facts: Mapping[str, float | None], count: int, now: float) -> bool:
    """More than ten memories, and more than a day since the last run (or none yet)."""
    last_run = facts.get("deduplicated")
    return count > DUE_COUNT and (last_run is None or now - last_run > DUE_AFTER)


def _taken(loaded: Loaded) -> Taken | None:
    """A document with at least two memories that is whole."""
    if len(loaded.document.records) < 2 or loaded.document.facts.get("damaged"):
        return None
    return looked_at(loaded.data)[1]


def find(loaded: Loaded, taken: Taken, threshold: float) -> Found:
    """The most important first, of equals the earlier: each takes with it what says the same and is still there."""
    ranked = _ranked(loaded, taken)
    near, unseen = _near(loaded.data, ranked, min(threshold, ALIKE))
    pairs: list[Pair] = []
    alike: list[Pair] = []
    gone: set[int] = set()
    by_text: dict[str, list[int]] = {}
    for rank, one in enumerate(ranked):
        by_text.setdefault(one.text, []).append(rank)
    for rank, one in enumerate(ranked):
        if rank in gone:
            continue
        equal = {other: None for other in by_text[one.text] if other > rank}
        close = {other: value for other, value in near(rank) if other not in equal}
        for other, value in sorted({**equal, **close}.items()):
            if other in gone:
                continue
            if value is None or value >= threshold - 1e-9:
                gone.add(other)
                pairs.append(Pair(one, ranked[other], value))
            else:
                alike.append(Pair(one, ranked[other], value))
    places = {pair.gone.place for pair in pairs}
    alike = [pair for pair in alike if pair.gone.place not in places]
    return Found(pairs, sorted(alike, key=lambda pair: -(pair.cosine or 0)), unseen)


def _ranked(loaded: Loaded, taken: Taken) -> list[One]:
    known = iter(loaded.document.records)
    ones = [
        One(place, next(known), item, normalised(item.native["content"]))
        for place, item in enumerate(taken.items)
        if item is not None
    ]
    return sorted(ones, key=lambda one: (-one.record.facts["importance"], one.place))


class _Nearby:
    """Cosines by rank, over those memories whose embedding may be used."""

    def __init__(self, data: bytes, ranked: Sequence[One], floor: float) -> None:
        self._ranks = [rank for rank, one in enumerate(ranked) if one.record.facts["embedding"]]
        spans = [ranked[rank].item.embedding for rank in self._ranks]
        self._rows = {rank: row for row, rank in enumerate(self._ranks)}
        self._near = nearness([unit(span.of(data)) for span in spans if span is not None]) if spans else None
        self._floor = floor
        self.unseen = len(spans) if spans and self._near is None else 0

    def __call__(self, rank: int) -> list[tuple[int, float]]:
        row = self._rows.get(rank)
        if row is None or self._near is None:
            return []
        return [(self._ranks[other], value) for other, value in self._near(row, self._floor)]


def _near(data: bytes, ranked: Sequence[One], floor: float) -> tuple[_Nearby, int]:
    nearby = _Nearby(data, ranked, floor)
    return nearby, nearby.unseen


def _notes(path: str, found: Found, *, told: bool) -> Iterator[Action]:
    """`told`: name also what would go, for nobody takes it out."""
    named = [*(found.pairs if told else ()), *found.alike]
    for pair in named[:NAMED]:
        alike = "the same text" if pair.cosine is None else f"cosine {pair.cosine:.3f}"
        yield Action(
            Kind.NOTE, path, f"{alike}: two memories may say the same", (pair.gone.record.id, pair.kept.record.id)
        )
    if len(named) > NAMED:
        yield Action(Kind.NOTE, path, f"{len(named) - NAMED} more pairs of memories may say the same")
    if found.unseen:
        yield Action(Kind.NOTE, path, f"{found.unseen} embeddings are too many to compare without numpy; install it")


def _action(path: str, loaded: Loaded, taken: Taken, found: Found, now: float) -> Action | None:
    """One rewrite: what goes, the union of topics, and both stamps; a run that removes nothing is stamped as well."""
    gone = sorted(found.pairs, key=lambda pair: pair.gone.place)
    edits = [
        *removals(taken.array, taken.elements, [pair.gone.place for pair in gone]),
        *_unions(loaded.data, found.pairs),
        *stamped(loaded.data, taken, now, STAMPS),
    ]
    edits = [edit for edit in edits if edit.span.of(loaded.data) != edit.new]
    if not edits:
        return None
    return Action(
        Kind.REWRITE,
        path,
        f"{len(gone)} said twice" if gone else "looked for duplicates, none found",
        tuple(pair.gone.record.id for pair in gone),
        tuple(edits),
        base=sha256(loaded.data),
        whys=tuple(pair.why for pair in gone),
        aside=tuple(pair.gone.item.span for pair in gone),
    )


def _unions(data: bytes, pairs: Sequence[Pair]) -> Iterator[Edit]:
    by_kept: dict[int, list[Pair]] = {}
    for pair in pairs:
        by_kept.setdefault(pair.kept.place, []).append(pair)
    for group in by_kept.values():
        ordered = sorted(group, key=lambda pair: pair.gone.place)
        edit = _union(data, group[0].kept.item, [pair.gone.item for pair in ordered])
        if edit is not None:
            yield edit


def _union(data: bytes, kept: Item, gone: Sequence[Item]) -> Edit | None:
    """The topics that the kept one lacks, in their own words behind its own."""
    found = members(data, kept.data.value.start)
    own = last(found, "topics")
    known = [decode(span.of(data)) for span in _topic_spans(data, own)]
    new: list[bytes] = []
    for item in gone:
        for span in _topic_spans(data, last(members(data, item.data.value.start), "topics")):
            text = span.of(data)
            topic = decode(text)
            if isinstance(topic, str) and topic not in known:
                known.append(topic)
                new.append(text)
    if not new:
        return None
    if own is None:
        return setting(data, found, kept.data.value.start, "topics", b"[" + b",".join(new) + b"]")
    if data[own.value.start : own.value.start + 1] != b"[":
        return None  # what is there is no list: nothing of it is replaced
    return addition(data, own.value, elements(data, own.value), new, None)


def _topic_spans(data: bytes, topics: Member | None) -> list[Span]:
    if topics is None or data[topics.value.start : topics.value.start + 1] != b"[":
        return []
    return elements(data, topics.value)
