"""Tending one root: the work of one turn. Used by whoever has the turn, but for `status`, `cares_for`, `note_delete`,
`health.paused` and `health.doubts`, which any thread may use."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection
from typing import Any

from memoryd.core.records import Role
from memoryd.engine.clock import Clock
from memoryd.engine.filling import Filling
from memoryd.engine.health import Health
from memoryd.engine.hints import Hints, Tell
from memoryd.engine.jobs import LOOKS, OPERATIONS, Job
from memoryd.engine.late import carry_late
from memoryd.engine.looking import LATE_S, NEVER, Looking
from memoryd.engine.memories import STORING, Memories
from memoryd.engine.order import Order
from memoryd.engine.publishing import Publisher
from memoryd.engine.tidying import Tidying
from memoryd.errors import MemorydError, TimeoutExpiredError
from memoryd.log import get_logger
from memoryd.operations.indexing import Indexed, update_index
from memoryd.operations.presence import Sighting, accept, sight, suspect_loss
from memoryd.operations.refresh import Refreshed, refresh
from memoryd.search.embedding.embedder import Embedder
from memoryd.store import Store

log = get_logger(__name__)

DELETE_EVENT_S = 1.0  # a rename out of the root is told half a second late (the library pairs moves)


class Tending:
    def __init__(self, store: Store, clock: Clock, hints: Hints, tell: Tell, embedder: Embedder | None = None) -> None:
        self.store = store
        self._clock = clock
        self._hints = hints
        self._tell = tell
        self.health = Health(store, clock, hints, tell)
        self.looking = Looking(store, clock, hints, self.health)
        self._filling = Filling(store, clock, embedder, self.health)
        self._tidying = Tidying(store)
        self._publisher = Publisher(store, clock, self.health)
        self._deleted = threading.Event()
        self._order = Order(store, clock)
        self._scanned = False
        self.memories = Memories(store, clock, tell, self.health, self._read_in, self._take_own)
        self.unsettled: set[str] = set()  # what memoryd changed itself: its index follows when the root has settled
        self.wants_limits = False
        self.last_change = clock.monotonic() - 1e6
        self.status = self._publisher.first()

    # --- for other threads

    def cares_for(self, path: str) -> bool:
        """False for paths whose change means nothing here: our own temporary files, locks, strangers."""
        if self.store.layout is None:
            return True
        role = self.store.layout.role(path)
        if role is Role.BACKUP:
            self._publisher.backups_known = False
        return role in (Role.SOURCE, Role.ARCHIVE, Role.INDEX)

    def note_delete(self) -> None:
        """Something was seen to go, so a scan that finds files gone need not wonder."""
        self._deleted.set()

    # --- beginning and end

    def begin(self) -> None:
        """Watch, then scan, then ready."""
        for name in self.store.journal.jobs_cut_off():
            log.warning("job was cut off", root=self.store.name, job=name)
        self._look()

    def end(self) -> None:
        self._hints.unwatch(self.store.name)
        self.memories.end()
        self.store.close()

    def next_due(self) -> float:
        if not self.health.tended:
            return self.looking.next_due()
        return min(self.looking.next_due(), self.memories.next_due(), self._filling.next_due, self._tidying.next_due)

    def tick(self) -> None:
        """What is due by time: a look at the root, late appends, a scan, an index that waited."""
        now = self._clock.monotonic()
        if now >= self.looking.next_look:
            self._look()
        if not self.health.tended:
            self.looking.rest()
            return
        carry_late(self.store, self._clock, self.looking)
        self.memories.turn(now)
        if self._filling.turn(now):
            self._publish()
        self._tidying.turn(now)
        if now >= self.looking.next_scan:
            self.take_in(None, now)
        elif now >= self.looking.next_index:
            self._try_again()

    # --- presence

    def _look(self) -> None:
        self.looking.begins()
        before, opened = self.health.sighting, self.store.attachments
        self.health.sighting = sight(self.store, self._clock.wall())
        if self.health.sighting != before or self.store.attachments != opened:
            self._changed_presence(before)
        if self.health.tended and not self._scanned:
            self._first_scan()
        elif self.health.sighting != before or self.health.paused != (self.status.state == "paused"):
            self._publish()

    def _changed_presence(self, before: Sighting) -> None:
        now = self.health.sighting
        if before.state != "starting" or now.state != "ok":
            tell = log.info if now.state == "ok" else log.warning
            tell("root", root=self.store.name, state=now.state, reason=now.reason)
        self._tell("root", {"root": self.store.name, "state": now.state, "reason": now.reason})
        if "ok" in (now.state, before.state):
            self._scanned = self._order.kept = self.health.watching = False
        if not self.store.attached:
            self._hints.unwatch(self.store.name)

    def _first_scan(self) -> None:
        """The root is there and ours: watch it, put it in order, read it in."""
        self._publish(state="scanning")
        self.looking.rewatch()
        self._scanned = True
        self._detect()
        self._hints.scheduled(self.store.name)
        try:
            self._order.put()
        except (OSError, sqlite3.Error, MemorydError) as error:
            self.trouble(error)  # what is there can be read all the same
        self.take_in(None, self._clock.monotonic())
        if self.store.layout is not None and self.health.tended:
            self.wants_limits |= self.health.note_limits()  # they may be new where no file is
            self._publish()

    def _detect(self) -> None:
        if self.store.layout is None:
            shapes = self._order.recognise()
            if len(shapes) == 1:
                self._hints.scheduled(self.store.name)
            else:
                self.health.note_shapes(shapes)

    def rest(self) -> None:
        """`root pause`: nothing is read or written until it is resumed."""
        self.memories.catch_up()
        self._publish()

    def resume(self) -> None:
        """`root resume`: what is there now is right, also on a suspect root."""
        if self.health.sighting.state == "suspect":
            accept(self.store)
        self._scanned = False
        self._look()

    # --- reading in and indexing

    def take_in(self, paths: Collection[str] | None, since: float, *, verify: bool = False) -> tuple[str, ...]:
        """Read what changed (None: look at everything), then bring the index up to date. Returns half-written
        files, to be looked at again. `verify` reads also what looks unchanged."""
        if not self.health.tended:
            return ()
        self.memories.catch_up()
        self._detect()
        if self.store.layout is None:
            self.looking.schedule_scan(self._clock.monotonic())
            self._publish()
            return ()
        began = self._clock.monotonic()
        done = self._refresh(paths, verify)
        if done.loss:
            suspect_loss(self.store, done.loss)
            self._look()
            return ()
        if done.directories is not None:
            self._publisher.last_scan = self._clock.wall()
            self.looking.scanned(done.directories, began)
        self._note_changes(done, since)
        self._index(force=False, wait_s=1.0)
        return done.waiting

    def _refresh(self, paths: Collection[str] | None, verify: bool) -> Refreshed:
        seen = self._deleted.is_set()
        try:
            done = refresh(self.store, paths, self._clock.wall(), verify=verify, deletes_seen=seen)
        except BaseException:
            self.store.index.dirty = True  # what was read in before the failure will not be news again
            raise
        if done.loss and self.health.watching and self._deleted.wait(DELETE_EVENT_S):
            seen = True  # the event was under way while we looked
            done = refresh(self.store, paths, self._clock.wall(), verify=verify, deletes_seen=True)
        if seen and paths is None:
            self._deleted.clear()
        return done

    def _note_changes(self, done: Refreshed, since: float) -> None:
        if not (done.changed or done.gone):
            return
        self.store.index.dirty = True
        self.last_change = self._clock.monotonic()
        if self.health.unindexed_since is None:
            self.health.unindexed_since = since
        self.wants_limits |= self.health.note_limits()
        self.health.note_changes(done)
        self._filling.news()

    def _index(self, *, force: bool, wait_s: float) -> Indexed:
        now, prepare = self._clock.wall(), self._order.put
        done = update_index(self.store, now, force=force, wait_s=wait_s, before_write=prepare)
        health = self.health
        health.unwritten, health.waits = done.unwritten, done.waits
        if done.written:
            health.well()
        if health.reason is None:  # else the next try stays set
            self.looking.next_index = NEVER
        if done.waits is None:
            if health.unindexed_since is not None or done.written:
                self._publisher.generation += 1
            health.unindexed_since = None
        if done.retry_at is not None:
            pause = max(0.05, done.retry_at - self._clock.wall())
            self.looking.next_index = self._clock.monotonic() + pause
        if done.written:
            event = {"root": self.store.name, "paths": list(done.written), "memories": done.result.memories}
            self._tell("change", {**event, "generation": self._publisher.generation, "index": True})
        self._publish()
        return done

    def _try_again(self) -> None:
        """An index that waited for its time, or a disk that refused: it is trusted again when it takes a write,
        also where none is due. Raises OSError while it does not."""
        self.looking.next_index = NEVER
        if self.store.layout is not None:
            self._index(force=False, wait_s=1.0)
        if self.health.reason is not None:
            self._order.put()
            self._order.prove_writable()
            self.health.well()
            self._publish()

    def sync(self, timeout_s: float) -> tuple[dict[str, Any], tuple[str, ...]]:
        """A scan that starts after the request, and its index on disk; TimeoutExpiredError when that cannot
        be had, never a stale ok."""
        began = self._clock.monotonic()
        self.health.require("sync")
        self.memories.write_reads()
        waiting = self.take_in(None, began)
        self.health.require("sync")
        self._filling.news(all_of_it=True)
        if self.store.layout is not None:
            self._force_index(began, timeout_s)
        waited = round((self._clock.monotonic() - began) * 1000)
        result: dict[str, Any] = {"generation": self._publisher.generation, "waited_ms": waited, "written": True}
        reason = self.health.unwritten
        return (result | {"written": False, "reason": reason} if reason else result), waiting

    def _force_index(self, began: float, timeout_s: float) -> None:
        while True:
            left = timeout_s - (self._clock.monotonic() - began)
            done = self._index(force=True, wait_s=max(0.0, left))
            if done.waits is None:
                return
            if self._clock.monotonic() - began >= timeout_s:
                raise TimeoutExpiredError(
                    f"root {self.store.name}: not in the index after {timeout_s:g} s: {done.waits}",
                    hint="`memoryd lock list` shows who is in the way",
                )

    def reindex(self, *, dry_run: bool) -> dict[str, Any]:
        """Forget the catalogue and build it and the index anew from the files."""
        self.health.require("reindex")
        if dry_run:
            return {"plan": {"actions": []}}
        self.store.catalogue.clear()
        self.take_in(None, self._clock.monotonic())
        done = self._index(force=True, wait_s=self.store.policy.lock_wait_s)
        return {"plan": {"actions": []}, "memories": done.result.memories, "written": list(done.written)}

    # --- operations

    def operate(self, job: Job) -> dict[str, Any]:
        if job.name not in STORING or not (self.health.tended and self.store.unmoved()):
            self._look()  # a folder that was moved away since would take what is stored along
        self.health.require(job.name)
        if job.name in STORING:
            self._order.put()
            return self.memories.perform(job)
        self.memories.catch_up()
        if job.name == "check":
            self._read_in()
            self.health.require(job.name)
        if job.name == "verify":
            self._read_in(verify=True)
            self.health.require(job.name)
        if job.name not in LOOKS:
            self._order.put()
        params = dict(job.params)
        if job.name == "locks" and job.by == "schedule":
            params["monotonic"] = self._clock.monotonic()
        result = OPERATIONS[job.name](self.store, params, job.by, self._clock.wall())
        if job.name.startswith("backup") or "receipt" in result:
            self._publisher.backups_known = False
        if "receipt" in result:
            self._after_change(job, result)
        for lock in result.get("locks", ()) if job.name in ("locks", "lock.clear") else ():
            log.warning("lock cleared", root=self.store.name, **lock)
            self._tell("health", {"root": self.store.name, "lock": lock})
        self._publish()
        return result

    def _take_own(self, paths: Collection[str]) -> None:
        """Files that memoryd has just changed; it is no sign of writers at work. They are changed also where they
        cannot be read in now: that follows, and whoever asked must not be told that the change failed."""
        before = self.last_change
        self.looking.next_late = self._clock.monotonic() + LATE_S
        try:
            if self.health.sighting.state == "ok":  # else it is not known whose files these are: a scan follows
                self._note_changes(self._refresh(paths, verify=False), self._clock.monotonic())
            self.store.journal.fold()
        except (OSError, sqlite3.Error, MemorydError) as error:
            self.trouble(error)
        self._publisher.backups_known = False
        self.unsettled.update(paths)
        self.last_change = before

    def _read_in(self, *, verify: bool = False) -> None:
        """Everything, for something that has its own answer: an index that cannot be written now follows later."""
        try:
            self.take_in(None, self._clock.monotonic(), verify=verify)
        except (OSError, sqlite3.Error) as error:
            self.trouble(error)

    def _after_change(self, job: Job, result: dict[str, Any]) -> None:
        """Read our own change in at once; it is no sign of writers at work."""
        self.health.well()
        event = {"root": self.store.name, "operation": job.name, "receipt": result["receipt"]}
        log.info("changed", **event, by=job.by)
        self._tell("change", {**event, "plan": result["plan"]})
        self.looking.next_late = self._clock.monotonic() + LATE_S
        before = self.last_change
        self._deleted.set()
        self._read_in()
        self.last_change = before

    # --- trouble and status

    def trouble(self, error: BaseException | None) -> MemorydError:
        """A failing disk makes the root read-only; it is tried again with growing pauses."""
        worded, pause = self.health.trouble(error)
        self.looking.hold_off(pause)
        try:
            self._publish()
        except (OSError, sqlite3.Error, MemorydError) as broken:
            log.debug("status is incomplete", root=self.store.name, error=str(broken))
        return worded

    def _publish(self, state: str | None = None) -> None:
        self.status = self._publisher.make(state)
