"""File watching: what is reported, and what becomes of a stream of events that fails.

Events are hints, the scan is the truth. Nothing here reads a memory file or decides; it reports a path to check
or, if events may have been missed, that everything must be checked. The caller watches first, then scans, and only
then relies on events.

`on_touch(root key, relative path | None, kind)`: None means check everything, because a directory was created,
moved or deleted. `kind`: see `memoryd.engine.interfaces.Change`. It returns True if everything was about to be checked
already: until then further paths of that root need not be told one by one.

`on_trouble(reason, root key | None)`, where None means all roots:
- `overflow`: the kernel dropped events. Scan; a directory created meanwhile has no watch until a rebuild.
- `desync`, `thread-died`: the library's state is inconsistent. A rebuild has been started, `rebuilt` follows.
- `rebuilt`: all watches are new; scan.
- `probe`: two probes in a row were missed; rebuild and scan.
- `handler`: `on_touch` raised. `unwatched`: a rebuild could not watch a root.
- `root-gone`: a root was removed. `root-moved`: it was renamed.

Both are called on threads of the library: they must only enqueue, never block and never call back in here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from memoryd.engine.interfaces import Change
from memoryd.log import get_logger
from memoryd.service.watching.inotify_limits import Coverage, held_of, limit_hint
from memoryd.service.watching.probe import Probe
from memoryd.service.watching.restart import Restarter, ThreadGuard

log = get_logger(__name__)

TouchCall = Callable[[str, str | None, Change], bool]
TroubleCall = Callable[[str, str | None], None]

PROBE_KEY = ""  # not a valid root name
MENDED = frozenset({"desync", "thread-died"})
DELIVER_S = 0.005
RETIRE_S = 2.0  # a stream that does not stop in this time is abandoned; its threads are daemons


class Stream(Protocol):
    """One running source of events; a generation has one. `in_order`: events of all directories are reported in the
    order in which they happened."""

    in_order: bool

    def watch(self, key: str, path: str, *, recursive: bool) -> None:
        """Watch a directory under this key. Raises OSError if the system refuses."""

    def unwatch(self, key: str) -> None:
        """Stop watching the directory."""

    def watching(self, key: str) -> bool:
        """True if that directory is still watched."""

    def problems(self) -> list[str]:
        """Name the shared threads that are dead."""

    def owns(self, thread: threading.Thread) -> bool:
        """True if it is one of the threads of this stream."""

    def kernel_watches(self, key: str) -> dict[str, tuple[int, int]] | None:
        """Return path -> (device, inode) of each directory the kernel watches and whose events are reported under that
        path; None if unknown."""

    def deliver(self, timeout_s: float, *, in_flood: bool) -> bool:
        """Wait until every event from before this call has been reported, without waiting for more of a burst. False
        if that is not certain in time, or in a flood of events unless `in_flood`."""

    def stop(self) -> None:
        """End all watching; may wait forever if a thread is stuck."""


class WatchManager:
    """All roots on one stream. A rebuild begins a new generation; events of an older stream are dropped.
    `restarter` rebuilds after trouble; once it is stopped, only a call of `rebuild` does.

    All methods are thread-safe; the longest wait is `RETIRE_S`.
    """

    def __init__(
        self,
        on_touch: TouchCall,
        on_trouble: TroubleCall,
        open_stream: Callable[[TouchCall, TroubleCall], Stream],
        probe_dir: str,
        probe_timeout_s: float,
    ) -> None:
        self._on_touch = on_touch
        self._on_trouble = on_trouble
        self._open_stream = open_stream
        self._probe = Probe(os.path.realpath(probe_dir), probe_timeout_s)
        self._lock = threading.RLock()
        self._stream: Stream | None = None
        self._paths: dict[str, str] = {}
        self._refused: set[str] = set()  # roots that the system does not let us watch: every scan tries again
        self._generation = 0
        self._stopped = False
        self._guard = ThreadGuard(self._owns, lambda _: self._troubled(self._generation, "thread-died", None))
        self.restarter = Restarter(self.rebuild, lambda: self._report("rebuilt", None))

    @property
    def generation(self) -> int:
        """The number of rebuilds."""
        return self._generation

    def start(self) -> bool:
        """Begin the first generation; False if the system refuses (then only periodic scans are left)."""
        self._guard.install()
        return self.rebuild("start")

    def stop(self) -> None:
        """End all watching permanently."""
        self._guard.remove()
        self.restarter.stop()
        with self._lock:
            self._stopped = True
            self._generation += 1
            self._retire()

    def watch(self, key: str, path: str) -> bool:
        """Watch the directory `path` and all below it; False when it is missing or refused (see log).

        A known key is watched again, as needed for a root that was deleted and recreated. A refused one stays
        known: the next rebuild retries it.
        """
        with self._lock:
            self.unwatch(key)
            self._paths[key] = os.path.realpath(path)  # a watch on a symlink reports nothing
            return self._schedule(key)

    def unwatch(self, key: str) -> None:
        """Stop watching a root and forget it."""
        with self._lock:
            self._paths.pop(key, None)
            if self._stream is not None:
                self._stream.unwatch(key)

    def rebuild(self, reason: str) -> bool:
        """Watch everything anew on a fresh stream; scan all roots afterwards. False when the system refuses.

        The old stream goes first: the watch limit may have no room for both.
        """
        with self._lock:
            if self._stopped:
                return False
            self._generation += 1
            self._retire()
            self._probe.forget()
            tell = log.debug if self._generation == 1 else log.info
            tell("rebuilding watches", reason=reason, generation=self._generation, roots=len(self._paths))
            try:
                self._stream = self._begin(self._generation)
            except OSError as error:  # no inotify instance left, or no place for probes
                log.warning("cannot start file watching", error=str(error), hint=self.limit_hint())
                return False
            for key in self._paths:
                if not self._schedule(key):
                    self._report("unwatched", key)
                self._on_touch(key, None, Change.MODIFIED)  # before a barrier on the new stream can pass
            return True

    def coverage(self, key: str, directories: Mapping[str, tuple[int, int]]) -> Coverage:
        """Return how many of a root's directories, given as path -> (st_dev, st_ino), the kernel really watches under
        that path: events of a directory known by a wrong name are as good as lost.

        If the kernel does not tell (not Linux), a live watch counts as complete.
        """
        with self._lock:
            if self._stream is None or not self._stream.watching(key):
                return Coverage(len(directories), 0)
            table, root = self._stream.kernel_watches(key), self._paths[key]
        wanted = {f"{root}/{path}" if path else root: place for path, place in directories.items()}
        return Coverage(len(wanted), len(wanted)) if table is None else held_of(wanted, table)

    def limit_hint(self) -> str:
        """Return a hint for the user where fewer directories are watched than wanted; "" if there is no such limit."""
        return limit_hint(instances=self._stream is None)

    def alive(self) -> list[str]:
        """Return the dead threads: `dispatcher`, `reader`, `probe-watch`, `emitter:KEY`; empty if every thread runs.

        A running thread does not prove that events arrive: see `probe`.
        """
        with self._lock:
            if self._stream is None:
                return ["dispatcher"]
            found = self._stream.problems()
            found += [] if self._stream.watching(PROBE_KEY) else ["probe-watch"]
            return found + [f"emitter:{key}" for key in self._paths if not self._stream.watching(key)]

    def probe(self, now: float) -> bool:
        """Judge the last probe, and start the next one once it is over. To be called every few seconds with monotonic
        time.

        Returns False if none could be started (a full disk, no stream); two misses in a row are trouble `probe`.
        """
        with self._lock:
            if self._stream is None:
                return False
            try:
                blind = self._probe.lay(now)
            except OSError as error:
                log.warning("could not create a probe file", error=str(error))
                return False
        if blind:
            self._report("probe", None)
        return True

    def barrier(self, timeout_s: float) -> bool:
        """Wait until every event from before this call has been reported. False if that is not certain: no answer in
        `timeout_s`, a rebuild meanwhile, or events that are not reported in order."""
        with self._lock:
            stream, generation = self._stream, self._generation
        if stream is None or not stream.in_order:
            return False
        return stream.deliver(timeout_s, in_flood=True) and generation == self._generation

    def deliver(self) -> None:
        """Report the events that have happened, if that takes no longer than `DELIVER_S`: much less than a barrier."""
        stream = self._stream
        if stream is not None:
            stream.deliver(DELIVER_S, in_flood=False)

    def probe_outstanding(self, now: float) -> float | None:
        """Return the seconds since the last probe was created; None after its event arrived."""
        return self._probe.outstanding(now)

    def _begin(self, generation: int) -> Stream:
        def touch(key: str, path: str | None, kind: Change) -> bool:
            if generation != self._generation:
                return False
            if key != PROBE_KEY:
                return self._on_touch(key, path, kind)
            self._probe.note_event(path or "")
            return False

        os.makedirs(self._probe.directory, mode=0o700, exist_ok=True)
        stream = self._open_stream(touch, lambda reason, key: self._troubled(generation, reason, key))
        try:
            stream.watch(PROBE_KEY, self._probe.directory, recursive=False)
        except OSError as error:
            log.warning("probes cannot be watched", error=str(error), hint=limit_hint())
        return stream

    def _schedule(self, key: str) -> bool:
        path = self._paths[key]
        if self._stream is None or not os.path.isdir(path):
            return False
        try:
            self._stream.watch(key, path, recursive=True)
        except OSError as error:
            tell = log.debug if key in self._refused else log.warning
            tell("a root cannot be watched", root=key, error=str(error), hint=limit_hint())
            self._refused.add(key)
            return False
        self._refused.discard(key)
        return True

    def _owns(self, thread: threading.Thread) -> bool:
        stream = self._stream
        return stream is not None and stream.owns(thread)

    def _troubled(self, generation: int, reason: str, key: str | None) -> None:
        if generation != self._generation or key == PROBE_KEY:
            return
        self._report(reason, key)
        if reason in MENDED:
            self.restarter.schedule(reason)

    def _report(self, reason: str, key: str | None) -> None:
        try:
            self._on_trouble(reason, key)
        except Exception:
            log.exception("trouble with watching could not be reported", reason=reason, root=key)

    def _retire(self) -> None:
        """Stop the stream on its own thread: it waits for its handlers, a broken one forever."""
        stream, self._stream = self._stream, None
        if stream is None:
            return
        retiring = threading.Thread(target=stream.stop, name="memoryd-retire", daemon=True)
        retiring.start()
        retiring.join(RETIRE_S)
