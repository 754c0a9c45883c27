"""Calls of the daemon, each on a new connection, so that they reach a daemon that was restarted or started late."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memoryd.control.client import Client
from memoryd.control.methods import TABLE
from memoryd.core.records import JsonObject
from memoryd.errors import MemorydError

_MARGIN_S = 10.0  # longer than the daemon's own time limit, so that the agent gets the daemon's reply

Call = Callable[[str, Mapping[str, object]], JsonObject]
"""(method, parameters) -> result. Raises the error that the daemon reports, or NoDaemonError."""


def caller(find_socket: Callable[[], str]) -> Call:
    """Return what calls the daemon, from any thread. `find_socket` runs on each call, because a restarted daemon may
    listen elsewhere."""

    def call(method: str, params: Mapping[str, object]) -> JsonObject:
        with Client(find_socket(), timeout=TABLE[method].waits_s + _MARGIN_S) as client:
            result = client.call(method, params)
        if not isinstance(result, dict):
            raise MemorydError("the daemon sent a reply that memoryd cannot parse")
        return result

    return call
