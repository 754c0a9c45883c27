"""The jobs of a root on the timetable: when each runs, what forbids it, and how it went."""

from __future__ import annotations

from typing import NamedTuple

from memoryd.core.schedule import Adaptive, Cron, Every, next_due, parse_schedule
from memoryd.disk.journal import Journal
from memoryd.disk.journal.jobs import JobTime
from memoryd.engine.job_runner import has_new_rules
from memoryd.engine.jobs import READ_ONLY, runnable
from memoryd.engine.worker import Worker
from memoryd.service.timetable import Timetable

MISSED_GRACE_S = 60.0  # a run this late counts as missed; it is caught up once


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


def arm_jobs(worker: Worker, timetable: Timetable, now: float) -> None:
    """Put the jobs of a root on the timetable; its layout must be known. What is overdue runs at once."""
    journal, policy = worker.store.journal, worker.store.policy
    times = journal.jobs.times()
    for job in runnable(worker.store):
        schedule = parse_schedule(policy.schedule.get(job, "off"))
        if job == "rescan" and isinstance(schedule, Adaptive):
            continue  # the worker keeps the pace of that one itself
        last = times[job].last_success if job in times else None
        if isinstance(schedule, Every) and last is not None and now - last > schedule.seconds + MISSED_GRACE_S:
            journal.jobs.record_missed(job, int((now - last) // schedule.seconds))
        if isinstance(schedule, Every) and has_new_rules(worker.store, job):
            last = None  # what the new rules make due does not wait for the old ones' time
        if last is None and isinstance(schedule, Cron):
            last = first_armed(journal, job, schedule, now)
        timetable.set(worker.name, job, schedule, last, now, timezone=policy.timezone or "UTC")


def first_armed(journal: Journal, job: str, cron: Cron, now: float) -> float:
    """Return when this cron line was first scheduled: a time that passed while the daemon was down is caught up."""
    armed = journal.facts.get("armed", {})
    line, at = armed.get(job, ("", now))
    if line == cron.text and at <= now:
        return float(at)
    journal.facts.set("armed", {**armed, job: [cron.text, now]})
    return now


def job_rows(worker: Worker, timetable: Timetable, now: float) -> list[ScheduledJob]:
    """Return the schedule of one root with the last outcomes."""
    times = worker.store.journal.jobs.times()
    return [
        _row(worker, job, times.get(job), timetable.next_run(worker.name, job), now) for job in runnable(worker.store)
    ]


def _row(worker: Worker, job: str, time: JobTime | None, planned: float | None, now: float) -> ScheduledJob:
    """Return one job of a root; `planned` is when the timetable runs it."""
    scanned = worker.status.last_scan if job == "rescan" else None
    if scanned is not None:  # the journal has no line for each scan
        time = JobTime(job, last_end=scanned, last_result="ok")
    at, schedule = planned, worker.store.policy.schedule.get(job, "off")
    interval = parse_schedule(schedule)
    forbidden = None if job in READ_ONLY else worker.store.observe_reason
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
