"""The throw-away directory of the demo, the processes in it, and the narrator that prints what happens.

The directory holds what `script.CONTENTS` lists; below `found` is each store as it was before memoryd ran.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from types import FrameType
from typing import Any, TextIO, TypeVar

import click
from msgspec import Struct

from memoryd.cli.demo import agents
from memoryd.cli.screen import BAD, GOOD, WARNING, printable, wants_fancy
from memoryd.cli.tables import wrap
from memoryd.config.socket_path import SUN_PATH
from memoryd.control.client import Client
from memoryd.errors import MemorydError, NoDaemonError, SensitiveError

AGENT = 31  # a blue of the 256 colours
MARKS: Mapping[str, tuple[str, int | str]] = {  # kind of line: mark, colour
    "note": ("·", "bright_black"),
    "found": ("✗", WARNING),
    "done": ("✓", GOOD),
    "agent": ("›", AGENT),
    "failed": ("✗", BAD),
}
INDENT = " " * 11
WIDEST = 100


class Narrator:
    """Prints to `out`. `live` is true on a terminal, where a person reads the lines as they appear."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.live = out.isatty()
        self._colour = wants_fancy(out, os.environ)
        self._began = time.monotonic()
        self._width = min(shutil.get_terminal_size((80, 24)).columns, WIDEST)

    def title(self, text: str) -> None:
        """Print the title of a scene after an empty line."""
        self.plain("\n" + (click.style(printable(text), bold=True) if self._colour else printable(text)))

    def say(self, kind: str, text: str) -> None:
        """Print one timed line with the mark of its kind (a key of MARKS); a long text is wrapped and indented."""
        mark, colour = MARKS[kind]
        rows = wrap(printable(text), max(self._width - len(INDENT), 20))
        head = f"{time.monotonic() - self._began:5.1f} s"
        if self._colour:
            head, mark = click.style(head, dim=True), click.style(mark, fg=colour)
        self.plain(f"{head}  {mark} " + f"\n{INDENT}".join(rows))

    def plain(self, text: str) -> None:
        """Print a line without wrapping, so that commands can be copied."""
        self._out.write(text + "\n")
        self._out.flush()


def shorten(text: str, length: int = 40) -> str:
    """Return the text in quotation marks, truncated to `length` characters with an ellipsis."""
    return f"“{text if len(text) <= length else text[: length - 1].rstrip() + '…'}”"


T = TypeVar("T")

SAMPLES = Path(__file__).parent / "stores"
POLL_S = 0.005
PATIENCE_S = 15.0  # the longest wait for anything
START_S = 20.0
STOP_S = 6.0  # the daemon promises 5
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class NotObservedError(Exception):
    """An expected event did not occur in time; the text says which."""


class InterruptedDemoError(Exception):
    """A signal asked the demo to end; `number` is its number."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Interrupts:
    """A context that records signals. Only `check` raises them, so that no new process escapes `Sandbox.close`."""

    def __init__(self) -> None:
        self._number = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        for number in SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` ignores it
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *unused: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raise InterruptedDemoError if a signal has come."""
        if self._number:
            raise InterruptedDemoError(self._number)

    def _note(self, number: int, _: FrameType | None) -> None:
        self._number = self._number or number


class Agent(Struct, frozen=True):
    """A running agent; `log` is the file with its reports."""

    name: str
    process: Popen[bytes]
    log: Path

    def reports(self, event: str) -> list[dict[str, Any]]:
        """Return all reports of one kind so far."""
        lines = self.log.read_bytes().split(b"\n")[:-1]
        return [each for each in map(json.loads, lines) if each["event"] == event]

    def write(self, memories: Iterable[object]) -> None:
        """Give a writing agent memories to write."""
        assert self.process.stdin is not None
        self.process.stdin.writelines(json.dumps(memory).encode() + b"\n" for memory in memories)
        self.process.stdin.flush()


class Sandbox:
    """The directory, its daemon, its agents and the narrator; `close` ends and removes all of them.

    Every process is in a session of its own: Ctrl-C reaches the demo alone, which then ends the others.
    """

    def __init__(self, interrupts: Interrupts, narrator: Narrator) -> None:
        self._interrupts = interrupts
        self.narrator = narrator
        self.directory = Path(tempfile.mkdtemp(prefix="memoryd-demo-")).resolve()
        self._socket_dir: str | None = None
        self._socket = str(self.directory / "control.sock")
        if len(os.fsencode(self._socket)) >= SUN_PATH:  # the path of a socket must be short
            self._socket_dir = tempfile.mkdtemp(prefix="memoryd-demo-", dir="/tmp")
            self._socket = os.path.join(self._socket_dir, "control.sock")
        self._settings: dict[str, dict[str, str | int]] = {}
        self._daemon: Popen[bytes] | None = None
        self._client = Client(self._socket, timeout=PATIENCE_S)
        self._agents: list[Agent] = []
        self.path("agents").mkdir()

    def path(self, *names: str) -> Path:
        """Return a path in the directory."""
        return self.directory.joinpath(*names)

    def say(self, kind: str, text: str, *, observed: bool = True) -> None:
        """Print one line if `observed`; otherwise raise NotObservedError with its text."""
        require(observed, text)
        self.narrator.say(kind, text)

    # --- waiting

    def until(self, probe: Callable[[], T | None], what: str, within_s: float = PATIENCE_S) -> T:
        """Call `probe` until it returns something true. Raises NotObservedError with `what` if that takes too long."""
        end = time.monotonic() + within_s
        while not (result := probe()):
            if time.monotonic() > end:
                raise NotObservedError(f"{what}: not within {within_s:g} s")
            self.sleep(POLL_S)
        return result

    def sleep(self, seconds: float) -> None:
        """Wait, and raise InterruptedDemoError when a signal comes."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._interrupts.check()
            time.sleep(POLL_S)

    # --- stores and configuration

    def create(self, name: str, mode: int = 0o600) -> Path:
        """Copy a sample store with that mode, an hour old, and once more below `found`; return its path.

        In a sample, `@5d@` stands for the time five days ago.
        """
        now, store = time.time(), self.path(name)

        def stamp(match: re.Match[bytes]) -> bytes:
            return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now - int(match[1]) * 86_400)).encode()

        for sample in (path for path in (SAMPLES / name).rglob("*") if path.is_file()):
            path = store / sample.relative_to(SAMPLES / name)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_bytes(re.sub(rb"@(\d+)d@", stamp, sample.read_bytes()))
            path.chmod(mode)
            os.utime(path, (now - 3600, now - 3600))
        store.chmod(mode | (mode & 0o444) >> 2)
        shutil.copytree(store, self.path("found", name))
        return store

    def configure(self, root: str, schedule: Mapping[str, str] | None = None, **settings: str | int) -> None:
        """Set keys of one root, and let a running daemon read them."""
        root_settings = self._settings.setdefault(root, {"name": root, "path": str(self.path(root))})
        root_settings.update(settings | {f"schedule.{job}": every for job, every in (schedule or {}).items()})
        text = "[daemon]\nquiet_s = 1\nquiet_cap_s = 20\n"
        for keys in self._settings.values():
            text += "\n[[root]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
        self.path("memoryd.toml").write_text(text, encoding="utf-8")
        if self._daemon is not None:
            self.call("config.reload")

    def adopt(self, name: str, **settings: Any) -> None:
        """Add a store without naming its layout, and confirm the layout that memoryd recognises."""
        self.configure(name, layout="auto", mode="maintain", **settings)
        self.until(lambda: self.row(name)["state"] == "ok", f"memoryd recognises {name} by its content")
        layout = self.row(name)["layout"]
        require(layout == name, f"memoryd takes the store for {name}, not for {layout}")
        self.call("root.confirm", name=name)

    # --- the daemon

    def start(self) -> int:
        """Start the daemon, wait until it has scanned every root, and return its process id."""
        config, state = str(self.path("memoryd.toml")), str(self.path("state"))
        places = ["--config", config, "--state-dir", state, "--socket", self._socket]
        command = [sys.executable, "-m", "memoryd", *places, "run", "--log-format", "json"]
        foreign = ("MEMORYD_", "NOTIFY_", "WATCHDOG_", "LISTEN_")  # the user's own settings, and systemd's
        env = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        with open(self.path("daemon.log"), "ab") as log:
            self._daemon = Popen(command, stdin=DEVNULL, stdout=log, stderr=log, env=env, start_new_session=True)
        self.until(self._ready, "the daemon answers and has scanned its roots", START_S)
        return self._daemon.pid

    def _ready(self) -> bool:
        assert self._daemon is not None
        code = self._daemon.poll()
        require(code is None, f"the daemon ended with {code} when it was to start")
        try:
            rows = self._client.call("status")["roots"]
        except NoDaemonError:  # the socket has a name a moment before it accepts connections
            return False
        return bool(rows) and all(row["state"] not in ("starting", "scanning") for row in rows)

    def call(self, method: str, **params: Any) -> Any:
        """Call one control method. Any refusal but the one of a secret becomes NotObservedError."""
        self._interrupts.check()
        try:
            return self._client.call(method, params)
        except SensitiveError:
            raise
        except MemorydError as error:
            raise NotObservedError(f"memoryd refused {method}: {error.message}") from error

    def row(self, root: str) -> dict[str, Any]:
        """Return the row of a root in `status`."""
        return dict(self.call("status", root=root)["roots"][0])

    def change(self, root: str, operation: str) -> dict[str, Any]:
        """Wait for a change of that operation in the history of a root, and return its entry."""

        def probe() -> dict[str, Any] | None:
            entries = self.call("history.list", root=root)["entries"]
            return next((each for each in entries if each["operation"] == operation), None)

        entry = self.until(probe, f"memoryd makes a change of kind {operation} in {root}")
        self.call("sync", root=root)  # the entry is written before the change is complete
        return entry

    def stop(self) -> tuple[int, float]:
        """Ask the daemon to stop; return its exit code and the seconds it took."""
        daemon, began = self._daemon, time.monotonic()
        assert daemon is not None
        self.call("shutdown")
        self.until(lambda: daemon.poll() is not None, "the daemon stops when asked", STOP_S)
        return daemon.returncode, time.monotonic() - began

    def log_tail(self) -> list[str]:
        """Return the last five lines of the daemon's log."""
        log = self.path("daemon.log")
        return log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:] if log.exists() else []

    # --- agents and the end

    def agent(self, name: str, do: str, root: str, file: str = "") -> Agent:
        """Start an agent. It runs isolated (`-I`) and by path, because it is no part of memoryd."""
        command = [sys.executable, "-I", agents.__file__, do, str(self.path(root)), file]
        path = self.path("agents", f"{name.lower()}.jsonl")
        with open(path, "wb") as reports, open(self.path("agents", "errors.log"), "ab") as errors:
            process = Popen(command, stdin=PIPE, stdout=reports, stderr=errors, start_new_session=True)
        self._agents.append(Agent(name, process, path))
        return self._agents[-1]

    def killed_agent(self, name: str, do: str, root: str) -> int:
        """Start an agent that takes a lock and is killed; return the id of the dead process."""
        process = self.agent(name, do, root).process
        code = self.until(process.poll, f"{name} takes a lock and is killed")
        require(code == -signal.SIGKILL, f"{name} is killed, not ended with {code}")
        return process.pid

    def close(self, *, keep: bool) -> None:
        """End every process; remove the directory unless it is to be kept."""
        for agent in self._agents:
            with agent.process:
                agent.process.kill()
        if self._daemon is not None:
            self._daemon.terminate()
            try:
                self._daemon.wait(STOP_S)
            except TimeoutExpired:
                self._daemon.kill()
                self._daemon.wait()
        self._client.close()
        if self._socket_dir is not None:
            shutil.rmtree(self._socket_dir)
        if not keep:
            shutil.rmtree(self.directory)


def require(observed: bool, what: str) -> None:
    """Raise NotObservedError with `what` unless `observed`."""
    if not observed:
        raise NotObservedError(what)
