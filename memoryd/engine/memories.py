"""Storing, changing and forgetting single memories, and counting reads.

A command is answered as soon as the change is on disk; the catalogue follows, before anything else reads it (`behind`).
Access counts are written some seconds after the last read, one rewrite per file: an agent that reads twenty memories in
a row causes one change, not twenty.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from msgspec import UNSET, to_builtins

from memoryd.control.methods.memories import AddRequest, AddResult, MemoryRequest, StoredMemory, UpdateRequest
from memoryd.engine.deadlines import NEVER
from memoryd.engine.health import Health
from memoryd.engine.interfaces import Clock, Tell
from memoryd.engine.jobs import Job
from memoryd.errors import BusyError, MemorydError, NotFoundError
from memoryd.layouts.protocol import AccessCount, NewMemory
from memoryd.log import get_logger
from memoryd.operations import memories
from memoryd.operations.access_counts import count_reads
from memoryd.operations.memories import Context, Outcome
from memoryd.store import Store
from memoryd.store.layout_views import local_zone

log = get_logger(__name__)

QUIET_S, MAX_WAIT_S = 3.0, 60.0  # since the last read; since the first unwritten one
MAX_PENDING_READS = 10_000  # memories with unwritten reads
# New memories are indexed after a pause without further ones (at least as long as indexing took last time), but at
# most BATCH at once and BATCH_S later.
PAUSE_S, BATCH_S, BATCH = 0.01, 0.1, 128
MAX_PAUSE_S = 0.2
PLACES = ("topic", "subtopic", "user", "session")


def _context(now: float, *, allow_words: bool = False) -> Context:
    """Return the context of a change."""
    return Context(int.from_bytes(os.urandom(8)), local_zone(now), allow_words=allow_words)


def _add(store: Store, job: Job, now: float) -> Outcome:
    request = job.request_as(AddRequest)
    where = {name: value for name in PLACES if (value := getattr(request, name)) is not None}
    context = _context(now, allow_words=request.allow_sensitive_words)
    if request.memories is not None:
        return memories.add_several(store, [NewMemory(each, where) for each in request.memories], now, context)
    return memories.add(store, NewMemory(request.memory or {}, where), now, context)


def _update(store: Store, job: Job, now: float) -> Outcome:
    request = job.request_as(UpdateRequest)
    context = _context(now, allow_words=request.allow_sensitive_words)
    return memories.update(store, request.id, request.changes, now, context)


def _forget(store: Store, job: Job, now: float) -> Outcome:
    return memories.forget(store, job.request_as(MemoryRequest).id, now, _context(now))


def _unarchive(store: Store, job: Job, now: float) -> Outcome:
    return memories.unarchive(store, job.request_as(MemoryRequest).id, now, _context(now))


STORING: Mapping[str, Callable[[Store, Job, float], Outcome]] = {
    "memory.add": _add,
    "memory.update": _update,
    "memory.forget": _forget,
    "memory.unarchive": _unarchive,
}


def _result(outcome: Outcome, root: str) -> AddResult:
    stored = [StoredMemory(identity, path) for identity, path in outcome.stored]
    return AddResult(
        root=root,
        id=outcome.id,
        path=outcome.path,
        receipt=outcome.receipt or UNSET,
        warnings=list(outcome.warnings) or UNSET,
        memories=stored or UNSET,
    )


class Reads:
    """Reads that wait to be counted. Any thread may call `note`."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: dict[str, dict[str, AccessCount]] = {}
        self._first = self._last = NEVER  # when, of those that wait

    def note(self, path: str, identity: str) -> None:
        """Note that a memory was read."""
        wall, now = self._clock.wall(), self._clock.monotonic()
        with self._lock:
            there = self._waiting.setdefault(path, {})
            if identity not in there and sum(map(len, self._waiting.values())) >= MAX_PENDING_READS:
                return  # writing is not possible, as on a failing disk: counts are not worth unbounded memory
            there[identity] = AccessCount(there[identity].times + 1 if identity in there else 1, wall)
            self._first = min(self._first, now)
            self._last = now

    def next_due(self) -> float:
        """Return when (monotonic) the waiting counts are to be written."""
        return min(self._last + QUIET_S, self._first + MAX_WAIT_S)

    def put_off(self) -> None:
        """Wait again as long as if all reads had happened now."""
        with self._lock:
            if self._waiting:
                self._first = self._last = self._clock.monotonic()

    def write(self) -> tuple[str, ...]:
        """Write the counts. Returns the files that changed; those with a writer at work wait for the next time."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            self._first = self._last = NEVER
        written: list[str] = []
        for path, touches in waiting.items():
            try:
                written += count_reads(self._store, path, touches, self._clock.wall())
            except BusyError as error:
                log.debug("access counts deferred", root=self._store.name, file=path, reason=error.message)
                self._put_back(path, touches)
        return tuple(written)

    def _put_back(self, path: str, touches: Mapping[str, AccessCount]) -> None:
        now = self._clock.monotonic()
        with self._lock:
            there = self._waiting.setdefault(path, {})
            for identity, touch in touches.items():
                since = there.get(identity, AccessCount(0, 0.0))
                there[identity] = AccessCount(since.times + touch.times, max(since.at, touch.at))
            self._first, self._last = min(self._first, now), now


class _Stored(NamedTuple):
    """One acknowledged change: its event, who asked for it, and the files that changed."""

    event: dict[str, object]
    by: str
    paths: tuple[str, ...]


class Memories:
    """Stores, changes and forgets single memories of one root. `scan` finds what changed anywhere, `index_own` takes
    files that memoryd has just changed into the catalogue; `behind` is since when (monotonic) something waits for that,
    and is for any thread, as is `counts`."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        tell: Tell,
        health: Health,
        scan: Callable[[], None],
        index_own: Callable[[Collection[str]], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._tell = tell
        self._health = health
        self._scan = scan
        self._index_own = index_own
        self._stored: list[_Stored] = []  # what the catalogue has not taken in
        self._paths: dict[str, None] = {}  # the files of that
        self._due = NEVER
        self._cost_s = 0.0  # of the last catching up
        self.behind: float | None = None
        self.reads = Reads(store, clock)
        self.counts: dict[str, int] = dict.fromkeys((name.removeprefix("memory.") for name in STORING), 0)

    def perform(self, job: Job) -> AddResult:
        """Carry out one command about a memory. `catch_up` follows later."""
        if job.name != "memory.add" or not self._foreseeable():
            self.catch_up()
        try:
            outcome = STORING[job.name](self._store, job, self._clock.wall())
        except NotFoundError:
            self._scan()  # another program may have written it a moment ago
            outcome = STORING[job.name](self._store, job, self._clock.wall())
        result = _result(outcome, self._store.name)
        if outcome.receipt is not None:
            self._health.note_recovery()
            self.counts[job.name.removeprefix("memory.")] += 1
            event = {**to_builtins(result), "operation": job.name}
            self._note(_Stored(event, job.by, outcome.paths), wait=self._may_wait(job))
        return result

    def _foreseeable(self) -> bool:
        """True if the next memory can be stored without an up-to-date catalogue. Under limits the counts of its files
        must be known; new files are known by name."""
        waiting = self._store.pending_changes.pending_append
        return not self._paths or not self._store.limits or all(map(waiting, self._paths))

    def _may_wait(self, job: Job) -> bool:
        """True if the catalogue may be updated later. A changed line is known only until its file changes again."""
        return job.name == "memory.add" or not self._store.file_rules.append_only

    def _note(self, stored: _Stored, *, wait: bool) -> None:
        now = self._clock.monotonic()
        self._stored.append(stored)
        self._paths.update(dict.fromkeys(stored.paths))
        self.behind = now if self.behind is None else self.behind
        pause = min(max(PAUSE_S, self._cost_s), MAX_PAUSE_S)
        quiet = min(now + pause, self.behind + max(BATCH_S, pause))
        self._due = quiet if wait and len(self._stored) < BATCH else now

    def catch_up(self) -> None:
        """Read what was stored into the catalogue, so that a search finds it. The layout's index follows when the root
        has settled."""
        stored, self._stored = self._stored, []
        paths, self._paths = self._paths, {}
        self._due = NEVER
        if not stored:
            return
        for each in stored:
            log.info("changed", **each.event, by=each.by)
            self._tell("change", each.event)
        began = self._clock.monotonic()
        try:
            self._index_own(paths)
        finally:
            self._cost_s = self._clock.monotonic() - began
            self.behind = None

    def next_due(self) -> float:
        """Return when (monotonic) `run_due` has work."""
        return min(self._due, self.reads.next_due())

    def run_due(self, now: float) -> None:
        """Index stored memories and write access counts if they are due. `now` is monotonic."""
        if now >= self._due:
            self.catch_up()
        if now >= self.reads.next_due():
            self.write_reads()

    def write_reads(self) -> None:
        """Write access counts; defer them if nothing may be written."""
        if self.reads.next_due() == NEVER:
            return
        try:
            self._health.require("touch")
        except MemorydError as error:
            log.debug("access counts deferred", root=self._store.name, reason=error.message)
            self.reads.put_off()
            return
        written = self.reads.write()
        if written:
            self._index_own(written)

    def end(self) -> None:
        """Index and write what is still pending, for the last time."""
        try:
            self.catch_up()
            self.write_reads()
        except (OSError, MemorydError) as error:
            log.warning("access counts lost", root=self._store.name, reason=str(error))
