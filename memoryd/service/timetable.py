"""The clock of all scheduled work: the only module that uses APScheduler.

A job only puts its name into the inbox of a root, which takes microseconds; the worker of the root runs it when it can.
Each job is armed for one moment only, and armed again after it fired: a clock that jumps a year ahead costs one run,
while an interval trigger would enumerate every missed second of that year.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED, JobEvent
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.schedulers.base import STATE_STOPPED
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger

from memoryd.core.dates import zone_of
from memoryd.core.schedule import Adaptive, Cron, Every, Off, Schedule, next_due
from memoryd.log import get_logger

log = get_logger(__name__)

BEAT_S = 15.0  # how often the clock proves that it runs
MAX_ADAPTIVE_S = 3600.0  # interval of an adaptive job without a computed one
FURTHEST_S = 10 * 365 * 86_400.0  # keeps arithmetic with dates in range


@dataclass(slots=True)
class _Entry:
    """One job. `last` is its last success, later its last run; `serial` tells a stale trigger from the armed one."""

    schedule: Schedule
    last: float | None
    zone: str
    serial: int = 0
    at: float | None = None


class Scheduler(BackgroundScheduler):  # type: ignore[misc]  # APScheduler has no types
    """APScheduler's BackgroundScheduler without one race: if it is stopped during a pass over its jobs, it looks one of
    them up where only jobs of an unstarted scheduler are, and its thread would die with an error."""

    def remove_job(self, job_id: str, jobstore: str | None = None) -> None:
        """Remove a job. A missing one is no error once the scheduler is stopped."""
        try:
            super().remove_job(job_id, jobstore)
        except JobLookupError:
            if self.state != STATE_STOPPED:
                raise


class Timetable:
    """Calls `enqueue(root, job)` when a job is due. Times are wall-clock seconds; methods are thread-safe.

    `enqueue` must return at once. If it raises, that is counted in `errors` and the job is armed again.
    """

    def __init__(
        self,
        enqueue: Callable[[str, str], None],
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._enqueue = enqueue
        self._clock = clock
        self._monotonic = monotonic
        self._lock = threading.RLock()
        self._entries: dict[tuple[str, str], _Entry] = {}
        self._serial = 0
        self._beat_at = self._monotonic()
        self._beat_id = ""
        self.missed = 0
        self.errors = 0
        self._scheduler = Scheduler(
            jobstores={"default": MemoryJobStore()},
            # One thread, so that a hanging `enqueue` shows in `tick_age`.
            executors={"default": ThreadPoolExecutor(1)},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
            timezone=UTC,
        )
        mask = EVENT_JOB_ERROR | EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES
        self._scheduler.add_listener(self._count, mask)

    def start(self) -> None:
        """Start the scheduler and its heartbeat."""
        self._scheduler.start()
        self._arm_beat(self._clock())

    def shutdown(self) -> None:
        """Stop without waiting: waiting would hold a lock of the scheduler that running jobs may need."""
        with self._lock:
            self._entries.clear()
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

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
        """Schedule a job, or change its schedule. An overdue one is due at once, and only once.

        Cron lines are read in `timezone` (an IANA name; ZoneInfoNotFoundError if unknown). `last_success` of a cron job
        that never ran is when it was first armed; an interval that never ran is due at once. An `Adaptive` job waits
        for `arm`.
        """
        with self._lock:
            entry = _Entry(schedule, last_success, timezone)
            at = None if isinstance(schedule, Off) else _next(entry, now)
            self._disarm((root, job))
            self._entries.pop((root, job), None)
            if at is not None:
                self._entries[root, job] = entry
                self._arm((root, job), at)

    def arm(self, root: str, job: str, at: float) -> None:
        """Set the next run of a known job by hand: the pace of an adaptive one, or a retry."""
        with self._lock:
            if (root, job) in self._entries:
                self._arm((root, job), at)

    def remove(self, root: str) -> None:
        """Remove all jobs of a root."""
        with self._lock:
            for key in [key for key in self._entries if key[0] == root]:
                self._disarm(key)
                del self._entries[key]

    def next_run(self, root: str, job: str) -> float | None:
        """Return when the job is due; None if it is off or unknown."""
        entry = self._entries.get((root, job))
        return entry.at if entry else None

    def rearm_all(self, now: float) -> None:
        """Recompute every job after a clock jump; what became overdue meanwhile is due at once."""
        with self._lock:
            for key, entry in self._entries.items():
                self._arm(key, _next(entry, now))
        self._arm_beat(now)

    def tick_age(self) -> float:
        """Return monotonic seconds since the last heartbeat; more than two `BEAT_S` means the scheduler hangs."""
        return self._monotonic() - self._beat_at

    def _fire(self, key: tuple[str, str], serial: int) -> None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or entry.serial != serial:
                return  # removed or armed anew while this firing was on its way
            now = self._clock()
            entry.last = now
            self._arm(key, _next(entry, now))
        self._enqueue(*key)

    def _beat(self) -> None:
        self._beat_at = self._monotonic()
        self._arm_beat(self._clock())

    def _arm_beat(self, now: float) -> None:
        with self._lock:
            self._drop(self._beat_id)
            self._beat_id = self._add(self._beat, [], now + BEAT_S)

    def _arm(self, key: tuple[str, str], at: float) -> None:
        self._disarm(key)
        entry = self._entries[key]
        entry.at = at
        self._add(self._fire, [key, self._serial + 1], at)
        entry.serial = self._serial

    def _disarm(self, key: tuple[str, str]) -> None:
        entry = self._entries.get(key)
        if entry is not None:
            self._drop(str(entry.serial))

    def _add(self, call: Callable[..., None], args: list[object], at: float) -> str:
        """Add one trigger under an id of its own: a job that is due again while it runs would be dropped."""
        self._serial += 1
        when = DateTrigger(datetime.fromtimestamp(at, UTC), timezone=UTC)
        self._scheduler.add_job(call, when, args=args, id=str(self._serial))
        return str(self._serial)

    def _drop(self, job_id: str) -> None:
        try:
            self._scheduler.remove_job(job_id)
        except JobLookupError:
            return  # it fired already

    def _count(self, event: JobEvent) -> None:
        if event.code == EVENT_JOB_ERROR:
            self.errors += 1
            log.error("a scheduled job could not be queued", error=repr(event.exception))
        else:
            self.missed += 1


def _next(entry: _Entry, now: float) -> float:
    """Return when the job is due, never before `now`: an overdue one is due now."""
    match entry.schedule:
        case Every():
            at = next_due(entry.schedule, entry.last, now)
        case Cron():
            at = next_cron(entry.schedule, entry.zone, entry.last, now)
        case Adaptive():
            at = now + MAX_ADAPTIVE_S
        case _:
            raise ValueError(f"{entry.schedule} has no next time")
    return min(max(now if at is None else at, now), now + FURTHEST_S)


def next_cron(cron: Cron, timezone: str, last: float | None, now: float) -> float | None:
    """Return the first time of a cron line after the last success, or after `now` if there is none or it lies in the
    future."""
    minute, hour, day, month, weekday = cron.fields
    zone = zone_of(timezone)
    trigger = CronTrigger(minute=minute, hour=hour, day=day, month=month, day_of_week=weekday, timezone=zone)
    # A microsecond on, or a success in the very second of the line would find that second again.
    after = (last if last is not None and last <= now else now) + 1e-6
    found = trigger.get_next_fire_time(None, datetime.fromtimestamp(after, UTC))
    while found is not None and found.fold and "*" not in hour:
        # The hour that summer time ends with comes twice: a line that names it is meant once.
        found = trigger.get_next_fire_time(None, datetime.fromtimestamp(found.timestamp() + 1e-6, UTC))
    return found.timestamp() if found is not None else None
