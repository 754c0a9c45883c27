"""How long a search takes over the control socket, beside the same words asked of FTS5 directly."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import count, cycle, islice
from pathlib import Path
from typing import Any

from tests.bench import goals
from tests.bench.corpora import Corpus, generate
from tests.bench.floors import LIMIT, FtsTable, read_texts
from tests.bench.results import Row, row
from tests.bench.rig import READ_IN_S, Rig, running, timed
from tests.bench.store import SMALL, Place, Store
from tests.bench.wording import Wording

OTHER_ROOT = 10_000  # memories of the root that is indexed for the first time meanwhile


def questions(corpus: Corpus, seed: str) -> Iterator[str]:
    """Of four kinds in turn: a rare word, two or three frequent words, an exact phrase, a whole sentence."""
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


class Questions:
    """Asks one question after the other, none of them twice but rare words and phrases."""

    def __init__(self, corpus: Corpus, seed: str) -> None:
        self._root = corpus.layout
        self._users = sorted({each.user for each in corpus.planted if each.user is not None})
        self._questions = questions(corpus, seed)
        self._turn = count()

    def next(self) -> str:
        """Return the next question."""
        return next(self._questions)

    def ask(self, rig: Rig, mode: str, question: str | None = None) -> Any:
        """Ask the daemon; where users are kept apart, one of them in turn."""
        users = self._users
        whose = {"user": users[next(self._turn) % len(users)]} if users else {}
        asked = question or self.next()
        return rig.call("memory.search", query=asked, root=self._root, mode=mode, limit=LIMIT, **whose)


def search(store: Store) -> Iterator[Row]:
    """For needles, by words, and by words and meaning; a quarter as many questions come before and do not count."""
    with closing(_table(store.place / "search.sqlite", store.corpus)) as table:
        _ask_in_turn(store, table, "warm", store.effort.questions // 4)
        text, hybrid, floor = _ask_in_turn(store, table, "measured", store.effort.questions)
        needle, inside, needle_floor = _ask_for_needles(store, table, store.effort.questions)
    yield row(goals.SEARCH, "needle, in the daemon", store.layout, store.size, inside, floor=needle_floor)
    yield row(goals.SEARCH, "needle", store.layout, store.size, needle, floor=needle_floor)
    yield row(goals.SEARCH, "text", store.layout, store.size, text, floor=floor)
    yield row(goals.SEARCH, "hybrid", store.layout, store.size, hybrid, floor=floor)


def _ask_for_needles(store: Store, table: FtsTable, rounds: int) -> tuple[list[float], list[float], list[float]]:
    """Milliseconds of each question for what is in one memory alone, by words: over the socket, as the daemon says of
    its answer, and of FTS5 with the same words."""
    took, inside, floor, root = list[float](), list[float](), list[float](), store.corpus.layout
    needles = [
        (each.needle.query, {"user": each.user} if each.user is not None else {}) for each in store.corpus.planted
    ]
    random.Random("needle").shuffle(needles)
    for query, whose in islice(cycle(needles), rounds):
        floor.append(timed(partial(table.search, query)))
        began = time.perf_counter()
        answer = store.rig.call("memory.search", query=query, root=root, mode="text", limit=LIMIT, **whose)
        took.append((time.perf_counter() - began) * 1000)
        inside.append(answer["took_ms"])
    return took, inside, floor


def _ask_in_turn(store: Store, table: FtsTable, seed: str, rounds: int) -> tuple[list[float], list[float], list[float]]:
    """Milliseconds of each question by words, by words and meaning, and of FTS5 with the words of the first."""
    text, hybrid, floor, rig = list[float](), list[float](), list[float](), store.rig
    by_words, by_both = Questions(store.corpus, f"text {seed}"), Questions(store.corpus, f"hybrid {seed}")
    for _ in range(rounds):
        question = by_words.next()
        floor.append(timed(partial(table.search, question)))
        text.append(timed(partial(by_words.ask, rig, "text", question)))
        hybrid.append(timed(partial(by_both.ask, rig, "hybrid")))
    return text, hybrid, floor


def _table(place: Path, corpus: Corpus) -> FtsTable:
    place.unlink(missing_ok=True)
    table = FtsTable(place)
    table.insert(read_texts(corpus.layout, corpus.root))
    return table


def search_busy(place: Place) -> Iterator[Row]:
    """By words in one root, while another one of 10,000 files is indexed for the first time."""
    each = 1 if place.size < SMALL else None
    corpus = generate("jsonl-store", place.base / "root", place.size, each=each)
    other = generate("json-files", place.base / "other", min(OTHER_ROOT, place.effort.burst), each=each)
    took, floor, asked = list[float](), list[float](), Questions(corpus, "busy")
    with running(place.base / "daemon", corpus) as rig, closing(_table(place.base / "raw.sqlite", corpus)) as table:
        for _ in range(20):
            asked.ask(rig, "text")
        with ThreadPoolExecutor(1) as beside:
            adding = beside.submit(_add, rig, other)  # answered only when every file is indexed
            while not adding.done() or not took:
                question = asked.next()
                took.append(timed(partial(asked.ask, rig, "text", question)))
                floor.append(timed(partial(table.search, question)))
            adding.result()
    yield row(goals.SEARCH_BUSY, "text", corpus.layout, place.size, took, floor=floor)


def _add(rig: Rig, corpus: Corpus) -> None:
    """Add a root, on a connection of its own."""
    rig.daemon.rpc("root.add", timeout=READ_IN_S, path=str(corpus.root), name="other", layout=corpus.layout)
