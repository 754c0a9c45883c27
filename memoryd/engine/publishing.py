"""Making the status value of a root from what is known of it."""

from __future__ import annotations

from typing import Any

from memoryd.engine.clock import Clock
from memoryd.engine.health import Health
from memoryd.engine.status import RootStatus
from memoryd.operations.backup import count_backups
from memoryd.operations.check import finding_counts
from memoryd.operations.limits import limit_levels
from memoryd.operations.locks import list_locks
from memoryd.store import Store


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
        return RootStatus(self._store.name, self._store.path, self._layout(), str(self._store.policy.mode))

    def make(self, state: str | None = None) -> RootStatus:
        """`state` overrides the found one, as while the first scan runs."""
        store, result = self._store, self._store.index.result
        found, reasons = self._health.state()
        files, size = store.catalogue.totals()
        reachable = store.attached and store.layout is not None
        if reachable and not self.backups_known:
            self.backups_known = True
            self._backups = count_backups(store, self._clock.wall())
        locks = tuple(r.public() for r in list_locks(store, self._clock.wall())) if reachable else ()
        return RootStatus(
            name=store.name,
            path=store.path,
            layout=self._layout(),
            mode=str(store.policy.mode),
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
            limits=tuple(level.public() for level in limit_levels(store)),
            backups=self._backups,
        )

    def _layout(self) -> str | None:
        return self._store.layout.name if self._store.layout else None
