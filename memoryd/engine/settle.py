"""Settling: many touches of files become one batch, soon but not too soon.

A writer rarely makes one event. A batch is due when its root has been quiet for `quiet_s`, and in any case
`cap_s` after its first touch, so that a writer that never pauses cannot hold the index back for ever. The index is
to stand on disk by then, so a batch under the cap begins as much sooner as the last ones took.
Pure: time is an argument, in seconds of a monotonic clock. One `Settler` a root; not thread-safe, its owner
locks.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Batch:
    """What to look at now. `everything` means scan the whole root; `paths` then holds deferred ones only.

    `paths` are relative POSIX paths; `oldest` is the monotonic time of the first touch in the batch.
    """

    paths: frozenset[str]
    everything: bool
    oldest: float


class Settler:
    """Collects touches and says when a batch is due.

    More than `max_paths` paths, or more than `max_per_dir` in one directory, become a scan of everything: a
    scan costs microseconds a file, while a burst of thousands of paths would cost memory and as many single
    looks.
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

    def touch(self, path: str, now: float) -> None:
        """Something may have changed at `path`; an earlier deferral of it ends, the batch looks sooner."""
        self._mark(now)
        self._deferred.pop(path, None)
        if self._everything or path in self._paths:
            return
        self._paths.add(path)
        directory = path.rpartition("/")[0]
        self._per_dir[directory] += 1
        if len(self._paths) > self.max_paths or self._per_dir[directory] > self.max_per_dir:
            self._collapse()

    def touch_all(self, now: float) -> None:
        """Anything may have changed (overflow, a directory came or went): a scan is wanted."""
        self._mark(now)
        self._collapse()

    def defer(self, path: str, until: float) -> None:
        """Look at `path` again at `until`: a half-written file whose writer is still at work.

        A path in the open batch is looked at sooner anyway; of two deferrals the earlier one holds.
        """
        if path in self._paths:
            return
        self._deferred[path] = min(until, self._deferred.get(path, until))

    def took(self, seconds: float) -> None:
        """How long the work on a batch lasted. One slow batch is remembered for a while, and half again is kept in
        hand, but never more than half of the cap: a slow disk must not make many small batches of one burst."""
        self._lead = min(self.cap_s / 2, max(1.5 * seconds, 0.9 * self._lead))

    def ready(self, now: float) -> Batch | None:
        """The batch that is due, taken out; None while there is nothing or the root is not quiet yet."""
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
        """When `ready` will first answer if nothing else happens."""
        times = list(self._deferred.values())
        due = self._batch_due()
        if due is not None:
            times.append(due)
        return min(times, default=None)

    def pending_since(self) -> float | None:
        """The first touch that is not in a batch yet; deferred paths do not count, see `deferred`."""
        return self._first

    def deferred(self) -> frozenset[str]:
        """Paths that wait for their writer to finish."""
        return frozenset(self._deferred)

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
        self._paths.clear()
        self._per_dir.clear()

    def _reset(self) -> None:
        self._everything = False
        self._first = None
        self._paths.clear()
        self._per_dir.clear()
