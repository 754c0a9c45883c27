"""How long until a memory is stored for good through the daemon, beside what the disk itself needs for as much."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

from tests.bench import goals
from tests.bench.changes import FORMS, Changes
from tests.bench.raw_disk import RawDisk
from tests.bench.results import Row, row
from tests.bench.rig import timed
from tests.bench.store import Store

WARM = 3
LINE = b"x" * 600 + b"\n"


def store(measured: Store) -> Iterator[Row]:
    """`memory.add`, `update` and `forget`, one after the other; a reply means that the change is on disk."""
    rig = measured.rig
    changes = Changes(rig, measured.corpus)
    took: dict[str, list[float]] = {"add": [], "update": [], "forget": []}
    floor: dict[str, list[float]] = {"append": [], "create": [], "rewrite": []}
    size = len(LINE)
    with closing(RawDisk(measured.place / "raw-store", grown=b"y" * 100_000)) as disk:
        for number in range(WARM + measured.effort.writes):
            made, took_ms = _timed(partial(changes.add, number))
            took["add"].append(took_ms)
            changed, took_ms = _timed(partial(changes.update, made["id"], number))
            took["update"].append(took_ms)
            size = (measured.corpus.root / made["path"]).stat().st_size
            took["forget"].append(_timed(partial(changes.forget, changed["id"]))[1])
            floor["append"].append(timed(lambda: disk.append(LINE)))
            floor["create"].append(timed(lambda: disk.create(LINE)))
            floor["rewrite"].append(timed(partial(disk.rewrite, size)))
    for what, values in took.items():
        raw = floor[FORMS[measured.layout][what]]
        yield row(goals.STORE, what, measured.layout, measured.size, values[WARM:], floor=raw[WARM:])


def _timed(act: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], float]:
    """The answer, and milliseconds."""
    told: dict[str, Any] = {}
    took = timed(lambda: told.update(act()))
    return told, took
