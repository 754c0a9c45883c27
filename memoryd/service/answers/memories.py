"""The methods about single memories: looking is done on the connection's own thread, and so is adding where the root's
worker rests; whatever else changes one goes through the inbox."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import wait
from functools import partial
from typing import TYPE_CHECKING, Any

from memoryd.control.answering import Answer, Errand
from memoryd.control.protocol import fits
from memoryd.core.asking import Filters
from memoryd.core.dates import parse_stamp
from memoryd.core.policy import DAY
from memoryd.core.secrets import redact
from memoryd.engine.jobs import Job
from memoryd.engine.worker import Worker
from memoryd.errors import ConflictError, MemorydError, NotFoundError, UsageError
from memoryd.operations.likeness import like_memory, like_numbers
from memoryd.operations.listing import LIMIT as LISTED
from memoryd.operations.listing import list_memories
from memoryd.operations.locate import no_such
from memoryd.operations.reading import Memory, read_memory
from memoryd.operations.search import LIMIT as FOUND
from memoryd.operations.search import Asked, Place, search
from memoryd.search.engine import Embedded
from memoryd.service.answers.asked import Host, Params, Table
from memoryd.service.gather import gather

if TYPE_CHECKING:
    from memoryd.service.daemon import Daemon

SURELY_FITS = 80_000  # bytes of a memory, in the worst of escapes
CATCH_UP_S = 1.0  # a question waits so long at most for what was stored before it
_AGO = re.compile(r"(\d{1,6})\s*([smhdw])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": DAY, "w": 7 * DAY}


def memory_handlers(daemon: Daemon) -> Table:
    host = MemoryHandlers(daemon)
    return {
        "memory.search": host.search,
        "memory.get": host.get,
        "memory.list": host.page,
        "memory.add": host.add,
        "memory.update": host.changing("memory.update"),
        "memory.forget": host.changing("memory.forget"),
        "memory.unarchive": host.changing("memory.unarchive"),
    }


class MemoryHandlers(Host):
    def __init__(self, daemon: Daemon) -> None:
        super().__init__(daemon)
        self._clock = daemon.clock

    # --- looking

    def search(self, params: Params) -> Answer:
        places, user, similar = self._places(params), params.get("user"), params.get("similar")
        like, but = (like_numbers(params["vector"]) if "vector" in params else None), None
        if similar is not None:
            like, but = like_memory(places, similar, user)
        asked = Asked(
            query=params.get("query", ""),
            filters=self._filters(params),
            mode=params.get("mode", "hybrid"),
            limit=params.get("limit", FOUND),
            max_tokens=params.get("max_tokens"),
            user=user,
            like=like,
            but=but,
        )
        engine = Embedded(self._roots.meaning)
        return search(places, asked, now=self._clock.wall(), clock=self._clock.monotonic, engine=engine)

    def page(self, params: Params) -> Answer:
        limit, cursor = params.get("limit", LISTED), params.get("cursor")
        filters, user, places = self._filters(params), params.get("user"), self._places(params)
        while True:
            page = list_memories(places, filters, user=user, limit=limit, cursor=cursor)
            if limit == 1 or fits(page):
                return page
            limit //= 2  # cut to fit by the protocol, it would not be where the cursor says it ends

    def _places(self, params: Params) -> list[Place]:
        """The roots as they are asked, and how fresh what is known of them is."""
        workers = self._asked_of(params)
        now = self._clock.monotonic()
        return [
            Place(
                worker.name,
                worker.store.catalogue,
                worker.status.layout,
                worker.status.state,
                worker.status.generation,
                worker.lag_ms(now),
                worker.store.policy,
            )
            for worker in workers
        ]

    def _asked_of(self, params: Params) -> list[Worker]:
        """One root, several, or all; each once."""
        if "root" in params or "roots" not in params:
            return _caught_up(self._roots.named(params.get("root")))
        named = dict.fromkeys(params["roots"])
        return _caught_up([worker for name in named for worker in self._roots.named(name)])

    def _filters(self, params: Params) -> Filters:
        since = params.get("since")
        return Filters(
            type=params.get("type"),
            tags=tuple(params.get("tags", ())),
            since=_moment(since, self._clock.wall()) if since is not None else None,
            archived=bool(params.get("archived")),
        )

    def get(self, params: Params) -> Answer:
        workers = _caught_up(self._roots.named(params.get("root")))
        try:
            return self._get(params, workers)
        except NotFoundError:
            late = self._behind(workers)
            if not late:
                raise
        looks = {worker.name: worker.submit(Job("rescan")) for worker in late}
        return gather(looks, lambda _: self._get(params, workers))  # on the last one's thread, which must not wait

    def _get(self, params: Params, workers: list[Worker]) -> dict[str, Any]:
        asked, found = params["id"], []
        for worker in workers:
            memory = self._read(worker, asked, strict=len(workers) == 1)
            if memory is not None:
                found.append((worker, memory))
        if not found:
            raise self._missing(asked, workers)
        if len(found) > 1:
            raise _ambiguous(asked, [(worker.name, memory.id) for worker, memory in found])
        worker, memory = found[0]
        if params.get("touch") and not memory.archived:
            worker.memories.note_read(memory.path, memory.id)
        if "offset" in params:
            return memory.part(worker.name, params["offset"])
        told = memory.public(worker.name)
        if len(memory.written) > SURELY_FITS and not fits(told):
            raise UsageError(
                f"{memory.id} has {len(memory.written)} bytes, more than fit into one answer",
                hint="ask for its text in parts: with `offset` 0, then with each `next_offset`",
                data={"offset": 0},
            )
        return told

    def _read(self, worker: Worker, asked: str, *, strict: bool) -> Memory | None:
        """Of several roots, one that cannot be read does not keep the others from their answer."""
        try:
            worker.require("memory.get")
            return read_memory(worker.store, asked, self._clock.wall())
        except ConflictError:
            raise
        except MemorydError:
            if strict:
                raise
            return None

    def _behind(self, workers: list[Worker]) -> list[Worker]:
        """Roots in which something changed that is not read in yet."""
        now = self._clock.monotonic()
        return [worker for worker in workers if worker.lag_ms(now) > 0]

    def _missing(self, asked: str, workers: list[Worker]) -> NotFoundError:
        error = no_such(asked, *(worker.name for worker in workers))
        if any(worker.store.journal.forgotten(asked) for worker in workers):
            error.hint = f"it was forgotten; `memoryd unarchive {redact(asked)}` brings it back"
        return error

    # --- storing

    def add(self, params: Params) -> Answer:
        workers = self._roots.named(params.get("root"))
        if len(workers) != 1:
            names = ", ".join(worker.name for worker in workers)
            raise UsageError("in which root is it to be stored?", hint=f"name it with --root; there are: {names}")
        job = Job("memory.add", params)
        return Errand(job.future, partial(workers[0].store_now, job))

    def changing(self, job: str) -> Callable[[Params], Answer]:
        """A job on one memory, in the root that has it."""

        def handle(params: Params) -> Answer:
            workers = self._roots.named(params.get("root"))
            worker = workers[0] if len(workers) == 1 else self._owner(job, params["id"], _caught_up(workers))
            return worker.submit(Job(job, params))

        return handle

    def _owner(self, job: str, asked: str, workers: list[Worker]) -> Worker:
        """The one root that has the memory: live, or archived where it is to be brought back."""
        having: list[tuple[Worker, str, bool]] = []
        for worker in workers:
            with worker.store.catalogue.reader() as catalogue:
                having += [(worker, place.id, place.live) for place in catalogue.places(asked)]
            having += [(worker, each.id, False) for each in worker.store.journal.forgotten(asked)]
        wanted = [each for each in having if each[2] != (job == "memory.unarchive")] or having
        owners = list({id(worker): worker for worker, *_ in wanted}.values())
        if not owners:
            raise self._missing(asked, workers)
        if len(owners) > 1:
            raise _ambiguous(asked, [(worker.name, identity) for worker, identity, _ in wanted])
        return owners[0]


def _caught_up(workers: list[Worker]) -> list[Worker]:
    """What was stored through memoryd a moment ago is found there. All together are waited for once."""
    late = [future for worker in workers for future in worker.catch_up()]
    if late:
        wait(late, CATCH_UP_S)
    return workers


def _ambiguous(asked: str, found: list[tuple[str, str]]) -> ConflictError:
    told = list(dict.fromkeys(found))
    names = ", ".join(dict.fromkeys(root for root, _ in told))
    return ConflictError(
        f"{redact(asked)} is in more than one root: {names}",
        hint="name it with --root",
        data={"candidates": [{"root": root, "id": identity} for root, identity in told]},
    )


def _moment(text: str, now: float) -> float:
    """A date or time stamp, or how long ago: `30d`, `12h`."""
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        return now - int(ago[1]) * _UNITS[ago[2]]
    stamp = parse_stamp(text.strip())
    if stamp is None:
        raise UsageError("since is no point in time", hint="a date such as 2026-01-31, a time stamp, or 30d, 12h")
    return stamp.seconds
