"""Vectors for new and changed memories. A fast embedder makes them at once; a slow one in small batches on a thread of
its own, so that neither a change nor a command waits for it. Only the thread that owns the root writes to the
catalogue."""

from __future__ import annotations

import threading
from typing import NamedTuple

from memoryd.core.index import IndexWriter
from memoryd.engine.deadlines import NEVER
from memoryd.engine.interfaces import Clock
from memoryd.errors import MemorydError
from memoryd.log import get_logger
from memoryd.search.embedding.embedder import Embedder
from memoryd.store import Store

log = get_logger(__name__)

AT_ONCE = 256  # texts of a fast embedder between two checks of the clock
FIRST = 64  # texts of a fast embedder before a root is ready
TURN_S = 0.25  # longest fill while a client may be waiting
SLOW_BATCH = 16  # texts of a slow embedder in one batch
LOOK_S = 0.1  # between two checks whether a batch is done
FIRST_PAUSE_S, MAX_PAUSE_S = 5.0, 600.0  # after a failure


class VectorBatch(NamedTuple):
    """The result of one thread: vectors for these keys, or why there are none."""

    keys: list[int]
    vectors: list[bytes]
    trouble: MemorydError | None


class Backfill:
    """Computes the vectors of one root. Used by the thread that owns the root. `next_due` (monotonic) is when `run` has
    work."""

    def __init__(self, store: Store, clock: Clock, embedder: Embedder | None) -> None:
        self._store = store
        self._clock = clock
        self._embedder = embedder
        self._index: IndexWriter | None = None
        self._after = 0  # no vector is missing up to this key
        self._done: VectorBatch | None = None
        self._running = False
        self._pause_s = FIRST_PAUSE_S
        self.trouble: str | None = None  # why some memories have no vector, while it lasts
        self.next_due = NEVER if embedder is None else clock.monotonic()  # what an earlier run left

    def notify(self, *, all_of_it: bool = False) -> None:
        """Note that memories were indexed. With `all_of_it` a fast embedder embeds all of them now. Otherwise most of a
        large new store is deferred: it is served before all of it can be found by meaning."""
        if self._embedder is None:
            return
        if self._embedder.fast and all_of_it:
            self._fill(self._embedder, NEVER)
        elif self._embedder.fast and self._index is None:
            self._fill(self._embedder, self._clock.monotonic(), FIRST)
        elif self._embedder.fast:
            self._fill(self._embedder, self._clock.monotonic() + TURN_S)
        elif not self._running and self.trouble is None:
            self.next_due = self._clock.monotonic()

    def run(self, now: float) -> bool:
        """Run what is due: the rest of a long fill, the result of a thread, or the next batch. Return True if `trouble`
        changed."""
        if now < self.next_due or self._embedder is None:
            return False
        told = self.trouble
        if self._embedder.fast:
            self._fill(self._embedder, now + TURN_S)
        elif self._running:
            self._collect(now)
        else:
            self._begin(self._embedder)
        return self.trouble != told

    # --- inner workings

    def _fill(self, embedder: Embedder, until: float, at_once: int = AT_ONCE) -> None:
        self.next_due = NEVER
        try:
            while rows := self._missing(embedder, at_once):
                keys = [key for key, _ in rows]
                self._put(embedder, keys, embedder.embed([text for _, text in rows]))
                if self._clock.monotonic() >= until:
                    self.next_due = self._clock.monotonic()
                    return
        except MemorydError as error:
            self._failed(error)

    def _missing(self, embedder: Embedder, limit: int) -> list[tuple[int, str]]:
        index = self._store.catalogue
        if index is not self._index:  # a new index: its keys start again
            self._index, self._after = index, 0
        return index.missing_vectors(embedder.name, self._after, limit)

    def _put(self, embedder: Embedder, keys: list[int], made: list[bytes]) -> None:
        self._store.catalogue.put_vectors(embedder.name, list(zip(keys, made, strict=True)))
        self._after = keys[-1]
        if self.trouble is not None:
            log.info("recomputing vectors", root=self._store.name)
        self.trouble, self._pause_s = None, FIRST_PAUSE_S

    def _begin(self, embedder: Embedder) -> None:
        rows = self._missing(embedder, SLOW_BATCH)
        if not rows:
            self.next_due = NEVER
            return
        self._done, self._running = None, True
        keys, texts = [key for key, _ in rows], [text for _, text in rows]
        name = f"memoryd-vectors-{self._store.name}"
        threading.Thread(target=self._make, args=(embedder, keys, texts), name=name, daemon=True).start()
        self.next_due = self._clock.monotonic() + LOOK_S

    def _make(self, embedder: Embedder, keys: list[int], texts: list[str]) -> None:
        """Embed one batch. Runs on the thread of that batch."""
        try:
            self._done = VectorBatch(keys, embedder.embed(texts), None)
        except MemorydError as error:
            self._done = VectorBatch(keys, [], error)
        except Exception as error:
            log.exception("unexpected", root=self._store.name, step="vectors")
            self._done = VectorBatch(keys, [], MemorydError(f"the embedder failed: {error}"))

    def _collect(self, now: float) -> None:
        done, embedder = self._done, self._embedder
        if done is None or embedder is None:
            self.next_due = now + LOOK_S
            return
        self._done, self._running = None, False
        if done.trouble is not None:
            self._failed(done.trouble)
            return
        self.next_due = now
        if self._store.catalogue is self._index:  # else it was made for an index that is no more
            self._put(embedder, done.keys, done.vectors)

    def _failed(self, error: MemorydError) -> None:
        """Report a failure once, and try again with growing pauses."""
        reason = f"cannot compute vectors: {error.message}"
        if reason != self.trouble:
            log.warning("no vectors", root=self._store.name, reason=error.message, hint=error.hint)
        self.trouble = reason
        self.next_due = self._clock.monotonic() + self._pause_s
        self._pause_s = min(MAX_PAUSE_S, self._pause_s * 2)
