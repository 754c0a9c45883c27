"""Tending one root: the states it goes through and the work of one turn. Runs on the worker's thread only,
but for `status`, `cares_for`, `set_paused` and `doubts`, which any thread may use."""

from __future__ import annotations

import errno
import sqlite3
from collections import deque
from collections.abc import Collection
from typing import Any

from memoryd.core.policy import Mode
from memoryd.core.records import Role
from memoryd.core.schedule import Adaptive, Every, parse_schedule
from memoryd.engine.clock import Clock
from memoryd.engine.hints import Hints, Tell
from memoryd.engine.jobs import LOOKS, OPERATIONS, Job, require_job
from memoryd.engine.status import RootStatus, Watch
from memoryd.errors import (
    DeniedError,
    GuardError,
    InvalidMemoryError,
    MemorydError,
    PausedError,
    RootMissingError,
    TimeoutExpiredError,
)
from memoryd.layouts import LAYOUTS, recognise
from memoryd.log import get_logger
from memoryd.operations.backup import list_backups
from memoryd.operations.check import finding_counts
from memoryd.operations.indexing import Indexed, update_index
from memoryd.operations.limits import limit_levels, note_limits
from memoryd.operations.locks import list_locks
from memoryd.operations.migrate import migrate
from memoryd.operations.presence import Sighting, accept, sight, suspect_loss
from memoryd.operations.refresh import Refreshed, refresh
from memoryd.store import Store
from memoryd.store.recovery import recover

log = get_logger(__name__)

LOOK_S = 2.0  # between two looks at the root's path
DUTY = 2000.0  # a full scan may take one part in this of the time: 0.05 %
SCAN_LEAST_S, SCAN_MOST_S = 30.0, 3600.0
BLIND_SCAN_S = 5.0  # between scans while events cannot be relied on
BLIND_DUTY = 50.0
DISK_TROUBLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG, errno.ESTALE, errno.EACCES)
TROUBLE_FIRST_S, TROUBLE_MOST_S = 1.0, 60.0


class Tending:
    def __init__(self, store: Store, clock: Clock, hints: Hints, tell: Tell) -> None:
        self.store = store
        self._clock = clock
        self._hints = hints
        self._tell = tell
        self.doubts: deque[tuple[float, str]] = deque(maxlen=20)
        self.wants_limits = False
        self.unindexed_since: float | None = None
        self.last_change = clock.monotonic() - 1e6
        self._sighting = Sighting("starting")
        self._paused = False
        self._scanned = False
        self._watching = False
        self._watch = Watch()
        self._refused: str | None = None
        self._trouble: str | None = None
        self._trouble_wait = TROUBLE_FIRST_S
        self._waits: str | None = None
        self._unwritten: str | None = None
        self._last_scan: float | None = None
        self._scan_cost = 0.0
        self._generation = 0
        self._next_look = 0.0
        self._next_scan = float("inf")
        self._next_index = float("inf")
        self._backups: dict[str, Any] = {"count": 0, "newest": None}
        self._backups_known = False
        self.status = RootStatus(store.name, store.path, self._layout_name(), str(store.policy.mode))

    # --- for other threads

    def cares_for(self, path: str) -> bool:
        """False for paths whose change means nothing here: our own temporary files, locks, strangers."""
        if self.store.layout is None:
            return True
        role = self.store.layout.role(path)
        if role is Role.BACKUP:
            self._backups_known = False
        return role in (Role.SOURCE, Role.ARCHIVE, Role.INDEX)

    def set_paused(self, paused: bool) -> None:
        self._paused = paused
        self._next_look = 0.0

    # --- beginning and end

    def begin(self) -> None:
        """Watch, then scan, then ready."""
        for name in self.store.journal.jobs_cut_off():
            log.warning("job was cut off", root=self.store.name, job=name)
        self._look()

    def end(self) -> None:
        self._hints.unwatch(self.store.name)
        self.store.close()

    def next_due(self) -> float:
        late = self._clock.monotonic() + 0.5 if self.store.late else float("inf")
        return min(self._next_look, self._next_scan, self._next_index, late)

    def tick(self, *, busy: bool) -> None:
        """What is due by time: a look at the root, a scan, an index that waited, late appends."""
        now = self._clock.monotonic()
        if now >= self._next_look:
            self._look()
        if self._sighting.state != "ok" or self._paused:
            self._next_scan = self._next_index = float("inf")
            return
        if self.store.late:
            self._carry_late()
        if not busy and now >= self._next_scan:
            self.take_in(None, False, now)
        elif now >= self._next_index:
            self._index(force=False, wait_s=1.0)

    # --- presence

    def _look(self) -> None:
        self._next_look = self._clock.monotonic() + LOOK_S
        before = self._sighting
        self._sighting = sight(self.store, self._clock.wall())
        if self._sighting != before:
            self._changed_presence(before)
        if self._sighting.state == "ok" and not self._scanned and not self._paused:
            self._first_scan()
        elif self._sighting != before:
            self._publish()

    def _changed_presence(self, before: Sighting) -> None:
        if before.state != "starting" or self._sighting.state != "ok":
            level = log.info if self._sighting.state == "ok" else log.warning
            level("root", root=self.store.name, state=self._sighting.state, reason=self._sighting.reason)
        event = {"root": self.store.name, "state": self._sighting.state, "reason": self._sighting.reason}
        self._tell("root", event)
        if self._sighting.state == "ok" or before.state == "ok":
            self._scanned = False
            self._watching = False
        if not self.store.attached:
            self._hints.unwatch(self.store.name)

    def _first_scan(self) -> None:
        """The root is there and ours: watch it, put it in order, read it in."""
        self._publish(state="scanning")
        self._rewatch()
        for said in recover(self.store, self._clock.wall()):
            log.warning("recovered", root=self.store.name, what=said)
        self._scanned = True
        self._detect()
        self._migrate()
        self.take_in(None, True, self._clock.monotonic())
        self._hints.scheduled(self.store.name)

    def _rewatch(self) -> None:
        self._watching = self.store.network_fs is None and self._hints.watch(self.store.name, self.store.tree.path)

    def _detect(self) -> None:
        """`auto` looks again until exactly one layout matches, then keeps it."""
        if self.store.layout is not None:
            return
        files = self.store.tree.scan(lambda _: False).files
        names = recognise(files, lambda path: self.store.tree.read_range(path, 0, 4096))
        if len(names) == 1:
            self.store.layout = LAYOUTS[names[0]]
            self.store.journal.set_meta("layout", names[0])
            self._hints.scheduled(self.store.name)
            log.info("layout recognised", root=self.store.name, layout=names[0])
            return
        found = " and ".join(names) if names else "none"
        self._unwritten = f'{found} of the layouts fits; name it: layout = "jsonl-store"'

    def _migrate(self) -> None:
        if self.store.layout is not None and self.store.policy.mode is Mode.MAINTAIN:
            for said in migrate(self.store, self._clock.wall()):
                log.info("migrated", root=self.store.name, what=said)

    # --- reading in and indexing

    def take_in(self, paths: Collection[str] | None, deletes_seen: bool, since: float) -> tuple[str, ...]:
        """Read what changed, then bring the index up to date. Returns half-written files."""
        if self._paused or self._sighting.state != "ok":
            return ()
        if self.store.layout is None:
            self._detect()
            if self.store.layout is None:
                self._schedule_scan(self._clock.monotonic())
                self._publish()
                return ()
        began = self._clock.monotonic()
        done = refresh(self.store, paths, self._clock.wall(), deletes_seen=deletes_seen)
        if done.loss:
            suspect_loss(self.store, done.loss)
            self._next_look = 0.0
            return ()
        if done.directories is not None:
            self._scanned_all(done, began)
        self._note_changes(done, since)
        self._index(force=False, wait_s=1.0)
        return done.waiting

    def _scanned_all(self, done: Refreshed, began: float) -> None:
        now = self._clock.monotonic()
        self._scan_cost = now - began
        self._last_scan = self._clock.wall()
        self._cover(done.directories or {})
        self._schedule_scan(now)

    def _cover(self, directories: dict[str, tuple[int, int]]) -> None:
        """Count what the kernel really watches; new directories are watched anew where some are missing."""
        if not self._watching:
            self._watch = Watch("scan", len(directories), 0)
            return
        wanted, held = self._hints.coverage(self.store.name, list(directories.values()))
        if held < wanted:
            self._rewatch()
            wanted, held = self._hints.coverage(self.store.name, list(directories.values()))
        self._watch = Watch("events", wanted, held)

    def _schedule_scan(self, now: float) -> None:
        schedule = parse_schedule(self.store.policy.schedule.get("rescan", "adaptive"))
        blind = not self._watching or self._watch.held < self._watch.wanted
        if blind:
            self._next_scan = now + max(BLIND_SCAN_S, BLIND_DUTY * self._scan_cost)
        elif isinstance(schedule, Adaptive):
            self._next_scan = now + min(SCAN_MOST_S, max(SCAN_LEAST_S, DUTY * self._scan_cost))
        elif isinstance(schedule, Every):
            self._next_scan = now + schedule.seconds
        else:
            self._next_scan = float("inf")

    def _note_changes(self, done: Refreshed, since: float) -> None:
        if not (done.changed or done.gone):
            return
        self.store.index.dirty = True
        self.last_change = self._clock.monotonic()
        if self.unindexed_since is None:
            self.unindexed_since = since
        crossed, soft = note_limits(self.store)
        self.wants_limits |= soft and self.store.policy.mode is Mode.MAINTAIN
        for path in crossed:
            log.warning("hard limit reached", root=self.store.name, file=path, hint="see `memoryd status`")
            self._tell("finding", {"root": self.store.name, "code": "hard-limit", "path": path})
        self._tell("change", {"root": self.store.name, "paths": sorted(done.changed), "gone": sorted(done.gone)})

    def _index(self, *, force: bool, wait_s: float) -> Indexed:
        done = update_index(self.store, self._clock.wall(), force=force, wait_s=wait_s)
        now = self._clock.monotonic()
        self._unwritten, self._waits = done.unwritten, done.waits
        self._next_index = float("inf")
        if done.waits is None:
            if self.unindexed_since is not None or done.written:
                self._generation += 1
            self.unindexed_since = None
            self._well()
        elif done.retry_at is not None:
            self._next_index = now + max(0.05, done.retry_at - self._clock.wall())
        if done.written:
            event = {"root": self.store.name, "paths": list(done.written), "memories": done.result.memories}
            self._tell("change", {**event, "generation": self._generation, "index": True})
        self._publish()
        return done

    def sync(self, timeout_s: float) -> tuple[dict[str, Any], tuple[str, ...]]:
        """A scan that starts after the request, and its index on disk; TimeoutExpiredError when that cannot
        be had, never a stale ok."""
        began = self._clock.monotonic()
        self._require("sync")
        waiting = self.take_in(None, True, began)
        self._require("sync")
        done = self._index(force=True, wait_s=max(0.0, timeout_s - (self._clock.monotonic() - began)))
        while done.waits is not None:
            left = timeout_s - (self._clock.monotonic() - began)
            if left <= 0:
                raise TimeoutExpiredError(
                    f"root {self.store.name}: not in the index after {timeout_s:g} s: {done.waits}",
                    hint="`memoryd lock list` shows who is in the way",
                )
            done = self._index(force=True, wait_s=left)
        waited = round((self._clock.monotonic() - began) * 1000)
        result: dict[str, Any] = {"generation": self._generation, "waited_ms": waited, "written": True}
        reason = self._unwritten
        return (result | {"written": False, "reason": reason} if reason else result), waiting

    def reindex(self, *, dry_run: bool) -> dict[str, Any]:
        """Forget the catalogue and build it and the index anew from the files."""
        self._require("reindex")
        if dry_run:
            return {"plan": {"actions": []}}
        self.store.catalogue.clear()
        self.take_in(None, True, self._clock.monotonic())
        done = self._index(force=True, wait_s=self.store.policy.lock_wait_s)
        return {"plan": {"actions": []}, "memories": done.result.memories, "written": list(done.written)}

    # --- operations

    def operate(self, job: Job) -> dict[str, Any]:
        self._require(job.name)
        if job.name not in LOOKS and job.name in self.store.policy.schedule:
            require_job(self.store, job.name)
        if job.name == "check":
            self.take_in(None, True, self._clock.monotonic())
        if job.name == "verify":
            refresh(self.store, None, self._clock.wall(), verify=True)
        params = dict(job.params)
        if job.name == "locks" and job.by == "schedule":
            params["monotonic"] = self._clock.monotonic()
        result = OPERATIONS[job.name](self.store, params, job.by, self._clock.wall())
        if job.name.startswith("backup") or "receipt" in result:
            self._backups_known = False
        if "receipt" in result:
            log.info("changed", root=self.store.name, operation=job.name, receipt=result["receipt"], by=job.by)
            event = {"root": self.store.name, "operation": job.name, "receipt": result["receipt"]}
            self._tell("change", {**event, "plan": result["plan"]})
            paused_since = self.last_change
            self.take_in(None, True, self._clock.monotonic())
            self.last_change = paused_since  # our own change is no sign of writers at work
        for lock in result.get("locks", ()) if job.name in ("locks", "lock.clear") else ():
            log.warning("lock cleared", root=self.store.name, **lock)
            self._tell("health", {"root": self.store.name, "lock": lock})
        self._well()
        self._publish()
        return result

    def may_run(self, name: str, *, writes: bool) -> bool:
        """Unattended work happens only on a healthy root, and writing only in maintain mode."""
        if self._paused or self._sighting.state != "ok" or not self._scanned or self.store.layout is None:
            return False
        if name not in self.store.layout.jobs:
            return False
        blocked = self.store.policy.mode is Mode.OBSERVE or self.store.index.result.newer is not None
        return not (writes and blocked)

    def _require(self, name: str) -> None:
        if self._paused:
            raise PausedError(f"root {self.store.name} is paused", hint=f"`memoryd root resume {self.store.name}`")
        if self._sighting.state in ("missing", "failed"):
            raise RootMissingError(f"root {self.store.name}: {self._sighting.reason}", hint="see `memoryd status`")
        if self._sighting.state == "suspect" and name not in ("lock.list", "backup.list", "plan"):
            raise GuardError(f"root {self.store.name}: {self._sighting.reason}")
        if self.store.layout is None and name not in ("sync", "rescan"):
            reason = f"root {self.store.name} has no layout: {self._unwritten}"
            raise InvalidMemoryError(reason, hint="name its layout in the configuration")
        newer = self.store.index.result.newer
        if newer is not None and self.store.policy.newer_index == "read-only" and name not in LOOKS:
            raise DeniedError(f"root {self.store.name} is read-only: {self._unwritten}")

    def accept(self) -> None:
        """`root resume` on a suspect root: what is there now is right."""
        if self._sighting.state == "suspect":
            accept(self.store)
            self._next_look = 0.0

    def _carry_late(self) -> None:
        if self.store.has_late_bytes():
            with self.store.locked(0.2, honour_soft=False):
                carried = self.store.carry_over(self._clock.wall())
            log.warning("late append carried over", root=self.store.name, bytes=carried)
        else:
            self.store.carry_over(self._clock.wall())

    # --- trouble and status

    def trouble(self, error: BaseException | None) -> MemorydError:
        """A failing disk makes the root read-only, says so once, and is tried again with growing pauses."""
        reason = _reason(error)
        if reason != self._trouble:
            log.error("trouble", root=self.store.name, reason=reason)
            self._tell("health", {"root": self.store.name, "reason": reason})
        self._trouble = reason
        now = self._clock.monotonic()
        self._next_index = now + self._trouble_wait
        self._next_scan = max(now + self._trouble_wait, min(self._next_scan, now + TROUBLE_MOST_S))
        self._next_look = max(self._next_look, now + self._trouble_wait)
        self._trouble_wait = min(TROUBLE_MOST_S, self._trouble_wait * 2)
        self._publish_safely()
        return DeniedError(
            f"root {self.store.name}: {reason}",
            hint="nothing was changed; memoryd tries again by itself",
        )

    def _well(self) -> None:
        if self._trouble is not None:
            log.info("recovered from trouble", root=self.store.name)
        self._trouble, self._trouble_wait = None, TROUBLE_FIRST_S

    def _layout_name(self) -> str | None:
        return self.store.layout.name if self.store.layout else None

    def _state(self) -> tuple[str, tuple[str, ...]]:
        """The worst that is true, with every reason."""
        if self._paused:
            return "paused", ("paused by command",)
        if self._sighting.state != "ok":
            return self._sighting.state, (self._sighting.reason or "",)
        if self._trouble is not None:
            return "read_only", (self._trouble,)
        if self.store.index.result.newer is not None and self._unwritten:
            return "read_only", (self._unwritten,)
        reasons = self._degradations()
        return ("degraded" if reasons else "ok"), tuple(reasons)

    def _degradations(self) -> list[str]:
        reasons: list[str] = []
        if self.store.layout is None:
            reasons.append(self._unwritten or "no layout is known")
        if self.store.network_fs is not None:
            reasons.append(f"on {self.store.network_fs} changes of other machines make no events: timed scans")
        elif not self._watching:
            reasons.append(f"the directory cannot be watched, timed scans: {self._hints.limit_hint()}")
        elif self._watch.held < self._watch.wanted:
            short = f"{self._watch.held} of {self._watch.wanted} directories are watched, the rest by timed scans"
            reasons.append(f"{short}: {self._hints.limit_hint()}")
        stale = self.unindexed_since
        if self._waits and stale is not None and self._clock.monotonic() - stale > 3:
            reasons.append(f"the index waits: {self._waits}")
        return reasons

    def _publish_safely(self) -> None:
        try:
            self._publish()
        except (OSError, sqlite3.Error, MemorydError) as error:
            log.debug("status is incomplete", root=self.store.name, error=str(error))

    def _publish(self, state: str | None = None) -> None:
        store, result = self.store, self.store.index.result
        found, reasons = self._state()
        files, size = store.catalogue.totals()
        reachable = store.attached and store.layout is not None
        if reachable and not self._backups_known:
            self._backups_known = True
            self._backups = self._backup_summary()
        locks = tuple(r.public() for r in list_locks(store, self._clock.wall())) if reachable else ()
        self.status = RootStatus(
            name=store.name,
            path=store.path,
            layout=self._layout_name(),
            mode=str(store.policy.mode),
            state=state or found,
            reasons=reasons,
            memories=result.memories,
            archived=result.archived,
            files=files,
            bytes=size,
            findings=finding_counts(store),
            watch=self._watch,
            last_scan=self._last_scan,
            rescans=tuple(self.doubts),
            generation=self._generation,
            locks=locks,
            limits=tuple(level.public() for level in limit_levels(store)),
            backups=self._backups,
        )

    def _backup_summary(self) -> dict[str, Any]:
        found = [each for each in list_backups(self.store, self._clock.wall()) if not each.beside]
        taken = [each.taken for each in found if each.taken is not None]
        return {"count": len(found), "newest": max(taken, default=None)}


def _reason(error: BaseException | None) -> str:
    if isinstance(error, OSError) and error.errno in DISK_TROUBLE:
        place = f" ({error.filename})" if isinstance(error.filename, str) else ""
        return f"the disk refuses: {error.strerror}{place}"
    if isinstance(error, MemorydError):
        return error.message
    return str(error) if error is not None else "an unexpected error, see the log"
