"""Vectors of new and changed memories of one root.

A fast embedder makes them at once; a slow one in small batches on a thread of its own, so that neither a change nor a
command waits for it. Only the thread that owns the root writes to the catalogue.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from enum import Enum
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
LATER_S = 0.01  # until a fast embedder follows the search index
FEW = 16  # texts of a fast embedder for which no answer waits: a fraction of the time that a search waits for them
TURN_S = 0.25  # longest fill while a client may be waiting
SYNC_S = 1.0  # longest fill of a sync, some ten thousand texts: the commands after it do not wait for more
SLOW_BATCH = 16  # texts of a slow embedder in one batch
LOOK_S = 0.02  # between two checks whether a batch is done, a small part of the time that a batch takes
NICE = 10  # of the thread that makes a slow batch: a search and the agents of this machine go first
FIRST_PAUSE_S, MAX_PAUSE_S = 5.0, 600.0  # after a failure


class VectorsDue(Enum):
    """When a fast embedder makes the vectors of memories that were just indexed."""

    AT_ONCE = "at once"  # most of a large new store later: it is served before all of it can be found by meaning
    # As many as can be made in SYNC_S, at once; a few a moment later, or before a search that comes first.
    BEFORE_SEARCH = "before the next search"
    AFTER_SEARCH = "after the next search"  # a moment later: the writer's next question is answered first


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
        self.deferred = False  # a sync left a few vectors for later; for any thread
        self.trouble: str | None = None  # why some memories have no vector, while it lasts
        self.next_due = NEVER if embedder is None else clock.monotonic()  # what an earlier run left

    def notify(self, due: VectorsDue = VectorsDue.AT_ONCE) -> None:
        """Note that memories were indexed."""
        embedder, now = self._embedder, self._clock.monotonic()
        if embedder is None:
            return
        if not embedder.fast:
            if not self._running and self.trouble is None:
                self.next_due = now
        elif due is VectorsDue.BEFORE_SEARCH:
            self._fill_or_defer(embedder)
        elif self._index is None:
            self._fill(embedder, now, FIRST)
        elif due is VectorsDue.AFTER_SEARCH:
            self.next_due = min(self.next_due, now + LATER_S)
        else:
            self._fill(embedder, now + TURN_S)

    def run(self, now: float) -> None:
        """Run what is due: the rest of a long fill, the result of a thread, or the next batch."""
        if now < self.next_due or self._embedder is None:
            return
        if self._embedder.fast:
            self._fill(self._embedder, now + TURN_S)
        elif self._running:
            self._collect(now)
        else:
            self._begin(self._embedder)

    def make_deferred(self) -> None:
        """Before a search, or work that takes long: make the vectors that a sync left for later."""
        if self.deferred and self._embedder is not None:
            self._fill(self._embedder, NEVER)

    # --- inner workings

    def _fill_or_defer(self, embedder: Embedder) -> None:
        missing = len(self._missing(embedder, FEW + 1))
        if missing > FEW:
            self._fill(embedder, self._clock.monotonic() + SYNC_S)
        elif missing:
            self.next_due, self.deferred = self._clock.monotonic() + LATER_S, True
        else:
            self.next_due = NEVER

    def _fill(self, embedder: Embedder, until: float, at_once: int = AT_ONCE) -> None:
        self.next_due = NEVER
        try:
            while rows := self._missing(embedder, at_once):
                keys = [key for key, _ in rows]
                self._put(embedder, keys, self._embed(embedder, [text for _, text in rows]))
                if self._clock.monotonic() >= until:
                    self.next_due = self._clock.monotonic()
                    return
        except MemorydError as error:
            self._failed(error)
        except OSError:  # of the index
            self.next_due = self._clock.monotonic() + FIRST_PAUSE_S
            raise
        finally:
            self.deferred = False

    def _embed(self, embedder: Embedder, texts: list[str]) -> list[bytes]:
        """Embed one text after the other, so that a search waits for one of them at most."""
        vectors: list[bytes] = []
        for text in texts:
            self._store.searches.give_way()
            vectors += self._vectors(embedder, [text])
        return vectors

    def _vectors(self, embedder: Embedder, texts: list[str]) -> list[bytes]:
        """Embed the texts. Raises MemorydError, whatever fails: memories without vectors can still be found."""
        try:
            return embedder.embed(texts)
        except MemorydError:
            raise
        except Exception as error:
            log.exception("unexpected", root=self._store.name, step="vectors")
            raise MemorydError(f"the embedder failed: {error}") from error

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
            _lower_priority()
            self._done = VectorBatch(keys, self._vectors(embedder, texts), None)
        except MemorydError as error:
            self._done = VectorBatch(keys, [], error)

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


def _lower_priority() -> None:
    """Let all other threads go first. Linux alone has a priority for each thread; a sandbox may forbid setting it."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with suppress(OSError):  # the batch is made all the same
            os.setpriority(os.PRIO_PROCESS, thread, max(NICE, os.getpriority(os.PRIO_PROCESS, thread)))
