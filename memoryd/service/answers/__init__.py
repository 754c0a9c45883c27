"""What each control method does, by subject as in the table of methods: a request becomes jobs in inboxes, or is
answered from what is published."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from memoryd.control.answering import Answer
from memoryd.control.peer import Peer
from memoryd.service.answers.asked import Params
from memoryd.service.answers.memories import memory_handlers
from memoryd.service.answers.process import process_handlers
from memoryd.service.answers.roots import root_handlers
from memoryd.service.answers.upkeep import upkeep_handlers

if TYPE_CHECKING:
    from memoryd.service.daemon import Daemon


def handlers(daemon: Daemon) -> Mapping[str, Callable[[Params, Peer], Answer]]:
    """By method name; each takes checked parameters."""
    table = {
        **process_handlers(daemon),
        **root_handlers(daemon),
        **upkeep_handlers(daemon),
        **memory_handlers(daemon),
    }
    return {name: _without_peer(call) for name, call in table.items()}


def _without_peer(call: Callable[[Params], Answer]) -> Callable[[Params, Peer], Answer]:
    return lambda params, peer: call(params)  # noqa: ARG005 - the server has checked the peer already
