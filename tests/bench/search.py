"""How long a search takes over the control socket, beside the same words asked of SQLite directly.

    python -m tests.bench.search [--sizes 1000,10000] [--layouts jsonl-store] [--rounds 400] [--json]

A real daemon over a generated store, limits lifted, everything read in, nothing else to do. One client on one
connection asks one question after the other, none of them twice: a rare word, two or three words as frequent as
words are, an exact phrase, a whole sentence. A quarter as many others come before them and do not count (warm-up).
The raw query is the question that `text` is asked on an FTS5 table (`unicode61`) of the same texts, in a database of
its own, in this process: words joined by AND, `bm25`, ten rows with a snippet. What is compared is asked by turns.

Percentiles are of the nearest rank; times in milliseconds. Exits with 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path

from memoryd.core.records import ParseOffset
from memoryd.core.words import tokens
from memoryd.layouts.registry import LAYOUTS
from tests.bench.corpora import Corpus, generate
from tests.bench.latency import percentile
from tests.bench.needles import table
from tests.bench.rig import Rig, running, timed
from tests.bench.wording import Wording

TEXT_MS = {1_000: 1.0, 10_000: 3.0, 100_000: 10.0}
HYBRID_MS = 20.0  # at 100,000; so at fewer all the more
GET_MS = 2.0
TIMES = 10  # a p99 may be so many times the target of the p50
LIMIT = 10


@dataclass(frozen=True)
class Row:
    """`target` is for p50, None where none is set; `ratio` is p50 to that of the raw query."""

    layout: str
    memories: int
    what: str
    asked: int
    p50: float
    p99: float
    worst: float
    target: float | None
    ratio: float | None

    @property
    def missed(self) -> bool:
        return self.target is not None and (self.p50 > self.target or self.p99 > TIMES * self.target)


def questions(corpus: Corpus, seed: str) -> Iterator[str]:
    """Of four kinds in turn."""
    chance = random.Random(seed)
    wording = Wording(chance)
    made = [each.needle for each in corpus.planted]
    rare = [each.query for each in made if each.kind.startswith("rare word in")]
    phrases = [each.query for each in made if each.kind.startswith("phrase")]
    while True:
        yield chance.choice(rare)
        yield " ".join(wording.words(chance.randint(2, 3)))
        yield chance.choice(phrases)
        yield wording.sentence()


class Raw:
    """The same texts in a table of SQLite's own, with nothing around it."""

    def __init__(self, corpus: Corpus, place: Path) -> None:
        self._db = sqlite3.connect(place)
        self._db.execute("CREATE VIRTUAL TABLE raw USING fts5(title, labels, text)")
        with self._db:
            self._db.executemany("INSERT INTO raw VALUES (?,?,?)", _texts(corpus))

    def ask(self, question: str) -> list[tuple[str, ...]]:
        words = " AND ".join(f'"{word}"' for word in dict.fromkeys(tokens(question)))
        query = "SELECT rowid, title, snippet(raw, 2, '', '', '…', 20), bm25(raw) FROM raw WHERE raw MATCH ?"
        return self._db.execute(f"{query} ORDER BY bm25(raw) LIMIT {LIMIT}", (words,)).fetchall()

    def close(self) -> None:
        self._db.close()


def _texts(corpus: Corpus) -> Iterator[tuple[str, str, str]]:
    layout = LAYOUTS[corpus.layout]
    for path in sorted(path for path in corpus.root.rglob("*") if path.is_file()):
        name = path.relative_to(corpus.root).as_posix()
        if layout.reader.role(name).value != "source":
            continue
        for record in layout.reader.parse(name, path.read_bytes(), now=0.0, mtime=-60.0, base=ParseOffset()).records:
            yield record.title, " ".join((*record.labels, *record.tags)), record.text


class Asking:
    """What is measured, one after the other and again from the beginning."""

    def __init__(self, corpus: Corpus, rig: Rig, raw: Raw, seed: str) -> None:
        self._root, self._rig, self._raw = corpus.layout, rig, raw
        self._users = sorted({each.user for each in corpus.planted if each.user is not None})
        self._text, self._hybrid = questions(corpus, f"text {seed}"), questions(corpus, f"hybrid {seed}")
        self._ids = cycle(random.Random(seed).sample([each.id for each in corpus.planted], len(corpus.planted)))
        self._turn = 0
        self.took: dict[str, list[float]] = {}

    def turn(self) -> None:
        question, other, identity = next(self._text), next(self._hybrid), next(self._ids)
        self._turn += 1
        self._timed("raw fts5", lambda: self._raw.ask(question))
        self._timed("text", lambda: self._search(question, "text"))
        self._timed("hybrid", lambda: self._search(other, "hybrid"))
        self._timed("get", lambda: self._rig.call("memory.get", id=identity, root=self._root))
        self._timed("list", lambda: self._rig.call("memory.list", root=self._root, limit=LIMIT, **self._whose()))
        self._timed("ping", lambda: self._rig.call("ping"))

    def _timed(self, what: str, act: Callable[[], object]) -> None:
        self.took.setdefault(what, []).append(timed(act))

    def _search(self, question: str, mode: str) -> object:
        return self._rig.call("memory.search", query=question, root=self._root, mode=mode, limit=LIMIT, **self._whose())

    def _whose(self) -> dict[str, str]:
        return {"user": self._users[self._turn % len(self._users)]} if self._users else {}


def rows_of(corpus: Corpus, took: dict[str, list[float]]) -> list[Row]:
    targets = {
        "text": TEXT_MS.get(corpus.size),
        "hybrid": HYBRID_MS,
        "get": GET_MS,
    }
    base = percentile(took["raw fts5"], 50)
    return [
        Row(
            corpus.layout,
            corpus.size,
            what,
            len(times),
            round(percentile(times, 50), 2),
            round(percentile(times, 99), 2),
            round(max(times), 2),
            targets.get(what),
            round(percentile(times, 50) / base, 1) if what in ("text", "hybrid") else None,
        )
        for what, times in took.items()
    ]


def measured(layout: str, size: int, rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="memoryd-search-") as place:
        corpus = generate(layout, Path(place) / "root", size)
        with closing(Raw(corpus, Path(place) / "raw.sqlite")) as raw, running(Path(place) / "daemon", corpus) as rig:
            warm = Asking(corpus, rig, raw, "warm")
            for _ in range(rounds // 4):
                warm.turn()
            asking = Asking(corpus, rig, raw, "measured")
            for _ in range(rounds):
                asking.turn()
            print(f"{layout} {size}: read in within {rig.read_in_s:.1f} s", file=sys.stderr)
        return rows_of(corpus, asking.took)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--sizes", default="1000,10000", help="memories in the store, separated by commas")
    parser.add_argument("--layouts", default="jsonl-store", help="separated by commas")
    parser.add_argument("--rounds", type=int, default=400, help="times each thing is asked")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    wanted = parser.parse_args(argv)
    rows = [
        row
        for size in map(int, wanted.sizes.split(","))
        for layout in wanted.layouts.split(",")
        for row in measured(layout, size, wanted.rounds)
    ]
    print(json.dumps([asdict(row) for row in rows]) if wanted.json else table(rows))
    return 1 if any(row.missed for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
