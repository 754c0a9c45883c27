"""Definitions shared by both ends of the control socket: the line limit, readable text, errors as JSON, and who is at
the other end."""

from __future__ import annotations

import re
import socket
import struct
import sys
from collections.abc import Iterator, Mapping

from memoryd import errors
from memoryd.errors import MemorydError, NoDaemonError, UnauthorisedError, UsageError

MAX_LINE = 1_048_576
"""Bytes of one line without its newline, in both directions."""

PROTOCOL = 1

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

_UNKNOWN_UID = 0xFFFF_FFFF  # (uid_t)-1


class MethodUnknownError(UsageError):
    """The daemon has no such method; usually it is older than the client."""

    name = "method-not-found"
    rpc_code = METHOD_NOT_FOUND


_SURROGATE = re.compile("[\ud800-\udfff]")


def readable(text: str) -> str:
    """Return the text in a form that UTF-8 can encode. A byte that `os.fsdecode` could not decode (a file name in
    another encoding) becomes `\\xNN`, any other lone surrogate `\\uNNNN`; nothing is dropped."""
    return _SURROGATE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def error_object(error: MemorydError) -> dict[str, object]:
    """Return the `error` member of a reply: code, message and data{code, hint?, ...}."""
    data: dict[str, object] = {**error.data, "code": error.code}
    if error.hint:
        data["hint"] = error.hint
    return {"code": error.rpc_code, "message": error.message, "data": data}


def error_from_object(error: object) -> MemorydError:
    """Rebuild the exception of an `error` member: of the class with its `data.code`, else with its number. A code that
    names no class, as of a disk error, stays in `data`."""
    if not isinstance(error, Mapping):
        return MemorydError("the daemon sent an error that memoryd cannot parse")
    raw = error.get("data")
    data = {str(k): v for k, v in raw.items()} if isinstance(raw, Mapping) else {}
    kind = _kind_of(data.get("code"), error.get("code"))
    if data.get("code") == kind.name or not isinstance(data.get("code"), str):
        data.pop("code", None)
    hint = data.pop("hint", None)
    return kind(str(error.get("message", "unknown error")), hint=str(hint) if hint else None, data=data)


def _kind_of(name: object, code: object) -> type[MemorydError]:
    kinds = list(_kinds(MemorydError))
    by_name = next((kind for kind in kinds if kind.name == name), None)
    by_code = next((kind for kind in kinds if kind.rpc_code == code and kind is not NoDaemonError), None)
    return by_name or by_code or MemorydError


def _kinds(kind: type[MemorydError]) -> Iterator[type[MemorydError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _kinds(child)


def error_kinds() -> list[type[MemorydError]]:
    """Return every kind of error, for `rpc.discover`."""
    kinds = (kind for kind in _kinds(errors.MemorydError) if kind.__module__ in (errors.__name__, __name__))
    return [kind for kind in kinds if kind is not NoDaemonError]


def peer_identity(sock: socket.socket) -> tuple[int, int]:
    """Return uid and PID of the process at the other end, as the kernel reports them: of a server, those of the process
    that listens. Raises UnauthorisedError if the system does not report them."""
    try:
        return _macos(sock) if sys.platform == "darwin" else _linux(sock)
    except (OSError, AttributeError, struct.error, ValueError) as error:
        raise UnauthorisedError("cannot identify the user at the other end; connection refused") from error


def _linux(sock: socket.socket) -> tuple[int, int]:
    """Read SO_PEERCRED: struct ucred {pid, uid, gid}."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII"))
    pid, uid, _gid = struct.unpack("iII", raw)
    if uid == _UNKNOWN_UID:
        raise ValueError("no uid")
    return uid, pid


def _macos(sock: socket.socket) -> tuple[int, int]:
    """Read LOCAL_PEERCRED (level 0, option 1): struct xucred {version, uid, ngroups, groups[16]}, version 0;
    LOCAL_PEERPID is option 2."""
    version, uid = struct.unpack_from("2I", sock.getsockopt(0, 1, 76))
    if version != 0:
        raise ValueError(f"xucred version {version}")
    (pid,) = struct.unpack("i", sock.getsockopt(0, 2, 4))
    return int(uid), int(pid)
