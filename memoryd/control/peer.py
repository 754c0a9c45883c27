"""The identity of the process at the other end of a Unix socket, as the kernel reports it. Fails closed."""

from __future__ import annotations

import os
import socket
import struct
import sys

from msgspec import Struct

from memoryd.errors import UnauthorisedError

_UNKNOWN_UID = 0xFFFF_FFFF  # (uid_t)-1


class Peer(Struct, frozen=True):
    """One client. `pid` is 0 if the system does not report it; `connection` is the number of the connection."""

    uid: int
    pid: int = 0
    connection: int = 0


def of_socket(sock: socket.socket, connection: int = 0) -> Peer:
    """Return the peer of a socket. Raises UnauthorisedError if the system does not report it."""
    try:
        uid, pid = _macos(sock) if sys.platform == "darwin" else _linux(sock)
    except (OSError, AttributeError, struct.error, ValueError) as error:
        raise UnauthorisedError("cannot identify the connecting user; connection refused") from error
    return Peer(uid=uid, pid=pid, connection=connection)


def is_daemon_user(peer: Peer) -> bool:
    """Return True for the user of the daemon and for root. No other user may give commands."""
    return peer.uid in (os.geteuid(), 0)


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
