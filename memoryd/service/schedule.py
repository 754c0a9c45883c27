"""The jobs of a root on the timetable: when each runs, what forbids it, and how it went."""

from __future__ import annotations

from msgspec import UNSET

from memoryd.control.methods.upkeep import JobRow
from memoryd.core.dates import iso
from memoryd.core.schedule import Adaptive, Cron, Every, next_due, parse_schedule
from memoryd.disk.journal import Journal
from memoryd.disk.journal.jobs import JobTime
from memoryd.engine.job_runner import has_new_rules
from memoryd.engine.jobs import READ_ONLY, runnable
from memoryd.engine.worker import Worker
from memoryd.service.timetable import Timetable

MISSED_GRACE_S = 60.0  # a run this late counts as missed; it is caught up once


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


def job_rows(worker: Worker, timetable: Timetable, now: float) -> list[JobRow]:
    """Return the schedule of one root with the last outcomes."""
    times = worker.store.journal.jobs.times()
    return [
        _row(worker, times.get(job, JobTime(job)), timetable.next_run(worker.name, job), now)
        for job in runnable(worker.store)
    ]


def _row(worker: Worker, time: JobTime, planned: float | None, now: float) -> JobRow:
    """Return one job of a root; `planned` is when the timetable runs it."""
    job, at = time.name, planned
    if job == "rescan" and worker.status.last_scan is not None:  # the journal has no line for each scan
        time = JobTime(job, last_end=worker.status.last_scan, last_result="ok")
    schedule = worker.store.policy.schedule.get(job, "off")
    interval = parse_schedule(schedule)
    forbidden = None if job in READ_ONLY else worker.store.observe_reason
    if forbidden and isinstance(interval, Every):  # the timetable passes over it, and starts anew when that is over
        at = next_due(interval, time.last_success, now)
        at = None if at is None or at <= now else at
    return JobRow(
        name=job,
        root=worker.name,
        schedule=schedule,
        last_run=when(time.last_end),
        last_result=time.last_result,
        last_error=time.last_error,
        next_run=when(at),
        waits=forbidden if forbidden and planned is not None and at is None else UNSET,
        runs=time.runs,
        failures=time.failures,
        missed=time.missed,
    )


def when(seconds: float | None) -> str | None:
    """Return a time as a row of the schedule or of the status has it."""
    return None if seconds is None else iso(seconds)
