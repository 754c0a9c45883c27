"""Many writers at once: how soon everything they wrote is searchable, and whether the daemon slows them down."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from datetime import date
from itertools import pairwise
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import NamedTuple

from tests.bench import goals
from tests.bench.agent_writes import FIRST_NUMBER, FIRST_S, word
from tests.bench.corpora import Corpus, generate
from tests.bench.draft import Draft, pretty, private
from tests.bench.gathered import session_file
from tests.bench.inotify import reading
from tests.bench.process import await_quiet
from tests.bench.results import Row, row
from tests.bench.rig import Rig, running
from tests.bench.store import QUIET_S, SMALL, Place
from tests.bench.writing import json_file, json_name

WRITERS = 4
FILES_A_DIRECTORY = 10
FIRST_DAY = date(2026, 1, 2).toordinal() - 20_000  # so many days are there for new directories
FOUND_S = 120.0
POLL_S = 0.02
BODY = "The writers of this file are measured. " * 8


class Job(NamedTuple):
    """What one writer writes: files `first` to `last` of a layout below `root`."""

    root: str
    layout: str
    first: int
    last: int


class Written(NamedTuple):
    """When a writer began and ended (monotonic seconds)."""

    began: float
    ended: float


# --- in the writers' processes

_barriers: list[Barrier] = []


def _keep(barrier: Barrier) -> None:
    _barriers.append(barrier)


def write(job: Job) -> Written:
    """Prepare all contents, wait for the other writers, then write one file after the other."""
    made = [_file(job, number) for number in range(job.first, job.last)]
    _barriers[0].wait()
    began = time.monotonic()
    known: set[str] = set()
    for path, content in made:
        folder = os.path.dirname(path)
        if folder not in known:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            known.add(folder)
        with open(path, "wb", buffering=0, opener=private) as file:
            file.write(content)
    return Written(began, time.monotonic())


def _file(job: Job, number: int) -> tuple[str, bytes]:
    draft = Draft(FIRST_NUMBER + number, FIRST_S + number, f"File {number}", f"{BODY}{word(number)}.", ("testing",))
    if job.layout == "json-files":
        return os.path.join(job.root, json_name(draft.created)), pretty(json_file(draft))
    day = date.fromordinal(FIRST_DAY + number // FILES_A_DIRECTORY).isoformat()
    path, content = session_file([draft], day)
    return os.path.join(job.root, path), content


# --- in the measuring process


class Crowd:
    """Processes that write at the same time."""

    def __init__(self, pool: ProcessPoolExecutor, writers: int) -> None:
        self._pool, self._writers = pool, writers

    def write(self, root: Path, layout: str, first: int, files: int) -> Written:
        """Write so many files, each writer its share; return when the first began and the last ended."""
        bounds = [first + files * at // self._writers for at in range(self._writers + 1)]
        jobs = [Job(str(root), layout, *pair) for pair in pairwise(bounds)]
        done = [*self._pool.map(write, jobs)]
        return Written(min(each.began for each in done), max(each.ended for each in done))


@contextmanager
def crowd(writers: int) -> Iterator[Crowd]:
    """Start so many processes, which end with the block."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(writers)
    with ProcessPoolExecutor(writers, mp_context=context, initializer=_keep, initargs=(barrier,)) as pool:
        yield Crowd(pool, writers)


def burst(place: Place) -> Iterator[Row]:
    """Files by 4 writers at once, into one directory and into directories made in the same moment."""
    yield _burst(place, "json-files", "files")
    yield _burst(place, "session-files", "files in new directories")


def _burst(place: Place, layout: str, variant: str) -> Row:
    """Until `status` counts every memory; after that each is searched for by its own word."""
    files = place.effort.burst
    each = 1 if place.size < SMALL else None
    corpus = generate(layout, place.base / layout, place.size, each=each)
    with running(place.base / f"daemon-{layout}", corpus) as rig, crowd(WRITERS) as writers:
        await_quiet(rig.daemon.pid, QUIET_S)
        wanted = _memories(rig, layout) + files
        done = writers.write(corpus.root, layout, 0, files)
        deadline = time.monotonic() + FOUND_S
        while _memories(rig, layout) < wanted and time.monotonic() < deadline:
            time.sleep(POLL_S)
        took = time.monotonic() - done.began
        lost = sum(not _finds(rig, layout, word(number)) for number in range(files))
    return row(goals.BURST, variant, layout, place.size, [took], floor=[done.ended - done.began], unit="s", lost=lost)


def _memories(rig: Rig, name: str) -> int:
    (found,) = rig.call("status", root=name)["roots"]
    return int(found["memories"]) + int(found["archived"])


def _finds(rig: Rig, name: str, asked: str) -> bool:
    return bool(rig.call("memory.search", query=asked, root=name, mode="text", limit=1)["hits"])


def writers(place: Place) -> Iterator[Row]:
    """The same number of files written into a directory that nobody watches, that a process watches which does nothing
    else, and that is a root of the daemon, in turn."""
    for variant, processes in (("one writer", 1), (f"{WRITERS} writers", WRITERS)):
        yield from _writers(place, variant, processes)


def _writers(place: Place, variant: str, processes: int) -> Iterator[Row]:
    """Into one directory: ext4 without a journal searches a group of inodes for one that was not deleted lately, which
    can take 20 times as long for a directory beside it."""
    each = 1 if place.size < SMALL else None
    corpus = generate("json-files", place.base / f"root-{processes}", place.size, each=each)
    files, numbers = place.effort.burst // 10, 0
    alone, read, watched = list[float](), list[float](), list[float]()
    with crowd(processes) as together:
        together.write(place.base, "json-files", 0, processes)  # the processes have started
        for _ in range(place.effort.rounds):
            alone.append(_write_ms(together, corpus, numbers, files))
            with reading(corpus.root):
                read.append(_write_ms(together, corpus, numbers + files, files))
            with running(place.base / f"daemon-{processes}", corpus) as rig:
                await_quiet(rig.daemon.pid, QUIET_S)
                watched.append(_write_ms(together, corpus, numbers + 2 * files, files))
                rig.call("sync")
            numbers += 3 * files
    yield row(goals.WRITERS, variant, corpus.layout, place.size, watched, floor=alone)
    yield row(goals.WRITERS, f"{variant}, bare reader", corpus.layout, place.size, read, floor=alone)


def _write_ms(writers: Crowd, corpus: Corpus, first: int, files: int) -> float:
    os.sync()  # a journal still busy with what was written before, as by the start of a daemon, holds writers up
    done = writers.write(corpus.root, corpus.layout, first, files)
    return (done.ended - done.began) * 1000
