"""What the first search by meaning needs is loaded before, but only while nobody waits for anything."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from memoryd.core.vectors import pack_floats
from memoryd.engine.worker import Worker
from memoryd.index.sqlite.vectors import Vectors
from memoryd.search.embedding.embedder import Embedder
from memoryd.search.semantic import SemanticSearch
from memoryd.service.roots import Roots
from memoryd.service.warm_up import MAX_LOAD, QUIET_S, WarmUp
from tests.engine.silent import worker_of
from tests.layouts.samples import learning, lines
from tests.operations.world import LEARNINGS, World


class Lengths:
    """An embedder: a text's length. `before` is called with each batch, and may wait."""

    name, size, idle_s = "lengths", 2, 1.0

    def __init__(self, *, fast: bool = True) -> None:
        self.fast = fast
        self.calls = 0
        self.before: Callable[[], None] = lambda: None

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        self.before()
        self.calls += 1
        return [pack_floats([len(text), 1]) for text in texts]

    def release(self) -> None:
        pass


class Machine:
    """The daemon as the warm-up sees it, with one root that has a memory."""

    def __init__(self, worker: Worker, embedder: Embedder | None) -> None:
        self.workers = [worker]
        self.requests = 0
        self.load = 0.0
        self.roots = SimpleNamespace(all=lambda: self.workers, meaning=SemanticSearch(embedder))
        self.warm_up = WarmUp(cast("Roots", self.roots), lambda: self.requests, lambda: self.load)

    def warms(self, *times: float) -> bool:
        """Whether a step at one of these times starts the thread, which is awaited."""
        started = [thread for thread in map(self.warm_up.step, times) if thread is not None]
        for thread in started:
            thread.join(30)
            assert not thread.is_alive()
        return bool(started)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.write(LEARNINGS, lines(learning(1), learning(2)))
    yield made
    made.store.close()


@pytest.fixture
def worker(world: World) -> Worker:
    """With a root that was looked at; its thread does not run."""
    made = worker_of(world)
    made.root.begin()
    made.ready.set()
    return made


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many vectors each matrix loaded at once."""
    made: list[int] = []
    load = Vectors.load

    def counting(self: Vectors, model: str, after: int) -> Iterator[tuple[int, bytes]]:
        found = list(load(self, model, after))
        made.append(len(found))
        return iter(found)

    monkeypatch.setattr(Vectors, "load", counting)
    return made


def fill(worker: Worker, embedder: Lengths) -> None:
    rows = worker.store.catalogue.missing_vectors(embedder.name, 0, 100)
    vectors = embedder.embed([text for _, text in rows])
    worker.store.catalogue.put_vectors(
        embedder.name, [(key, vector) for (key, _), vector in zip(rows, vectors, strict=True)]
    )


def test_once_it_is_quiet_the_vectors_are_loaded_once(worker: Worker, loaded: list[int]) -> None:
    embedder = Lengths()
    fill(worker, embedder)
    machine = Machine(worker, embedder)
    assert not machine.warms(100.0, 100.0 + QUIET_S - 0.1)
    assert machine.warm_up.is_near()
    machine.load = MAX_LOAD + 0.1
    assert not machine.warm_up.is_near()
    machine.load = 0.0
    assert loaded == []
    assert machine.warms(100.0 + QUIET_S)
    assert loaded == [2]
    assert embedder.calls == 2
    assert not machine.warms(200.0, 300.0), "the same roots"
    assert not machine.warm_up.is_near(), "the main loop need not wake up for it"
    assert loaded == [2]


def test_a_daemon_without_vectors_loads_nothing(worker: Worker) -> None:
    assert not Machine(worker, None).warms(100.0, 200.0)
    slow = Lengths(fast=False)
    assert not Machine(worker, slow).warms(100.0, 200.0), "hundreds of megabytes, or a server that is paid"
    assert slow.calls == 0


def test_an_empty_root_loads_nothing(world: World, worker: Worker, loaded: list[int]) -> None:
    world.store.catalogue.clear()
    embedder = Lengths()
    assert Machine(worker, embedder).warms(100.0, 200.0)
    assert embedder.calls == 0
    assert loaded == []


def test_whatever_happens_puts_it_off(worker: Worker) -> None:
    machine = Machine(worker, Lengths())
    machine.warms(100.0)
    machine.requests += 1
    assert not machine.warms(100.0 + QUIET_S)
    worker.root.last_change += 1
    assert not machine.warms(100.0 + 2 * QUIET_S)
    worker.step = "indexing"
    assert not machine.warms(100.0 + 3 * QUIET_S, 100.0 + 4 * QUIET_S)
    worker.step = "idle"
    worker.ready.clear()
    assert not machine.warms(100.0 + 5 * QUIET_S, 100.0 + 6 * QUIET_S)
    worker.ready.set()
    machine.load = MAX_LOAD + 0.1
    assert not machine.warms(100.0 + 7 * QUIET_S, 100.0 + 8 * QUIET_S)
    machine.load = MAX_LOAD
    assert machine.warms(100.0 + 9 * QUIET_S)


def test_after_a_change_of_the_roots_it_is_done_again(tmp_path: Path, worker: Worker) -> None:
    machine = Machine(worker, Lengths())
    assert machine.warms(100.0, 200.0)
    other = World(tmp_path / "other")
    machine.workers = [worker, worker_of(other)]
    machine.workers[1].root.begin()
    machine.workers[1].ready.set()
    assert not machine.warms(300.0)
    assert machine.warms(400.0)
    other.store.close()


def test_no_stop_waits_for_it(worker: Worker) -> None:
    embedder, began, go_on = Lengths(), threading.Event(), threading.Event()
    fill(worker, embedder)

    def wait() -> None:
        began.set()
        go_on.wait(30)

    embedder.before = wait
    machine = Machine(worker, embedder)
    assert machine.warm_up.step(100.0) is None
    thread = machine.warm_up.step(200.0)
    assert thread is not None
    assert thread.daemon, "nor does the end of the process"
    assert began.wait(30)
    assert worker.stop(30)
    worker.root.end()
    go_on.set()
    thread.join(30)
    assert not thread.is_alive()


def test_a_root_that_ended_is_left_out(worker: Worker) -> None:
    embedder = Lengths()
    assert worker.stop(30)
    worker.root.end()
    assert Machine(worker, embedder).warms(100.0, 200.0)
    assert embedder.calls == 0
