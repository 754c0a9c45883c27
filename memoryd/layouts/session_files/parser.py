"""Parsing of session files: memories with their spans, findings, search text; and recognition of the layout.

Search text, tags and weight are read leniently: a member of another type is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from memoryd.core.dates import iso
from memoryd.core.findings import Finding
from memoryd.core.json_spans import Member, decode, elements, find_document, last_member, line_numbers, members
from memoryd.core.records import FRESH_S, FUTURE_S, Document, JsonObject, NativeMemory, Record
from memoryd.core.secrets import headline, redact
from memoryd.core.similarity import same, tokens
from memoryd.core.spans import Span, replace_surrogates
from memoryd.layouts.directory import Directory
from memoryd.layouts.json_document import document_findings, get_text, unreadable
from memoryd.layouts.session_files import names
from memoryd.layouts.session_files.names import parse_moment, session_id_of, session_path, slug, unique_ids
from memoryd.layouts.session_files.schema import MAX_CONFIDENCE, check_memory, check_session, confidence


class Session(NamedTuple):
    """A session split into the object's members, the `memories` array and its elements, all as byte offsets."""

    value: Span
    members: list[Member]
    array: Span
    elements: list[Span]
    native: NativeMemory


class _Header(NamedTuple):
    session: str
    created: float | None
    updated: float | None


def read_session(data: bytes, *, whole: bool = False) -> Session | None:
    """Return the session in the content of a file, or None where there is none. `whole`: nothing else may follow it."""
    document = find_document(data)
    if document.value is None or (whole and document.rest is not None):
        return None
    return _split_session(data, document.value)


def _split_session(data: bytes, value: Span) -> Session | None:
    """Return the parts of a session, or None where the value is not an object with a list of memories."""
    try:
        native = decode(value.of(data))
    except (ValueError, RecursionError):
        return None
    if not isinstance(native, dict) or not isinstance(native.get("memories"), list):
        return None
    session_members = members(data, value.start, value.end)
    memories = last_member(session_members, "memories")
    if memories is None:
        return None
    spans = elements(data, memories.value)
    return (
        Session(value, session_members, memories.value, spans, native)
        if len(spans) == len(native["memories"])
        else None
    )


def parse(path: str, data: bytes, *, now: float, mtime: float, archived: bool) -> Document:
    """Parse a session file. An archived session is history and gets no schema findings. Never raises."""
    document = find_document(data)
    code = "corrupt-file" if archived else "broken-session"
    if document.value is None:
        return unreadable(path, document, code, now=now, mtime=mtime)
    session = _split_session(data, document.value)
    if document.rest is not None and (session is None or abs(now - mtime) < FRESH_S):
        why = "other bytes follow the document"
        return unreadable(path, document._replace(problem=why), code, now=now, mtime=mtime)
    if session is None:
        message = "not an object with a list of memories; left in place"
        return Document(path, (), (Finding("wrong-shape", path, message),), 1, 1)
    header = _header(session.native, path)
    records = _records(session, data, header, archived)
    facts = _facts(header, records, path, now=now, mtime=mtime) | {"damaged": document.rest is not None}
    findings = document_findings(path, data, document)
    if not archived:
        findings += _findings(path, data, session, records, now)
        findings += _duplicate_findings(path, records) if facts["twins"] else ()
    units = len(session.elements)
    return Document(path, tuple(records), tuple(findings), units, units - len(records), facts=facts)


def _header(native: NativeMemory, path: str) -> _Header:
    session = get_text(native, "session_id") or session_id_of(path)
    return _Header(session, parse_moment(native.get("timestamp")), parse_moment(native.get("last_updated")))


def memory_ids(path: str, data: bytes, session: Session) -> dict[Span, str]:
    """Return the id of each memory of a session, by its span."""
    memories = _memories(session)
    ids = _ids(memories, data, _header(session.native, path))
    return {span: identity for (_, span), identity in zip(memories, ids, strict=True)}


def _memories(session: Session) -> list[tuple[NativeMemory, Span]]:
    return [
        (native, span)
        for native, span in zip(session.native["memories"], session.elements, strict=True)
        if isinstance(native, dict)
    ]


def _ids(memories: Sequence[tuple[NativeMemory, Span]], data: bytes, header: _Header) -> list[str]:
    session = redact(header.session)
    bases = [f"{session}#{_id_name(_type(native), get_text(native, 'title'))}" for native, _ in memories]
    return unique_ids(bases, (span.of(data) for _, span in memories))


@lru_cache(maxsize=1024)
def _id_name(kind: str, title: str) -> str:
    """Return the second part of an id; cached, since each write to a session reads all of its titles."""
    return f"{redact(kind)}:{slug(redact(title))}"


def _records(session: Session, data: bytes, header: _Header, archived: bool) -> list[Record]:
    memories = _memories(session)
    ids = _ids(memories, data, header)
    return [
        Record(
            span,
            line,
            identity,
            _type(native),
            headline(get_text(native, "title"), 200),
            header.created,
            header.updated or header.created,
            tags(native),
            archived,
            native,
            {"session": header.session, "category": get_text(native, "category"), "confidence": confidence(native)},
            search_text(native),
            labels(native),
            weight(native),
        )
        for (native, span), identity, line in zip(
            memories, ids, line_numbers(data, [span for _, span in memories]), strict=True
        )
    ]


def _type(native: NativeMemory) -> str:
    return get_text(native, "type") or "unknown"


def _facts(header: _Header, records: Sequence[Record], path: str, *, now: float, mtime: float) -> JsonObject:
    """Return the facts of a session: `basis` is the time that its age counts from, `month` the archive it belongs to,
    `twins` the number of memories that share type and title with an earlier one."""
    stamps = [each for each in (header.created, header.updated) if each is not None]
    basis = stamps[-1] if stamps else mtime
    started = stamps[0] if stamps else _day(path, basis)
    keys = {duplicate_key(record.native) for record in records}
    by_type: dict[str, int] = {}
    for record in records:
        by_type[record.type] = by_type.get(record.type, 0) + 1
    return {
        "session": header.session,
        "basis": basis,
        "month": iso(started)[:7],
        "future": max(basis, started) > now + FUTURE_S,
        "twins": len(records) - len(keys),
        "by_type": by_type,
    }


def _day(path: str, default: float) -> float:
    """Return the time of the directory of a session; the default for any other path."""
    location = session_path(path)
    day = parse_moment(location.date) if location else None
    return default if day is None else day


def duplicate_key(native: NativeMemory) -> tuple[str, str]:
    """Return type and title as written, which duplicates must share (the seed's first condition)."""
    return get_text(native, "type"), get_text(native, "title")


def _findings(path: str, data: bytes, session: Session, records: Sequence[Record], now: float) -> Iterator[Finding]:
    for problem in check_session(session.native, path, now):
        yield Finding(problem.code, path, problem.message)
    if len({member.key for member in session.members}) < len(session.members):
        yield Finding("duplicate-key", path, "duplicate key in the session; the last value counts")
    by_start = {record.span.start: record for record in records}
    memories = zip(session.native["memories"], session.elements, line_numbers(data, session.elements), strict=True)
    for number, (native, span, line) in enumerate(memories):
        record = by_start.get(span.start)
        if record is None:
            yield Finding("invalid-schema", path, f"memories[{number}]: not an object; skipped and preserved", line)
            continue
        for problem in check_memory(native):
            yield Finding(problem.code, path, f"memories[{number}]: {problem.message}", line, record.id)


def _duplicate_findings(path: str, records: Sequence[Record]) -> Iterator[Finding]:
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault(duplicate_key(record.native), []).append(record)
    for group in groups.values():
        texts = [(record, get_text(record.native, "content")) for record in group] if len(group) > 1 else []
        tokenized = [(record, text, tokens(text)) for record, text in texts]
        for number, (record, text, words) in enumerate(tokenized):
            if any(same(text, words, other, other_words) for _, other, other_words in tokenized[:number]):
                message = "duplicate of an earlier memory in this session"
                yield Finding("duplicate-memory", path, message, record.line, record.id)


def search_text(native: NativeMemory) -> str:
    """Return the text of a memory besides its title: content, reasoning, source, and rejected alternatives."""
    texts = [get_text(native, key) for key in ("content", "reasoning", "source_chunk")]
    for each in _objects(native, "alternatives"):
        texts += (get_text(each, "option"), get_text(each, "why_not"))
    texts.append(get_text(native, "selected_option"))
    return "\n".join(filter(None, texts))


def tags(native: NativeMemory) -> tuple[str, ...]:
    """Return the tools and resolved entities of a memory; the layout has no other tags."""
    slugs = [get_text(each, "slug") for each in _objects(native, "related_entities")]
    return tuple(dict.fromkeys(filter(None, [*_texts(native, "tools_mentioned"), *slugs])))


def labels(native: NativeMemory) -> tuple[str, ...]:
    """Return category, entities as written and as resolved, tools, URLs and target agents."""
    values = [get_text(native, "category")]
    for each in _objects(native, "related_entities"):
        values += (get_text(each, "raw"), get_text(each, "slug"))
    for key in ("tools_mentioned", "urls_mentioned", "target_agents"):
        values += _texts(native, key)
    return tuple(dict.fromkeys(filter(None, values)))


def weight(native: NativeMemory) -> float | None:
    """Return the confidence as a fraction, None where it is not a number."""
    score = native.get("confidence_score")
    if isinstance(score, bool) or not isinstance(score, (int, float)):
        return None
    return min(max(confidence(native) / MAX_CONFIDENCE, 0.0), 1.0)


def _texts(native: NativeMemory, key: str) -> list[str]:
    values = native.get(key)
    return [replace_surrogates(each) for each in values if isinstance(each, str)] if isinstance(values, list) else []


def _objects(native: NativeMemory, key: str) -> list[NativeMemory]:
    values = native.get(key)
    return [each for each in values if isinstance(each, dict)] if isinstance(values, list) else []


def recognise(directory: Directory) -> str | None:
    """Return the evidence of the layout: the first session file. None if there is none."""
    return next(
        (f"{path} holds a session" for path in directory.first(names.session_path) if _fits(directory, path)), None
    )


def _fits(directory: Directory, path: str) -> bool:
    """Return True for a session of memories with type and title; a session without any must match its file name."""
    content, location = directory.json(path), names.session_path(path)
    if not isinstance(content, dict) or not isinstance(content.get("session_id"), str) or location is None:
        return False
    memories = content.get("memories")
    if not isinstance(memories, list):
        return False
    if not memories:
        return bool(content["session_id"] == location.session)
    return 2 * sum(map(_is_memory, memories)) > len(memories)


def _is_memory(native: object) -> bool:
    return isinstance(native, dict) and all(isinstance(native.get(key), str) for key in ("type", "title"))
