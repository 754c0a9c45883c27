"""The base of the handlers of every subject."""

from __future__ import annotations

from collections.abc import Mapping

from memoryd.control.server import Handler
from memoryd.service.daemon import Daemon

Table = Mapping[str, Handler]
"""By method name; each takes a checked request."""


class Handlers:
    """The methods of one subject, and the daemon they are about."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._roots = daemon.roots
