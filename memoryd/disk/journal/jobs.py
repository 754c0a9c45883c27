"""When each job ran and how it ended, so that a laptop that slept catches up once."""

from __future__ import annotations

from dataclasses import dataclass

from memoryd.disk.journal.database import Database, printable

RESULTS = frozenset({"ok", "failed", "refused_by_guard", "busy", "skipped"})

JOB_TABLES = (
    """CREATE TABLE jobs (
        name TEXT PRIMARY KEY, last_start REAL, last_end REAL, last_result TEXT, last_error TEXT,
        last_success REAL, runs INTEGER NOT NULL DEFAULT 0, failures INTEGER NOT NULL DEFAULT 0,
        missed INTEGER NOT NULL DEFAULT 0, next_due REAL, running INTEGER NOT NULL DEFAULT 0)""",
)


@dataclass(frozen=True, slots=True)
class JobTime:
    """Times are seconds since the epoch. `failures` and `missed` count since the store was first seen."""

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
    """When each job ran. Not synced one by one: a lock sweep every ten seconds must not wake a disk."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def started(self, name: str, now: float) -> None:
        """Note that the job runs, before it does: so a crash in the middle shows."""
        with self._db.writing(durable=False) as db:
            db.execute("INSERT OR IGNORE INTO jobs (name) VALUES (?)", (name,))
            db.execute("UPDATE jobs SET last_start = ?, running = 1, runs = runs + 1 WHERE name = ?", (now, name))

    def ended(self, name: str, result: str, now: float, error: str | None = None) -> None:
        """`result` is one of RESULTS; only "failed" counts as a failure, only "ok" as a success."""
        if result not in RESULTS:
            raise ValueError(f"unknown job result {result!r}")
        with self._db.writing(durable=False) as db:
            db.execute("INSERT OR IGNORE INTO jobs (name) VALUES (?)", (name,))
            db.execute(
                "UPDATE jobs SET last_end = ?1, running = 0, last_result = ?2, last_error = ?3, "
                "last_success = CASE WHEN ?2 = 'ok' THEN ?1 ELSE last_success END, "
                "failures = failures + (?2 = 'failed') WHERE name = ?4",
                (now, result, None if error is None else printable(error), name),
            )

    def missed(self, name: str, count: int = 1) -> None:
        """Count runs that fell due while the daemon was not running."""
        with self._db.writing(durable=False) as db:
            db.execute("INSERT OR IGNORE INTO jobs (name) VALUES (?)", (name,))
            db.execute("UPDATE jobs SET missed = missed + ? WHERE name = ?", (count, name))

    def cut_off(self) -> list[str]:
        """At start: names of jobs that were running when the daemon ended; they now count as failed."""
        with self._db.writing() as db:
            names = [str(row["name"]) for row in db.execute("SELECT name FROM jobs WHERE running ORDER BY name")]
            db.execute(
                "UPDATE jobs SET running = 0, last_result = 'failed', failures = failures + 1, "
                "last_error = 'memoryd ended while the job was running' WHERE running"
            )
        return names

    def times(self) -> dict[str, JobTime]:
        """Return what is known of each job that ever ran, by name."""
        return {
            row["name"]: JobTime(**{**dict(row), "running": bool(row["running"])})
            for row in self._db.rows("SELECT * FROM jobs ORDER BY name")
        }
