"""The part of a user's document that changed since it was parsed, so that a change costs what changed.

A document is its head (up to the bracket of the list), its elements and its tail. Of each element only a digest is
kept. Elements whose bytes are where they were, counted from the start or from the end, are unchanged; what lies between
them is parsed, and so are the head and the tail, around an empty list. So every byte of the new content was either
parsed now or is known to be equal. Where anything is unusual (findings, equal memories, another order of fields) there
is no result, and the document is parsed whole.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from memoryd.core.digest import digest_of
from memoryd.core.findings import Finding
from memoryd.core.records import Document, DocumentChange, Piece, Pieces, Record, ReplacedRange
from memoryd.core.spans import Span
from memoryd.layouts.user_document import schema
from memoryd.layouts.user_document.parser import facts_of, memory_id, read_record, stamps_of, usable_embedding, user_of
from memoryd.layouts.user_document.split import parse_elements, parse_fast

WHOLE_FILE_CODES = ("many-memories",)
MIN_SIZE = 64 * 1024  # bytes; a smaller document is parsed as fast
_NUMBERED = re.compile(r"\.\d+\Z")  # the id of a memory that equals another one


def split_pieces(data: bytes, document: Document) -> Pieces | None:
    """Return the pieces of a document that was parsed whole; None where a later change could not be taken by itself."""
    records = document.records
    if len(data) < MIN_SIZE or not records or document.broken or document.pending:
        return None
    if any(finding.code not in WHOLE_FILE_CODES for finding in document.findings):
        return None
    head = data[: records[0].span.start].rstrip(b" \t\r\n")
    if not head.endswith(b"[") or any(_NUMBERED.search(record.id) for record in records):
        return None
    return Pieces(head, _pieces(data, len(head), records), len(data) - records[-1].span.end, document.facts)


def parse_change(path: str, data: bytes, before: Pieces) -> DocumentChange | None:
    """Return what changed in a document; None where it must be parsed whole."""
    if not data.startswith(before.head):
        return None
    ends = [*accumulate((each.size for each in before.pieces), initial=len(before.head))]
    tail = len(data) - before.tail_size
    first = _equal_at_start(data, before.pieces, ends)
    if tail < ends[first]:
        return None
    last = _equal_at_end(data, before.pieces, ends, first, tail - ends[-1])
    old, new = Span(ends[first], ends[last]), Span(ends[first], ends[last] + tail - ends[-1])
    stamps = _parse_around(before.head, data[tail:])
    added = _parse_between(path, data, new, before.facts["dimension"], follows=first > 0)
    if stamps is None or added is None or (first == 0 and not added):
        return None
    pieces = (*before.pieces[:first], *_pieces(data, new.start, added), *before.pieces[last:])
    if len({each.id for each in pieces}) < len(pieces):
        return None
    facts = facts_of(path, _types(before, first, last, added), before.facts["dimension"], stamps)
    findings = tuple(Finding(each.code, path, each.message) for each in schema.check_size(len(pieces)))
    document = Document(path, tuple(added), findings, len(pieces), 0, facts=facts)
    lines = sum(each.lines for each in before.pieces[first:last])
    replaced = ReplacedRange(old, lines, new.end - new.start, data.count(b"\n", new.start, new.end))
    return DocumentChange(replaced, document, Pieces(before.head, pieces, before.tail_size, facts), WHOLE_FILE_CODES)


def _pieces(data: bytes, at: int, records: Sequence[Record]) -> tuple[Piece, ...]:
    """Return the elements of these records, the first with what stands before it from `at` on."""
    found: list[Piece] = []
    for record in records:
        end = record.span.end
        lines = data.count(b"\n", at, end)
        found.append(Piece(end - at, digest_of(memoryview(data)[at:end]).digest(), lines, record.type, record.id))
        at = end
    return tuple(found)


def _is_at(data: bytes, piece: Piece, start: int) -> bool:
    return digest_of(memoryview(data)[start : start + piece.size]).digest() == piece.digest


def _equal_at_start(data: bytes, pieces: Sequence[Piece], ends: Sequence[int]) -> int:
    """Return how many pieces at the start are unchanged."""
    return next((n for n, piece in enumerate(pieces) if not _is_at(data, piece, ends[n])), len(pieces))


def _equal_at_end(data: bytes, pieces: Sequence[Piece], ends: Sequence[int], first: int, moved: int) -> int:
    """Return the number of the first unchanged piece at the end, which moved by so many bytes. It begins after the
    unchanged ones at the start, of which there are `first`."""
    for last in range(len(pieces), first, -1):
        start = ends[last - 1] + moved
        if start < ends[first] or not _is_at(data, pieces[last - 1], start):
            return last
    return first


def _parse_around(head: bytes, tail: bytes) -> list[object] | None:
    """Return the time stamps of a document without its elements; None if it is unusual."""
    around = parse_fast(head + tail)
    if around is None or around.array.start != len(head) - 1 or around.elements:
        return None
    if len({member.key for member in around.members}) < len(around.members):
        return None
    stamps = stamps_of(head + tail, around)
    return stamps if not [*schema.check_stamps(*stamps)] else None


def _parse_between(path: str, data: bytes, span: Span, dimension: int, *, follows: bool) -> list[Record] | None:
    """Return the memories in this part of the list, which exactly fill it; None if any of them is unusual. `follows`:
    there are unchanged ones before it."""
    items = parse_elements(data, span, follows=follows)
    if items is None:
        return None
    user, line, at = user_of(path), data.count(b"\n", 0, span.start) + 1, span.start
    records: list[Record] = []
    for item in items:
        line, at = line + data.count(b"\n", at, item.span.start), item.span.start
        embedding = usable_embedding(data, item, dimension)
        if embedding is None or [*schema.check_memory(item.native)]:
            return None
        records.append(read_record(item, user, line, memory_id(user, item.data.value.of(data)), embedding))
    return records


def _types(before: Pieces, first: int, last: int, added: Sequence[Record]) -> dict[str, int]:
    types: Counter[str] = Counter(before.facts["by_type"])
    types.subtract(each.type for each in before.pieces[first:last])
    types.update(each.type for each in added)
    return {name: count for name, count in types.items() if count}
