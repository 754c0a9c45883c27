"""The clients of the control socket: who they are, and who may give commands. Fails closed."""

from __future__ import annotations

import os
import socket

from msgspec import Struct

from memoryd.control.wire import peer_identity


class Peer(Struct, frozen=True):
    """One client. `pid` is 0 if the system does not report it; `connection` is the number of the connection."""

    uid: int
    pid: int = 0
    connection: int = 0


def of_socket(sock: socket.socket, connection: int = 0) -> Peer:
    """Return the peer of a socket. Raises UnauthorisedError if the system does not report it."""
    uid, pid = peer_identity(sock)
    return Peer(uid=uid, pid=pid, connection=connection)


def is_daemon_user(peer: Peer) -> bool:
    """Return True for the user of the daemon and for root. No other user may give commands."""
    return peer.uid in (os.geteuid(), 0)
