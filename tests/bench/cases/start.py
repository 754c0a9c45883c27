"""Starts of the daemon: with no state, on a store it knows; and the memory it needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from tests.bench import goals
from tests.bench.cases.search import Questions
from tests.bench.floors import FtsTable, read_texts, scan
from tests.bench.process import bare_interpreter_mb, resident_mb
from tests.bench.results import Row, row
from tests.bench.rig import timed
from tests.bench.store import SINGLE_START, Store

IN_USE = 60  # questions by words and meaning after which memory counts as in use


def first_index(store: Store) -> Iterator[Row]:
    """From the start of the process without any state until needles are found, and until every root is ready."""
    floor = _index_floor(store)
    starts = 1 if store.size > SINGLE_START else store.effort.starts
    found = [*store.first[:1]]
    while len(found) < starts:
        found.append(store.start(new=True))
    seconds = [_index_floor(store), floor]
    searchable, ready = [each.searchable_s for each in found], [each.ready_s for each in found]
    yield row(goals.FIRST_INDEX, "searchable", store.layout, store.size, searchable, floor=seconds, unit="s")
    yield row(goals.FIRST_INDEX, "ready", store.layout, store.size, ready, floor=seconds, unit="s")


def _index_floor(store: Store) -> float:
    """Seconds to read and parse everything and insert it into a new FTS5 table."""
    place = store.place / "floor.sqlite"
    place.unlink(missing_ok=True)
    with closing(FtsTable(place)) as table:
        return timed(lambda: table.insert(read_texts(store.layout, store.corpus.root))) / 1000


def known_start(store: Store) -> Iterator[Row]:
    """From the start of the process with the state of the last run, nothing changed; and the first question by words
    and meaning after it."""
    store.rig  # noqa: B018 - there must have been a run
    questions = Questions(store.corpus, "first question")
    searchable, ready, scans, first = list[float](), list[float](), list[float](), list[float]()
    for _ in range(store.effort.starts):
        found = store.start(new=False)
        searchable.append(found.searchable_s)
        ready.append(found.ready_s)
        scans.append(timed(lambda: scan(store.corpus.root)) / 1000)
        first.append(timed(lambda: questions.ask(store.rig, "hybrid")))
    yield row(goals.KNOWN_START, "searchable", store.layout, store.size, searchable, floor=scans, unit="s")
    yield row(goals.KNOWN_START, "ready", store.layout, store.size, ready, floor=scans, unit="s")
    yield row(goals.KNOWN_START, "first hybrid question", store.layout, store.size, first)


def memory(store: Store) -> Iterator[Row]:
    """Resident: after the first index, at its highest until then, after a start on a known store, and in use."""
    store.rig  # noqa: B018 - the first index
    known = store.start(new=False)
    questions = Questions(store.corpus, "memory")
    for _ in range(IN_USE):
        questions.ask(store.rig, "hybrid")
        questions.ask(store.rig, "text")
    in_use = resident_mb(store.rig.daemon.pid)[0]
    floor = [bare_interpreter_mb()]
    values = {
        "first index": [each.resident_mb for each in store.first],
        "peak of the first index": [each.peak_mb for each in store.first],
        "known start": [known.resident_mb],
        "in use": [in_use],
    }
    for variant, found in values.items():
        yield row(goals.MEMORY, variant, store.layout, store.size, found, floor=floor, unit="MB")
