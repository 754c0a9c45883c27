"""A root's worker without a watcher and a timetable, whose events nobody hears."""

from __future__ import annotations

from typing import Any

from memoryd.engine.commands import Commands
from memoryd.engine.inbox import Inbox, Pace
from memoryd.engine.interfaces import Clock, Tell, Timetable
from memoryd.engine.root import Root
from memoryd.engine.worker import Worker
from tests.operations.world import World


class _Silent:
    """A watcher and a timetable that do nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: (0, 0) if name == "coverage" else None


SILENT: Any = _Silent()


def commands_of(root: Root, clock: Clock, tell: Tell = lambda *_: None) -> Commands:
    """The commands of a root whose worker does not run."""
    inbox = Inbox(Pace(), clock, root.next_due, lambda: root.last_change)
    return Commands(root, inbox, clock, tell)


def worker_of(world: World, clock: Clock | None = None, timetable: Timetable = SILENT) -> Worker:
    """Not started."""
    return Worker(world.store, Pace(), clock or Clock(), SILENT, timetable, lambda *_: None)
