"""The base of the handlers of every subject."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import wait
from typing import TypeVar

from memoryd.control.server import Handler
from memoryd.core.secrets import redact
from memoryd.engine.worker import Worker
from memoryd.errors import BusyError, ConflictError, MemorydError, NotFoundError, ShuttingDownError
from memoryd.operations.lookup import not_found, whole_file_hint
from memoryd.service.daemon import Daemon

CLOSED_WAIT_S = 0.02
FLUSH_WAIT_S = 1.0  # the longest that a read waits for the indexing of memories stored before it

R = TypeVar("R")
Table = Mapping[str, Handler]
"""Handlers by method name."""


class Handlers:
    """The handlers of one subject, and the daemon they act on."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._roots = daemon.roots

    def flush_all(self, workers: list[Worker], *, vectors: bool = False) -> list[Worker]:
        """Let workers index the memories they have just stored, and return the workers. Waits at most `FLUSH_WAIT_S`
        seconds for all of them together, and `CLOSED_WAIT_S` for files that other programs have just closed: a program
        that looks for what it has just written would compete with the worker that reads it, and not find it. `vectors`:
        they are read as well. A worker that a reload ended meanwhile is replaced by its successor."""
        if workers:
            self._roots.watcher.deliver()
        for worker in workers:
            worker.inbox.await_closed(CLOSED_WAIT_S / len(workers))
        flushes = [future for worker in workers for future in worker.flush(vectors=vectors)]
        if flushes:
            wait(flushes, FLUSH_WAIT_S)
        return [self._roots.successor(worker) if worker.ends else worker for worker in workers]

    def read(self, root: str | None, work: Callable[[list[Worker]], R]) -> R:
        """Return what `work` reads in the stores of one root, or of all; once more where a reload has closed a store
        meanwhile. Raises ShuttingDownError where the end of the daemon has."""
        workers = self._roots.readable(root)
        try:
            return work(workers)
        except MemorydError as error:
            if not any(worker.ends for worker in workers):
                raise
            if self._roots.ending:
                raise ShuttingDownError("memoryd is shutting down", hint="try again after it has started") from error
        return work(self._roots.readable(root))

    def owner(self, job: str, identity: str, workers: list[Worker]) -> Worker:
        """Return the one root that has the memory: live, or archived if it is to be restored. Raises BusyError if none
        has it and one was not read completely since it started."""
        live, unread = job != "memory.unarchive", list[Worker]()
        candidates = _places(identity, workers)
        if not any(place_live is live for *_, place_live in candidates):
            deadline = time.monotonic() + FLUSH_WAIT_S
            unread = [each for each in workers if not each.ready.wait(max(0.0, deadline - time.monotonic()))]
            candidates = _places(identity, workers)
        wanted = [each for each in candidates if each[2] is live] or candidates
        owners = list({id(worker): worker for worker, *_ in wanted}.values())
        if not owners and unread:
            raise BusyError(f"root {unread[0].name} is still being read after its start", hint="try again in a moment")
        if not owners:
            raise self.not_found(identity, workers)
        if len(owners) > 1:
            raise ambiguous(identity, [(owner.name, each) for owner, each, _ in wanted])
        return owners[0]

    def not_found(self, identity: str, workers: list[Worker]) -> NotFoundError:
        """Return the error for a memory that none of the roots has."""
        error = not_found(identity, *(worker.name for worker in workers))
        if any(worker.store.journal.trash.find(identity) for worker in workers):
            error.hint = f"it was forgotten; `memoryd unarchive {redact(identity)}` brings it back"
        else:
            hints = (whole_file_hint(worker.store, identity) for worker in workers)
            error.hint = next(filter(None, hints), error.hint)
        return error


def _places(identity: str, workers: list[Worker]) -> list[tuple[Worker, str, bool]]:
    """Return where memories with this id are: root, whole id, and whether it is live."""
    found: list[tuple[Worker, str, bool]] = []
    for worker in workers:
        with worker.store.catalogue.reader() as catalogue:
            found += [(worker, place.unique_id, place.live) for place in catalogue.places(identity)]
        found += [(worker, each.id, False) for each in worker.store.journal.trash.find(identity)]
    return found


def ambiguous(identity: str, matches: list[tuple[str, str]]) -> ConflictError:
    """Return the error for an id that memories of several roots have, each given with its root."""
    candidates = list(dict.fromkeys(matches))
    names = ", ".join(dict.fromkeys(root for root, _ in candidates))
    return ConflictError(
        f"{redact(identity)} is in more than one root: {names}",
        hint="name it with --root",
        data={"candidates": [{"root": root, "id": each} for root, each in candidates]},
    )
