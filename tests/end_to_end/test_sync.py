"""`sync` is a real barrier: what was written before it is in the index on disk after it, whatever else goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memoryd.control.client import Client
from tests.agents import line, memory
from tests.daemon import Daemon, until
from tests.end_to_end import checks
from tests.end_to_end.conftest import MakeAgents, MakeDaemon

pytestmark = pytest.mark.slow

PAIRS = 50
CONFIG = '[defaults.limits]\n"learnings.jsonl" = "off"\n'


def listed(root: Path) -> set[str]:
    index = json.loads((root / "index.json").read_bytes())
    return {each for ids in index["importance_index"].values() for each in ids}


def pairs(daemon: Daemon, root: Path, wait: Callable[[Client], object]) -> list[str]:
    """Ids that were not in the index after their own barrier."""
    missed = []
    with Client(daemon.socket, timeout=60) as client:
        for _ in range(PAIRS):
            native = memory()
            with open(root / "learnings.jsonl", "a") as file:
                file.write(line(native))
            wait(client)
            if native["id"] not in listed(root):
                missed.append(native["id"])
    return missed


def at_once(work: Callable[[], list[str]]) -> list[str]:
    with ThreadPoolExecutor(4) as pool:
        return [each for done in [pool.submit(work) for _ in range(4)] for each in done.result()]


def unlimited(root: Path) -> str:
    return f'[[root]]\nname = "m"\npath = "{root}"\nlayout = "jsonl-store"\n[root.limits]\n"learnings.jsonl" = "off"\n'


def test_everybody_sees_their_own_write(root: Path, daemon: MakeDaemon) -> None:
    tending = daemon(config=unlimited(root)).start()
    began = time.monotonic()
    assert at_once(lambda: pairs(tending, root, lambda client: client.call("sync"))) == []
    print(f"{4 * PAIRS} writes and syncs from four threads in {time.monotonic() - began:.1f} s")
    assert checks.index_on_disk(root) == checks.rebuilt_index(root)


def test_canary_without_a_barrier_somebody_does_not(root: Path, daemon: MakeDaemon) -> None:
    tending = daemon(config=unlimited(root)).start()
    assert at_once(lambda: pairs(tending, root, lambda client: client.call("ping"))) != []


def test_among_agents_and_archive_runs(root: Path, daemon: MakeDaemon, agents: MakeAgents) -> None:
    busy = "[daemon]\nquiet_s = 0\nquiet_cap_s = 0\n" + unlimited(root)
    tending = daemon(config=busy + '[root.schedule]\narchive = "every 1s"\n').start()
    team = agents(root)
    team.start(2, old=0.5)
    waits: list[int] = []

    def wait(client: Client) -> None:
        waits.append(client.call("sync")["roots"]["m"]["waited_ms"])

    assert pairs(tending, root, wait) == []
    until(lambda: checks.archived_ids(root), "archive runs were among it")
    team.stop()
    print(f"sync among agents: median {sorted(waits)[PAIRS // 2]} ms, longest {max(waits)} ms")


def test_the_daemon_answers_meanwhile(root: Path, daemon: MakeDaemon, agents: MakeAgents) -> None:
    """`status` and `ping` do not queue behind the worker, which waits for the lock of an agent."""
    tending = daemon(root, config="[defaults]\nlock_wait_s = 600\n").start()
    holder = agents(root).holder()
    (root / "learnings.jsonl").write_text(line(memory()))
    with ThreadPoolExecutor(1) as pool, Client(tending.socket) as client:
        sync = pool.submit(tending.rpc, "sync", timeout=300)
        tending.until_root(lambda row: row["busy_with"] == "sync", "the sync waits")
        for _ in range(100):
            assert all(client.call(method)["pid"] for method in ("ping", "status"))
        assert not sync.done()
        holder.kill()
        assert sync.result()["roots"]["memories"]["written"]
