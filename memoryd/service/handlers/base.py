"""The base of the handlers of every subject."""

from __future__ import annotations

from collections.abc import Mapping

from memoryd.control.server import Handler
from memoryd.service.daemon import Daemon

Table = Mapping[str, Handler]
"""Handlers by method name."""


class Handlers:
    """The handlers of one subject, and the daemon they act on."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._roots = daemon.roots
