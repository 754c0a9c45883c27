"""What the daemon costs when nothing happens, and what a client command costs each time."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.bench import goals
from tests.bench.corpora import generate
from tests.bench.inotify import reading
from tests.bench.process import await_quiet, processor_s, wakeups
from tests.bench.results import Row, row
from tests.bench.rig import Rig, running, timed
from tests.bench.store import QUIET_S, SMALL, Place

ROOTS = ("json-files", "jsonl-store", "markdown-topics")
SETTLED_S = 5.0  # after the daemon became quiet
# Upkeep that moves memories stays off: what was generated is old, and would all be archived.
OFF = ("archive", "prune", "dedupe", "limits")


def idle(place: Place) -> Iterator[Row]:
    """Three roots and nothing to do: processor time and wake-ups, beside a process that waits for the same events."""
    each = 1 if place.size < SMALL else None
    corpora = [generate(layout, place.base / layout, place.size, each=each) for layout in ROOTS]
    with running(place.base / "daemon", *corpora, off=OFF) as rig, reading(corpora[0].root) as reader:
        await_quiet(rig.daemon.pid, QUIET_S)
        time.sleep(min(SETTLED_S, place.effort.idle_s))
        pids, seconds = (rig.daemon.pid, reader), place.effort.idle_s
        told = [_told(rig)]
        before = [(processor_s(pid), wakeups(pid)) for pid in pids]
        time.sleep(seconds)
        after = [(processor_s(pid), wakeups(pid)) for pid in pids]
        told += [_told(rig), _told(rig)]
    used, floor_used = ((b[0] - a[0]) * 1000 / seconds for a, b in zip(before, after, strict=True))
    woken, floor_woken = ((b[1] - a[1]).total() / seconds for a, b in zip(before, after, strict=True))
    # The last two tell what one call of `status` itself takes.
    by_status = max(0, told[1] - told[0] - (told[2] - told[1])) / seconds
    yield row(goals.IDLE, "processor", "", place.size, [used], floor=[floor_used], unit="ms/s")
    yield row(goals.IDLE, "wake-ups, /proc", "", place.size, [woken], floor=[floor_woken], unit="/s")
    yield row(goals.IDLE, "wake-ups, status", "", place.size, [by_status], floor=[floor_woken], unit="/s")


def _told(rig: Rig) -> int:
    return int(rig.call("status")["resources"]["wakeups"])


def client(place: Place) -> Iterator[Row]:
    """`memoryd ping` and `memoryd status` as whole processes, beside a bare interpreter, in turn."""
    each = 1 if place.size < SMALL else None
    corpus = generate("jsonl-store", place.base / "root", place.size, each=each)
    with running(place.base / "daemon", corpus) as rig:
        await_quiet(rig.daemon.pid, QUIET_S)
        commands = {
            "interpreter": [sys.executable, "-c", "pass"],
            "ping": _command(rig, "ping"),
            "status": _command(rig, "status"),
        }
        took: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(place.effort.commands):
            for name, words in commands.items():
                took[name].append(timed(partial(_run, rig, words)))
    for name in ("ping", "status"):
        yield row(goals.CLIENT, name, corpus.layout, place.size, took[name], floor=took["interpreter"])


def _command(rig: Rig, name: str) -> list[str]:
    """As it is installed, where it is; the module else."""
    words = rig.daemon.command(name)
    script = Path(sys.executable).with_name("memoryd")
    return [str(script), *words[3:]] if script.exists() else words


def _run(rig: Rig, words: list[str]) -> None:
    subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True, env=rig.daemon.env)
