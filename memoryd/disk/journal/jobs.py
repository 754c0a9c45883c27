"""Start, end and result of each job's runs, so that runs missed during sleep are caught up once."""

from __future__ import annotations

import threading

from msgspec import Struct
from msgspec.structs import astuple, replace

from memoryd.disk.journal.database import Database, printable

MOST_IDLE_RUNS = 60  # of one job in a row without a record
RESULTS = frozenset({"ok", "failed", "refused_by_guard", "busy", "skipped"})

JOB_TABLES = (
    """CREATE TABLE jobs (
        name TEXT PRIMARY KEY, last_start REAL, last_end REAL, last_result TEXT, last_error TEXT,
        last_success REAL, runs INTEGER NOT NULL DEFAULT 0, failures INTEGER NOT NULL DEFAULT 0,
        missed INTEGER NOT NULL DEFAULT 0, next_due REAL, running INTEGER NOT NULL DEFAULT 0)""",
)


class JobTime(Struct, frozen=True):
    """The history of one job, in the order of the table. Times are seconds since the epoch; counts start with the
    journal."""

    name: str
    last_start: float | None = None
    last_end: float | None = None
    last_result: str | None = None
    last_error: str | None = None
    last_success: float | None = None
    runs: int = 0
    failures: int = 0
    missed: int = 0
    next_due: float | None = None
    running: bool = False


class JobTable:
    """The history of every job. Most writes are not synced: a lock sweep every ten seconds must not wake a disk. Runs
    that had nothing to do are counted in memory, and written with the next run of their job or at the end. Reading
    never waits for a write, which may hang with its disk."""

    def __init__(self, db: Database) -> None:
        self._db = db
        rows = db.rows("SELECT * FROM jobs ORDER BY name")
        self._times = {row["name"]: JobTime(**{**dict(row), "running": bool(row["running"])}) for row in rows}
        self._changing = threading.Lock()  # not held while the disk is written
        self._idle: dict[str, int] = {}  # runs of each job that are not written yet

    def note_idle_run(self, name: str, now: float) -> bool:
        """Count a run that had nothing to do, without a write and without waiting for one. False if there were so many
        that one must be recorded."""
        with self._changing:
            runs = self._idle.get(name, 0)
            if runs >= MOST_IDLE_RUNS:
                return False
            self._idle[name] = runs + 1
            known = self._of(name)
            ran = replace(known, last_start=now, last_end=now, last_success=now, last_result="ok", last_error=None)
            self._times = {**self._times, name: replace(ran, runs=known.runs + 1)}
        return True

    def flush(self) -> None:
        """Write the idle runs."""
        for name in list(self._idle):
            self._record(self._of(name))

    def record_start(self, name: str, now: float) -> None:
        """Record that the job starts, so that a crash during the run is detected."""
        known = self._of(name)
        self._record(replace(known, last_start=now, running=True, runs=known.runs + 1))

    def record_end(self, name: str, result: str, now: float, error: str | None = None) -> None:
        """Record the end of a run. `result`: one of RESULTS; only "failed" counts as a failure, only "ok" as a success.
        Raises ValueError for any other."""
        if result not in RESULTS:
            raise ValueError(f"unknown job result {result!r}")
        known, reason = self._of(name), None if error is None else printable(error)
        success, failures = now if result == "ok" else known.last_success, known.failures + (result == "failed")
        ended = replace(known, last_end=now, running=False, last_result=result, last_error=reason)
        self._record(replace(ended, last_success=success, failures=failures))

    def record_missed(self, name: str, count: int) -> None:
        """Count runs that fell due while the daemon was not running."""
        known = self._of(name)
        self._record(replace(known, missed=known.missed + count))

    def fail_interrupted(self) -> list[str]:
        """Count jobs that were running when the daemon ended as failed; return their names. Called at the start."""
        running = [each for each in self._times.values() if each.running]
        for each in running:
            failed = replace(each, running=False, last_result="failed", failures=each.failures + 1)
            self._record(replace(failed, last_error="memoryd ended while the job was running"), durable=True)
        return [each.name for each in running]

    def times(self) -> dict[str, JobTime]:
        """Return the history of each job that has run, by name."""
        return self._times

    def _of(self, name: str) -> JobTime:
        return self._times.get(name, JobTime(name))

    def _record(self, time: JobTime, *, durable: bool = False) -> None:
        with self._db.writing(durable=durable) as db:
            db.execute("INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", astuple(time))
        with self._changing:
            self._idle.pop(time.name, None)
            self._times = {**self._times, time.name: time}
