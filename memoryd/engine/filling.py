"""Vectors for what came in. A fast embedder makes them at once; a slow one in small batches on a thread of its own, so
that neither a change nor a command waits for it. The catalogue is written by whoever has the turn."""

from __future__ import annotations

import threading
from typing import NamedTuple

from memoryd.engine.clock import Clock
from memoryd.engine.health import Health
from memoryd.engine.looking import NEVER
from memoryd.errors import MemorydError
from memoryd.log import get_logger
from memoryd.search.embedding.embedder import Embedder
from memoryd.store import Store

log = get_logger(__name__)

AT_ONCE = 256  # texts of a fast embedder between two looks at the time
FIRST = 64  # texts of a fast embedder before a root is ready
TURN_S = 0.25  # how long one turn may take where somebody may wait
FEW = 16  # texts of a slow embedder in one batch
LOOK_S = 0.1  # between two looks whether a batch is done
FIRST_PAUSE_S, MOST_PAUSE_S = 5.0, 600.0  # after a failure


class Batch(NamedTuple):
    """What a thread made: vectors of these keys, or why there are none."""

    keys: list[int]
    vectors: list[bytes]
    trouble: MemorydError | None


class Filling:
    """Used by whoever has the root's turn."""

    def __init__(self, store: Store, clock: Clock, embedder: Embedder | None, health: Health) -> None:
        self._store = store
        self._clock = clock
        self._embedder = embedder
        self._health = health
        self._home: object = None
        self._after = 0  # up to this key nothing is missing
        self._done: Batch | None = None
        self._running = False
        self._pause_s = FIRST_PAUSE_S
        self.next_due = NEVER if embedder is None else clock.monotonic()  # what an earlier run left

    def news(self, *, all_of_it: bool = False) -> None:
        """Something came in. With `all_of_it` nothing a fast embedder can do is left for later; most of a large store
        that is there at the beginning is: it is served before all of it can be found by meaning."""
        if self._embedder is None:
            return
        if self._embedder.fast and all_of_it:
            self._fill(self._embedder, NEVER)
        elif self._embedder.fast and self._home is None:
            self._fill(self._embedder, self._clock.monotonic(), FIRST)
        elif self._embedder.fast:
            self._fill(self._embedder, self._clock.monotonic() + TURN_S)
        elif not self._running and self._health.without_vectors is None:
            self.next_due = self._clock.monotonic()

    def turn(self, now: float) -> bool:
        """What is due: the rest of a long fill, what a thread has made, or the next batch. True when there is something
        else to be told of the root than before."""
        if now < self.next_due or self._embedder is None:
            return False
        told = self._health.without_vectors
        if self._embedder.fast:
            self._fill(self._embedder, now + TURN_S)
        elif self._running:
            self._collect(now)
        else:
            self._begin(self._embedder)
        return self._health.without_vectors != told

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
        vectors = self._store.catalogue.vectors
        if vectors.home is not self._home:  # another catalogue: its keys begin anew
            self._home, self._after = vectors.home, 0
        return vectors.missing(embedder.name, self._after, limit)

    def _put(self, embedder: Embedder, keys: list[int], made: list[bytes]) -> None:
        self._store.catalogue.vectors.put(embedder.name, list(zip(keys, made, strict=True)))
        self._after = keys[-1]
        if self._health.without_vectors is not None:
            log.info("vectors are made again", root=self._store.name)
        self._health.without_vectors, self._pause_s = None, FIRST_PAUSE_S

    def _begin(self, embedder: Embedder) -> None:
        rows = self._missing(embedder, FEW)
        if not rows:
            self.next_due = NEVER
            return
        self._done, self._running = None, True
        keys, texts = [key for key, _ in rows], [text for _, text in rows]
        name = f"memoryd-vectors-{self._store.name}"
        threading.Thread(target=self._make, args=(embedder, keys, texts), name=name, daemon=True).start()
        self.next_due = self._clock.monotonic() + LOOK_S

    def _make(self, embedder: Embedder, keys: list[int], texts: list[str]) -> None:
        """On the thread of the batch."""
        try:
            self._done = Batch(keys, embedder.embed(texts), None)
        except MemorydError as error:
            self._done = Batch(keys, [], error)
        except Exception as error:
            log.exception("unexpected", root=self._store.name, step="vectors")
            self._done = Batch(keys, [], MemorydError(f"the embedder fails: {error}"))

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
        if self._store.catalogue.vectors.home is self._home:  # else it was made for a catalogue that is no more
            self._put(embedder, done.keys, done.vectors)

    def _failed(self, error: MemorydError) -> None:
        """Told once, and tried again with growing pauses."""
        reason = f"no vectors can be made: {error.message}"
        if reason != self._health.without_vectors:
            log.warning("no vectors", root=self._store.name, reason=error.message, hint=error.hint)
        self._health.without_vectors = reason
        self.next_due = self._clock.monotonic() + self._pause_s
        self._pause_s = min(MOST_PAUSE_S, self._pause_s * 2)
