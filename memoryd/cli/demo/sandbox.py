"""The throw-away directory of the demo, the processes in it (a daemon with its own state and socket, and agents), and
the narrator that prints what happens.

DIR/LAYOUT        a store of that layout       DIR/state         journal, backups and index of the daemon
DIR/found/LAYOUT  the same store before        DIR/memoryd.toml  configuration
DIR/agents        what each agent reported     DIR/daemon.log    log of the daemon
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any, TextIO, TypeVar

import click

from memoryd.cli.demo import agents
from memoryd.cli.screen import printable, wants_fancy
from memoryd.config.places import SUN_PATH
from memoryd.control.client import Client
from memoryd.errors import MemorydError, NoDaemonError

MARKS = {  # kind of line: mark, colour
    "note": ("·", "bright_black"),
    "found": ("✗", "yellow"),
    "done": ("✓", "green"),
    "agent": ("›", "cyan"),
    "failed": ("✗", "red"),
}
INDENT = " " * 11
WIDEST = 100


class Narrator:
    """Prints to `out`; `live` is true on a terminal, where a person reads along."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.live = out.isatty()
        self._colour = wants_fancy(out, os.environ)
        self._began = time.monotonic()
        self._width = min(shutil.get_terminal_size((80, 24)).columns, WIDEST)

    @property
    def seconds(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._began

    def title(self, text: str) -> None:
        """Print the title of a scene after an empty line."""
        self.plain("")
        self.plain(click.style(printable(text), bold=True) if self._colour else printable(text))

    def say(self, kind: str, text: str) -> None:
        """Print one timed line with the mark of its kind (a key of MARKS); a long text wraps below itself."""
        mark, colour = MARKS[kind]
        rows = textwrap.wrap(printable(text), max(self._width - len(INDENT), 20), break_on_hyphens=False)
        head = f"{self.seconds:5.1f} s"
        if self._colour:
            head, mark = click.style(head, dim=True), click.style(mark, fg=colour)
        self.plain(f"{head}  {mark} " + f"\n{INDENT}".join(rows))

    def plain(self, text: str) -> None:
        """Print a line as it is, not wrapped: commands are copied from it."""
        self._out.write(text + "\n")
        self._out.flush()


def shorten(text: str, length: int = 40) -> str:
    """The beginning of a text in quotation marks, with an ellipsis where it goes on."""
    return f"“{text if len(text) <= length else text[: length - 1].rstrip() + '…'}”"


T = TypeVar("T")

SAMPLES = Path(__file__).parent / "stores"
POLL_S = 0.005
PATIENCE_S = 15.0  # the longest wait for anything
START_S = 20.0
STOP_S = 6.0  # the daemon promises 5
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class NotSeenError(Exception):
    """An expected event did not occur in time; the text says which."""


class InterruptedDemoError(Exception):
    """A signal asked the demo to end; `number` is its number."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Interrupts:
    """While entered, signals are noted and `check` raises them, so that no process is started and then forgotten."""

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

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._number = self._number or number


@dataclass(frozen=True)
class Agent:
    """A running agent; `log` is the file with its reports."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def reports(self, event: str) -> list[dict[str, Any]]:
        """All reports of one kind so far."""
        lines = self.log.read_bytes().split(b"\n")[:-1]
        return [each for each in map(json.loads, lines) if each["event"] == event]

    def next_batch(self) -> None:
        """Let a writing agent write its next batch."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()


class Sandbox:
    """The directory, its daemon, its agents and the narrator; `close` ends and removes all of them."""

    def __init__(self, interrupts: Interrupts, narrator: Narrator) -> None:
        self._interrupts = interrupts
        self.narrator = narrator
        self.directory = os.path.realpath(tempfile.mkdtemp(prefix="memoryd-demo-"))
        self._socket_dir: str | None = None
        self._socket = os.path.join(self.directory, "control.sock")
        if len(os.fsencode(self._socket)) >= SUN_PATH:  # the path of a socket must be short
            self._socket_dir = tempfile.mkdtemp(prefix="memoryd-demo-", dir="/tmp")
            self._socket = os.path.join(self._socket_dir, "control.sock")
        self._settings: dict[str, dict[str, Any]] = {}
        self._daemon: subprocess.Popen[bytes] | None = None
        self._client = Client(self._socket, timeout=PATIENCE_S)
        self._agents: list[Agent] = []
        self._receipts: set[str] = set()
        self.path("agents").mkdir()

    def path(self, *names: str) -> Path:
        """A path in the directory."""
        return Path(self.directory, *names)

    def say(self, kind: str, text: str, *, seen: bool = True) -> None:
        """Print one line of what was seen; raise NotSeenError with its text where it was not."""
        require(seen, text)
        self.narrator.say(kind, text)

    # --- waiting

    def until(self, look: Callable[[], T | None], what: str, within_s: float = PATIENCE_S) -> T:
        """Poll `look` until it returns a value; raise NotSeenError with `what` when it does not in time."""
        end = time.monotonic() + within_s
        while (found := look()) is None:
            if time.monotonic() > end:
                raise NotSeenError(f"{what}: not within {within_s:g} s")
            self.sleep(POLL_S)
        return found

    def sleep(self, seconds: float) -> None:
        """Wait, and raise InterruptedDemoError when a signal comes."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._interrupts.check()
            time.sleep(min(left, 0.05))
        self._interrupts.check()

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

    def configure(self, root: str, **settings: Any) -> None:
        """Set keys of one root, `schedule` job by job, and let a running daemon read them."""
        known = self._settings.setdefault(root, {"path": str(self.path(root)), "schedule": {}})
        known["schedule"].update(settings.pop("schedule", {}))
        known.update(settings)
        text = ["[daemon]", "quiet_s = 1", "quiet_cap_s = 20", ""]
        for name, keys in self._settings.items():
            text += ["[[root]]", f'name = "{name}"']
            text += [f"{key} = {json.dumps(value)}" for key, value in keys.items() if key != "schedule"]
            text += ["[root.schedule]", *(f'{job} = "{every}"' for job, every in keys["schedule"].items()), ""]
        self.path("memoryd.toml").write_text("\n".join(text), encoding="utf-8")
        if self._daemon is not None:
            self.call("config.reload")

    def adopt(self, name: str, **settings: Any) -> None:
        """Add a store without naming its layout, and confirm the layout that memoryd recognises."""
        self.configure(name, layout="auto", mode="maintain", **settings)

        def recognised() -> str | None:
            (row,) = self.call("status", root=name)["roots"]
            return row["layout"] if row["state"] == "ok" else None

        found = self.until(recognised, f"memoryd recognises {name} by its content")
        require(found == name, f"memoryd takes the store for {name}, not for {found}")
        self.call("root.confirm", name=name)

    # --- the daemon

    def start(self) -> int:
        """Start the daemon, wait until it has scanned every root, and return its process id."""
        config, state = str(self.path("memoryd.toml")), str(self.path("state"))
        places = ["--config", config, "--state-dir", state, "--socket", self._socket]
        command = [sys.executable, "-m", "memoryd", *places, "run", "--log-format", "json"]
        with open(self.path("daemon.log"), "ab") as log:
            self._daemon = _spawn(command, subprocess.DEVNULL, log, log, env=_private(os.environ))
        self.until(self._ready, "the daemon answers and has scanned its roots", START_S)
        return self._daemon.pid

    def _ready(self) -> bool | None:
        assert self._daemon is not None
        code = self._daemon.poll()
        require(code is None, f"the daemon ended with {code} when it was to start")
        try:
            rows = self._client.call("status")["roots"]
        except NoDaemonError:  # the socket has a name a moment before it accepts connections
            return None
        return True if rows and all(row["state"] not in ("starting", "scanning") for row in rows) else None

    def call(self, method: str, **params: Any) -> Any:
        """Call one control method; a refusal becomes NotSeenError, with the refusal as its cause."""
        self._interrupts.check()
        try:
            return self._client.call(method, params)
        except MemorydError as error:
            raise NotSeenError(f"memoryd refused {method}: {error.message}") from error

    def change(self, root: str, operation: str) -> dict[str, Any]:
        """Wait for a change of that operation in the history that was not returned before, and return its entry."""

        def look() -> dict[str, Any] | None:
            entries = self.call("history.list", root=root)["entries"]
            fresh = (each for each in entries if each["receipt"] not in self._receipts)
            return next((dict(each) for each in fresh if each["operation"] == operation), None)

        entry = self.until(look, f"memoryd makes a change of kind {operation} in {root}")
        self._receipts.add(entry["receipt"])
        self.call("sync", root=root)  # the entry is written before the change is complete
        return entry

    def stop(self) -> tuple[int, float]:
        """Ask the daemon to stop; return its exit code and the seconds it took."""
        assert self._daemon is not None
        began = time.monotonic()
        self.call("shutdown")
        code = self.until(self._daemon.poll, "the daemon stops when asked", STOP_S)
        return code, time.monotonic() - began

    def log_tail(self) -> list[str]:
        """The last five lines of the daemon's log."""
        log = self.path("daemon.log")
        return log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:] if log.exists() else []

    # --- agents and the end

    def agent(self, name: str, **job: Any) -> Agent:
        """Start an agent. It runs isolated (`-I`) and by path, because it is no part of memoryd."""
        path = self.path("agents", f"{name.lower()}.jsonl")
        with open(path, "wb") as reports, open(self.path("agents", "errors.log"), "ab") as errors:
            command = [sys.executable, "-I", agents.__file__, json.dumps(job)]
            process = _spawn(command, subprocess.PIPE, reports, errors)
        self._agents.append(Agent(name, process, path))
        return self._agents[-1]

    def killed_agent(self, name: str, do: str, root: str) -> int:
        """Start an agent that takes a lock and is killed; return the id of the dead process."""
        process = self.agent(name, do=do, root=str(self.path(root))).process
        code = self.until(process.poll, f"{name} takes a lock and is killed")
        require(code == -signal.SIGKILL, f"{name} is killed, not ended with {code}")
        return process.pid

    def close(self, *, keep: bool) -> None:
        """End every process; remove the directory unless it is to be kept."""
        for agent in self._agents:
            _end(agent.process, signal.SIGKILL)
        if self._daemon is not None:
            _end(self._daemon, signal.SIGTERM)
        self._client.close()
        if self._socket_dir is not None:
            shutil.rmtree(self._socket_dir)
        if not keep:
            shutil.rmtree(self.directory)


def require(seen: bool, what: str) -> None:
    """Raise NotSeenError with `what` unless it was seen."""
    if not seen:
        raise NotSeenError(what)


def _private(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without variables that point to the user's files or to systemd."""
    foreign = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")
    return {key: value for key, value in env.items() if key not in foreign and not key.startswith("MEMORYD_")}


def _spawn(
    command: list[str], stdin: int, out: IO[bytes], err: IO[bytes], env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own: Ctrl-C reaches the demo alone, which then ends the others."""
    return subprocess.Popen(command, stdin=stdin, stdout=out, stderr=err, env=env, start_new_session=True)


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
