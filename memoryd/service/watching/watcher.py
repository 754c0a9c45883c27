"""Hints from the file system through watchdog. What is reported, and in which order to use it, is in `manager`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
)
from watchdog.observers.api import BaseObserver, EventDispatcher, EventEmitter, ObservedWatch
from watchdog.utils import BaseThread

from memoryd.log import get_logger
from memoryd.service.watching.inotify_limits import kernel_table
from memoryd.service.watching.manager import TouchCall, TroubleCall, WatchManager
from memoryd.service.watching.router import Router

log = get_logger(__name__)

# An allow-list, so that reading makes no events. The same list for every watch: two watches of one descriptor
# on the same directory share one kernel mask, and the later would narrow the earlier.
EVENTS: list[type[FileSystemEvent]] = [
    FileCreatedEvent,
    FileModifiedEvent,
    FileClosedEvent,
    FileMovedEvent,
    FileDeletedEvent,
    DirCreatedEvent,
    DirMovedEvent,
    DirDeletedEvent,
]
JOIN_S = 2.0
PROBE_S = 10.0 if sys.platform == "linux" else 20.0  # FSEvents has been seen to deliver in steps of 15 s

if sys.platform == "linux":
    from memoryd.service.watching.inotify import add_router, new_observer, watched_paths
else:
    from watchdog.observers import Observer

    def new_observer(report: Callable[[str], None]) -> BaseObserver:
        """Return the system's own observer."""
        del report  # other systems do not report dropped events
        return Observer()

    def add_router(observer: BaseObserver, path: str, router: Router) -> None:
        """The observer's own dispatcher calls the router."""

    def watched_paths(emitter: EventEmitter) -> dict[str, int]:
        """Return nothing."""
        del emitter  # there are no watch descriptors
        return {}


class Watcher(WatchManager):
    """Watches roots with watchdog; see `WatchManager` for all methods.

    `probe_dir` must lie outside every root and is made when missing.
    """

    def __init__(self, on_touch: TouchCall, on_trouble: TroubleCall, probe_dir: str) -> None:
        super().__init__(on_touch, on_trouble, WatchdogStream, probe_dir, PROBE_S)


class WatchdogStream:
    """One running observer. On Linux all its watches share one inotify descriptor and one reader thread.

    Not thread-safe but for `owns`; raises OSError when the system has no inotify instance left.
    """

    in_order = sys.platform == "linux"

    def __init__(self, touch: TouchCall, trouble: TroubleCall) -> None:
        self._touch = touch
        self._trouble = trouble
        self._watches: dict[str, ObservedWatch] = {}
        self._observer = new_observer(lambda reason: trouble(reason, None))
        self._observer.start()

    def watch(self, key: str, path: str, *, recursive: bool) -> None:
        """Watch a directory; return when the kernel does. Raises OSError if it refuses the directory itself."""
        router = Router(key, path, self._touch, self._trouble)
        add_router(self._observer, path, router)
        self._watches[key] = self._observer.schedule(router, path, recursive=recursive, event_filter=EVENTS)

    def unwatch(self, key: str) -> None:
        """Stop watching a root."""
        watch = self._watches.pop(key, None)
        if watch is not None:
            self._observer.unschedule(watch)

    def watching(self, key: str) -> bool:
        """True if the emitter of a watch is alive; it ends when its root is deleted."""
        watch = self._watches.get(key)
        return any(emitter.watch == watch and emitter.is_alive() for emitter in self._observer.emitters)

    def problems(self) -> list[str]:
        """Return the names of the shared threads that are dead."""
        reader = self._reader()
        found = [] if self._observer.is_alive() else ["dispatcher"]
        return found if reader is None or reader.is_alive() else [*found, "reader"]

    def owns(self, thread: threading.Thread) -> bool:
        """True if it is one of the threads of this stream."""
        return thread in {self._observer, self._reader(), *self._observer.emitters}

    def kernel_watches(self, key: str) -> dict[str, tuple[int, int]] | None:
        """Return path -> (device, inode) of each directory the kernel watches and whose events are reported under that
        path; None if unknown."""
        fd = getattr(self._reader(), "_inotify_fd", None)
        if fd is None:
            return None
        table, watch = kernel_table(fd), self._watches.get(key)
        emitters = [each for each in self._observer.emitters if each.watch == watch]
        return {path: table[wd] for emitter in emitters for path, wd in watched_paths(emitter).items() if wd in table}

    def deliver(self, timeout_s: float, *, in_flood: bool) -> bool:
        """Report what has happened, and wait for that. False if it is not certain."""
        deliver: Callable[..., bool] | None = getattr(self._reader(), "deliver", None)
        return deliver is not None and deliver(timeout_s, in_flood=in_flood)

    def stop(self) -> None:
        """Stop all threads. May wait forever if a thread is stuck, so call it on a helper thread.

        A partly dead observer raises during the stop; its descriptor and threads must end anyway.
        """
        try:
            self._observer.stop()
        except Exception:
            log.exception("an observer did not stop cleanly")
            self._observer.event_queue.put(EventDispatcher.stop_event)
            reader = self._reader()
            if reader is not None:
                reader.stop()
        self._observer.join(JOIN_S)

    def _reader(self) -> BaseThread | None:
        """watchdog keeps this thread out of its list of emitters, and the attribute is not public."""
        reader = getattr(self._observer, "_inotify_fd", None)
        return reader if isinstance(reader, BaseThread) else None
