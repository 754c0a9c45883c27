"""Status rows and metrics of the daemon, made from the values that the workers publish."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Literal

from memoryd import __version__
from memoryd.control.methods.status import (
    BackupCount,
    Counts,
    ProgressRow,
    Rescan,
    Resources,
    RootRow,
    StatusResult,
    WatchRow,
)
from memoryd.control.metrics import Family
from memoryd.core.dates import iso, parse_stamp
from memoryd.core.progress import Progress
from memoryd.disk.processes import resources
from memoryd.engine.status import RootStatus
from memoryd.engine.worker import Worker
from memoryd.service.daemon import Daemon
from memoryd.service.roots import Broken
from memoryd.service.schedule import when

# From best to worst; the state of the daemon is the worst state of any root.
STATES = ("ok", "paused", "starting", "scanning", "degraded", "read_only", "suspect", "missing", "failed")


def status(daemon: Daemon, workers: list[Worker], broken: Iterable[Broken] = ()) -> StatusResult:
    """Return the result of `status` for these workers and broken roots."""
    rows = [*(root_row(daemon, worker) for worker in workers), *map(broken_row, broken)]
    return StatusResult(
        state=max((row.state for row in rows), key=STATES.index, default="ok"),
        pid=os.getpid(),
        version=__version__,
        instance=daemon.instance,
        uptime_s=daemon.uptime_s,
        roots=rows,
        jobs=[row for worker in workers for row in daemon.roots.job_rows(worker)],
        resources=Resources(**resources()._asdict()),
        notice=daemon.notice,
    )


def root_row(daemon: Daemon, worker: Worker) -> RootRow:
    """Return the row of one root in `status`."""
    published, progress = _status_and_progress(worker)
    return RootRow(
        name=published.name,
        path=published.path,
        layout=published.layout,
        mode=published.mode,
        state=published.state,
        reasons=list(published.reasons),
        memories=published.memories,
        archived=published.archived,
        files=published.files,
        bytes=published.bytes,
        findings=published.findings,
        watch=WatchRow(published.watch.mode, published.watch.wanted, published.watch.held),
        last_scan=when(published.last_scan),
        rescans=[Rescan(iso(at), reason) for at, reason in published.rescans],
        generation=published.generation,
        lag_ms=worker.lag_ms(daemon.clock.monotonic()),
        locks=list(published.locks),
        limits=list(published.limits),
        backups=BackupCount(published.backups.number, when(published.backups.newest)),
        busy_with=worker.step,
        progress=_progress_row(progress),
    )


def _status_and_progress(worker: Worker) -> tuple[RootStatus, Progress | None]:
    """Return both as of one moment: progress measured after the next status would contradict this one."""
    while True:
        published, progress = worker.status, worker.store.progress.current()
        if worker.status is published:
            return published, progress


def _progress_row(progress: Progress | None) -> ProgressRow | None:
    if progress is None:
        return None
    rounded = (None if each is None else round(each, 1) for each in (progress.rate, progress.left_s))
    step, unit, done, total = progress.step, progress.unit, progress.done, progress.total
    return ProgressRow(step, unit, done, total, progress.percent, round(progress.elapsed_s, 3), *rounded)


def broken_row(root: Broken) -> RootRow:
    """Return the row of a root whose state directory is unusable: its reason and a hint, without counts."""
    return RootRow(
        name=root.name,
        path=root.path,
        layout=root.layout,
        mode=root.mode,
        state="failed",
        reasons=[f"{root.reason}; {root.hint}"],
        findings=Counts(),
        watch=WatchRow("scan", 0, 0),
        rescans=[],
        locks=[],
        limits=[],
        backups=BackupCount(),
    )


def families(daemon: Daemon, workers: Iterable[Worker]) -> list[Family]:
    """Return the metrics of the daemon and of each root; the label `root` is the name of the root."""
    worker_list = list(workers)
    usage = resources()
    now = daemon.clock.monotonic()

    def each(name: str, text: str, value: Callable[[Worker], float], *, counter: bool = False) -> Family:
        samples = tuple(({"root": worker.name}, float(value(worker))) for worker in worker_list)
        return Family(f"memoryd_{name}", text, samples, "counter" if counter else "gauge")

    def plain(name: str, text: str, value: float) -> Family:
        return Family(f"memoryd_{name}", text, (({}, float(value)),))

    return [
        plain("uptime_seconds", "Seconds since the daemon started.", daemon.uptime_s),
        plain("resident_bytes", "Resident memory.", usage.rss_bytes),
        plain("open_fds", "Open file descriptors.", usage.open_fds),
        plain("threads", "Threads.", usage.threads),
        plain("cpu_seconds", "Processor time used.", usage.cpu_s),
        plain("watch_generation", "How often the watches were rebuilt.", daemon.roots.watcher.generation),
        each("root_ok", "1 while the root is in state ok.", lambda w: w.status.state == "ok"),
        each("memories", "Live memories.", lambda w: w.status.memories),
        each("archived_memories", "Archived memories.", lambda w: w.status.archived),
        each("files", "Files read.", lambda w: w.status.files),
        each("bytes", "Bytes of the files read.", lambda w: w.status.bytes),
        each("lag_seconds", "Age of the oldest change not in the index.", lambda w: w.lag_ms(now) / 1000),
        each("watches_wanted", "Directories to watch.", lambda w: w.status.watch.wanted),
        each("watches_held", "Directories the kernel watches.", lambda w: w.status.watch.held),
        each("backups", "Backups held.", lambda w: w.status.backups.number),
        each("findings_error", "Findings of severity error.", lambda w: w.status.findings.error),
        each("findings_warning", "Findings of severity warning.", lambda w: w.status.findings.warning),
        _change_counts(worker_list),
        *_job_families(daemon, worker_list),
    ]


def _change_counts(workers: list[Worker]) -> Family:
    samples = tuple(
        ({"root": worker.name, "operation": name}, float(count))
        for worker in workers
        for name, count in worker.memories.counts.items()
    )
    return Family("memoryd_memory_changes", "Memories stored, changed and forgotten by command.", samples, "counter")


def _job_families(daemon: Daemon, workers: list[Worker]) -> list[Family]:
    rows = [row for worker in workers for row in daemon.roots.job_rows(worker)]
    ends = [stamp.seconds if (stamp := parse_stamp(row.last_run)) else None for row in rows]

    def each(name: str, text: str, values: Iterable[float | None], kind: Literal["counter", "gauge"]) -> Family:
        present = ((row, value) for row, value in zip(rows, values, strict=True) if value is not None)
        samples = tuple(({"root": row.root, "job": row.name}, float(value)) for row, value in present)
        return Family(f"memoryd_job_{name}", text, samples, kind)

    return [
        each("runs", "Runs of a job.", [row.runs for row in rows], "counter"),
        each("failures", "Failed runs of a job.", [row.failures for row in rows], "counter"),
        each("missed", "Runs that fell due while the daemon was not running.", [row.missed for row in rows], "counter"),
        each("last_run_timestamp_seconds", "When a job last ended.", ends, "gauge"),
    ]
