"""A service that cannot start or is not ready yet, under a real systemd: what it says, to whom, and how often."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.agents import line, memory
from tests.daemon import until
from tests.service.box import HOME, Box
from tests.service.test_systemd import CONFIG, GOOD, ROOT, SERVICE, STATE

pytestmark = [pytest.mark.slow, pytest.mark.root_only]

SOCKET = "memoryd.socket"
BAD = "[daemon]\nlog_levl = 1\n"
REASON = f"{CONFIG}:2: daemon.log_levl: unknown key"
BROKEN = f"{HOME}/.config/systemd/user/{SERVICE}.d/broken.conf"
MANY = 20_000


@pytest.fixture
def box(machine: Box) -> Iterator[Box]:
    """A box with an installed service that runs, and its socket unit."""
    machine.write(f"{ROOT}/learnings.jsonl", line(memory()))
    machine.write(CONFIG, GOOD)
    machine.user("memoryd", "service", "install", "--socket")
    yield machine
    machine.user("memoryd", "service", "uninstall")


def _status(box: Box) -> dict[str, object]:
    done = box.user("memoryd", "service", "status", "--json", check=False)
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    assert done.returncode == (0 if found["active"] else 1)
    return found


def _starts(box: Box) -> int:
    log = box.user("journalctl", "--user", "-u", SERVICE, "-o", "json").stdout
    return sum(json.loads(each).get("MESSAGE", "").startswith("Starting ") for each in log.splitlines())


def test_a_service_that_crashes_at_each_start_is_given_up_with_one_line_that_says_why(box: Box) -> None:
    box.systemctl("stop", SOCKET, SERVICE)
    crash = "echo 'memoryd: the disk is on fire' >&2; exit 70"
    command = f'ExecStart=\nExecStart=/bin/sh -c "{crash}"\nRestartSec=100ms\n'
    box.write(BROKEN, f"[Unit]\nStartLimitBurst=5\n[Service]\n{command}")
    box.systemctl("daemon-reload")
    try:
        before = _starts(box)
        box.systemctl("start", SERVICE, check=False)
        until(lambda: box.shown(SERVICE, "ActiveState") == "failed", "systemd gives up")
        status = _status(box)
        assert (status["active"], status["reason"]) == (False, "the disk is on fire")
        assert str(status["state"]).startswith("failed")
        assert "last exit status 70" in str(status["state"])
        until(lambda: _starts(box) - before >= 5, "the log has all of it")
        assert _starts(box) - before == 5
    finally:
        box.user("rm", BROKEN)
        box.systemctl("daemon-reload")
        box.systemctl("reset-failed", check=False)


def test_a_client_of_the_socket_is_told_why_the_daemon_cannot_start(box: Box) -> None:
    """systemd starts the service anew for each client that waits, so the one that ends answers them."""
    box.systemctl("stop", SERVICE)
    box.write(CONFIG, BAD)
    before = _starts(box)
    refused = box.user("memoryd", "ping", check=False)
    assert (refused.returncode, REASON in refused.stderr) == (78, True)
    until(lambda: box.shown(SERVICE, "ActiveState") == "failed", "it gives up")
    until(lambda: REASON in str(_status(box)["reason"]), "the log has all of it")
    assert _starts(box) - before == 1
    box.write(CONFIG, GOOD)
    assert "answers" in box.user("memoryd", "ping").stdout  # nothing else is needed


def test_a_bad_reload_leaves_service_and_socket_as_they_are(box: Box) -> None:
    before = _status(box)["pid"]
    box.write(CONFIG, BAD)
    assert box.systemctl("reload", SERVICE, check=False).returncode == 1
    assert "answers" in box.user("memoryd", "ping").stdout
    status = _status(box)
    assert (status["pid"], status["active"], status["current"]) == (before, True, False)
    assert REASON in str(status["reason"])
    box.write(CONFIG, GOOD)
    box.systemctl("reload", SERVICE)
    assert _status(box)["reason"] is None


def test_a_state_directory_without_permission_is_told_once(box: Box) -> None:
    box.systemctl("stop", SOCKET, SERVICE)
    box.user("chmod", "000", STATE)
    try:
        before = _starts(box)
        box.systemctl("start", SERVICE, check=False)
        until(lambda: box.shown(SERVICE, "ActiveState") == "failed", "it gives up")
        until(lambda: STATE in str(_status(box)["reason"]), "the log has all of it")
        assert _starts(box) - before == 1
    finally:
        box.user("chmod", "700", STATE)


def test_ready_means_that_every_memory_has_been_read(box: Box) -> None:
    box.systemctl("stop", SOCKET, SERVICE)
    box.write(CONFIG, GOOD + '[root.limits]\n"learnings.jsonl" = "off"\n')
    box.user("rm", "-rf", STATE)
    box.write(f"{HOME}/many.py", f"import json\nline = {line(memory())!r}\n" + _WRITE)
    box.user("python3", f"{HOME}/many.py", f"{ROOT}/learnings.jsonl", str(MANY))
    box.systemctl("start", "--no-block", SERVICE)
    while (state := box.shown(SERVICE, "ActiveState")) != "active":
        assert state in ("inactive", "activating")
    [root] = json.loads(box.user("memoryd", "status", "--json").stdout)["roots"]
    assert (root["state"], root["memories"]) == ("ok", MANY)


# Writes so many memories, each with an id of its own.
_WRITE = """
import sys, uuid
native = json.loads(line)
with open(sys.argv[1], "w") as file:
    for number in range(int(sys.argv[2])):
        native.update(id=str(uuid.UUID(int=number, version=4)), content=f"what was learnt the {number}th time")
        file.write(json.dumps(native) + "\\n")
"""
