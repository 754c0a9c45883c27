"""Details of the control protocol that only an outside look at the running program shows."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.control.client import Client
from memoryd.errors import ConflictError, GuardError, MemorydError, UnknownRootError, UsageError
from tests.daemon import Daemon, refused

pytestmark = pytest.mark.slow

FILES = ("core_memories.jsonl", "learnings.jsonl", "tasks.jsonl")
QUIET = (
    '[daemon]\nquiet_s = 0\n[defaults.schedule]\narchive = "off"\nbackup = "off"\nlocks = "off"\npermissions = "off"\n'
)


def _memory(number: int, created: str = "2025-01-01T00:00:00Z") -> str:
    told: dict[str, Any] = {
        "id": f"{number:08x}-0000-4000-8000-000000000000",
        "type": "core",
        "content": f"memory {number}",
        "tags": [],
        "importance": "high",
        "created_at": created,
        "updated_at": created,
        "accessed_at": created,
        "access_count": 0,
        "archived": False,
    }
    return json.dumps(told, separators=(",", ":")) + "\n"


def _store(path: Path, count: int = 3) -> Path:
    path.mkdir()
    for name in FILES:
        (path / name).write_text("")
    (path / "core_memories.jsonl").write_text("".join(map(_memory, range(count))))
    return path


def _root(path: Path, more: str = "") -> str:
    return f'[[root]]\nname = "{path.name}"\npath = "{path}"\nlayout = "jsonl-store"\n{more}\n'


def _error(daemon: Daemon, method: str, **params: Any) -> MemorydError:
    with pytest.raises(MemorydError) as caught:
        daemon.rpc(method, **params)
    return caught.value


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    _store(tmp_path / "a")
    with Daemon(tmp_path / "d", config=QUIET + _root(tmp_path / "a")) as daemon:
        yield daemon.start()


def _leave_lock(root: Path, age_s: float, holder: dict[str, Any] | None) -> Path:
    lock = root / ".lock"
    lock.write_text(json.dumps(holder) if holder else "")
    os.utime(lock, (time.time() - age_s,) * 2)
    return lock


def _dead_pid() -> int:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    return gone.pid


def test_what_lock_clear_removed_is_in_its_answer(daemon: Daemon, tmp_path: Path) -> None:
    lock = _leave_lock(tmp_path / "a", 40, {"pid": _dead_pid()})
    told = daemon.rpc("lock.clear")
    assert told["cleared"] == [".lock"]
    assert not lock.exists()
    assert daemon.rpc("history.list")["entries"][0]["by"] == "command"


def test_lock_clear_with_a_path_touches_no_other_lock(daemon: Daemon, tmp_path: Path) -> None:
    lock = _leave_lock(tmp_path / "a", 40, {"pid": _dead_pid()})
    assert daemon.rpc("lock.clear", root="a", path="other.lock") == {"locks": [], "cleared": []}
    assert lock.exists()
    assert daemon.rpc("lock.list", path="other.lock")["locks"] == []
    assert daemon.rpc("lock.list", path=str(lock))["locks"][0]["state"] == "stale"


def test_force_removes_a_lock_that_nobody_can_prove_dead(daemon: Daemon, tmp_path: Path) -> None:
    lock = _leave_lock(tmp_path / "a", 40, None)
    assert daemon.rpc("lock.clear", path=str(lock), force=True)["cleared"] == [".lock"]
    assert not lock.exists()


def test_force_removes_the_lock_of_one_root_only(tmp_path: Path) -> None:
    """Every root may have a lock of this name."""
    locks = []
    for name in ("a", "b"):
        _store(tmp_path / name)
        locks.append(_leave_lock(tmp_path / name, 40, None))
    with Daemon(tmp_path / "d", config=QUIET + _root(tmp_path / "a") + _root(tmp_path / "b")) as daemon:
        daemon.start()
        for path in (".lock", str(tmp_path / "c" / ".lock")):
            with pytest.raises(UsageError, match="specify the root"):
                daemon.rpc("lock.clear", path=path, force=True)
        assert all(lock.exists() for lock in locks)
        assert daemon.rpc("lock.clear", root="b", path=".lock", force=True)["cleared"] == [".lock"]
        assert [lock.exists() for lock in locks] == [True, False]


def test_a_lock_of_the_first_process_is_held(daemon: Daemon, tmp_path: Path) -> None:
    """In a container the agent may be process 1; asked by another user it answers with EPERM: alive."""
    lock = _leave_lock(tmp_path / "a", 400, {"pid": 1})
    (found,) = daemon.rpc("lock.list")["locks"]
    os.utime(lock, (time.time(),) * 2)  # it began before the lock
    (fresh,) = daemon.rpc("lock.list")["locks"]
    assert (found["pid"], fresh["pid"], fresh["state"]) == (1, 1, "held")


def test_a_dry_run_of_backup_create_writes_nothing(daemon: Daemon, tmp_path: Path) -> None:
    told = daemon.rpc("backup.create", dry_run=True)
    assert [each["outcome"] for each in told["created"]] == ["due", "empty", "empty"]
    assert told["backups"] == []
    assert not (tmp_path / "a" / ".backup").exists()
    done = daemon.rpc("backup.create")
    assert [each["outcome"] for each in done["created"]] == ["made", "empty", "empty"]


def test_restoring_nothing_in_particular_is_a_usage_error(daemon: Daemon) -> None:
    assert isinstance(_error(daemon, "backup.restore", root="a"), UsageError)
    assert daemon.run("backup", "restore", "a").returncode == 2


def test_what_is_undone_cannot_be_undone_again(daemon: Daemon) -> None:
    receipt = daemon.rpc("archive", ids=["00000000-0000-4000-8000-000000000000"])["receipt"]
    daemon.rpc("undo", receipt=receipt)
    assert isinstance(_error(daemon, "undo", receipt=receipt), ConflictError)
    done = daemon.run("undo", receipt)
    assert done.returncode == 1
    assert f"the change {receipt} has already been undone\n" in done.stderr


def test_a_run_by_command_counts_as_a_run(daemon: Daemon) -> None:
    daemon.rpc("jobs.run", name="permissions")
    (row,) = daemon.rpc("jobs.list", name="permissions")["jobs"]
    assert (row["runs"], row["last_result"]) == (1, "ok")
    assert "chmod the directory: mode" in daemon.rpc("history.list")["entries"][0]["summary"]


def test_locks_and_backups_of_a_paused_root_can_be_listed(daemon: Daemon) -> None:
    daemon.rpc("root.pause", name="a")
    assert daemon.rpc("lock.list", root="a") == {"locks": []}
    assert daemon.rpc("backup.list", root="a") == {"backups": []}
    assert _error(daemon, "check", root="a").rpc_code == -32013


def test_a_pause_and_its_end_are_told(daemon: Daemon) -> None:
    with Client(daemon.socket) as client:
        client.call("subscribe", {"topics": ["root"]})
        daemon.rpc("root.pause", name="a")
        daemon.rpc("root.resume", name="a")
        events = client.events(("root",))
        told = [next(events), next(events)]
    assert [(each["root"], each["state"]) for each in told] == [("a", "paused"), ("a", "ok")]


def test_where_a_line_is_broken_is_told_in_words(daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "a" / "tasks.jsonl").write_text('{"id":1,\n{"id":"x\n{}\n')
    os.utime(tmp_path / "a" / "tasks.jsonl", (time.time() - 100,) * 2)
    messages = [each["message"] for each in daemon.rpc("check")["findings"] if each["code"] == "invalid-json"]
    assert messages[1] == "Invalid JSON at line 2: Unterminated string starting at character 7"


def test_a_root_may_be_named_by_its_directory(daemon: Daemon, tmp_path: Path) -> None:
    other = _store(tmp_path / "b")
    (row,) = daemon.rpc("root.add", path=str(other), layout="jsonl-store")["roots"]
    assert set(row["findings"]) == {"error", "warning", "info"}, "also before the first look"
    assert daemon.run("root", "remove", str(other)).returncode == 0
    assert _error(daemon, "root.remove", path=str(other)).rpc_code == -32002


def test_a_newer_index_is_a_guard_not_a_matter_of_rights(tmp_path: Path) -> None:
    root = _store(tmp_path / "a")
    (root / "index.json").write_text('{"version":"2.0.0"}')
    with Daemon(tmp_path / "d", config=QUIET + _root(root)) as daemon:
        daemon.start()
        assert isinstance(_error(daemon, "archive", root="a"), GuardError)


def test_status_says_what_could_go_also_after_a_restart(tmp_path: Path) -> None:
    """A hard limit: one warning for the crossing, suggestions in `status` for as long as it lasts."""
    root = _store(tmp_path / "a", 5)
    limits = '[root.limits]\n"core_memories.jsonl" = { max_count = 4 }'
    with Daemon(tmp_path / "d", config=QUIET + _root(root)) as daemon:
        daemon.start()
        assert daemon.stop() == 0
        daemon.configure(QUIET + _root(root, limits))  # no file changes: the limit does
        for _ in range(2):
            daemon.start()
            daemon.rpc("sync")
            row = next(each for each in daemon.root()["limits"] if each["file"] == "core_memories.jsonl")
            assert row["level"] == "over"
            assert "memoryd archive 0000000" in row["hint"]
            assert daemon.stop() == 0
        assert daemon.log.read_text().count("hard limit reached") == 1


@pytest.mark.parametrize("method", ["root.list", "root.pause", "root.remove"])
@pytest.mark.parametrize("key", ["name", "path"])
def test_an_empty_name_is_no_directory(daemon: Daemon, method: str, key: str) -> None:
    error = _error(daemon, method, **{key: ""})
    assert isinstance(error, UnknownRootError)
    assert (error.message, error.hint) == ("there is no root ''", "the roots are: a")


def test_a_root_that_is_added_says_what_became_of_it(tmp_path: Path) -> None:
    store, notes = _store(tmp_path / "store", 2), tmp_path / "notes"
    notes.mkdir()
    (notes / "readme.txt").write_text("nothing of ours")
    with Daemon(tmp_path / "d", config=QUIET + _root(_store(tmp_path / "first"))) as daemon:
        daemon.start()
        [row] = daemon.rpc("root.add", path=str(store), layout="jsonl-store")["roots"]
        assert (row["state"], row["layout"], row["memories"]) == ("ok", "jsonl-store", 2)
        [row] = daemon.rpc("root.add", path=str(notes))["roots"]
        assert (row["state"], row["layout"]) == ("degraded", None)
        assert "layout" in row["reasons"][0]
        error = refused(lambda: daemon.rpc("root.add", path=str(tmp_path / "typo")))
        assert isinstance(error, UsageError)
        assert len(daemon.rpc("status")["roots"]) == 3
        ran = daemon.rpc("jobs.run", name="archive")["jobs"]
        assert sorted(row["root"] for row in ran) == ["first", "store"], "where the job means something"
        (store / "index.json").unlink()
        anew = daemon.rpc("reindex")
        assert (anew["memories"], anew["written"]) == (5, ["store/index.json"]), "of all roots"


def test_what_is_logged_is_an_event_of_the_topic_log(daemon: Daemon) -> None:
    """With the time of every other answer: UTC with `Z`."""
    calls = [("subscribe", {"topics": ["log"]}), ("config.reload", {})]
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(60)
        sock.connect(daemon.socket)
        for number, (method, params) in enumerate(calls):
            call = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            sock.sendall(json.dumps(call).encode() + b"\n")
        events = (json.loads(text) for text in sock.makefile("rb"))
        told = next(each["params"] for each in events if each.get("params", {}).get("event") == "reloaded")
    assert (told["topic"], told["level"], told["added"]) == ("log", "info", [])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", told["at"])


def test_a_repair_of_several_roots_names_each_change(tmp_path: Path) -> None:
    """Those without a memory file too: modes and locks."""
    roots = [_store(tmp_path / name) for name in ("one", "two")]
    for root in roots:
        root.chmod(0o755)
    (roots[0] / "learnings.jsonl").write_text(_memory(10).strip() + _memory(11))
    with Daemon(tmp_path / "d", config=QUIET + "".join(map(_root, roots))).start() as daemon:
        daemon.rpc("sync")
        _leave_lock(roots[1], 40, {"pid": _dead_pid()})
        before = [(path, path.stat().st_mode, path.stat().st_mtime_ns) for path in tmp_path.glob("[ot]*/*")]
        planned = daemon.rpc("repair", dry_run=True)
        assert [(path, path.stat().st_mode, path.stat().st_mtime_ns) for path in tmp_path.glob("[ot]*/*")] == before
        assert daemon.rpc("history.list")["entries"] == []
        dry = daemon.run("repair", "--dry-run").stdout
        kinds = {(each["root"], each["kind"], each["path"]) for each in planned["plan"]["actions"]}
        assert {("one", "rewrite", "learnings.jsonl"), ("one", "chmod", ""), ("two", "remove", ".lock")} <= kinds
        printed = daemon.run("repair").stdout
        actions, receipts = printed.split("done in ", 1)
        assert re.sub(r"\d+ s old", "", actions) == re.sub(r"\d+ s old", "", dry)
        entries = daemon.rpc("history.list")["entries"]
        assert sorted((each["root"], each["operation"]) for each in entries) == [
            ("one", "permissions"),
            ("one", "repair"),
            ("two", "lock-clear"),
            ("two", "permissions"),
        ]
        for entry in entries:
            ending = f"; to undo it: `memoryd undo {entry['receipt']}`" if entry["operation"] != "lock-clear" else ""
            line = f"{entry['root']}, receipt {entry['receipt']} ({entry['operation']}){ending}\n"
            assert line in receipts
        assert daemon.rpc("repair") == {"plan": {"actions": []}}


def test_a_root_that_is_not_served_does_not_hide_that_the_others_are_synced(tmp_path: Path) -> None:
    roots = [_store(tmp_path / name) for name in ("served", "paused", "missing")]
    with Daemon(tmp_path / "d", config=QUIET + "".join(map(_root, roots))).start() as daemon:
        daemon.rpc("sync")
        daemon.rpc("root.pause", name="paused")
        roots[2].rename(tmp_path / "elsewhere")
        answer = daemon.rpc("sync")
        assert list(answer["roots"]) == ["served"]
        assert answer["errors"].keys() == {"paused", "missing"}
        assert daemon.run("sync").returncode == 1
        assert _error(daemon, "sync", root="paused").rpc_code == -32013
        with open(roots[0] / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            (roots[0] / "tasks.jsonl").write_text(_memory(7))
            assert _error(daemon, "sync", timeout_ms=100).rpc_code == -32010


def test_what_is_kept_of_a_missing_root_is_listed(tmp_path: Path) -> None:
    """In the state directory; of the copies in the directory itself, it is told that they are missing with it."""
    topics = tmp_path / "topics"
    (topics / "a").mkdir(parents=True)
    (topics / "a/b.md").write_text("## 2026-01-02: Title\n**Context:** c\n**Problem:** p\n**Solution:** s\n\n---\n")
    lines = _store(tmp_path / "lines")
    config = QUIET + _root(lines) + f'[[root]]\nname = "topics"\npath = "{topics}"\nlayout = "markdown-topics"\n'
    with Daemon(tmp_path / "d", config=config).start() as daemon:
        daemon.rpc("sync")
        daemon.rpc("backup.create")
        before = {each["id"]: each for each in daemon.rpc("backup.list")["backups"]}
        assert {each["root"] for each in before.values()} == {"topics", "lines"}
        shutil.rmtree(topics)
        shutil.rmtree(lines)
        for _ in range(2):
            listed = {each["id"]: each for each in daemon.rpc("backup.list")["backups"]}
            assert listed.keys() == before.keys()
            for identity, each in listed.items():
                if each["root"] == "topics":
                    assert (each["valid"], each["sha256"]) == (True, before[identity]["sha256"])
                else:
                    assert (each["valid"], each["problem"]) == (False, f"missing with {lines}/.backup")
            assert f"missing with {lines}/.backup" in daemon.run("backup", "list", "lines").stdout
            assert _error(daemon, "backup.verify", root="topics").rpc_code == -32003
            daemon.stop()
            daemon.start()
