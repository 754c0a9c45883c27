"""The month's aggregate of archived sessions, in the form of the archiver that owns the folder:
`{month, generated_at, retention_days, sessions[], deduped_memories[], stats{}}`.

That archiver replaces an aggregate it cannot read by an empty one; here such a month waits. Sessions already there
keep their bytes; new ones are put behind them, and of a session that is there already only the memories it lacks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from memoryd.core.json_elements import Member, addition, elements, last, members, setting
from memoryd.core.similarity import Tokens, overlap, same, tokens
from memoryd.core.text import Edit, Span, splice
from memoryd.layouts.one_document import decode, look, text_of
from memoryd.layouts.session_files.schema import confidence


class UnreadableError(Exception):
    """The aggregate is there and is not what it should be; it must not be replaced."""


def with_sessions(
    existing: bytes | None, month: str, sessions: Sequence[bytes], now: float, days: float
) -> bytes | None:
    """The aggregate with these sessions (texts as archived) in it; None when it holds them all already.

    Raises UnreadableError for an aggregate that cannot be added to."""
    data = b'{\n  "month": "%s",\n  "sessions": []\n}\n' % month.encode() if existing is None else existing
    try:
        before = data
        for text in filter(_is_plain, sessions):
            data = _with_session(data, text)
        if data == before:
            return None
        data = splice(data, _derived(data, now, days))
        return _ordered(data) if existing is None else data
    except (ValueError, RecursionError) as error:
        raise UnreadableError(type(error).__name__) from error


def _is_plain(text: bytes) -> bool:
    """What only Python's parser reads (NaN) would make the whole aggregate unreadable to its owner."""
    try:
        return text_of(json.loads(text, parse_constant=_refuse), "session_id") != ""
    except (ValueError, RecursionError):
        return False


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _with_session(data: bytes, text: bytes) -> bytes:
    _, _, array = _taken_apart(data)
    present = elements(data, array)
    session = text_of(decode(text), "session_id")
    known = _by_id(data, present).get(session)
    if known is None:
        return splice(data, [addition(data, array, present, [_indented(text, 4)], b"    ")])
    return splice(data, _missing(data, known, text))


def _taken_apart(data: bytes) -> tuple[int, list[Member], Span]:
    whole = look(data)
    if whole.value is None or whole.rest is not None:
        raise UnreadableError(whole.problem or "other bytes follow the document")
    if data[whole.value.start : whole.value.start + 1] != b"{":
        raise UnreadableError("it is no object")
    found = members(data, whole.value.start)
    sessions = last(found, "sessions")
    if sessions is None or data[sessions.value.start : sessions.value.start + 1] != b"[":
        raise UnreadableError("it has no list of sessions")
    return whole.value.start, found, sessions.value


def _by_id(data: bytes, present: Sequence[Span]) -> dict[str, Span]:
    found: dict[str, Span] = {}
    for span in present:
        native = decode(span.of(data))
        if isinstance(native, dict):
            found.setdefault(text_of(native, "session_id"), span)
    return found


def _missing(data: bytes, session: Span, text: bytes) -> list[Edit]:
    """The memories of `text` that the session in the aggregate does not hold."""
    array = last(members(data, session.start), "memories")
    fresh = last(members(text, text.index(b"{")), "memories")
    if array is None or fresh is None or data[array.value.start : array.value.start + 1] != b"[":
        return []
    present = elements(data, array.value)
    known = [decode(span.of(data)) for span in present]
    new = [span.of(text) for span in elements(text, fresh.value) if decode(span.of(text)) not in known]
    return [addition(data, array.value, present, [_indented(each, 4) for each in new], b" " * 8)] if new else []


def _indented(text: bytes, by: int) -> bytes:
    """Deeper by some spaces. A line break never stands inside a JSON string, so no token changes."""
    return text.strip().replace(b"\n", b"\n" + b" " * by)


def _derived(data: bytes, now: float, days: float) -> list[Edit]:
    """What the archiver computes anew each time: the merged list and the counts."""
    brace, found, array = _taken_apart(data)
    sessions = [decode(span.of(data)) for span in elements(data, array)]
    merged = merged_memories(sessions)
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
    return [setting(data, found, brace, key, _rendered(value)) for key, value in values.items()]


def _ordered(data: bytes) -> bytes:
    """A new aggregate with its members in the archiver's order."""
    brace, found, _ = _taken_apart(data)
    order = ("month", "generated_at", "retention_days", "sessions", "deduped_memories", "stats")
    placed = [member for key in order if (member := last(found, key)) is not None]
    lines = [data[member.start : member.value.end] for member in placed]
    return data[: brace + 1] + b",".join(b"\n  " + line for line in lines) + b"\n}\n"


def _rendered(value: Any) -> bytes:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return _indented(text.encode("utf-8", "replace"), 2)


def merged_memories(sessions: Sequence[Any]) -> list[dict[str, Any]]:
    """The archiver's index of what the month's sessions say: one entry for each different memory."""
    groups: dict[tuple[str, str], list[tuple[Tokens, dict[str, Any]]]] = {}
    for session, native in _memories(sessions):
        key = (text_of(native, "type") or "unknown", text_of(native, "title") or "untitled")
        group = groups.setdefault(key, [])
        content = text_of(native, "content")
        words = tokens(content)
        alike = [each for each in group if same(content, words, each[1]["content"], each[0])]
        if alike:
            _join(max(alike, key=lambda each: _share(words, each[0]))[1], native, session)
        else:
            group.append((words, _entry(key, native, session)))
    return [entry for group in groups.values() for _, entry in group]


def _memories(sessions: Sequence[Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for session in sessions:
        found = session.get("memories") if isinstance(session, dict) else None
        for native in found if isinstance(found, list) else []:
            if isinstance(native, dict):
                yield text_of(session, "session_id") or "unknown-session", native


def _share(a: Tokens, b: Tokens) -> float:
    shared, together = overlap(a.words, b.words)
    return shared / together if together else 1.0


def _entry(key: tuple[str, str], native: Mapping[str, Any], session: str) -> dict[str, Any]:
    return {
        "type": key[0],
        "category": text_of(native, "category") or None,
        "title": key[1],
        "content": text_of(native, "content"),
        "confidence_score": _score(native),
        "source_session_ids": [session],
    }


def _score(native: Mapping[str, Any]) -> float:
    score = confidence(native)
    return int(score) if score == int(score) else score


def _join(entry: dict[str, Any], native: Mapping[str, Any], session: str) -> None:
    if session not in entry["source_session_ids"]:
        entry["source_session_ids"].append(session)
    if _score(native) > entry["confidence_score"]:
        entry["content"] = text_of(native, "content")
        entry["confidence_score"] = _score(native)
        entry["category"] = text_of(native, "category") or entry["category"]
