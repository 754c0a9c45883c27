"""When each job ran and how it ended, so that a laptop that slept catches up once; and small facts
about a root (identity, known files, layout kept, limits warned about)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memoryd.disk.database import Database, said

RESULTS = frozenset({"ok", "failed", "refused_by_guard", "busy", "skipped"})

JOB_TABLES = (
    """CREATE TABLE jobs (
        name TEXT PRIMARY KEY, last_start REAL, last_end REAL, last_result TEXT, last_error TEXT,
        last_success REAL, runs INTEGER NOT NULL DEFAULT 0, failures INTEGER NOT NULL DEFAULT 0,
        missed INTEGER NOT NULL DEFAULT 0, next_due REAL, running INTEGER NOT NULL DEFAULT 0)""",
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
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


class Jobs(Database):
    """Job times are not synced one by one: a lock sweep every ten seconds must not wake a disk. Facts are asked for
    before every command, so what was read once is remembered: nobody else writes here."""

    def __init__(self, path: str, schema: Sequence[Sequence[str]]) -> None:
        self._meta: dict[str, str | None] = {}
        super().__init__(path, schema)

    def job_started(self, name: str, now: float) -> None:
        with self._writing(durable=False) as db:
            db.execute("INSERT OR IGNORE INTO jobs (name) VALUES (?)", (name,))
            db.execute("UPDATE jobs SET last_start = ?, running = 1, runs = runs + 1 WHERE name = ?", (now, name))

    def job_ended(self, name: str, result: str, now: float, error: str | None = None) -> None:
        """`result` is one of RESULTS; only "failed" counts as a failure, only "ok" as a success."""
        if result not in RESULTS:
            raise ValueError(f"unknown job result {result!r}")
        with self._writing(durable=False) as db:
            db.execute("INSERT OR IGNORE INTO jobs (name) VALUES (?)", (name,))
            db.execute(
                "UPDATE jobs SET last_end = ?1, running = 0, last_result = ?2, last_error = ?3, "
                "last_success = CASE WHEN ?2 = 'ok' THEN ?1 ELSE last_success END, "
                "failures = failures + (?2 = 'failed') WHERE name = ?4",
                (now, result, None if error is None else said(error), name),
            )

    def job_missed(self, name: str, count: int = 1) -> None:
        """Runs that fell due while nobody was there to do them."""
        with self._writing(durable=False) as db:
            db.execute("INSERT OR IGNORE INTO jobs (name) VALUES (?)", (name,))
            db.execute("UPDATE jobs SET missed = missed + ? WHERE name = ?", (count, name))

    def job_due(self, name: str, next_due: float | None) -> None:
        with self._writing(durable=False) as db:
            db.execute("INSERT OR IGNORE INTO jobs (name) VALUES (?)", (name,))
            db.execute("UPDATE jobs SET next_due = ? WHERE name = ?", (next_due, name))

    def jobs_cut_off(self) -> list[str]:
        """At start: names of jobs that were running when the daemon ended; they now count as failed."""
        with self._writing() as db:
            names = [str(row["name"]) for row in db.execute("SELECT name FROM jobs WHERE running ORDER BY name")]
            db.execute(
                "UPDATE jobs SET running = 0, last_result = 'failed', failures = failures + 1, "
                "last_error = 'memoryd ended while the job was running' WHERE running"
            )
        return names

    def job_times(self) -> dict[str, JobTime]:
        return {
            row["name"]: JobTime(**{**dict(row), "running": bool(row["running"])})
            for row in self._rows("SELECT * FROM jobs ORDER BY name")
        }

    def get_meta(self, key: str, default: Any = None) -> Any:
        """The JSON value stored under `key`."""
        with self._lock:
            if key not in self._meta:
                rows = self._rows("SELECT value FROM meta WHERE key = ?", key)
                self._meta[key] = rows[0]["value"] if rows else None
            known = self._meta[key]
        return default if known is None else json.loads(known)

    def set_meta(self, key: str, value: Any) -> None:
        """`value` must be plain JSON; it comes back equal (tuples as lists)."""
        written = json.dumps(value)
        with self._lock:
            self._meta.pop(key, None)
            with self._writing() as db:
                db.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, written))
