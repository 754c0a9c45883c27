"""`memoryd service` under a real systemd: install, hardened, of the machine, after a reboot, uninstall."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator

import pytest

import memoryd
from tests.agents import line, memory
from tests.daemon import until
from tests.service.box import HOME, USER, Box
from tests.service.test_systemd import ENDPOINT, KEY, SERVER

pytestmark = [pytest.mark.slow, pytest.mark.root_only]

ROOT, OBSERVED = f"{HOME}/.claude/agents/memories", f"{HOME}/observed"
CONFIG = f"{HOME}/.config/memoryd/config.toml"
GOOD = (
    f'[[root]]\nname = "agents"\npath = "{ROOT}"\nlayout = "jsonl-store"\n'
    f'[[root]]\nname = "observed"\npath = "{OBSERVED}"\nlayout = "jsonl-store"\nmode = "observe"\n'
)
MEMORYD = f"{HOME}/.local/bin/memoryd"


@pytest.fixture
def box(machine: Box) -> Iterator[Box]:
    """A box with a good configuration and no service, before and after."""
    machine.write(CONFIG, GOOD, 0o600)
    for root in (ROOT, OBSERVED):
        machine.write(f"{root}/learnings.jsonl", line(memory()))
    yield machine
    machine.user("memoryd", "service", "uninstall")
    machine.root(MEMORYD, "service", "uninstall", "--system", "--run-as", USER)


def _status(box: Box) -> dict[str, object]:
    found = json.loads(box.user("memoryd", "service", "status", "--json", check=False).stdout)
    assert isinstance(found, dict)
    return found


def _states(box: Box) -> dict[str, str]:
    roots = json.loads(box.user("memoryd", "status", "--json").stdout)["roots"]
    return {root["name"]: root["state"] for root in roots}


def _can_write(box: Box, pid: object, directory: str) -> bool:
    """Whether the view that this process has of the file system lets anybody create a file there."""
    probe = f"{directory}/probe-of-the-sandbox"
    words = ["nsenter", "-t", str(pid), "-m", "sh", "-c", f": > {probe} && rm {probe}"]
    return box.root("sh", "-c", 'if "$@"; then echo yes; fi', "sh", *words).strip() == "yes"


def _highest_exposure() -> float:
    """A program below /tmp, such as that of a clone there, cannot have a /tmp of its own, which counts 0.2."""
    in_tmp = any(f"{path}/".startswith(("/tmp/", "/var/tmp/")) for path in (sys.prefix, memoryd.__file__))
    return 1.7 if in_tmp else 1.5


def _exposure(box: Box, *scope: str) -> float:
    words = ["systemd-analyze", *scope, "security", "memoryd.service"]
    shown = box.user(*words).stdout if scope else box.root(*words)
    level = re.search(r"Overall exposure level for \S+: (\d+\.\d+)", shown)
    assert level
    return float(level[1])


def test_one_command_installs_a_service_that_comes_back_after_a_reboot(box: Box) -> None:
    shown = box.user("memoryd", "service", "install").stdout
    assert "answers (pid" in shown
    assert "log: journalctl --user -u memoryd -f" in shown
    status = _status(box)
    assert {name: status[name] for name in ("installed", "current", "active", "enabled", "hardened", "socket")} == {
        "installed": True, "current": True, "active": True, "enabled": True, "hardened": False, "socket": False,
    }  # fmt: skip
    assert _states(box) == {"agents": "ok", "observed": "ok"}
    box.write(CONFIG, GOOD + f'[[root]]\nname = "more"\npath = "{HOME}/more"\n', 0o600)
    assert _status(box)["current"] is True  # only a hardened unit names the roots
    boot_id = box.root("journalctl", "--list-boots", "-q", "-o", "json")
    box.reboot()
    assert box.root("journalctl", "--list-boots", "-q", "-o", "json") != boot_id
    until(lambda: _status(box)["active"], "it runs again by itself")
    assert _states(box) == {"agents": "ok", "observed": "ok", "more": "missing"}
    box.user("memoryd", "service", "uninstall")
    assert (_status(box)["installed"], _status(box)["active"]) == (False, False)
    kept = box.user("ls", f"{HOME}/.local/state/memoryd", ROOT, CONFIG).stdout
    assert "learnings.jsonl" in kept
    assert "roots" in kept


def test_a_hardened_service_can_write_only_what_it_maintains(box: Box) -> None:
    box.user("memoryd", "service", "install", "--hardened", "--socket")
    status = _status(box)
    assert (status["hardened"], status["socket"], status["current"]) == (True, True, True)
    assert _states(box) == {"agents": "ok", "observed": "ok"}
    pid = status["pid"]
    state = f"{HOME}/.local/state/memoryd"
    writable = [d for d in (ROOT, state, OBSERVED, HOME, f"{HOME}/.claude", "/etc", "/var") if _can_write(box, pid, d)]
    assert writable == [ROOT, state]
    box.user("memoryd", "add", "--root", "agents", "type=learning", "content=Written from within the sandbox")
    assert "from within the sandbox" in box.user("cat", f"{ROOT}/learnings.jsonl").stdout
    assert _exposure(box, "--user") <= _highest_exposure()
    box.write(CONFIG, GOOD + f'[[root]]\nname = "more"\npath = "{HOME}/more"\n', 0o600)
    assert _status(box)["current"] is False


def test_an_endpoint_is_reached_from_a_hardened_service(box: Box) -> None:
    box.user("systemd-run", "--user", "--quiet", "--unit=embeddings", sys.executable, "-c", SERVER)
    box.write(f"{HOME}/.config/memoryd/env", f"MEMORYD_EMBEDDINGS_KEY={KEY}\n", 0o600)
    box.write(CONFIG, GOOD + ENDPOINT, 0o600)
    try:
        box.user("memoryd", "service", "install", "--hardened")
        asked = until(lambda: box.user("cat", f"{HOME}/asked", check=False).stdout.split("\n")[0], "it is asked")
        assert asked == f"Bearer {KEY}"
        journal = ["journalctl", "--user", "-u", "memoryd", "-o", "cat"]
        until(lambda: '"event": "ready"' in box.user(*journal).stdout, "the log has all of it")
        assert '"level": "error"' not in box.user(*journal).stdout  # the sandbox forbids nothing that the daemon does
    finally:
        box.systemctl("stop", "embeddings", check=False)


def test_a_service_of_the_machine_runs_as_its_user(box: Box) -> None:
    refused = box.user("memoryd", "service", "install", "--system", check=False)
    assert (refused.returncode, "installed by root" in refused.stderr) == (77, True)
    box.root(MEMORYD, "service", "install", "--system", "--socket", "--run-as", USER)
    assert box.root("systemctl", "show", "--value", "-p", "User", "memoryd").strip() == USER
    assert _states(box) == {"agents": "ok", "observed": "ok"}
    pid = box.root("systemctl", "show", "--value", "-p", "MainPID", "memoryd").strip()
    assert [d for d in (ROOT, OBSERVED, HOME, "/etc") if _can_write(box, pid, d)] == [ROOT]
    assert _exposure(box) <= _highest_exposure()
    box.root("systemctl", "restart", "memoryd")
    assert "answers" in box.user("memoryd", "ping").stdout
    box.root("systemctl", "stop", "memoryd.service")
    assert "answers" in box.user("memoryd", "ping").stdout  # a command starts it


def test_a_daemon_started_by_hand_is_left_running(box: Box) -> None:
    box.user("systemd-run", "--user", "--quiet", "--unit=by-hand", MEMORYD, "run")
    until(lambda: box.user("memoryd", "ping", check=False).returncode == 0, "it answers")
    try:
        refused = box.user("memoryd", "service", "install", check=False)
        assert (refused.returncode, "memoryd stop" in refused.stderr) == (75, True)
        assert box.user("memoryd", "ping").returncode == 0
        assert _status(box)["installed"] is False
    finally:
        box.systemctl("stop", "by-hand")
