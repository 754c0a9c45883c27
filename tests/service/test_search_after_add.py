"""Before somebody looks: what was stored a moment ago is taken in, but never waited for long, nor by a worker."""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import to_builtins

from memoryd.config.settings import Config
from memoryd.control.methods.memories import AddRequest, ListRequest
from memoryd.control.methods.method_types import Result
from memoryd.control.methods.status import SyncRequest
from memoryd.disk.daemon_lock import lock_directory
from memoryd.disk.tree import Tree
from memoryd.engine import backfill
from memoryd.engine import memories as engine_memories
from memoryd.engine.inbox import Pace
from memoryd.engine.interfaces import Clock
from memoryd.engine.jobs import OPERATIONS, Job
from memoryd.engine.root import Root
from memoryd.engine.worker import Worker
from memoryd.errors import AlreadyRunningError, BusyError
from memoryd.operations.offline import dedupe_path
from memoryd.operations.root_check import RootCheck
from memoryd.service.daemon import Daemon
from memoryd.service.handlers import base
from memoryd.service.handlers.base import Handlers
from memoryd.service.handlers.memories import MemoryHandlers
from memoryd.service.roots import STOP_S, Roots
from memoryd.service.schedule import job_rows
from memoryd.service.timetable import Timetable
from memoryd.store import Store
from tests.daemon import until
from tests.engine.numbers import Numbers
from tests.engine.silent import SILENT, worker_of
from tests.layouts.samples import learning, lines
from tests.operations.world import LEARNINGS, World
from tests.service.test_search_models import configured


def handlers(delivered: Callable[[], object] = lambda: None) -> Handlers:
    """Handlers of a daemon whose watcher only calls `delivered` for events to be delivered."""
    roots = SimpleNamespace(watcher=SimpleNamespace(deliver=delivered))
    return Handlers(cast("Daemon", SimpleNamespace(roots=roots)))


def a_worker(*flushes: Future[dict[str, Any]], waited: list[float] | None = None) -> Worker:
    """A worker whose memories are behind, until all of `flushes` are done. `waited`: seconds for closed files."""
    inbox = SimpleNamespace(await_closed=(waited if waited is not None else []).append)
    return cast("Worker", SimpleNamespace(flush=lambda vectors: [*flushes], inbox=inbox, ends=False))


def test_many_busy_roots_are_waited_for_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "FLUSH_WAIT_S", 0.2)
    began = time.monotonic()
    assert len(handlers().flush_all([a_worker(Future()) for _ in range(200)])) == 200
    assert 0.15 < time.monotonic() - began < 20, "one after the other they would take 40 s"


def test_nothing_is_waited_for_where_nothing_was_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = a_worker()
    monkeypatch.setattr(base, "wait", None)  # a call would fail
    assert handlers().flush_all([idle]) == [idle]


def test_a_memory_is_listed_though_a_reload_ends_the_worker_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PAUSE_S", "MAX_PAUSE_S", "BATCH_S"):
        monkeypatch.setattr(engine_memories, name, 1e6)  # only a question or the end makes it known
    roots = Roots(str(tmp_path / "state"), Clock(), lambda: None)  # not started: an event would make it known as well
    try:
        config = configured(tmp_path, "off")
        roots.apply(config, Pace(), ["memories"], ())
        [worker] = roots.all()
        job = Job("memory.add", AddRequest(memory={"type": "learning", "content": "Stored before a reload."}))
        told = to_builtins(worker.submit(job).result())

        asked = threading.Event()
        successor, end = roots.successor, worker.root.end

        def wait_for_successor(ended: Worker) -> Worker:
            asked.set()
            return successor(ended)

        def end_late() -> None:
            asked.wait(STOP_S)
            end()

        def reload() -> None:
            with roots.changing():
                roots.apply(config, Pace(), ["memories"], ())

        reloading = threading.Thread(target=reload)

        def refused(*, vectors: bool) -> list[Future[Result]]:
            reloading.start()
            until(lambda: worker.ends, "the worker takes no more work")
            return Worker.flush(worker, vectors=vectors)

        monkeypatch.setattr(roots, "successor", wait_for_successor)
        monkeypatch.setattr(worker.root, "end", end_late)
        monkeypatch.setattr(worker, "flush", refused)
        daemon = cast("Daemon", SimpleNamespace(roots=roots, clock=Clock()))
        page = MemoryHandlers(daemon).page(ListRequest())
        reloading.join()
        assert told["id"] in [memory.id for memory in page.memories]
    finally:
        roots.stop()


def test_closed_files_of_many_roots_are_not_waited_for_longer_than_those_of_one() -> None:
    for many in (1, 200):
        waited: list[float] = []
        handlers(partial(waited.append, 0.0)).flush_all([a_worker(waited=waited) for _ in range(many)])
        assert sum(waited) == pytest.approx(base.CLOSED_WAIT_S)
        assert waited.index(0.0) == 0, "events come first, and once for all roots"
        assert waited.count(0.0) == 1


def test_what_another_daemon_tends_is_not_even_opened(tmp_path: Path) -> None:
    root, state = tmp_path / "root", tmp_path / "state"
    root.mkdir()
    (root / LEARNINGS).write_bytes(lines(learning(1)))
    with Tree(str(root)) as tree, lock_directory(tree.fd, tree.path), pytest.raises(AlreadyRunningError):
        dedupe_path(str(root), 0.0, Config(), state_dir=str(state), threshold=None, dry_run=True)
    assert not state.exists(), "its journal is open in its daemon alone"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def tending(world: World) -> Root:
    world.write(LEARNINGS, lines(learning(1)))
    made = Root(world.store, Clock(), SILENT, SILENT, lambda *_: None)
    made.begin()
    assert world.store.catalogue.file(LEARNINGS) is not None
    return made


def test_a_question_does_not_wait_for_the_lock_that_a_command_waits_for(world: World) -> None:
    """An agent has it, and a memory that was stored before waits for the catalogue."""
    world.write(LEARNINGS, lines(learning(1)))
    worker = worker_of(world)
    worker.root.begin()
    worker.memories.perform(Job("memory.add", AddRequest(memory={"type": "learning", "content": "zebra"})))
    assert worker.memories.behind is not None
    (asked,) = worker.flush(vectors=False)
    with open(world.root / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(BusyError), world.store.locked(0.05):
            pass
    assert to_builtins(asked.result(timeout=0)) == {}
    assert worker.flush(vectors=False) == []
    row = world.store.catalogue.file(LEARNINGS)
    assert row is not None
    assert row.records == 2


@pytest.mark.parametrize("state", ["suspect", "missing", "failed"])
def test_a_root_in_doubt_is_not_read_for_what_was_stored_before(world: World, tending: Root, state: str) -> None:
    """Missing is not empty: whose files stand there now is not known."""
    (world.root / LEARNINGS).unlink()
    tending.health.check = RootCheck(state, "another directory")
    tending.index_own([LEARNINGS])
    assert world.store.catalogue.file(LEARNINGS) is not None
    tending.health.check = RootCheck("ok")
    tending.index_own([LEARNINGS])
    assert world.store.catalogue.file(LEARNINGS) is None


def test_a_full_reading_of_events_with_the_longest_names_is_many() -> None:
    inotify = pytest.importorskip("watchdog.observers.inotify_c")
    ours = pytest.importorskip("memoryd.service.watching.inotify")
    longest = inotify.EVENT_SIZE + 256
    assert inotify.DEFAULT_EVENT_BUFFER_SIZE // longest >= ours.READ_EVENTS


def test_while_the_daemon_ends_its_jobs_are_told(world: World) -> None:
    world.write(LEARNINGS, lines(learning(1)))
    worker = worker_of(world)
    timetable = cast("Timetable", SimpleNamespace(next_run=lambda *_: None))
    worker.start()
    assert worker.ready.wait(30)
    before = [row.name for row in job_rows(worker, timetable, world.now)]
    assert worker.stop(30)
    assert [row.name for row in job_rows(worker, timetable, world.now)] == before


def test_a_question_waits_for_the_vectors_that_a_sync_did_not_wait_for(world: World) -> None:
    held, asked = threading.Event(), threading.Event()
    held.set()

    def embed_later(texts: Sequence[str]) -> None:
        asked.set()
        assert held.wait(20)

    world.write(LEARNINGS, lines(learning(1)))
    embedder = Numbers(fast=True, before=embed_later)
    worker = Worker(world.store, Pace(), Clock(), SILENT, SILENT, lambda *_: None, embedder=embedder)
    worker.start()
    try:
        assert worker.ready.wait(20)
        held.clear()
        world.write(LEARNINGS, lines(learning(1), learning(2)))
        asked.clear()
        assert worker.submit(Job("sync", SyncRequest())).result(20) is not None
        assert worker.flush(vectors=False) == []
        (flushed,) = worker.flush(vectors=True)
        assert asked.wait(20)
        assert not flushed.done()
        held.set()
        assert to_builtins(flushed.result(20)) == {}
        assert worker.flush(vectors=True) == []
    finally:
        held.set()
        assert worker.stop(20)


def test_no_question_waits_for_a_long_command_that_follows_a_sync(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vectors that the sync left are made first."""
    left: list[bool] = []
    check = OPERATIONS["check"]

    def look(store: Store, job: Job, now: float) -> Result:
        left.append(worker.root.backfill.deferred)
        return check(store, job, now)

    monkeypatch.setitem(cast("dict[str, object]", OPERATIONS), "check", look)
    monkeypatch.setattr(backfill, "LATER_S", 600.0)
    world.write(LEARNINGS, lines(learning(1)))
    worker = Worker(world.store, Pace(), Clock(), SILENT, SILENT, lambda *_: None, embedder=Numbers(fast=True))
    worker.start()
    try:
        assert worker.ready.wait(20)
        world.write(LEARNINGS, lines(learning(1), learning(2)))
        worker.submit(Job("sync", SyncRequest())).result(20)
        assert worker.root.backfill.deferred
        worker.submit(Job("check")).result(20)
        assert left == [False]
    finally:
        assert worker.stop(20)
