"""One root: its presence, what is read of it and indexed, and its due work. `commands` has what it is asked for.

The root owns its health and its deadlines; indexer, memories and backfill return what they did, and only the root acts
on it. Used by the thread that owns the root, except `status`, `cares_for`, `note_delete`, `health.paused`,
`health.doubts` and `health.has_moved`, which are for any thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress

from memoryd.core.records import Role
from memoryd.engine.backfill import Backfill, VectorsDue
from memoryd.engine.deadlines import CALM_LOOK_S, LATE_S, LOOK_S, MIN_SCAN_S, NEVER, Deadlines
from memoryd.engine.finding_reports import FindingReports
from memoryd.engine.health import Health
from memoryd.engine.indexer import Indexer
from memoryd.engine.interfaces import Clock, Tell, Timetable, Watcher
from memoryd.engine.memories import Memories
from memoryd.engine.status import ProgressReporter, Publisher
from memoryd.errors import InvalidMemoryError, MemorydError, ShuttingDownError
from memoryd.layouts.registry import LAYOUTS
from memoryd.log import get_logger
from memoryd.operations.file_versions import save_versions
from memoryd.operations.index_files import IndexUpdate
from memoryd.operations.migrate import recover_and_migrate
from memoryd.operations.recognition import no_layout_reason, recognise_root
from memoryd.operations.refresh import RefreshResult
from memoryd.operations.root_check import RootCheck, accept_all, check_root, mark_suspect
from memoryd.search.embedding.embedder import Embedder
from memoryd.store import Store
from memoryd.store.late_writes import LATE_WRITES_TOPIC

log = get_logger(__name__)

_REPORTED_ROLES = (Role.SOURCE, Role.ARCHIVE, Role.INDEX)
INDEX_WAIT_S = 1.0  # for the lock if no client waits for the index; then it is retried


class Root:
    """One watched directory and everything that runs on it. `last_change` is when (monotonic) another program changed
    something; `wants_limits`: a file is above a soft limit; `unsettled`: files to read once the root has
    settled: those that memoryd changed, and those that a scan found half-written or in doubt."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        watcher: Watcher,
        timetable: Timetable,
        tell: Tell,
        *,
        embedder: Embedder | None = None,
    ) -> None:
        self.store = store
        self._clock = clock
        self._watcher = watcher
        self._timetable = timetable
        self._tell = tell
        self.health = Health(store, clock, watcher, tell)
        self.deadlines = Deadlines()
        self._indexer = Indexer(store, clock, self.recover_once)
        self.backfill = Backfill(store, clock, embedder)
        self._reports = FindingReports(store, tell)
        self._publisher = Publisher(store, clock, self.health)
        self.memories = Memories(store, clock, tell, self.health, self.scan, self.index_own)
        self._scanned = self._recovered = False
        self._progress = ProgressReporter(store, clock, self._publish_scanning)
        self.last_change = clock.monotonic() - 1e6
        self.wants_limits = False
        self.unsettled: set[str] = set()
        self.status = self._publisher.first()

    # --- for other threads

    def cares_for(self, path: str) -> bool:
        """True if a change of this path matters: not for our own temporary files, locks and unknown files."""
        if self.store.layout is None:
            roles = (layout.reader.role(path) for layout in LAYOUTS.values())
            return not self.store.is_ignored(path) and any(role in _REPORTED_ROLES for role in roles)
        role = self.store.role(path)
        if role is Role.BACKUP:
            self.note_backups()
        return role in _REPORTED_ROLES

    def note_delete(self, path: str | None) -> None:
        """Note a deletion: a scan then expects missing files, and the index waits for more deletions."""
        role = self.store.role(path) if path is not None and self.store.layout is not None else None
        if role is Role.SOURCE:
            self.store.index.deletion_event = self._clock.wall()
        if role is not Role.INDEX:  # whose name goes and comes back with each of our own writes
            self._indexer.note_delete()

    # --- start, end and what is due

    def begin(self) -> None:
        """Begin to watch, scan, and become ready."""
        for name in self.store.journal.jobs.fail_interrupted():
            log.warning("job was cut off", root=self.store.name, job=name)
        self.look()

    def end(self) -> None:
        """Write what still waits, and close the store."""
        self.memories.end()
        if save_versions(self.store, self._clock.wall()):
            self._reports.report_new()
        self.store.close()

    def next_due(self) -> float:
        """Return when (monotonic) `on_timer` has something to do. For any thread."""
        due = self.deadlines.next_due()
        return min(due, self.memories.next_due(), self.backfill.next_due) if self.health.is_active else due

    def on_timer(self) -> None:
        """Run what is due: check the path, merge late appends, scan, or write a delayed index."""
        now = self._clock.monotonic()
        if now >= self.deadlines.look:
            self.look()
        if not self.health.is_active:
            self.deadlines.rest()
            return
        if not self.health.is_calm:
            self.deadlines.look = min(self.deadlines.look, now + LOOK_S)
        self._merge_late(now)
        self.memories.run_due(now)
        self.backfill.run(now)
        if self.backfill.trouble != self.health.without_vectors:
            self.publish()
        self.deadlines.merge_fulltext(now, self.store.catalogue)
        if now >= self.deadlines.scan:
            self.unsettled.update(self.process(None, now))
        elif now >= self.deadlines.index:
            self._try_again()

    def _merge_late(self, now: float) -> None:
        """Append to the live files what was written to replaced inodes."""
        reported = self.store.root_findings.get(LATE_WRITES_TOPIC, ())
        if not self.store.late_writes.waiting and not reported:  # a commit releases inodes, but keeps the findings
            self.deadlines.late = NEVER
        elif now >= self.deadlines.late:
            self.deadlines.late = now + LATE_S
            carried = self.store.merge_late_writes(self._clock.wall())
            if carried:
                log.warning("late append carried over", root=self.store.name, bytes=carried)
            if self.store.root_findings[LATE_WRITES_TOPIC] != reported:
                self.publish()

    # --- presence and layout

    def look(self) -> None:
        """Check whether the root is there and the one we know; the first time it is, scan it."""
        self.store.lock_trace.close_removed()
        self.deadlines.look = self._clock.monotonic() + LOOK_S
        before, opened = self.health.check, self.store.attachments
        self.health.check = check_root(self.store, self._clock.wall())
        if self.health.check != before or self.store.attachments != opened:
            self._presence_changed(before)
        blocked = self.health.note_blocked(self.store.blocked() if self.health.is_active else None)
        if self.health.is_active and not self._scanned:
            self._first_scan()
        elif blocked or self.health.check != before or self.health.paused != (self.status.state == "paused"):
            self.publish()
        if self.health.is_calm:
            self.deadlines.look = self._clock.monotonic() + CALM_LOOK_S

    def _presence_changed(self, before: RootCheck) -> None:
        now = self.health.check
        if before.state != "starting" or now.state != "ok":
            tell = log.info if now.state == "ok" else log.warning
            tell("root", root=self.store.name, state=now.state, reason=now.reason)
        self._tell("root", {"root": self.store.name, "state": now.state, "reason": now.reason})
        if "ok" in (now.state, before.state):
            self._scanned = self._recovered = self.health.watch.active = False
            self._indexer.forget_fit()
        if not self.store.attached:
            self._watcher.unwatch(self.store.name)

    def _first_scan(self) -> None:
        """Watch the root, recover it, and read everything."""
        if self.store.layout is not None or self.store.too_wide is None:
            self.health.watch.renew()  # before anything is told: what is not watched yet would look like what cannot be
        self._publish_scanning()
        self._scanned = True
        self.recognise()
        self._timetable.scheduled(self.store.name)
        try:
            self.recover_once()
        except (OSError, MemorydError) as error:
            self.trouble(error)  # what is there can be read all the same
        self.read_anew()
        if self.health.reason is not None and self.deadlines.index == NEVER:
            self.deadlines.index = self._clock.monotonic()  # trouble from before the root was away may be over
        if self.store.layout is not None and self.health.is_active:
            self.wants_limits |= self._reports.report_limits()  # they may be new where no file is
        self.publish()

    def recognise(self) -> None:
        """Look for the layout if it is not known."""
        if self.store.layout is not None:
            return
        began = self._clock.monotonic()
        seen = recognise_root(self.store)
        if seen.layout is not None:
            self._timetable.scheduled(self.store.name)
        else:
            self.health.index_blocked_reason = no_layout_reason(self.store.path, seen)
            self.deadlines.not_detected(began, self._clock.monotonic())

    def recover_once(self) -> None:
        """Recover the root before the first write; on a disk that refuses writes this is tried again before each one.
        Raises the error of the disk, and BusyError where a migration finds no gap between the writers."""
        if not self._recovered:
            self._recovered = recover_and_migrate(self.store, self._clock.wall())
            self.deadlines.late = self._clock.monotonic()

    def is_served(self) -> bool:
        """True if the root is active, and its path still refers to the open directory."""
        return self.health.is_active and self.store.is_in_place()

    def pause(self) -> None:
        """Stop reading and writing until the root is resumed, also after a restart."""
        self.health.pause(paused=True)
        self.memories.catch_up()
        self.publish()

    def resume(self) -> None:
        """Go on after a pause, and accept a suspect root as it is now."""
        self.health.pause(paused=False)
        if self.health.check.state == "suspect":
            accept_all(self.store)
        self._scanned = False
        self.look()

    def confirm(self) -> None:
        """Confirm the recognised layout: memoryd may write from now on."""
        self.look()
        self.health.require("sync")
        if self.store.layout is None:
            raise InvalidMemoryError(
                f"root {self.store.name} has no layout to confirm: {self.health.index_blocked_reason}",
                hint="name its layout in the configuration",
            )
        if self.store.guess_reason is None:
            return
        self.store.confirm()
        log.info("layout confirmed", root=self.store.name, layout=self.store.layout.name)
        self.store.index.dirty, self._recovered = True, False
        self._timetable.scheduled(self.store.name)
        self.unsettled.update(self.process(None, self._clock.monotonic()))

    # --- reading and the index

    def process(self, paths: Collection[str] | None, since: float, *, verify: bool = False) -> tuple[str, ...]:
        """Read what changed (None: anywhere), then update the index. Returns half-written files, to be read again.
        `since`: when (monotonic) the first change was hinted at; `verify` also reads what looks unchanged."""
        waiting = self.read(paths, since, verify=verify)
        if waiting is None:
            return ()
        self.write_index(force=False, wait_s=INDEX_WAIT_S)
        if save_versions(self.store, self._clock.wall(), backup_follows=self.health.backs_up):
            self.publish()
        if self.store.unsaved_versions.states():  # the next scan tries again
            self.deadlines.scan = min(self.deadlines.scan, self._clock.monotonic() + MIN_SCAN_S)
        return waiting

    def read(
        self, paths: Collection[str] | None, since: float, due: VectorsDue = VectorsDue.AT_ONCE, *, verify: bool = False
    ) -> tuple[str, ...] | None:
        """Read what changed, as `process` does. None if the root cannot be read now."""
        if not self.health.is_active:
            return None
        self.memories.catch_up()
        if self.store.layout is None and not self.deadlines.may_detect(self._clock.monotonic()):
            return None
        self.recognise()
        if self.store.layout is None:
            self._schedule_scan(self._clock.monotonic())
            self.publish()
            return None
        began = self._clock.monotonic()
        done = self._indexer.read(paths, watching=self.health.watch.active, verify=verify)
        if done.loss:
            mark_suspect(self.store, done.loss)
            self.look()
            return None
        if done.directories is not None:
            self._note_scan(done.directories, began)
        self._note_changes(done, since, due)
        for write in self._indexer.restore_lost():
            self._reports.report_retried(write)
        if self._indexer.wants_fit(everything=paths is None):
            self.health.note_fit(self._indexer.check_fit())
        return done.waiting

    def index_for_search(self, paths: Collection[str], since: float) -> None:
        """Read files that have just been closed. The index files follow once the root has settled."""
        if self.health.is_active and self._scanned and self.store.layout is not None:
            self.memories.catch_up()
            done = self._indexer.read(paths, watching=self.health.watch.active, tails=True)
            self._note_changes(done, since, VectorsDue.AFTER_SEARCH)

    def _note_scan(self, directories: Mapping[str, tuple[int, int]], began: float) -> None:
        """After a full scan: count the watches, and set the time of the next one."""
        now = self._clock.monotonic()
        self._publisher.last_scan = self._clock.wall()
        self.deadlines.scanned(began, now)
        self.health.watch.count(directories)
        self._schedule_scan(now)

    def _schedule_scan(self, now: float) -> None:
        schedule = self.store.policy.schedule.get("rescan", "adaptive")
        self.deadlines.schedule_scan(now, schedule, reliable=self.health.may_scan_seldom)

    def _note_changes(self, done: RefreshResult, since: float, vectors: VectorsDue = VectorsDue.AT_ONCE) -> None:
        self.health.watch.linked = done.linked or (self.health.watch.linked and done.directories is None)
        if not (done.changed or done.deleted):
            return
        self.last_change = self._clock.monotonic()
        self.wants_limits |= self._reports.report_limits()
        self.health.note_changes(done, since)
        if done.directories is not None:  # probably many: they can be found now, and index files and vectors follow
            self.status = self._publisher.counted(self.status)
            vectors = VectorsDue.AFTER_SEARCH
        self.backfill.notify(vectors)

    def write_index(self, *, force: bool, wait_s: float) -> IndexUpdate:
        """Write the index files that differ, and note what became of them. `force` does not wait for quiet; `wait_s` is
        how long to wait for the lock."""
        done = self._indexer.write(force=force, wait_s=wait_s)
        if self.health.note_index(done):
            self._publisher.generation += 1
        if self.health.reason is None:  # else the next try stays set
            self.deadlines.index = NEVER
        if done.retry_at is not None:
            self.deadlines.index = self._clock.monotonic() + max(0.05, done.retry_at - self._clock.wall())
        if done.written:
            event = {"root": self.store.name, "paths": list(done.written), "memories": done.result.memories}
            self._tell("change", {**event, "generation": self._publisher.generation, "index": True})
        self.publish()
        return done

    def _try_again(self) -> None:
        """Write an index that had to wait. A disk that refused is trusted again once it accepts a write, even if none
        is due. Raises OSError while it does not."""
        self.deadlines.index = NEVER
        if self.store.layout is not None:
            self.write_index(force=False, wait_s=INDEX_WAIT_S)
        if self.health.reason is not None:
            self.recover_once()
            self.health.probe_disk()
            self.health.note_recovery()
            self.publish()

    def read_anew(self) -> None:
        """Read every file for the first time, or anew, and show meanwhile how far that is."""
        with self._progress.reading_all():
            self.unsettled.update(self.process(None, self._clock.monotonic()))

    def scan(self, *, verify: bool = False) -> None:
        """Find what changed anywhere, for a command; an index that cannot be written now follows later."""
        try:
            self.process(None, self._clock.monotonic(), verify=verify)
        except OSError as error:
            self.trouble(error)

    def index_own(self, paths: Collection[str]) -> None:
        """Read files that memoryd has just changed. A failure is noted and retried: the change itself succeeded."""
        self.deadlines.late = self._clock.monotonic() + LATE_S
        try:
            if self.health.check.state == "ok":  # else it is not known whose files these are: a scan follows
                with self._own_change():
                    done = self._indexer.read(paths, watching=self.health.watch.active)
                    self._note_changes(done, self._clock.monotonic())
        except (OSError, MemorydError) as error:
            self.trouble(error)
        self.note_backups()
        self.unsettled.update(paths)

    def read_own_change(self) -> None:
        """Read at once what a command has just changed anywhere; it is no sign of other writers."""
        self.deadlines.late = self._clock.monotonic() + LATE_S
        self._indexer.note_delete()
        with self._own_change(), suppress(ShuttingDownError):  # the next start reads it; the change was made
            self.scan()

    def make_deferred_vectors(self) -> None:
        """Make the vectors that a sync left. A failure is no failure of what comes next: they are tried again."""
        try:
            self.backfill.make_deferred()
        except OSError as error:
            self.trouble(error)

    @contextmanager
    def _own_change(self) -> Iterator[None]:
        """Keep `last_change`: what changes within is our own work."""
        before = self.last_change
        try:
            yield
        finally:
            self.last_change = before

    # --- trouble and status

    def trouble(self, error: BaseException | None) -> MemorydError:
        """Make the root read-only while its disk fails, and retry with growing pauses. Returns the worded error."""
        before, now = self.health.reason, self._clock.monotonic()
        worded, pause = self.health.trouble(error)
        self.deadlines.hold_off(now, pause, looks=not pause or self.health.reason != before)
        try:
            self.publish()
        except (OSError, MemorydError) as broken:  # the index cannot be read, perhaps that is the trouble
            log.debug("status is incomplete", root=self.store.name, error=str(broken))
            self.status = self._publisher.condition(self.status)
        return worded

    def note_backups(self) -> None:
        """Note that a backup may have come or gone."""
        self._publisher.backups_known = False

    def publish(self) -> None:
        """Publish the status, and report new findings."""
        self.health.without_vectors = self.backfill.trouble
        self.status = self._publisher.make()
        self.health.note_state(self.status.state, self.status.reasons)
        self._reports.report_new()

    def _publish_scanning(self) -> None:
        self.status = self._publisher.scanning(self.status)
