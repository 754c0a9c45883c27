"""Parsing of a user's document: its memories with their spans, embeddings, findings; and recognition of the layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from memoryd.core.dates import parse_stamp
from memoryd.core.findings import Finding
from memoryd.core.json_spans import (
    last_member,
)
from memoryd.core.records import FRESH_S, Document, FileStats, JsonObject, Record
from memoryd.core.secrets import redact_with_headline
from memoryd.core.spans import replace_surrogates, sha256
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
from memoryd.layouts.user_document.split import Element, ParsedDocument, parse_document, try_decode
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


def usable_embedding(data: bytes, item: Element, size: int) -> Vector | None:
    """Return the vector of an element if it is usable and of this length."""
    if item.embedding is None:
        return None
    embedding, vector = inspect_with_numbers(data, item.embedding)
    return vector if embedding_problem(embedding, size) is None else None


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
