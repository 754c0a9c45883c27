"""The daemon as others see it: status rows and metrics, from what the workers published."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from memoryd import __version__
from memoryd.control.metrics import Family
from memoryd.core.dates import iso
from memoryd.disk.processes import resources
from memoryd.engine.worker import Worker

if TYPE_CHECKING:
    from memoryd.service.daemon import Daemon
    from memoryd.service.roots import Broken

# From best to worst; the daemon's state is the worst of its roots'.
STATES = ("ok", "paused", "starting", "scanning", "degraded", "read_only", "suspect", "missing", "failed")


def status(daemon: Daemon, workers: list[Worker], broken: Iterable[Broken] = ()) -> dict[str, Any]:
    rows = [*(root_row(daemon, worker) for worker in workers), *map(broken_row, broken)]
    jobs = [row for worker in workers for row in daemon.roots.job_rows(worker)]
    return {
        "state": max((row["state"] for row in rows), key=STATES.index, default="ok"),
        "pid": os.getpid(),
        "version": __version__,
        "instance": daemon.instance,
        "uptime_s": daemon.uptime_s,
        "roots": rows,
        "jobs": [shown_job(job) for job in jobs],
        "resources": resources(),
        "notice": daemon.notice,
    }


def shown_job(job: dict[str, Any]) -> dict[str, Any]:
    """A row of the schedule with its times in words."""
    return job | {key: iso(job[key]) if job[key] is not None else None for key in ("last_run", "next_run")}


def root_row(daemon: Daemon, worker: Worker) -> dict[str, Any]:
    """One root as `status` shows it."""
    seen = worker.status
    newest = seen.backups["newest"]
    lag = worker.lag_ms(daemon.clock.monotonic())
    return {
        "name": seen.name,
        "path": seen.path,
        "layout": seen.layout,
        "mode": seen.mode,
        "state": seen.state,
        "reasons": list(seen.reasons),
        "memories": seen.memories,
        "archived": seen.archived,
        "files": seen.files,
        "bytes": seen.bytes,
        "findings": dict(seen.findings),
        "watch": {"mode": seen.watch.mode, "wanted": seen.watch.wanted, "held": seen.watch.held},
        "last_scan": iso(seen.last_scan) if seen.last_scan is not None else None,
        "rescans": [{"at": iso(at), "reason": reason} for at, reason in seen.rescans],
        "generation": seen.generation,
        "lag_ms": lag,
        "locks": list(seen.locks),
        "limits": list(seen.limits),
        "backups": {"count": seen.backups["count"], "newest": iso(newest) if newest is not None else None},
        "busy_with": worker.step,
    }


def broken_row(root: Broken) -> dict[str, Any]:
    """A root whose state cannot be used: nothing is known but why, and what to do."""
    return {
        "name": root.name,
        "path": root.path,
        "layout": root.layout,
        "mode": root.mode,
        "state": "failed",
        "reasons": [f"{root.reason}; {root.hint}"],
        "memories": 0,
        "archived": 0,
        "files": 0,
        "bytes": 0,
        "findings": {"error": 0, "warning": 0, "info": 0},
        "watch": {"mode": "scan", "wanted": 0, "held": 0},
        "last_scan": None,
        "rescans": [],
        "generation": 0,
        "lag_ms": 0,
        "locks": [],
        "limits": [],
        "backups": {"count": 0, "newest": None},
        "busy_with": None,
    }


def families(daemon: Daemon, workers: Iterable[Worker]) -> list[Family]:
    """Metrics by their field's names; labels name the root."""
    held = list(workers)
    used = resources()
    now = daemon.clock.monotonic()

    def each(name: str, text: str, value: Any, *, counter: bool = False) -> Family:
        samples = tuple(({"root": worker.name}, float(value(worker))) for worker in held)
        return Family(f"memoryd_{name}", text, samples, "counter" if counter else "gauge")

    def plain(name: str, text: str, value: float) -> Family:
        return Family(f"memoryd_{name}", text, (({}, float(value)),))

    return [
        plain("uptime_seconds", "Seconds since the daemon started.", daemon.uptime_s),
        plain("resident_bytes", "Resident memory.", used["rss_bytes"]),
        plain("open_fds", "Open file descriptors.", used["open_fds"]),
        plain("threads", "Threads.", used["threads"]),
        plain("cpu_seconds", "Processor time used.", used["cpu_s"]),
        plain("watch_generation", "How often watching began anew.", daemon.roots.watcher.generation),
        each("root_ok", "1 while the root is in state ok.", lambda w: w.status.state == "ok"),
        each("memories", "Live memories.", lambda w: w.status.memories),
        each("archived_memories", "Archived memories.", lambda w: w.status.archived),
        each("files", "Files read.", lambda w: w.status.files),
        each("bytes", "Bytes of the files read.", lambda w: w.status.bytes),
        each("lag_seconds", "Age of the oldest change not in the index.", lambda w: w.lag_ms(now) / 1000),
        each("watches_wanted", "Directories to watch.", lambda w: w.status.watch.wanted),
        each("watches_held", "Directories the kernel watches.", lambda w: w.status.watch.held),
        each("backups", "Backups held.", lambda w: w.status.backups["count"]),
        each("findings_error", "Findings of severity error.", lambda w: w.status.findings.get("error", 0)),
        each("findings_warning", "Findings of severity warning.", lambda w: w.status.findings.get("warning", 0)),
        _stored(held),
        *_job_families(daemon, held),
    ]


def _stored(workers: list[Worker]) -> Family:
    samples = tuple(
        ({"root": worker.name, "operation": name}, float(count))
        for worker in workers
        for name, count in worker.memories.counts.items()
    )
    return Family("memoryd_memory_changes", "Memories stored, changed and forgotten by command.", samples, "counter")


def _job_families(daemon: Daemon, workers: list[Worker]) -> list[Family]:
    rows = [row for worker in workers for row in daemon.roots.job_rows(worker)]

    def each(name: str, text: str, key: str) -> Family:
        samples = tuple(({"root": r["root"], "job": r["name"]}, float(r[key])) for r in rows if r[key] is not None)
        return Family(f"memoryd_job_{name}", text, samples, "counter" if key != "last_run" else "gauge")

    return [
        each("runs", "Runs of a job.", "runs"),
        each("failures", "Failed runs of a job.", "failures"),
        each("missed", "Runs that fell due while nobody was there.", "missed"),
        each("last_run_timestamp_seconds", "When a job last ended.", "last_run"),
    ]
