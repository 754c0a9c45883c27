"""Tending one root: the work of one turn. Used by whoever has the turn, but for `status`, `cares_for`, `note_delete`,
`health.paused` and `health.doubts`, which any thread may use."""

from __future__ import annotations

import sqlite3
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
from memoryd.engine.reading_in import Parts, ReadingIn
from memoryd.engine.tidying import Tidying
from memoryd.errors import InvalidMemoryError, MemorydError
from memoryd.layouts import LAYOUTS
from memoryd.log import get_logger
from memoryd.operations.presence import Sighting, accept_all, sight
from memoryd.search.embedding.embedder import Embedder
from memoryd.store import Store

log = get_logger(__name__)


_TOLD = (Role.SOURCE, Role.ARCHIVE, Role.INDEX)


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
        self._order = Order(store, clock)
        parts = Parts(store, clock, tell, self.health, self.looking, self._publisher, self._order, self._filling)
        self.reading = ReadingIn(parts, self)
        self._scanned = False
        self.memories = Memories(store, clock, tell, self.health, self.reading.read_in, self._take_own)
        self.unsettled: set[str] = set()  # what memoryd changed itself: its index follows when the root has settled
        self.status = self._publisher.first()

    # --- for other threads

    def cares_for(self, path: str) -> bool:
        """False for paths whose change means nothing here: our own temporary files, locks, strangers."""
        if self.store.layout is None:
            roles = (layout.role(path) for layout in LAYOUTS.values())
            return not self.store.skips(path) and any(role in _TOLD for role in roles)
        role = self.store.role(path)
        if role is Role.BACKUP:
            self._publisher.backups_known = False
        return role in _TOLD

    def note_delete(self) -> None:
        """Something was seen to go, so a scan that finds files gone need not wonder."""
        self.reading.deleted.set()

    # --- beginning and end

    def begin(self) -> None:
        """Watch, then scan, then ready."""
        for name in self.store.journal.jobs_cut_off():
            log.warning("job was cut off", root=self.store.name, job=name)
        self.look()

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
            self.look()
        if not self.health.tended:
            self.looking.rest()
            return
        carry_late(self.store, self._clock, self.looking)
        self.memories.turn(now)
        if self._filling.turn(now):
            self.publish()
        self._tidying.turn(now)
        if now >= self.looking.next_scan:
            self.reading.take_in(None, now)
        elif now >= self.looking.next_index:
            self.reading.try_again()

    # --- presence

    def look(self) -> None:
        self.looking.begins()
        before, opened = self.health.sighting, self.store.attachments
        self.health.sighting = sight(self.store, self._clock.wall())
        if self.health.sighting != before or self.store.attachments != opened:
            self._changed_presence(before)
        if self.health.tended and not self._scanned:
            self._first_scan()
        elif self.health.sighting != before or self.health.paused != (self.status.state == "paused"):
            self.publish()

    def _changed_presence(self, before: Sighting) -> None:
        now = self.health.sighting
        if before.state != "starting" or now.state != "ok":
            tell = log.info if now.state == "ok" else log.warning
            tell("root", root=self.store.name, state=now.state, reason=now.reason)
        self._tell("root", {"root": self.store.name, "state": now.state, "reason": now.reason})
        if "ok" in (now.state, before.state):
            self._scanned = self._order.kept = self.health.watching = self.reading.fits = False
        if not self.store.attached:
            self._hints.unwatch(self.store.name)

    def _first_scan(self) -> None:
        """The root is there and ours: watch it, put it in order, read it in."""
        if self.store.layout is not None or self.store.too_wide is None:
            self.looking.rewatch()  # before anything is told: what is not watched yet would look like what cannot be
        self.publish(state="scanning")
        self._scanned = True
        self.detect()
        self._hints.scheduled(self.store.name)
        try:
            self._order.put()
        except (OSError, sqlite3.Error, MemorydError) as error:
            self.trouble(error)  # what is there can be read all the same
        self.reading.take_in(None, self._clock.monotonic())
        if self.health.reason is not None and self.looking.next_index == NEVER:
            self.looking.next_index = self._clock.monotonic()  # trouble from before the root was away may be over
        if self.store.layout is not None and self.health.tended:
            self.reading.note_limits()  # they may be new where no file is
            self.publish()

    def detect(self) -> None:
        if self.store.layout is None:
            began = self._clock.monotonic()
            seen = self._order.recognise()
            if seen.layout is not None:
                self._hints.scheduled(self.store.name)
            else:
                self.health.note_shapes(seen)
                self.looking.detected(began)

    def rest(self) -> None:
        """`root pause`: nothing is read or written until it is resumed."""
        self.memories.catch_up()
        self.publish()

    def resume(self) -> None:
        """`root resume`: what is there now is right, also on a suspect root."""
        if self.health.sighting.state == "suspect":
            accept_all(self.store)
        self._scanned = False
        self.look()

    def confirm(self) -> None:
        """`root confirm`: the layout that was recognised is the right one, and memoryd may write."""
        self.look()
        self.health.require("sync")
        if self.store.layout is None:
            raise InvalidMemoryError(
                f"root {self.store.name} has no layout to confirm: {self.health.unwritten}",
                hint="name its layout in the configuration",
            )
        if self.store.guessed_by is None:
            return
        self.store.confirm()
        log.info("layout confirmed", root=self.store.name, layout=self.store.layout.name)
        self.store.index.dirty, self._order.kept = True, False
        self._hints.scheduled(self.store.name)
        self.reading.take_in(None, self._clock.monotonic())

    # --- operations

    def operate(self, job: Job) -> dict[str, Any]:
        if job.name not in STORING or not (self.health.tended and self.store.unmoved()):
            self.look()  # a folder that was moved away since would take what is stored along
        self.health.require(job.name, dry_run=bool(job.params.get("dry_run")))
        if job.name in STORING:
            self._order.put()
            return self.memories.perform(job)
        self.memories.catch_up()
        if job.name == "check":
            self.reading.read_in()
            self.health.require(job.name)
        if job.name == "verify":
            self.reading.read_in(verify=True)
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
        self.publish()
        return result

    def _take_own(self, paths: Collection[str]) -> None:
        """Files that memoryd has just changed; it is no sign of writers at work. They are changed also where they
        cannot be read in now: that follows, and whoever asked must not be told that the change failed."""
        self.looking.next_late = self._clock.monotonic() + LATE_S
        try:
            if self.health.sighting.state == "ok":  # else it is not known whose files these are: a scan follows
                self.reading.own(paths)
            self.store.journal.fold()
        except (OSError, sqlite3.Error, MemorydError) as error:
            self.trouble(error)
        self._publisher.backups_known = False
        self.unsettled.update(paths)

    def _after_change(self, job: Job, result: dict[str, Any]) -> None:
        """Read our own change in at once; it is no sign of writers at work."""
        self.health.well()
        event = {"root": self.store.name, "operation": job.name, "receipt": result["receipt"]}
        log.info("changed", **event, by=job.by)
        self._tell("change", {**event, "plan": result["plan"]})
        self.looking.next_late = self._clock.monotonic() + LATE_S
        self.reading.after_own()

    # --- trouble and status

    def trouble(self, error: BaseException | None) -> MemorydError:
        """A failing disk makes the root read-only; it is tried again with growing pauses."""
        worded, pause = self.health.trouble(error)
        self.looking.hold_off(pause)
        try:
            self.publish()
        except (OSError, sqlite3.Error, MemorydError) as broken:
            log.debug("status is incomplete", root=self.store.name, error=str(broken))
        return worded

    def publish(self, state: str | None = None) -> None:
        self.status = self._publisher.make(state)
