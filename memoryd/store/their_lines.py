"""Of a file of lines only those are parsed that hold the memories asked for, where the catalogue knows which they are.

A file is read whole to be rewritten, but need not be understood whole for that: where its digest is the one that the
catalogue took in, every memory stands exactly where the catalogue says. What was appended since is parsed as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from memoryd.catalogue import Catalogue, FileRow, Place
from memoryd.core.digest import sha256
from memoryd.core.records import Base, Document
from memoryd.layouts.base import Layout, Loaded


class _Piece(NamedTuple):
    """Bytes [start, end), whole lines from this one on."""

    start: int
    end: int
    line: int


def their_lines(
    layout: Layout, catalogue: Catalogue, path: str, loaded: Loaded, ids: Collection[str], now: float
) -> Document | None:
    """All that parsing the whole would tell of these memories, and whether a writer is at work at its end. Further
    memories, findings and counts may be missing. None where only the whole can tell."""
    row = catalogue.file(path) if layout.appendable else None
    data, wanted = loaded.data, frozenset(ids)
    if row is None or not (known := _known_until(row, loaded)):
        return None
    # A last line that is not ended is always looked at: it may be half-written.
    tail = known if known < len(data) else data.rfind(b"\n") + 1
    places = [place for each in wanted for place in catalogue.places(each) if (place.path, place.id) == (path, each)]
    above = [place for place in places if place.start < tail]
    parts = [
        layout.parse(path, data[start:end], now=now, mtime=loaded.mtime, base=Base(start, line))
        for start, end, line in (*_lines(data, above), _Piece(tail, len(data), row.lines + 1))
        if start < end
    ]
    records = tuple(record for part in parts for record in part.records)
    told = sorted((each.span.start, each.span.end) for each in records if each.span.start < tail and each.id in wanted)
    if told != sorted((place.start, place.end) for place in above):
        return None  # it is read by other rules than line by line
    return Document(path, records, pending=any(part.pending for part in parts))


def _known_until(row: FileRow, loaded: Loaded) -> int:
    """How many bytes from its beginning the catalogue knows: all of them, those before further lines, or none."""
    data, size = loaded.data, row.fingerprint.size
    if size == len(data):
        return size if loaded.digest == row.digest else 0
    may_have_grown = row.whole and 0 < size < len(data)
    return size if may_have_grown and sha256(data[:size]) == row.digest else 0


def _lines(data: bytes, places: Sequence[Place]) -> Iterator[_Piece]:
    """The lines in which these stand, each once, from the first on."""
    starts = {data.rfind(b"\n", 0, each.start) + 1: each.line for each in places}
    return (_Piece(start, data.find(b"\n", start) + 1, line) for start, line in sorted(starts.items()))
