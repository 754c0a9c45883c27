"""Single memories, on the worker's thread: what is asked of one is done, and reads that are to be counted are counted.

Counts are written some seconds after the last read, one rewrite a file: an agent that reads twenty memories in a row
makes one change, not twenty.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from memoryd.engine.clock import Clock
from memoryd.engine.jobs import Job
from memoryd.errors import BusyError
from memoryd.layouts.storing import Asked, Touch
from memoryd.log import get_logger
from memoryd.operations import memories
from memoryd.operations.memories import Means, Outcome
from memoryd.operations.touching import count_reads
from memoryd.store import Store

log = get_logger(__name__)

QUIET_S, LONGEST_S = 3.0, 60.0  # without a further read; since the first that is not written yet
MOST = 10_000  # memories whose reads wait to be written
PLACES = ("topic", "subtopic", "user", "session")
NEVER = float("inf")


def _means(params: Mapping[str, Any]) -> Means:
    return Means(int(params.get("number", 0)), allow_words=bool(params.get("allow_sensitive_words")))


def _add(store: Store, params: Mapping[str, Any], now: float) -> Outcome:
    where = {name: params[name] for name in PLACES if params.get(name) is not None}
    return memories.add(store, Asked(params["memory"], where), now, _means(params))


def _update(store: Store, params: Mapping[str, Any], now: float) -> Outcome:
    return memories.update(store, params["id"], params.get("changes", {}), now, _means(params))


def _forget(store: Store, params: Mapping[str, Any], now: float) -> Outcome:
    return memories.forget(store, params["id"], now, _means(params))


def _unarchive(store: Store, params: Mapping[str, Any], now: float) -> Outcome:
    return memories.unarchive(store, params["id"], now, _means(params))


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
        self._first = self._last = NEVER

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


def perform(store: Store, job: Job, now: float) -> Outcome:
    """What is asked of one memory; every refusal is an error that says what to do."""
    return STORING[job.name](store, job.params, now)
