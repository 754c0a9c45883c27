"""Which thread hangs, by what it has done between two checks; and what a client is told that no daemon serves."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from memoryd.control.client import Client
from memoryd.control.peer import Peer
from memoryd.control.server import Server, refuse_clients
from memoryd.engine.worker import Worker
from memoryd.errors import ConfigError
from memoryd.installer.managers import last_error
from memoryd.service.supervision import STUCK_S, Liveness
from tests.daemon import until


@dataclass
class _Worker:
    name: str
    progress: object = 0


def _hung(liveness: Liveness, now: float, workers: list[_Worker], server: Server) -> str | None:
    return liveness.check(now, cast("list[Worker]", workers), server)


def _beats(server: Server) -> None:
    """Let the accepting thread answer once more than it has."""
    before = server.heartbeats
    server.request_heartbeat()
    until(lambda: server.heartbeats > before, "a beat")


def test_a_worker_without_progress_hangs(tmp_path: Path) -> None:
    liveness, slow, stuck = Liveness(), _Worker("slow"), _Worker("stuck")
    with Server(tmp_path / "s", {}, {}) as server:
        for step in range(5):
            slow.progress = step
            _beats(server)
            assert _hung(liveness, step * STUCK_S / 4, [slow, stuck], server) is None
        slow.progress = 5
        _beats(server)
        assert str(_hung(liveness, STUCK_S + 1, [slow, stuck], server)).startswith("root stuck: ")
        assert _hung(liveness, STUCK_S + 2, [slow], server) is None  # the root was removed
        assert _hung(liveness, STUCK_S + 3, [slow, stuck], server) is None, "another root of that name begins anew"


def test_a_control_socket_that_accepts_nobody_hangs(tmp_path: Path) -> None:
    reached, free = threading.Event(), threading.Event()

    def authorise(_: Peer) -> bool:
        reached.set()
        return free.wait(60)

    liveness = Liveness()
    with Server(tmp_path / "s", {}, {}, authorise=authorise) as server:
        assert _hung(liveness, 0, [], server) is None
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "s"))
            assert reached.wait(60)
            assert _hung(liveness, 1, [], server) is None
            assert str(_hung(liveness, STUCK_S + 2, [], server)).startswith("control socket: ")
            free.set()
            _beats(server)
            assert _hung(liveness, STUCK_S + 3, [], server) is None


def test_clients_that_wait_are_told_why_nobody_serves_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # short names: sun_path holds 107 bytes
    told: list[Any] = []

    def call() -> None:
        with Client("s", timeout=60) as client:
            try:
                client.call("ping")
            except ConfigError as error:
                told.append(error.message)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("s")
        listener.listen()
        threads = [threading.Thread(target=call) for _ in range(3)]
        for each in threads:
            each.start()

        def answered() -> bool:
            refuse_clients(listener, ConfigError("an unknown key"))
            return len(told) == 3

        until(answered, "everybody is told")
        for each in threads:
            each.join()
    assert told == ["an unknown key"] * 3


def test_a_socket_that_the_server_has_closed_hides_no_error() -> None:
    """A start can also fail after the server was opened, for example on a full disk."""
    listener = socket.socket(socket.AF_UNIX)
    listener.close()
    refuse_clients(listener, ConfigError("an unknown key"))


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("", ""),
        ("Segmentation fault", "Segmentation fault"),
        ('{"event": "started"}\nmemoryd: no room\nhint: make some', "no room"),
    ],
)
def test_the_line_of_a_log_that_tells_the_reason(log: str, reason: str) -> None:
    assert last_error(log) == reason
