"""Making the status value of a root from what is known of it."""

from __future__ import annotations

from typing import Any

from memoryd.core.policy import Mode
from memoryd.engine.clock import Clock
from memoryd.engine.health import Health
from memoryd.engine.status import RootStatus
from memoryd.errors import MemorydError
from memoryd.log import get_logger
from memoryd.operations.backup import count_backups
from memoryd.operations.check import finding_counts
from memoryd.operations.limits import shown_levels
from memoryd.operations.locks import list_locks
from memoryd.store import Store

log = get_logger(__name__)


class Publisher:
    """`backups_known` is set to False where a backup may have come or gone: they are counted again."""

    def __init__(self, store: Store, clock: Clock, health: Health) -> None:
        self._store = store
        self._clock = clock
        self._health = health
        self._backups: dict[str, Any] = {"count": 0, "newest": None}
        self.backups_known = False
        self.last_scan: float | None = None
        self.generation = 0

    def first(self) -> RootStatus:
        """Before anything was looked at."""
        return RootStatus(self._store.name, self._store.path, self._layout(), self._mode())

    def make(self, state: str | None = None) -> RootStatus:
        """`state` overrides the found one, as while the first scan runs."""
        store, result = self._store, self._store.index.result
        found, reasons = self._health.state()
        files, size = store.catalogue.totals()
        locks = self._look()
        return RootStatus(
            name=store.name,
            path=store.path,
            layout=self._layout(),
            mode=self._mode(),
            state=state or found,
            reasons=reasons,
            memories=result.memories,
            archived=result.archived,
            files=files,
            bytes=size,
            findings=finding_counts(store),
            watch=self._health.watch,
            last_scan=self.last_scan,
            rescans=tuple(self._health.doubts),
            generation=self.generation,
            locks=locks,
            limits=shown_levels(store),
            backups=self._backups,
        )

    def _look(self) -> tuple[dict[str, Any], ...]:
        """The locks, and the backups where they may have changed. What cannot be looked at must not keep the
        state from being told that says so."""
        store = self._store
        if not store.attached or store.layout is None:
            return ()
        try:
            if not self.backups_known:
                self._backups = count_backups(store, self._clock.wall())
                self.backups_known = True
            return tuple(report.public() for report in list_locks(store, self._clock.wall()))
        except (OSError, MemorydError) as error:
            log.debug("status is incomplete", root=store.name, error=str(error))
            return ()

    def _mode(self) -> str:
        return str(Mode.OBSERVE if self._store.observes else self._store.policy.mode)

    def _layout(self) -> str | None:
        return self._store.layout.name if self._store.layout else None
