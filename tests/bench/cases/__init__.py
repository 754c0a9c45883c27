"""The cases of the benchmark, in the order in which they run on a store: what changes nothing comes first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tests.bench import goals
from tests.bench.agent_writes import INDEX_FILES
from tests.bench.cases import freshness, idle, load, search, start, store
from tests.bench.corpora import WRITTEN
from tests.bench.results import Row
from tests.bench.store import Place, Store


class StoreCase(NamedTuple):
    """A case that is run on the store of each layout and size; all of them share its daemon. `about` says what is
    measured beside which floor."""

    name: str
    about: str
    run: Callable[[Store], Iterator[Row]]
    layouts: tuple[str, ...] = tuple(WRITTEN)


class StoresCase(NamedTuple):
    """A case that is run on the stores of all sizes of a layout at once, so that its growth can be told from a machine
    that is faster at one time than at another."""

    name: str
    about: str
    run: Callable[[Sequence[Store]], Iterator[Row]]
    layouts: tuple[str, ...] = tuple(WRITTEN)


class PlaceCase(NamedTuple):
    """A case with roots and a daemon of its own, run once at each size."""

    name: str
    about: str
    run: Callable[[Place], Iterator[Row]]


Case = StoreCase | StoresCase | PlaceCase

CASES: tuple[Case, ...] = (
    StoreCase(goals.FIRST_INDEX, "process start to searchable; read + parse + FTS5", start.first_index),
    StoreCase(goals.KNOWN_START, "process start, nothing changed; scandir + stat", start.known_start),
    StoreCase(goals.SEARCH, "one question on the socket; FTS5 query", search.search),
    StoreCase(goals.MEMORY, "resident; bare interpreter", start.memory),
    StoresCase(
        goals.SEARCHABLE,
        "file closed to found by search, sizes by turns; event + read + parse + FTS5",
        freshness.searchable,
    ),
    StoreCase(
        goals.INDEX_FILE,
        "file closed to index file; write + fsync of it",
        freshness.index_file,
        (*INDEX_FILES,),
    ),
    StoresCase(
        goals.SYNC,
        "the call, sizes by turns; event + read + parse + FTS5 (+ its index file), or ping",
        freshness.sync,
    ),
    StoreCase(goals.STORE, "durable, by the socket; write + fsync", store.store),
    PlaceCase(goals.SEARCH_BUSY, "while another root is indexed; FTS5 query", search.search_busy),
    PlaceCase(goals.BURST, "4 writers begin to all searchable; the writers' time", load.burst),
    PlaceCase(goals.WRITERS, "writing in a root; in a directory that nobody watches", load.writers),
    PlaceCase(goals.IDLE, "three roots, nothing to do; a blocked reader", idle.idle),
    PlaceCase(goals.CLIENT, "a whole process; bare interpreter", idle.client),
)
