"""Methods on single memories. Reading runs in the thread of the connection; changes go through the inbox."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import wait

from memoryd.control.methods.memories import (
    AddRequest,
    GetRequest,
    GetResult,
    ListRequest,
    ListResult,
    MemoryRequest,
    SearchRequest,
    SearchResult,
    UpdateRequest,
)
from memoryd.control.protocol import fits
from memoryd.control.requests import Answer
from memoryd.control.server import handler
from memoryd.core.dates import parse_stamp
from memoryd.core.policy import DAY
from memoryd.core.query import Filters
from memoryd.core.secrets import redact
from memoryd.engine.jobs import Job
from memoryd.engine.worker import Worker
from memoryd.errors import ConflictError, MemorydError, NotFoundError, UsageError
from memoryd.operations.lookup import LIMIT as LISTED
from memoryd.operations.lookup import LoadedMemory, list_memories, not_found, read_memory
from memoryd.operations.search import LIMIT as FOUND
from memoryd.operations.search import SearchQuery, search, similar_to_memory, similar_to_vector
from memoryd.operations.search_scope import SearchRoot, owners_in, user_in
from memoryd.search.engine import SearchEngine
from memoryd.service.daemon import Daemon
from memoryd.service.futures import gather
from memoryd.service.handlers.base import Handlers, Table

SURELY_FITS = 80_000  # bytes of a memory, in the worst of escapes
CATCH_UP_S = 1.0  # a question waits so long at most for what was stored before it
_AGO = re.compile(r"(\d{1,6})\s*([smhdw])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": DAY, "w": 7 * DAY}


def memory_handlers(daemon: Daemon) -> Table:
    """Return the handlers of methods on single memories."""
    methods = MemoryHandlers(daemon)
    return {
        "memory.search": handler(SearchRequest, methods.search),
        "memory.get": handler(GetRequest, methods.get),
        "memory.list": handler(ListRequest, methods.page),
        "memory.add": handler(AddRequest, methods.add),
        "memory.update": handler(UpdateRequest, methods.change("memory.update")),
        "memory.forget": handler(MemoryRequest, methods.change("memory.forget")),
        "memory.unarchive": handler(MemoryRequest, methods.change("memory.unarchive")),
    }


class MemoryHandlers(Handlers):
    """Methods on single memories."""

    def __init__(self, daemon: Daemon) -> None:
        super().__init__(daemon)
        self._clock = daemon.clock

    # --- looking

    def search(self, request: SearchRequest) -> SearchResult:
        """Find memories in the catalogues of the roots asked about."""
        places, user, similar = self._places(request), request.user, request.similar
        like, but = (None if request.vector is None else similar_to_vector(request.vector)), None
        if similar is not None:
            user = user_in(owners_in(places), similar) if user is None else user
            like, but = similar_to_memory(places, similar, user)
        asked = SearchQuery(
            query=request.query or "",
            filters=self._filters(request),
            mode=request.mode or "hybrid",
            limit=request.limit or FOUND,
            max_tokens=request.max_tokens,
            user=user,
            like=like,
            excluded=but,
        )
        engine = SearchEngine(self._roots.meaning)
        return search(places, asked, now=self._clock.wall(), clock=self._clock.monotonic, engine=engine)

    def page(self, request: ListRequest) -> ListResult:
        """List a page of memories that fits into one answer."""
        limit = request.limit or LISTED
        filters, places = self._filters(request), self._places(request)
        while True:
            page = list_memories(places, filters, user=request.user, limit=limit, cursor=request.cursor)
            if limit == 1 or fits(page):
                return page
            limit //= 2  # cut to fit by the protocol, it would not be where the cursor says it ends

    def _places(self, request: SearchRequest | ListRequest) -> list[SearchRoot]:
        """Return the roots to search, with the freshness of their indexes."""
        workers = self._asked_of(request)
        now = self._clock.monotonic()
        return [
            SearchRoot(
                worker.name,
                worker.store.catalogue,
                worker.status.layout,
                worker.status.state,
                worker.status.generation,
                worker.lag_ms(now),
                worker.store.policy,
                worker.status.unread,
            )
            for worker in workers
        ]

    def _asked_of(self, request: SearchRequest | ListRequest) -> list[Worker]:
        """Return the workers of one root, several or all, each once."""
        if request.root is not None or request.roots is None:
            return flush_all(self._roots.named(request.root))
        named = dict.fromkeys(request.roots)
        return flush_all([worker for name in named for worker in self._roots.named(name)])

    def _filters(self, request: SearchRequest | ListRequest) -> Filters:
        return Filters(
            type=request.type,
            tags=tuple(request.tags or ()),
            since=_moment(request.since, self._clock.wall()) if request.since is not None else None,
            archived=request.archived,
        )

    def get(self, request: GetRequest) -> Answer:
        """Read one memory. If it is not found while changes are pending, read again once they are indexed."""
        workers = flush_all(self._roots.named(request.root))
        try:
            return self._get(request, workers)
        except NotFoundError:
            late = self._behind(workers)
            if not late:
                raise
        looks = {worker.name: worker.submit(Job("rescan")) for worker in late}
        return gather(looks, lambda _: self._get(request, workers))  # on the last one's thread, which must not wait

    def _get(self, request: GetRequest, workers: list[Worker]) -> GetResult:
        asked, found = request.id, []
        for worker in workers:
            memory = self._read(worker, asked, strict=len(workers) == 1)
            if memory is not None:
                found.append((worker, memory))
        if not found:
            raise self._missing(asked, workers)
        if len(found) > 1:
            raise _ambiguous(asked, [(worker.name, memory.id) for worker, memory in found])
        worker, memory = found[0]
        if request.touch and not memory.archived:
            for identity in memory.entries or (memory.id,):
                worker.memories.note_read(memory.path, identity)
        if request.offset is not None:
            return memory.part(worker.name, request.offset)
        told = memory.whole(worker.name)
        if len(memory.raw) > SURELY_FITS and not fits(told):
            raise UsageError(
                f"{memory.id} has {len(memory.raw)} bytes, more than fit into one answer",
                hint="request its text in chunks: with `offset` 0, then with each `next_offset`",
                data={"offset": 0},
            )
        return told

    def _read(self, worker: Worker, asked: str, *, strict: bool) -> LoadedMemory | None:
        """Return the memory of one root, None if it has none. An error of one root does not hide the answers of the
        others unless `strict`."""
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
        """Return the workers with changes that are not indexed yet."""
        now = self._clock.monotonic()
        return [worker for worker in workers if worker.lag_ms(now) > 0]

    def _missing(self, asked: str, workers: list[Worker]) -> NotFoundError:
        error = not_found(asked, *(worker.name for worker in workers))
        if any(worker.store.journal.trash.find(asked) for worker in workers):
            error.hint = f"it was forgotten; `memoryd unarchive {redact(asked)}` brings it back"
        return error

    # --- storing

    def add(self, request: AddRequest) -> Answer:
        """Store one memory or several in one root."""
        workers = self._roots.named(request.root)
        if len(workers) != 1:
            names = ", ".join(worker.name for worker in workers)
            raise UsageError("specify the root to store in", hint=f"name it with --root; roots: {names}")
        return workers[0].submit(Job("memory.add", request))

    def change(self, job: str) -> Callable[[UpdateRequest | MemoryRequest], Answer]:
        """Return a handler that runs a job on one memory in the root that has it."""

        def handle(request: UpdateRequest | MemoryRequest) -> Answer:
            workers = self._roots.named(request.root)
            worker = workers[0] if len(workers) == 1 else self._owner(job, request.id, flush_all(workers))
            return worker.submit(Job(job, request))

        return handle

    def _owner(self, job: str, asked: str, workers: list[Worker]) -> Worker:
        """Return the one root that has the memory: live, or archived if it is to be restored."""
        having: list[tuple[Worker, str, bool]] = []
        for worker in workers:
            with worker.store.catalogue.reader() as catalogue:
                having += [(worker, place.id, place.live) for place in catalogue.places(asked)]
            having += [(worker, each.id, False) for each in worker.store.journal.trash.find(asked)]
        wanted = [each for each in having if each[2] != (job == "memory.unarchive")] or having
        owners = list({id(worker): worker for worker, *_ in wanted}.values())
        if not owners:
            raise self._missing(asked, workers)
        if len(owners) > 1:
            raise _ambiguous(asked, [(worker.name, identity) for worker, identity, _ in wanted])
        return owners[0]


def flush_all(workers: list[Worker]) -> list[Worker]:
    """Have workers index what they stored a moment ago, and return them. All are waited for together, at most
    `CATCH_UP_S` seconds."""
    late = [future for worker in workers for future in worker.flush()]
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
    """Parse a date, a timestamp or an age (`30d`, `12h`) to seconds since the epoch. Raises UsageError."""
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        return now - int(ago[1]) * _UNITS[ago[2]]
    stamp = parse_stamp(text.strip())
    if stamp is None:
        raise UsageError(
            "invalid --since value", hint="give a date such as 2026-01-31, a timestamp, or an age such as 30d or 12h"
        )
    return stamp.seconds
