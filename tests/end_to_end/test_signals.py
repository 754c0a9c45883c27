"""Signals and the service manager, as the system sends and hears them."""

from __future__ import annotations

import contextlib
import itertools
import random
import signal
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.control.client import Client
from memoryd.errors import MemorydError, NoDaemonError, ShuttingDownError
from tests.agents import line, memory
from tests.daemon import Daemon, until
from tests.end_to_end import checks
from tests.end_to_end.conftest import UPKEEP_AT_ONCE, MakeAgents, MakeDaemon
from tests.end_to_end.faults import Fault, needs_strace

pytestmark = pytest.mark.slow

AT_REST = """
[defaults.schedule]
archive = "off"
backup = "off"
"""
STOPS = 20


def test_told_to_end_at_any_moment_it_ends_in_order(root: Path, daemon: MakeDaemon, agents: MakeAgents) -> None:
    moments = random.Random(7)
    tending = daemon(root, config=UPKEEP_AT_ONCE)
    team = agents(root)
    team.start(2, old=0.3)
    for number in range(STOPS):
        tending.spawn()
        if number % 4:
            tending.await_ready()
        else:
            until(tending.socket_there, "the daemon has begun")
        time.sleep(moments.uniform(0, 0.5))
        tending.signal(signal.SIGTERM)
        assert tending.wait() == 0, tending.said()
        assert not Path(tending.socket).exists()
        assert not (tending.state / "instance.json").exists()
    told = team.stop()
    tending.configure(AT_REST)  # or an archive run may move memories between the two looks at the index
    tending.start()
    tending.rpc("jobs.run", name="archive")
    tending.rpc("sync")
    assert checks.missing(root, told.ids) == set()
    assert checks.index_on_disk(root) == checks.rebuilt_index(root)
    assert any(each["operation"] == "archive" for each in tending.rpc("history.list", limit=1000)["entries"])
    until(lambda: not checks.temporary_files(root), "no temporary file is left")


def test_an_orderly_end_leaves_no_temporary_file(root: Path, daemon: MakeDaemon, agents: MakeAgents) -> None:
    """Also right after an archive run, while the inode it replaced is still watched for late appends."""
    tending = daemon(root, config=AT_REST).start()
    team = agents(root)
    team.start(1, old=1)
    until(lambda: team.told().ids, "an agent writes")
    team.stop()
    assert tending.rpc("archive")["receipt"]
    assert tending.stop() == 0
    assert checks.temporary_files(root) == []


def test_during_an_archive_run(root: Path, daemon: MakeDaemon, agents: MakeAgents) -> None:
    tending = daemon(root, config=UPKEEP_AT_ONCE).start()
    team = agents(root)
    team.start(2, old=0.5)
    for _ in range(5):
        runs = tending.job("archive")["runs"]
        until(lambda runs=runs: tending.job("archive")["runs"] > runs, "an archive run has begun")  # type: ignore[misc]  # mypy cannot infer the default
        assert tending.stop() == 0
        tending.start()
    told = team.stop()
    tending.rpc("sync")
    assert checks.missing(root, told.ids) == set()


def states_of(daemon: Daemon) -> list[str]:
    """The states of the threads, the first one's first."""
    assert daemon.process is not None
    found = []
    for path in sorted(Path(f"/proc/{daemon.process.pid}/task").iterdir(), key=lambda path: int(path.name)):
        with contextlib.suppress(OSError):  # it has just ended
            found.append((path / "stat").read_text().rpartition(")")[2].split()[0])
    return found


@needs_strace
@pytest.mark.root_only
def test_a_second_signal_ends_it_at_once(root: Path, daemon: MakeDaemon) -> None:
    """A disk that takes its time would have four seconds; what was under way is put in order at the next start."""
    tending = daemon(root, config=AT_REST).start()
    natives = [memory(days=200) for _ in range(3)]
    (root / "learnings.jsonl").write_text("".join(map(line, natives)))
    with Fault(tending.pid, "fsync", "delay_enter=20000000", 3), Client(tending.socket) as client:
        with pytest.raises(NoDaemonError):
            client.call("archive", timeout=0.5)
        until(lambda: "t" in states_of(tending), "the disk takes its time")
        tending.signal(signal.SIGTERM)
        until(lambda: '"stopping"' in tending.said(), "the first signal is heard")
        tending.signal(signal.SIGTERM)
        until(lambda: states_of(tending)[0] == "Z", "it is gone but for what strace holds", 15)
    assert tending.wait() == 128 + signal.SIGTERM
    tending.start()
    tending.rpc("archive")
    tending.rpc("sync")
    assert sorted(checks.archived_ids(root)) == sorted(native["id"] for native in natives)
    assert checks.index_on_disk(root) == checks.rebuilt_index(root)


@pytest.mark.parametrize("command", ["archive", "backup.create", "sync"])
def test_whoever_waits_for_a_lock_does_not_hold_up_the_end(
    command: str, root: Path, daemon: MakeDaemon, agents: MakeAgents
) -> None:
    tending = daemon(root, config="[defaults]\nlock_wait_s = 60\n").start()
    agents(root).holder()
    (root / "learnings.jsonl").write_text(line(memory(days=200)))
    answers: list[BaseException] = []

    def ask() -> None:
        try:
            tending.rpc(command, timeout=60)
        except MemorydError as error:
            answers.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    until(lambda: tending.root()["busy_with"] == command, "the command waits")
    assert tending.stop() == 0
    assert [each["clean"] for each in tending.events() if each["event"] == "stopped"] == [True]
    asking.join()
    assert isinstance(answers[0], ShuttingDownError)


def test_interrupt_from_a_terminal(root: Path, daemon: MakeDaemon) -> None:
    tending = daemon(root).start()
    tending.signal(signal.SIGINT)
    assert tending.wait() == 0


GOOD = '[daemon]\nlog_level = "{level}"\n[[root]]\nname = "{name}"\npath = "{path}"\nlayout = "jsonl-store"\n'


def test_hang_up_reads_the_configuration_again(root: Path, daemon: MakeDaemon, tmp_path: Path) -> None:
    tending = daemon(config=GOOD.format(level="info", name="one", path=root)).start()
    pid = tending.pid
    other = tmp_path / "other"
    other.mkdir()
    (other / "tasks.jsonl").touch()
    good = tending.config.read_text()
    tending.configure(good + f'[[root]]\nname = "two"\npath = "{other}"\nlayout = "jsonl-store"\n')
    tending.signal(signal.SIGHUP)
    until(lambda: len(tending.rpc("status")["roots"]) == 2, "the new root is there")
    tending.configure(good + '[daemon]\nlog_levle = "info"\n')
    tending.signal(signal.SIGHUP)
    notice = until(lambda: tending.rpc("status")["notice"], "the bad configuration is told")
    assert str(tending.config) in notice
    assert [row["name"] for row in tending.rpc("status")["roots"]] == ["one", "two"]
    assert tending.pid == pid
    (root / "learnings.jsonl").write_text("")
    tending.rpc("sync")
    tending.configure(good)
    tending.signal(signal.SIGHUP)
    until(lambda: len(tending.rpc("status")["roots"]) == 1, "the good one is taken")
    until(lambda: tending.rpc("status")["notice"] is None, "nothing is amiss any more")


def test_a_storm_of_hang_ups(root: Path, daemon: MakeDaemon) -> None:
    tending = daemon(config=GOOD.format(level="info", name="one", path=root)).start()
    for number in range(50):
        tending.configure(GOOD.format(level="info", name=f"name-{number}", path=root))
        tending.signal(signal.SIGHUP)
    until(lambda: [row["name"] for row in tending.rpc("status")["roots"]] == ["name-49"], "the last one holds")
    tending.until_root(lambda row: row["state"] == "ok", "it is tended")
    assert tending.stop() == 0


# --- the service manager


class Manager:
    """Hears what a service manager would."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="mn-")
        self.address = f"{self._folder.name}/n"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.address)
        self._socket.setblocking(False)
        self.heard: list[tuple[float, str]] = []

    def listen(self) -> list[str]:
        while True:
            try:
                message = self._socket.recv(65_536).decode()
            except BlockingIOError:
                return [text for _, text in self.heard]
            self.heard.append((time.monotonic(), message))

    def close(self) -> None:
        self._socket.close()
        self._folder.cleanup()


@pytest.fixture
def manager() -> Iterator[Manager]:
    made = Manager()
    yield made
    made.close()


def test_the_service_manager_hears_it_all(root: Path, daemon: MakeDaemon, manager: Manager) -> None:
    env = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "3000000"}
    config = GOOD.format(level="info", name="one", path=root)
    tending: Daemon = daemon(config=config, env=env)
    tending.spawn()
    ready = until(lambda: [text for text in manager.listen() if text.startswith("READY=1")], "READY")
    assert "STATUS=one ok" in ready[0]
    # Within a third of the limit each time: mostly sooner than the limit even on a loaded machine, and on average no
    # sooner than half of that third since the start, however late they are heard.
    until(lambda: manager.listen().count("WATCHDOG=1") >= 4, "the watchdog is fed")
    beats = [at for at, text in manager.heard if text == "WATCHDOG=1"]
    assert statistics.median(later - earlier for earlier, later in itertools.pairwise(beats)) < 3
    assert beats[-1] - tending.started_at > 0.5 * (len(beats) - 1)
    tending.configure(config.replace("info", "debug"))
    tending.signal(signal.SIGHUP)
    until(lambda: [text for text in manager.listen() if text.startswith("RELOADING=1")], "RELOADING")
    until(lambda: len([text for text in manager.listen() if text.startswith("READY=1")]) == 2, "READY again")
    order = [text.partition("=")[0] for _, text in manager.heard if not text.startswith(("WATCHDOG", "STATUS"))]
    assert order == ["READY", "RELOADING", "READY"]
    reloading = next(text for _, text in manager.heard if text.startswith("RELOADING"))
    assert "MONOTONIC_USEC=" in reloading
    assert tending.stop() == 0
    assert "STOPPING=1" in manager.listen()


def test_a_bad_reload_is_answered_too(root: Path, daemon: MakeDaemon, manager: Manager) -> None:
    """A manager that waits for READY after its own reload signal must not time out."""
    config = GOOD.format(level="info", name="one", path=root)
    tending: Daemon = daemon(config=config, env={"NOTIFY_SOCKET": manager.address})
    tending.start()
    tending.configure(config + "[nonsense]\n")
    tending.signal(signal.SIGHUP)
    until(lambda: len([text for text in manager.listen() if text.startswith("READY=1")]) == 2, "READY again")
    *_, reloading, ready = [text for text in manager.listen() if text.startswith(("RELOADING=1", "READY=1"))]
    assert reloading.startswith("RELOADING=1")
    assert "last reload failed" in ready
