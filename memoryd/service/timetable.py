"""The clock of all scheduled work: the only module that knows APScheduler.

A job here does nothing but put its name into a root's inbox, which takes microseconds; the root's worker does
it when it can. Each job is armed for one moment only and armed again when it fired: a clock that jumps a year
ahead then costs one firing, while an interval trigger would count up every missed second of that year.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED, JobEvent
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.schedulers.base import STATE_STOPPED
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger

from memoryd.core.schedule import Adaptive, Cron, Every, Off, Schedule, due
from memoryd.log import get_logger

log = get_logger(__name__)

BEAT_S = 15.0  # how often the clock proves that it runs
ADAPTIVE_AT_MOST_S = 3600.0  # when nobody sets the pace of an adaptive job
FURTHEST_S = 10 * 365 * 86_400.0  # keeps arithmetic with dates in range


@dataclass(slots=True)
class _Entry:
    """`last`: last success, later last firing; `serial` tells a stale firing from the armed one."""

    schedule: Schedule
    last: float | None
    zone: str
    serial: int = 0
    at: float | None = None


class _Scheduler(BackgroundScheduler):  # type: ignore[misc]  # APScheduler has no types
    """APScheduler's, but for one race: stopped in the middle of a pass over its jobs, it looks for one of them where
    only those of a scheduler not yet started are, and its thread would end with an error."""

    def remove_job(self, job_id: str, jobstore: str | None = None) -> None:
        try:
            super().remove_job(job_id, jobstore)
        except JobLookupError:
            if self.state != STATE_STOPPED:
                raise


class Timetable:
    """Calls `enqueue(root, job)` when a job is due. Times are wall-clock seconds; methods are thread-safe.

    `enqueue` must return at once. When it raises, that is counted in `errors`; the job is armed again anyway.
    """

    def __init__(self, enqueue: Callable[[str, str], None], clock: Callable[[], float] = time.time) -> None:
        self._enqueue = enqueue
        self._clock = clock
        self._lock = threading.RLock()
        self._entries: dict[tuple[str, str], _Entry] = {}
        self._serial = 0
        self._beat_at = time.monotonic()
        self._beat_id = ""
        self.missed = 0
        self.errors = 0
        self._scheduler = _Scheduler(
            jobstores={"default": MemoryJobStore()},
            # One thread, so that a hanging `enqueue` shows in `tick_age`.
            executors={"default": ThreadPoolExecutor(1)},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
            timezone=UTC,
        )
        mask = EVENT_JOB_ERROR | EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES
        self._scheduler.add_listener(self._count, mask)

    def start(self) -> None:
        self._scheduler.start()
        self._arm_beat(self._clock())

    def shutdown(self) -> None:
        """Returns at once. Waiting for jobs would hold a lock of the scheduler that they may want."""
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
        """Put a job on the timetable, or change it. One that is overdue is due at once, and only once.

        Cron lines are read in `timezone` (an IANA name; ZoneInfoNotFoundError when unknown). `last_success` of a
        cron job that never ran is when it was first armed; an interval that never ran is due at once.
        An `Adaptive` job waits for `arm`.
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
        """Set the next time of a known job by hand: the pace of an adaptive one, or a retry."""
        with self._lock:
            if (root, job) in self._entries:
                self._arm((root, job), at)

    def remove(self, root: str) -> None:
        """Take all jobs of a root off the timetable."""
        with self._lock:
            for key in [key for key in self._entries if key[0] == root]:
                self._disarm(key)
                del self._entries[key]

    def next_run(self, root: str, job: str) -> float | None:
        """When the job is due; None when it is off or unknown."""
        entry = self._entries.get((root, job))
        return entry.at if entry else None

    def rearm_all(self, now: float) -> None:
        """After a clock jump: every job is computed anew; what became overdue meanwhile is due at once."""
        with self._lock:
            for key, entry in self._entries.items():
                self._arm(key, _next(entry, now))
        self._arm_beat(now)

    def tick_age(self) -> float:
        """Monotonic seconds since the clock last proved that it fires; over two `BEAT_S` means it hangs."""
        return time.monotonic() - self._beat_at

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
        self._beat_at = time.monotonic()
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
        """Every arming has an id of its own: a job that is due again while it runs would be thrown away."""
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
    """When the job is due, never before `now`: an overdue one is due now, however long it is overdue."""
    match entry.schedule:
        case Every():
            at = due(entry.schedule, entry.last, now)
        case Cron():
            at = next_cron(entry.schedule, entry.zone, entry.last, now)
        case Adaptive():
            at = now + ADAPTIVE_AT_MOST_S
        case _:
            raise ValueError(f"{entry.schedule} has no next time")
    return min(max(now if at is None else at, now), now + FURTHEST_S)


def next_cron(cron: Cron, timezone: str, last: float | None, now: float) -> float | None:
    """The first time after the last success, or after `now` where there is none or it lies in the future."""
    minute, hour, day, month, weekday = cron.fields
    zone = UTC if timezone == "UTC" else ZoneInfo(timezone)  # a slim container has no zone tables, not even for UTC
    trigger = CronTrigger(minute=minute, hour=hour, day=day, month=month, day_of_week=weekday, timezone=zone)
    # A microsecond on, or a success in the very second of the line would find that second again.
    after = (last if last is not None and last <= now else now) + 1e-6
    found = trigger.get_next_fire_time(None, datetime.fromtimestamp(after, UTC))
    while found is not None and found.fold and "*" not in hour:
        # The hour that summer time ends with comes twice: a line that names it is meant once.
        found = trigger.get_next_fire_time(None, datetime.fromtimestamp(found.timestamp() + 1e-6, UTC))
    return found.timestamp() if found is not None else None
