"""Start the daemon: log, handlers, and the errors of an unusable state directory."""

from __future__ import annotations

import errno
import faulthandler
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence

from memoryd.config.detect import candidate_paths
from memoryd.config.places import Places
from memoryd.control.server import refuse_clients
from memoryd.core.secrets import redact_values
from memoryd.disk.disk_errors import refusal, remedy
from memoryd.disk.processes import raise_file_limit, use_one_heap
from memoryd.errors import ConfigError, DeniedError, DiskError, MemorydError
from memoryd.log import configure
from memoryd.service.daemon import Daemon
from memoryd.service.handlers import handlers
from memoryd.service.notify import listen_fds

DISK_PAUSE_S = 15.0  # before the end of a start that the disk refused, under systemd
# The longest that a thread computes while another one waits. A search waits this long after each row that it reads
# from SQLite while vectors are made or files are parsed; Python's default is 5 ms.
SWITCH_S = 0.0002


def run(
    places: Places,
    *,
    paths: Sequence[str] = (),
    layout: str | None = None,
    log_format: str = "auto",
    log_level: str | None = None,
    observe: bool = False,
) -> int:
    """Run the daemon until it is told to stop; return the exit code. Raises MemorydError if it cannot start. With
    `observe` no root is maintained, whatever its configuration says."""
    os.umask(0o077)
    faulthandler.enable()
    sys.setswitchinterval(SWITCH_S)
    use_one_heap()
    raise_file_limit()
    sockets = listen_fds(os.environ, os.getpid())
    listener = socket.socket(fileno=sockets[0]) if sockets else None
    try:
        daemon = Daemon(places, [(path, layout) for path in paths], handlers, log_level, observe=observe)
        if not daemon.config.roots:
            raise _no_roots(places)
        style = daemon.config.daemon.log_format if log_format == "auto" else log_format
        path = os.environ.get("MEMORYD_LOG_FILE", "")
        configure(style=style, level=daemon.log_level, clean=redact_values, path=path)
        return _serve(daemon, listener)
    except MemorydError as error:
        if listener is not None:
            refuse_clients(listener, error)  # else systemd starts the daemon again at once, for the client that waits
        if isinstance(error, DiskError) and "NOTIFY_SOCKET" in os.environ:
            _pause()
        raise


def _serve(daemon: Daemon, listener: socket.socket | None) -> int:
    try:
        return daemon.run(listener)
    except OSError as error:
        raise _unusable(daemon.places.state_dir, error) from error
    except RuntimeError as error:
        if str(error) != "can't start new thread":
            raise
        hint = "raise the limit on threads (`ulimit -u`, `TasksMax=` of a systemd unit, the pids limit of a container)"
        raise DiskError(f"the daemon cannot start: {error}", hint=hint, data={"code": "io-error"}) from error


def _unusable(state_dir: str, error: OSError) -> MemorydError:
    """Return the error for a state directory that failed. Missing permissions stay until somebody grants them; a disk
    error may pass, so another start is worth it."""
    message = f"the state directory {state_dir} cannot be used: {error}"
    code = refusal(error)
    if code is None:
        mode = "correct its mode, or " if isinstance(error, PermissionError) else ""
        return DeniedError(message, hint=f"{mode}name another with --state-dir")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return DiskError(f"the daemon cannot start: {error}", hint=remedy(error), data={"code": code})
    return DiskError(message, hint=f"{remedy(error)}, or name another with --state-dir", data={"code": code})


def _pause() -> None:
    """Wait before the exit, because systemd gives up after a hundred starts in five minutes."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    time.sleep(DISK_PAUSE_S)


def _no_roots(places: Places) -> ConfigError:
    looked = "\n  ".join(candidate_paths(os.path.expanduser("~"), os.getcwd()))
    return ConfigError(
        f"no memory directory is configured. Configuration: {places.config_target} "
        f"(no [[root]] in it, or no such file). Usual places:\n  {looked}",
        hint="name one: `memoryd run DIRECTORY`, or write a configuration: `memoryd init`",
    )
