"""Parsing of a user's document: its memories with their spans, embeddings, findings; and recognition of the layout.

A document in the form that the real program writes is split in one pass of the strict parser, which yields the length
of each value. Anything unusual (another order of fields, repeated keys, elements that are not memories, syntax that
only Python's parser accepts) is split value by value, with the same result.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from memoryd.core.dates import parse_stamp
from memoryd.core.findings import Finding
from memoryd.core.json_spans import (
    DocumentSpan,
    Member,
    decode,
    elements,
    find_document,
    is_utf8,
    last_member,
    members,
    skip_space,
    text_bounds,
    value_end,
)
from memoryd.core.records import FRESH_S, Document, FileStats, JsonObject, NativeMemory, Record
from memoryd.core.secrets import redact_with_headline
from memoryd.core.spans import Span, replace_surrogates, sha256
from memoryd.layouts.directory import Directory
from memoryd.layouts.json_document import document_findings, get_text, unreadable
from memoryd.layouts.user_document import schema
from memoryd.layouts.user_document.embeddings import (
    ABSENT,
    Embedding,
    Vector,
    common_size,
    decode_vector,
    embedding_problem,
    inspect_with_numbers,
)
from memoryd.layouts.validation import Problem

FILE = "__long-memories/data.json"
STAMPS = ("updated_at", "last_deduplicated_at")


class _Source(NamedTuple):
    """A document being parsed. `embeddings` are by the number of their element, with the vector where it is decoded
    already; `common` is the length that most of them have."""

    path: str
    data: bytes
    parsed: ParsedDocument
    embeddings: Mapping[int, tuple[Embedding, Vector | None]]
    common: int


def user_of(path: str) -> str:
    """Return the user of a document: the path before `__long-memories/`, "" for the root itself."""
    return path.removesuffix(FILE).rstrip("/")


def parse(path: str, data: bytes, *, now: float, mtime: float) -> Document:
    """Parse a user's document. Never raises."""
    document, parsed = parse_document(data)
    if document.value is None:
        return unreadable(path, document, "corrupt-file", now=now, mtime=mtime)
    if document.rest is not None and (parsed is None or abs(now - mtime) < FRESH_S):
        why = "other bytes follow the document"
        return unreadable(path, document._replace(problem=why), "corrupt-file", now=now, mtime=mtime)
    if parsed is None:
        message = "not an object with a list of memories; the program would overwrite it with an empty one"
        return Document(path, (), (Finding("wrong-shape", path, message),), 1, 1)
    embeddings = {n: _embedding(data, item) for n, item in enumerate(parsed.items) if item is not None}
    source = _Source(path, data, parsed, embeddings, common_size(each.size for each, _ in embeddings.values()))
    records = list(_records(source))
    stamps = stamps_of(data, parsed)
    findings = [*document_findings(path, data, document), *_findings(source, records, stamps)]
    types = dict(Counter(record.type for record in records))
    facts = facts_of(path, types, source.common, stamps, damaged=document.rest is not None)
    units = len(parsed.elements)
    return Document(path, tuple(records), tuple(findings), units, units - len(records), facts=facts)


def _embedding(data: bytes, item: Element) -> tuple[Embedding, Vector | None]:
    return inspect_with_numbers(data, item.embedding) if item.embedding is not None else (ABSENT, None)


def stamps_of(data: bytes, parsed: ParsedDocument) -> list[object]:
    """Return `updated_at` and `last_deduplicated_at` as written, None where missing."""
    stamps = (last_member(parsed.members, key) for key in STAMPS)
    return [try_decode(member.value.of(data)) if member else None for member in stamps]


def _records(source: _Source) -> Iterator[Record]:
    user, data = user_of(source.path), source.data
    uses: Counter[str] = Counter()
    line, at = 1, 0
    for number, item in enumerate(source.parsed.items):
        if item is None:
            continue
        line, at = line + data.count(b"\n", at, item.span.start), item.span.start
        identity = _id(user, item.data.value.of(data), uses)
        yield read_record(item, user, line, identity, _vector(source, item, *source.embeddings[number]))


def _vector(source: _Source, item: Element, embedding: Embedding, decoded: Vector | None) -> Vector | None:
    """Return the vector, or None if it is not usable."""
    if item.embedding is None or embedding_problem(embedding, source.common) is not None:
        return None
    return decoded if decoded is not None else decode_vector(item.embedding.of(source.data))


def read_record(item: Element, user: str, line: int, identity: str, embedding: Vector | None) -> Record:
    """Return the record of an element that is a memory."""
    native = item.native
    category, topics = (
        get_text(native, "category") or schema.CATEGORY,
        tuple(map(replace_surrogates, schema.topics(native))),
    )
    level, (title, body) = schema.importance(native), redact_with_headline(native["content"])
    facts = {
        "user": user,
        "number": schema.numeric_id(native),
        "importance": level,
        "embedding": len(embedding) if embedding is not None else 0,
    }
    return Record(
        item.span,
        line,
        identity,
        category,
        replace_surrogates(title),
        schema.created(native),
        None,
        topics,
        False,
        native,
        facts,
        text=replace_surrogates(body),
        labels=(category, *topics),
        weight=level,
        owner=replace_surrogates(user),
        embedding=embedding,
    )


def _id(user: str, text: bytes, uses: Counter[str]) -> str:
    identity = memory_id(user, text)
    uses[identity] += 1
    return numbered_id(identity, uses[identity])


def memory_id(user: str, text: bytes) -> str:
    """Return `user/<hash of the data's bytes>`, which does not depend on the position of the memory."""
    digest = content_digest(text)
    return replace_surrogates(f"{user}/{digest}" if user else digest)


def content_digest(text: bytes) -> str:
    """Return the first twelve hex digits of the hash of a memory's data."""
    return sha256(text)[:12]


def numbered_id(identity: str, number: int) -> str:
    """Return the id of the memory with this number among equal ones: the second gets `.2`, the third `.3`."""
    return identity if number == 1 else f"{identity}.{number}"


def _findings(source: _Source, records: Sequence[Record], stamps: Sequence[object]) -> Iterator[Finding]:
    path, data, parsed = source.path, source.data, source.parsed
    for problem in (*schema.check_stamps(*stamps), *schema.check_size(len(parsed.elements))):
        yield Finding(problem.code, path, problem.message)
    if len({member.key for member in parsed.members}) < len(parsed.members):
        yield Finding("duplicate-key", path, "duplicate key in the document; the last value counts")
    for number, reason in parsed.reasons.items():
        line = data.count(b"\n", 0, parsed.elements[number].start) + 1
        yield Finding("invalid-schema", path, f"memories[{number}]: {reason}; skipped and preserved", line)
    remaining = iter(records)
    for number, item in enumerate(parsed.items):
        if item is not None:
            yield from _memory_findings(
                path, number, item, next(remaining), embedding_problem(source.embeddings[number][0], source.common)
            )


def _memory_findings(
    path: str, number: int, item: Element, record: Record, vector: Problem | None
) -> Iterator[Finding]:
    problems = [*schema.check_memory(item.native), *([vector] if vector else [])]
    for problem in problems:
        yield Finding(problem.code, path, f"memories[{number}]: {problem.message}", record.line, record.id)


def facts_of(
    path: str, by_type: dict[str, int], common: int, stamps: Sequence[object], *, damaged: bool = False
) -> JsonObject:
    """Return the facts of a document: `common` is the length of most embeddings."""
    updated, deduplicated = (parse_stamp(each) for each in stamps)
    return {
        "user": user_of(path),
        "dimension": common,
        "updated": updated.seconds if updated else None,
        "deduplicated": deduplicated.seconds if deduplicated else None,
        "by_type": by_type,
        "damaged": damaged,
    }


_SPACE = rb"[ \t\r\n]*+"
_HEAD = re.compile(rb"\{%b(\"data\")%b:%b" % (_SPACE, _SPACE, _SPACE))
_JOINT = re.compile(rb"%b,%b\"embedding\"%b:%b" % (_SPACE, _SPACE, _SPACE, _SPACE))
_END = re.compile(rb"%b\}" % _SPACE)
_BETWEEN = re.compile(rb"%b,%b" % (_SPACE, _SPACE))


class Element(NamedTuple):
    """One element of `memories`: the spans of the element, its data and its embedding, and the data as an object."""

    span: Span
    data: Member
    embedding: Span | None
    native: NativeMemory


class ParsedDocument(NamedTuple):
    """A document split into parts. An element that is not a memory is None in `items`, with a reason."""

    value: Span
    members: list[Member]
    array: Span
    elements: list[Span]
    items: list[Element | None]
    reasons: dict[int, str]


class _Array(NamedTuple):
    """The list of memories: the last four fields of `ParsedDocument`."""

    span: Span
    elements: list[Span]
    items: list[Element | None]
    reasons: dict[int, str]


class _Element(msgspec.Struct, gc=False):
    data: msgspec.Raw
    embedding: msgspec.Raw = msgspec.Raw()


class _Document(msgspec.Struct, gc=False):
    memories: list[_Element]


_decode = msgspec.json.Decoder(_Document).decode
_decode_list = msgspec.json.Decoder(list[_Element]).decode


def parse_document(data: bytes) -> tuple[DocumentSpan, ParsedDocument | None]:
    """Return the span of the document and its parts; None where it is not an object with a list of memories."""
    parsed = parse_fast(data)
    if parsed is not None:
        return DocumentSpan(parsed.value), parsed
    document = find_document(data)
    return document, split_document(data, document.value) if document.value is not None else None


def parse_sound_document(data: bytes) -> ParsedDocument | None:
    """Return the parts of a file that is one sound document and nothing else, else None."""
    document, parsed = parse_document(data)
    return parsed if document.rest is None else None


# --- one pass


def parse_fast(data: bytes) -> ParsedDocument | None:
    """Return the parts of a document, None where the file is not strict JSON in the form of the program."""
    value = Span(*text_bounds(data))
    try:
        decoded = _decode(memoryview(data)[value.start : value.end])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not is_utf8(data):  # the parser does not check what it skips
        return None
    present: list[Member] = []
    array: _Array | None = None
    at = skip_space(data, value.start + 1)
    while data[at : at + 1] == b'"':
        colon = value_end(data, at)
        key, start = data[at + 1 : colon - 1], skip_space(data, skip_space(data, colon) + 1)
        parsed_array = _parse_array(data, start, decoded.memories) if key == b"memories" else None
        if b"\\" in key or (parsed_array is None and key == b"memories"):
            return None
        array = parsed_array or array
        end = parsed_array.span.end if parsed_array is not None else value_end(data, start)
        present.append(Member(key.decode(), at, Span(start, end)))
        at = _skip_comma(data, end)
    return ParsedDocument(value, present, *array) if array is not None else None


def _parse_array(data: bytes, start: int, decoded: list[_Element]) -> _Array | None:
    spans: list[Span] = []
    items: list[Element | None] = []
    reasons: dict[int, str] = {}
    at = skip_space(data, start + 1)
    for number, each in enumerate(decoded):
        item = _parse_element(data, at, each)
        if item is None:
            return None
        spans.append(item.span)
        items.append(_check_element(item, number, reasons))
        at = _skip_comma(data, item.span.end)
    at = skip_space(data, at)
    return _Array(Span(start, at + 1), spans, items, reasons) if data[at : at + 1] == b"]" else None


def parse_elements(data: bytes, span: Span, *, follows: bool) -> list[Element] | None:
    """Return the elements that fill this part of a list, with a comma before the first if it `follows` others; None
    where they do not, or are not strict JSON in the form of the program."""
    if span.start == span.end:
        return []
    at = _skip_comma(data, span.start) if follows else skip_space(data, span.start)
    text = data[at : span.end]
    try:
        decoded = _decode_list(b"[%b]" % text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if (follows and at == span.start) or not decoded or not is_utf8(text):
        return None
    found: list[Element] = []
    for each in decoded:
        item = _parse_element(data, _skip_comma(data, found[-1].span.end) if found else at, each)
        if item is None or schema.unusable_reason(item.native) is not None:
            return None
        found.append(item)
    return found if found[-1].span.end == span.end else None


def usable_embedding(data: bytes, item: Element, size: int) -> Vector | None:
    """Return the vector of an element if it is usable and of this length."""
    if item.embedding is None:
        return None
    embedding, vector = inspect_with_numbers(data, item.embedding)
    return vector if embedding_problem(embedding, size) is None else None


def _parse_element(data: bytes, at: int, decoded: _Element) -> Element | None:
    """Split an element, whose values must be where the form has them: of a repeated key the parser returns the last."""
    head = _HEAD.match(data, at)
    text, vector = bytes(decoded.data), bytes(decoded.embedding)
    if head is None or not data.startswith(text, head.end()):
        return None
    inner, embedding = Span(head.end(), head.end() + len(text)), None
    end = inner.end
    if vector:
        separator = _JOINT.match(data, end)
        if separator is None or not data.startswith(vector, separator.end()):
            return None
        end = separator.end() + len(vector)
        embedding = Span(separator.end(), end)
    tail = _END.match(data, end)
    if tail is None:
        return None
    return Element(Span(at, tail.end()), Member("data", head.start(1), inner), embedding, try_decode(text))


def _skip_comma(data: bytes, at: int) -> int:
    match = _BETWEEN.match(data, at)
    return match.end() if match is not None else at


# --- value by value


def split_document(data: bytes, value: Span) -> ParsedDocument | None:
    """Return the parts, None where the value is not an object with a list of memories."""
    if data[value.start : value.start + 1] != b"{":
        return None
    parts = members(data, value.start, value.end)
    array = last_member(parts, "memories")
    if array is None or data[array.value.start : array.value.start + 1] != b"[":
        return None
    spans = elements(data, array.value)
    reasons: dict[int, str] = {}
    items = [_read_element(data, span, number, reasons) for number, span in enumerate(spans)]
    return ParsedDocument(value, parts, array.value, spans, items, reasons)


def _read_element(data: bytes, span: Span, number: int, reasons: dict[int, str]) -> Element | None:
    if data[span.start : span.start + 1] != b"{":
        reasons[number] = "not an object"
        return None
    parts = members(data, span.start, span.end)
    inner, embedding = last_member(parts, "data"), last_member(parts, "embedding")
    if inner is None:
        reasons[number] = "data: missing"
        return None
    native = try_decode(inner.value.of(data))
    return _check_element(Element(span, inner, embedding.value if embedding else None, native), number, reasons)


def _check_element(item: Element, number: int, reasons: dict[int, str]) -> Element | None:
    reason = schema.unusable_reason(item.native)
    if reason is not None:
        reasons[number] = reason
    return item if reason is None else None


def try_decode(text: bytes) -> Any:
    """Return the JSON value of `text`, or None if it cannot be decoded."""
    try:
        return decode(text)
    except (ValueError, RecursionError):  # a number out of range
        return None


def recognise(directory: Directory) -> str | None:
    """Return the evidence of the layout: the first document with a list of memories. None if there is none."""
    for path in directory.first(lambda path: f"/{path}".endswith(f"/{FILE}")):
        content = directory.json(path)
        if isinstance(content, dict) and isinstance(content.get("memories"), list):
            return f"{path} has a list of memories"
    return None


def shrink_alarm(before: FileStats | None, after: FileStats) -> Finding | None:
    """Return a finding if more than half of the memories disappeared between two readable versions, else None."""
    if before is None or before.records == 0 or "damaged" not in after.facts:
        return None
    lost = before.records - after.records
    if lost * 2 <= before.records:
        return None
    message = (
        f"{before.records} memories became {after.records} between two versions; "
        "if this was not intended, restore one of `memoryd backup list`"
    )
    return Finding("shrunk", after.path, message)
