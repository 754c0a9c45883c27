"""The user unit as it is shipped, under a real systemd: ready, private, restarted, reloaded, stopped."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.agents import line, memory
from tests.daemon import until
from tests.service.box import HOME, RUNTIME, UID, Box, BoxError, boot

pytestmark = [pytest.mark.slow, pytest.mark.root_only]

PACKAGE = Path(__file__).parents[2]
UNITS = PACKAGE / "systemd"
ROOT = f"{HOME}/.claude/agents/memories"
CONFIG = f"{HOME}/.config/memoryd/config.toml"
SERVICE = "memoryd.service"
STATE = f"{HOME}/.local/state/memoryd"
KEY = "key-of-the-endpoint"
ENDPOINT = """
[search]
embedder = "endpoint"
[search.endpoint]
url = "http://127.0.0.1:8187/v1"
model = "small"
size = 2
"""
# Writes down with which key it is asked.
SERVER = f"""
import http.server, json
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        open("{HOME}/asked", "a").write(self.headers["Authorization"] + "\\n")
        rows = [{{"index": at, "embedding": [1.0, 2.0]}} for at, _ in enumerate(texts)]
        content = json.dumps({{"data": rows}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
http.server.HTTPServer(("127.0.0.1", 8187), Handler).serve_forever()
"""
GOOD = f'[[root]]\nname = "agents"\npath = "{ROOT}"\nlayout = "jsonl-store"\n'


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    try:
        with boot() as box:
            for unit in UNITS.iterdir():
                box.write(f"{HOME}/.config/systemd/user/{unit.name}", unit.read_text())
            box.write(f"{ROOT}/learnings.jsonl", "")
            yield box
    except BoxError as error:
        pytest.skip(f"no systemd box here: {error}")


@pytest.fixture
def running(box: Box) -> Iterator[Box]:
    """The service, freshly started with a good configuration."""
    box.write(CONFIG, GOOD)
    box.systemctl("daemon-reload")
    box.systemctl("start", SERVICE)  # returns when READY=1 has come
    yield box
    box.systemctl("stop", SERVICE, "memoryd.socket")
    box.systemctl("reset-failed", check=False)


def _status(box: Box) -> dict[str, object]:
    found = json.loads(box.user("memoryd", "status", "--json").stdout)
    assert isinstance(found, dict)
    return found


def _main_pid(box: Box) -> str:
    return box.shown(SERVICE, "MainPID")


def _log(box: Box) -> str:
    return box.user("journalctl", "--user", "-u", SERVICE, "-o", "cat").stdout


def _asked(box: Box) -> list[str]:
    """The keys that came with what the server for embeddings was asked."""
    return box.user("cat", f"{HOME}/asked", check=False).stdout.splitlines()


def test_it_starts_and_clients_find_it(running: Box) -> None:
    assert running.shown(SERVICE, "ActiveState") == "active"
    until(lambda: running.shown(SERVICE, "StatusText") == "agents ok", "the root is shown")
    status = _status(running)
    assert status["state"] == "ok"
    modes = running.user("stat", "-c", "%a %F", f"{RUNTIME}/memoryd", f"{RUNTIME}/memoryd/control.sock").stdout
    assert modes.splitlines() == ["700 directory", "600 socket"]
    assert running.user("stat", "-c", "%a", f"{HOME}/.local/state/memoryd").stdout.strip() == "700"
    assert running.user("stat", "-c", "%a", f"{ROOT}/index.json").stdout.strip() == "600"


def test_a_killed_daemon_is_back_by_itself(running: Box) -> None:
    before = _main_pid(running)
    running.systemctl("kill", "--signal=KILL", SERVICE)
    until(lambda: _main_pid(running) not in ("0", before) and running.shown(SERVICE, "ActiveState") == "active", "back")
    assert running.shown(SERVICE, "NRestarts") == "1"
    assert _status(running)["state"] == "ok"


def test_a_daemon_that_hangs_is_ended_and_started_anew(running: Box) -> None:
    dropped = f"{HOME}/.config/systemd/user/{SERVICE}.d/fast.conf"
    running.write(dropped, "[Service]\nWatchdogSec=5\nTimeoutAbortSec=1\n")
    running.systemctl("daemon-reload")
    running.systemctl("restart", SERVICE)
    try:
        before = _main_pid(running)
        until(lambda: _status(running)["uptime_s"] > 7, "it lives longer than its limit")  # type: ignore[operator]  # a number
        assert _main_pid(running) == before
        running.systemctl("kill", "--signal=STOP", "--kill-whom=main", SERVICE)
        until(lambda: _main_pid(running) not in ("0", before), "another process")
        until(lambda: "Watchdog timeout" in _log(running), "the reason is told")
    finally:
        running.user("rm", dropped)
        running.systemctl("daemon-reload")


def test_a_state_disk_that_is_full_at_a_start_is_got_over(running: Box) -> None:
    running.systemctl("stop", SERVICE)
    running.root("mount", "-t", "tmpfs", "-o", f"size=4m,uid={UID},mode=700", "none", STATE)
    try:
        running.systemctl("start", SERVICE)
        running.user("sh", "-c", f"cat /dev/zero > {STATE}/ballast", check=False)
        running.systemctl("kill", "--signal=KILL", SERVICE)
        until(lambda: running.shown(SERVICE, "ExecMainStatus") not in ("0", "9"), "a start is refused", 90)
        assert running.shown(SERVICE, "ExecMainStatus") == "74"
        running.user("rm", f"{STATE}/ballast")
        until(lambda: running.shown(SERVICE, "ActiveState") == "active", "it is back by itself", 90)
        assert _status(running)["state"] == "ok"
    finally:
        running.systemctl("stop", SERVICE)
        running.root("umount", "--lazy", STATE)


def test_a_server_for_embeddings_is_asked_and_gets_its_key(running: Box) -> None:
    restricted = f"{HOME}/.config/systemd/user/{SERVICE}.d/network.conf"
    running.user("systemd-run", "--user", "--quiet", "--unit=embeddings", sys.executable, "-c", SERVER)
    running.write(f"{HOME}/.config/memoryd/env", f"MEMORYD_EMBEDDINGS_KEY={KEY}\n", 0o600)
    running.write(CONFIG, GOOD + ENDPOINT)
    running.write(f"{ROOT}/learnings.jsonl", line(memory()))
    try:
        running.systemctl("restart", SERVICE)
        until(lambda: _asked(running), "the server is asked")
        assert {*_asked(running)} == {f"Bearer {KEY}"}
        until(lambda: _status(running)["state"] == "ok", "it has its answer")
        running.write(restricted, "[Service]\nRestrictAddressFamilies=\nRestrictAddressFamilies=AF_UNIX\n")
        running.systemctl("stop", SERVICE)  # else it would embed the new memory before it ends
        running.write(f"{ROOT}/learnings.jsonl", line(memory()))
        running.systemctl("daemon-reload")
        running.systemctl("start", SERVICE)
        until(lambda: "memoryd may not use the network" in _log(running), "what is in the way is told")
    finally:
        running.user("rm", "-f", restricted)
        running.write(f"{ROOT}/learnings.jsonl", "")
        running.systemctl("stop", "embeddings", check=False)
        running.systemctl("daemon-reload")


def test_a_reload_brings_a_new_root_and_a_bad_one_changes_nothing(running: Box) -> None:
    before = _main_pid(running)
    more = f"{HOME}/more"
    running.write(f"{more}/tasks.jsonl", "")
    running.write(CONFIG, GOOD + f'[[root]]\nname = "more"\npath = "{more}"\nlayout = "jsonl-store"\n')
    running.systemctl("reload", SERVICE)
    until(lambda: running.shown(SERVICE, "StatusText") == "agents ok, more ok", "both roots are shown")
    running.write(CONFIG, GOOD + "[daemon]\nlog_levl = 1\n")
    refused = running.systemctl("reload", SERVICE, check=False)
    assert refused.returncode != 0
    roots = _status(running)["roots"]
    assert isinstance(roots, list)
    assert [root["name"] for root in roots] == ["agents", "more"]
    assert (_main_pid(running), running.shown(SERVICE, "ActiveState")) == (before, "active")


def test_stopping_is_quick_and_clean(running: Box) -> None:
    running.systemctl("stop", SERVICE)
    assert running.shown(SERVICE, "Result") == "success"
    assert running.shown(SERVICE, "ExecMainStatus") == "0"
    assert running.user("memoryd", "ping", check=False).returncode == 69


def test_a_bad_configuration_is_told_once(box: Box) -> None:
    box.write(CONFIG, "[daemon]\nlog_levl = 1\n")
    box.systemctl("start", SERVICE, check=False)
    until(lambda: box.shown(SERVICE, "ActiveState") == "failed", "it gives up")
    assert (box.shown(SERVICE, "ExecMainStatus"), box.shown(SERVICE, "NRestarts")) == ("78", "0")
    box.systemctl("reset-failed")


def test_with_the_socket_unit_a_command_starts_it_and_stop_stops_it(running: Box) -> None:
    running.systemctl("stop", SERVICE)
    running.systemctl("start", "memoryd.socket")
    assert "answers" in running.user("memoryd", "ping").stdout
    running.systemctl("restart", SERVICE)
    assert "answers" in running.user("memoryd", "ping").stdout
    running.user("memoryd", "stop")
    until(lambda: running.shown(SERVICE, "ActiveState") == "inactive", "stopped")
    assert running.user("test", "-S", f"{RUNTIME}/memoryd/control.sock").returncode == 0
    running.systemctl("stop", "memoryd.socket")
    assert running.user("test", "-e", f"{RUNTIME}/memoryd/control.sock", check=False).returncode == 1


# Stores one memory after the other, each over a connection of its own, until it finds the file `enough`.
WRITER = f"""
import itertools, json, os, sys
from memoryd.control.client import Client
done, failed = [], []
for number in itertools.count():
    if os.path.exists("{HOME}/enough"):
        break
    content = f"memory {{sys.argv[1]}} {{number}} of a client that knows nothing of restarts"
    try:
        with Client("{RUNTIME}/memoryd/control.sock", timeout=120) as client:
            memory = {{"type": "learning", "content": content}}
            client.call("memory.add", {{"root": "agents", "memory": memory}})
            done.append(content)
    except Exception as error:
        failed.append(f"{{content}}: {{error}}")
print(json.dumps([done, failed]))
"""


@pytest.mark.timeout(600)  # a restart under load takes three seconds
def test_fifty_restarts_with_the_socket_lose_and_double_no_request(running: Box) -> None:
    """Clients connect, write and read all the time; none may notice that the daemon is another one."""
    running.systemctl("stop", SERVICE)
    root = (
        f"{HOME}/restarts"  # its own: a store that loses most of its memories is suspect for the tests after this one
    )
    running.write(f"{root}/learnings.jsonl", "")
    running.write(CONFIG, GOOD.replace(ROOT, root) + '[root.limits]\n"learnings.jsonl" = "off"\n')
    running.user("rm", "-f", f"{HOME}/enough")
    running.systemctl("start", "memoryd.socket", SERVICE)
    python = ["/usr/bin/env", f"PYTHONPATH={PACKAGE}", sys.executable, "-c", WRITER]
    with ThreadPoolExecutor(3) as pool:
        writers = [pool.submit(running.user, *python, str(number)) for number in range(3)]
        try:
            pids = set()
            for _ in range(50):
                running.systemctl("restart", SERVICE)
                pids.add(_main_pid(running))
        finally:
            running.write(f"{HOME}/enough", "")
        done, failed = zip(*(json.loads(writer.result().stdout) for writer in writers), strict=True)
    assert [*failed] == [[], [], []]
    assert len(pids) == 50
    assert all(done)
    running.user("memoryd", "sync")
    lines = running.user("cat", f"{root}/learnings.jsonl").stdout.splitlines()
    assert sorted(json.loads(each)["content"] for each in lines) == sorted(content for each in done for content in each)


def test_the_box_is_apart_from_this_machine(box: Box) -> None:
    box.write(f"{HOME}/written", "")
    assert not os.path.exists(f"{HOME}/written")
