"""sd_notify and socket activation against real Unix datagram sockets."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.service.notify import Notifier, listen_fds


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A service manager's socket, bound by a short relative name: sun_path holds 107 bytes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as box:
        monkeypatch.chdir(tmp_path)
        box.bind("n")
        box.settimeout(5)
        yield box


@pytest.fixture
def notifier(manager: socket.socket, tmp_path: Path) -> Notifier:
    path = tmp_path / "n"
    if len(os.fsencode(path)) > 107:
        pytest.skip("the temporary directory's name is too long for a socket")
    return Notifier({"NOTIFY_SOCKET": str(path)})


def test_one_datagram_a_message(manager: socket.socket, notifier: Notifier) -> None:
    assert notifier.ready("2 roots")
    assert manager.recv(4096) == b"READY=1\nSTATUS=2 roots"
    assert notifier.ready()
    assert manager.recv(4096) == b"READY=1"
    assert notifier.watchdog()
    assert manager.recv(4096) == b"WATCHDOG=1"
    assert notifier.stopping()
    assert manager.recv(4096) == b"STOPPING=1"
    assert notifier.extend_timeout(2.5)
    assert manager.recv(4096) == b"EXTEND_TIMEOUT_USEC=2500000"


def test_reloading_carries_the_monotonic_clock(manager: socket.socket, notifier: Notifier) -> None:
    assert notifier.reloading()
    first, second = manager.recv(4096).decode().split("\n")
    assert first == "RELOADING=1"
    name, _, stamp = second.partition("=")
    assert name == "MONOTONIC_USEC"
    assert int(stamp) > 0


def test_a_status_cannot_forge_another_message(manager: socket.socket, notifier: Notifier) -> None:
    notifier.status("root a\nWATCHDOG=1\r\nb")
    assert manager.recv(4096) == b"STATUS=root a WATCHDOG=1 b"


def test_names_that_are_not_utf8_do_not_raise(manager: socket.socket, notifier: Notifier) -> None:
    notifier.status("root \udcff")
    assert manager.recv(4096) == b"STATUS=root ?"


@pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets are Linux only")
def test_abstract_socket() -> None:
    name = f"memoryd-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as box:
        box.bind("\0" + name)
        box.settimeout(5)
        assert Notifier({"NOTIFY_SOCKET": "@" + name}).watchdog()
        assert box.recv(4096) == b"WATCHDOG=1"


@pytest.mark.parametrize("env", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "vsock:2:1234"}])
def test_nobody_listens_silently(env: dict[str, str]) -> None:
    assert not Notifier(env).ready()


def test_a_dead_manager_is_no_error(tmp_path: Path) -> None:
    assert not Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready()


def test_watchdog_interval_is_a_third_of_the_limit() -> None:
    own = str(os.getpid())
    assert Notifier({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": own}).watchdog_interval_s() == 10.0
    assert Notifier({"WATCHDOG_USEC": "30000000"}).watchdog_interval_s() == 10.0


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "-5"},
        {"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"},
    ],
)
def test_no_watchdog_asked_of_us(env: dict[str, str]) -> None:
    assert Notifier(env).watchdog_interval_s() is None


def test_sockets_for_another_process_are_not_taken_and_not_passed_on() -> None:
    env = {"LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "control", "KEEP": "x"}
    assert listen_fds(env, os.getpid()) == []
    assert env == {"KEEP": "x"}


@pytest.mark.parametrize("count", ["", "0", "-1", "many"])
def test_no_sockets_passed(count: str) -> None:
    assert listen_fds({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": count}, os.getpid()) == []


def test_passed_sockets_are_taken_once_and_kept_from_children(tmp_path: Path) -> None:
    """In a process of its own, because the protocol fixes the descriptors 3 and up."""
    script = textwrap.dedent(
        """
        import os, socket, sys
        from memoryd.service.notify import listen_fds
        made = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(2)]
        numbers = [fd.detach() for fd in made]
        copies = [os.dup(fd) for fd in numbers]
        for at, fd in enumerate(copies):
            os.dup2(fd, 3 + at, inheritable=True)
        env = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "2", "LISTEN_FDNAMES": "control"}
        got = listen_fds(env, os.getpid())
        print(got, env, [os.get_inheritable(fd) for fd in got])
        print(listen_fds(env, os.getpid()))
        """
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.splitlines() == ["[3, 4] {} [False, False]", "[]"]
