"""Methods on memories. Reads run in the thread of the connection; changes go through the inbox of the root."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from memoryd.control.methods.memories import (
    AddRequest,
    Freshness,
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
from memoryd.core.query import Filters
from memoryd.disk.journal.database import JournalError
from memoryd.engine.jobs import Job
from memoryd.engine.worker import Worker
from memoryd.errors import BusyError, ConflictError, MemorydError, NotFoundError, RootMissingError, UsageError
from memoryd.operations.listing import LIMIT as LIST_LIMIT
from memoryd.operations.listing import list_memories
from memoryd.operations.lookup import LoadedMemory, read_memory
from memoryd.operations.search import LIMIT as SEARCH_LIMIT
from memoryd.operations.search import SearchQuery, ranks_by_points, search, similar_to_memory, similar_to_vector
from memoryd.operations.search_scope import SearchRoot, owners_in, user_in
from memoryd.search.modes import SearchEngine
from memoryd.search.periods import require_bound
from memoryd.search.rerank import Reranker
from memoryd.service.daemon import Daemon
from memoryd.service.futures import gather, run_in_thread
from memoryd.service.handlers.base import Handlers, Table, ambiguous

ALWAYS_FITS = 80_000  # bytes of a memory that fits into one reply even if every character is escaped


def memory_handlers(daemon: Daemon) -> Table:
    """Return the handlers of methods on memories."""
    methods = MemoryHandlers(daemon)
    return {
        "memory.search": methods.search,
        "memory.get": methods.get,
        "memory.list": methods.page,
        "memory.add": methods.add,
        "memory.update": methods.change("memory.update"),
        "memory.forget": methods.change("memory.forget"),
        "memory.unarchive": methods.change("memory.unarchive"),
    }


Found = TypeVar("Found", SearchResult, ListResult)


class MemoryHandlers(Handlers):
    """Methods on memories."""

    def __init__(self, daemon: Daemon) -> None:
        super().__init__(daemon)
        self._clock = daemon.clock

    # --- reading

    def search(self, request: SearchRequest) -> Answer:
        """Search the catalogues of the requested roots; on a thread of its own if a slow model ranks the results
        again."""
        roots, user, similar = self._search_roots(request), request.user, request.similar
        like, excluded = (None if request.vector is None else similar_to_vector(request.vector)), None
        if similar is not None:
            user = user_in(owners_in(roots), similar) if user is None else user
            like, excluded = similar_to_memory(roots, similar, user)
        query = SearchQuery(
            query=request.query or "",
            filters=self._filters(request),
            mode=request.mode or "hybrid",
            limit=request.limit or SEARCH_LIMIT,
            max_tokens=request.max_tokens,
            user=user,
            like=like,
            excluded=excluded,
            rerank_required=request.rerank is not None,
            min_score=request.min_score or 0.0,
        )
        engine = SearchEngine(self._roots.models.meaning)
        now, clock = self._clock.wall(), self._clock.monotonic
        reranker = self._reranker(request, roots)
        found = partial(search, roots, query, now=now, clock=clock, engine=engine, reranker=reranker)

        def work() -> SearchResult:
            return self._note_failed(request, found())

        if reranker is not None and not reranker.fast:
            return run_in_thread("memoryd-rerank", work)
        with self._roots.searches.searching():
            return work()

    def _reranker(self, request: SearchRequest, roots: Sequence[SearchRoot]) -> Reranker | None:
        """Return what ranks the hits of this search again, if anything. Raises UsageError if nothing can."""
        mode = request.mode or "hybrid"
        possible = request.query is not None and mode != "text"
        if request.rerank == "minilm" and not possible:
            raise UsageError("rerank: needs a query, and the mode hybrid or semantic")
        both = mode == "hybrid" and not any(map(ranks_by_points, roots))
        return self._roots.models.reranker(request.rerank, both=both) if possible else None

    def page(self, request: ListRequest) -> ListResult:
        """List a page of memories that fits into one reply."""
        limit = request.limit or LIST_LIMIT
        filters, roots = self._filters(request), self._search_roots(request)
        while True:
            months = request.months
            page = list_memories(roots, filters, user=request.user, limit=limit, cursor=request.cursor, months=months)
            if limit == 1 or fits(page):
                return self._note_failed(request, page)
            limit //= 2  # truncated by the protocol, the page would end before its cursor

    def _note_failed(self, request: SearchRequest | ListRequest, result: Found) -> Found:
        """Name the roots that could not be started: without them the answer would look complete."""
        for each in self._roots.broken() if request.root is None and request.roots is None else ():
            result.fresh[each.name] = Freshness(
                state="unknown", generation=0, lag_ms=0, reason="failed", withheld=f"all: {each.reason}"
            )
        return result

    def _search_roots(self, request: SearchRequest | ListRequest) -> list[SearchRoot]:
        """Return the roots to search, with the state and lag of their indexes."""
        workers = self._workers_for(request)
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

    def _workers_for(self, request: SearchRequest | ListRequest) -> list[Worker]:
        """Flush and return the workers of the requested roots, each once."""
        vectors = isinstance(request, SearchRequest) and (request.mode != "text" or request.query is None)
        if request.root is not None or request.roots is None:
            return self.flush_all(self._roots.readable(request.root), vectors=vectors)
        named = dict.fromkeys(request.roots)
        return self.flush_all([worker for name in named for worker in self._roots.readable(name)], vectors=vectors)

    def _filters(self, request: SearchRequest | ListRequest) -> Filters:
        now = self._clock.wall()
        return Filters(
            type=request.type,
            tags=tuple(request.tags or ()),
            since=require_bound("since", request.since, now) if request.since is not None else None,
            until=require_bound("until", request.until, now) if request.until is not None else None,
            archived=request.archived,
        )

    def get(self, request: GetRequest) -> Answer:
        """Read one memory. If it is not found while changes are pending, or a root starts, read again once they are
        indexed."""
        workers = self.flush_all(self._roots.readable(request.root))
        lagging = self._lagging(workers)
        try:
            return self._get(request, workers)
        except (NotFoundError, RootMissingError, JournalError):
            lagging = list(dict.fromkeys([*lagging, *self._lagging(workers)]))
            if not lagging:
                raise
        rescans = {worker.name: worker.submit(Job("rescan")) for worker in lagging}
        return gather(rescans, lambda _: self._get_again(request, [*map(self._roots.current, workers)]))

    def _get_again(self, request: GetRequest, workers: list[Worker]) -> GetResult:
        """Read one memory; on a worker's thread, which must not wait. Raises BusyError if it is not found while a
        reload restarts a root once more."""
        ready = all(worker.ready.is_set() for worker in workers)
        try:
            return self._get(request, workers)
        except (NotFoundError, RootMissingError, JournalError) as error:
            if ready and not any(worker.ends for worker in workers):
                raise
            raise BusyError("roots are being restarted by a reload", hint="try again in a moment") from error

    def _get(self, request: GetRequest, workers: list[Worker]) -> GetResult:
        worker, memory = self._find(request.id, workers)
        if request.touch and not memory.archived:
            for entry in memory.entries or filter(None, (memory.record_id,)):
                worker.note_read(memory.path, entry)
        if request.offset is not None:
            return memory.part(worker.name, request.offset)
        result = memory.whole(worker.name)
        if len(memory.raw) > ALWAYS_FITS and not fits(result):
            raise UsageError(
                f"{memory.id} has {len(memory.raw)} bytes, more than fit into one answer",
                hint="request its text in chunks: with `offset` 0, then with each `next_offset`",
                data={"offset": 0},
            )
        return result

    def _find(self, identity: str, workers: list[Worker]) -> tuple[Worker, LoadedMemory]:
        """Return the only memory with this id, and the worker of its root. Raises ConflictError if there are several,
        and the error that tells best why there is none."""
        matches: list[tuple[Worker, LoadedMemory]] = []
        refused: list[tuple[Worker, MemorydError]] = []
        for worker in workers:
            try:
                memory = self._read(worker, identity)
            except ConflictError:
                raise
            except MemorydError as error:  # it must not hide results from other roots
                refused.append((worker, error))
                continue
            if memory is not None:
                matches.append((worker, memory))
        if not matches:
            raise self._refusal(identity, workers, refused)
        if len(matches) > 1:
            raise ambiguous(identity, [(worker.name, memory.id) for worker, memory in matches])
        return matches[0]

    def _read(self, worker: Worker, identity: str) -> LoadedMemory | None:
        """Return the memory from one root, None if the root does not have it. Raises the error of a root that cannot be
        read now."""
        worker.root.health.require("memory.get")
        return read_memory(worker.store, identity, self._clock.wall())

    def _refusal(
        self, identity: str, workers: list[Worker], refused: list[tuple[Worker, MemorydError]]
    ) -> MemorydError:
        """Return why no root gives the memory: the error of a root that has it, as far as is known, but cannot be read
        now, or of the only root; else that there is none."""
        for worker, error in refused:
            if len(workers) == 1 or self._is_known(worker, identity):
                return error
        return self.not_found(identity, workers)

    @staticmethod
    def _is_known(worker: Worker, identity: str) -> bool:
        try:
            with worker.store.catalogue.reader() as catalogue:
                return bool(catalogue.places(identity))
        except MemorydError:
            return False  # its index cannot be read either

    def _lagging(self, workers: list[Worker]) -> list[Worker]:
        """Return the workers with changes that are not indexed yet, also those before the first check or at the end."""
        now = self._clock.monotonic()
        return [worker for worker in workers if worker.lag_ms(now) > 0 or worker.ends or not worker.ready.is_set()]

    # --- writing

    def add(self, request: AddRequest) -> Answer:
        """Store one memory or several in one root."""
        workers = self._roots.named(request.root)
        failed = self._roots.broken() if request.root is None else []
        if not workers and not failed:
            raise UsageError("there is no root to store in", hint="add one with `memoryd root add DIRECTORY`")
        if not workers and len(failed) == 1:
            raise failed[0].error()
        if len(workers) + len(failed) != 1:  # the only root that works need not be the one that is meant
            names = ", ".join([*(each.name for each in workers), *(each.name for each in failed)])
            raise UsageError("specify the root to store in", hint=f"name it with --root; roots: {names}")
        return workers[0].submit(Job("memory.add", request))

    def change(self, job: str) -> Callable[[UpdateRequest | MemoryRequest], Answer]:
        """Return a handler that runs a job on one memory in the root that has it."""

        def handle(request: UpdateRequest | MemoryRequest) -> Answer:
            workers = self._roots.named(request.root)
            if len(workers) != 1:
                find = partial(self.owner, job, request.id)
                workers = [self.read(request.root, lambda found: find(self.flush_all(found)))]
            return workers[0].submit(Job(job, request))

        return handle
