"""The few kinds of error memoryd raises, each with what to do next.

Bad content of a memory file is never an error: it is a `Finding` (core/findings.py).
Each kind knows its control-protocol code and its process exit code, so both faces agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class MemorydError(Exception):
    """Something a person has to know. `hint` says what to do next."""

    name = "internal"
    rpc_code = -32603
    exit_code = 70

    def __init__(self, message: str, *, hint: str | None = None, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.data: dict[str, Any] = dict(data or {})


class UsageError(MemorydError):
    """The caller's words do not fit: unknown option, parameter, job or value."""

    name = "usage"
    rpc_code = -32602
    exit_code = 2


class ConfigError(MemorydError):
    """The configuration cannot be used; the message names file, line and key."""

    name = "config"
    rpc_code = -32602
    exit_code = 78


class NoDaemonError(MemorydError):
    """Nothing answers at the control socket."""

    name = "no-daemon"
    exit_code = 69


class AlreadyRunningError(MemorydError):
    """Another daemon holds the state directory, the socket or the root."""

    name = "already-running"
    rpc_code = -32004
    exit_code = 75


class DeniedError(MemorydError):
    """The operating system refused: mode, owner, read-only file system."""

    name = "permission"
    rpc_code = -32001
    exit_code = 77


class DiskError(MemorydError):
    """The disk refused and may take it later; `data["code"]` is disk-full, read-only or io-error."""

    name = "disk"
    rpc_code = -32014
    exit_code = 74


class UnauthorisedError(MemorydError):
    """The peer of the control socket is another user."""

    name = "unauthorised"
    rpc_code = -32001
    exit_code = 77


class UnknownRootError(MemorydError):
    name = "unknown-root"
    rpc_code = -32002
    exit_code = 1


class RootMissingError(MemorydError):
    name = "root-missing"
    rpc_code = -32003
    exit_code = 1


class BusyError(MemorydError):
    """Somebody else holds the lock or keeps changing the file; try again."""

    name = "busy"
    rpc_code = -32004
    exit_code = 75


class ShuttingDownError(MemorydError):
    name = "shutting-down"
    rpc_code = -32005
    exit_code = 69


class ConflictError(MemorydError):
    """The file is not what the operation was decided on; `data["changed"]` names what changed."""

    name = "conflict"
    rpc_code = -32006
    exit_code = 1


class NotFoundError(MemorydError):
    name = "not-found"
    rpc_code = -32007
    exit_code = 1


class SensitiveError(MemorydError):
    name = "sensitive"
    rpc_code = -32008
    exit_code = 1


class LimitExceededError(MemorydError):
    name = "LIMIT_EXCEEDED"
    rpc_code = -32009
    exit_code = 1


class TimeoutExpiredError(MemorydError):
    name = "timeout"
    rpc_code = -32010
    exit_code = 1


class InvalidMemoryError(MemorydError):
    """A memory does not fit its layout; `data["findings"]` lists field and rule."""

    name = "invalid-memory"
    rpc_code = -32011
    exit_code = 1


class GuardError(MemorydError):
    """A safety guard refused: mass move, suspect root, unproved death of a lock holder."""

    name = "refused_by_guard"
    rpc_code = -32012
    exit_code = 1


class PausedError(MemorydError):
    name = "root-paused"
    rpc_code = -32013
    exit_code = 1
