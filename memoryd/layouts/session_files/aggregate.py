"""The aggregate of the sessions that were archived in a month, in the form of the archiver that owns the directory.

It is `{month, generated_at, retention_days, sessions[], deduped_memories[], stats{}}`. The archiver replaces an
unreadable aggregate by an empty one; memoryd leaves such a month alone. Sessions in the aggregate keep their bytes; new
ones are appended, and a session that is already there only gets the memories it lacks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from memoryd.core.json_spans import (
    Member,
    append_elements,
    decode,
    elements,
    find_document,
    last_member,
    members,
    set_member,
)
from memoryd.core.records import JsonObject, NativeMemory
from memoryd.core.similarity import Tokens, overlap, same, tokens
from memoryd.core.spans import Edit, Span, splice
from memoryd.layouts.json_document import get_text
from memoryd.layouts.session_files.schema import confidence


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
