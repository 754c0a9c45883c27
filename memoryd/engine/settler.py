"""Changed paths of one root, collected until they are due.

A closed file is due at once to be searchable; for the index files many changes become one batch, soon but not too soon.
"""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

EARLY_S = 0.01  # after a change on its own the index files wait only this long, and a part of what writing them takes
CLOSED_PAUSE = 4.0  # making closed files searchable takes at most a fifth of the time


class Batch(Struct, frozen=True):
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
    on disk by then, so a batch under the cap begins earlier by the duration of the last ones. A change on its own,
    after twice the quiet time and with no file left open, waits much less: that makes no more batches.

    More than `max_paths` paths, or more than `max_per_dir` in one directory, become a scan of everything: a
    scan costs microseconds a file, while a burst of thousands of paths would cost memory and as many single
    checks.

    A file that is probably complete, such as a closed one, is due at once, to be made searchable, and stays in the
    batch. After that took a while, the next one waits `CLOSED_PAUSE` times as long.

    `everything`: the open batch is a scan.
    """

    def __init__(self, quiet_s: float = 0.1, cap_s: float = 1.0, max_paths: int = 512, max_per_dir: int = 128) -> None:
        self.quiet_s = quiet_s
        self.cap_s = cap_s
        self.max_paths = max_paths
        self.max_per_dir = max_per_dir
        self._lead = 0.0
        self._paths: set[str] = set()
        self._per_dir: Counter[str] = Counter()
        self.everything = False
        self._first: float | None = None
        self._last = 0.0
        self._alone = False  # the open batch began after a pause
        self._open: set[str] = set()  # its paths that may not be complete
        self._deferred: dict[str, float] = {}
        self._closed: set[str] = set()
        self._closed_due = 0.0

    def touch(self, path: str, now: float, *, at_once: bool = False, early: bool = True) -> None:
        """Note a possible change at `path`. An earlier deferral of it ends: the batch looks sooner. `early`: the batch
        may be due before the quiet time is over if the file is complete (`at_once`)."""
        self._mark(now)
        self._deferred.pop(path, None)
        if self.everything:
            return
        if at_once:
            self._closed.add(path)
        if at_once and early:
            self._open.discard(path)
        else:
            self._open.add(path)
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

    def closed_is_due(self, now: float) -> bool:
        """True if there are closed files to make searchable now."""
        return bool(self._closed) and now >= self._closed_due

    def closed(self, now: float) -> frozenset[str]:
        """Remove and return the closed files to make searchable now."""
        if not self.closed_is_due(now):
            return frozenset()
        taken = frozenset(self._closed)
        self._closed.clear()
        return taken

    def pending(self) -> frozenset[str] | None:
        """Return all paths that wait, deferred ones included; None if anything may have changed. They stay in their
        batch, but the closed ones need not be taken any more."""
        self._closed.clear()
        return None if self.everything else frozenset(self._paths | self._deferred.keys())

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
            everything = self.everything
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
            self._alone = now - self._last >= 2 * self.quiet_s
            self._first = now
            self._last = now
        self._last = max(now, self._last)

    def _batch_due(self) -> float | None:
        if self._first is None:
            return None
        quiet_s = self.quiet_s
        if self._alone and not (self._open or self.everything):
            quiet_s = min(quiet_s, EARLY_S + self._lead / 4)
        return min(self._last + quiet_s, self._first + max(self.quiet_s, self.cap_s - self._lead))

    def _collapse(self) -> None:
        self.everything = True
        self._forget_paths()

    def _reset(self) -> None:
        self.everything = False
        self._first = None
        self._forget_paths()

    def _forget_paths(self) -> None:
        self._open.clear()
        self._closed.clear()
        self._paths.clear()
        self._per_dir.clear()
