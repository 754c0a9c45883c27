"""The watch of a root: whether events report every change in it, or only scans find some."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from memoryd.engine.interfaces import Watcher
from memoryd.store import Store

BARRIER_S = 0.5  # how long a sync waits for the event that follows all others, before it scans instead


class WatchState(Struct, frozen=True):
    """The watch state of a root: `mode` is events or scan; wanted and held count directories, 0 until the first scan
    has found them."""

    mode: str = "scan"
    wanted: int = 0
    held: int = 0


class Watch:
    """The watch of one root. Written by the thread that owns the root."""

    def __init__(self, store: Store, watcher: Watcher) -> None:
        self._store = store
        self._watcher = watcher
        self.active = False
        self.state = WatchState()
        self._renewed = False  # after the last scan: what changed in between caused no event
        self.linked = False  # some file has a further name: a change through that one causes no event here

    @property
    def is_complete(self) -> bool:
        """True if events have covered every directory since the last scan."""
        return self.active and self.state.held >= self.state.wanted and not self._renewed

    @property
    def sees_every_change(self) -> bool:
        """True if every change since the last scan has caused an event."""
        is_known = self._store.layout is not None and not self._store.index.needs_scan
        return self.is_complete and not self.linked and is_known

    def await_events(self) -> bool:
        """Wait for the events from before this call. True if these name every change since the last scan."""
        return self.sees_every_change and self._watcher.barrier(BARRIER_S)

    def renew(self) -> None:
        """Set up watching anew, if the file system reports changes."""
        watchable = self._store.network_fs is None
        self.active = watchable and self._watcher.watch(self._store.name, self._store.tree.path)
        self.state = WatchState("events" if self.active else "scan")

    def count(self, directories: Mapping[str, tuple[int, int]]) -> None:
        """Count the watches that the kernel really has, after a scan that found these directories. A root with gaps is
        watched anew once and soon scanned again; so is one that could not be watched."""
        name = self._store.name
        self._renewed = False
        if not self.active:  # the limit that was in the way may have been raised
            self.renew()
            self._renewed = self.active
        if not self.active:
            self.state = WatchState("scan", len(directories), 0)
            return
        wanted, held = self._watcher.coverage(name, directories)
        # The event of a directory made just now may be on its way.
        if held < wanted and self._watcher.barrier(BARRIER_S):
            wanted, held = self._watcher.coverage(name, directories)
        if held < wanted:
            self.renew()
            self._renewed = True
            wanted, held = self._watcher.coverage(name, directories)
        self.state = WatchState("events", wanted, held)

    def gap(self) -> str | None:
        """Return which changes are only found by scans, and why; None if events report all of them."""
        store, state = self._store, self.state
        if store.network_fs is not None:
            return f"{store.network_fs} reports no changes made on other machines; scanning periodically"
        if not self.active and (store.layout is not None or store.too_wide is None):
            return f"cannot watch the directory; scanning periodically: {self._watcher.limit_hint()}"
        if state.held >= state.wanted:
            return None
        short = f"{state.held} of {state.wanted} directories are watched; scanning the rest periodically"
        return f"{short}: {self._watcher.limit_hint()}"
