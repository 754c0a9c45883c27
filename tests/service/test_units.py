"""The unit files and the launch agent: well-formed, complete, and naming commands that exist."""

from __future__ import annotations

import configparser
import os
import plistlib
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from memoryd.cli import exits
from memoryd.cli.program import cli
from memoryd.config.socket_path import find_socket
from memoryd.errors import NoDaemonError
from tests.daemon import PATIENCE_S, Daemon, until

TOP = Path(__file__).parents[2]
SERVICE, SOCKET = TOP / "systemd" / "memoryd.service", TOP / "systemd" / "memoryd.socket"
AGENT = TOP / "launchd" / "dev.memoryd.agent.plist"
PROGRAM = "%h/.local/bin/memoryd"  # where the shipped unit expects it


class _Unit(configparser.RawConfigParser):
    def optionxform(self, optionstr: str) -> str:
        return optionstr


def _unit(path: Path) -> _Unit:
    """Each key stands once in our units, so that this simple reading is a true one."""
    unit = _Unit(strict=True, delimiters="=", comment_prefixes="#", interpolation=None)
    unit.read_string(path.read_text())
    return unit


def _words(command: str, program: str) -> list[str]:
    first, *rest = shlex.split(command)
    assert first == program
    return rest


def _parse(words: list[str]) -> str:
    """The command's name, after click has taken its words as it would take them from a shell."""
    top = cli.make_context("memoryd", list(words))
    _, left, _ = cli.make_parser(top).parse_args(list(words))
    name, command, rest = cli.resolve_command(top, left)
    assert name is not None
    assert command is not None
    command.make_context(name, rest, parent=top)
    return name


# --- systemd


def _verify(*units: Path) -> subprocess.CompletedProcess[str]:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    with tempfile.TemporaryDirectory() as runtime:
        return subprocess.run(
            ["systemd-analyze", "--user", "verify", "--man=no", "--recursive-errors=yes", *map(str, units)],
            env={**os.environ, "XDG_RUNTIME_DIR": runtime},  # without one it cannot say where %t is
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip


def _placed(tmp_path: Path, change: Callable[[str], str] = lambda text: text) -> list[Path]:
    """Both units, naming a program that is there; the service's text changed by `change`."""
    program = tmp_path / "memoryd"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    service, address = tmp_path / SERVICE.name, tmp_path / SOCKET.name
    service.write_text(change(SERVICE.read_text().replace(PROGRAM, str(program))))
    address.write_text(SOCKET.read_text())
    return [service, address]


def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    done = _verify(*_placed(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("old", "new"),
    [("Restart=on-failure", "Restart=on-failures"), ("UMask=", "UMaks="), ("/memoryd run", "/memoryd-gone run")],
)
def test_the_verifier_would_find_a_slip(tmp_path: Path, old: str, new: str) -> None:
    def slip(text: str) -> str:
        assert old in text
        return text.replace(old, new)

    assert _verify(*_placed(tmp_path, slip)).stderr


def test_the_service_keeps_its_contract() -> None:
    service = _unit(SERVICE)["Service"]
    assert service["Type"] == "notify"
    assert int(service["WatchdogSec"]) > 0
    assert service["Restart"] == "on-failure"
    assert service["UMask"] == "0077"
    assert service["RuntimeDirectory"] == "memoryd"
    not_healed = {exits.USAGE, exits.BUSY, exits.PERMISSION, exits.CONFIG}
    assert set(map(int, service["RestartPreventExitStatus"].split())) == not_healed
    assert int(service["TimeoutStopSec"]) > 5  # the daemon's own promise
    assert "ProtectProc" not in service  # holders of locks have to be seen


def test_the_commands_of_the_service_exist() -> None:
    service = _unit(SERVICE)["Service"]
    assert _parse(_words(service["ExecStart"], PROGRAM)) == "run"
    assert _parse(_words(service["ExecReload"], PROGRAM)) == "reload"
    with pytest.raises(click.UsageError):
        _parse(["run", "--no-such-option"])


def test_the_socket_is_private_and_where_clients_look() -> None:
    address = _unit(SOCKET)["Socket"]
    assert address["ListenStream"] == "%t/memoryd/control.sock"
    assert (address["SocketMode"], address["DirectoryMode"]) == ("0600", "0700")


# --- what the units start


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    (root / "learnings.jsonl").touch()
    return root


@pytest.fixture
def supervisor() -> Iterator[socket.socket]:
    """What the service manager listens on."""
    with tempfile.TemporaryDirectory(prefix="md-") as place, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(f"{place}/notify")
        heard.settimeout(30)
        yield heard


def _hear(heard: socket.socket, wanted: str) -> list[str]:
    """Messages up to and with the first that holds the line `wanted`."""
    messages: list[str] = []
    end = time.monotonic() + PATIENCE_S
    while not any(wanted in message.splitlines() for message in messages):
        assert time.monotonic() < end, f"{wanted} is not among {messages}"
        messages.append(heard.recv(65_536).decode())
    return messages


def test_the_service_manager_is_told(root: Path, tmp_path: Path, supervisor: socket.socket) -> None:
    """Ready after the first look, alive all the time, reloading and ready again, stopping."""
    config = f'[[root]]\npath = "{root}"\nlayout = "jsonl-store"\n'
    env = {"NOTIFY_SOCKET": supervisor.getsockname(), "WATCHDOG_USEC": "600000"}
    with Daemon(tmp_path / "d", config=config, env=env) as daemon:
        daemon.spawn()
        assert not [message for message in _hear(supervisor, "READY=1") if "WATCHDOG=1" in message.splitlines()]
        assert (root / "index.json").exists()
        _hear(supervisor, "WATCHDOG=1")
        _hear(supervisor, "WATCHDOG=1")
        words = _words(_unit(SERVICE)["Service"]["ExecReload"], PROGRAM)
        with subprocess.Popen(daemon.command(*words), env=daemon.env, stdout=subprocess.DEVNULL) as reload:
            # Heard while the command runs: the kernel keeps ten messages, and drops what comes after so many beats.
            reloading = _hear(supervisor, "RELOADING=1")[-1]
            assert "MONOTONIC_USEC=" in reloading
            _hear(supervisor, "READY=1")
        assert reload.returncode == 0
        daemon.signal(signal.SIGTERM)
        _hear(supervisor, "STOPPING=1")
        assert daemon.wait() == 0


def test_a_socket_that_was_passed_is_used_and_left(root: Path, tmp_path: Path) -> None:
    """A command starts the daemon; `stop` ends it and does not start it again by asking."""
    activate = shutil.which("systemd-socket-activate")
    if activate is None:
        pytest.skip("systemd-socket-activate is not installed")
    config = f'[[root]]\npath = "{root}"\nlayout = "jsonl-store"\n'
    with Daemon(tmp_path / "d", config=config) as daemon:
        daemon.prefix = [activate, f"--listen={daemon.socket}", "--fdname=control", *_passing(daemon.env)]
        started = daemon.spawn()

        def pinged() -> dict[str, Any] | None:
            """The name is there a moment before anybody listens."""
            try:
                return dict(daemon.rpc("ping"))
            except NoDaemonError:
                return None

        assert until(pinged, "the socket answers")["pid"] == started.pid  # it was executed in place
        done = subprocess.run(daemon.command("stop"), env=daemon.env, capture_output=True, text=True, timeout=30)
        assert (done.returncode, daemon.wait()) == (0, 0), done.stderr
        assert os.path.exists(daemon.socket)  # not ours to remove
        assert find_socket(None, str(daemon.state), env={}) == daemon.socket  # a client that was told no socket waits


def test_a_passed_socket_without_a_file_is_served(root: Path, tmp_path: Path) -> None:
    """Its name begins with a NUL byte, and Python returns it as bytes."""
    activate = shutil.which("systemd-socket-activate")
    if activate is None:
        pytest.skip("systemd-socket-activate is not installed")
    name = f"memoryd-{uuid.uuid4().hex}"
    with Daemon(tmp_path / "d", root) as daemon, socket.socket(socket.AF_UNIX) as client:
        daemon.prefix = [activate, f"--listen=@{name}", "--fdname=control", *_passing(daemon.env)]
        daemon.spawn()
        until(lambda: client.connect_ex(f"\0{name}") == 0, "the socket exists")
        client.settimeout(PATIENCE_S)
        assert client.makefile("rb").readline().startswith(b'{"jsonrpc":"2.0","method":"hello"')


def _passing(env: dict[str, str]) -> list[str]:
    """systemd-socket-activate starts its command with an empty environment but for what it is told."""
    return [f"--setenv={name}" for name in ("PATH", "HOME", "PYTHONPATH") if name in env]


# --- launchd

KEYS: dict[str, type] = {  # from launchd.plist(5)
    "Label": str,
    "ProgramArguments": list,
    "RunAtLoad": bool,
    "KeepAlive": dict,
    "ThrottleInterval": int,
    "ExitTimeOut": int,
    "ProcessType": str,
    "LimitLoadToSessionType": list,
    "Umask": int,
    "SoftResourceLimits": dict,
    "EnvironmentVariables": dict,
    "StandardOutPath": str,
    "StandardErrorPath": str,
}


def _agent() -> dict[str, Any]:
    text = AGENT.read_text().replace("@MEMORYD@", sys.executable).replace("@HOME@", "/Users/somebody")
    agent = plistlib.loads(text.encode(), fmt=plistlib.FMT_XML)
    assert isinstance(agent, dict)
    return agent


def test_the_launch_agent_has_known_keys_of_the_right_type() -> None:
    agent = _agent()
    assert {key: type(value) for key, value in agent.items()} == KEYS
    assert plistlib.loads(plistlib.dumps(agent, fmt=plistlib.FMT_BINARY)) == agent


def test_the_launch_agent_keeps_its_contract() -> None:
    agent = _agent()
    assert agent["Label"] == AGENT.stem
    assert agent["KeepAlive"] == {"SuccessfulExit": False}  # a crash restarts, `memoryd stop` stays stopped
    assert agent["ExitTimeOut"] > 5  # the daemon's own promise
    assert agent["ProcessType"] in ("Standard", "Interactive")
    assert agent["Umask"] == 0o077
    assert set(agent["LimitLoadToSessionType"]) <= {"Aqua", "Background", "LoginWindow", "StandardIO", "System"}
    assert all(type(limit) is int for limit in agent["SoftResourceLimits"].values())
    log = agent["StandardErrorPath"]
    assert agent["EnvironmentVariables"] == {"MEMORYD_SUPERVISOR": "launchd", "MEMORYD_LOG_FILE": log}


def test_the_launch_agent_names_a_program_and_a_command() -> None:
    program, *words = _agent()["ProgramArguments"]
    assert os.path.isabs(program)
    assert os.access(program, os.X_OK)
    assert _parse(words) == "run"


def test_nothing_in_the_launch_agent_waits_for_a_shell() -> None:
    """launchd expands neither ~ nor variables; the words between @ are put in at installation."""
    raw = plistlib.loads(AGENT.read_bytes())
    values = [raw["StandardOutPath"], raw["StandardErrorPath"], *raw["ProgramArguments"]]
    assert not [value for value in values if "~" in value or "$" in value]
    assert {value.split("/")[0] for value in values if "@" in value} == {"@MEMORYD@", "@HOME@"}
