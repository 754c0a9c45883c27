"""Calls of the daemon, each on a new connection, so that they reach a daemon that was restarted or started late."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memoryd.control.client import Client
from memoryd.control.methods import TABLE
from memoryd.core.records import JsonObject
from memoryd.errors import MemorydError

_MARGIN_S = 10.0

Values = JsonObject
Call = Callable[[str, Mapping[str, object]], Values]
"""(method, parameters) -> result. Raises the error that the daemon reports, or NoDaemonError."""


class DaemonClient:
    """Calls methods of the daemon. `find_socket` runs on each call, because a restarted daemon may listen elsewhere.
    Safe to use from several threads."""

    def __init__(self, find_socket: Callable[[], str]) -> None:
        self._find_socket = find_socket

    def __call__(self, method: str, params: Mapping[str, object]) -> Values:
        # Longer than the daemon's own time limit, so that the agent gets the daemon's reply.
        method_row = TABLE.get(method)
        with Client(self._find_socket(), timeout=(method_row.waits_s if method_row else 30) + _MARGIN_S) as client:
            result = client.call(method, params)
        if not isinstance(result, dict):
            raise MemorydError("the daemon sent a reply that memoryd cannot parse")
        return result
