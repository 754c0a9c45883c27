"""Duplicates within one user's document; nothing crosses from one user to another.

Merged, on request only: equal text (ignoring compatibility forms, case and white space) or a cosine of at least 0.95.
From 0.75 on, two memories are only suggested: in the program's table, different facts reach 0.72. The memory of higher
importance stays, in a tie the earlier one; its topics become the union, its content is unchanged. Each duplicate
matches its original directly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from memoryd.core.defaults import DAY
from memoryd.core.json_spans import (
    Member,
    append_elements,
    decode,
    elements,
    last_member,
    members,
    remove_elements,
    set_member,
)
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import Record
from memoryd.core.similarity import normalised
from memoryd.core.spans import Edit, Span, sha256
from memoryd.layouts.protocol import LoadedFile, UpkeepView
from memoryd.layouts.user_document.embeddings import similarity_search, unit_vector
from memoryd.layouts.user_document.parser import STAMPS
from memoryd.layouts.user_document.split import Element, ParsedDocument, parse_document
from memoryd.layouts.user_document.timestamps import update_stamps

THRESHOLD = 0.95
SIMILAR = 0.75  # cosine from which two memories are suggested
MAX_SUGGESTIONS = 10  # per document
DUE_COUNT, DUE_AFTER = 10, DAY  # the program itself checks above this count, once a day


class Candidate(NamedTuple):
    """A memory with its position in the array; `text` is its normalised content."""

    position: int
    record: Record
    item: Element
    text: str


class Pair(NamedTuple):
    """A memory to remove and its original, which stays; `cosine` is None where the texts are equal."""

    original: Candidate
    duplicate: Candidate
    cosine: float | None

    @property
    def why(self) -> str:
        """The reason to remove the duplicate, for people."""
        similar = "equal text" if self.cosine is None else f"cosine {self.cosine:.3f}"
        levels = (self.duplicate.record.facts["importance"], self.original.record.facts["importance"])
        return f"duplicate of {self.original.record.id} ({similar}; importance {levels[0]:g} against {levels[1]:g})"

    def suggestion(self, *, is_merged: bool) -> str:
        """Return the finding about the duplicate; `is_merged` is True where a request would merge the pair."""
        alike = "same text as" if self.cosine is None else "near-identical to" if is_merged else "similar to"
        cosine = "" if self.cosine is None else f" (cosine {self.cosine:.3f})"
        action = "`memoryd dedupe` merges them" if is_merged else "if one is enough, `memoryd forget` the other"
        return f"{alike} {self.original.record.id}{cosine}: {action}"


class Duplicates(NamedTuple):
    """Duplicates to remove, and memories that are only similar."""

    pairs: list[Pair]
    similar: list[Pair]


def dedupe(view: UpkeepView, threshold: float | None) -> Plan:
    """Plan the merges. A scheduled run only suggests, and only for documents that the program itself would now check:
    its agents would overwrite a change from their cache."""
    bound = THRESHOLD if threshold is None else threshold
    actions: list[Action] = []
    notes: list[Action] = []
    for path in view.live:
        loaded = view.live[path]
        parsed = _parse(loaded)
        if parsed is None or (view.unattended and not is_due(loaded.document.facts, len(parsed.items), view.now)):
            continue
        duplicates = find_duplicates(loaded, parsed, bound)
        notes += _notes(path, duplicates, with_pairs=view.unattended)
        if not view.unattended and (action := _action(path, loaded, parsed, duplicates, view.now)):
            actions.append(action)
    return Plan(tuple(actions), tuple(notes))


def is_due(facts: Mapping[str, float | None], count: int, now: float) -> bool:
    """Return True for more than ten memories, and more than a day since the last run (or no run yet)."""
    last_run = facts.get("deduplicated")
    return count > DUE_COUNT and (last_run is None or now - last_run > DUE_AFTER)


def _parse(loaded: LoadedFile) -> ParsedDocument | None:
    """Return the parts of an undamaged document with at least two memories, else None."""
    if len(loaded.document.records) < 2 or loaded.document.facts.get("damaged"):
        return None
    return parse_document(loaded.data)[1]


def find_duplicates(loaded: LoadedFile, parsed: ParsedDocument, threshold: float) -> Duplicates:
    """Find duplicates by importance, then position: each memory removes its remaining duplicates."""
    ranked = _ranked(loaded, parsed)
    neighbours_of = _Neighbours(loaded.data, ranked, min(threshold, SIMILAR))
    pairs: list[Pair] = []
    similar: list[Pair] = []
    removed: set[int] = set()
    by_text: dict[str, list[int]] = {}
    for rank, one in enumerate(ranked):
        by_text.setdefault(one.text, []).append(rank)
    for rank, one in enumerate(ranked):
        if rank in removed:
            continue
        equal = {other: None for other in by_text[one.text] if other > rank}
        close = {other: value for other, value in neighbours_of(rank) if other not in equal}
        for other, value in sorted({**equal, **close}.items()):
            if other in removed:
                continue
            if value is None or value >= threshold - 1e-9:
                removed.add(other)
                pairs.append(Pair(one, ranked[other], value))
            else:
                similar.append(Pair(one, ranked[other], value))
    positions = {pair.duplicate.position for pair in pairs}
    similar = [pair for pair in similar if pair.duplicate.position not in positions]
    return Duplicates(pairs, sorted(similar, key=lambda pair: -(pair.cosine or 0)))


def _ranked(loaded: LoadedFile, parsed: ParsedDocument) -> list[Candidate]:
    records = iter(loaded.document.records)
    candidates = [
        Candidate(position, next(records), item, normalised(item.native["content"]))
        for position, item in enumerate(parsed.items)
        if item is not None
    ]
    return sorted(candidates, key=lambda one: (-one.record.facts["importance"], one.position))


class _Neighbours:
    """The cosines of a memory, by rank, with the others that have a usable embedding."""

    def __init__(self, data: bytes, ranked: Sequence[Candidate], floor: float) -> None:
        self._ranks = [rank for rank, one in enumerate(ranked) if one.record.facts["embedding"]]
        spans = [ranked[rank].item.embedding for rank in self._ranks]
        self._rows = {rank: row for row, rank in enumerate(self._ranks)}
        self._near = similarity_search([unit_vector(span.of(data)) for span in spans if span is not None])
        self._floor = floor

    def __call__(self, rank: int) -> list[tuple[int, float]]:
        row = self._rows.get(rank)
        return [(self._ranks[other], value) for other, value in self._near(row, self._floor)] if row is not None else []


def _notes(path: str, duplicates: Duplicates, *, with_pairs: bool) -> Iterator[Action]:
    """Yield the suggestions; `with_pairs` includes the pairs that a request would merge."""
    merged = [(pair, True) for pair in duplicates.pairs] if with_pairs else []
    listed = [*merged, *((pair, False) for pair in duplicates.similar)]
    for pair, is_merged in listed[:MAX_SUGGESTIONS]:
        ids = (pair.duplicate.record.id, pair.original.record.id)
        yield Action(Kind.NOTE, path, pair.suggestion(is_merged=is_merged), ids)
    if len(listed) > MAX_SUGGESTIONS:
        yield Action(Kind.NOTE, path, f"{len(listed) - MAX_SUGGESTIONS} more pairs of possible duplicates")


def _action(path: str, loaded: LoadedFile, parsed: ParsedDocument, duplicates: Duplicates, now: float) -> Action | None:
    """Return one rewrite: the removals, the union of topics, and both stamps, which change even where nothing is
    removed."""
    merges = sorted(duplicates.pairs, key=lambda pair: pair.duplicate.position)
    edits = [
        *remove_elements(parsed.array, parsed.elements, [pair.duplicate.position for pair in merges]),
        *_unions(loaded.data, duplicates.pairs),
        *update_stamps(loaded.data, parsed, now, STAMPS),
    ]
    edits = [edit for edit in edits if edit.span.of(loaded.data) != edit.new]
    if not edits:
        return None
    return Action(
        Kind.REWRITE,
        path,
        f"merge {len(merges)} duplicates" if merges else "no duplicates found",
        tuple(pair.duplicate.record.id for pair in merges),
        tuple(edits),
        base=sha256(loaded.data),
        reasons=tuple(pair.why for pair in merges),
        quarantine=tuple(pair.duplicate.item.span for pair in merges),
    )


def _unions(data: bytes, pairs: Sequence[Pair]) -> Iterator[Edit]:
    by_original: dict[int, list[Pair]] = {}
    for pair in pairs:
        by_original.setdefault(pair.original.position, []).append(pair)
    for group in by_original.values():
        ordered = sorted(group, key=lambda pair: pair.duplicate.position)
        edit = _union(data, group[0].original.item, [pair.duplicate.item for pair in ordered])
        if edit is not None:
            yield edit


def _union(data: bytes, original: Element, duplicates: Sequence[Element]) -> Edit | None:
    """Return the edit that appends the missing topics, as written."""
    data_members = members(data, original.data.value.start)
    topics = last_member(data_members, "topics")
    known_topics = [decode(span.of(data)) for span in _topic_spans(data, topics)]
    new: list[bytes] = []
    for item in duplicates:
        for span in _topic_spans(data, last_member(members(data, item.data.value.start), "topics")):
            text = span.of(data)
            topic = decode(text)
            if isinstance(topic, str) and topic not in known_topics:
                known_topics.append(topic)
                new.append(text)
    if not new:
        return None
    if topics is None:
        return set_member(data, data_members, original.data.value.start, "topics", b"[" + b",".join(new) + b"]")
    if data[topics.value.start : topics.value.start + 1] != b"[":
        return None  # not a list: leave it alone
    return append_elements(data, topics.value, elements(data, topics.value), new, None)


def _topic_spans(data: bytes, topics: Member | None) -> list[Span]:
    if topics is None or data[topics.value.start : topics.value.start + 1] != b"[":
        return []
    return elements(data, topics.value)
