"""The timetable of all scheduled work: the only module that uses APScheduler.

A job that is due is only put into the inbox of its root, which takes microseconds; the worker of the root runs it when
it can. Each job is armed for a single time, and armed again after it has fired: if the clock jumps a year ahead, one
run is due, while an interval trigger would enumerate every missed second of that year.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED, JobEvent
from apscheduler.executors.base import BaseExecutor, run_job
from apscheduler.job import Job
from apscheduler.jobstores.base import JobLookupError
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.schedulers.base import STATE_STOPPED
from apscheduler.schedulers.blocking import BlockingScheduler
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger

from memoryd.core.dates import zone_of
from memoryd.core.schedule import Adaptive, Cron, Every, Off, Schedule, next_due
from memoryd.log import get_logger

log = get_logger(__name__)

BEAT_S = 30.0  # interval of the heartbeat that proves the scheduler runs
MAX_ADAPTIVE_S = 3600.0  # interval of an adaptive job before `arm` has set its next run
MAX_AHEAD_S = 10 * 365 * 86_400.0  # keeps arithmetic with dates in range


@dataclass(slots=True)
class _Entry:
    """One job. `last` is its last success, later its last run; `serial` tells a stale trigger from the armed one."""

    schedule: Schedule
    last: float | None
    zone: str
    serial: int = 0
    at: float | None = None


class AfterPass(BaseExecutor):  # type: ignore[misc]  # APScheduler has no types
    """Runs due jobs on the scheduler's own thread, so that nothing else wakes up for them. It runs them after the pass
    over all jobs, which holds a lock that arming a job takes last."""

    def __init__(self) -> None:
        super().__init__()
        self._due: list[tuple[Job, list[datetime]]] = []

    def _do_submit_job(self, job: Job, run_times: list[datetime]) -> None:
        self._due.append((job, run_times))

    def run_due(self) -> None:
        """Run what the pass has found."""
        due, self._due = self._due, []
        for job, run_times in due:
            self._run_job_success(job.id, run_job(job, "default", run_times, self._logger.name))


class Scheduler(BackgroundScheduler):  # type: ignore[misc]  # APScheduler has no types
    """APScheduler's BackgroundScheduler on a single thread, and without one race: if it is stopped during a pass over
    its jobs, it looks for a job among those of an unstarted scheduler, and its thread would die."""

    def __init__(self, **options: object) -> None:
        self._after_pass = AfterPass()
        super().__init__(executors={"default": self._after_pass}, **options)

    def _process_jobs(self) -> float | None:
        wait_s: float | None = super()._process_jobs()
        self._after_pass.run_due()
        return wait_s

    def shutdown(self, wait: bool = True) -> None:
        """Stop, without waiting for a job that is running."""
        BlockingScheduler.shutdown(self, wait)

    def remove_job(self, job_id: str, jobstore: str | None = None) -> None:
        """Remove a job. A missing one is no error once the scheduler is stopped."""
        try:
            super().remove_job(job_id, jobstore)
        except JobLookupError:
            if self.state != STATE_STOPPED:
                raise


class Timetable:
    """Calls `enqueue(root, job)` when a job is due. Times are wall-clock seconds; methods are thread-safe.

    `enqueue` must not block. If it raises, the error is counted in `errors`; the job stays armed for its next run.
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
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
            timezone=UTC,
        )
        mask = EVENT_JOB_ERROR | EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES
        self._scheduler.add_listener(self._count_problem, mask)

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
        """Schedule a job, or change its schedule. An overdue job runs at once, and only once.

        Cron lines are read in `timezone` (an IANA name; ZoneInfoNotFoundError if unknown). For a cron job that never
        ran, `last_success` is the time at which it was first armed. An interval job that never ran is due at once; an
        `Adaptive` job waits for `arm`.
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
        """Set the time of the next run: of an adaptive job, or for a retry. An unknown job is ignored."""
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
        """Return the time of the next run; None if the job is off or unknown."""
        entry = self._entries.get((root, job))
        return entry.at if entry else None

    def rearm_all(self, now: float) -> None:
        """Recompute the next run of every job after a clock jump; an overdue job runs at once."""
        with self._lock:
            for key, entry in self._entries.items():
                self._arm(key, _next(entry, now))
        self._arm_beat(now)

    def tick_age(self) -> float:
        """Return monotonic seconds since the last heartbeat; more than two `BEAT_S`: scheduler or `enqueue` hangs."""
        return self._monotonic() - self._beat_at

    def _fire(self, key: tuple[str, str], serial: int) -> None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or entry.serial != serial:
                return  # removed or armed again after this trigger had fired
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
        """Add one trigger under a new id: with an id in use, a job that is due again while it runs would be dropped."""
        self._serial += 1
        when = DateTrigger(datetime.fromtimestamp(at, UTC), timezone=UTC)
        self._scheduler.add_job(call, when, args=args, id=str(self._serial))
        return str(self._serial)

    def _drop(self, job_id: str) -> None:
        try:
            self._scheduler.remove_job(job_id)
        except JobLookupError:
            return  # it has fired already

    def _count_problem(self, event: JobEvent) -> None:
        if event.code == EVENT_JOB_ERROR:
            self.errors += 1
            log.error("a scheduled job could not be queued", error=repr(event.exception))
        else:
            self.missed += 1


def _next(entry: _Entry, now: float) -> float:
    """Return the time of the next run, never before `now`: an overdue job is due now."""
    match entry.schedule:
        case Every():
            at = next_due(entry.schedule, entry.last, now)
        case Cron():
            at = next_cron(entry.schedule, entry.zone, entry.last, now)
        case Adaptive():
            at = now + MAX_ADAPTIVE_S
        case _:
            raise ValueError(f"{entry.schedule} has no next time")
    return min(max(now if at is None else at, now), now + MAX_AHEAD_S)


def next_cron(cron: Cron, timezone: str, last: float | None, now: float) -> float | None:
    """Return the first time of a cron line after the last success, or after `now` if there is none or it is in the
    future. None if the line never matches again."""
    minute, hour, day, month, weekday = cron.fields
    zone = zone_of(timezone)
    trigger = CronTrigger(minute=minute, hour=hour, day=day, month=month, day_of_week=weekday, timezone=zone)
    # A microsecond later, because a success at exactly the time of the line would find that time again.
    after = (last if last is not None and last <= now else now) + 1e-6
    due = trigger.get_next_fire_time(None, datetime.fromtimestamp(after, UTC))
    while due is not None and due.fold and "*" not in hour:
        # When summer time ends, one hour occurs twice: a line that names this hour runs once.
        due = trigger.get_next_fire_time(None, datetime.fromtimestamp(due.timestamp() + 1e-6, UTC))
    return due.timestamp() if due is not None else None
