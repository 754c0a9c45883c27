"""The catalogue and index files of one root: reading changed files, and writing what differs.

What was found and written is returned; what it means for the root (health, deadlines, events) is decided there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

from memoryd.engine.interfaces import Clock
from memoryd.log import get_logger
from memoryd.operations.index_files import IndexUpdate, update_index
from memoryd.operations.memories import restore_lost_writes
from memoryd.operations.overwrites import RetriedWrite
from memoryd.operations.recognition import LayoutMismatch, layout_mismatch
from memoryd.operations.refresh import RefreshResult, refresh
from memoryd.store import Store

log = get_logger(__name__)

DELETE_EVENT_S = 1.0  # a rename out of the root is told half a second late (the library pairs moves)


class Indexer:
    """The indexer of one root. Used by the thread that owns the root, except `note_delete`. `before_write` is called
    before an index file is written, and may raise."""

    def __init__(self, store: Store, clock: Clock, before_write: Callable[[], None]) -> None:
        self._store = store
        self._clock = clock
        self._before_write = before_write
        self._deleted = threading.Event()
        self._fits = False  # the layout is known to fit the files

    def note_delete(self) -> None:
        """Note a deletion, so that a scan that misses files raises no alarm. For any thread."""
        self._deleted.set()

    def forget_fit(self) -> None:
        """Check anew whether the layout fits: the root was away."""
        self._fits = False

    def read(
        self, paths: Collection[str] | None, *, watching: bool, verify: bool = False, tails: bool = False
    ) -> RefreshResult:
        """Read what changed into the catalogue (None: look at everything). `verify` also reads what looks unchanged;
        `tails` reads only the appended end of a file. If files are gone without an event, and the root is watched
        (`watching`), wait a moment for one."""
        store, wall = self._store, self._clock.wall
        seen = self._deleted.is_set()
        done = refresh(store, paths, wall(), verify=verify, tails=tails, deletions_observed=seen)
        if done.loss and watching and self._deleted.wait(DELETE_EVENT_S):
            seen = True  # the event arrived during the scan
            done = refresh(store, paths, wall(), verify=verify, deletions_observed=True)
        if seen and paths is None:
            self._deleted.clear()
        return done

    def restore_lost(self) -> list[RetriedWrite]:
        """Store again what an agent overwrote with an older state. Returns an event for each. A failing disk leaves it
        for the next time."""
        return list(restore_lost_writes(self._store, self._clock.wall())) if self._store.recent_changes.lost else []

    def wants_fit(self, *, everything: bool) -> bool:
        """True if the configured layout still has to be checked. `everything`: all files have just been scanned."""
        store = self._store
        return not self._fits and store.guess_reason is None and (store.foreign_reason is None or everything)

    def check_fit(self) -> LayoutMismatch | None:
        """Return the mismatch with the configured layout, if any. The check is settled once there is none and a memory
        could be read."""
        found = layout_mismatch(self._store)
        self._fits = found is None and self._store.catalogue.has_records()
        return found

    def write(self, *, force: bool, wait_s: float) -> IndexUpdate:
        """Write the index files that differ from the catalogue. `force` does not wait for quiet; `wait_s` is how long
        to wait for the lock."""
        now = self._clock.wall()
        return update_index(self._store, now, force=force, wait_s=wait_s, before_write=self._before_write)
