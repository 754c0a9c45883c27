"""Two things that are watched while the demo plays: the daemon's events, and the index file on disk."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from memoryd.control.client import Client
from memoryd.errors import MemorydError


class Follower:
    """Collects the events of a daemon on a thread of its own, until the daemon ends."""

    def __init__(self, socket: str) -> None:
        self._client = Client(socket)
        self._events: list[dict[str, Any]] = []
        self._since = 0
        self._client.call("subscribe", {})
        self._thread = threading.Thread(target=self._follow, name="memoryd-demo-events", daemon=True)
        self._thread.start()

    def mark(self) -> None:
        """`first` looks at later events only."""
        self._since = len(self._events)

    def first(self, test: Callable[[Mapping[str, Any]], bool]) -> dict[str, Any] | None:
        return next((event for event in self._events[self._since :] if test(event)), None)

    def close(self) -> None:
        """After the daemon has ended, which ends the thread."""
        self._thread.join(1.0)
        self._client.close()

    def _follow(self) -> None:
        try:
            for event in self._client.events():
                self._events.append(event)
        except MemorydError:
            return  # the daemon went in the middle of a word; whoever waits for an event says so


class IndexEye:
    """Notes when each id is first seen in `index.json` on disk; `look` costs one stat while nothing changes."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self.seen: dict[str, float] = {}

    def look(self) -> None:
        try:
            found = os.stat(self._path)
            if (found.st_ino, found.st_mtime_ns) == self._stamp:
                return
            with open(self._path, encoding="utf-8") as file:
                levels = json.load(file)["importance_index"]
        except FileNotFoundError:
            return
        now = time.monotonic()
        self._stamp = (found.st_ino, found.st_mtime_ns)
        for ids in levels.values():
            for each in ids:
                self.seen.setdefault(each, now)
