"""The ways to search that are compared: those of memoryd, plain BM25, MiniLM alone, and both of these fused."""

from __future__ import annotations

import hashlib
import re
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from memoryd.core.index import FileRow
from memoryd.core.query import Mode
from memoryd.core.records import Document, Record
from memoryd.core.secrets.detect import headline
from memoryd.core.spans import Fingerprint, Span
from memoryd.core.words import STOP_WORDS
from memoryd.index.sqlite import SqliteIndex
from memoryd.operations.search import SearchQuery, search
from memoryd.operations.search_scope import SearchRoot
from memoryd.search.embedding.embedder import Embedder
from memoryd.search.modes import SearchEngine
from memoryd.search.rerank import Reranker
from memoryd.search.semantic import SemanticSearch
from tests.bench.finding.material import DAY, NOW, Written

LIMIT = 20  # an answer further down counts as not found
FUSED = 60  # the constant of reciprocal rank fusion
BATCH = 64


class Found(NamedTuple):
    """One hit: the memory's name, its score, and what memoryd said about it."""

    name: str
    score: float
    said: dict[str, Any]


Arm = Callable[[str], list[Found]]


class Stored:
    """A root of these memories, with the vectors of an embedder."""

    def __init__(self, path: Path, written: Sequence[Written], embedder: Embedder, layout: str = "jsonl-store") -> None:
        self._engine = SearchEngine(SemanticSearch(embedder))
        self.catalogue = SqliteIndex(str(path))
        records = tuple(_record(number, each) for number, each in enumerate(written))
        row = FileRow("all.jsonl", "source", Fingerprint(1, 1, 1, 1, 1), "0", records=len(records))
        self.catalogue.replace(row, Document("all.jsonl", records))
        missing = self.catalogue.missing_vectors(embedder.name, 0, len(records))
        for at in range(0, len(missing), BATCH):
            some = missing[at : at + BATCH]
            vectors = embedder.embed([text for _, text in some])
            self.catalogue.put_vectors(
                embedder.name, [(key, vector) for (key, _), vector in zip(some, vectors, strict=True)]
            )
        self._root = SearchRoot("all", self.catalogue, layout, "ok", 1, 0)

    def arm(self, mode: Mode, reranker: Reranker | None = None) -> Arm:
        def ask(question: str) -> list[Found]:
            query = SearchQuery(question, mode=mode, limit=LIMIT)
            told = search([self._root], query, now=NOW, clock=time.monotonic, engine=self._engine, reranker=reranker)
            return [Found(hit.id, hit.score, {**hit.why, "confidence": hit.confidence}) for hit in told.hits]

        return ask

    def close(self) -> None:
        self.catalogue.close()


def _record(number: int, written: Written) -> Record:
    created = NOW - written.age * DAY
    return Record(
        Span(number, number + 1),
        number + 1,
        written.name,
        "note",
        headline(written.text),  # as three of the layouts have it
        created,
        None,
        written.tags,
        False,
        {},
        text=written.text,
        labels=written.labels,
        weight=written.importance,
        uses=written.uses,
    )


class PlainBm25:
    """FTS5 with Porter stems: any word of the question, best BM25 first."""

    def __init__(self, written: Sequence[Written]) -> None:
        self._names = [each.name for each in written]
        self._db = sqlite3.connect(":memory:")
        self._db.execute("CREATE VIRTUAL TABLE words USING fts5(text, tokenize = 'porter unicode61')")
        self._db.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", enumerate(each.text for each in written))

    def ask(self, question: str) -> list[Found]:
        words = re.findall(r"\w+", question.lower())
        telling = [word for word in words if word not in STOP_WORDS] or words
        given = " OR ".join(f'"{word}"' for word in telling), LIMIT
        rows = self._db.execute("SELECT rowid, -rank FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?", given)
        return [Found(self._names[row], score, {}) for row, score in rows]

    def close(self) -> None:
        self._db.close()


class KeptVectors:
    """An embedder whose vectors are kept in a directory between runs; a slow one is asked once for each text."""

    fast = False

    def __init__(self, embedder: Embedder, place: Path) -> None:
        self._embedder = embedder
        self._place = place / embedder.name
        self._place.mkdir(parents=True, exist_ok=True)
        self.name, self.size, self.calls, self.idle_s = embedder.name, embedder.size, 0, embedder.idle_s

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        places = [self._place / hashlib.sha256(text.encode()).hexdigest()[:32] for text in texts]
        missing = [number for number, place in enumerate(places) if not place.exists()]
        for number, vector in zip(missing, self._embedder.embed([texts[each] for each in missing]), strict=True):
            places[number].write_bytes(vector)
        return [place.read_bytes() for place in places]

    def release(self) -> None:
        self._embedder.release()


class PureCosine:
    """The cosine of whole texts and nothing else."""

    def __init__(self, written: Sequence[Written], embedder: Embedder) -> None:
        import numpy  # noqa: PLC0415 - as in memoryd, only where vectors are compared

        self._numpy, self._embedder = numpy, embedder
        self._names = [each.name for each in written]
        vectors = embedder.embed([each.text for each in written])
        self._rows = numpy.frombuffer(b"".join(vectors), "f4").reshape(len(written), -1)

    def ask(self, question: str) -> list[Found]:
        [vector] = self._embedder.embed([question])
        cosines = self._rows @ self._numpy.frombuffer(vector, "f4")
        best = self._numpy.argsort(-cosines, kind="stable")[:LIMIT]
        return [Found(self._names[row], float(cosines[row]), {}) for row in best]


def fused(*arms: Arm) -> Arm:
    """Fuse the rankings by reciprocal rank."""

    def ask(question: str) -> list[Found]:
        scores: dict[str, float] = defaultdict(float)
        for arm in arms:
            for rank, found in enumerate(arm(question), 1):
                scores[found.name] += 1 / (FUSED + rank)
        best = sorted(scores.items(), key=lambda each: -each[1])[:LIMIT]
        return [Found(name, score, {}) for name, score in best]

    return ask
