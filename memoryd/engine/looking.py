"""Looking at the root: is it there, what does it look like, how well is it watched, when is the next look due.

Every time here is monotonic. A full scan is the truth; how often it is made follows what it costs and how far
events can be relied on."""

from __future__ import annotations

from memoryd.core.schedule import Adaptive, Every, parse_schedule
from memoryd.engine.clock import Clock
from memoryd.engine.health import TROUBLE_MOST_S, Health
from memoryd.engine.hints import Hints
from memoryd.engine.status import Watch
from memoryd.store import Store

LOOK_S = 2.0  # between two looks at the root's path
DUTY = 2000.0  # a full scan may take one part in this of the time: 0.05 %
SCAN_LEAST_S, SCAN_MOST_S = 30.0, 3600.0
BLIND_SCAN_S = 5.0  # between scans while events cannot be relied on
BLIND_DUTY = 50.0
# Between two looks for a layout in a root that has none: longer and longer while things change that do not help.
DETECT_FIRST_S, DETECT_MOST_S = 0.25, 60.0
LATE_S = 0.5  # between two looks at a replaced inode
NEVER = float("inf")


class Looking:
    """When things are due, and the watching of the root."""

    def __init__(self, store: Store, clock: Clock, hints: Hints, health: Health) -> None:
        self._store = store
        self._clock = clock
        self._hints = hints
        self._health = health
        self._scan_cost = 0.0
        self._detect_pause = DETECT_FIRST_S
        self.next_detect = 0.0
        self.next_look = 0.0
        self.next_scan = NEVER
        self.next_index = NEVER
        self.next_late = NEVER

    def next_due(self) -> float:
        return min(self.next_look, self.next_scan, self.next_index, self.next_late)

    def begins(self) -> None:
        """A look at the path, which may show that all is to be read."""
        self._store.may_last()
        self._store.lock_trace.rest()
        self.next_look = self._clock.monotonic() + LOOK_S

    def rest(self) -> None:
        """Nothing is due but the next look at the path: the root is not there, in doubt, or paused."""
        self.next_scan = self.next_index = self.next_late = NEVER

    def hold_off(self, pause_s: float) -> None:
        """The disk refuses: try again after a pause."""
        now = self._clock.monotonic()
        self.next_index = now + pause_s
        self.next_scan = max(now + pause_s, min(self.next_scan, now + TROUBLE_MOST_S))

    def rewatch(self) -> None:
        watchable = self._store.network_fs is None
        self._health.watching = watchable and self._hints.watch(self._store.name, self._store.tree.path)

    def scanned(self, directories: dict[str, tuple[int, int]], began: float) -> None:
        """After a full scan: count the watches, and set the time of the next one."""
        now = self._clock.monotonic()
        self._scan_cost = now - began
        self._cover(list(directories.values()))
        self.schedule_scan(now)

    def _cover(self, directories: list[tuple[int, int]]) -> None:
        """Count what the kernel really watches; a root with gaps is watched anew once."""
        health, name = self._health, self._store.name
        if not health.watching:
            health.watch = Watch("scan", len(directories), 0)
            return
        wanted, held = self._hints.coverage(name, directories)
        if held < wanted:
            self.rewatch()
            wanted, held = self._hints.coverage(name, directories)
        health.watch = Watch("events", wanted, held)

    def may_detect(self) -> bool:
        """Is a layout to be looked for now? Else the next scan does it."""
        if self._clock.monotonic() >= self.next_detect:
            return True
        self.next_scan = min(self.next_scan, self.next_detect)
        return False

    def detected(self, began: float) -> None:
        """After a look that found no layout."""
        now = self._clock.monotonic()
        self._scan_cost = now - began
        calm = began - self.next_detect > self._detect_pause
        pause = DETECT_FIRST_S if calm else min(DETECT_MOST_S, 2 * self._detect_pause)
        self._detect_pause = max(pause, BLIND_DUTY * self._scan_cost)
        self.next_detect = now + self._detect_pause

    def schedule_scan(self, now: float) -> None:
        schedule = parse_schedule(self._store.policy.schedule.get("rescan", "adaptive"))
        watch = self._health.watch
        if not self._health.watching or watch.held < watch.wanted:
            self.next_scan = now + max(BLIND_SCAN_S, BLIND_DUTY * self._scan_cost)
        elif isinstance(schedule, Adaptive):
            self.next_scan = now + min(SCAN_MOST_S, max(SCAN_LEAST_S, DUTY * self._scan_cost))
        else:
            self.next_scan = now + schedule.seconds if isinstance(schedule, Every) else NEVER
