"""The socket file: private to the user, and removed only by the process that bound it.

The directory has mode 0700 and belongs to the user; the socket has mode 0600. A left-over socket is replaced only if
nothing answers on it. The caller holds the instance lock of its state directory meanwhile, so two daemons of one user
cannot both replace it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat

from msgspec import Struct

from memoryd.errors import AlreadyRunningError, ConfigError, DeniedError

_BACKLOG = 128
_HINT = "give another place with --socket or $MEMORYD_SOCKET"


class Endpoint(Struct, frozen=True):
    """A listening socket. `identity` is (device, inode) of the socket file if this process bound it, None if the socket
    was passed in; then its file is never removed."""

    sock: socket.socket
    path: str
    identity: tuple[int, int] | None

    def remove(self) -> None:
        """Unlink the socket file if it is still the one that this process bound."""
        if self.identity is None:
            return
        try:
            status = os.lstat(self.path)
            if (status.st_dev, status.st_ino) == self.identity:
                os.unlink(self.path)
        except FileNotFoundError:
            return


def adopt(sock: socket.socket) -> Endpoint:
    """Return the endpoint of a listening socket that another program (systemd, a test) opened."""
    name = sock.getsockname()
    return Endpoint(sock, name if isinstance(name, str) else os.fsdecode(name), None)


def bind(path: str) -> Endpoint:
    """Bind and listen at `path`. Raises AlreadyRunningError if a daemon answers there, DeniedError or ConfigError if
    the path cannot hold a private socket."""
    directory = os.path.dirname(path) or "."
    try:
        _prepare_directory(directory)
        _clear(path)
        return _bind(path)
    except PermissionError as error:
        raise DeniedError(f"cannot create the control socket {path}: {error.strerror}", hint=_HINT) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"cannot create the control socket {path}: {reason}", hint=_HINT) from error


def _prepare_directory(directory: str) -> None:
    """Create a missing directory with mode 0700. Refuses a directory of another user, and one that others can write to
    unless it is sticky or its name starts with `memoryd`: that one is made private."""
    os.makedirs(os.path.dirname(os.path.abspath(directory)), mode=0o700, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)
    status = os.stat(directory)
    if not stat.S_ISDIR(status.st_mode):
        raise ConfigError(f"{directory} is not a directory", hint=_HINT)
    sticky = bool(status.st_mode & stat.S_ISVTX)
    if status.st_uid != os.geteuid():
        raise DeniedError(f"the directory {directory} belongs to user {status.st_uid}", hint=_HINT)
    if not sticky and os.path.basename(os.path.abspath(directory)).startswith("memoryd"):
        os.chmod(directory, stat.S_IMODE(status.st_mode) & 0o700)
        return
    if status.st_mode & 0o022 and not sticky:
        raise DeniedError(f"other users can write to the directory {directory}", hint=f"chmod go-w, or {_HINT}")


def _clear(path: str) -> None:
    """Remove a socket file on which nothing answers. Raises if anything else is at `path`."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise ConfigError(f"{path} exists and is not a socket; it was not touched", hint=_HINT)
    if status.st_uid != os.geteuid():
        raise DeniedError(f"the socket {path} belongs to user {status.st_uid}", hint=_HINT)
    if _answers(path):
        raise AlreadyRunningError(f"a daemon already answers at {path}", hint="see `memoryd status`")
    os.unlink(path)


def _answers(path: str) -> bool:
    """Return False only if the kernel reports that nothing listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except OSError as error:
            return error.errno not in (errno.ECONNREFUSED, errno.ENOENT)
    return True


def _bind(path: str) -> Endpoint:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # The umask closes the gap between bind and chmod. It is process-wide, but only removes permissions.
    old_umask = os.umask(0o077)
    try:
        sock.bind(path)
        os.chmod(path, 0o600)
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    finally:
        os.umask(old_umask)
    status = os.lstat(path)
    return Endpoint(sock, path, (status.st_dev, status.st_ino))
