"""The first index of a large store, seen from outside: what `status` says meanwhile is true, and it can be ended."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from memoryd.errors import MemorydError
from tests.agents import line, memory
from tests.daemon import Daemon, until
from tests.end_to_end.conftest import MakeDaemon

pytestmark = pytest.mark.slow

MEMORIES = 20_000
STATES = ("starting", "scanning", "ok")
NO_LIMITS = '[defaults.limits]\n"learnings.jsonl" = "off"\n'


@pytest.fixture
def large(root: Path) -> Path:
    native = memory()
    with open(root / "learnings.jsonl", "w", encoding="utf-8") as out:
        out.writelines(
            line({**native, "id": f"memory-{number:05}", "content": f"heron {number} at the river"})
            for number in range(MEMORIES)
        )
    return root


def _looks(tending: Daemon) -> Iterator[dict[str, Any]]:
    """One look every 20 ms, until the root is ok."""
    while True:
        row = tending.root()
        yield row
        if row["state"] == "ok":
            return
        time.sleep(0.02)


def _begin(tending: Daemon) -> None:
    """Start the daemon without anything it knows of the root, and wait until it answers."""
    shutil.rmtree(tending.state, ignore_errors=True)
    tending.spawn()
    until(lambda: _answers(tending), "it answers")


def test_status_says_nothing_false_and_its_counter_moves(large: Path, daemon: MakeDaemon) -> None:
    tending = daemon(large, config=NO_LIMITS)
    size = (large / "learnings.jsonl").stat().st_size

    def moves() -> bool:
        """One first index may be over before anybody has looked."""
        _begin(tending)
        rows = list(_looks(tending))
        assert tending.stop() == 0
        for row in rows:
            assert row["state"] in STATES
            assert row["reasons"] == []
            assert row["watch"]["mode"] == "events" or row["state"] == "starting"
            assert row["memories"] <= MEMORIES
            progress = row["progress"]
            if progress is not None:
                assert row["state"] == "scanning"
                assert progress["total"] == {"reading": size, "indexing": MEMORIES}[progress["step"]]
                assert 0 <= progress["done"] <= progress["total"]
        memories = [row["memories"] for row in rows]
        assert memories == sorted(memories)
        assert memories[-1] == MEMORIES
        assert rows[-1]["progress"] is None
        reading = [row["progress"]["done"] for row in rows if row["progress"] and row["progress"]["step"] == "reading"]
        assert reading == sorted(reading)
        return len(set(reading)) > 1 and any(0 < each < MEMORIES for each in memories)

    until(moves, "the counters of a first index are seen to move")


def _answers(tending: Daemon) -> bool:
    try:
        return bool(tending.rpc("ping"))
    except MemorydError:
        return False


def test_a_signal_ends_it_in_order_and_the_next_start_completes_it(large: Path, daemon: MakeDaemon) -> None:
    tending = daemon(large, config=NO_LIMITS)

    def count(event: str) -> int:
        return sum(each["event"] == event for each in tending.events())

    def ended_early() -> bool:
        """One first index may be over before the signal is heard."""
        ready = count("ready")
        _begin(tending)
        tending.until_root(lambda row: row["state"] == "ok" or (row["progress"] or {}).get("done"), "it reads")
        assert tending.stop() == 0
        return count("ready") == ready

    until(ended_early, "a first index is ended")
    assert {each["clean"] for each in tending.events() if each["event"] == "stopped"} == {True}
    tending.start()
    assert tending.root()["memories"] == MEMORIES


def test_a_reindex_shows_its_progress_too(large: Path, daemon: MakeDaemon) -> None:
    tending = daemon(large, config=NO_LIMITS).start()
    with ThreadPoolExecutor(1) as pool:

        def shown() -> bool:
            """One reindex may be over before anybody has looked."""
            reindex = pool.submit(tending.rpc, "reindex")
            rows = []
            while not reindex.done():
                rows.append(tending.root())
                time.sleep(0.05)
            assert reindex.result()["memories"] == MEMORIES
            return any(row["progress"] and row["state"] == "scanning" for row in rows)

        until(shown, "a reindex is shown")
    row = tending.root()
    assert (row["state"], row["progress"], row["memories"]) == ("ok", None, MEMORIES)
