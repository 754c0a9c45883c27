"""The way to the daemon: a connection for each call, so that a daemon that was restarted, or started late, is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memoryd.control.client import Client
from memoryd.control.methods import TABLE
from memoryd.errors import MemorydError

_MARGIN_S = 10.0

Values = dict[str, Any]
Call = Callable[[str, Mapping[str, Any]], Values]
"""(method, parameters) -> result. Raises the error that the daemon reports, or NoDaemonError."""


class Link:
    """`find_socket` is asked at each call: another daemon may listen elsewhere. Safe to use from several threads."""

    def __init__(self, find_socket: Callable[[], str]) -> None:
        self._find_socket = find_socket

    def __call__(self, method: str, params: Mapping[str, Any]) -> Values:
        # Longer than the daemon's own time limit, so that its answer is what the agent sees.
        known = TABLE.get(method)
        with Client(self._find_socket(), timeout=(known.waits_s if known else 30) + _MARGIN_S) as client:
            result = client.call(method, params)
        if not isinstance(result, dict):
            raise MemorydError("the daemon sent an answer memoryd cannot read")
        return result
