"""A root's worker whose hints and events nobody hears."""

from __future__ import annotations

from typing import Any, cast

from memoryd.engine.commands import Commands
from memoryd.engine.inbox import Inbox, Pace
from memoryd.engine.interfaces import Clock, Hints, Tell
from memoryd.engine.root import Root
from memoryd.engine.worker import Worker
from tests.operations.world import World


class _Silent:
    """Hints that lead nowhere."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: (0, 0) if name == "coverage" else None


SILENT = cast("Hints", _Silent())


def commands_of(root: Root, clock: Clock, hints: Hints = SILENT, tell: Tell = lambda *_: None) -> Commands:
    """The commands of a root whose worker does not run."""
    inbox = Inbox(Pace(), clock, root.next_due, lambda: root.last_change)
    return Commands(root, inbox, clock, hints, tell)


def worker_of(world: World, clock: Clock | None = None, hints: Hints = SILENT) -> Worker:
    """Not started."""
    return Worker(world.store, Pace(), clock or Clock(), hints, lambda *_: None)
