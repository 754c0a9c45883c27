"""Memories in a catalogue of their own, asked through the operation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from msgspec import to_builtins

from memoryd.core.defaults import Policy
from memoryd.core.index import FileRow
from memoryd.core.query import Filters
from memoryd.core.records import Document, Record
from memoryd.core.spans import Fingerprint, Span
from memoryd.index.sqlite import SqliteIndex
from memoryd.operations.listing import list_memories
from memoryd.operations.search import SearchQuery, search
from memoryd.operations.search_scope import SearchRoot

NOW = 1_800_000_000.0
DAY = 86_400.0


def memory(identity: str, text: str, **more: Any) -> Record:
    """`age` in days, `title`, `type`, `tags`, `labels`, `archived`, `weight`, `uses`, `owner`."""
    age = more.pop("age", 1.0)
    return Record(
        Span(0, 1),
        more.pop("line", 1),
        identity,
        more.pop("type", "note"),
        more.pop("title", ""),
        None if age is None else NOW - age * DAY,
        None,
        tuple(more.pop("tags", ())),
        more.pop("archived", False),
        {},
        {},
        text=text,
        **more,
    )


class Stored:
    """One root. Memories that are put in one by one come in one after the other."""

    made: ClassVar[list[Stored]] = []

    def __init__(self, path: Path, layout: str = "jsonl-store", name: str = "root") -> None:
        self.catalogue = SqliteIndex(str(path))
        self.layout = layout
        self.name = name
        self.policy = Policy()
        self.state, self.lag_ms = "ok", 0
        self.unread: tuple[str, ...] = ()
        self.made.append(self)

    def put(self, *records: Record, path: str | None = None) -> None:
        for record in records:
            place = path or f"{record.id}.json"
            self.catalogue.replace(row_of(place), Document(place, (record,)))

    def texts(self, *texts: str) -> None:
        """Memories called m0, m1 and so on."""
        self.put(*(memory(f"m{number}", text) for number, text in enumerate(texts)))

    @property
    def place(self) -> SearchRoot:
        return SearchRoot(self.name, self.catalogue, self.layout, self.state, 3, self.lag_ms, self.policy, self.unread)

    def search(self, query: str, *, user: str | None = None, **filters: Any) -> dict[str, Any]:
        return search_all([self], query, user=user, **filters)

    def hits(self, query: str, **more: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.search(query, **more)["hits"]
        return found

    def ids(self, query: str, **more: Any) -> list[str]:
        return [hit["id"] for hit in self.hits(query, **more)]

    def listed(self, **filters: Any) -> list[str]:
        return [each.id for each in list_memories([self.place], Filters(**filters)).memories]

    def close(self) -> None:
        self.catalogue.close()


@contextmanager
def all_closed() -> Iterator[None]:
    """Whatever is made in the block."""
    before = len(Stored.made)
    try:
        yield
    finally:
        while len(Stored.made) > before:
            Stored.made.pop().close()


def row_of(path: str) -> FileRow:
    return FileRow(path, "source", Fingerprint(1, 1, 1, 1, 1), "0")


def search_all(roots: Iterable[Stored], query: str, *, user: str | None = None, **more: Any) -> dict[str, Any]:
    """`limit`, `mode` (text) and `max_tokens` are those of the question, the rest filters."""
    how = {name: more.pop(name) for name in ("limit", "max_tokens", "mode", "min_score") if name in more}
    asked = SearchQuery(query, Filters(**more), user=user, **{"mode": "text", **how})
    answer: dict[str, Any] = to_builtins(search([root.place for root in roots], asked, now=NOW, clock=lambda: 0.0))
    return answer
