"""The published status of a root: an immutable value that any thread may read, and how it is made.

A new member also needs its field in `control.methods.status`, its row in `service.report` and its line in
`cli.views_status`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct, field
from msgspec.structs import replace

from memoryd.control.methods.status import Counts, LimitRow
from memoryd.control.methods.upkeep import LockRow
from memoryd.core.defaults import Mode
from memoryd.core.findings import Finding
from memoryd.core.records import Role
from memoryd.engine.health import STATUS_TOPIC, Health
from memoryd.engine.interfaces import Clock
from memoryd.engine.watch import WatchState
from memoryd.errors import MemorydError
from memoryd.log import get_logger
from memoryd.operations.backup import NO_BACKUPS, BackupSummary, count_backups
from memoryd.operations.check import finding_counts
from memoryd.operations.limits import limit_rows
from memoryd.operations.locks import list_locks, lock_row
from memoryd.store import Store

log = get_logger(__name__)

PUBLISH_EVERY_S = 0.25  # while every file of a root is being read
PUBLISH_COST = 20  # and no more often than a twentieth of the time allows
LOG_EVERY_S = 5.0


class RootStatus(Struct, frozen=True):
    """One look at a root. `rescans` are the last scans made because events may have been lost: when, why."""

    name: str
    path: str
    layout: str | None
    mode: str
    state: str = "starting"
    reasons: tuple[str, ...] = ()
    memories: int = 0
    archived: int = 0
    files: int = 0
    bytes: int = 0
    findings: Counts = field(default_factory=Counts)
    watch: WatchState = field(default_factory=WatchState)
    last_scan: float | None = None
    rescans: tuple[tuple[float, str], ...] = ()
    generation: int = 0
    locks: tuple[LockRow, ...] = ()
    limits: tuple[LimitRow, ...] = ()
    unread: tuple[str, ...] = ()  # files that are too large or cannot be read
    backups: BackupSummary = NO_BACKUPS


class Publisher:
    """Builds the status. Set `backups_known` to False if a backup may have come or gone: they are counted again."""

    def __init__(self, store: Store, clock: Clock, health: Health) -> None:
        self._store = store
        self._clock = clock
        self._health = health
        self._backups = NO_BACKUPS
        self.backups_known = False
        self.last_scan: float | None = None
        self.generation = 0

    def first(self) -> RootStatus:
        """Return the status before anything was looked at."""
        return RootStatus(self._store.name, self._store.path, self._layout(), self._mode())

    def make(self) -> RootStatus:
        """Return the current status."""
        store, result = self._store, self._store.index.result
        locks = self._look()
        found, reasons = self._health.state()
        files, size = store.catalogue.totals()
        return RootStatus(
            name=store.name,
            path=store.path,
            layout=self._layout(),
            mode=self._mode(),
            state=found,
            reasons=reasons,
            memories=result.memories,
            archived=result.archived,
            files=files,
            bytes=size,
            findings=finding_counts(store),
            watch=self._health.watch.state,
            last_scan=self.last_scan,
            rescans=tuple(self._health.doubts),
            generation=self.generation,
            locks=locks,
            limits=limit_rows(store),
            unread=tuple(each.path for each in store.root_findings.get("unread", ())),
            backups=self._backups,
        )

    def condition(self, before: RootStatus) -> RootStatus:
        """Return a status with the current condition, which needs no index. The rest stays as it was."""
        found, reasons = self._health.state()
        return replace(before, state=found, reasons=reasons)

    def counted(self, before: RootStatus) -> RootStatus:
        """Return a status with the numbers of what can be found by now, at little cost. The rest stays as it was.
        Memories that a flag archives are counted with the index files: until then there are at least as many as before.
        """
        totals = self._store.catalogue.totals_by_role()
        in_archives = totals[Role.ARCHIVE].records if Role.ARCHIVE in totals else 0
        archived = max(in_archives, before.archived)
        return replace(
            before,
            memories=sum(each.records for each in totals.values()) - archived,
            archived=archived,
            files=sum(each.files for each in totals.values()),
            bytes=sum(each.size for each in totals.values()),
            findings=finding_counts(self._store),
        )

    def scanning(self, before: RootStatus) -> RootStatus:
        """Return a status with what has been read so far, at little cost. Until a layout is recognised there are no
        reasons: that none is known yet is no trouble."""
        return replace(
            self.counted(before),
            layout=self._layout(),
            mode=self._mode(),
            state="scanning",
            reasons=() if self._store.layout is None else self._health.state()[1],
            watch=self._health.watch.state,
        )

    def _look(self) -> tuple[LockRow, ...]:
        """Return the locks, and count the backups where they may have changed. A failure is reported, and must not keep
        the status from being published."""
        store = self._store
        store.root_findings[STATUS_TOPIC] = ()
        if not store.attached or store.layout is None:
            return ()
        try:
            if not self.backups_known:
                self._backups = count_backups(store, self._clock.wall())
                self.backups_known = True
            names = [rule.name for rule in store.file_rules.locks]
            if not store.root_findings.get("locks") and all(store.tree.stat(name) is None for name in names):
                return ()  # mostly no lock file is there
            return tuple(lock_row(report) for report in list_locks(store, self._clock.wall()))
        except (OSError, MemorydError) as error:
            message = f"locks and backups cannot be listed: {error}"
            store.root_findings[STATUS_TOPIC] = (Finding("unreadable", "", message),)
            return ()

    def _mode(self) -> str:
        return str(Mode.OBSERVE if self._store.observes else self._store.policy.mode)

    def _layout(self) -> str | None:
        return self._store.layout.name if self._store.layout else None


class ProgressReporter:
    """Reports long work of one root while it goes on: counts that grow in the status, and a line in the log every few
    seconds. `publish` shows the root as being scanned. Used by the thread that owns the root."""

    def __init__(self, store: Store, clock: Clock, publish: Callable[[], None]) -> None:
        self._store = store
        self._clock = clock
        self._publish = publish
        self._reading_all = False  # for the first time, or anew: the counts are not complete
        self._published = self._logged = 0.0
        self._pause_s = PUBLISH_EVERY_S
        store.progress.observer = self._advanced

    @contextmanager
    def reading_all(self) -> Iterator[None]:
        """Show the root as being scanned while the block reads every file."""
        self._reading_all = True
        try:
            yield
        finally:
            self._reading_all = False

    def _advanced(self) -> None:
        progress, now = self._store.progress.current(), self._clock.monotonic()
        if progress is None:
            return
        began = now - progress.elapsed_s
        if self._reading_all and now - max(began, self._published) >= self._pause_s:
            self._publish()
            self._published = self._clock.monotonic()
            self._pause_s = max(PUBLISH_EVERY_S, (self._published - now) * PUBLISH_COST)
        if now - max(began, self._logged) >= LOG_EVERY_S:
            self._logged = now
            amounts = {"done": progress.done, "total": progress.total, "unit": progress.unit}
            left = {} if progress.left_s is None else {"left_s": round(progress.left_s, 1)}
            log.info(progress.step, root=self._store.name, percent=progress.percent, **amounts, **left)
