"""Reading in what changed, and bringing the layout's own index up to date after it. By whoever has the root's turn."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from memoryd.engine.clock import Clock
from memoryd.engine.filling import Filling
from memoryd.engine.health import Health
from memoryd.engine.hints import Tell
from memoryd.engine.looking import NEVER, Looking
from memoryd.engine.memories import Memories
from memoryd.engine.order import Order
from memoryd.engine.publishing import Publisher
from memoryd.errors import MemorydError, TimeoutExpiredError
from memoryd.operations.indexing import Indexed, update_index
from memoryd.operations.memories import bring_back
from memoryd.operations.presence import suspect_loss
from memoryd.operations.recognition import misfit
from memoryd.operations.refresh import Refreshed, refresh
from memoryd.store import Store

DELETE_EVENT_S = 1.0  # a rename out of the root is told half a second late (the library pairs moves)


class Parts(NamedTuple):
    """What the tending of one root is made of."""

    store: Store
    clock: Clock
    tell: Tell
    health: Health
    looking: Looking
    publisher: Publisher
    order: Order
    filling: Filling


class Around(Protocol):
    """What reading in asks of the rest of the root's tending."""

    memories: Memories

    def look(self) -> None:
        """At the root's path."""

    def detect(self) -> None:
        """The layout, where it is not known."""

    def publish(self) -> None: ...

    def trouble(self, error: BaseException | None) -> MemorydError: ...


class ReadingIn:
    """`deleted` is set where something was seen to go; `last_change` is when (monotonic) somebody changed something;
    `wants_limits`: a file is above a soft limit."""

    def __init__(self, parts: Parts, around: Around) -> None:
        self._store, self._clock, self._tell = parts.store, parts.clock, parts.tell
        self._health, self._looking, self._publisher = parts.health, parts.looking, parts.publisher
        self._order, self._filling, self._around = parts.order, parts.filling, around
        self.deleted = threading.Event()
        self.last_change = parts.clock.monotonic() - 1e6
        self.wants_limits = False
        self.fits = False  # the layout is known to fit what is there

    def take_in(self, paths: Collection[str] | None, since: float, *, verify: bool = False) -> tuple[str, ...]:
        """Read what changed (None: look at everything), then bring the index up to date. Returns half-written
        files, to be looked at again. `verify` reads also what looks unchanged."""
        if not self._health.tended:
            return ()
        self._around.memories.catch_up()
        if self._store.layout is None and not self._looking.may_detect():
            return ()
        self._around.detect()
        if self._store.layout is None:
            self._looking.schedule_scan(self._clock.monotonic())
            self._around.publish()
            return ()
        began = self._clock.monotonic()
        done = self._refresh(paths, verify)
        if done.loss:
            suspect_loss(self._store, done.loss)
            self._around.look()
            return ()
        if done.directories is not None:
            self._publisher.last_scan = self._clock.wall()
            self._looking.scanned(done.directories, began)
        self._note_changes(done, since)
        self._bring_back()
        self._note_fit(everything=paths is None)
        self._index(force=False, wait_s=1.0)
        return done.waiting

    def _bring_back(self) -> None:
        """What an agent wrote an older state over; a failing disk leaves it for the next look."""
        for told in bring_back(self._store, self._clock.wall()) if self._store.undone else ():
            self._health.note_undone(told)

    def _note_fit(self, *, everything: bool) -> None:
        """Until a layout that was named is known to fit."""
        store = self._store
        if self.fits or store.guessed_by is not None or (store.foreign is not None and not everything):
            return
        found = misfit(store)
        self._health.note_fit(found)
        self.fits = found is None and any(each.records for each in store.files().values())

    def _refresh(self, paths: Collection[str] | None, verify: bool) -> Refreshed:
        seen = self.deleted.is_set()
        try:
            done = refresh(self._store, paths, self._clock.wall(), verify=verify, deletes_seen=seen)
        except BaseException:
            self._store.index.dirty = True  # what was read in before the failure will not be news again
            raise
        if done.loss and self._health.watching and self.deleted.wait(DELETE_EVENT_S):
            seen = True  # the event was under way while we looked
            done = refresh(self._store, paths, self._clock.wall(), verify=verify, deletes_seen=True)
        if seen and paths is None:
            self.deleted.clear()
        return done

    def _note_changes(self, done: Refreshed, since: float) -> None:
        if not (done.changed or done.gone):
            return
        self._store.index.dirty = True
        self.last_change = self._clock.monotonic()
        if self._health.unindexed_since is None:
            self._health.unindexed_since = since
        self.note_limits()
        self._health.note_changes(done)
        self._filling.news()

    def _index(self, *, force: bool, wait_s: float) -> Indexed:
        now, prepare = self._clock.wall(), self._order.put
        done = update_index(self._store, now, force=force, wait_s=wait_s, before_write=prepare)
        health = self._health
        health.unwritten, health.waits = done.unwritten, done.waits
        if done.written:
            health.well()
        if health.reason is None:  # else the next try stays set
            self._looking.next_index = NEVER
        if done.waits is None:
            if health.unindexed_since is not None or done.written:
                self._publisher.generation += 1
            health.unindexed_since = None
        if done.retry_at is not None:
            pause = max(0.05, done.retry_at - self._clock.wall())
            self._looking.next_index = self._clock.monotonic() + pause
        if done.written:
            event = {"root": self._store.name, "paths": list(done.written), "memories": done.result.memories}
            self._tell("change", {**event, "generation": self._publisher.generation, "index": True})
        self._around.publish()
        return done

    def try_again(self) -> None:
        """An index that waited for its time, or a disk that refused: it is trusted again when it takes a write,
        also where none is due. Raises OSError while it does not."""
        self._looking.next_index = NEVER
        if self._store.layout is not None:
            self._index(force=False, wait_s=1.0)
        if self._health.reason is not None:
            self._order.put()
            self._order.prove_writable()
            self._health.well()
            self._around.publish()

    def sync(self, timeout_s: float) -> tuple[dict[str, Any], tuple[str, ...]]:
        """A scan that starts after the request, and its index on disk; TimeoutExpiredError when that cannot
        be had, never a stale ok."""
        began = self._clock.monotonic()
        self._health.require("sync")
        self._around.memories.write_reads()
        self._looking.next_detect = 0.0
        waiting = self.take_in(None, began)
        self._health.require("sync")
        self._filling.news(all_of_it=True)
        if self._store.layout is not None:
            self._force_index(began, timeout_s)
        waited = round((self._clock.monotonic() - began) * 1000)
        result: dict[str, Any] = {"generation": self._publisher.generation, "waited_ms": waited, "written": True}
        reason = self._health.unwritten
        return (result | {"written": False, "reason": reason} if reason else result), waiting

    def _force_index(self, began: float, timeout_s: float) -> None:
        while True:
            left = timeout_s - (self._clock.monotonic() - began)
            done = self._index(force=True, wait_s=max(0.0, left))
            if done.waits is None:
                return
            if self._clock.monotonic() - began >= timeout_s:
                raise TimeoutExpiredError(
                    f"root {self._store.name}: not in the index after {timeout_s:g} s: {done.waits}",
                    hint="`memoryd lock list` shows who is in the way",
                )

    def reindex(self, *, dry_run: bool) -> dict[str, Any]:
        """Forget the catalogue and build it and the index anew from the files."""
        self._health.require("reindex")
        if dry_run:
            return {"plan": {"actions": []}}
        self._store.catalogue.clear()
        self.take_in(None, self._clock.monotonic())
        done = self._index(force=True, wait_s=self._store.policy.lock_wait_s)
        return {"plan": {"actions": []}, "memories": done.result.memories, "written": list(done.written)}

    def read_in(self, *, verify: bool = False) -> None:
        """Everything, for something that has its own answer: an index that cannot be written now follows later."""
        try:
            self.take_in(None, self._clock.monotonic(), verify=verify)
        except (OSError, sqlite3.Error) as error:
            self._around.trouble(error)

    def own(self, paths: Collection[str]) -> None:
        """Files that memoryd has just changed."""
        with self._no_writers():
            self._note_changes(self._refresh(paths, verify=False), self._clock.monotonic())

    def after_own(self) -> None:
        """The same, where nobody knows which."""
        self.deleted.set()
        with self._no_writers():
            self.read_in()

    @contextmanager
    def _no_writers(self) -> Iterator[None]:
        """What changes within is our own work, and no sign of others at theirs."""
        before = self.last_change
        try:
            yield
        finally:
            self.last_change = before

    def note_limits(self) -> None:
        self.wants_limits |= self._health.note_limits()
