"""The socket file: made private, and removed only if it is ours.

The directory is 0700 and ours, the socket 0600. A left-over socket is replaced only if nothing answers on it; the
caller holds the instance lock of its state directory meanwhile, so two daemons of one user cannot both replace it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from dataclasses import dataclass

from memoryd.errors import AlreadyRunningError, ConfigError, DeniedError

_BACKLOG = 128
_HINT = "give another place with --socket or $MEMORYD_SOCKET"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A listening socket. `identity` is (device, inode) of the file that we bound, None if the socket was passed to us
    and is not ours to remove."""

    sock: socket.socket
    path: str
    identity: tuple[int, int] | None

    def remove(self) -> None:
        """Unlink the socket file if it is still the one that we bound."""
        if self.identity is None:
            return
        try:
            found = os.lstat(self.path)
            if (found.st_dev, found.st_ino) == self.identity:
                os.unlink(self.path)
        except FileNotFoundError:
            return


def adopt(sock: socket.socket) -> Endpoint:
    """Return the endpoint of a listening socket made by another program (systemd, a test)."""
    name = sock.getsockname()
    return Endpoint(sock, name if isinstance(name, str) else os.fsdecode(name), None)


def bind(path: str) -> Endpoint:
    """Bind and listen at `path`. Raises AlreadyRunningError when a daemon answers there, DeniedError
    or ConfigError when the place is not fit for a private socket."""
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
    """Create a missing directory with mode 0700. One of ours must not be writable by others, and is made private if its
    name says that memoryd created it; one of another owner is refused."""
    os.makedirs(os.path.dirname(os.path.abspath(directory)), mode=0o700, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)
    found = os.stat(directory)
    if not stat.S_ISDIR(found.st_mode):
        raise ConfigError(f"{directory} is not a directory", hint=_HINT)
    sticky = bool(found.st_mode & stat.S_ISVTX)
    if found.st_uid != os.geteuid():
        raise DeniedError(f"the directory {directory} belongs to user {found.st_uid}", hint=_HINT)
    if not sticky and os.path.basename(os.path.abspath(directory)).startswith("memoryd"):
        os.chmod(directory, stat.S_IMODE(found.st_mode) & 0o700)
        return
    if found.st_mode & 0o022 and not sticky:
        raise DeniedError(f"other users can write to the directory {directory}", hint=f"chmod go-w, or {_HINT}")


def _clear(path: str) -> None:
    """Remove a dead socket file; raise if anything else is there."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise ConfigError(f"{path} exists and is not a socket; it was not touched", hint=_HINT)
    if found.st_uid != os.geteuid():
        raise DeniedError(f"the socket {path} belongs to user {found.st_uid}", hint=_HINT)
    if _answers(path):
        raise AlreadyRunningError(f"a daemon already answers at {path}", hint="see `memoryd status`")
    os.unlink(path)


def _answers(path: str) -> bool:
    """Return False only if the kernel says that nobody listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except OSError as error:
            return error.errno not in (errno.ECONNREFUSED, errno.ENOENT)
    return True


def _bind(path: str) -> Endpoint:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # The umask closes the moment between bind and chmod; it is the process's, and only narrows.
    before = os.umask(0o077)
    try:
        sock.bind(path)
        os.chmod(path, 0o600)
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    finally:
        os.umask(before)
    found = os.lstat(path)
    return Endpoint(sock, path, (found.st_dev, found.st_ino))
