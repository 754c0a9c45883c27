"""Twelve processes that store through the daemon, and writers beside it that ask nobody."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.daemon import Daemon
from tests.end_to_end import checks
from tests.end_to_end.conftest import MakeAgents, MakeDaemon
from tests.layouts import json_samples

pytestmark = pytest.mark.slow

WRITERS, EACH = 12, 100
ACKNOWLEDGED, SERVED = 150, 25  # memories and files, at least, beside each other
LIFTED = '[defaults.limits]\n"learnings.jsonl" = "off"\n'
# A writer of its own process, one connection, that tells the ids which were acknowledged to it. Some of what it has
# stored it changes, so that files are rewritten under the appends of all the others.
WRITER = """
import json, sys
from memoryd.control.client import Client
socket, name, count = sys.argv[1:]
with Client(socket, timeout=400) as client:
    for number in range(int(count)):
        native = {"type": "learning", "content": f"{name} {number}"}
        told = client.call("memory.add", {"root": "memories", "memory": native})
        if number % 20 == 19:
            changes = {"importance": "high"}
            client.call("memory.update", {"root": "memories", "id": told["id"], "changes": changes})
        print(json.dumps([told["id"], native["content"]]), flush=True)
"""


def stored(daemon: Daemon, writers: int, each: int) -> dict[str, str]:
    """What was acknowledged to all writers: {id: content}."""
    command = [sys.executable, "-c", WRITER, daemon.socket]
    running = [
        subprocess.Popen([*command, f"w{n}", str(each)], stdout=subprocess.PIPE, text=True, env=daemon.env)
        for n in range(writers)
    ]
    told = [process.communicate(timeout=500)[0] for process in running]
    assert [process.returncode for process in running] == [0] * writers
    return dict(json.loads(text) for each_told in told for text in each_told.splitlines())


def test_each_of_twelve_hundred_is_there_exactly_once(root: Path, daemon: MakeDaemon, agents: MakeAgents) -> None:
    held = daemon(root, config=LIFTED).start()
    team = agents(root)
    team.start(2, think_ms=(10, 40))
    mine = stored(held, WRITERS, EACH)
    theirs = team.stop().ids
    held.rpc("sync")
    assert len(mine) == WRITERS * EACH
    assert len(theirs) > 50
    there = Counter(checks.live_ids(root))
    assert set(there) == {*mine, *theirs}
    assert set(there.values()) == {1}
    found = {native["id"]: native for native in checks.natives(root / "learnings.jsonl")}
    assert all(found[identity]["content"] == content for identity, content in mine.items())
    assert sum(native["importance"] == "high" for i, native in found.items() if i in mine) == WRITERS * EACH // 20
    assert checks.index_on_disk(root) == checks.rebuilt_index(root)
    assert held.rpc("check")["summary"]["error"] == 0
    assert held.stop() == 0


def test_a_few_beside_one_writer(root: Path, daemon: MakeDaemon, agents: MakeAgents) -> None:
    """The test above in small."""
    held = daemon(root, config=LIFTED).start()
    team = agents(root)
    team.start(1)
    mine = stored(held, 3, 25)
    theirs = team.stop().ids
    held.rpc("sync")
    there = Counter(checks.live_ids(root))
    assert set(there) == {*mine, *theirs}
    assert set(there.values()) == {1}


def test_a_server_that_writes_without_looking_overwrites_nothing_acknowledged(root: Path, daemon: MakeDaemon) -> None:
    """`memory_SECOND.json`, every 0.4 s, as the real server of json-files writes."""
    held = daemon(root, layout="json-files").start()
    over = threading.Event()
    acknowledged: list[tuple[str, str]] = []  # id, content
    served = 0

    def serve() -> None:
        nonlocal served
        while not over.wait(0.4):
            served += 1
            path = root / f"memory_{time.strftime('%Y%m%d%H%M%S')}.json"
            path.write_bytes(json_samples.file(int(time.time() * 10)))

    server = threading.Thread(target=serve)
    server.start()
    try:
        while len(acknowledged) < ACKNOWLEDGED or served < SERVED:
            content = f"acknowledged {len(acknowledged)}"
            answer = held.rpc("memory.add", memory={"content": content})
            acknowledged.append((answer["id"], content))
            time.sleep(0.05)
    finally:
        over.set()
        server.join()
    held.rpc("sync")
    natives = [json.loads(path.read_bytes()) for path in root.glob("memory_*.json")]
    kept = {native.get("id"): native.get("content") for native in natives}
    assert [each for each in acknowledged if kept.get(each[0]) != each[1]] == []
