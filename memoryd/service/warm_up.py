"""Load what the first search by meaning needs before anybody asks: numpy, the words of the embedder and the vectors.

That costs a tenth of a second of processor time, which nobody may wait for. So it is done once for each set of roots,
when the daemon has been quiet for a while on an idle machine, on a thread that neither a request nor the end waits for.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

from memoryd.core.index import IndexUnavailable
from memoryd.core.query import Filters
from memoryd.engine.worker import Worker
from memoryd.log import get_logger
from memoryd.search.engine import SearchEngine
from memoryd.search.query_terms import ParsedQuery
from memoryd.search.semantic import Question, SemanticSearch
from memoryd.service.roots import Roots

log = get_logger(__name__)

QUIET_S = 5.0  # without a change, a request or a job
MAX_LOAD = 0.5  # waiting or running processes for each processor
QUERY = "what should I remember"  # of words that every embedder knows
LIMIT = 10
WAITING = ("idle", "starting")  # steps of a worker that waits for work; the latter until its first turn


class WarmUp:
    """For the main thread. `requests` returns the number of requests so far, `load` the processes that run or wait for
    each processor."""

    def __init__(self, roots: Roots, requests: Callable[[], int], load: Callable[[], float]) -> None:
        self._roots = roots
        self._requests = requests
        self._load = load
        self._activity: object = None
        self._quiet_since = 0.0
        self._warm: Sequence[Worker] = ()

    def is_done(self) -> bool:
        """True if nothing is left to load for the present roots, or nothing would be."""
        embedder = self._roots.meaning.embedder
        return tuple(self._roots.all()) == self._warm or embedder is None or not embedder.fast

    def is_near(self) -> bool:
        """True if the moment may come within seconds. The load is the mean of a minute: while it is high, that is not
        worth a wake-up of its own."""
        return not self.is_done() and self._load() <= MAX_LOAD

    def step(self, now: float) -> threading.Thread | None:
        """Start to load if it is due and the moment is good; return the thread. `now` in monotonic seconds."""
        workers, meaning = tuple(self._roots.all()), self._roots.meaning
        if self.is_done():
            return None
        activity = (workers, self._requests(), [each.root.last_change for each in workers])
        busy = any(not each.ready.is_set() or each.step not in WAITING for each in workers)
        if busy or activity != self._activity:
            self._activity, self._quiet_since = activity, now
        if now - self._quiet_since < QUIET_S or self._load() > MAX_LOAD:
            return None
        self._warm, self._activity = workers, None
        thread = threading.Thread(target=_search, args=(meaning, workers, now), name="memoryd-warm-up", daemon=True)
        thread.start()
        return thread


def processor_load() -> float:
    """Return the mean number of processes of the last minute that ran or waited, for each processor."""
    return os.getloadavg()[0] / (os.cpu_count() or 1)


def _search(meaning: SemanticSearch, workers: Sequence[Worker], now: float) -> None:
    """Search each root that has memories as a client would, whatever it finds."""
    engine, query = SearchEngine(meaning), ParsedQuery(QUERY)
    for worker in workers:
        if worker.ends:
            continue
        try:
            with worker.store.catalogue.reader() as reader:
                if reader.size:
                    engine.find(reader, Question(query, Filters(), "hybrid", LIMIT, now))
        except IndexUnavailable as error:  # damaged, which the worker finds as well
            log.debug("not warmed up", root=worker.name, reason=str(error))
