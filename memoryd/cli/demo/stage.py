"""The demo's throw-away directory and the processes in it: a real daemon with its own state, socket and
configuration, its agents, and the way to end all of them.

    DIR/memories      the JSONL store that memoryd tends  DIR/state        what memoryd knows and keeps
    DIR/before        the same store as it was            DIR/memoryd.toml its configuration
    DIR/LAYOUT        a store of each other layout        DIR/found        these as they were
    DIR/agents        what each agent said it did         DIR/daemon.log   what memoryd logged
    DIR/evidence      copies of files at one moment       DIR/demo.json    every claim the demo made
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from memoryd.cli.demo import agents
from memoryd.cli.demo.following import Follower
from memoryd.cli.demo.interrupts import Interrupts
from memoryd.config.places import SUN_PATH
from memoryd.control.client import Client
from memoryd.errors import MemorydError

T = TypeVar("T")

LOOK_S = 0.005
START_S = 20.0
PATIENCE_S = 15.0  # how long anything is waited for before the demo says that it did not happen
STOP_S = 6.0  # the daemon promises 5


class NotSeenError(Exception):
    """Something that was to happen did not, in time; the text says what."""


class Agent:
    """One running agent; what it says goes to a file, from which `said` reads it."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: str) -> None:
        self.name = name
        self.process = process
        self._log = log

    def said(self) -> list[dict[str, Any]]:
        """Every whole line so far."""
        with open(self._log, "rb") as file:
            lines = file.read().split(b"\n")[:-1]
        return [json.loads(line) for line in lines]

    def go(self) -> None:
        """The next batch."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()


class Stage:
    def __init__(self, interrupts: Interrupts) -> None:
        self._interrupts = interrupts
        self.directory = os.path.realpath(tempfile.mkdtemp(prefix="memoryd-demo-"))
        self._socket_dir: str | None = None
        self.socket = os.path.join(self.directory, "control.sock")
        if len(os.fsencode(self.socket)) >= SUN_PATH:  # the path of a socket must be short
            self._socket_dir = tempfile.mkdtemp(prefix="memoryd-demo-", dir="/tmp")
            self.socket = os.path.join(self._socket_dir, "control.sock")
        self.config = self.path("memoryd.toml")
        self._settings: dict[str, dict[str, Any]] = {}
        self._daemon: subprocess.Popen[bytes] | None = None
        self._agents: list[Agent] = []
        self._client: Client | None = None
        self.events: Follower | None = None
        for name in ("agents", "evidence"):
            os.mkdir(self.path(name))

    def path(self, *names: str) -> str:
        return os.path.join(self.directory, *names)

    # --- waiting

    def until(self, look: Callable[[], T | None], what: str, within_s: float = PATIENCE_S) -> T:
        """The first value of `look()` that is not None; NotSeenError when there is none in time."""
        end = time.monotonic() + within_s
        while True:
            found = look()
            if found is not None:
                return found
            if time.monotonic() > end:
                raise NotSeenError(f"{what}: not within {within_s:g} s")
            self.sleep(LOOK_S)

    def sleep(self, seconds: float) -> None:
        with self._interrupts.allowed():
            time.sleep(seconds)

    # --- configuration

    def configure(self, root: str, **settings: Any) -> None:
        """Set keys of one root, `schedule` by job; takes effect with the next `reload`."""
        known = self._settings.setdefault(root, {"schedule": {}})
        known["schedule"].update(settings.pop("schedule", {}))
        known.update(settings)
        text = ["[daemon]", "quiet_s = 1", "quiet_cap_s = 20", ""]
        for name, keys in self._settings.items():
            text += ["[[root]]", f'name = "{name}"']
            text += [f"{key} = {json.dumps(value)}" for key, value in keys.items() if key != "schedule"]
            text += ["[root.schedule]", *(f'{job} = "{every}"' for job, every in keys["schedule"].items()), ""]
        with open(self.config, "w", encoding="utf-8") as file:
            file.write("\n".join(text))

    # --- the daemon

    def start(self) -> None:
        """Run the daemon and wait until it has looked at every root."""
        with open(self.path("daemon.log"), "ab") as log:
            self._daemon = subprocess.Popen(
                self.command("run", "--log-format", "json"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_quiet(os.environ),
                start_new_session=True,  # a Ctrl-C is ours to take, and then ours to pass on
            )
        self._client = Client(self.socket, timeout=PATIENCE_S)
        self.until(self._answers, "the daemon answers and has looked at its roots", START_S)
        self.events = Follower(self.socket)

    def command(self, *words: str) -> list[str]:
        places = ["--config", self.config, "--state-dir", self.path("state"), "--socket", self.socket]
        return [sys.executable, "-m", "memoryd", *places, *words]

    def _answers(self) -> bool | None:
        assert self._daemon is not None
        code = self._daemon.poll()
        if code is not None:
            raise NotSeenError(f"the daemon ended with {code} when it was to start")
        if not os.path.exists(self.socket):
            return None
        rows = self.call("status")["roots"]
        return True if rows and all(row["state"] not in ("starting", "scanning") for row in rows) else None

    def call(self, method: str, **params: Any) -> Any:
        """One control method; what it refuses becomes NotSeenError with its own words."""
        assert self._client is not None
        try:
            with self._interrupts.allowed():
                return self._client.call(method, params)
        except MemorydError as error:
            raise NotSeenError(f"memoryd refused {method}: {error.message}") from error

    def event(self, test: Callable[[Mapping[str, Any]], bool], what: str) -> dict[str, Any]:
        """The first event since the last `mark()` that passes the test."""
        follower = self.events
        assert follower is not None
        return self.until(lambda: follower.first(test), what)

    def stop(self) -> tuple[int, float]:
        """Ask the daemon to end: its exit code, and the seconds it took."""
        assert self._daemon is not None
        began = time.monotonic()
        self.call("shutdown")
        code = self.until(self._daemon.poll, "the daemon ends when it is asked to", STOP_S)
        return code, time.monotonic() - began

    # --- agents

    def agent(self, name: str, job: Mapping[str, Any]) -> Agent:
        """Begin one; agents.py is run by its path and apart from our packages: it is no part of memoryd."""
        log = self.path("agents", f"{name.lower()}.jsonl")
        with open(log, "wb") as said, open(self.path("agents", "errors.log"), "ab") as errors:
            process = subprocess.Popen(
                [sys.executable, "-I", agents.__file__, json.dumps(job)],
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=errors,
                start_new_session=True,
            )
        agent = Agent(name, process, log)
        self._agents.append(agent)
        return agent

    # --- the end

    def close(self, *, keep: bool) -> None:
        """End every process; remove the directory unless it is to be kept."""
        for agent in self._agents:
            _end(agent.process, signal.SIGKILL)
        if self._daemon is not None:
            _end(self._daemon, signal.SIGTERM)
        if self.events is not None:
            self.events.close()
        if self._client is not None:
            self._client.close()
        if self._socket_dir is not None:
            shutil.rmtree(self._socket_dir)
        if not keep:
            shutil.rmtree(self.directory)

    def log_tail(self, lines: int = 5) -> Sequence[str]:
        try:
            with open(self.path("daemon.log"), encoding="utf-8", errors="replace") as file:
                return file.read().splitlines()[-lines:]
        except FileNotFoundError:
            return ()


def _quiet(env: Mapping[str, str]) -> dict[str, str]:
    """Without what would tell the demo's daemon to use somebody else's places or to report to systemd."""
    foreign = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")
    return {key: value for key, value in env.items() if key not in foreign and not key.startswith("MEMORYD_")}


def _end(process: subprocess.Popen[bytes], number: int) -> None:
    if process.poll() is None:
        process.send_signal(number)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdin is not None:
        process.stdin.close()
