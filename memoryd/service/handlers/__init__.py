"""Handlers of the control methods, by subject: a request becomes jobs in inboxes, or is answered from published
values."""

from __future__ import annotations

from memoryd.service.daemon import Daemon
from memoryd.service.handlers.base import Table
from memoryd.service.handlers.memories import memory_handlers
from memoryd.service.handlers.process import process_handlers
from memoryd.service.handlers.roots import root_handlers
from memoryd.service.handlers.upkeep import upkeep_handlers


def handlers(daemon: Daemon) -> Table:
    """Return the handlers of all methods, by name."""
    return {
        **process_handlers(daemon),
        **root_handlers(daemon),
        **upkeep_handlers(daemon),
        **memory_handlers(daemon),
    }
