"""Records for tests of an index."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from memoryd.core.findings import Finding
from memoryd.core.index import FileRow, IndexReader, IndexWriter
from memoryd.core.query import Filters, Term, TextQuery
from memoryd.core.records import Document, Record
from memoryd.core.spans import Fingerprint, Span

EVERYTHING = Filters(archived=True)


def record(number: int, text: str = "", **more: Any) -> Record:
    """Memory `m<number>` on line `number + 1`, ten bytes a line; fields of a record by their names."""
    known: dict[str, Any] = {"type": "note", "title": "", "created": None, "used": None, "tags": (), "archived": False}
    return Record(
        span=Span(number * 10, number * 10 + 9),
        line=number + 1,
        id=more.pop("id", f"m{number}"),
        native={},
        text=text,
        **{**known, **more},
    )


def row(path: str, records: int = 0, **more: Any) -> FileRow:
    """A source file of 100 bytes."""
    return FileRow(path, "source", Fingerprint(1, 1, 100, 1, 1), "0", records=records, **more)


def put(index: IndexWriter, path: str, *records: Record, findings: Iterable[Finding] = ()) -> None:
    """The file at `path` has these memories and no others."""
    index.replace(row(path, len(records)), Document(path, records, tuple(findings)))


def put_texts(index: IndexWriter, path: str, *texts: str) -> None:
    """The file at `path` has a memory for each of these texts."""
    put(index, path, *(record(number, text) for number, text in enumerate(texts)))


def found(reader: IndexReader, query: TextQuery | str, filters: Filters = EVERYTHING, limit: int = 100) -> list[str]:
    """`path#id` of what a query finds (a text: of one term), in the order of the index."""
    asked = TextQuery((Term(query),)) if isinstance(query, str) else query
    keys = [match.key for match in reader.match(asked, filters, limit)]
    return [f"{each.path}#{each.id}" for each in reader.memories(keys).values()]


def keys(reader: IndexReader, filters: Filters = EVERYTHING) -> dict[str, int]:
    """The key of each memory by its text."""
    return {each.body: each.key for each in reader.newest(filters, 10_000)}
