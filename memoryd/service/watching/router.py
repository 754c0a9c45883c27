"""The router of one root: turns an event into the touch of a path, into that of everything, or into trouble."""

from __future__ import annotations

import os
import time

from watchdog.events import (
    DirDeletedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileDeletedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)

from memoryd.core.ignore import is_ignored
from memoryd.engine.interfaces import Change
from memoryd.service.watching.manager import TouchCall, TroubleCall

GOING = (FileDeletedEvent, FileMovedEvent, DirDeletedEvent, DirMovedEvent)
FLOOD_S = 0.05  # shorter than the quiet time before a scan: so long one that is due stays due


class Router(FileSystemEventHandler):
    """Turns events of one root into touches. An exception would end the thread that reports events."""

    def __init__(self, key: str, path: str, touch: TouchCall, trouble: TroubleCall) -> None:
        self._key = key
        self._path = path
        self._touch = touch
        self._trouble = trouble
        self.flooded_until = 0.0  # monotonic; a scan is due until then

    def dispatch(self, event: FileSystemEvent) -> None:
        """Report an event of watchdog's dispatching thread."""
        source = os.fsdecode(event.src_path)
        kind = Change.GONE if isinstance(event, GOING) else Change.MODIFIED
        kind = Change.COMPLETE if isinstance(event, FileClosedEvent) else kind
        self.report(source, kind, is_directory=event.is_directory)
        if event.dest_path:
            self.report(os.fsdecode(event.dest_path), Change.COMPLETE, is_directory=event.is_directory)
        if kind is Change.GONE and source == self._path:
            self._trouble("root-gone", self._key)

    def report(self, path: str, kind: Change, *, is_directory: bool) -> None:
        """Report the change of a path."""
        try:
            inside = self._relative(path)
            if not is_directory:
                self._report(inside, kind)
            elif inside is None or not is_ignored(f"{inside}/"):
                self._report(None, kind)
        except Exception:  # noqa: BLE001 (whatever it was, the touch is lost, and a scan makes up for it)
            self._trouble("handler", self._key)

    def report_anywhere(self) -> None:
        """Report that any path may have changed."""
        self.report(self._path, Change.MODIFIED, is_directory=True)

    def _report(self, inside: str | None, kind: Change) -> None:
        scan_was_due = self._touch(self._key, inside, kind)
        self.flooded_until = time.monotonic() + FLOOD_S if scan_was_due else 0.0

    def report_moved(self) -> None:
        """Report that the root itself was renamed: what comes from now on concerns a directory elsewhere."""
        self._trouble("root-moved", self._key)

    def _relative(self, path: str) -> str | None:
        inside = path.startswith(self._path + "/")
        return path[len(self._path) + 1 :] if inside else None
