"""Adding while the disk of the state refuses: told before anything is changed, stored once when it is tried again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from memoryd.control.client import Client
from memoryd.errors import MemorydError
from tests.daemon import Daemon, until
from tests.end_to_end import checks
from tests.end_to_end.conftest import MakeDaemon
from tests.end_to_end.test_full_disk import OFF, PATIENT, Disk, disk, pytestmark

__all__ = ["disk", "pytestmark"]  # pytest finds the fixture and the mark here

WORDS = "content that fills a page of the disk in a while " * 20


def add(client: Client, number: int) -> dict[str, Any] | None:
    try:
        told = client.call("memory.add", {"memory": {"type": "learning", "content": f"{number}: {WORDS}"}})
    except MemorydError:
        return None
    return dict(told)


def stored(root: Path) -> list[str]:
    lines = (root / "learnings.jsonl").read_bytes().splitlines()
    return [json.loads(line)["content"].partition(":")[0] for line in lines]


def sound(tending: Daemon, root: Path, told: dict[int, dict[str, Any]]) -> None:
    """What was acknowledged stands there once and nothing else does; each has its receipt."""
    assert sorted(stored(root)) == sorted(map(str, told))
    states = {each["receipt"]: each["state"] for each in tending.rpc("history.list", limit=1000)["entries"]}
    assert {states[each["receipt"]] for each in told.values()} == {"done"}


@pytest.mark.parametrize("disk", ["4m"], indirect=True)
@pytest.mark.parametrize("killed", [False, True])
def test_the_state_fills_up_while_adding(disk: Disk, root: Path, daemon: MakeDaemon, killed: bool) -> None:
    tending = daemon(root, config=OFF, prefix=disk.prefix)
    tending.state = disk.path / "state"
    tending.start()
    told: dict[int, dict[str, Any]] = {}
    number = 0
    with Client(tending.socket) as client:
        for pages in range(12):
            disk.fill()
            for _ in range(8):
                number += 1
                done = add(client, number)
                told |= {number: done} if done else {}
                assert sorted(stored(root)) == sorted(map(str, told)), pages
            size = (disk.seen / "ballast").stat().st_size
            os.truncate(disk.seen / "ballast", max(0, size - 4096 * pages))
            for _ in range(8):
                number += 1
                done = add(client, number)
                told |= {number: done} if done else {}
                assert sorted(stored(root)) == sorted(map(str, told)), pages
    assert len(told) < number, "it was full for some"
    if killed:
        os.kill(tending.pid, 9)
        tending.wait()
    disk.free()
    if killed:
        tending.start()
    tending.until_root(lambda row: row["state"] == "ok", "it recovers by itself", PATIENT)
    with Client(tending.socket) as client:
        done = until(lambda: add(client, number + 1), "it is stored now", PATIENT)
    told[number + 1] = done
    sound(tending, root, told)
    tending.rpc("undo", receipt=done["receipt"])
    assert len(stored(root)) == len(told) - 1
    tending.rpc("sync")
    assert checks.index_on_disk(root) == checks.rebuilt_index(root)


@pytest.mark.parametrize("disk", ["4m"], indirect=True)
def test_history_is_told_while_the_state_is_full(disk: Disk, root: Path, daemon: MakeDaemon) -> None:
    """Also where what was added last cannot be brought into the journal."""
    tending = daemon(root, config=OFF, prefix=disk.prefix)
    tending.state = disk.path / "state"
    tending.start()
    told: list[dict[str, Any]] = []
    with Client(tending.socket) as client:
        told += [add(client, 0) or {}]
        for room in (8192, 12_288, 16_384):
            disk.fill()
            os.truncate(disk.seen / "ballast", (disk.seen / "ballast").stat().st_size - room)
            told += [done for number in range(20) if (done := add(client, room + number))]
            disk.fill()
            states = {each["receipt"]: each["state"] for each in tending.rpc("history.list", limit=500)["entries"]}
            assert states == {each["receipt"]: "done" for each in told}
