"""A real daemon in a process of its own, with its own state, socket and configuration, for tests from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import memoryd
from memoryd.control.client import Client
from memoryd.errors import BusyError, MemorydError, NoDaemonError
from tests.program import run_program

T = TypeVar("T")

PATIENCE_S = 60.0  # how long anything is waited for before it counts as never
# A daemon that gives up no wait early: a busy machine may stop a thread for longer than a client would wait.
PATIENT = f"""
from memoryd.cli.main import main
from memoryd.engine import watch
from memoryd.service import roots
from memoryd.service.handlers import base
watch.BARRIER_S = roots.CHANGE_S = base.FLUSH_WAIT_S = {PATIENCE_S}
main()
"""
UNSETTLED = ("starting", "scanning")


def until(look: Callable[[], T | None], why: str, timeout_s: float = PATIENCE_S) -> T:
    """The first true value of `look()`; AssertionError with `why` when the time is up."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"{why}: not within {timeout_s:g} s, last seen {found!r}")
        time.sleep(0.01)


class Daemon:
    """`base` takes state, configuration and log. `prefix` is a command the daemon is run under, as strace. `layout` is
    what the roots given here are named to be; with None they are only recognised. Without `names_config` the daemon
    looks for a configuration file where a user would have it. Unless `patient` is False, events and memories stored
    before are waited for as long as anything here."""

    def __init__(
        self,
        base: Path,
        *roots: Path,
        config: str = "",
        options: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        layout: str | None = "jsonl-store",
        names_config: bool = True,
        patient: bool = True,
    ) -> None:
        self.base = base
        self.names_config = names_config
        self.patient = patient
        self.state = base / "state"
        self.config = base / "config.toml"
        self.log = base / "log"
        self.roots = roots
        self.options = [*options]
        if roots and layout is not None and "--layout" not in options:
            self.options += ["--layout", layout]
        self.env = {**os.environ, "PYTHONPATH": str(Path(memoryd.__file__).parents[1]), **(env or {})}
        self.prefix = [*prefix]
        self.process: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0
        base.mkdir(parents=True, exist_ok=True)
        self._short = tempfile.TemporaryDirectory(prefix="md-")  # the name of a socket must be short
        self.socket = f"{self._short.name}/c"
        self.configure(config)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._short.cleanup()

    # --- life

    def configure(self, config: str) -> None:
        self.config.write_text(config, encoding="utf-8")

    def command(self, *words: str) -> list[str]:
        config = ["--config", str(self.config)] if self.names_config else []
        places = [*config, "--state-dir", str(self.state), "--socket", self.socket]
        return [sys.executable, "-m", "memoryd", *places, *words]

    def spawn(self) -> subprocess.Popen[bytes]:
        """Start the process and wait for nothing."""
        assert self.process is None or self.process.poll() is not None
        command = self.command("run", *map(str, self.roots), "--log-format", "json", *self.options)
        if self.patient:
            command[1:3] = ["-c", PATIENT]
        with open(self.log, "ab") as log:
            self.started_at = time.monotonic()
            self.process = subprocess.Popen(
                [*self.prefix, *command], stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self.env
            )
        return self.process

    def start(self) -> Self:
        """Start it and wait until every root has been looked at."""
        self.spawn()
        self.await_ready()
        return self

    def await_ready(self, timeout_s: float = PATIENCE_S) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            assert self.process is not None
            code = self.process.poll()
            assert code is None, f"the daemon ended with {code}: {self.said()}"
            try:
                status = self.rpc("status")
            except (NoDaemonError, BusyError):
                return None  # not there yet, or the look before this one still counts as a client
            return status if all(root["state"] not in UNSETTLED for root in status["roots"]) else None

        return until(look, "the daemon is ready", timeout_s)

    @property
    def pid(self) -> int:
        """Process id of the daemon itself, also where it runs under another command."""
        return int(self.rpc("ping")["pid"])

    def signal(self, number: int) -> None:
        assert self.process is not None
        os.kill(self.pid if self.prefix else self.process.pid, number)

    def stop(self, timeout_s: float = PATIENCE_S) -> int:
        """SIGTERM, and the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def wait(self, timeout_s: float = PATIENCE_S) -> int:
        assert self.process is not None
        return self.process.wait(timeout_s)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def socket_there(self) -> bool:
        return os.path.exists(self.socket)

    # --- talking

    def rpc(self, method: str, timeout: float = 60.0, **params: Any) -> Any:
        with Client(self.socket, timeout=timeout) as client:
            return client.call(method, params)

    def run(self, *words: str, timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
        """A command of the command line."""
        return run_program(*self.command(*words)[3:], env=self.env, timeout=timeout)

    def root(self, name: str | None = None) -> dict[str, Any]:
        """One root's row of `status`."""
        rows = (self.rpc("status", root=name) if name else self.rpc("status"))["roots"]
        assert len(rows) == 1
        return dict(rows[0])

    def until_root(self, test: Callable[[dict[str, Any]], object], why: str, timeout_s: float = PATIENCE_S) -> Any:
        """The root's row as soon as `test` likes it."""
        last: dict[str, Any] = {}

        def look() -> dict[str, Any] | None:
            last.clear()
            last.update(self.root())
            return dict(last) if test(last) else None

        try:
            return until(look, why, timeout_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; root {last.get('state')} {last.get('reasons')}") from None

    def job(self, name: str) -> dict[str, Any]:
        rows = self.rpc("jobs.list", name=name)["jobs"]
        assert len(rows) == 1
        return dict(rows[0])

    # --- what it said

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def events(self) -> list[dict[str, Any]]:
        found = []
        for text in self.said().splitlines():
            try:
                found.append(json.loads(text))
            except ValueError:
                found.append({"event": text, "level": "error", "unstructured": True})
        return found

    def bugs(self) -> list[dict[str, Any]]:
        """What a sound daemon never says, whatever its surroundings do."""
        return [
            each
            for each in self.events()
            if each.get("unstructured") or each.get("event") == "unexpected" or "exception" in each
        ]


def refused(call: Callable[[], object]) -> MemorydError:
    """The error that a call must end with."""
    try:
        call()
    except MemorydError as error:
        return error
    raise AssertionError("nothing was refused")
