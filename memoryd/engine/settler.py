"""Decide when changed paths are due: at once to be searchable, and when the root has settled for the index files."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

CLOSED_PAUSE = 4.0  # making closed files searchable takes at most a fifth of the time


@dataclass(frozen=True, slots=True)
class Batch:
    """Paths to process now. `everything` means scan the whole root; `paths` then contains deferred ones only.

    `paths` are relative POSIX paths; `oldest` is the monotonic time of the first touch in the batch.
    """

    paths: frozenset[str]
    everything: bool
    oldest: float


class Settler:
    """Collect changed paths and decide when a batch is due. Time is an argument, in seconds of a monotonic clock. Not
    thread-safe: the caller locks.

    A writer rarely makes one event. A batch is due when its root has been quiet for `quiet_s`, and in any case `cap_s`
    after its first touch, so that a writer that never pauses cannot delay the index indefinitely. The index is to be
    on disk by then, so a batch under the cap begins earlier by the duration of the last ones.

    More than `max_paths` paths, or more than `max_per_dir` in one directory, become a scan of everything: a
    scan costs microseconds a file, while a burst of thousands of paths would cost memory and as many single
    checks.

    A file that is probably complete, such as a closed one, is due at once, to be made searchable, and stays in the
    batch. After that took a while, the next one waits `CLOSED_PAUSE` times as long.
    """

    def __init__(self, quiet_s: float = 0.1, cap_s: float = 1.0, max_paths: int = 512, max_per_dir: int = 128) -> None:
        self.quiet_s = quiet_s
        self.cap_s = cap_s
        self.max_paths = max_paths
        self.max_per_dir = max_per_dir
        self._lead = 0.0
        self._paths: set[str] = set()
        self._per_dir: Counter[str] = Counter()
        self._everything = False
        self._first: float | None = None
        self._last = 0.0
        self._deferred: dict[str, float] = {}
        self._closed: set[str] = set()
        self._closed_due = 0.0

    def touch(self, path: str, now: float, *, at_once: bool = False) -> None:
        """Note a possible change at `path`. An earlier deferral of it ends: the batch looks sooner."""
        self._mark(now)
        self._deferred.pop(path, None)
        if self._everything:
            return
        if at_once:
            self._closed.add(path)
        if path in self._paths:
            return
        self._paths.add(path)
        directory = path.rpartition("/")[0]
        self._per_dir[directory] += 1
        if len(self._paths) > self.max_paths or self._per_dir[directory] > self.max_per_dir:
            self._collapse()

    def touch_all(self, now: float) -> None:
        """Note that anything may have changed (overflow, a directory came or went): a scan is wanted."""
        self._mark(now)
        self._collapse()

    def defer(self, path: str, until: float) -> None:
        """Process `path` again at `until`: a half-written file whose writer is still at work.

        A path in the open batch is processed sooner anyway; of two deferrals the earlier one applies.
        """
        if path in self._paths:
            return
        self._deferred[path] = min(until, self._deferred.get(path, until))

    def note_duration(self, seconds: float) -> None:
        """Note the duration of a batch. One slow batch is remembered for a while, with half again in reserve, but never
        more than half of the cap: a slow disk must not split a burst into many small batches."""
        self._lead = min(self.cap_s / 2, max(1.5 * seconds, 0.9 * self._lead))

    def note_closed_duration(self, now: float, seconds: float) -> None:
        """Note how long it took to make closed files searchable, until `now`."""
        self._closed_due = now + CLOSED_PAUSE * seconds

    def closed(self, now: float) -> frozenset[str]:
        """Remove and return the closed files to make searchable now."""
        if not self._closed or now < self._closed_due:
            return frozenset()
        taken = frozenset(self._closed)
        self._closed.clear()
        return taken

    def pending(self) -> frozenset[str] | None:
        """Return all paths that wait, deferred ones included; None if anything may have changed. They stay in their
        batch, but the closed ones need not be taken any more."""
        self._closed.clear()
        return None if self._everything else frozenset(self._paths | self._deferred.keys())

    def ready(self, now: float) -> Batch | None:
        """Remove and return the batch that is due; None while there is none or the root is not quiet yet."""
        ripe = {path: until for path, until in self._deferred.items() if until <= now}
        due = self._batch_due()
        open_is_due = due is not None and due <= now
        if not ripe and not open_is_due:
            return None
        starts = list(ripe.values())
        paths, everything = set(ripe), False
        for path in ripe:
            del self._deferred[path]
        if open_is_due:
            assert self._first is not None
            starts.append(self._first)
            paths |= self._paths
            everything = self._everything
            self._reset()
        return Batch(frozenset(paths), everything, min(starts))

    def next_due(self) -> float | None:
        """Return when `ready` or `closed` will first return something if nothing else happens."""
        times = list(self._deferred.values())
        due = self._batch_due()
        if due is not None:
            times.append(due)
        if self._closed:
            times.append(self._closed_due)
        return min(times, default=None)

    def pending_since(self) -> float | None:
        """Return the first touch that is not in a batch yet; deferred paths do not count."""
        return self._first

    def _mark(self, now: float) -> None:
        if self._first is None:
            self._first = now
            self._last = now
        self._last = max(now, self._last)

    def _batch_due(self) -> float | None:
        if self._first is None:
            return None
        return min(self._last + self.quiet_s, self._first + max(self.quiet_s, self.cap_s - self._lead))

    def _collapse(self) -> None:
        self._everything = True
        self._closed.clear()
        self._paths.clear()
        self._per_dir.clear()

    def _reset(self) -> None:
        self._everything = False
        self._first = None
        self._closed.clear()
        self._paths.clear()
        self._per_dir.clear()
