"""Events on Linux: one inotify descriptor for all watches, whose reader reports them on its own thread.

Here are the ways in which watchdog 7.1 goes blind without a word, and what is done about each.
"""

from __future__ import annotations

import fcntl
import os
import re
import sys
import termios
import threading
import time
from collections.abc import Callable

from watchdog.observers.api import BaseObserver, EventEmitter
from watchdog.observers.inotify import InotifyEmitter, InotifyObserver, InotifyWatchGroup
from watchdog.observers.inotify_c import (
    DEFAULT_EVENT_BUFFER_SIZE,
    CallbackId,
    InotifyConstants,
    InotifyEvent,
    InotifyFD,
    Mask,
    Watch,
    WatchCallback,
    WatchDescriptor,
)
from watchdog.observers.inotify_move_event_grouper import InotifyMoveEventGrouper, PathedInotifyEvent

from memoryd.core.ignore import is_ignored
from memoryd.engine.interfaces import Change
from memoryd.layouts.registry import LAYOUTS
from memoryd.service.watching.router import Router

LOCKS = frozenset(os.fsencode(layout.files.lock) for layout in LAYOUTS.values() if layout.files.lock is not None)
NAMELESS = re.compile(rb"#\d+")  # the kernel's name of a file opened with O_TMPFILE, also when it has got another one
GATHER_S = 0.002
# Events in one reading, fewer than the longest names leave room for: the kernel drops what is not read.
READ_EVENTS = 200
FLOOD_GATHER_S = 0.02  # in which the kernel's queue of 16,384 events cannot fill
MOVES = 64  # renames whose source is remembered: the target of one follows within a few events
IDLE_S = 3600.0  # between two wake-ups of a dispatcher without events
# What is told of a file that is written, or renamed to its name.
WRITES = (
    InotifyConstants.IN_CREATE
    | InotifyConstants.IN_MODIFY
    | InotifyConstants.IN_CLOSE_WRITE
    | InotifyConstants.IN_MOVED_TO
)


class _Reader(InotifyFD):
    """The thread that reads the inotify descriptor."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self.report = report
        self.routers: dict[bytes, Router] = {}  # by the path of the watch
        self._rested = 0.0
        self._hurried = threading.Event()
        self._progress = threading.Condition()
        self._is_reading_queue = self._has_ended = False
        self._bytes_read = self._bytes_reported = 0  # of all events so far
        super().__init__()
        os.set_inheritable(self._inotify_fd, False)

    def run(self) -> None:
        """Read until the end; nobody waits for an event any longer then."""
        try:
            super().run()
        finally:
            with self._lock:
                self._is_reading = False  # else `close` would leave the descriptors to this thread
            with self._progress:
                self._has_ended = True
                self._progress.notify_all()

    def read_events(self, *, event_buffer_size: int = DEFAULT_EVENT_BUFFER_SIZE) -> list[InotifyEvent]:
        """Read the first event of a burst at once and the others together: a change causes six, and each wake-up of
        this thread takes the interpreter from the thread that makes the change. In a flood it rests longer, and
        what was written is skipped: the scan that is due finds it, and the writers need the processor."""
        with self._progress:
            self._bytes_reported = self._bytes_read
            self._progress.notify_all()
        self._hurried.wait(max(0.0, self._rested - time.monotonic()))
        self._hurried.clear()
        buffer = self._read_event_buffer(event_buffer_size)
        events: list[InotifyEvent] = []
        flooded: set[Router] = set()
        number = 0
        for wd, mask, cookie, name in self._parse_event_buffer(buffer):
            number += 1
            router = self._flooded(wd) if not mask & ~WRITES and name not in LOCKS else None
            if router is not None:
                flooded.add(router)
            elif wd != -1 or mask & InotifyConstants.IN_Q_OVERFLOW:
                events.append(InotifyEvent(wd, mask, cookie, name))
        if number < READ_EVENTS or (flooded and 2 * len(buffer) < event_buffer_size):
            self._rested = time.monotonic() + (FLOOD_GATHER_S if flooded else GATHER_S)
        for router in flooded:
            router.report_anywhere()  # before any other event, of which some may have happened later
        return events

    def deliver(self, timeout_s: float, *, in_flood: bool) -> bool:
        """Wait until every event from before this call is reported, without waiting for more of a burst. False if
        that is not certain. The kernel queues an event before the call that causes it returns: what is in the queue
        now, and what was read from it before, are all of them."""
        if not in_flood and self._rested - time.monotonic() > GATHER_S:
            return False
        until = time.monotonic() + timeout_s
        with self._progress:
            if not self._progress.wait_for(lambda: self._has_ended or not self._is_reading_queue, timeout_s):
                return False
            try:
                queued = int.from_bytes(fcntl.ioctl(self._inotify_fd, termios.FIONREAD, bytes(4)), sys.byteorder)
            except OSError:  # closed
                return False
            if queued:
                self._hurried.set()
            wanted = self._bytes_read + queued
            left = max(0.0, until - time.monotonic())
            done = self._progress.wait_for(lambda: self._has_ended or self._bytes_reported >= wanted, left)
            return done and not self._has_ended

    def _read_event_buffer(self, event_buffer_size: int) -> bytes:
        buffer = super()._read_event_buffer(event_buffer_size)
        with self._progress:
            self._is_reading_queue = False
            self._bytes_read += len(buffer)
            self._progress.notify_all()
        return buffer

    def _check_inotify_fd(self) -> bool:
        """Called by watchdog right before it reads: until it has, nobody knows which events are still queued."""
        found = super()._check_inotify_fd()
        with self._progress:
            self._is_reading_queue = True
        return found

    def stop(self) -> None:
        """End without waiting for more of a burst."""
        super().stop()
        self._hurried.set()

    def handle_event(self, event: InotifyEvent) -> None:
        """watchdog answers to an overflow by removing and adding every watch, which alone fills the queue again.
        Lock files make most of the events of a change and mean nothing: they wake no further thread."""
        if event.is_queue_overflow:
            self.report("overflow")
        elif event.name not in LOCKS or event.is_directory:
            super().handle_event(event)

    def _flooded(self, wd: WatchDescriptor) -> Router | None:
        """Return the router of a watch if a scan of its root is due; None if two roots share the watch."""
        watch = self._watch_for_wd.get(wd)
        groups = [*watch.callbacks.values()] if watch is not None else []
        if len(groups) != 1 or not isinstance(groups[0], _Group):
            return None
        router = groups[0].router
        return router if time.monotonic() < router.flooded_until else None

    def _get_or_create_watch(self, path: bytes, mask: Mask) -> Watch:
        """watchdog keeps a directory it may not read as watch -1 and trips over the second one."""
        watch = super()._get_or_create_watch(path, mask)
        if watch.wd == -1:
            del self._watch_for_wd[watch.wd]
            raise PermissionError(f"no permission to watch {os.fsdecode(path)}")
        return watch

    def _add_callback(self, path: bytes, mask: Mask, callback: WatchCallback, id_: CallbackId) -> WatchDescriptor:
        """Add the callback without a warning for a directory met again under a new name, as in heavy renaming."""
        watch = self._get_or_create_watch(path, mask)
        watch.callbacks[id_] = callback
        return watch.wd


class _Direct(InotifyMoveEventGrouper):
    """Reports events on the reader's thread, in the order of the kernel.

    watchdog hands each event through two more threads and holds a rename back for half a second to pair it. Only
    the deletion of a root goes that way: it ends the emitter.
    """

    def __init__(self, path: bytes, router: Router) -> None:
        super().__init__()
        self._path = path
        self._router = router
        self._sources: dict[int, PathedInotifyEvent] = {}  # of renames, by cookie

    def put_event(self, event: PathedInotifyEvent) -> None:
        raw = event.ev
        if raw.is_delete_self or raw.is_move_self:
            if event.path == self._path and raw.is_delete_self:
                super().put_event(event)
            elif event.path == self._path:
                self._router.report_moved()
            return
        if raw.is_moved_from:
            if len(self._sources) >= MOVES:
                del self._sources[next(iter(self._sources))]
            self._sources[raw.cookie] = event
        if raw.is_delete or raw.is_moved_from:
            kind = Change.GONE
        else:
            kind = Change.COMPLETE if raw.is_close_write or raw.is_moved_to else Change.MODIFIED
        anywhere = raw.is_directory or NAMELESS.fullmatch(raw.name) is not None
        self._router.report(os.fsdecode(event.path), kind, is_directory=anywhere)

    def get_queued_moved_from_event(self, cookie: int) -> PathedInotifyEvent | None:
        return self._sources.get(cookie)


class _Group(InotifyWatchGroup):
    def __post_init__(self) -> None:
        assert isinstance(self._inotify_fd, _Reader)
        self.router = self._inotify_fd.routers[self.path]
        self._move_event_grouper = _Direct(self.path, self.router)
        super().__post_init__()

    def _add_callback(self, path: bytes) -> None:
        """watchdog keeps the former name of a directory met again, and mixes up names by it later."""
        inside = os.fsdecode(path[len(self.path) :]).lstrip("/")
        if inside and is_ignored(f"{inside}/"):
            return
        names, watches = self._active_callbacks_by_watch, self._active_callbacks_by_path
        try:
            wd = self._inotify_fd.add_callback(path, self.event_mask, self, self._id)
        except OSError:  # below the root a directory may be gone or refused; `coverage` counts it
            if path == self.path:
                raise
            return
        former = names.get(wd, path)
        if watches.get(former) == wd:
            del watches[former]
        names[wd], watches[path] = path, wd

    def _remove_watch_internally(self, wd: WatchDescriptor) -> None:
        """Ignore the KeyError that would end the reader: a path is popped twice when a renamed directory goes."""
        try:
            super()._remove_watch_internally(wd)
        except KeyError:
            if isinstance(self._inotify_fd, _Reader):
                self._inotify_fd.report("desync")

    def paths(self) -> dict[str, int]:
        """Return path -> watch descriptor of each directory whose events are reported under this path."""
        with self._lock:
            watches, names = self._active_callbacks_by_path, self._active_callbacks_by_watch
            return {os.fsdecode(path): wd for path, wd in watches.items() if names.get(wd) == path}


class _Emitter(InotifyEmitter):
    def on_thread_start(self) -> None:
        self._inotify = _Group(
            self._inotify_fd,
            os.fsencode(self.watch.path),
            is_recursive=self.watch.is_recursive,
            event_mask=Mask(self.get_event_mask_from_filter() | InotifyConstants.IN_MOVE_SELF),
            follow_symlink=self.watch.follow_symlink,
        )

    def paths(self) -> dict[str, int]:
        """Return the paths of its group; none before it begins and after it ends."""
        group = self._inotify
        return group.paths() if isinstance(group, _Group) else {}


class _Observer(InotifyObserver):
    def __init__(self, report: Callable[[str], None]) -> None:
        self._inotify_fd = self.reader = _Reader(report)
        self.reader.start()
        # Not InotifyObserver's own: it would make a second descriptor and its own kind of emitter.
        BaseObserver.__init__(self, _Emitter, timeout=IDLE_S, inotify_fd=self._inotify_fd)


def new_observer(report: Callable[[str], None]) -> BaseObserver:
    """Return a new observer. `report` is called with the trouble of all roots."""
    return _Observer(report)


def add_router(observer: BaseObserver, path: str, router: Router) -> None:
    """Let events below the path go to the router at once, not through the observer's dispatcher."""
    assert isinstance(observer, _Observer)
    observer.reader.routers[os.fsencode(path)] = router


def watched_paths(emitter: EventEmitter) -> dict[str, int]:
    """Return path -> watch descriptor of each directory that an emitter watches."""
    return emitter.paths() if isinstance(emitter, _Emitter) else {}
