"""Archiving of old sessions to `archive/YYYY-MM/`, and the month's aggregate, both in the form of the archiver that
owns the directory, so that both programs can share it. Off unless the policy turns it on: the seed does not describe
it.

A session is old when more than 60 days have passed since `last_updated` (else `timestamp`, else the modification time);
its month is that of `timestamp` in UTC. One run moves at most 200 sessions, oldest first. Copies and the aggregate are
written before a live file is removed. A command can also archive single memories: the archive then gets the text of the
session with only those.

The aggregate is `{month, generated_at, retention_days, sessions[], deduped_memories[], stats{}}`. The archiver replaces
an unreadable aggregate by an empty one; memoryd leaves such a month alone. Sessions in the aggregate keep their bytes;
new ones are appended, and a session that is already there only gets the memories it lacks.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from memoryd.core.defaults import DAY
from memoryd.core.json_spans import (
    Member,
    append_elements,
    decode,
    elements,
    find_document,
    last_member,
    members,
    remove_elements,
    set_member,
)
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import JsonObject, NativeMemory, Record
from memoryd.core.similarity import Tokens, overlap, same, tokens
from memoryd.core.spans import Edit, Span, cut_name, sha256, splice
from memoryd.layouts.json_document import get_text
from memoryd.layouts.protocol import LoadedFile, UpkeepView, disabled_plan
from memoryd.layouts.session_files.names import session_path
from memoryd.layouts.session_files.parser import Session, read_session
from memoryd.layouts.session_files.schema import confidence

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


def aggregate_path(month: str) -> str:
    """Return the path of a month's aggregate."""
    return f"archive/aggregate/{month}.json"


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
    if not view.pinned or not view.unattended:
        return False
    texts = (loaded.data, *(record.span.of(loaded.data) for record in loaded.document.records))
    return any(sha256(text) in view.pinned for text in texts)


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


class UnreadableError(Exception):
    """The aggregate exists and is not readable; it must not be replaced."""


def add_sessions(
    existing: bytes | None, month: str, sessions: Sequence[bytes], now: float, days: float
) -> bytes | None:
    """Return the aggregate with these sessions (texts as archived) added; None if it has them all.

    Raises UnreadableError for an aggregate that cannot be extended.
    """
    data = b'{\n  "month": "%s",\n  "sessions": []\n}\n' % month.encode() if existing is None else existing
    try:
        before = data
        for text in filter(_is_strict_json, sessions):
            data = _insert_session(data, text)
        if data == before:
            return None
        data = splice(data, _derived_edits(data, now, days))
        return _reorder(data) if existing is None else data
    except (ValueError, RecursionError) as error:
        raise UnreadableError(type(error).__name__) from error


def _is_strict_json(text: bytes) -> bool:
    """Return True for a session in strict JSON. Python's parser also accepts NaN, which would make the aggregate
    unreadable for others."""
    try:
        return get_text(json.loads(text, parse_constant=_reject_constant), "session_id") != ""
    except (ValueError, RecursionError):
        return False


def _reject_constant(constant: str) -> None:
    raise ValueError(constant)


def _insert_session(data: bytes, text: bytes) -> bytes:
    _, _, array = _parse_aggregate(data)
    present = elements(data, array)
    session = get_text(decode(text), "session_id")
    existing = _by_id(data, present).get(session)
    if existing is None:
        return splice(data, [append_elements(data, array, present, [_indent(text, 4)], b"    ")])
    return splice(data, _missing_memories(data, existing, text))


def _parse_aggregate(data: bytes) -> tuple[int, list[Member], Span]:
    document = find_document(data)
    if document.value is None or document.rest is not None:
        raise UnreadableError(document.problem or "other bytes follow the document")
    if data[document.value.start : document.value.start + 1] != b"{":
        raise UnreadableError("not an object")
    parts = members(data, document.value.start)
    sessions = last_member(parts, "sessions")
    if sessions is None or data[sessions.value.start : sessions.value.start + 1] != b"[":
        raise UnreadableError("no list of sessions")
    return document.value.start, parts, sessions.value


def _by_id(data: bytes, present: Sequence[Span]) -> dict[str, Span]:
    sessions: dict[str, Span] = {}
    for span in present:
        native = decode(span.of(data))
        if isinstance(native, dict):
            sessions.setdefault(get_text(native, "session_id"), span)
    return sessions


def _missing_memories(data: bytes, session: Span, text: bytes) -> list[Edit]:
    """Return the edit that adds the memories of `text` which the session in the aggregate lacks."""
    array = last_member(members(data, session.start), "memories")
    new_array = last_member(members(text, text.index(b"{")), "memories")
    if array is None or new_array is None or data[array.value.start : array.value.start + 1] != b"[":
        return []
    present = elements(data, array.value)
    decoded = [decode(span.of(data)) for span in present]
    new = [span.of(text) for span in elements(text, new_array.value) if decode(span.of(text)) not in decoded]
    return [append_elements(data, array.value, present, [_indent(each, 4) for each in new], b" " * 8)] if new else []


def _indent(text: bytes, by: int) -> bytes:
    """Indent by more spaces. JSON strings contain no line breaks, so no token changes."""
    return text.strip().replace(b"\n", b"\n" + b" " * by)


def _derived_edits(data: bytes, now: float, days: float) -> list[Edit]:
    """Return the edits of the members that the archiver recomputes each time: the merged list and the counts."""
    brace, parts, array = _parse_aggregate(data)
    sessions = [decode(span.of(data)) for span in elements(data, array)]
    merged = merge_memories(sessions)
    lists = [each.get("memories") for each in sessions if isinstance(each, dict)]
    count = sum(len(each) for each in lists if isinstance(each, list))
    stats = {"session_count": len(sessions), "memory_count": count, "deduped_count": len(merged)}
    stamp = datetime.fromtimestamp(int(now * 1000) / 1000, UTC).isoformat(timespec="milliseconds")
    values = {
        "generated_at": stamp.replace("+00:00", "Z"),
        "retention_days": int(days) if days == int(days) else days,
        "deduped_memories": merged,
        "stats": stats,
    }
    return [set_member(data, parts, brace, key, _render(value)) for key, value in values.items()]


def _reorder(data: bytes) -> bytes:
    """Return a new aggregate with its members in the archiver's order."""
    brace, parts, _ = _parse_aggregate(data)
    order = ("month", "generated_at", "retention_days", "sessions", "deduped_memories", "stats")
    ordered = [member for key in order if (member := last_member(parts, key)) is not None]
    lines = [data[member.start : member.value.end] for member in ordered]
    return data[: brace + 1] + b",".join(b"\n  " + line for line in lines) + b"\n}\n"


def _render(value: object) -> bytes:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return _indent(text.encode("utf-8", "replace"), 2)


def merge_memories(sessions: Sequence[object]) -> list[JsonObject]:
    """Return the archiver's list of the month's memories: one entry for each distinct one."""
    groups: dict[tuple[str, str], list[tuple[Tokens, JsonObject]]] = {}
    for session, native in _memories(sessions):
        key = (get_text(native, "type") or "unknown", get_text(native, "title") or "untitled")
        group = groups.setdefault(key, [])
        content = get_text(native, "content")
        words = tokens(content)
        duplicates = [each for each in group if same(content, words, each[1]["content"], each[0])]
        if duplicates:
            _merge_entry(max(duplicates, key=lambda each: _similarity(words, each[0]))[1], native, session)
        else:
            group.append((words, _entry(key, native, session)))
    return [entry for group in groups.values() for _, entry in group]


def _memories(sessions: Sequence[object]) -> Iterator[tuple[str, NativeMemory]]:
    for session in sessions:
        if not isinstance(session, dict):
            continue
        memories = session.get("memories")
        for native in memories if isinstance(memories, list) else []:
            if isinstance(native, dict):
                yield get_text(session, "session_id") or "unknown-session", native


def _similarity(a: Tokens, b: Tokens) -> float:
    shared, total = overlap(a.words, b.words)
    return shared / total if total else 1.0


def _entry(key: tuple[str, str], native: NativeMemory, session: str) -> JsonObject:
    return {
        "type": key[0],
        "category": get_text(native, "category") or None,
        "title": key[1],
        "content": get_text(native, "content"),
        "confidence_score": _score(native),
        "source_session_ids": [session],
    }


def _score(native: NativeMemory) -> float | str:
    """Return the score as the archiver writes it: a number in a string stays a string."""
    score, written = confidence(native), native.get("confidence_score")
    if isinstance(written, str) and score:
        return written
    return int(score) if score == int(score) else score


def _merge_entry(entry: JsonObject, native: NativeMemory, session: str) -> None:
    if session not in entry["source_session_ids"]:
        entry["source_session_ids"].append(session)
    if confidence(native) > confidence(entry):
        entry["content"] = get_text(native, "content")
        entry["confidence_score"] = _score(native)
        entry["category"] = get_text(native, "category") or entry["category"]
