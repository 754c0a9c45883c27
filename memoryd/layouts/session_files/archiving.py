"""Old sessions leave for `archive/YYYY-MM/`, in the names of the archiver that owns the folder, so that both can
share it. Off unless the policy turns it on: the seed does not speak of archiving.

A session is old when more than 60 days have passed since `last_updated` (else `timestamp`, else the file's time); its
month is that of `timestamp` in UTC. At most 200 leave in one run, the oldest first. Copies and the month's aggregate
are written before a live file goes. By command also single memories leave: the archive gets the session's text with
only those in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from memoryd.core.digest import sha256
from memoryd.core.json_elements import removals
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.policy import DAY
from memoryd.core.records import Record
from memoryd.core.text import Edit, Span, splice
from memoryd.layouts.base import Loaded, UpkeepView
from memoryd.layouts.one_document import look
from memoryd.layouts.session_files.aggregate import UnreadableError, with_sessions
from memoryd.layouts.session_files.naming import session_path
from memoryd.layouts.session_files.reading import take_apart

AT_ONCE = 200


class Leaving(NamedTuple):
    """A session and those of its memories that leave; `whole`: the file goes."""

    path: str
    loaded: Loaded
    records: tuple[Record, ...]
    why: str
    whole: bool = True

    @property
    def month(self) -> str:
        return str(self.loaded.document.facts["month"])


class _Move(NamedTuple):
    """`copy` is None where the archive holds that very content already."""

    leaving: Leaving
    copy: Action | None
    removal: Action
    text: bytes


def archive(view: UpkeepView, ids: Collection[str] | None) -> Plan:
    due = _due(view) if ids is None else list(_named(view, ids))
    leaving = _batch(due, view.at_most) if ids is None else due
    by_month: dict[str, list[Leaving]] = {}
    for each in leaving:
        by_month.setdefault(each.month, []).append(each)
    actions: list[Action] = []
    notes: list[Action] = []
    for month, group in sorted(by_month.items()):
        try:
            actions += _month(view, month, group)
        except UnreadableError as error:
            why = f"cannot be read ({error}); nothing of {month} is archived until it is mended or moved away"
            notes.append(Action(Kind.NOTE, aggregate_path(month), why))
    waiting = sum(len(each.records) for each in due[len(leaving) :])
    return Plan(tuple(actions), tuple(notes), waiting)


def _batch(oldest_first: Sequence[Leaving], at_most: int | None) -> Sequence[Leaving]:
    """Whole sessions, at least one, that together hold at most so many memories."""
    total = 0
    for number, each in enumerate(oldest_first[:AT_ONCE]):
        total += len(each.records)
        if at_most is not None and total > at_most:
            return oldest_first[: max(number, 1)]
    return oldest_first[:AT_ONCE]


def aggregate_path(month: str) -> str:
    return f"archive/aggregate/{month}.json"


def _due(view: UpkeepView) -> list[Leaving]:
    if not view.policy.archive_sessions:
        return []
    old = [
        Leaving(path, loaded, loaded.document.records, _age(loaded, view.now))
        for path, loaded in view.live.items()
        if _is_due(loaded, view)
    ]
    return sorted(old, key=lambda each: (each.loaded.document.facts["basis"], each.path))


def _is_due(loaded: Loaded, view: UpkeepView) -> bool:
    facts = loaded.document.facts
    if not _may_move(loaded) or facts["future"]:
        return False
    return view.now - facts["basis"] > view.policy.archive_sessions_after_days * DAY and not _held(loaded, view)


def _may_move(loaded: Loaded) -> bool:
    """What is not read as a session stays where it is, and so does one with memories nobody can read."""
    facts = loaded.document.facts
    return "basis" in facts and not facts["damaged"]


def _age(loaded: Loaded, now: float) -> str:
    return f"session not updated for {int((now - loaded.document.facts['basis']) // DAY)} days"


def _held(loaded: Loaded, view: UpkeepView) -> bool:
    """Somebody took this session back by an undo: only a command or a change moves it again."""
    if not view.held or not view.unattended:
        return False
    texts = (loaded.data, *(record.span.of(loaded.data) for record in loaded.document.records))
    return any(sha256(text) in view.held for text in texts)


def _named(view: UpkeepView, ids: Collection[str]) -> Iterator[Leaving]:
    for path, loaded in view.live.items():
        texts = {record.span.of(loaded.data) for record in loaded.document.records if record.id in ids}
        # Of equal texts all leave: what told them apart is their number, which changes when one goes.
        records = tuple(record for record in loaded.document.records if record.span.of(loaded.data) in texts)
        if records and _may_move(loaded):
            whole = len(records) == loaded.document.units
            yield Leaving(path, loaded, records, "named in the command", whole)


def _month(view: UpkeepView, month: str, group: Sequence[Leaving]) -> list[Action]:
    """Copies, the aggregate, then the removals: the first of these ends the group that the copies belong to."""
    taken: set[str] = set()
    moves = [_move(view, each, taken) for each in group]
    path = aggregate_path(month)
    existing = view.archive(path)
    content = with_sessions(existing, month, _texts(moves), view.now, view.policy.archive_sessions_after_days)
    copies = [move.copy for move in moves if move.copy is not None]
    if content is not None:
        copies.append(_aggregate(path, f"{len(moves)} sessions of {month}", existing, content))
    return [*copies, *(move.removal for move in moves)]


def _texts(moves: Sequence[_Move]) -> list[bytes]:
    """The documents alone, without a byte order mark or white space around them."""
    values = ((move.text, look(move.text).value) for move in moves)
    return [value.of(text) for text, value in values if value is not None]


def _aggregate(path: str, why: str, existing: bytes | None, content: bytes) -> Action:
    if existing is None:
        return Action(Kind.CREATE, path, why, data=content, copy=True)
    edits = (Edit(Span(0, len(existing)), content),)
    return Action(Kind.REWRITE, path, why, edits=edits, base=sha256(existing), copy=True)


def _move(view: UpkeepView, leaving: Leaving, taken: set[str]) -> _Move:
    text, removal = _split(leaving)
    target = _target(view, leaving, text, taken)
    taken.add(target)
    copy = None
    if view.archive(target) is None:
        ids = tuple(record.id for record in leaving.records)
        copy = Action(Kind.CREATE, target, f"copy of {leaving.path}", ids, data=text, copy=True)
    return _Move(leaving, copy, removal, text)


def _split(leaving: Leaving) -> tuple[bytes, Action]:
    """The text for the archive, and the action that takes it out of the live folder."""
    data = leaving.loaded.data
    ids = tuple(record.id for record in leaving.records)
    if leaving.whole:
        return data, Action(Kind.REMOVE, leaving.path, leaving.why, ids, base=sha256(data))
    whole = look(data)
    session = take_apart(data, whole.value) if whole.value else None
    assert session is not None, "a session with records can be taken apart"
    chosen = {record.span for record in leaving.records}
    places = {place for place, span in enumerate(session.elements) if span in chosen}
    others = set(range(len(session.elements))) - places
    text = splice(data, removals(session.array, session.elements, others))
    edits = tuple(removals(session.array, session.elements, places))
    return text, Action(Kind.REWRITE, leaving.path, leaving.why, ids, edits, base=sha256(data))


def _target(view: UpkeepView, leaving: Leaving, text: bytes, taken: Collection[str]) -> str:
    """`archive/2026-01/2026-01-30-14-30-00-name.json`; a name taken by another content gets `-1`, `-2` …"""
    place = session_path(leaving.path)
    assert place is not None, "only session files are archived"
    stem = f"archive/{leaving.month}/{place.date}-{place.time}-{place.name}"
    number = 0
    while True:
        target = f"{stem}-{number}.json" if number else f"{stem}.json"
        if target not in taken and view.archive(target) in (None, text):
            return target
        number += 1


def removal_edits(data: bytes, spans: Collection[Span]) -> tuple[Edit, ...]:
    """Take memories out of a session's text (for a command that forgets one)."""
    whole = look(data)
    session = take_apart(data, whole.value) if whole.value else None
    if session is None:
        return ()
    places = {place for place, span in enumerate(session.elements) if span in set(spans)}
    return tuple(removals(session.array, session.elements, places))
