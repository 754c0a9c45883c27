"""Many adds in one breath, and what comes right behind them: nothing is decided on what is not known yet."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import Daemon, until
from tests.end_to_end import checks
from tests.end_to_end.conftest import MakeDaemon
from tests.end_to_end.test_memories import CASES, QUIET, Case, begun

pytestmark = pytest.mark.slow

DEAD = 4_194_300  # above every number that a process here has


def at_once(held: Daemon, requests: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[int, dict[str, Any]]:
    """All requests in one write; the replies by number."""
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n"
        for number, (method, params) in enumerate(requests)
    ]
    found: dict[int, dict[str, Any]] = {}
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30)
        sock.connect(held.socket)
        sock.sendall("".join(lines).encode())
        with sock.makefile("rb") as file:
            while len(found) < len(requests):
                told = json.loads(file.readline())
                found |= {told["id"]: told} if "id" in told else {}
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.layout))
def test_every_layout_takes_a_burst(case: Case, tmp_path: Path, daemon: MakeDaemon) -> None:
    """The first one makes the file."""
    held, root = begun(daemon, tmp_path, Case(case.layout, case.memory, case.changes, case.where, case.there))
    asked = [("memory.add", case.params(**_numbered(case, n))) for n in range(20)]
    told = at_once(held, asked)
    assert [each.get("error") for each in told.values()] == [None] * 20
    ids = {each["result"]["id"] for each in told.values()}
    assert len(ids) == 20
    rows = [held.rpc("memory.list", limit=100, archived=old)["memories"] for old in (False, True)]
    assert ids <= {each["id"] for page in rows for each in page}  # a topic keeps ten, the archive the rest
    written = b"".join(path.read_bytes() for path in root.rglob("*") if path.is_file() and "index" not in path.name)
    assert all(written.count(f"the memory number {n} of".encode()) >= 1 for n in range(20))
    states = {each["receipt"]: each["state"] for each in held.rpc("history.list", limit=100)["entries"]}
    assert {states[each["result"]["receipt"]] for each in told.values()} == {"done"}


def _numbered(case: Case, number: int) -> dict[str, str]:
    """Memories with equal titles are told apart by what changes with each."""
    text = "solution" if case.layout == "markdown-topics" else "content"
    return {text: f"the memory number {number} of many"} | ({"title": f"T{number}"} if "title" in case.memory else {})


def test_a_user_that_was_made_a_moment_ago_shows_the_form_of_the_tree(tmp_path: Path, daemon: MakeDaemon) -> None:
    root = tmp_path / "memories"
    root.mkdir(mode=0o700)
    held = daemon(root, config=QUIET, options=["--layout", "user-document"]).start()
    memory = {"content": "x", "embedding": [1.0, 0.5]}
    told = at_once(
        held,
        [
            ("memory.add", {"memory": memory, "user": "files/alice"}),
            ("memory.add", {"memory": {**memory, "content": "y"}}),
            ("memory.add", {"memory": memory, "user": "bob"}),
        ],
    )
    paths = [told[number].get("result", told[number])["path"] for number in range(3)]
    assert paths == [f"files/{user}/__long-memories/data.json" for user in ("alice", "alice", "bob")]


def test_an_id_that_was_taken_a_moment_ago_is_taken(tmp_path: Path, daemon: MakeDaemon) -> None:
    """Also where the file was made by it, and no limit makes the file be looked at."""
    root = tmp_path / "memories"
    root.mkdir(mode=0o700)
    limits = '[defaults.limits]\n"core_memories.jsonl" = "off"\n"learnings.jsonl" = "off"\n"tasks.jsonl" = "off"\n'
    held = daemon(root, config=QUIET + limits, options=["--layout", "jsonl-store"]).start()
    memory = {"id": "3fa85f64-5717-4562-b3fc-2c963f66afa6", "type": "learning", "content": "x"}
    told = at_once(held, [("memory.add", {"memory": memory})] * 3)
    assert sorted("error" in each for each in told.values()) == [False, True, True]
    assert len((root / "learnings.jsonl").read_bytes().splitlines()) == 1


def test_a_repair_clears_the_lock_that_it_has_just_held(root: Path, daemon: MakeDaemon) -> None:
    """The lock file a dead agent left is taken for the change, and must be let go before it is judged."""
    (root / "learnings.jsonl").write_bytes(b'{"content":"no id"}\n')
    held = daemon(root, config=f'{QUIET}locks = "off"\npermissions = "off"\n').start()
    until(lambda: "missing-id" in {each["code"] for each in held.rpc("check")["findings"]}, "it is found")
    (root / ".lock").write_text(f"{DEAD}\n")
    os.utime(root / ".lock", (0, 0))
    assert "stale-lock" in {each["code"] for each in held.rpc("check")["findings"]}
    assert held.rpc("repair")["receipt"]
    assert not (root / ".lock").exists()


def test_a_stop_right_after_the_answer_tells_each_once(root: Path, daemon: MakeDaemon) -> None:
    held = daemon(root, config=QUIET).start()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.settimeout(30)
        listening.connect(held.socket)
        file = listening.makefile("rb")
        listening.sendall(b'{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"topics":["change"]}}\n')
        while json.loads(file.readline()).get("id") != 1:
            pass
        memory = {"type": "learning", "content": "the last words"}
        told = at_once(held, [("memory.add", {"memory": memory})] * 30)
        assert held.stop() == 0
        events = [json.loads(each) for each in file]
    receipts = [each["result"]["receipt"] for each in told.values()]
    said = [each["params"]["receipt"] for each in events if "receipt" in each.get("params", {})]
    assert sorted(said) == sorted(receipts)
    logged = [each["receipt"] for each in held.events() if each["event"] == "changed"]
    assert sorted(logged) == sorted(receipts)
    again = held.start()
    states = {each["receipt"]: each["state"] for each in again.rpc("history.list", limit=100)["entries"]}
    assert states == dict.fromkeys(receipts, "done")
    again.rpc("sync")
    assert checks.index_on_disk(root) == checks.rebuilt_index(root)


def test_what_waits_for_a_lock_does_not_hold_up_what_came_behind_it(tmp_path: Path, daemon: MakeDaemon) -> None:
    """On the same connection."""
    held, root = begun(daemon, tmp_path, CASES[0])
    with open(root / ".lock", "w") as file, socket.socket(socket.AF_UNIX) as sock:
        fcntl.flock(file, fcntl.LOCK_EX)
        sock.settimeout(30)
        sock.connect(held.socket)
        for number, (method, params) in enumerate([("memory.add", CASES[0].params()), ("ping", {})]):
            request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            sock.sendall(json.dumps(request).encode() + b"\n")
        with sock.makefile("rb") as answers:
            replies = (json.loads(line) for line in answers)
            ids = (each["id"] for each in replies if "id" in each)
            assert next(ids) == 1, "`ping` is answered, and the lock is held still"
            fcntl.flock(file, fcntl.LOCK_UN)
            assert next(ids) == 0
