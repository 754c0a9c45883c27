"""The sd_notify protocol of service managers, and sockets passed by them.

It is a stable interface of systemd and small enough that a package would cost more than it saves: one datagram per
message, `KEY=value` lines. Without `NOTIFY_SOCKET` everything here does nothing, as the protocol demands.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Mapping, MutableMapping

from memoryd.log import get_logger

log = get_logger(__name__)

FIRST_PASSED_FD = 3  # fixed by the socket activation protocol


class Notifier:
    """Sends states to the service manager that `env` names. Methods return whether a message was sent."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._address = _address(env.get("NOTIFY_SOCKET", ""))
        self._watchdog_s = _watchdog_s(env, os.getpid())

    def ready(self, status: str = "") -> bool:
        """Report that the start or the reload is complete."""
        return self._send("READY=1", _status(status))

    def status(self, text: str) -> bool:
        """Report one line of status for people."""
        return self._send(_status(text))

    def reloading(self) -> bool:
        """Report a reload; `ready` must follow. Without the timestamp a `Type=notify-reload` unit times out."""
        return self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> bool:
        """Report that the daemon is stopping."""
        return self._send("STOPPING=1")

    def watchdog(self) -> bool:
        """Report that the daemon is alive."""
        return self._send("WATCHDOG=1")

    def extend_timeout(self, seconds: float) -> bool:
        """Ask for more time to start, reload or stop."""
        return self._send(f"EXTEND_TIMEOUT_USEC={int(seconds * 1_000_000)}")

    def watchdog_interval_s(self) -> float | None:
        """Return the interval of `watchdog` calls in seconds: a third of the manager's limit, so one late ping is
        harmless. None if there is no watchdog."""
        return self._watchdog_s

    def _send(self, *lines: str) -> bool:
        if self._address is None:
            return False
        message = "\n".join(line for line in lines if line).encode("utf-8", "replace")
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
                out.settimeout(1.0)  # a manager that does not read must not stop the daemon
                out.connect(self._address)
                out.sendall(message)
        except OSError as error:
            log.warning("the service manager cannot be notified", error=str(error))
            return False
        return True


def listen_fds(env: MutableMapping[str, str], pid: int) -> list[int]:
    """Return the descriptors of the sockets passed by the service manager; none if they are for another process.

    The variables are removed and the descriptors made non-inheritable, so that no child process uses them.
    """
    taken = {name: env.pop(name, "") for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID")}
    if taken["LISTEN_PID"] != str(pid) or not taken["LISTEN_FDS"].isdecimal():
        return []
    passed = []
    for fd in range(FIRST_PASSED_FD, FIRST_PASSED_FD + int(taken["LISTEN_FDS"])):
        with contextlib.suppress(OSError):  # a descriptor that is not open was not passed after all
            os.set_inheritable(fd, False)
            passed.append(fd)
    return passed


def _address(value: str) -> str | None:
    """Return a path, or `@name` of the abstract namespace; None for other kinds (vsock), which leave this machine."""
    if value.startswith("@"):
        return "\0" + value[1:]
    return value if value.startswith("/") else None


def _status(text: str) -> str:
    """Return one line: a newline in the name of a root must not forge a `WATCHDOG=1`."""
    return f"STATUS={' '.join(text.split())}" if text else ""


def _watchdog_s(env: Mapping[str, str], pid: int) -> float | None:
    """Return a third of WATCHDOG_USEC, in seconds; None if it is unset, invalid, or meant for another process."""
    limit = env.get("WATCHDOG_USEC", "")
    if env.get("WATCHDOG_PID", str(pid)) != str(pid) or not limit.isdecimal() or int(limit) == 0:
        return None
    return int(limit) / 3_000_000
