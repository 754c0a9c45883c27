"""The service managers behind one seam: every call of `systemctl`, `loginctl`, `journalctl` and `launchctl` goes
through a `Run`, so that a test can play the manager."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from memoryd.errors import MemorydError, NotFoundError
from memoryd.installer.systemd import DROP_IN, SOCKET_UNIT, UNIT, Service, unit_files

START_S = 1800.0  # a first look at very large roots; the unit itself knows when a start has failed


class Completed(NamedTuple):
    """The result of a command: its exit code and all it printed."""

    code: int
    output: str


class Run(Protocol):
    """Runs a command and returns its result. `user`: who runs it, if not this process's user."""

    def __call__(
        self, words: Sequence[str], *, user: str | None = None, env: Mapping[str, str] | None = None
    ) -> Completed:
        """Run the words; with `env` from `/` and with nothing else in the environment."""


class ServiceError(MemorydError):
    """The service manager refused, or the service did not start."""

    name = "service"
    exit_code = 1


def run_command(words: Sequence[str], *, user: str | None = None, env: Mapping[str, str] | None = None) -> Completed:
    """Run a command of the system, as another user if one is named (root only)."""
    import pwd  # noqa: PLC0415 - not there on every system

    account = pwd.getpwnam(user) if user else None
    try:
        done = subprocess.run(
            list(words),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            timeout=START_S, check=False, cwd="/" if env is not None else None, env=_environment(env),
            user=account.pw_uid if account else None, group=account.pw_gid if account else None,
            extra_groups=os.getgrouplist(account.pw_name, account.pw_gid) if account else None,
        )  # fmt: skip
    except FileNotFoundError:
        return Completed(127, f"{words[0]}: not found")
    except PermissionError as error:
        return Completed(126, f"{words[0]}: {error.strerror}")
    return Completed(done.returncode, done.stdout.strip())


def _environment(env: Mapping[str, str] | None) -> dict[str, str]:
    if env is not None:
        return dict(env)
    session = f"/run/user/{os.getuid()}"
    if "XDG_RUNTIME_DIR" not in os.environ and os.path.isdir(session):  # after `su`, for one
        return {**os.environ, "XDG_RUNTIME_DIR": session}
    return dict(os.environ)


class State(NamedTuple):
    """The state of the service as its manager reports it. `active`: it runs; `pid`: 0 without a process."""

    active: bool
    text: str
    pid: int = 0
    enabled: bool = False
    restarts: int = 0


def last_error(log: str) -> str:
    """Return the line of a log that tells why the daemon ended: its last message for people, else its last line."""
    lines = log.splitlines()
    messages = [line.removeprefix("memoryd: ") for line in lines if line.startswith("memoryd: ")]
    return (messages or lines or [""])[-1]


def find_config_home(run: Run, env: Mapping[str, str], home: str) -> str:
    """Return the directory of configuration in which the user's systemd looks for units: it has an environment of its
    own, which need not have the XDG_CONFIG_HOME of a shell."""
    usual, named = os.path.join(home, ".config"), env.get("XDG_CONFIG_HOME", "")
    if not named.startswith("/"):  # the XDG rule: a relative path there is to be ignored
        return usual
    done = run(["systemctl", "--user", "show", "-p", "UnitPath"])
    return usual if done.code == 0 and os.path.join(named, "systemd", "user") not in done.output else named


class Systemd:
    """The manager of one user, or with `system` that of the machine."""

    name = "systemd"

    def __init__(self, run: Run, *, system: bool, config_home: str, user: str) -> None:
        self._run = run
        self._system = system
        self._user = user
        self._scope = [] if system else ["--user"]
        self.directory = "/etc/systemd/system" if system else os.path.join(config_home, "systemd", "user")
        self.log = " ".join(["journalctl", *self._scope, "-u", "memoryd", "-f"])

    def files(self, service: Service) -> dict[str, str]:
        """Return the unit files: absolute path -> text."""
        return {os.path.join(self.directory, name): text for name, text in unit_files(service).items()}

    def owned(self) -> tuple[str, ...]:
        """Return every path that an installation may have written."""
        return tuple(os.path.join(self.directory, name) for name in (UNIT, DROP_IN, SOCKET_UNIT))

    def commands(self, service: Service) -> list[list[str]]:
        """Return the commands that make the manager start the service, once the files are there."""
        units = [SOCKET_UNIT, UNIT] if service.with_socket else [UNIT]
        return [self._words("daemon-reload"), self._words("enable", *units), self._words("restart", *units)]

    def start(self, service: Service) -> None:
        """Enable and start the service, or start it again. Returns once it reports READY. Raises ServiceError."""
        if service.with_socket and self._run(self._words("is-active", "--quiet", SOCKET_UNIT)).code:
            self._run(self._words("stop", UNIT))  # a socket cannot be bound under a service that runs
        for words in self.commands(service):
            done = self._run(words)
            if done.code:
                raise self._failure(words, done)

    def stop(self) -> None:
        """Stop and disable the service; nothing happens where it is not installed."""
        self._run(self._words("disable", "--now", SOCKET_UNIT, UNIT))
        self._run(self._words("stop", SOCKET_UNIT, UNIT))

    def forget(self) -> None:
        """Let the manager notice that the files are gone."""
        self._run(self._words("daemon-reload"))
        self._run(self._words("reset-failed", SOCKET_UNIT, UNIT))

    def state(self) -> State:
        """Return the state of the service. Raises NotFoundError if no manager answers."""
        names = "LoadState,ActiveState,SubState,MainPID,NRestarts,Result,ExecMainStatus,UnitFileState"
        done = self._run(self._words("show", UNIT, "-p", names))
        values = dict(line.split("=", 1) for line in done.output.splitlines() if "=" in line)
        if done.code or "ActiveState" not in values:
            raise NotFoundError(
                f"no service manager answers: {done.output or 'systemctl printed nothing'}",
                hint="run `memoryd run` under the supervisor of this machine; `memoryd service show` prints the unit",
            )
        active = values["ActiveState"]
        text = f"{active} ({values['SubState']})" if values["LoadState"] == "loaded" else "not installed"
        if active != "active" and values.get("Result", "success") != "success":
            text += f", result: {values['Result']}, last exit status {values.get('ExecMainStatus')}"
        return State(
            active=active in ("active", "reloading"),
            text=text,
            pid=int(values.get("MainPID") or 0),
            enabled=values.get("UnitFileState") == "enabled",
            restarts=int(values.get("NRestarts") or 0),
        )

    def reason(self) -> str:
        """Return the last lines that the daemon wrote to the log."""
        words = ["journalctl", *self._scope, "-u", "memoryd", "-n", "20", "-o", "json", "--no-pager"]
        lines = [json.loads(line) for line in self._run(words).output.splitlines() if line.startswith("{")]
        own = [str(line["MESSAGE"]) for line in lines if line.get("SYSLOG_IDENTIFIER") != "systemd"]
        return "\n".join(own[-5:])

    def notes(self, service: Service) -> list[str]:
        """Return what the user should know about when the service runs."""
        del service
        if self._system or Path("/var/lib/systemd/linger", self._user).exists():
            return []
        return [f"it ends when {self._user} logs out; to keep it running: loginctl enable-linger"]

    def _words(self, *words: str) -> list[str]:
        return ["systemctl", *self._scope, *words]

    def _failure(self, words: Sequence[str], done: Completed) -> ServiceError:
        log = self.reason() if "restart" in words else ""
        lines = "\n".join(f"  {line}" for line in log.splitlines())
        return ServiceError(
            f"`{' '.join(words)}` failed: {done.output}" + (f"\n{lines}" if lines else ""),
            hint=f"the whole log: {self.log}; to remove the service again: `memoryd service uninstall`",
        )
