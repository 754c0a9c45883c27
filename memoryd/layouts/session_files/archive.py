"""Archiving of old sessions to `archive/YYYY-MM/`, in the form of the archiver that owns the directory, so that both
programs can share it. Off unless the policy turns it on: the seed does not describe it.

A session is old when more than 60 days have passed since `last_updated` (else `timestamp`, else the modification time);
its month is that of `timestamp` in UTC. One run moves at most 200 sessions, oldest first. Copies and the aggregate are
written before a live file is removed. A command can also archive single memories: the archive then gets the text of the
session with only those.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from memoryd.core.defaults import DAY
from memoryd.core.json_spans import find_document, remove_elements
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import Record
from memoryd.core.spans import Edit, Span, cut_name, sha256, splice
from memoryd.layouts.protocol import LoadedFile, UpkeepView, disabled_plan
from memoryd.layouts.session_files.aggregate import UnreadableError, add_sessions
from memoryd.layouts.session_files.names import aggregate_path, session_path
from memoryd.layouts.session_files.parser import Session, read_session

MAX_SESSIONS = 200
_MAX_STEM_BYTES = 245  # of 255 bytes in a file name: `.json` and a number follow


class DueSession(NamedTuple):
    """A session and its memories to archive; `whole` is True if the live file is removed."""

    path: str
    loaded: LoadedFile
    records: tuple[Record, ...]
    why: str
    whole: bool = True

    @property
    def month(self) -> str:
        """The month of the archive, as `YYYY-MM`."""
        return str(self.loaded.document.facts["month"])


class _Move(NamedTuple):
    """The copy and the removal of one session; `copy` is None if the archive holds that content already."""

    session: DueSession
    copy: Action | None
    removal: Action
    text: bytes


def archive(view: UpkeepView, ids: Collection[str] | None) -> Plan:
    """Plan the archiving of old sessions (if the policy turns that on), or of exactly the memories named."""
    if ids is None and not view.policy.archive_sessions:
        return disabled_plan(view, "archive_sessions")
    due = _due_sessions(view) if ids is None else list(_named_sessions(view, ids))
    batch = _batch(due, view.max_moves) if ids is None else due
    by_month: dict[str, list[DueSession]] = {}
    for each in batch:
        by_month.setdefault(each.month, []).append(each)
    actions: list[Action] = []
    notes: list[Action] = []
    for month, group in sorted(by_month.items()):
        try:
            actions += _month(view, month, group)
        except UnreadableError as error:
            why = f"unreadable ({error}); no sessions of {month} are archived until it is corrected or moved away"
            notes.append(Action(Kind.NOTE, aggregate_path(month), why))
    waiting = sum(len(each.records) for each in due[len(batch) :])
    return Plan(tuple(actions), tuple(notes), waiting)


def _batch(oldest_first: Sequence[DueSession], max_moves: int | None) -> Sequence[DueSession]:
    """Return whole sessions, at least one, that together have at most `max_moves` memories."""
    total = 0
    for number, each in enumerate(oldest_first[:MAX_SESSIONS]):
        total += len(each.records)
        if max_moves is not None and total > max_moves:
            return oldest_first[: max(number, 1)]
    return oldest_first[:MAX_SESSIONS]


def _due_sessions(view: UpkeepView) -> list[DueSession]:
    due = [
        DueSession(path, loaded, loaded.document.records, _reason(loaded, view.now))
        for path, loaded in view.live.items()
        if _is_due(loaded, view)
    ]
    return sorted(due, key=lambda each: (each.loaded.document.facts["basis"], each.path))


def _is_due(loaded: LoadedFile, view: UpkeepView) -> bool:
    facts = loaded.document.facts
    if not _may_move(loaded) or facts["future"]:
        return False
    return view.now - facts["basis"] > view.policy.archive_sessions_after_days * DAY and not _is_pinned(loaded, view)


def _may_move(loaded: LoadedFile) -> bool:
    """Return False for a file that is not a session, or has unreadable memories."""
    facts = loaded.document.facts
    return "basis" in facts and not facts["damaged"]


def _reason(loaded: LoadedFile, now: float) -> str:
    return f"session not updated for {int((now - loaded.document.facts['basis']) // DAY)} days"


def _is_pinned(loaded: LoadedFile, view: UpkeepView) -> bool:
    """Return True if an undo restored this session; only a command or a change moves it again."""
    texts = (loaded.data, *(record.span.of(loaded.data) for record in loaded.document.records))
    return view.unattended and any(map(view.is_pinned, texts))


def _named_sessions(view: UpkeepView, ids: Collection[str]) -> Iterator[DueSession]:
    for path, loaded in view.live.items():
        texts = {record.span.of(loaded.data) for record in loaded.document.records if record.id in ids}
        # Equal texts move together: only a number distinguishes their ids, and it changes when one is removed.
        records = tuple(record for record in loaded.document.records if record.span.of(loaded.data) in texts)
        if records and _may_move(loaded):
            whole = len(records) == loaded.document.units
            yield DueSession(path, loaded, records, "named in the command", whole)


def _month(view: UpkeepView, month: str, group: Sequence[DueSession]) -> list[Action]:
    """Return the copies, the aggregate, then the removals: the first removal ends the group of the copies."""
    used: set[str] = set()
    moves = [_move(view, each, used) for each in group]
    path = aggregate_path(month)
    existing = view.archive(path)
    content = add_sessions(existing, month, _texts(moves), view.now, view.policy.archive_sessions_after_days)
    copies = [move.copy for move in moves if move.copy is not None]
    if content is not None:
        copies.append(_aggregate(path, f"{len(moves)} sessions of {month}", existing, content))
    return [*copies, *(move.removal for move in moves)]


def _texts(moves: Sequence[_Move]) -> list[bytes]:
    """Return the documents without byte order mark and surrounding white space."""
    values = ((move.text, find_document(move.text).value) for move in moves)
    return [value.of(text) for text, value in values if value is not None]


def _aggregate(path: str, why: str, existing: bytes | None, content: bytes) -> Action:
    if existing is None:
        return Action(Kind.CREATE, path, why, data=content, copy=True)
    edits = (Edit(Span(0, len(existing)), content),)
    return Action(Kind.REWRITE, path, why, edits=edits, base=sha256(existing), copy=True)


def _move(view: UpkeepView, session: DueSession, used: set[str]) -> _Move:
    text, removal = _text_and_removal(session)
    target = _target(view, session, text, used)
    used.add(target)
    copy = None
    if view.archive(target) is None:
        ids = tuple(record.id for record in session.records)
        copy = Action(Kind.CREATE, target, f"copy of {session.path}", ids, data=text, copy=True)
    return _Move(session, copy, removal, text)


def _text_and_removal(session: DueSession) -> tuple[bytes, Action]:
    """Return the text for the archive, and the action that removes it from the live file."""
    data = session.loaded.data
    ids = tuple(record.id for record in session.records)
    if session.whole:
        return data, Action(Kind.REMOVE, session.path, session.why, ids, base=sha256(data))
    parts = read_session(data)
    assert parts is not None, "a session with records can be split"
    chosen = {record.span for record in session.records}
    text = splice(data, _removal_edits(parts, set(parts.elements) - chosen))
    edits = _removal_edits(parts, chosen)
    return text, Action(Kind.REWRITE, session.path, session.why, ids, edits, base=sha256(data))


def _target(view: UpkeepView, session: DueSession, text: bytes, used: Collection[str]) -> str:
    """Return `archive/2026-01/2026-01-30-14-30-00-name.json`; with `-1`, `-2` … where other content has the name. A
    name that the date in front makes too long for a file is cut."""
    location = session_path(session.path)
    assert location is not None, "only session files are archived"
    name = cut_name(f"{location.date}-{location.time}-{location.name}", _MAX_STEM_BYTES)
    stem = f"archive/{session.month}/{name}"
    number = 0
    while True:
        target = f"{stem}-{number}.json" if number else f"{stem}.json"
        if target not in used and view.archive(target) in (None, text):
            return target
        number += 1


def removal_edits(data: bytes, spans: Collection[Span]) -> tuple[Edit, ...]:
    """Return the edits that remove memories from a session."""
    session = read_session(data)
    return () if session is None else _removal_edits(session, spans)


def _removal_edits(session: Session, spans: Collection[Span]) -> tuple[Edit, ...]:
    positions = {position for position, span in enumerate(session.elements) if span in spans}
    return tuple(remove_elements(session.array, session.elements, positions))
