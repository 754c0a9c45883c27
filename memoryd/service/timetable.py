"""The timetable: when each job of each root is due. The daemon's main loop asks it and sleeps until then.

It runs in wall-clock time: after a clock jump every due time is computed anew. Intervals of whole tens of seconds fall
on whole tens of seconds, so that what is due in several roots wakes the process once. APScheduler does the arithmetic
of cron lines; it is loaded with the first one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING

from msgspec import Struct

from memoryd.core.dates import zone_of
from memoryd.core.schedule import Cron, Every, Off, Schedule, next_due
from memoryd.log import get_logger

if TYPE_CHECKING:
    from apscheduler.triggers.cron import CronTrigger

log = get_logger(__name__)

GRID_S = 10  # whole multiples of this fall on multiples of it
MAX_AHEAD_S = 10 * 365 * 86_400.0  # keeps arithmetic with dates in range
NEVER = float("inf")


class _Entry(Struct):
    """One job. `last` is its last success, later its last run; `at` is when it runs next."""

    schedule: Schedule
    last: float | None
    zone: str
    at: float = NEVER


class Timetable:
    """Calls `enqueue(root, job)` for each job that is due when `run_due` is called, and `wake` when a job is due sooner
    than `next_due` returned last. Times are wall-clock seconds; methods are thread-safe.

    `enqueue` must not block. If it raises, the job stays armed for its next run.
    """

    def __init__(
        self,
        enqueue: Callable[[str, str], None],
        clock: Callable[[], float] = time.time,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._enqueue = enqueue
        self._clock = clock
        self._wake = wake
        self._lock = threading.RLock()
        self._entries: dict[tuple[str, str], _Entry] = {}
        self._told = -NEVER  # by `next_due`

    # --- for the main loop

    def next_due(self) -> float:
        """Return when the next job is due; NEVER if there is none. Something due sooner calls `wake` from now on."""
        with self._lock:
            self._told = min((entry.at for entry in self._entries.values()), default=NEVER)
            return self._told

    def run_due(self) -> None:
        """Enqueue what is due, in order of its due time, and arm it for its next run."""
        now = self._clock()
        with self._lock:
            due = sorted((entry.at, key) for key, entry in self._entries.items() if entry.at <= now)
        for at, key in due:
            with self._lock:
                entry = self._entries.get(key)
                if entry is None or entry.at != at:
                    continue  # removed or armed again meanwhile
                entry.last = now
                self._arm(entry, _next(entry, now))
            try:
                self._enqueue(*key)
            except Exception:  # the other jobs go on
                log.exception("a scheduled job could not be queued", root=key[0], job=key[1])

    # --- for any thread

    def clear(self) -> None:
        """Remove all jobs of all roots."""
        with self._lock:
            self._entries.clear()

    def set(
        self,
        root: str,
        job: str,
        schedule: Schedule,
        last_success: float | None,
        now: float,
        *,
        timezone: str = "UTC",
    ) -> None:
        """Schedule a job, or change its schedule. An overdue job runs at once, and only once.

        Cron lines are read in `timezone` (an IANA name; ZoneInfoNotFoundError if unknown). For a cron job that never
        ran, `last_success` is the time at which it was first armed. An interval job that never ran is due at once.
        """
        with self._lock:
            entry = _Entry(schedule, last_success, timezone)
            at = None if isinstance(schedule, Off) else _next(entry, now)
            self._entries.pop((root, job), None)
            if at is not None:
                self._entries[root, job] = entry
                self._arm(entry, at)

    def arm(self, root: str, job: str, at: float) -> None:
        """Set the time of the next run, for a retry. An unknown job is ignored."""
        with self._lock:
            if (root, job) in self._entries:
                self._arm(self._entries[root, job], at)

    def remove(self, root: str) -> None:
        """Remove all jobs of a root."""
        with self._lock:
            for key in [key for key in self._entries if key[0] == root]:
                del self._entries[key]

    def next_run(self, root: str, job: str) -> float | None:
        """Return the time of the next run; None if the job is off or unknown."""
        entry = self._entries.get((root, job))
        return entry.at if entry else None

    def rearm_all(self, now: float) -> None:
        """Recompute the next run of every job after a clock jump; an overdue job runs at once."""
        with self._lock:
            for entry in self._entries.values():
                self._arm(entry, _next(entry, now))

    def _arm(self, entry: _Entry, at: float) -> None:
        entry.at = at
        if at < self._told:
            self._told = at
            self._wake()


def _next(entry: _Entry, now: float) -> float:
    """Return the time of the next run, never before `now`: an overdue job is due now."""
    match entry.schedule:
        case Every():
            at = _on_grid(next_due(entry.schedule, entry.last, now), entry.schedule, now)
        case Cron():
            at = next_cron(entry.schedule, entry.zone, entry.last, now)
        case _:
            raise ValueError(f"{entry.schedule} has no next time")
    return min(max(now if at is None else at, now), now + MAX_AHEAD_S)


def _on_grid(at: float | None, schedule: Every, now: float) -> float | None:
    """Return the last grid time up to `at`, or `at` itself if that is over: a run is never later for it, and never more
    than `GRID_S` early."""
    if at is None or schedule.seconds % GRID_S or at <= now:
        return at
    on_grid = at - at % GRID_S
    return on_grid if on_grid > now else at


def next_cron(cron: Cron, timezone: str, last: float | None, now: float) -> float | None:
    """Return the first time of a cron line after the last success, or after `now` if there is none or it is in the
    future. None if the line never matches again."""
    zone = zone_of(timezone)
    trigger = _trigger(cron, zone)
    # A microsecond later, because a success at exactly the time of the line would find that time again.
    after = (last if last is not None and last <= now else now) + 1e-6
    due: datetime | None = trigger.get_next_fire_time(None, datetime.fromtimestamp(after, UTC))
    while due is not None and due.fold and "*" not in cron.fields[1]:
        # When summer time ends, one hour occurs twice: a line that names this hour runs once.
        due = trigger.get_next_fire_time(None, datetime.fromtimestamp(due.timestamp() + 1e-6, UTC))
    left_out = _left_out(cron, zone, after)
    if due is None or left_out is None:
        return due.timestamp() if due is not None else left_out
    return min(due.timestamp(), left_out)


def _trigger(cron: Cron, zone: tzinfo) -> CronTrigger:
    from apscheduler.triggers.cron import CronTrigger  # noqa: PLC0415 - brings asyncio; no default schedule has such a line

    minute, hour, day, month, weekday = cron.fields
    return CronTrigger(minute=minute, hour=hour, day=day, month=month, day_of_week=weekday, timezone=zone)


def _left_out(cron: Cron, zone: tzinfo, after: float) -> float | None:
    """Return when the line is due if summer time leaves out its next time on the clock; None if that exists. Where
    summer time begins at midnight, APScheduler passes over the whole day."""
    clock = datetime.fromtimestamp(after, zone).replace(tzinfo=UTC)
    due: datetime | None = _trigger(cron, UTC).get_next_fire_time(None, clock)
    if due is None:
        return None
    time = due.replace(tzinfo=zone).timestamp()
    exists = datetime.fromtimestamp(time, zone).replace(tzinfo=UTC) == due
    return None if exists else time
