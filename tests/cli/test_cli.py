"""The command line against a real server with stub handlers, and as the real program."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import psutil
import pytest
from click.shell_completion import ShellComplete
from structlog.testing import capture_logs

import memoryd
from memoryd import __version__
from memoryd.cli import main, views
from memoryd.cli.commands import LOCAL, to_params
from memoryd.cli.main import run
from memoryd.cli.program import cli
from memoryd.control.methods import METHODS, TABLE
from memoryd.control.methods.method_types import Method, Request
from memoryd.control.server import Server
from memoryd.errors import BusyError, ConfigError, InvalidMemoryError, MemorydError
from tests.daemon import until
from tests.layouts import session_samples
from tests.parameters import given
from tests.program import run_program

FINDING = {
    "root": "a",
    "code": "torn-tail",
    "severity": "error",
    "path": "l.jsonl",
    "line": 3,
    "message": "cut \x1b[31moff",
    "fixable": False,
}
ACTION = {"kind": "append", "path": "l.jsonl", "ids": ["1", "2", "3", "4"], "why": "older than 90 days"}
ROOT = {
    "name": "agents",
    "path": "/m",
    "layout": "jsonl-store",
    "mode": "maintain",
    "state": "degraded",
    "reasons": ["the watch limit (fs.inotify.max_user_watches) is reached"],
    "memories": 3,
    "archived": 1,
    "files": 2,
    "bytes": 2048,
    "findings": {"error": 1, "warning": 0, "info": 0},
    "watch": {"mode": "inotify", "wanted": 2, "held": 1},
    "last_scan": 1e9,
    "generation": 4,
    "lag_ms": 3.2,
    "locks": [{"path": ".lock", "state": "held"}],
    "limits": [
        {
            "file": "l.jsonl",
            "count": 490,
            "max_count": 500,
            "bytes": 10,
            "max_bytes": None,
            "kind": "soft",
            "level": "near",
        }
    ],
    "backups": {"count": 5, "newest": 1e9},
}
JOB = {
    "name": "archive",
    "root": "agents",
    "schedule": "every 6h",
    "last_run": None,
    "last_result": None,
    "next_run": 2e9,
}
BACKUP = {
    "id": "b7",
    "root": "agents",
    "file": "l.jsonl",
    "taken": 1e9,
    "bytes": 99,
    "sha256": "00",
    "valid": True,
}
SECRET = "ghp_" + "a1B2" * 9
LOCK = {
    "root": "a",
    "path": ".lock",
    "pid": 77,
    "age_s": 300.0,
    "state": "stale",
    "evidence": "pid 77 is dead",
}

MEMORY = {
    "root": "agents",
    "id": "m-1",
    "path": "l.jsonl",
    "line": 7,
    "type": "learning",
    "tags": ["db"],
    "created": "2026-01-02T03:04:05Z",
    "archived": False,
}
STORED = {"root": "agents", "id": "m-1", "path": "l.jsonl", "receipt": "r-9"}

RESULTS: dict[str, dict[str, Any]] = {
    "ping": {"pid": 2_000_000_000, "version": "1", "instance": "i", "uptime_s": 99.5},
    "status": {
        "state": "degraded",
        "pid": 5,
        "version": "1",
        "uptime_s": 7,
        "roots": [ROOT],
        "jobs": [JOB],
        "resources": {"rss_bytes": 41_000_000, "open_fds": 9, "threads": 7, "cpu_s": 0.4, "wakeups": 90},
    },
    "sync": {
        "roots": {
            "agents": {"generation": 5, "waited_ms": 12.0},
            "b": {"generation": 1, "waited_ms": 0, "written": False, "reason": "observe mode"},
        }
    },
    "check": {
        "findings": [FINDING, FINDING | {"line": None, "id": "u/m-7"}],
        "summary": {"error": 1, "warning": 0, "info": 0},
        "truncated": {"findings": 9},
    },
    "plan": {"roots": [{"name": "agents", "actions": [ACTION], "due": {"archive": 2e9}}]},
    "archive": {"plan": {"actions": [ACTION]}, "receipt": "r-1", "truncated": {"plan.actions.0.ids": 6000}},
    "repair": {"plan": {"actions": []}},
    "dedupe": {"plan": {"actions": []}},
    "reindex": {"plan": {"actions": []}},
    "undo": {"plan": {"actions": [ACTION]}, "diff": "-a\n+b\n"},
    "backup.list": {"backups": [BACKUP]},
    "backup.create": {"backups": [BACKUP]},
    "backup.verify": {"backups": [{**BACKUP, "valid": False}]},
    "backup.restore": {"plan": {"actions": [ACTION]}, "receipt": "r-2"},
    "file.restore": {"plan": {"actions": [ACTION]}, "receipt": "r-2"},
    "lock.list": {"locks": [LOCK]},
    "lock.clear": {"locks": [LOCK], "cleared": [".lock"], "receipt": "r-3"},
    "jobs.list": {"jobs": [JOB]},
    "jobs.run": {"jobs": [{**JOB, "last_result": "done"}]},
    "history.list": {
        "entries": [
            {
                "receipt": "r-1",
                "at": "2026-01-02T03:04:05Z",
                "root": "a",
                "operation": "archive",
                "by": "schedule",
                "summary": "2 memories",
                "undone": True,
            }
        ]
    },
    "root.list": {"roots": [ROOT]},
    "config.show": {
        "path": "/c.toml",
        "daemon": {"settle_ms": {"value": 100, "origin": "default"}},
        "search": {"endpoint": {"size": {"value": 384, "origin": "default"}}},
        "roots": {"a": {"schedule": {"archive": {"value": "off", "origin": "root:3"}}}},
    },
    "config.validate": {"added": [], "changed": [], "removed": []},
    "config.reload": {"dry_run": False, "added": ["b"], "changed": [], "removed": ["c"]},
    "log.level": {"level": "debug"},
    "memory.search": {
        "hits": [
            {**MEMORY, "title": "Pool size", "snippet": "20 \x1b[31mconnections", "score": 1.5, "why": {"text": 1.5}},
            {**MEMORY, "title": "Old", "snippet": "", "score": 1, "why": {}, "archived": True},
        ],
        "took_ms": 0.4,
        "fresh": {"agents": {"state": "stale", "generation": 3, "lag_ms": 8000}},
    },
    "memory.get": {**MEMORY, "layout": "jsonl-store", "memory": {"id": "m-1", "content": "Zürich"}},
    "memory.list": {"memories": [{**MEMORY, "title": "Pool size"}], "next_cursor": "c-2", "fresh": {}},
    "memory.add": {**STORED, "warnings": ["content: looks like an assignment of a password"]},
    "memory.update": STORED,
    "memory.forget": STORED,
    "memory.unarchive": {key: value for key, value in STORED.items() if key != "receipt"},
    "metrics": {"text": "# HELP memoryd_up 1\nmemoryd_up 1.0\n"},
    "shutdown": {"stopping": True, "pid": 2_000_000_000},
}
for _name in ("root.add", "root.remove", "root.pause", "root.resume", "root.confirm"):
    RESULTS[_name] = RESULTS["root.list"]

EXAMPLES: dict[str, list[str]] = {
    "file.restore": ["/m/f"],
    "undo": ["r-1"],
    "jobs.run": ["archive"],
    "root.add": ["/m"],
    "root.remove": ["agents"],
    "root.pause": ["agents"],
    "root.resume": ["agents"],
    "root.confirm": ["agents"],
    "memory.search": ["pool", "size"],
    "memory.get": ["m-1"],
    "memory.add": ["content=x"],
    "memory.update": ["m-1", "importance=high"],
    "memory.forget": ["m-1"],
    "memory.unarchive": ["m-1"],
}
CLIENT_METHODS = [method for method in METHODS if method.command]
CODES = {"check": 1, "backup.verify": 1}


class Stub:
    """A server whose handlers return the results above; `calls` records the requests."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.failing: dict[str, MemorydError] = {}
        self.server = Server(self.path, {name: self._handler(name) for name in RESULTS}, {"version": "1"})
        self.server.start()

    def _handler(self, name: str) -> Callable[[Request], dict[str, Any]]:
        def handle(request: Request) -> dict[str, Any]:
            self.calls.append((name, given(request)))
            if name in self.failing:
                raise self.failing[name]
            if name == "shutdown":
                Path(self.path).unlink()
            return RESULTS[name]

        return handle


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[Stub]:
    with capture_logs():  # the server runs in this process, and its log would mix with the captured output
        stub_daemon = Stub(tmp_path / "c.sock")
        yield stub_daemon
        stub_daemon.server.close(0.2)


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the configuration of this machine."""
    for name in ("MEMORYD_CONFIG", "MEMORYD_SOCKET", "MEMORYD_STATE_DIR", "XDG_RUNTIME_DIR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(Path(memoryd.__file__).parents[1]))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def words(method: Method) -> list[str]:
    assert method.command is not None
    return [*method.command, *EXAMPLES.get(method.name, [])]


def test_the_configuration_is_read_without_a_daemon(
    stub: Stub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A running daemon may use another file, and reads it again only on `reload`."""
    file = tmp_path / "m.toml"
    file.write_text('[daemon]\nlog_level = "debug"\n[[root]]\nname = "a"\npath = "/tmp/a"\n')
    file.chmod(0o600)
    assert run(["--socket", stub.path, "--config", str(file), "config", "validate"]) == 0
    out = capsys.readouterr().out
    assert str(file) in out
    assert "roots: a" in out
    assert run(["--socket", stub.path, "--config", str(file), "config", "show", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["daemon"]["log_level"] == {"value": "debug", "origin": "daemon:2"}
    file.write_text('[daemon]\nlog_levle = "debug"\n')
    assert run(["--socket", stub.path, "--config", str(file), "config", "validate"]) == 78
    assert f"{file}:2" in capsys.readouterr().err
    assert stub.calls == []


@pytest.mark.parametrize(
    "argv",
    [
        ["search"],
        ["add"],
        ["search", "x", "--limit", "0"],
        ["search", "x", "--since", "garbage"],
        ["list", "--until", "2026-02-30"],
        ["repair", "--code", "nonsense"],
        ["sync", "--timeout", "nan"],
        ["check", "agents", "--offline", "."],
        ["dedupe", "agents", "--offline", "."],
        ["get"],
        ["update", "x"],
        ["jobs", "run", "nope"],
    ],
)
def test_wrong_usage_is_reported_without_a_daemon(argv: list[str], tmp_path: Path) -> None:
    assert run(["--socket", str(tmp_path / "none"), *argv]) == 2


# -- results -------------------------------------------------------------------------------------


REMOTE_METHODS = [method for method in CLIENT_METHODS if method.name not in LOCAL]


@pytest.mark.parametrize("method", REMOTE_METHODS, ids=lambda method: method.name)
def test_json_is_the_result_exactly(method: Method, stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["--socket", stub.path, *words(method), "--json"])
    out, err = capsys.readouterr()
    assert json.loads(out) == RESULTS[method.name]
    assert out.count("\n") == 1
    assert err == ""
    assert code == CODES.get(method.name, 0)
    assert stub.calls[0][0] == method.name


@pytest.mark.parametrize("method", CLIENT_METHODS, ids=lambda method: method.name)
def test_the_view_for_people(method: Method, stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints plain text without control characters from file names."""
    assert run(["--socket", stub.path, *words(method)]) == CODES.get(method.name, 0)
    out, err = capsys.readouterr()
    assert out.strip()
    assert err == ""
    assert "\x1b" not in out


@pytest.mark.parametrize("method", CLIENT_METHODS, ids=lambda method: method.name)
def test_a_view_accepts_an_unknown_result(
    method: Method, stub: Stub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RESULTS, method.name, {"unknown": [1]})
    assert run(["--socket", stub.path, *words(method)]) in (0, 1)


def test_what_people_read(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = []
    search, get, add = ["search", "x"], ["get", "m-1"], ["add", "a=b"]
    for command in (["status"], ["check"], ["archive"], ["sync"], ["plan"], search, get, add):
        run(["--socket", stub.path, *command])
        outputs.append(capsys.readouterr().out)
    status, check, archive, sync, plan, search_result, memory, stored = outputs
    assert "fs.inotify.max_user_watches" in status
    assert "l.jsonl: near its soft limit (490 of 500 memories" in status
    assert "a/l.jsonl:3" in check
    assert "a/l.jsonl u/m-7" in check
    assert "cut \\x1b[31moff" in check
    assert "only the first 2 of 9 findings" in check
    assert "plan.actions.0.ids: 6000 in all" in archive
    assert "memoryd undo r-1" in archive
    assert "1, 2 and 2 more" in archive
    assert "observe mode" in sync
    assert "older than 90 days" in plan
    assert "20 \\x1b[31mconnections" in search_result
    assert "Old (archived)" in search_result
    assert "agents/l.jsonl:7  m-1" in search_result
    assert "the index is stale" in search_result
    assert json.loads(memory) == {"id": "m-1", "content": "Zürich"}
    assert "! content: looks like an assignment" in stored


def test_the_results_of_a_job_are_shown_by_root(
    stub: Stub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    results = {
        "moved": {"plan": {"actions": [ACTION]}, "receipt": "r-7"},
        "backed_up": {"created": [{"file": "l.jsonl", "outcome": "made", "id": "b-9"}]},
        "freed": {"locks": [LOCK]},
        "other": {"waited_ms": 3},
    }
    monkeypatch.setitem(RESULTS, "jobs.run", {"jobs": [JOB], "results": results})
    assert run(["--socket", stub.path, "jobs", "run", "archive"]) == 0
    output = capsys.readouterr().out
    moved, backed_up, freed, other = (output.index(f"\n{name}:\n") for name in results)
    assert "older than 90 days" in output[moved:backed_up]
    assert "memoryd undo r-7" in output[moved:backed_up]
    assert "b-9" in output[backed_up:freed]
    assert str(LOCK["evidence"]) in output[freed:other]
    assert output.endswith("other:\ndone\n")


def test_nothing_found_is_told_by_the_exit_code(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RESULTS, "memory.search", {"hits": [], "took_ms": 1, "fresh": {}})
    assert run(["--socket", stub.path, "search", "x"]) == 1


PARTIAL: dict[str, tuple[list[str], int]] = {
    **{name: ([name], 1) for name in ("check", "plan", "repair", "archive", "dedupe", "reindex")},
    **{f"backup.{name}": (["backup", name], 1) for name in ("verify", "list", "create")},
    "memory.get": (["get", "an-id"], 0),  # found in one of the roots
}


@pytest.mark.parametrize("method", PARTIAL)
def test_a_root_that_failed_is_reported_beside_the_results_of_the_others(
    method: str, stub: Stub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script that looks at the exit code alone took the roots that failed for maintained."""
    argv, code = PARTIAL[method]
    empty: dict[str, Any] = {"findings": [], "summary": {}, "backups": [], "roots": [], "plan": {"actions": []}}
    monkeypatch.setitem(RESULTS, method, {**empty, "errors": {"b": "root b: /m does not exist"}})
    assert run(["--socket", stub.path, *argv]) == code
    assert capsys.readouterr().err == "memoryd: root b: /m does not exist\n"
    assert run(["--socket", stub.path, *argv, "--json"]) == code
    assert capsys.readouterr().err == ""


def test_a_value_out_of_range_is_told_without_the_name_of_the_method(
    stub: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--socket", stub.path, "list", "--limit", "0"]) == 2
    assert capsys.readouterr().err.startswith("memoryd: '--limit' must be between 1 and")


@pytest.mark.parametrize("value", ["-1", "601", "nan", "inf", "-inf"])
def test_a_timeout_out_of_range_is_told_in_its_own_unit(
    value: str, stub: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--socket", stub.path, "sync", "--timeout", value]) == 2
    assert capsys.readouterr().err == "memoryd: '--timeout' must be between 0 and 600\n"
    assert stub.calls == []


def test_a_mistyped_code_gets_the_nearest(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--socket", stub.path, "repair", "--code", "joined-line"]) == 2
    assert "did you mean 'joined-lines'?" in capsys.readouterr().err
    assert run(["--socket", stub.path, "repair", "--code", "rebuild-from-archive"]) == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a device that is full")
def test_output_to_a_full_disk_is_no_internal_error(stub: Stub) -> None:
    command = [sys.executable, "-m", "memoryd", "--socket", stub.path, "ping"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 74
    assert done.stderr == "memoryd: the output cannot be written: no space is left on its device\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["add", "content=Gr\udcf6\udcdfe"], "memoryd: the memory is not text in the encoding of the locale\n"),
        (["update", "x", "--tag", "\udcf6"], "memoryd: the memory is not text in the encoding of the locale\n"),
        (["root", "add", "/m\udce9"], "memoryd: /m\\xe9: the path is not UTF-8, and a configuration cannot hold it\n"),
    ],
)
def test_bytes_that_cannot_be_sent_are_stored_nowhere(
    words: list[str], message: str, stub: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--socket", stub.path, *words]) == 2
    assert capsys.readouterr().err.startswith(message)
    assert stub.calls == []


def test_bytes_that_cannot_be_sent_are_looked_up_as_they_are_printed(stub: Stub) -> None:
    run(["--socket", stub.path, "get", "caf\udce9"])
    assert stub.calls == [("memory.get", {"id": "caf\\xe9"})]


def test_a_service_for_a_user_without_a_name_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert run(["service", "install", "--dry-run"]) == 2
    assert capsys.readouterr().err.startswith("memoryd: the system knows no user ")


def test_within_a_budget_only_the_text_is_printed(
    stub: Stub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(RESULTS, "memory.search", {"hits": [{}], "embedding": "## One\n\nTwo\n", "tokens": 4})
    assert run(["--socket", stub.path, "search", "x", "--max-tokens", "9"]) == 0
    assert capsys.readouterr().out == "## One\n\nTwo\n"


# -- parameters ----------------------------------------------------------------------------------

PARAMS = [
    (["status", "agents"], "status", {"root": "agents"}),
    (["status"], "status", {}),
    (["sync", "agents", "--timeout", "1.5"], "sync", {"root": "agents", "timeout_ms": 1500}),
    (
        ["archive", "x", "y", "--root", "r", "--dry-run"],
        "archive",
        {"ids": ["x", "y"], "root": "r", "dry_run": True},
    ),
    (
        ["backup", "restore", "r", "--file", "f", "--at", "b1"],
        "backup.restore",
        {"root": "r", "file": "f", "at": "b1"},
    ),
    (
        ["restore", "/m/f", "--at", "b1", "--lost-only", "--dry-run"],
        "file.restore",
        {"file": "/m/f", "at": "b1", "lost_only": True, "dry_run": True},
    ),
    (["backup", "restore", "r", "--lost-only"], "backup.restore", {"root": "r", "lost_only": True}),
    (["backup"], "backup.list", {}),
    (["jobs"], "jobs.list", {}),
    (["jobs", "--json"], "jobs.list", {}),
    (["jobs", "list", "r"], "jobs.list", {"root": "r"}),
    (["jobs", "run", "archive", "r"], "jobs.run", {"name": "archive", "root": "r"}),
    (["lock", "clear"], "lock.clear", {}),
    (
        ["root", "add", "/m", "--name", "n", "--layout", "auto"],
        "root.add",
        {"path": "/m", "name": "n", "layout": "auto"},
    ),
    (["reload", "--dry-run"], "config.reload", {"dry_run": True}),
    (["log-level", "debug"], "log.level", {"level": "debug"}),
    (["undo", "r-1", "--dry-run"], "undo", {"receipt": "r-1", "dry_run": True}),
    (["history", "--limit", "3"], "history.list", {"limit": 3}),
    (
        ["search", "C++", "pool  size", "--tag", "a", "--tag", "b", "--max-tokens", "50", "--archived"],
        "memory.search",
        {"query": "C++ pool  size", "tags": ["a", "b"], "max_tokens": 50, "archived": True},
    ),
    (["list", "--since", "30d", "--user", "u"], "memory.list", {"since": "30d", "user": "u"}),
    (["get", "m-1", "--touch"], "memory.get", {"id": "m-1", "touch": True}),
    (
        ["add", "--root", "r", "--topic", "t", "content=a=b", "n=2", 'q="2"', "x=null", "w=NaN", "l=1", "l=two"],
        "memory.add",
        {
            "root": "r",
            "topic": "t",
            "memory": {"content": "a=b", "n": 2, "q": "2", "x": None, "w": "NaN", "l": [1, "two"]},
        },
    ),
    (["add", "--tag", "a", "tags=[1]"], "memory.add", {"memory": {"tags": ["a"]}}),
    (
        ["update", "m-1", "importance=high", "--allow-sensitive-words"],
        "memory.update",
        {"id": "m-1", "changes": {"importance": "high"}, "allow_sensitive_words": True},
    ),
]


@pytest.mark.parametrize(("argv", "method", "params"), PARAMS)
def test_the_words_become_parameters(argv: list[str], method: str, params: dict[str, Any], stub: Stub) -> None:
    run(["--socket", stub.path, *argv])
    assert stub.calls[-1] == (method, params)


def test_a_memory_comes_from_a_file_or_from_standard_input(
    stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m.json").write_text('  {"content": "from the file", "type": "core"}')
    run(["--socket", stub.path, "add", "--file", str(tmp_path / "m.json"), "type=task"])
    assert stub.calls[-1][1] == {"memory": {"content": "from the file", "type": "task"}}
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("## 2026-01-31: Ä".encode())))
    run(["--socket", stub.path, "add", "--file", "-"])
    assert stub.calls[-1][1] == {"memory": {"text": "## 2026-01-31: Ä"}}
    (tmp_path / "several.json").write_text('[{"content": "a"}, {"content": "b"}]')
    run(["--socket", stub.path, "add", "--file", str(tmp_path / "several.json")])
    assert stub.calls[-1][1] == {"memories": [{"content": "a"}, {"content": "b"}]}
    (tmp_path / "entry.md").write_text("[a](b)")
    run(["--socket", stub.path, "add", "--file", str(tmp_path / "entry.md")])
    assert stub.calls[-1][1] == {"memory": {"text": "[a](b)"}}


@pytest.mark.parametrize(
    "words", [["content"], ["=x"], ["--file", "/nowhere"], ["--file", "BAD"], [], ["--file", "TWO", "type=task"]]
)
def test_an_invalid_memory_is_not_sent(words: list[str], stub: Stub, tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("{no")
    (tmp_path / "two").write_text("[{}, {}]")
    places = {"BAD": str(tmp_path / "bad"), "TWO": str(tmp_path / "two")}
    arguments = [places.get(word, word) for word in words]
    assert run(["--socket", stub.path, "add", *arguments]) == 2
    assert stub.calls == []


def test_a_zero_is_not_left_out() -> None:
    assert to_params(TABLE["memory.search"], {"query": ("x",), "limit": 0}) == {"query": "x", "limit": 0}
    assert to_params(TABLE["sync"], {"timeout_ms": 0.0}) == {"timeout_ms": 0}


def test_a_path_is_made_absolute_by_the_client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The daemon has another working directory and perhaps another home."""
    monkeypatch.chdir(tmp_path)
    assert to_params(TABLE["root.add"], {"path": "m"}) == {"path": str(tmp_path / "m")}
    assert to_params(TABLE["root.add"], {"path": "~/m"}) == {"path": str(tmp_path / "m")}


def test_the_evidence_is_shown_before_a_lock_is_forced(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    run(["--socket", stub.path, "lock", "clear", "--force", ".lock"])
    assert stub.calls == [
        ("lock.list", {"path": ".lock"}),
        ("lock.clear", {"path": ".lock", "force": True}),
    ]
    out = capsys.readouterr().out
    assert out.index("pid 77 is dead") < out.index("removed .lock")


@pytest.mark.parametrize("option", [["lock", "clear", "--force"], ["search", "x", "--limit"], ["archive", "--root"]])
def test_an_option_without_its_value_is_wrong_usage(
    option: list[str], stub: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--socket", stub.path, *option]) == 2
    assert stub.calls == []
    assert option[-1] in capsys.readouterr().err


def test_the_choices_of_a_missing_argument_are_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion"]) == 2
    assert "Choose from: bash, zsh, fish\nhint: see `memoryd completion --help`" in capsys.readouterr().err


def test_a_value_is_required_after_force(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--socket", stub.path, "lock", "clear", "--force"]) == 2
    assert capsys.readouterr().err == (
        "memoryd: Option '--force' requires an argument.\nhint: see `memoryd lock clear --help`\n"
    )
    assert stub.calls == []


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["search"], "give words to search for, or --similar ID"),
        (["search", "--root", "r"], "give words to search for, or --similar ID"),
        (["add"], 'nothing to store; write "a sentence" or NAME=VALUE, or use --file'),
        (["update", "m-1"], "no fields given; write NAME=VALUE or use --file"),
        (["root", "pause"], "name the root, or give its directory with --path DIR"),
    ],
)
def test_missing_input_is_explained_in_terms_of_the_command_line(
    argv: list[str], message: str, stub: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--socket", stub.path, *argv]) == 2
    assert capsys.readouterr().err == f"memoryd: {message}\n"
    assert stub.calls == []


@pytest.mark.parametrize(
    ("argv", "message", "hint"),
    [
        (
            ["add", "hello"],
            "'hello' is not NAME=VALUE",
            'put a text of several words first, or write content="hello"',
        ),
        (["update", "m-1", "hello"], "'hello' is not NAME=VALUE", 'write content="hello"'),
        (
            ["add", "type=learning", f"the token is {SECRET}"],
            "'the token is [redacted:github-token]' is not NAME=VALUE",
            'put a text of several words first, or write content="the token is [redacted:github-token]"',
        ),
    ],
)
def test_a_word_that_is_no_field_is_told_without_its_secrets(
    argv: list[str], message: str, hint: str, stub: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--socket", stub.path, *argv]) == 2
    assert capsys.readouterr().err == f"memoryd: {message}\nhint: {hint}\n"


@pytest.mark.parametrize(
    ("dry_run", "lines"), [(False, ["added: b", "removed: c"]), (True, ["would add: b", "would remove: c"])]
)
def test_a_reload_without_effect_is_told_from_a_real_one(
    dry_run: bool,
    lines: list[str],
    stub: Stub,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(RESULTS, "config.reload", {**RESULTS["config.reload"], "dry_run": dry_run})
    assert run(["--socket", stub.path, "reload"]) == 0
    assert capsys.readouterr().out.splitlines() == lines


def test_a_wrong_field_of_tags_is_answered_with_the_option(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    findings = [{"field": "tags", "rule": "must be a list of texts"}]
    stub.failing["memory.update"] = InvalidMemoryError("tags: must be a list of texts", data={"findings": findings})
    assert run(["--socket", stub.path, "update", "m-1", "tags=ci"]) == 1
    assert (
        "hint: nothing was stored; correct the fields named, and write --tag TAG for each tag\n"
        in capsys.readouterr().err
    )
    assert run(["--socket", stub.path, "update", "m-1", "--tag", "x" * 99]) == 1
    assert "--tag" not in capsys.readouterr().err


# -- errors --------------------------------------------------------------------------------------

FAILURES: list[tuple[MemorydError, int]] = [
    (BusyError("another process writes", hint="try again"), 75),
    (ConfigError("line 3: unknown key", hint="did you mean mode?"), 78),
    (MemorydError("internal error"), 70),
]


@pytest.mark.parametrize(("error", "code"), FAILURES)
def test_an_error_of_the_daemon(error: MemorydError, code: int, stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    stub.failing["archive"] = error
    assert run(["--socket", stub.path, "archive"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[0] == f"memoryd: {error.message}"
    assert not error.hint or err.splitlines()[1] == f"hint: {error.hint}"
    assert run(["--socket", stub.path, "archive", "--json"]) == code
    reply = json.loads(capsys.readouterr().out)["error"]
    assert (reply["code"], reply["message"], reply["data"]["code"]) == (
        error.rpc_code,
        error.message,
        error.name,
    )


@pytest.mark.parametrize(
    "argv", [["root", "add", ""], ["check", "--offline", ""], ["try", ""], ["init", ""], ["run", ""]]
)
def test_an_empty_path_is_not_the_working_directory(
    argv: list[str], stub: Stub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = str(tmp_path / "state")
    assert run(["--socket", stub.path, "--state-dir", state, *argv]) == 2
    assert "a path is empty" in capsys.readouterr().err
    assert not stub.calls


def test_a_run_that_ends_leaves_the_signals_as_they_were(tmp_path: Path) -> None:
    """A program that calls the command line must not end with 0 on a later signal."""
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    assert run(["--state-dir", str(tmp_path), "run", ""]) == 2
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


USAGE = [
    ["statsu"],
    ["status", "--nonsense"],
    ["undo"],
    ["log-level", "loud"],
    ["jobs", "run", "nonsense"],
    ["backup", "nonsense"],
    ["root", "pause"],
    ["sync", "--timeout", "soon"],
]


@pytest.mark.parametrize("argv", USAGE)
def test_wrong_words_are_usage_errors(argv: list[str], stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--socket", stub.path, *argv]) == 2
    assert capsys.readouterr().err.startswith("memoryd: ")
    assert run(["--socket", stub.path, *argv, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == -32602


def test_json_before_the_command_is_answered_with_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--json", "status"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "memoryd: --json belongs after the command",
        "hint: for example `memoryd status --json`",
    ]
    assert run(["--jsn", "status"]) == 2
    assert "hint: see `memoryd --help`" in capsys.readouterr().err


def test_a_mistyped_command_gets_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["statsu"]) == 2
    assert "did you mean 'status'" in capsys.readouterr().err


def test_a_fault_of_ours_is_70_without_a_trace(
    stub: Stub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RESULTS, "plan", {"roots": 3})
    assert run(["--socket", stub.path, "plan"]) == 70
    assert "Traceback" not in capsys.readouterr().err


def test_no_daemon_is_69(tmp_path: Path) -> None:
    done = run_program("--socket", str(tmp_path / "none.sock"), "status")
    assert done.returncode == 69
    assert done.stderr.startswith("memoryd: no daemon answers at")
    assert "hint: start it with `memoryd run`" in done.stderr
    assert done.stdout == ""


def test_a_missing_configuration_file_is_78(tmp_path: Path) -> None:
    assert run_program("--config", str(tmp_path / "none.toml"), "status").returncode == 78


@pytest.mark.parametrize("words", [["status"], ["plan"], ["status", "--json"]])
@pytest.mark.parametrize("way", ["--config", "MEMORYD_CONFIG"])
def test_a_wrong_configuration_file_is_78_where_no_daemon_answers(tmp_path: Path, words: list[str], way: str) -> None:
    """It is the likely reason why no daemon runs. A valid one is not."""
    file, socket_path = tmp_path / "c.toml", str(tmp_path / "none.sock")
    options = ["--config", str(file)] if way == "--config" else []
    env = {**os.environ, **({} if options else {way: str(file)})}
    file.write_text("[daemon]\nx = 1\n")
    done = run_program(*options, "--socket", socket_path, *words, env=env)
    assert done.returncode == 78, done.stderr
    assert f"{file}:2: daemon.x: unknown key" in done.stderr
    file.write_text("")
    assert run_program(*options, "--socket", socket_path, *words, env=env).returncode == 69


def test_a_daemon_that_answers_is_asked_whatever_became_of_its_configuration_file(tmp_path: Path, stub: Stub) -> None:
    """It runs with the last valid one."""
    (tmp_path / "c.toml").write_text("[daemon]\nx = 1\n")
    assert run(["--config", str(tmp_path / "c.toml"), "--socket", stub.path, "status"]) == 0
    assert run(["--config", str(tmp_path / "c.toml"), "--socket", stub.path, "plan"]) == 0


def test_an_agent_is_served_no_root_that_is_unknown(stub: Stub) -> None:
    """Without a word it would see a server that has no memory at all. A daemon that starts later is waited for."""

    def serve(socket_path: str, *roots: str) -> subprocess.CompletedProcess[str]:
        named = [word for root in roots for word in ("--root", root)]
        return run_program("--socket", socket_path, "mcp", *named)

    told = "memoryd: there is no root 'nix'\nhint: the roots are: agents\n"
    alone, beside, known = serve(stub.path, "nix"), serve(stub.path, "nix", "agents"), serve(stub.path, "agents")
    assert (alone.returncode, alone.stdout, alone.stderr) == (1, "", told)
    assert (beside.returncode, beside.stderr) == (0, told)
    assert (known.returncode, known.stderr) == (0, "")
    assert serve(f"{stub.path}-later", "nix").returncode == 0


@pytest.mark.parametrize("place", ["/proc/x/state", "/dev/null/state"])
def test_the_hint_on_a_state_directory_that_cannot_be_made_is_no_mode(tmp_path: Path, place: str) -> None:
    done = run_program("--state-dir", place, "--socket", str(tmp_path / "s"), "run", str(tmp_path))
    assert done.returncode == 77
    assert f"the state directory {place} cannot be used" in done.stderr
    assert done.stderr.endswith("hint: name another with --state-dir\n")


# -- help ----------------------------------------------------------------------------------------


def all_commands() -> list[tuple[str, ...]]:
    names: list[tuple[str, ...]] = []
    ctx = click.Context(cli)
    for name in cli.list_commands(ctx):
        command = cli.get_command(ctx, name)
        names.append((name,))
        if isinstance(command, click.Group):
            names += [(name, inner) for inner in command.commands]
    return names


@pytest.mark.parametrize("command", all_commands(), ids=" ".join)
def test_every_help_has_an_example(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command, "--help"]) == 0
    out = capsys.readouterr().out
    assert "Example:" in out
    assert f"memoryd {command[0]}" in out.split("Example:")[1] or command[0] == "init"


def test_the_table_is_reachable() -> None:
    """The commands are those of the method table and the local ones."""
    names = ("run", "demo", "try", "init", "top", "events", "report", "convert", "mcp", "completion", "help", "version")
    local = {(name,) for name in names}
    groups = {(method.command[0],) for method in CLIENT_METHODS if method.command and len(method.command) > 1}
    service = {("service",), *[("service", word) for word in ("install", "uninstall", "status", "show")]}
    agents = {("setup",), ("hook",), ("hook", "session-start")}
    assert set(all_commands()) == {method.command for method in CLIENT_METHODS} | groups | local | service | agents


def test_examples_in_the_table_are_commands_that_parse(stub: Stub) -> None:
    for method in CLIENT_METHODS:
        argv = shlex.split(method.example)
        assert argv[0] == "memoryd"
        assert run(["--socket", stub.path, *argv[1:]]) == CODES.get(method.name, 0), method.example
        if method.name == "shutdown":
            return


# -- the program ---------------------------------------------------------------------------------

# msgspec is not among them: the commands are made from the types of the requests.
FORBIDDEN = (
    "memoryd.core.secrets",
    "structlog",
    "rich",
    "watchdog",
    "apscheduler",
    "psutil",
    "filelock",
    "tomlkit",
    "sqlite3",
    "prometheus_client",
    "asyncio",
    "memoryd.engine",
    "memoryd.store",
    "memoryd.layouts",
    "memoryd.disk",
    "memoryd.service",
    "memoryd.operations",
    "memoryd.index.sqlite",
)


NAMES_OF_LAYOUTS = {"memoryd.layouts", "memoryd.layouts.registry"}  # and no layout itself


def loaded_by(*argv: str) -> set[str]:
    code = "import sys; from memoryd.cli.main import run; run(sys.argv[1:])"
    code += "; sys.stderr.write('\\0' + ' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stderr.rpartition("\0")[2].split())


@pytest.mark.parametrize("argv", [["--help"], ["status", "a"], ["jobs", "--json"], ["backup", "list"], ["version"]])
def test_a_client_command_imports_only_what_it_needs(argv: list[str], stub: Stub) -> None:
    loaded = loaded_by("--socket", stub.path, *argv)
    assert "memoryd.control.methods" in loaded
    assert not {name for name in loaded if name.startswith(FORBIDDEN)} - NAMES_OF_LAYOUTS


# Each of these takes a tenth of the interpreter's start or more.
SLOW_TO_IMPORT = {
    *("click", "msgspec", "rich", "platformdirs", "simsimd"),
    *("typing", "inspect", "dataclasses", "contextlib", "threading", "subprocess", "pathlib", "importlib.metadata"),
    *("shutil", "tempfile", "textwrap", "datetime", "difflib", "hashlib", "random", "urllib.parse", "asyncio"),
}
QUICK_MODULES = {
    "memoryd",
    "memoryd.errors",
    *(f"memoryd.cli{each}" for each in ("", ".main", ".exits", ".calls", ".screen", ".views_status")),
    *("memoryd.config", "memoryd.config.socket_path"),
    *("memoryd.control", "memoryd.control.client", "memoryd.control.wire"),
}


@pytest.mark.parametrize("argv", [["ping"], ["status"], ["status", "--json"]])
@pytest.mark.parametrize("by", ["word", "environment", "publication", "nothing"])
def test_a_quick_command_imports_very_little(
    argv: list[str], by: str, stub: Stub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The limit is three times the start of the interpreter; json, socket and their imports use it up."""
    place = ["--socket", stub.path] if by == "word" else []
    if by == "environment":
        monkeypatch.setenv("MEMORYD_SOCKET", stub.path)
    if by == "nothing":
        monkeypatch.setenv("XDG_STATE_HOME", "/nowhere")  # below a long directory the socket would have a hashed name
    if by == "publication":
        (tmp_path / "state" / "memoryd").mkdir(parents=True)
        published = json.dumps({"pid": os.getpid(), "socket": stub.path})
        (tmp_path / "state" / "memoryd" / "instance.json").write_text(published)
    bare = subprocess.run(
        [sys.executable, "-c", "import sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    loaded = loaded_by(*place, *argv)
    assert len(stub.calls) == (by != "nothing")
    assert loaded & SLOW_TO_IMPORT <= set(bare.stdout.split())
    assert {name for name in loaded if name.startswith("memoryd")} == QUICK_MODULES


QUICK_LINES = [[name, *more] for name in main.QUICK for more in ([], ["--json"])]


@pytest.fixture(params=["alone", "failing", "broken", "odd", "unreachable", "misconfigured"])
def given_places(
    request: pytest.FixtureRequest, stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Return global options for a daemon that answers, fails or is missing."""
    place = ["--socket", stub.path]
    match request.param:
        case "failing":
            stub.failing = dict.fromkeys(main.QUICK, BusyError("\x1b[31mbusy", hint="wait", data={"extra": "mcp"}))
        case "broken":
            for name in main.QUICK:
                monkeypatch.setitem(RESULTS, name, {"roots": 3, "resources": [], "uptime_s": "\x9b"})
        case "odd":
            for name in main.QUICK:
                monkeypatch.setitem(RESULTS, name, spoilt(RESULTS[name]))
        case "unreachable":
            place = ["--state-dir", str(tmp_path / "none"), "--config", os.devnull]
        case "misconfigured":
            place += ["--config", str(tmp_path / "none.toml")]
    return place


@pytest.mark.parametrize("argv", QUICK_LINES, ids=" ".join)
def test_a_quick_command_does_what_click_would_do(
    argv: list[str],
    given_places: list[str],
    stub: Stub,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def outcome() -> object:
        stub.calls.clear()
        return run([*given_places, *argv]), capfd.readouterr(), stub.calls.copy()

    quick = outcome()
    monkeypatch.setattr(main, "QUICK", {})
    assert outcome() == quick


def test_quick_commands_wait_as_long_as_the_table_says() -> None:
    assert {TABLE[name].waits_s for name in main.QUICK} == {main.QUICK_WAITS_S}
    assert {TABLE[name].command for name in main.QUICK} == {(name,) for name in main.QUICK}


@pytest.mark.parametrize("argv", [["ping", "--help"], ["ping", "x"], ["status", "--jso"], ["--socket=/s", "ping", "x"]])
def test_any_other_command_line_goes_to_click(
    argv: list[str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, output = run(argv), capfd.readouterr()
    monkeypatch.setattr(main, "QUICK", {})
    assert (run(argv), capfd.readouterr()) == (code, output)
    assert code in (0, 2)


def test_an_interrupted_command_ends_its_line(stub: Stub, tmp_path: Path) -> None:
    """A server that never answers, and the user's Ctrl-C. A starved machine may need longer for the signal than a
    quick command waits, and whoever runs the tests in the background ignores the signal."""
    patient = "import signal; from memoryd.cli import main; signal.signal(signal.SIGINT, signal.default_int_handler)"
    patient += "; main.QUICK_WAITS_S = 600; main.main()"
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent"))
        silent.listen()
        for words in (["status"], ["reindex"]):
            command = [sys.executable, "-c", patient, "--socket", str(tmp_path / "silent"), *words]
            child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            connection, _ = silent.accept()
            with connection:
                assert connection.recv(4096)
                waits = psutil.Process(child.pid)  # a signal just before it waits would be seen only afterwards
                until(lambda: waits.status() == psutil.STATUS_SLEEPING, "it waits for the answer")  # noqa: B023 - at once
                child.send_signal(signal.SIGINT)
                assert child.communicate(timeout=60) == (b"", b"\n")
            assert child.returncode == 130


def on_a_terminal(argv: list[str], env: dict[str, str]) -> str:
    """Return what the program prints on a terminal."""
    master, slave = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "memoryd", *argv],
        stdout=slave,
        env={**os.environ, "TERM": "xterm-256color", **env},
    )
    os.close(slave)
    out = b""
    end = time.monotonic() + 60
    while select.select([master], [], [], max(0, end - time.monotonic()))[0]:
        try:
            chunk = os.read(master, 65_536)
        except OSError:  # end of file: the other end was closed
            break
        out += chunk
    os.close(master)
    assert child.wait(60) == 0
    return out.decode()


def test_colour_and_tables_on_a_terminal_only(stub: Stub) -> None:
    argv = ["--socket", stub.path, "root", "list"]
    fancy = on_a_terminal(argv, {})
    assert "\x1b[" in fancy
    assert "degraded" in fancy
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in on_a_terminal(argv, env)
    plain = run_program(*argv).stdout
    assert plain.splitlines()[0].split() == ["NAME", "STATE", "LAYOUT", "MODE", "PATH"]
    assert "\x1b" not in plain


def test_json_is_never_drawn(stub: Stub) -> None:
    out = on_a_terminal(["--socket", stub.path, "root", "list", "--json"], {})
    assert "\x1b" not in out
    assert json.loads(out) == RESULTS["root.list"]


EVIL = "\x1b]0;OWNED\x07\x1b[2J\x9b1m\x7f\u202e\r"


def spoilt(value: Any) -> Any:
    """Put a terminal's control characters into every text of a result."""
    if isinstance(value, dict):
        return {key: spoilt(each) for key, each in value.items()}
    if isinstance(value, list):
        return [spoilt(each) for each in value]
    return value + EVIL if isinstance(value, str) else value


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("terminal", [False, True])
def test_no_command_lets_a_control_character_through(
    stub: Stub, terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    for name, result in list(RESULTS.items()):
        monkeypatch.setitem(RESULTS, name, spoilt(result))
    for method in METHODS:
        if method.command is None or method.name == "shutdown":
            continue
        for more in ([], ["--json"]):
            out, err = (Terminal(), Terminal()) if terminal else (io.StringIO(), io.StringIO())
            monkeypatch.setattr(sys, "stdout", out)
            monkeypatch.setattr(sys, "stderr", err)
            run(["--socket", stub.path, *words(method), *more])
            raw = [each for each in out.getvalue() + err.getvalue() if not each.isprintable() and each not in "\n\t"]
            assert raw == [], (method.name, more)
            if more and method.name not in LOCAL:
                assert json.loads(out.getvalue()) == RESULTS[method.name]


def test_stop_waits_until_nothing_answers(stub: Stub) -> None:
    done = run_program("--socket", stub.path, "stop")
    assert done.returncode == 0
    assert "has stopped" in done.stdout
    assert not os.path.exists(stub.path)


def test_events_are_one_line_each(stub: Stub) -> None:
    command = [sys.executable, "-m", "memoryd", "--socket", stub.path, "events", "--topic", "job", "--json"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    end = time.monotonic() + 60
    while not select.select([child.stdout], [], [], 0.05)[0]:  # until it follows
        assert time.monotonic() < end
        stub.server.publish("change", {"root": "a"})
        stub.server.publish("job", {"root": "a", "at": 1.5, "name": "archive"})
    assert json.loads(child.stdout.readline()) == {"topic": "job", "at": 1.5, "root": "a", "name": "archive"}
    stub.server.close(0.2)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 69
    assert "the daemon has stopped" in err


@pytest.mark.parametrize("words", ["metrics", "status", "status --json"])
def test_a_reader_that_goes_away_is_no_drama(words: str, stub: Stub) -> None:
    code = f"{sys.executable} -m memoryd --socket {stub.path} {words} | true"
    done = subprocess.run(["/bin/sh", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""


def test_version() -> None:
    assert run_program("version").stdout == f"memoryd {__version__}\n"
    assert json.loads(run_program("version", "--json").stdout)["version"] == __version__


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: str) -> None:
    done = run_program("completion", shell)
    assert done.returncode == 0
    assert "_MEMORYD_COMPLETE" in done.stdout


def test_the_shell_completes_names_of_roots(stub: Stub) -> None:
    env = {**os.environ, "_MEMORYD_COMPLETE": "bash_complete", "MEMORYD_SOCKET": stub.path}
    done = run_program(env={**env, "COMP_WORDS": "memoryd status a", "COMP_CWORD": "2"})
    assert done.stdout == "plain,agents\n"
    assert run_program("ping", env={**env, "COMP_WORDS": "memoryd status a", "COMP_CWORD": "2"}).stdout == done.stdout


def test_the_shell_completes_receipts_that_can_be_undone(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [{"receipt": name, "undone": undone} for name, undone in (("20-c", False), ("20-b", True), ("x", False))]
    monkeypatch.setitem(RESULTS, "history.list", {"entries": entries})
    env = {**os.environ, "_MEMORYD_COMPLETE": "bash_complete", "MEMORYD_SOCKET": stub.path}
    assert run_program(env={**env, "COMP_WORDS": "memoryd undo 20", "COMP_CWORD": "2"}).stdout == "plain,20-c\n"


@pytest.mark.parametrize(
    ("shell", "env", "expected"),
    [
        ("bash", {"COMP_WORDS": "memoryd backup ", "COMP_CWORD": "2"}, ["list", "create", "verify", "restore"]),
        ("bash", {"COMP_WORDS": "memoryd backup c", "COMP_CWORD": "2"}, ["create"]),
        ("zsh", {"COMP_WORDS": "memoryd jobs r", "COMP_CWORD": "2"}, ["run"]),
        ("fish", {"COMP_WORDS": "memoryd lock ", "COMP_CWORD": "cl"}, ["clear"]),
    ],
)
def test_the_shell_completes_second_words(shell: str, env: dict[str, str], expected: list[str], stub: Stub) -> None:
    completion_env = {**os.environ, "_MEMORYD_COMPLETE": f"{shell}_complete", "MEMORYD_SOCKET": stub.path, **env}
    lines = run_program(env=completion_env).stdout.splitlines()
    every = lines[1::3] if shell == "zsh" else [line.partition(",")[2].partition("\t")[0] for line in lines]
    assert sorted(every) == sorted(expected)


def test_init_writes_what_it_found_and_never_overwrites(tmp_path: Path) -> None:
    target = tmp_path / "new.toml"
    done = run_program("--config", str(target), "init", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"wrote {target}" in done.stdout
    text = target.read_bytes()
    again = run_program("--config", str(target), "init", cwd=tmp_path)
    assert again.returncode == 1
    assert "already exists" in again.stderr
    assert target.read_bytes() == text


def test_init_reports_why_a_store_was_recognised_and_what_it_ignores(tmp_path: Path) -> None:
    for path, content in {
        "memories/learnings.jsonl": '{"id": "a", "content": "b", "type": "learning"}\n',
        "memory/MEMORY.md": "- [A](a.md) - hook\n",
        "memory/a.md": "a note\n",
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(content)
    target = tmp_path / "new.toml"
    env = {**os.environ, "HOME": str(tmp_path / "home")}
    done = run_program("--config", str(target), "init", cwd=tmp_path, env=env)
    assert f"found {tmp_path}/memories (jsonl-store: learnings.jsonl:1 holds a memory)" in done.stdout
    assert f"not usable {tmp_path}/memory: looks like Claude Code auto memory (MEMORY.md and 1 note)" in done.stdout
    text = target.read_text()
    assert 'layout = "jsonl-store"' in text.partition("# found: ")[2]
    assert "auto memory" not in text


def test_init_shows_no_raw_control_character_of_a_path(tmp_path: Path) -> None:
    target = tmp_path / "\x1b[2Jmemoryd.toml"
    done = run_program("--config", str(target), "init", env={**os.environ, "HOME": str(tmp_path)}, cwd=tmp_path)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr
    assert target.exists()


def test_check_offline_refuses_anything_but_a_directory(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"x")
    assert run_program("check", "--offline", str(tmp_path / "none")).returncode == 2


@pytest.mark.parametrize("dry_run", [True, False])
def test_duplicates_are_merged_offline_or_only_shown(dry_run: bool, tmp_path: Path) -> None:
    """A dry run leaves no trace, not even a state directory."""
    file = tmp_path / "store" / "2026-01-30" / "14-30-00-fix-bug.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(session_samples.text(session_samples.session(*[session_samples.memory()] * 2)))
    before = file.read_bytes()
    options = ["--dry-run"] if dry_run else []
    done = run_program(
        "--state-dir", str(tmp_path / "state"), "dedupe", "--offline", str(tmp_path / "store"), "--json", *options
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["plan"]["actions"]
    assert ("receipt" in result) is not dry_run
    assert (file.read_bytes() == before) is dry_run
    assert (tmp_path / "state").exists() is not dry_run
    assert not dry_run or sorted(tmp_path.rglob("*")) == [file.parent.parent, file.parent, file]


# As root without the right to read everything.
ORDINARY = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root may read everything")
@pytest.mark.parametrize(
    ("words", "closed", "mode"),
    [
        (["check", "--offline"], "parent/store", 0),
        (["check", "--offline"], "parent/store", 0o400),
        (["check", "--offline"], "parent", 0),
        (["dedupe", "--offline"], "parent/store", 0),
        (["try"], "parent/store", 0),
        (["init", "--dry-run"], "parent/store", 0),
        (["run"], "parent/store", 0),
    ],
)
def test_a_directory_that_may_not_be_read_is_a_matter_of_permission(
    words: list[str], closed: str, mode: int, tmp_path: Path
) -> None:
    """Not wrong usage, and not a directory without memories."""
    store = tmp_path / "parent" / "store"
    store.mkdir(parents=True)
    (tmp_path / closed).chmod(mode)
    places = ["--state-dir", str(tmp_path / "state"), "--socket", str(tmp_path / "s")]
    command = [*ORDINARY, sys.executable, "-m", "memoryd", *places, *words, str(store)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    (tmp_path / closed).chmod(0o700)
    assert done.returncode == 77, done.stderr
    assert "may not be read by this user" in done.stderr


@pytest.mark.parametrize("word", ["backup", "jobs", "lock", "root"])
def test_second_words_are_completed(word: str, stub: Stub) -> None:
    """Each group has `list` for its bare name, which must not hide the others."""
    done = ShellComplete(cli, {"obj": None}, "memoryd", "_MEMORYD_COMPLETE")
    completions = {each.value for each in done.get_completions([word], "")}
    assert "list" in completions
    assert len(completions) > 1
    assert stub.calls == []


def test_a_hit_of_one_line_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Its title is its text."""
    hit = {"root": "a", "path": "l.jsonl", "line": 1, "id": "7", "title": "Run it", "snippet": "Run it"}
    views.print_for_people("memory.search", {"hits": [hit], "fresh": {}})
    assert capsys.readouterr().out.count("Run it") == 1
    views.print_for_people("memory.search", {"hits": [{**hit, "snippet": "Run it … twice"}], "fresh": {}})
    assert capsys.readouterr().out.count("Run it") == 2


def test_a_reindex_tells_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    result: dict[str, Any] = {"plan": {"actions": []}, "memories": 5, "written": ["a/index.json"]}
    views.print_for_people("reindex", result)
    views.print_for_people("reindex", {**result, "written": []})
    views.print_for_people("reindex", {**result, "memories": 1, "written": []})
    views.print_for_people("reindex", {"plan": {"actions": []}})
    assert capsys.readouterr().out.splitlines() == [
        "read 5 memories; wrote a/index.json",
        "read 5 memories; no index file changed",
        "read 1 memory; no index file changed",
        "nothing to do",
    ]


def test_every_receipt_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Of several roots, and of the several changes that a repair may be."""
    nothing: dict[str, Any] = {"plan": {"actions": []}}
    views.print_for_people("archive", {**nothing, "receipt": "r1"})
    views.print_for_people("archive", {**nothing, "receipts": {"a": "r1", "b": "r2"}})
    repaired = [
        {"root": "a", "receipt": "r1", "operation": "repair", "undoable": True},
        {"root": "b", "receipt": "r2", "operation": "lock-clear", "undoable": False},
    ]
    views.print_for_people("repair", {**nothing, "receipts": {"a": "r1", "b": "r2"}, "changes": repaired})
    views.print_for_people("repair", {**nothing, "receipt": "r2", "changes": repaired[1:]})
    printed = [line for line in capsys.readouterr().out.splitlines() if line != "nothing to do"]
    assert printed == [
        "done, receipt r1; to undo it: `memoryd undo r1`",
        "done in a, receipt r1; to undo it: `memoryd undo r1`",
        "done in b, receipt r2; to undo it: `memoryd undo r2`",
        "done in a, receipt r1 (repair); to undo it: `memoryd undo r1`",
        "done in b, receipt r2 (lock-clear)",
        "done, receipt r2",
    ]


def test_a_table_names_the_root_where_a_file_alone_says_too_little(capsys: pytest.CaptureFixture[str]) -> None:
    note = {"root": "a", "kind": "note", "path": "", "ids": [], "why": "off for this root"}
    moved = {"root": "b", "kind": "rewrite", "path": "l.jsonl", "ids": [], "why": "old"}
    saved = {"root": "b", "kind": "copy", "path": "", "ids": [], "why": "new"}
    views.print_for_people("archive", {"plan": {"actions": [note]}})
    views.print_for_people("archive", {"plan": {"actions": [moved]}})
    views.print_for_people("archive", {"plan": {"actions": [note, moved, saved]}})
    views.print_for_people("lock.list", {"locks": [LOCK]})
    rows = [re.split("  +", line) for line in capsys.readouterr().out.splitlines()]
    assert [row[1] for row in rows[:-2]] == ["FILE", "a", "FILE", "l.jsonl", "FILE", "a", "b/l.jsonl", "all files of b"]
    assert rows[-1][:2] == ["a", ".lock"]


def test_settings_with_their_default_are_counted_and_shown_with_all(capsys: pytest.CaptureFixture[str]) -> None:
    views.print_for_people("config.show", RESULTS["config.show"])
    changed = capsys.readouterr().out
    assert re.search(r"roots\.a\.schedule\.archive +off +root:3", changed)
    assert "search.endpoint" not in changed
    assert "2 more keys have their default; --all shows them" in changed
    views.print_for_people("config.show", {**RESULTS["config.show"], "all": True})
    assert re.search(r"search\.endpoint\.size +384 +default", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, "true"),
        (None, "-"),
        (["a/", "ü"], '["a/", "ü"]'),
        (0.5, "0.5"),
        ({"kind": "soft", "max_bytes": None, "max_count": 5}, '{ kind = "soft", max_count = 5 }'),
    ],
)
def test_a_setting_is_shown_as_the_file_has_it(capsys: pytest.CaptureFixture[str], value: object, shown: str) -> None:
    views.print_for_people("config.show", {"daemon": {"key": {"value": value, "origin": "daemon:2"}}})
    assert re.search(rf"daemon\.key +{re.escape(shown)} +daemon:2", capsys.readouterr().out)


def test_a_backup_of_several_files_names_none(capsys: pytest.CaptureFixture[str]) -> None:
    views.print_for_people("backup.list", {"backups": [{**BACKUP, "file": None}]})
    shown = capsys.readouterr().out
    assert " - " in shown
    assert "None" not in shown


def test_config_show_tells_what_was_changed(tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text('[search]\nrerank = "minilm"\n')
    done = run_program("--config", str(config), "config", "show")
    assert re.search(r"search\.rerank +minilm +search:2", done.stdout), done.stdout
    assert "daemon." not in done.stdout
    assert "daemon.settle_ms" in run_program("--config", str(config), "config", "show", "--all").stdout
    assert "all" not in json.loads(run_program("--config", str(config), "config", "show", "--json", "--all").stdout)
