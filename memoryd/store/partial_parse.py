"""Parse only the lines of a file that contain the requested memories.

A rewrite reads the whole file but need not parse all of it: if its digest is that of the catalogue, every memory is
exactly where the catalogue says. Lines appended since are parsed as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from memoryd.core.index import FileRow, IndexReader
from memoryd.core.places import Place
from memoryd.core.records import Document, ParseOffset
from memoryd.core.spans import sha256
from memoryd.layouts.protocol import Layout, LoadedFile


class _LineRange(NamedTuple):
    """The bytes [start, end) of whole lines, of which `line` is the number of the first."""

    start: int
    end: int
    line: int


def partial_parse(
    layout: Layout, catalogue: IndexReader, path: str, loaded: LoadedFile, ids: Collection[str], now: float
) -> Document | None:
    """Parse the lines of a file that contain these memories, and those appended since it was indexed.

    The document has all of these memories, and is pending if the last line is half-written; other memories, findings
    and counts may be missing. Returns None if the whole file must be parsed.
    """
    row = catalogue.file(path) if layout.files.append_only else None
    data, wanted = loaded.data, frozenset(ids)
    if row is None or not (indexed_size := _indexed_size(row, loaded)):
        return None
    # A last line without a newline is always parsed: it may be half-written.
    tail = indexed_size if indexed_size < len(data) else data.rfind(b"\n") + 1
    places = [place for each in wanted for place in catalogue.places(each) if (place.path, place.id) == (path, each)]
    indexed = [place for place in places if place.start < tail]
    parts = [
        layout.reader.parse(path, data[start:end], now=now, mtime=loaded.mtime, base=ParseOffset(start, line))
        for start, end, line in (*_lines(data, indexed), _LineRange(tail, len(data), row.lines + 1))
        if start < end
    ]
    records = tuple(record for part in parts for record in part.records)
    parsed = sorted(
        (each.span.start, each.span.end) for each in records if each.span.start < tail and each.id in wanted
    )
    if parsed != sorted((place.start, place.end) for place in indexed):
        return None  # the file is not parsed line by line
    return Document(path, records, pending=any(part.pending for part in parts))


def _indexed_size(row: FileRow, loaded: LoadedFile) -> int:
    """Return how many bytes at the start of the file are indexed: all, those before appended lines, or none."""
    data, size = loaded.data, row.fingerprint.size
    if size == len(data):
        return size if loaded.digest == row.digest else 0
    may_have_grown = row.ends_with_newline and 0 < size < len(data)
    return size if may_have_grown and sha256(data[:size]) == row.digest else 0


def _lines(data: bytes, places: Sequence[Place]) -> Iterator[_LineRange]:
    """Return the lines that contain these memories, each once, in order."""
    starts = {data.rfind(b"\n", 0, each.start) + 1: each.line for each in places}
    return (_LineRange(start, data.find(b"\n", start) + 1, line) for start, line in sorted(starts.items()))
