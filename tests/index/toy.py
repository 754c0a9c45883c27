"""A second engine: an index in dictionaries, for the contract suite. As slow as it is small."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from operator import mul
from typing import Any, NamedTuple

from msgspec import structs

from memoryd.core.findings import Finding, FindingNews, NewFindings
from memoryd.core.index import (
    Before,
    FileChanges,
    FileRow,
    Identity,
    IndexReader,
    IndexWriter,
    Match,
    Memory,
    MonthCount,
    RoleTotals,
    Sample,
    identity,
)
from memoryd.core.places import ID_SUFFIX, Place, with_unique_ids
from memoryd.core.query import Filters, Term, TextQuery
from memoryd.core.records import Document, Entry, FileStats, ReplacedRange, Role
from memoryd.core.spans import Fingerprint, Span, replace_surrogates
from memoryd.core.text_match import pieces_in
from memoryd.core.vectors import agent_model, cosine, mean_share, pack_floats, unpack
from memoryd.core.words import tokens, whole_text
from memoryd.index.texts import Text, clean, content_digest, one_line, redacted, text_of
from tests.index.records import EVERYTHING

Codes = Sequence[str]
ANY_NUMBER = 2**62


class Item(NamedTuple):
    memory: Memory
    span: Span
    facts: Mapping[str, Any]

    def let_in(self, by: Filters) -> bool:
        m, late, tags = self.memory, by.until or 1e99, {redacted(one_line(tag)) for tag in by.tags}
        same = by.type in (None, m.type) and by.owner in (None, m.owner) and by.archived >= m.archived
        timely = {by.since, by.until} == {None} or (by.since or 0) <= (late if m.created is None else m.created) < late
        return timely and same and tags <= set(m.tags.split("\n") if m.tags else ())

    def has(self, term: Term) -> bool:
        m, end = self.memory, "" if term.prefix else " "
        texts = (m.title, f"{m.labels}\n{m.tags}", m.body)
        here = any(f" {term.text}{end}" in f" {' '.join(tokens(text))} " for text in texts)
        return here or any(map(self.has, map(Term, term.forms)))


def order(m: Memory | Before) -> tuple[float, str, int]:
    identity = "\U0010ffff" if getattr(m, "same", False) else m.id
    return (float("-inf") if m.created is None else m.created, identity, m.key)


def is_agent_model(model: str) -> bool:
    return model.startswith("own:")


def unchanged(row: FileRow, found: Fingerprint) -> bool:
    settled = row.digest and not (row.recently_modified or row.pending)
    return bool(settled) and row.fingerprint[:5] == found[:5]


def without_common(vector: Sequence[float], vectors: Sequence[Sequence[float]], share: float) -> list[float]:
    part = mean_share(share, len(vectors)) / (len(vectors) or 1)
    numbers = _unit(vector)
    for each in vectors:
        numbers = [number - part * other for number, other in zip(numbers, _unit(each), strict=True)]
    return numbers


def _unit(vector: Sequence[float]) -> list[float]:
    length = math.sqrt(sum(map(mul, vector, vector))) or 1.0
    return [number / length for number in vector]


@dataclass
class ToyIndex(IndexWriter):
    rows: dict[str, FileRow] = field(default_factory=dict)
    items: dict[int, Item] = field(default_factory=dict)  # by key
    found: dict[str, list[Finding]] = field(default_factory=dict)
    vectors: dict[int, tuple[str, bytes]] = field(default_factory=dict)
    last: int = 0  # key
    news: NewFindings = field(default_factory=NewFindings)

    def files(self) -> dict[str, FileRow]:
        return dict(self.rows)

    def entries(self, paths: Sequence[str]) -> Iterator[Entry]:
        for path in paths:
            yield from self.entries_from(path, 0)

    def entries_from(self, path: str, start: int) -> Iterator[Entry]:
        for m, span, facts in sorted((i for i in self.items.values() if i.memory.path == path), key=lambda i: i.span):
            if span.start >= start:
                yield Entry(path, m.line, m.id, m.type, m.archived, facts)

    def places(self, identity: str) -> list[Place]:
        asked, by_id = replace_surrogates(identity), dict[str, list[Place]]()
        for m, span, _ in self.items.values():
            r, at = self.rows[m.path], (span.start, span.end, m.line, m.id, m.archived)
            digest = content_digest(Text(m.title, m.tags, m.labels, m.body))
            place = Place(m.path, r.role, *at, r.fingerprint, r.digest, r.recently_modified, m.key, digest, m.id)
            by_id.setdefault(m.id, []).append(place)
        unique = [each for places in by_id.values() for each in with_unique_ids(places)]
        named = [each for each in unique if each.id == asked] or [each for each in unique if each.has_unique_id(asked)]
        begins = [each for each in unique if each.id.startswith(asked) and ID_SUFFIX.fullmatch(each.id, len(asked))]
        return named or begins

    def findings(self) -> list[Finding]:
        return [each for path in sorted(self.found) for each in sorted(self.found[path], key=lambda f: f.line or 0)]

    def newest(self, filters: Filters, limit: int, before: Before | None = None) -> list[Memory]:
        found = sorted((i.memory for i in self.items.values() if i.let_in(filters)), key=order, reverse=True)
        return [m for m in found if before is None or order(m) < order(before)][:limit]

    def months(self, filters: Filters) -> list[MonthCount]:
        counts: dict[str | None, list[int]] = {}
        for each in self.newest(filters, ANY_NUMBER):
            month = None if each.created is None else str(datetime.fromtimestamp(each.created, UTC))[:7]
            counts.setdefault(month, [0, 0])[each.archived] += 1
        return [MonthCount(month, *each) for month, each in counts.items()]

    def match(self, query: TextQuery, filters: Filters, limit: int) -> list[Match]:
        found, pieces = list[Match](), tuple(dict.fromkeys(term.text.casefold() for term in query.terms))
        for m, item in ((i.memory, i) for _, i in sorted(self.items.items(), reverse=True) if i.let_in(filters)):
            terms = query.terms or ((query.phrase,) if query.phrase is not None else ())
            hits: list[Any] = [term for term in dict.fromkeys(terms) if item.has(term)]
            if query.mode == "substring":
                hits = pieces_in(pieces, f"{m.title}\n{m.tags}\n{m.body}", whole_words=query.whole_words)
            if m.key not in query.without and hits and (query.mode != "all" or len(hits) == len(set(terms))):
                whole = query.mode == "all" and query.phrase is not None and item.has(query.phrase)
                part = min(len(hits) / len(query.scale or pieces or hits), 1.0)
                found.append(Match(m.key, part, "phrase" if whole else query.mode, m.created, m.weight, m.uses))
        found.sort(key=lambda each: query.mode != "substring" and (each.kind != "phrase", -each.score))
        return found[:limit]

    def vector(self, key: int) -> tuple[str, bytes] | None:
        return self.vectors.get(key)

    def take_new_findings(self) -> list[FindingNews]:
        return self.news.take()

    def reader(self) -> AbstractContextManager[IndexReader]:
        return nullcontext(replace(self))  # a change puts new dictionaries in the place of the old ones

    def _keys(self, path: str) -> set[int]:
        return {key for key, item in self.items.items() if item.memory.path == path}

    def replace(self, row: FileRow, document: Document) -> None:
        self._write(row, document, self._keys(row.path), None)

    def append(self, row: FileRow, tail: Document, *, recounted: Sequence[str] = ()) -> None:
        self._write(row, tail, set(), recounted)

    def replace_range(self, row: FileRow, changed: ReplacedRange, document: Document, *, recounted: Codes = ()) -> None:
        (start, end), n = (changed.span.start, changed.span.end), changed.new_lines - changed.lines
        by, here = changed.new_bytes - (end - start), [i for i in self.items.values() if i.memory.path == row.path]
        for m, s, facts in (item for item in here if item.span.start >= end):
            moved = structs.replace(m, line=m.line + n)
            self.items = {**self.items, m.key: Item(moved, Span(s.start + by, s.end + by), facts)}
        self._write(row, document, {i.memory.key for i in here if start <= i.span.start < end}, recounted)

    def _write(self, row: FileRow, document: Document, gone: Collection[int], recounted: Codes | None) -> None:
        """Put the records of the document in place of those that are `gone`; None: its findings too, whatever code."""
        free, vectors, new = {key: self.items[key].memory for key in gone}, dict(self.vectors), dict[int, Item]()
        for r in document.records:
            text, plain = text_of(r), replace_surrogates
            key = next((k for k, m in free.items() if (m.title, m.tags, m.labels, m.body) == text), self.last + 1)
            self.last, _ = max(self.last, key), free.pop(key, None)
            about = (redacted(r.type), text.title, r.created, r.archived, text.tags)
            memory = Memory(key, row.path, r.line, plain(r.id), *about, plain(r.owner), r.weight, r.uses, *text[2:])
            new[key] = Item(memory, r.span, clean(r.facts))
            if r.embedding is not None:
                vectors[key] = agent_model(len(r.embedding)), pack_floats(r.embedding)
            elif is_agent_model(vectors.get(key, ("", b""))[0]):
                del vectors[key]
        found = [structs.replace(each, message=redacted(each.message)) for each in document.findings]
        old = self.found.get(row.path, [])
        kept = [each for each in old if recounted is not None and each.code not in recounted]
        self.news.note(found, Counter((each.code, each.id) for each in old if each not in kept))
        self.found = {**self.found, row.path: [*kept, *found]}
        self.rows = {**self.rows, row.path: row._replace(facts=clean(row.facts))}
        self.items = {**{key: i for key, i in self.items.items() if key not in gone}, **new}
        self.vectors = {key: vector for key, vector in vectors.items() if key in self.items}

    def forget(self, path: str) -> None:
        if path in self.rows:
            self._write(self.rows[path], Document(path, ()), self._keys(path), None)
        self.rows = {each: row for each, row in self.rows.items() if each != path}

    def set_access(self, path: str, uses: Mapping[str, int]) -> None:
        for m, span, facts in (self.items[key] for key in self._keys(path)):
            self.items = {**self.items, m.key: Item(structs.replace(m, uses=uses.get(m.id, m.uses)), span, facts)}

    def put_vectors(self, model: str, rows: Sequence[tuple[int, bytes]]) -> None:
        own = {key for key, (name, _) in self.vectors.items() if is_agent_model(name)}
        self.vectors = {**self.vectors, **{k: (model, v) for k, v in rows if k in self.items and k not in own}}

    # --- what an engine would do faster

    def file(self, path: str) -> FileRow | None:
        return self.files().get(path)

    def compare(self, found: Mapping[str, Fingerprint]) -> FileChanges:
        known = self.files()
        changed = [path for path, row in known.items() if path in found and not unchanged(row, found[path])]
        missing = {path: row.records for path, row in known.items() if path not in found}
        new = [path for path in found if path not in known]
        return FileChanges(new, changed, missing, sum(row.records for row in known.values()))

    def summaries(self) -> Iterator[FileStats]:
        return (row.stats for row in self.files().values())

    def totals(self) -> tuple[int, int]:
        sizes = [each.size for each in self.summaries()]
        return len(sizes), sum(sizes)

    def totals_by_role(self) -> dict[str, RoleTotals]:
        found: dict[str, RoleTotals] = {}
        for each in self.summaries():
            before = found.get(each.role, RoleTotals(0, 0, 0))
            found[each.role] = RoleTotals(before.files + 1, before.records + each.records, before.size + each.size)
        return found

    def identities(self, path: str | None = None) -> list[Identity]:
        memories = self.newest(EVERYTHING, ANY_NUMBER)
        return [identity(each.id, each.title, each.body) for each in memories if path in (None, each.path)]

    def has_records(self) -> bool:
        return any(each.records for each in self.summaries())

    def live_count(self, path: str) -> int:
        return len({each.id for each in self.entries([path]) if not each.archived})

    def unique_ids(self, ids: Collection[str]) -> dict[int, str]:
        return {each.key: each.unique_id for id_ in {*ids} for each in self.places(id_) if each.is_shared}

    def also_archived(self) -> list[Place]:
        archives = [path for path, row in self.files().items() if row.role == Role.ARCHIVE]
        ids = dict.fromkeys(entry.id for entry in self.entries(archives))
        return sorted(place for each in ids for place in self.places(each) if place.live)

    def finding_counts(self, path: str | None = None) -> dict[tuple[str, str], int]:
        return dict(Counter((each.path, each.code) for each in self.findings() if path in (None, each.path)))

    @property
    def size(self) -> int:
        return len(self.newest(EVERYTHING, ANY_NUMBER))

    def memories(self, keys: Sequence[int]) -> dict[int, Memory]:
        known = {each.key: each for each in self.newest(EVERYTHING, ANY_NUMBER)}
        return {key: known[key] for key in keys if key in known}

    def owners(self) -> tuple[str, ...]:
        return tuple(sorted({each.owner for each in self.newest(EVERYTHING, ANY_NUMBER)}))

    def keys_of(self, identity: str, filters: Filters) -> list[int]:
        return [each.key for each in self.newest(filters, ANY_NUMBER) if each.id == replace_surrogates(identity)]

    def term_frequencies(self, terms: Sequence[Term]) -> list[int]:
        return [len(self.match(TextQuery((term,)), EVERYTHING, ANY_NUMBER)) for term in terms]

    def keys_with(self, terms: Sequence[Term], most: int) -> list[Collection[int] | None]:
        found = [{each.key for each in self.match(TextQuery((term,)), EVERYTHING, most + 1)} for term in terms]
        return [keys if len(keys) <= most else None for keys in found]

    def keys_with_label(self, terms: Sequence[Term], most: int) -> Collection[int] | None:
        found = self.keys_with(terms, most)
        return None if None in found else {key for keys in found for key in keys or ()}

    def vocabulary(self) -> str:
        every = self.newest(EVERYTHING, ANY_NUMBER)
        texts = ("\n".join((each.title, each.tags, each.labels, each.body)) for each in every)
        return "\n".join(("", *dict.fromkeys(word for text in texts for word in tokens(text)), ""))

    def words_beginning(self, start: str, end: str = "") -> list[str]:
        words = self.vocabulary().split("\n")
        return sorted(word for word in words if word.startswith(start) and word.endswith(end))

    def known_words(self, words: Sequence[str]) -> list[str]:
        return [word for word in words if word in self.words_beginning(word)[:1]]

    def nearest(
        self,
        vector: Sequence[float],
        model: str,
        filters: Filters,
        limit: int,
        also: Collection[int] = (),
        *,
        less_common: float = 0.0,
    ) -> dict[int, float] | None:
        found = [(each.key, self.vector(each.key)) for each in self.newest(EVERYTHING, ANY_NUMBER)]
        vectors = {
            key: unpack(stored[1], len(vector)) for key, stored in found if stored is not None and stored[0] == model
        }
        if less_common:
            vector = without_common(vector, list(vectors.values()), less_common)
        cosines = {key: cosine(vector, each) for key, each in vectors.items()}
        allowed = [each.key for each in self.newest(filters, ANY_NUMBER) if each.key in cosines]
        best = sorted(allowed, key=lambda key: (-cosines[key], -key))[:limit]
        more = [key for key in also if key in cosines and key not in best]
        return {key: cosines[key] for key in (*best, *more)} if cosines else None

    def vector_samples(self, owner: str | None, limit: int) -> list[Sample]:
        owned = [each for each in self.newest(EVERYTHING, ANY_NUMBER) if each.owner and owner in (None, each.owner)]
        stored = [(each, vector) for each in owned if (vector := self.vector(each.key)) and is_agent_model(vector[0])]
        return [Sample(each.key, *vector, each.body or each.title) for each, vector in stored[:limit]]

    def close(self) -> None:
        self.release_idle(math.inf)

    def batch(self) -> AbstractContextManager[None]:
        return nullcontext()

    def add(self, files: Sequence[tuple[FileRow, Document]]) -> None:
        for row, document in files:
            self.replace(row, document)

    def restamp(self, row: FileRow) -> None:
        self.append(row, Document(row.path, ()))

    def clear(self) -> None:
        for path in self.files():
            self.forget(path)

    def take_changes(self) -> Mapping[str, int] | None:
        return None

    def missing_vectors(self, model: str, after: int, limit: int) -> list[tuple[int, str]]:
        lacking = [
            (each.key, whole_text(each.title, each.body))
            for each in self.newest(EVERYTHING, ANY_NUMBER)
            if each.key > after
            and not ((vector := self.vector(each.key)) and (vector[0] == model or is_agent_model(vector[0])))
        ]
        return sorted(lacking)[:limit]

    @property
    def can_tidy(self) -> bool:
        return False

    def tidy(self) -> bool:
        return False

    def release_idle(self, now: float) -> None:
        del now  # nothing to release
