"""The jobs of a root as the timetable has them: when each runs, what forbids it, and how it went."""

from __future__ import annotations

from typing import NamedTuple

from memoryd.core.schedule import Cron, Every, next_due, parse_schedule
from memoryd.disk.journal import Journal
from memoryd.disk.journal.jobs import JobTime
from memoryd.engine.jobs import WRITING_JOBS
from memoryd.engine.worker import Worker


class ScheduledJob(NamedTuple):
    """One job of a root on the timetable, and what happened last; times are seconds since the epoch."""

    name: str
    root: str
    schedule: str
    next_run: float | None
    waits: str | None  # what forbids a job to write that is due as soon as that is over
    last_run: float | None
    last_result: str | None
    last_error: str | None
    runs: int
    failures: int
    missed: int


def first_armed(journal: Journal, job: str, cron: Cron, now: float) -> float:
    """Return when this cron line was first scheduled: a time that passed while the daemon was down is caught up."""
    armed = journal.facts.get("armed", {})
    line, at = armed.get(job, ("", now))
    if line == cron.text and at <= now:
        return float(at)
    journal.facts.set("armed", {**armed, job: [cron.text, now]})
    return now


def scheduled_job(worker: Worker, job: str, time: JobTime | None, planned: float | None, now: float) -> ScheduledJob:
    """Return one job of a root; `planned` is when the timetable runs it."""
    at, schedule = planned, worker.store.policy.schedule.get(job, "off")
    interval = parse_schedule(schedule)
    forbidden = worker.store.observe_reason if job in WRITING_JOBS else None
    if forbidden and isinstance(interval, Every):  # the timetable passes over it, and starts anew when that is over
        at = next_due(interval, time.last_success if time else None, now)
        at = None if at is None or at <= now else at
    return ScheduledJob(
        name=job,
        root=worker.name,
        schedule=schedule,
        next_run=at,
        waits=forbidden if planned is not None and at is None else None,
        last_run=time.last_end if time else None,
        last_result=time.last_result if time else None,
        last_error=time.last_error if time else None,
        runs=time.runs if time else 0,
        failures=time.failures if time else 0,
        missed=time.missed if time else 0,
    )
