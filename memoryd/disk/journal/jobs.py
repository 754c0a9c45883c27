"""Start, end and result of each job's runs, so that runs missed during sleep are caught up once."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from msgspec import Struct
from msgspec.structs import replace

from memoryd.disk.journal.database import Database, printable

MOST_IDLE_RUNS = 60  # of one job in a row without a record
RESULTS = frozenset({"ok", "failed", "refused_by_guard", "busy", "skipped"})

_ALL = "SELECT * FROM jobs ORDER BY name"
JOB_TABLES = (
    """CREATE TABLE jobs (
        name TEXT PRIMARY KEY, last_start REAL, last_end REAL, last_result TEXT, last_error TEXT,
        last_success REAL, runs INTEGER NOT NULL DEFAULT 0, failures INTEGER NOT NULL DEFAULT 0,
        missed INTEGER NOT NULL DEFAULT 0, next_due REAL, running INTEGER NOT NULL DEFAULT 0)""",
)


class JobTime(Struct, frozen=True):
    """The history of one job. Times are seconds since the epoch; counts start with the journal."""

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
        self._known = _times(db.rows(_ALL))
        self._idle_lock = threading.Lock()
        self._idle: dict[str, tuple[int, float]] = {}  # by job: runs, and when the last one was

    def note_idle_run(self, name: str, now: float) -> bool:
        """Count a run that had nothing to do, without a write and without waiting for one. False if there were so many
        that one must be recorded."""
        with self._idle_lock:
            runs = self._idle.get(name, (0, 0.0))[0]
            if runs >= MOST_IDLE_RUNS:
                return False
            self._idle[name] = (runs + 1, now)
        return True

    def flush(self, names: Iterable[str] | None = None) -> None:
        """Write the idle runs of these jobs (None: all)."""
        with self._idle_lock:
            wanted = list(self._idle) if names is None else [name for name in names if name in self._idle]
            idle = [(name, *self._idle.pop(name)) for name in wanted]
        if not idle:
            return
        with self._writing() as db:
            for name, runs, at in idle:
                db.execute("INSERT OR IGNORE INTO jobs (name) VALUES (?)", (name,))
                db.execute(
                    "UPDATE jobs SET last_start = ?1, last_end = ?1, last_success = ?1, last_result = 'ok', "
                    "last_error = NULL, runs = runs + ?2 WHERE name = ?3",
                    (at, runs, name),
                )

    def record_start(self, name: str, now: float) -> None:
        """Record that the job starts, so that a crash during the run is detected."""
        self.flush([name])
        with self._writing() as db:
            db.execute("INSERT OR IGNORE INTO jobs (name) VALUES (?)", (name,))
            db.execute("UPDATE jobs SET last_start = ?, running = 1, runs = runs + 1 WHERE name = ?", (now, name))

    def record_end(self, name: str, result: str, now: float, error: str | None = None) -> None:
        """Record the end of a run. `result`: one of RESULTS; only "failed" counts as a failure, only "ok" as a success.
        Raises ValueError for any other."""
        if result not in RESULTS:
            raise ValueError(f"unknown job result {result!r}")
        with self._writing() as db:
            db.execute("INSERT OR IGNORE INTO jobs (name) VALUES (?)", (name,))
            db.execute(
                "UPDATE jobs SET last_end = ?1, running = 0, last_result = ?2, last_error = ?3, "
                "last_success = CASE WHEN ?2 = 'ok' THEN ?1 ELSE last_success END, "
                "failures = failures + (?2 = 'failed') WHERE name = ?4",
                (now, result, None if error is None else printable(error), name),
            )

    def record_missed(self, name: str, count: int = 1) -> None:
        """Count runs that fell due while the daemon was not running."""
        with self._writing() as db:
            db.execute("INSERT OR IGNORE INTO jobs (name) VALUES (?)", (name,))
            db.execute("UPDATE jobs SET missed = missed + ? WHERE name = ?", (count, name))

    def fail_interrupted(self) -> list[str]:
        """Count jobs that were running when the daemon ended as failed; return their names. Called at the start."""
        with self._writing(durable=True) as db:
            names = [str(row["name"]) for row in db.execute("SELECT name FROM jobs WHERE running ORDER BY name")]
            db.execute(
                "UPDATE jobs SET running = 0, last_result = 'failed', failures = failures + 1, "
                "last_error = 'memoryd ended while the job was running' WHERE running"
            )
        return names

    def times(self) -> dict[str, JobTime]:
        """Return the history of each job that has run, by name."""
        with self._idle_lock:
            idle = dict(self._idle)
        found = dict(self._known)
        for name, (runs, at) in idle.items():
            known = found.get(name, JobTime(name))
            ran = replace(known, last_start=at, last_end=at, last_success=at, last_result="ok", last_error=None)
            found[name] = replace(ran, runs=known.runs + runs)
        return found

    @contextmanager
    def _writing(self, *, durable: bool = False) -> Iterator[sqlite3.Connection]:
        with self._db.writing(durable=durable) as db:
            yield db
            known = _times(db.execute(_ALL))
        self._known = known


def _times(rows: Iterable[sqlite3.Row]) -> dict[str, JobTime]:
    return {row["name"]: JobTime(**{**dict(row), "running": bool(row["running"])}) for row in rows}
