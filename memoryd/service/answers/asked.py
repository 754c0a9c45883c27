"""What the answers of every subject share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from memoryd.control.answering import Answer

if TYPE_CHECKING:
    from memoryd.service.daemon import Daemon

Params = dict[str, Any]
Table = Mapping[str, Callable[[Params], Answer]]
"""By method name; each takes checked parameters."""


class Host:
    """Those who answer, and whom they ask."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._roots = daemon.roots
