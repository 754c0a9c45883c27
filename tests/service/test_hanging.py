"""A thread of the daemon that hangs, under a real systemd: the watchdog restarts the service, whichever it is."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.service.supervision import STUCK_S
from tests.agents import line, memory
from tests.daemon import until
from tests.service.box import HOME, Box
from tests.service.test_systemd import CONFIG, GOOD, PACKAGE, ROOT, SERVICE

pytestmark = [pytest.mark.slow, pytest.mark.root_only]

FREEZE = Path(__file__).with_name("freeze.py")
THREADS = f"{HOME}/threads"
FAST = f"{HOME}/fast.py"
OVERRIDE = f"{HOME}/.config/systemd/user/{SERVICE}.d/fast.conf"
# The daemon with all that takes minutes in seconds, which tells the ids of its threads.
PROGRAM = f"""
import json, os, threading, time
from memoryd.cli.main import main
from memoryd.engine import inbox
from memoryd.service import daemon, supervision
inbox.MAX_WAIT_S, supervision.STUCK_S, supervision.TICK_S, daemon.WATCHER_TICKS = 0.5, 4.0, 1.0, 1
def tell():
    while True:
        names = {{f"{{type(each).__name__}} {{each.name}}": each.native_id for each in threading.enumerate()}}
        open("{THREADS}.new", "w").write(json.dumps(names))
        os.rename("{THREADS}.new", "{THREADS}")
        time.sleep(0.2)
threading.Thread(target=tell, daemon=True).start()
main()
"""
DROP_IN = f"""
[Service]
Environment=PYTHONPATH={PACKAGE}
ExecStart=
ExecStart={sys.executable} {FAST} run
WatchdogSec=5
TimeoutAbortSec=5
"""


@pytest.fixture(scope="module")
def installed(machine: Box) -> Box:
    machine.write(f"{ROOT}/learnings.jsonl", line(memory()))
    machine.write(CONFIG, GOOD)
    machine.write(FAST, PROGRAM)
    machine.user("memoryd", "service", "install")
    machine.write(OVERRIDE, DROP_IN)
    machine.systemctl("daemon-reload")
    return machine


@pytest.fixture
def box(installed: Box) -> Iterator[Box]:
    machine = installed
    machine.systemctl("restart", SERVICE)
    yield machine
    machine.root("systemctl", "stop", "freeze-*")
    machine.systemctl("stop", SERVICE)
    machine.systemctl("reset-failed", check=False)


def _freeze(box: Box, name: str) -> None:
    """Stop the thread of that class or name."""

    def found() -> list[int]:
        threads = json.loads(box.user("cat", THREADS, check=False).stdout or "{}")
        return [number for each, number in threads.items() if name in each.split()]

    box.user("rm", "-f", THREADS)  # of an earlier process
    [thread] = until(found, f"the daemon tells the id of {name}")
    unit = f"freeze-{thread}"
    box.root("systemd-run", "--quiet", "--collect", f"--unit={unit}", sys.executable, str(FREEZE), str(thread))
    until(lambda: "frozen" in box.root("journalctl", "-u", unit, "-o", "cat").splitlines(), f"{name} is frozen")


def _log(box: Box) -> str:
    return box.user("journalctl", "--user", "-u", SERVICE, "-o", "cat").stdout


@pytest.mark.parametrize(
    ("name", "told"),
    [("MainThread", ""), ("memoryd-agents", '"what": "root agents'), ("control-accept", '"what": "control socket')],
    ids=["main", "worker", "control"],
)
def test_a_thread_that_hangs_leads_to_a_restart(box: Box, name: str, told: str) -> None:
    before, log = box.shown(SERVICE, "MainPID"), _log(box)
    _freeze(box, name)
    until(lambda: box.shown(SERVICE, "MainPID") not in ("0", before), "another process", 90)
    until(lambda: box.shown(SERVICE, "ActiveState") == "active", "it serves again", 90)
    assert "answers" in box.user("memoryd", "ping").stdout
    until(lambda: "Watchdog timeout" in _log(box).removeprefix(log), "the reason is told")
    assert told in _log(box).removeprefix(log)


def test_a_watcher_that_hangs_is_replaced(box: Box) -> None:
    """Its events are hints: the daemon notices that a probe stays away and watches anew, without a restart."""
    before, log = box.shown(SERVICE, "MainPID"), _log(box)
    _freeze(box, "_Reader")
    content = "written while nobody watches"
    box.write(f"{ROOT}/learnings.jsonl", line(memory()) + line(memory(content=content)))
    until(lambda: content in box.user("memoryd", "search", content, check=False).stdout, "the change is found", 90)
    until(lambda: '"reason": "probe"' in _log(box).removeprefix(log), "the watches are new", 90)
    assert box.shown(SERVICE, "MainPID") == before


def test_an_idle_daemon_is_not_taken_for_one_that_hangs(box: Box) -> None:
    before = box.shown(SERVICE, "MainPID")
    until(lambda: json.loads(box.user("memoryd", "ping", "--json").stdout)["uptime_s"] > 10, "longer than it may hang")
    assert box.shown(SERVICE, "MainPID") == before
    assert STUCK_S > 60, "an idle worker turns once a minute"
