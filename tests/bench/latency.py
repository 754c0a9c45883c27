"""How long from a writer's close to the index on disk, beside a raw inotify read of the same write.

    python -m tests.bench.latency [--sizes 1000,10000] [--writes 100] [--idle 60] [--json]

A real daemon tends a store of so many memories, all limits lifted, with its defaults otherwise. A writer in a
process of its own appends lines by the seed's steps and notes when each close returned. Here raw inotify on the
same directory tells when that close could be known at the earliest, and when an `index.json` came into place; the
first one that holds the new id counts. All times are of the one monotonic clock of the machine.

Two writers are measured: one that pauses 0.3 to 0.6 s between writes, so that each write is settled alone (100 ms of
quiet), and one that goes on writing every 50 ms, so that only the cap (1 s after the first change) ends the settling.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from tests.bench.inotify import CLOSE_WRITE, MOVED_TO, Inotify
from tests.daemon import Daemon, until

FILES = {"core_memories.jsonl": "core", "learnings.jsonl": "learning", "tasks.jsonl": "task"}
TARGET = "learnings.jsonl"
PAUSES = {"alone": (0.3, 0.6), "steady": (0.05, 0.05)}
LAST_S = 15.0  # how long the last write is waited for
SETTLE_MS = 100.0

# Run with `python -c`: the writer shares nothing with the measurer but the clock.
WRITER = """
import fcntl, json, os, sys, time
root, target, low, high = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
lock, at = os.path.join(root, ".lock"), 0
for line in sys.stdin.buffer:
    held = open(lock, "w"); fcntl.flock(held, fcntl.LOCK_EX); held.write(f"{os.getpid()} {time.time()}"); held.flush()
    with open(os.path.join(root, target), "ab") as file:
        file.write(line)
    closed = time.monotonic()
    fcntl.flock(held, fcntl.LOCK_UN); held.close()
    try: os.remove(lock)
    except FileNotFoundError: pass
    print(closed, flush=True)
    time.sleep(low + (high - low) * ((at * 0.618034) % 1)); at += 1
"""


@dataclass(frozen=True)
class Row:
    """One line of the table; times in milliseconds. `ratio`: index to raw inotify, both at p50."""

    memories: int
    writer: str
    writes: int
    lost: int
    raw_p50: float
    raw_p99: float
    index_p50: float
    index_p99: float
    index_max: float
    ratio: float
    work_p50: float


def percentile(values: Iterable[float], percent: float) -> float:
    """The smallest value that so many per cent of all are not above (nearest rank); nan of nothing."""
    held = sorted(values)
    if not held:
        return math.nan
    return held[max(0, math.ceil(len(held) * percent / 100) - 1)]


def row(memories: int, writer: str, writes: int, raw: Mapping[str, float], index: Mapping[str, float]) -> Row:
    """`raw` and `index`: seconds from close, by id. A write that is in no index is counted as lost, and each
    percentile is of what was found: with any loss they are no result."""
    raw_ms = [1000 * each for each in raw.values()]
    index_ms = [1000 * each for each in index.values()]
    p50, raw_p50 = percentile(index_ms, 50), percentile(raw_ms, 50)
    return Row(
        memories,
        writer,
        writes,
        writes - len(index),
        round(raw_p50, 3),
        round(percentile(raw_ms, 99), 3),
        round(p50, 1),
        round(percentile(index_ms, 99), 1),
        round(max(index_ms, default=math.nan), 1),
        round(p50 / raw_p50, 1) if raw_p50 else math.nan,
        round(p50 - SETTLE_MS, 1),
    )


def table(rows: Sequence[Row]) -> str:
    heads = ("memories", "writer", "writes", "lost", "raw p50", "raw p99", "p50", "p99", "max", "p50/raw", "p50-settle")
    cells = [heads, *(tuple(str(value) for value in asdict(each).values()) for each in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(heads))]
    return "\n".join("  ".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True)) for line in cells)


# --- the store


def memory(kind: str) -> dict[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "id": str(uuid.uuid4()),
        "type": kind,
        "content": "what was learnt " + "and noted " * random.randrange(5, 25),
        "category": random.choice(["fact", "preference", "pattern"]),
        "created_at": now,
        "updated_at": now,
        "accessed_at": now,
        "access_count": 0,
        "tags": random.sample(["python", "testing", "deploy", "database", "style"], 2),
        "importance": random.choice(["high", "medium", "low"]),
        "archived": False,
    }


def line_of(native: Mapping[str, Any]) -> bytes:
    return json.dumps(native, separators=(",", ":")).encode() + b"\n"


def fill(root: Path, memories: int) -> None:
    root.mkdir(mode=0o700)
    for at, (name, kind) in enumerate(FILES.items()):
        share = memories // 3 + (1 if at < memories % 3 else 0)
        (root / name).write_bytes(b"".join(line_of(memory(kind)) for _ in range(share)))
        os.utime(root / name, (time.time() - 60,) * 2)


def config(root: Path) -> str:
    lifted = "\n".join(f'"{name}" = {{ max_bytes = "off", max_count = "off" }}' for name in FILES)
    return f'[[root]]\nname = "bench"\npath = "{root}"\nlayout = "jsonl-store"\n[root.limits]\n{lifted}\n'


# --- the measurement


class Eye(threading.Thread):
    """Raw inotify on the store: when each close was told, and when each id was first in the index on disk."""

    def __init__(self, root: Path) -> None:
        super().__init__(daemon=True)
        self._root = root
        self._inotify = Inotify(str(root))
        self._end = threading.Event()
        self.closed: list[float] = []
        self.waiting: deque[str] = deque()
        self.indexed: dict[str, float] = {}

    def run(self) -> None:
        while not self._end.is_set():
            for at, mask, name in self._inotify.wait(0.2):
                if mask & CLOSE_WRITE and name == TARGET:
                    self.closed.append(at)
                elif mask & MOVED_TO and name == "index.json":
                    self._read(at)

    def _read(self, at: float) -> None:
        """The ids in the order of their writing: where one is missing, no later one is looked for."""
        content = (self._root / "index.json").read_bytes()
        while self.waiting and self.waiting[0].encode() in content:
            self.indexed[self.waiting.popleft()] = at

    def stop(self) -> None:
        self._end.set()
        self.join()
        self._inotify.close()


def measure(root: Path, size: int, writer: str, writes: int) -> Row:
    natives = [memory("learning") for _ in range(writes)]
    eye = Eye(root)
    eye.waiting.extend(native["id"] for native in natives)
    eye.start()
    closed = _write(root, natives, PAUSES[writer])
    deadline = time.monotonic() + LAST_S
    while eye.waiting and time.monotonic() < deadline:
        time.sleep(0.01)
    eye.stop()
    ids = [native["id"] for native in natives]
    raw = raw_latencies(dict(zip(ids, closed, strict=True)), eye.closed)
    index = {id_: max(0.0, eye.indexed[id_] - at) for id_, at in zip(ids, closed, strict=True) if id_ in eye.indexed}
    return row(size, writer, writes, raw, index)


def _write(root: Path, natives: Sequence[Mapping[str, Any]], pause: tuple[float, float]) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", WRITER, str(root), TARGET, *map(str, pause)],
        input=b"".join(map(line_of, natives)),
        stdout=subprocess.PIPE,
        check=True,
    )
    return [float(each) for each in done.stdout.split()]


def raw_latencies(closed: Mapping[str, float], told: Sequence[float]) -> dict[str, float]:
    """Each close's event: they come in order, one a close. The event may be read before the writer notes that its
    close returned; that counts as nothing waited."""
    if len(told) < len(closed):
        raise ValueError(f"{len(told)} events for {len(closed)} closes")
    return {id_: max(0.0, at - when) for (id_, when), at in zip(closed.items(), told, strict=False)}


def processor_s(pid: int) -> float:
    """What all threads have used, as the scheduler counts it: counted by ticks, a waking of half a millisecond is
    nothing or ten, and timers wake at ticks."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in threads) / 1e9


def idle(daemon: Daemon, seconds: float) -> dict[str, float]:
    """Processor time in per cent of one core over so many seconds of nothing to do, and resident memory in MB."""
    process = psutil.Process(daemon.pid)
    before = processor_s(daemon.pid)
    time.sleep(seconds)
    used = processor_s(daemon.pid) - before
    memory_info = process.memory_info()
    return {
        "seconds": seconds,
        "cpu_percent": round(100 * used / seconds, 3) if seconds else 0.0,
        "rss_mb": round(memory_info.rss / 2**20, 1),
        "threads": process.num_threads(),
    }


def _await_upkeep(daemon: Daemon) -> None:
    """Until every job that was due has run once: the first upkeep of a store is no rest."""
    for job in ("archive", "limits", "backup", "permissions", "verify"):
        until(lambda job=job: daemon.job(job)["runs"], f"{job} has run", 120.0)  # type: ignore[misc]  # bound at once
    time.sleep(2.0)


def bench(size: int, writes: int, idle_s: float) -> tuple[list[Row], dict[str, float]]:
    with tempfile.TemporaryDirectory(prefix="memoryd-bench-") as place:
        root = Path(place) / "store"
        fill(root, size)
        with Daemon(Path(place) / "daemon", config=config(root)) as daemon:
            daemon.start()
            daemon.rpc("sync")
            time.sleep(min(2.0, idle_s))  # the first backups and sweeps are no part of this
            rows = [measure(root, size, writer, writes) for writer in PAUSES]
            if idle_s:
                _await_upkeep(daemon)
            rest = idle(daemon, idle_s)
            daemon.stop()
    return rows, rest


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--sizes", default="1000,10000", help="memories in the store, separated by commas")
    parser.add_argument("--writes", type=int, default=100, help="writes measured of each writer")
    parser.add_argument("--idle", type=float, default=60.0, help="seconds of rest to measure")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    wanted = parser.parse_args(argv)
    found = {size: bench(size, wanted.writes, wanted.idle) for size in map(int, wanted.sizes.split(","))}
    rows = [each for rows, _ in found.values() for each in rows]
    if wanted.json:
        rests = {str(size): rest for size, (_, rest) in found.items()}
        print(json.dumps({"latency_ms": [asdict(each) for each in rows], "idle": rests}))
    else:
        print("milliseconds from a writer's close to its event (raw) and to the index on disk\n")
        print(table(rows))
        for size, (_, rest) in found.items():
            cpu = f"{rest['cpu_percent']} % of a core over {rest['seconds']:g} s"
            print(f"\nidle with {size} memories: {cpu}, {rest['rss_mb']} MB resident, {rest['threads']:g} threads")
    return 1 if any(each.lost for each in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
