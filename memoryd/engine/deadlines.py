"""Due times of the work that runs by the clock in one root.

A full scan is the truth; how often it runs depends on its cost and on how reliable events are.
"""

from __future__ import annotations

from msgspec import Struct

from memoryd.core.index import IndexWriter
from memoryd.core.schedule import Adaptive, Every, parse_schedule

LOOK_S = 2.0  # between two looks at the root's path while something is wrong with it
CALM_LOOK_S = 60.0  # and while events cover it: it is looked at when its path has changed, see `Health.has_moved`
DUTY = 30_000.0  # scans may use 1/DUTY of the time: 0.1 ms/s for three roots, half of what an idle daemon may use
MIN_SCAN_S, MAX_SCAN_S = 30.0, 3600.0
BLIND_SCAN_S = 5.0  # between scans while events are unreliable
BLIND_DUTY = 50.0
# Between two layout detections in a root without a layout: the pause doubles while irrelevant files change.
MIN_DETECT_S, MAX_DETECT_S = 0.25, 60.0
LATE_S = 0.5  # between two checks of a replaced inode
MAX_TROUBLE_S = 5.0  # between two scans while a disk refuses
MERGE_QUIET_S = 0.5  # after a change, before segments of the full-text index are merged
MERGE_PAUSE_S = 0.05  # between two merge steps: an arriving change goes first
NEVER = float("inf")


class Deadlines(Struct):
    """Due times of one root, in monotonic seconds: check of the root's path, layout detection, full scan, delayed
    index, check of replaced inodes, merge of the full-text index. NEVER if not scheduled."""

    look: float = 0.0
    detect: float = 0.0
    scan: float = NEVER
    index: float = NEVER
    late: float = NEVER
    merge: float = NEVER
    _scan_cost_s: float = 0.0
    _detect_pause_s: float = MIN_DETECT_S

    def next_due(self) -> float:
        """Return the earliest due time; layout detection runs with the scan."""
        return min(self.look, self.scan, self.index, self.late, self.merge)

    def rest(self) -> None:
        """Cancel all but the check of the path: the root is missing, suspect or paused."""
        self.scan = self.index = self.late = self.merge = NEVER

    def merge_fulltext(self, now: float, catalogue: IndexWriter) -> None:
        """Merge segments of the full-text index if that is due, a little at a time."""
        if now >= self.merge:
            self.merge = now + MERGE_PAUSE_S if catalogue.tidy() else NEVER
        elif self.merge == NEVER and catalogue.can_tidy:
            self.merge = now + MERGE_QUIET_S

    def hold_off(self, now: float, pause_s: float, *, looks: bool) -> None:
        """Retry after a pause, since the disk fails. `looks`: look at the path at once; if a look failed, not again."""
        self.look, self.index = now if looks else self.look, now + pause_s
        self.scan = max(now + pause_s, min(self.scan, now + MAX_TROUBLE_S))

    def scanned(self, began: float, now: float) -> None:
        """Note the duration of a full scan or a layout detection."""
        self._scan_cost_s = now - began

    def schedule_scan(self, now: float, schedule: str, *, reliable: bool) -> None:
        """Set when the next full scan is due. `schedule` is the configured one; `reliable`: events cover
        every directory."""
        parsed = parse_schedule(schedule)
        if not reliable:
            self.scan = now + max(BLIND_SCAN_S, BLIND_DUTY * self._scan_cost_s)
        elif isinstance(parsed, Adaptive):
            self.scan = now + min(MAX_SCAN_S, max(MIN_SCAN_S, DUTY * self._scan_cost_s))
        else:
            self.scan = now + parsed.seconds if isinstance(parsed, Every) else NEVER

    def may_detect(self, now: float) -> bool:
        """True if layout detection is due; otherwise the next scan does it."""
        if now >= self.detect:
            return True
        self.scan = min(self.scan, self.detect)
        return False

    def not_detected(self, began: float, now: float) -> None:
        """Schedule the next layout detection after one that found none."""
        self.scanned(began, now)
        calm = began - self.detect > self._detect_pause_s
        pause = MIN_DETECT_S if calm else min(MAX_DETECT_S, 2 * self._detect_pause_s)
        self._detect_pause_s = max(pause, BLIND_DUTY * self._scan_cost_s)
        self.detect = now + self._detect_pause_s
