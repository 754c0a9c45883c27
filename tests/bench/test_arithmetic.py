"""What the benchmark reckons with, checked on numbers known beforehand; no time is asserted here."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

from tests.bench import latency
from tests.bench.inotify import CLOSE_WRITE, MOVED_TO, Inotify


def test_percentiles_are_of_the_nearest_rank() -> None:
    hundred = [float(each) for each in range(100, 0, -1)]
    assert latency.percentile(hundred, 50) == 50
    assert latency.percentile(hundred, 99) == 99
    assert latency.percentile(hundred, 100) == 100
    assert latency.percentile([7.0], 50) == latency.percentile([7.0], 99) == 7
    assert latency.percentile([1.0, 2.0, 3.0], 99) == 3
    assert math.isnan(latency.percentile([], 50))


def test_a_row_counts_what_was_lost() -> None:
    index = {"a": 0.120, "b": 0.150, "c": 0.900}
    row = latency.row(1000, "alone", 4, {"a": 0.0001, "b": 0.0002, "c": 0.0003, "d": 0.0004}, index)
    assert (row.lost, row.raw_p50, row.raw_p99) == (1, 0.2, 0.4)
    assert (row.index_p50, row.index_p99, row.index_max) == (150.0, 900.0, 900.0)
    assert (row.ratio, row.work_p50) == (750.0, 50.0)


def test_each_close_has_its_own_event() -> None:
    closed = {"a": 10.0, "b": 20.0}
    assert latency.raw_latencies(closed, [10.5, 19.9]) == {"a": 0.5, "b": 0.0}
    with pytest.raises(ValueError, match="1 events for 2 closes"):
        latency.raw_latencies(closed, [10.5])


def test_the_table_has_a_line_a_row() -> None:
    rows = [latency.row(size, "alone", 1, {"a": 0.001}, {"a": 0.2}) for size in (1000, 10_000)]
    lines = latency.table(rows).splitlines()
    assert len(lines) == 3
    assert len({len(line) for line in lines}) == 1
    assert lines[2].split()[:3] == ["10000", "alone", "1"]


def test_a_filled_store_has_as_many_memories_as_asked_for(tmp_path: Path) -> None:
    latency.fill(tmp_path / "s", 10)
    lines = [line for name in latency.FILES for line in (tmp_path / "s" / name).read_bytes().splitlines()]
    assert len({json.loads(line)["id"] for line in lines}) == 10


def test_raw_inotify_tells_of_closes_and_renames(tmp_path: Path) -> None:
    eye = Inotify(str(tmp_path))
    try:
        assert eye.wait(0) == []
        (tmp_path / "ä x").write_bytes(b"1")
        os.rename(tmp_path / "ä x", tmp_path / "y")
        found = eye.wait(10)
        assert [(mask, name) for _, mask, name in found] == [(CLOSE_WRITE, "ä x"), (MOVED_TO, "y")]
    finally:
        eye.close()


def test_a_tiny_run_finds_every_write() -> None:
    """Of time nothing is asked, but that it was measured."""
    rows, rest = latency.bench(20, 3, 0.0)
    assert [(row.memories, row.writes, row.lost) for row in rows] == [(20, 3, 0)] * len(latency.PAUSES)
    assert all(row.index_p50 > 0 for row in rows)
    assert rest["rss_mb"] > 0
