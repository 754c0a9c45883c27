"""The errors memoryd raises: one class per kind, each with its JSON-RPC error code and process exit code.

Bad content in a memory file is never an error: it is a `Finding` (core/findings.py). What each exit code means is in
`cli/exits.py`; a new one begins there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

TYPE_CHECKING = False  # without typing, which costs a client command too much
if TYPE_CHECKING:
    from typing import Any


class MemorydError(Exception):
    """An error to report to the user. `hint` says what to do next; `data` is sent with the JSON-RPC error.

    Raised itself only for internal errors: everything else has a subclass.
    """

    name = "internal"
    rpc_code = -32603
    exit_code = 70

    def __init__(self, message: str, *, hint: str | None = None, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.data: dict[str, Any] = dict(data or {})

    @property
    def code(self) -> str:
        """The `data.code` of the JSON-RPC error: the name of the kind, unless `data` has a more exact one."""
        return str(self.data.get("code", self.name))


class UsageError(MemorydError):
    """Wrong usage: an unknown or invalid option, parameter, job or value."""

    name = "usage"
    rpc_code = -32602
    exit_code = 2


class ConfigError(MemorydError):
    """The configuration is invalid; the message names the file, line and key."""

    name = "config"
    rpc_code = -32602
    exit_code = 78


class NoDaemonError(MemorydError):
    """No daemon answers on the control socket."""

    name = "no-daemon"
    exit_code = 69


class AlreadyRunningError(MemorydError):
    """Another daemon uses the state directory, the socket or the root."""

    name = "already-running"
    rpc_code = -32004
    exit_code = 75


class DeniedError(MemorydError):
    """The operating system denied access because of the mode or owner of a file."""

    name = "permission"
    rpc_code = -32001
    exit_code = 77


class DiskError(MemorydError):
    """The disk refused a write that may succeed later; `data["code"]` is disk-full, read-only or io-error."""

    name = "disk"
    rpc_code = -32014
    exit_code = 74


class UnauthorisedError(MemorydError):
    """The client of the control socket is another user."""

    name = "unauthorised"
    rpc_code = -32001
    exit_code = 77


class UnknownRootError(MemorydError):
    """No root has the given name or path."""

    name = "unknown-root"
    rpc_code = -32002
    exit_code = 1


class RootMissingError(MemorydError):
    """The directory of a root is missing or unreachable."""

    name = "root-missing"
    rpc_code = -32003
    exit_code = 1


class BusyError(MemorydError):
    """Another process holds the lock or keeps changing the file; try again."""

    name = "busy"
    rpc_code = -32004
    exit_code = 75


class ShuttingDownError(MemorydError):
    """The daemon is stopping and accepts no more work."""

    name = "shutting-down"
    rpc_code = -32005
    exit_code = 69


class ConflictError(MemorydError):
    """A file has changed since the operation was planned; `data["changed"]` names what changed."""

    name = "conflict"
    rpc_code = -32006
    exit_code = 1


class NotFoundError(MemorydError):
    """There is no such memory, backup, receipt or other thing."""

    name = "not-found"
    rpc_code = -32007
    exit_code = 1


class SensitiveError(MemorydError):
    """A memory contains what looks like a secret and is not stored."""

    name = "sensitive"
    rpc_code = -32008
    exit_code = 1


class LimitExceededError(MemorydError):
    """Storing a memory would exceed a hard limit of its file."""

    name = "LIMIT_EXCEEDED"
    rpc_code = -32009
    exit_code = 1


class TimeoutExpiredError(MemorydError):
    """The operation did not finish within its time limit."""

    name = "timeout"
    rpc_code = -32010
    exit_code = 1


class InvalidMemoryError(MemorydError):
    """A memory violates the schema of its layout; `data["findings"]` lists the fields and rules."""

    name = "invalid-memory"
    rpc_code = -32011
    exit_code = 1


class GuardError(MemorydError):
    """A safety guard refused: a mass move, a suspect root, or a lock holder not proved dead."""

    name = "refused_by_guard"
    rpc_code = -32012
    exit_code = 1


class EmbedderError(MemorydError):
    """The embedder cannot make vectors now: a package is missing, or a server does not answer as expected."""

    name = "embedder"
    rpc_code = -32603
    exit_code = 1


class PausedError(MemorydError):
    """The root is paused."""

    name = "root-paused"
    rpc_code = -32013
    exit_code = 1


MAX_NAME = 80  # characters that are compared: the time grows with their square


def nearest(name: str, known: Iterable[str], least: float = 0.6) -> str | None:
    """Return the known name that is most like an unknown one, for a hint; None if none is. One that only continues the
    unknown name is preferred. `least`: how much of both must be the same."""
    from difflib import get_close_matches  # noqa: PLC0415 - only when something is wrong

    names = {each.lower(): each for each in sorted(known)}
    typed = name[:MAX_NAME].lower()
    close = get_close_matches(typed, names, cutoff=least)
    return next((names[each] for each in close if each.startswith(typed)), names[close[0]] if close else None)


def place_of(error: Exception) -> str:
    """Return the file and line of the code that raised an error, for a report of a bug."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return f"{at.tb_frame.f_code.co_filename}:{at.tb_lineno}" if at else "unknown place"
