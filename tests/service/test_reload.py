"""What clients are answered while a reload restarts or removes the roots they ask."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from memoryd.config.load import load
from memoryd.config.places import Places
from memoryd.config.settings import Config
from memoryd.control.methods.memories import AddRequest, ListRequest
from memoryd.control.methods.method_types import Result
from memoryd.disk.journal.database import JournalError
from memoryd.engine.inbox import Pace
from memoryd.engine.interfaces import Clock
from memoryd.engine.jobs import OPERATIONS, Job
from memoryd.engine.worker import Worker
from memoryd.errors import BusyError, RootMissingError, ShuttingDownError, UnknownRootError, UsageError
from memoryd.service.daemon import Daemon
from memoryd.service.handlers.memories import MemoryHandlers
from memoryd.service.roots import Roots
from memoryd.store import Store
from tests.daemon import PATIENCE_S, until
from tests.layouts.samples import learning, lines
from tests.operations.world import LEARNINGS

MEMORY = {"type": "learning", "content": "Stored during a reload."}


@pytest.fixture
def config(tmp_path: Path) -> Config:
    tables = []
    for number, name in enumerate(("a", "b"), 1):
        (tmp_path / name).mkdir()
        (tmp_path / name / LEARNINGS).write_bytes(lines(learning(number)))
        tables.append(f'[[root]]\npath = "{tmp_path / name}"\nlayout = "jsonl-store"\n')
    path = tmp_path / "config.toml"
    path.write_text("\n".join(tables))
    return load(Places(str(path), str(tmp_path / "state"), str(tmp_path / "socket"), str(path)))


@pytest.fixture
def roots(tmp_path: Path, config: Config) -> Iterator[Roots]:
    made = Roots(str(tmp_path / "state"), Clock(), lambda: None)
    made.apply(config, Pace(), ["a", "b"], ())
    for worker in made.all():
        assert worker.ready.wait(PATIENCE_S)
    yield made
    made.stop()


@pytest.fixture
def reload(roots: Roots, config: Config, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A reload that restarts both roots, or removes some; while the block runs, the first of them does not end."""

    @contextmanager
    def reloading(*removed: str) -> Iterator[Worker]:
        first, goes_on = roots.named(removed[0] if removed else "a")[0], threading.Event()
        end = first.root.end
        monkeypatch.setattr(first.root, "end", lambda: (goes_on.wait(PATIENCE_S), end()))

        def apply() -> None:
            with roots.changing():
                roots.apply(config, Pace(), [name for name in ("a", "b") if name not in removed], removed)

        thread = threading.Thread(target=apply)
        thread.start()
        until(lambda: first.ends, "the reload has begun")
        try:
            monkeypatch.setattr("memoryd.service.roots.CHANGE_S", 0.0)
            yield first
        finally:
            goes_on.set()
            thread.join()

    return reloading


def handlers(roots: Roots) -> MemoryHandlers:
    return MemoryHandlers(cast("Daemon", SimpleNamespace(roots=roots, clock=Clock())))


def test_a_memory_is_not_stored_in_another_root_while_its_own_restarts(roots: Roots, reload: Any) -> None:
    """With one root there is no doubt where it belongs; with two there is."""
    with reload(), pytest.raises(UsageError, match="specify the root"):
        handlers(roots).add(AddRequest(memory=MEMORY))


def test_no_answer_leaves_out_a_root_that_restarts(roots: Roots, reload: Any) -> None:
    with reload(), pytest.raises(BusyError, match="root a is being restarted"):
        handlers(roots).page(ListRequest())
    assert {memory.root for memory in handlers(roots).page(ListRequest()).memories} == {"a", "b"}


def test_a_command_waits_for_its_root_to_restart(roots: Roots, reload: Any) -> None:
    with reload() as worker:
        early = worker.submit(Job("memory.add", AddRequest(memory=MEMORY)))
    late = worker.submit(Job("memory.add", AddRequest(memory=MEMORY)))
    assert roots.named("a") != [worker]
    for future in (early, late):
        assert cast("Any", future.result(PATIENCE_S)).receipt


def test_a_command_that_a_reload_stops_is_begun_again(
    roots: Roots, reload: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, begun = OPERATIONS["plan"], threading.Event()

    def stopped(store: Store, job: Job, now: float) -> Result:
        if store is not worker.store:
            return plan(store, job, now)
        begun.set()
        assert store.stopping.wait(PATIENCE_S)
        raise ShuttingDownError("memoryd is shutting down")

    [worker] = roots.named("a")
    monkeypatch.setitem(cast("Any", OPERATIONS), "plan", stopped)
    future = worker.submit(Job("plan"))
    assert begun.wait(PATIENCE_S)
    with reload():
        assert not future.done()
    assert cast("Any", future.result(PATIENCE_S)).actions


def test_a_command_to_a_root_that_is_removed_is_told_so(roots: Roots, reload: Any) -> None:
    with reload("a") as worker:
        early = worker.submit(Job("sync"))
    for future in (early, worker.submit(Job("sync"))):
        with pytest.raises(UnknownRootError, match="no root 'a' any more"):
            future.result(PATIENCE_S)


def test_a_command_to_a_root_that_cannot_restart_is_told_why(
    roots: Roots, reload: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Store:
        raise JournalError("the journal is damaged")

    with reload() as worker:
        future = worker.submit(Job("sync"))
        monkeypatch.setattr("memoryd.service.roots.Store", refuse)
    with pytest.raises(RootMissingError, match="the journal is damaged"):
        future.result(PATIENCE_S)
    assert [broken.name for broken in roots.broken()] == ["a", "b"]
