"""Single memories, in the root's turn: what is asked of one is done, and reads that are to be counted are counted.

Whoever asked is answered as soon as the change is on disk; the catalogue takes it in afterwards, before anything looks
there (`behind`). Counts are written some seconds after the last read, one rewrite a file: an agent that reads twenty
memories in a row makes one change, not twenty.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta, timezone
from typing import Any, NamedTuple

from memoryd.engine.clock import Clock
from memoryd.engine.health import Health
from memoryd.engine.hints import Tell
from memoryd.engine.jobs import Job
from memoryd.engine.looking import NEVER
from memoryd.errors import BusyError, MemorydError, NotFoundError
from memoryd.layouts.storing import Asked, Touch
from memoryd.log import get_logger
from memoryd.operations import memories
from memoryd.operations.memories import Means, Outcome
from memoryd.operations.touching import count_reads
from memoryd.store import Store

log = get_logger(__name__)

QUIET_S, LONGEST_S = 3.0, 60.0  # without a further read; since the first that is not written yet
MOST = 10_000  # memories whose reads wait to be written
# What was stored is taken in when nothing more is stored for a moment (at least as long as the last taking in took),
# but not more than so much at once, nor so much later.
PAUSE_S, BATCH_S, BATCH = 0.01, 0.1, 128
MOST_PAUSE_S = 0.2
PLACES = ("topic", "subtopic", "user", "session")


def _means(params: Mapping[str, Any], now: float) -> Means:
    """Files named by the second are named by the local one, as their own programs do."""
    zone = timezone(timedelta(seconds=time.localtime(now).tm_gmtoff))
    return Means(int.from_bytes(os.urandom(8)), zone, allow_words=bool(params.get("allow_sensitive_words")))


def _add(store: Store, params: Mapping[str, Any], now: float) -> Outcome:
    where = {name: params[name] for name in PLACES if params.get(name) is not None}
    return memories.add(store, Asked(params["memory"], where), now, _means(params, now))


def _update(store: Store, params: Mapping[str, Any], now: float) -> Outcome:
    return memories.update(store, params["id"], params["changes"], now, _means(params, now))


def _forget(store: Store, params: Mapping[str, Any], now: float) -> Outcome:
    return memories.forget(store, params["id"], now, _means(params, now))


def _unarchive(store: Store, params: Mapping[str, Any], now: float) -> Outcome:
    return memories.unarchive(store, params["id"], now, _means(params, now))


STORING: Mapping[str, Callable[[Store, Mapping[str, Any], float], Outcome]] = {
    "memory.add": _add,
    "memory.update": _update,
    "memory.forget": _forget,
    "memory.unarchive": _unarchive,
}


class Reads:
    """Reads that wait to be counted. `note` may be called by any thread."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: dict[str, dict[str, Touch]] = {}
        self._first = self._last = NEVER  # when, of those that wait

    def note(self, path: str, identity: str) -> None:
        wall, now = self._clock.wall(), self._clock.monotonic()
        with self._lock:
            there = self._waiting.setdefault(path, {})
            if identity not in there and sum(map(len, self._waiting.values())) >= MOST:
                return  # nobody writes here, as on a disk that refuses: a count is not worth the memory
            there[identity] = Touch(there[identity].times + 1 if identity in there else 1, wall)
            self._first = min(self._first, now)
            self._last = now

    def next_due(self) -> float:
        return min(self._last + QUIET_S, self._first + LONGEST_S)

    def put_off(self) -> None:
        """They are due as if they had been made now."""
        with self._lock:
            if self._waiting:
                self._first = self._last = self._clock.monotonic()

    def write(self) -> tuple[str, ...]:
        """The files that changed. What cannot be had now, for a writer at work, waits for the next time."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            self._first = self._last = NEVER
        written: list[str] = []
        for path, touches in waiting.items():
            try:
                written += count_reads(self._store, path, touches, self._clock.wall())
            except BusyError as error:
                log.debug("reads are counted later", root=self._store.name, file=path, reason=error.message)
                self._put_back(path, touches)
        return tuple(written)

    def _put_back(self, path: str, touches: Mapping[str, Touch]) -> None:
        now = self._clock.monotonic()
        with self._lock:
            there = self._waiting.setdefault(path, {})
            for identity, touch in touches.items():
                since = there.get(identity, Touch(0, 0.0))
                there[identity] = Touch(since.times + touch.times, max(since.at, touch.at))
            self._first, self._last = min(self._first, now), now


class _Stored(NamedTuple):
    """One change that was acknowledged: the event that tells of it, who asked, the files that changed."""

    told: dict[str, Any]
    by: str
    paths: tuple[str, ...]


class Memories:
    """`read_in` looks at everything; `took` reads in files that memoryd has just changed."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        tell: Tell,
        health: Health,
        read_in: Callable[[], None],
        took: Callable[[Collection[str]], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._tell = tell
        self._health = health
        self._read_in = read_in
        self._took = took
        self._stored: list[_Stored] = []  # what the catalogue has not taken in
        self._paths: dict[str, None] = {}  # the files of that
        self._due = NEVER
        self._cost_s = 0.0  # of the last taking in
        self.behind: float | None = None  # since when (monotonic) there is such; for any thread
        self.reads = Reads(store, clock)
        self.counts: dict[str, int] = dict.fromkeys((name.removeprefix("memory.") for name in STORING), 0)

    def perform(self, job: Job) -> dict[str, Any]:
        """What is asked of one memory. `catch_up` follows."""
        if job.name != "memory.add" or not self._foreseeable():
            self.catch_up()
        try:
            outcome = STORING[job.name](self._store, job.params, self._clock.wall())
        except NotFoundError:
            self._read_in()  # another program may have written it a moment ago
            outcome = STORING[job.name](self._store, job.params, self._clock.wall())
        told = outcome.public(self._store.name)
        if outcome.receipt is not None:
            self._health.well()
            self.counts[job.name.removeprefix("memory.")] += 1
            self._note(_Stored({**told, "operation": job.name}, job.by, outcome.paths), wait=self._may_wait(job))
        return told

    def _foreseeable(self) -> bool:
        """What the next memory is decided on is known without the catalogue: under limits its files count, new ones are
        known by name."""
        waiting = self._store.own_changes.waiting
        return not self._paths or not self._store.limits or all(map(waiting, self._paths))

    def _may_wait(self, job: Job) -> bool:
        """What was changed in a file of lines is known line by line, but only until the next change of it."""
        return job.name == "memory.add" or not (self._store.layout and self._store.layout.appendable)

    def _note(self, stored: _Stored, *, wait: bool) -> None:
        now = self._clock.monotonic()
        self._stored.append(stored)
        self._paths.update(dict.fromkeys(stored.paths))
        self.behind = now if self.behind is None else self.behind
        pause = min(max(PAUSE_S, self._cost_s), MOST_PAUSE_S)
        quiet = min(now + pause, self.behind + max(BATCH_S, pause))
        self._due = quiet if wait and len(self._stored) < BATCH else now

    def catch_up(self) -> None:
        """The catalogue takes in what was stored, so that a search finds it; the layout's index follows when the root
        has settled."""
        stored, self._stored = self._stored, []
        paths, self._paths = self._paths, {}
        self._due = NEVER
        if not stored:
            return
        for each in stored:
            log.info("changed", **each.told, by=each.by)
            self._tell("change", each.told)
        began = self._clock.monotonic()
        try:
            self._took(paths)
        finally:
            self._cost_s = self._clock.monotonic() - began
            self.behind = None

    def note_read(self, path: str, identity: str) -> None:
        """A memory was read and that is to be counted."""
        self.reads.note(path, identity)

    def next_due(self) -> float:
        return min(self._due, self.reads.next_due())

    def turn(self, now: float) -> None:
        """What is due."""
        if now >= self._due:
            self.catch_up()
        if now >= self.reads.next_due():
            self.write_reads()

    def write_reads(self) -> None:
        """Not where nothing may be written: then they wait."""
        if self.reads.next_due() == NEVER:
            return
        try:
            self._health.require("touch")
        except MemorydError as error:
            log.debug("reads are counted later", root=self._store.name, reason=error.message)
            self.reads.put_off()
            return
        written = self.reads.write()
        if written:
            self._took(written)

    def end(self) -> None:
        """The last chance for what still waits."""
        try:
            self.catch_up()
            self.write_reads()
        except (OSError, sqlite3.Error, MemorydError) as error:
            log.warning("reads are not counted", root=self._store.name, reason=str(error))
