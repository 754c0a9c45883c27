"""Reading a session file: its memories with their spans, and what is odd about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from memoryd.core.dates import iso
from memoryd.core.findings import Finding
from memoryd.core.json_elements import Member, elements, last, lines, members
from memoryd.core.records import Document, Record
from memoryd.core.secrets import headline, redact
from memoryd.core.similarity import same, tokens
from memoryd.core.text import Span
from memoryd.layouts.one_document import FRESH_S, decode, look, marks, text_of, unread
from memoryd.layouts.session_files.naming import moment, session_of, session_path, slug, told_apart
from memoryd.layouts.session_files.schema import FUTURE_S, check_memory, check_session, confidence
from memoryd.layouts.session_files.searching import labels, said, tags, worth


class Session(NamedTuple):
    """A session's text taken apart: the object's members, the `memories` array and its elements. Byte offsets."""

    value: Span
    members: list[Member]
    array: Span
    elements: list[Span]
    native: Mapping[str, Any]


class _Header(NamedTuple):
    session: str
    created: float | None
    updated: float | None


def take_apart(data: bytes, value: Span) -> Session | None:
    """None where the value is no object with a list of memories."""
    try:
        native = decode(value.of(data))
    except (ValueError, RecursionError):
        return None
    if not isinstance(native, dict) or not isinstance(native.get("memories"), list):
        return None
    found = members(data, value.start, value.end)
    memories = last(found, "memories")
    if memories is None:
        return None
    spans = elements(data, memories.value)
    return Session(value, found, memories.value, spans, native) if len(spans) == len(native["memories"]) else None


def parse(path: str, data: bytes, *, now: float, mtime: float, archived: bool) -> Document:
    """An archived session is history: it is read without the schema's findings."""
    whole = look(data)
    broken = "corrupt-file" if archived else "broken-session"
    if whole.value is None:
        return unread(path, whole, broken, now=now, mtime=mtime)
    session = take_apart(data, whole.value)
    if whole.rest is not None and (session is None or abs(now - mtime) < FRESH_S):
        why = "the document is followed by other bytes"
        return unread(path, whole._replace(problem=why), broken, now=now, mtime=mtime)
    if session is None:
        message = "is no object with a list of memories; it is left in place"
        return Document(path, (), (Finding("wrong-shape", path, message),), 1, 1)
    header = _header(session.native, path)
    records = _records(session, data, header, archived)
    findings = marks(path, data, whole)
    if not archived:
        findings += _findings(path, data, session, records, now)
    facts = _facts(header, records, path, now=now, mtime=mtime) | {"damaged": whole.rest is not None}
    units = len(session.elements)
    return Document(path, tuple(records), tuple(findings), units, units - len(records), facts=facts)


def _header(native: Mapping[str, Any], path: str) -> _Header:
    session = text_of(native, "session_id") or session_of(path)
    return _Header(session, moment(native.get("timestamp")), moment(native.get("last_updated")))


def ids_of(path: str, data: bytes, session: Session) -> dict[Span, str]:
    """Of the memories of a session taken apart: the ids that any reader finds them by."""
    found = _memories(session)
    ids = _ids(found, data, _header(session.native, path))
    return {span: identity for (_, span), identity in zip(found, ids, strict=True)}


def _memories(session: Session) -> list[tuple[Mapping[str, Any], Span]]:
    return [
        (native, span)
        for native, span in zip(session.native["memories"], session.elements, strict=True)
        if isinstance(native, dict)
    ]


def _ids(found: Sequence[tuple[Mapping[str, Any], Span]], data: bytes, header: _Header) -> list[str]:
    of = redact(header.session)
    bases = [f"{of}#{_named(_type(native), text_of(native, 'title'))}" for native, _ in found]
    return told_apart(bases, [span.of(data) for _, span in found])


@lru_cache(maxsize=1024)
def _named(kind: str, title: str) -> str:
    """Each store into a session reads all of its titles again."""
    return f"{redact(kind)}:{slug(redact(title))}"


def _records(session: Session, data: bytes, header: _Header, archived: bool) -> list[Record]:
    found = _memories(session)
    ids = _ids(found, data, header)
    return [
        Record(
            span,
            line,
            identity,
            _type(native),
            headline(text_of(native, "title"), 200),
            header.created,
            header.updated or header.created,
            tags(native),
            archived,
            native,
            {"session": header.session, "category": text_of(native, "category"), "confidence": confidence(native)},
            said(native),
            labels(native),
            worth(native),
        )
        for (native, span), identity, line in zip(found, ids, lines(data, [span for _, span in found]), strict=True)
    ]


def _type(native: Mapping[str, Any]) -> str:
    return text_of(native, "type") or "unknown"


def _facts(header: _Header, records: Sequence[Record], path: str, *, now: float, mtime: float) -> dict[str, Any]:
    """`basis` is the time the session's age counts from, `month` the archive it belongs to, `twins` the number of
    memories that share type and title with an earlier one."""
    keys = Counter(key_of(record.native) for record in records)
    basis = next((each for each in (header.updated, header.created) if each is not None), mtime)
    place = session_path(path)
    folder = moment(place.date) if place else None
    begun = next(each for each in (header.created, header.updated, folder, basis) if each is not None)
    return {
        "session": header.session,
        "basis": basis,
        "month": iso(begun)[:7],
        "future": max(basis, begun) > now + FUTURE_S,
        "twins": sum(count - 1 for count in keys.values()),
        "by_type": dict(Counter(record.type for record in records)),
    }


def key_of(native: Mapping[str, Any]) -> tuple[str, str]:
    """Type and title, as written: the seed's first condition for a duplicate."""
    return text_of(native, "type"), text_of(native, "title")


def _findings(path: str, data: bytes, session: Session, records: Sequence[Record], now: float) -> Iterator[Finding]:
    for problem in check_session(session.native, path, now):
        yield Finding(problem.code, path, problem.message)
    if len({member.key for member in session.members}) < len(session.members):
        yield Finding("duplicate-key", path, "the session names one key twice; the last value counts")
    by_start = {record.span.start: record for record in records}
    memories = zip(session.native["memories"], session.elements, lines(data, session.elements), strict=True)
    for number, (native, span, line) in enumerate(memories):
        record = by_start.get(span.start)
        if record is None:
            yield Finding("invalid-schema", path, f"memories[{number}]: is no object; skipped and kept", line)
            continue
        for problem in check_memory(native):
            yield Finding(problem.code, path, f"memories[{number}]: {problem.message}", line, record.id)
    yield from _said_twice(path, records)


def _said_twice(path: str, records: Sequence[Record]) -> Iterator[Finding]:
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault(key_of(record.native), []).append(record)
    for group in groups.values():
        texts = [(record, text_of(record.native, "content")) for record in group] if len(group) > 1 else []
        known = [(record, text, tokens(text)) for record, text in texts]
        for number, (record, text, words) in enumerate(known):
            if any(same(text, words, other, theirs) for _, other, theirs in known[:number]):
                message = "says the same as an earlier memory of this session"
                yield Finding("duplicate-memory", path, message, record.line, record.id)
