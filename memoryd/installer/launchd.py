"""The launch agent of macOS: its file, made from values like the one in `launchd/`, and the calls that load it.

The keys are those of launchd.plist(5). launchd expands neither `~` nor variables, so every path is absolute.
"""

from __future__ import annotations

import os
import plistlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from memoryd.installer.managers import Completed, Run, ServiceError, State
from memoryd.installer.systemd import Service

LABEL = "dev.memoryd.agent"

_HEAD = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- memoryd as a launch agent; `memoryd service install` writes this file.

     ProgramArguments: no shell or wrapper, because macOS grants access to directories per program.
     KeepAlive: restart after a crash, not after `memoryd stop`.
     ExitTimeOut: seconds between SIGTERM and SIGKILL; memoryd needs at most 5.
     ProcessType: "Background" would throttle disk and CPU, and commands would wait.
     LimitLoadToSessionType: graphical sessions and ssh.
     Umask: 077; a plist has no octal numbers.
     SoftResourceLimits: the default of 256 files is too few.
     MEMORYD_SUPERVISOR: launchd restarts after every failure; with this variable memoryd exits with 0 if another try
     would fail in the same way (wrong configuration, already running, permission).
     StandardErrorPath: errors and notable events; launchd does not rotate this file.
     MEMORYD_LOG_FILE: the same file; memoryd moves its content to memoryd.log.1 when it has 5 MB. -->
"""


def agent(service: Service, home: str) -> str:
    """Return the text of the property list."""
    log = os.path.join(home, "Library", "Logs", "memoryd.log")
    values = {
        "Label": LABEL,
        "ProgramArguments": [*service.command, "run", "--log-format", "json"],
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 10,
        "ExitTimeOut": 15,
        "ProcessType": "Standard",
        "LimitLoadToSessionType": ["Aqua", "Background"],
        "Umask": 0o077,
        "SoftResourceLimits": {"NumberOfFiles": 8192},
        "EnvironmentVariables": {"MEMORYD_SUPERVISOR": "launchd", "MEMORYD_LOG_FILE": log},
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }
    body = plistlib.dumps(values, sort_keys=False).decode()
    return _HEAD + body.partition('DTDs/PropertyList-1.0.dtd">\n')[2]


class Launchd:
    """The launch agents of one user (macOS). Its calls are asynchronous: what was removed may still be there."""

    name = "launchd"

    def __init__(self, run: Run, *, home: str, uid: int, pause: Callable[[float], None] = time.sleep) -> None:
        self._run = run
        self._home = home
        self._uid = uid
        self._pause = pause
        self.directory = os.path.join(home, "Library", "LaunchAgents")
        self.log = f"tail -f {os.path.join(home, 'Library', 'Logs', 'memoryd.log')}"

    @property
    def _plist(self) -> str:
        return os.path.join(self.directory, f"{LABEL}.plist")

    def _domain(self) -> str:
        """The graphical session of the user if there is one, else the background one of ssh."""
        has_session = self._run(["launchctl", "print", f"gui/{self._uid}"]).code == 0
        return f"gui/{self._uid}" if has_session else f"user/{self._uid}"

    def files(self, service: Service) -> dict[str, str]:
        """Return the agent: absolute path -> text."""
        return {self._plist: agent(service, self._home)}

    def owned(self) -> tuple[str, ...]:
        """Return every path that an installation may have written."""
        return (self._plist,)

    def commands(self, service: Service) -> list[list[str]]:
        """Return the commands that make the manager start the service, once the file is there."""
        del service
        domain = self._domain()
        return [
            ["launchctl", "bootout", f"{domain}/{LABEL}"],
            ["launchctl", "bootstrap", domain, self._plist],
            ["launchctl", "kickstart", f"{domain}/{LABEL}"],
        ]

    def start(self, service: Service) -> None:
        """Load and start the agent, or load it again. Raises ServiceError."""
        _, bootstrap, kickstart = self.commands(service)
        self.stop()
        for _ in range(5):
            done = self._run(bootstrap)
            if done.code in (0, 37):  # 37: it is loaded already
                break
            self._pause(1.0)  # 5: what was removed is not quite gone
        else:
            raise self._failure(bootstrap, done)
        started = self._run(kickstart)  # after `bootstrap` alone the agent may be loaded but not running
        if started.code:
            raise self._failure(kickstart, started)

    def stop(self) -> None:
        """Unload the agent and wait until it is gone. Raises ServiceError if it stays."""
        target = f"{self._domain()}/{LABEL}"
        self._run(["launchctl", "bootout", target])
        for _ in range(100):
            if self._run(["launchctl", "print", target]).code:
                return
            self._pause(0.2)
        raise ServiceError(f"launchd still lists {target} after 20 s", hint=f"see `launchctl print {target}`")

    def forget(self) -> None:
        """Nothing: launchd keeps no copy of a file that is not loaded."""

    def state(self) -> State:
        """Return the state of the agent."""
        done = self._run(["launchctl", "print", f"{self._domain()}/{LABEL}"])
        if done.code:
            return State(active=False, text="not loaded" if Path(self._plist).exists() else "not installed")
        fields = dict(line.strip().split(" = ", 1) for line in done.output.splitlines() if " = " in line)
        state, pid = fields.get("state", "unknown"), fields.get("pid", "0")
        end = f", last exit code {fields['last exit code']}" if "last exit code" in fields else ""
        text = state if state == "running" else state + end
        return State(active=state == "running", text=text, pid=int(pid) if pid.isdecimal() else 0, enabled=True)

    def reason(self) -> str:
        """Return the last lines of the log."""
        return self._run(["tail", "-n", "5", os.path.join(self._home, "Library", "Logs", "memoryd.log")]).output

    def notes(self, service: Service) -> list[str]:
        """Return what the user should know about directories that macOS protects."""
        protected = ("Documents", "Desktop", "Downloads")
        blocked = [path for path in service.writable if path.startswith(tuple(f"{self._home}/{p}/" for p in protected))]
        return [f"macOS asks before a program may read {path}; allow it once in the dialog" for path in blocked]

    def _failure(self, words: Sequence[str], done: Completed) -> ServiceError:
        return ServiceError(
            f"`{' '.join(words)}` failed with {done.code}: {done.output}", hint=f"the log of the daemon: {self.log}"
        )
