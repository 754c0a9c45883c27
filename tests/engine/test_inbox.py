"""One turn at a time, whoever has it; nothing that waits is forgotten, whoever brought it."""

from __future__ import annotations

import errno
import fcntl
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from memoryd.engine.clock import Clock
from memoryd.engine.hints import Hints
from memoryd.engine.inbox import Inbox, Pace, Turn
from memoryd.engine.jobs import Job
from memoryd.engine.memories import STORING
from memoryd.engine.worker import Worker
from memoryd.errors import GuardError, RootMissingError, ShuttingDownError
from tests.daemon import until
from tests.layouts.samples import learning, lines
from tests.operations.world import LEARNINGS, World

NEVER = float("inf")
SOON_S = 5.0  # more than anything here takes


class Resting:
    """A worker that only waits: what it gets is in `turns`, and `go` lets it ask for the next."""

    def __init__(self, due: Callable[[], float] = lambda: NEVER) -> None:
        self.inbox = Inbox(Pace(), Clock(), due, lambda: 0.0)
        self.turns: list[Turn | None] = []
        self._go = threading.Semaphore(1)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        until(lambda: self.inbox._sleeps_until < NEVER, "it rests")

    def _run(self) -> None:
        while not (self.turns and self.turns[-1] is None):
            self._go.acquire()
            self.turns.append(self.inbox.next())

    def go(self) -> None:
        self._go.release()

    def end(self) -> None:
        self.inbox.end()
        self._go.release(2)
        self._thread.join(SOON_S)
        assert not self._thread.is_alive()


@pytest.fixture
def resting() -> Iterator[Resting]:
    made = Resting()
    yield made
    made.inbox.give_back()
    made.end()


def commands(resting: Resting) -> list[str]:
    return [turn.command.name for turn in resting.turns if turn is not None and turn.command is not None]


def test_nobody_else_has_a_borrowed_turn(resting: Resting) -> None:
    assert resting.inbox.borrow()
    assert not resting.inbox.borrow()
    resting.inbox.submit(Job("sync"))
    time.sleep(0.05)  # nothing may happen, and nothing tells that it did not
    assert resting.turns == []
    resting.inbox.give_back()
    until(lambda: commands(resting) == ["sync"], "what came meanwhile is done")


def test_no_turn_is_lent_while_the_worker_has_it(resting: Resting) -> None:
    resting.inbox.submit(Job("sync"))
    until(lambda: len(resting.turns) == 1, "it is at work")
    assert not resting.inbox.borrow()
    resting.go()
    until(resting.inbox.borrow, "it rests again")


def test_no_turn_is_lent_before_the_first_look() -> None:
    assert not Inbox(Pace(), Clock(), lambda: NEVER, lambda: 0.0).borrow()


def test_what_waits_comes_first(resting: Resting) -> None:
    assert resting.inbox.borrow()
    for name in ("plan", "check"):
        resting.inbox.submit(Job(name))
    resting.inbox.submit(Job("memory.add"), first=True)
    resting.inbox.give_back()
    resting.go()
    resting.go()
    until(lambda: commands(resting) == ["memory.add", "plan", "check"], "in this order")


def test_no_turn_is_lent_where_something_is_due() -> None:
    at = [NEVER]
    resting = Resting(lambda: at[0])
    assert resting.inbox.borrow()
    at[0] = time.monotonic() - 1
    resting.inbox.give_back()
    until(lambda: resting.turns == [Turn()], "the worker is woken for it")
    assert not resting.inbox.borrow()
    resting.end()


def test_the_end_waits_for_whoever_has_the_turn() -> None:
    resting = Resting()
    assert resting.inbox.borrow()
    resting.inbox.end()
    time.sleep(0.05)  # nothing may happen, and nothing tells that it did not
    assert resting.turns == []
    resting.inbox.give_back()
    until(lambda: resting.turns == [None], "then it is over")
    assert not resting.inbox.borrow()
    with pytest.raises(ShuttingDownError):
        resting.inbox.submit(Job("sync")).result(timeout=0)


def test_changes_that_never_cease_do_not_hold_up_a_job() -> None:
    inbox = Inbox(Pace(settle_s=0.0, settle_cap_s=0.0), Clock(), lambda: NEVER, lambda: -NEVER)
    seen = []
    for _ in range(4):
        inbox.touch("a")
        inbox.fall_due("backup")
        turn = inbox.next()
        assert turn is not None
        seen.append("batch" if turn.batch else turn.scheduled.name if turn.scheduled else "")
    assert seen == ["batch", "backup", "batch", "backup"]


# --- storing by whoever brings it


class Silent:
    """Hints that lead nowhere."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: (0, 0) if name == "coverage" else None


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.write(LEARNINGS, lines(learning(1)))
    return made


@pytest.fixture
def worker(world: World) -> Iterator[Worker]:
    made = Worker(world.store, Pace(), Clock(), cast("Hints", Silent()), lambda *_: None)
    made.start()
    assert made.ready.wait(SOON_S)
    yield made
    assert made.stop(SOON_S)


def adding(content: str = "zebra") -> tuple[Job, list[int]]:
    """A job, and the threads that have answered it."""
    job, by = Job("memory.add", {"memory": {"type": "learning", "content": content}}), list[int]()
    job.future.add_done_callback(lambda _: by.append(threading.get_ident()))
    return job, by


def test_a_memory_is_stored_by_the_thread_that_brings_it(world: World, worker: Worker) -> None:
    us = threading.get_ident()

    def stored() -> bool:
        job, by = adding()
        worker.store_now(job)
        assert job.future.result(SOON_S)["receipt"]
        return by == [us]

    until(stored, "the worker rests")
    assert b"zebra" in (world.root / LEARNINGS).read_bytes()
    until(lambda: worker.memories.behind is None, "the worker takes it in without being asked")


def test_where_another_program_has_the_lock_nobody_waits_but_the_worker(world: World, worker: Worker) -> None:
    before = (world.root / LEARNINGS).read_bytes()
    with open(world.root / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        until(worker._inbox.borrow, "the worker rests")
        worker._inbox.give_back()
        job, by = adding()
        worker.store_now(job)
        assert not job.future.done()
        assert (world.root / LEARNINGS).read_bytes() == before
    assert job.future.result(SOON_S)["receipt"]
    assert by == [worker._thread.ident]
    assert (world.root / LEARNINGS).read_bytes().count(b"zebra") == 1


def test_a_refusal_is_an_answer_as_well(worker: Worker) -> None:
    job = Job("memory.add", {"memory": {"type": "learning"}})
    worker.store_now(job)
    error = job.future.exception(SOON_S)
    assert "content" in str(error)
    job, _ = adding()
    worker.store_now(job)
    assert job.future.result(SOON_S)["receipt"]


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "read_only"),
        (sqlite3.OperationalError("database is locked"), "read_only"),
        (GuardError("not now"), "degraded"),
        (RuntimeError("a bug"), "degraded"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_whatever_goes_wrong_is_told_and_the_turn_given_back(
    error: Exception, state: str, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that refuses is tried again by the worker."""

    def fail(*_: object) -> None:
        raise error

    until(worker._inbox.borrow, "the worker rests")
    worker._inbox.give_back()
    with monkeypatch.context() as patch:
        patch.setitem(STORING, "memory.add", fail)
        job, by = adding()
        worker.store_now(job)
    assert job.future.exception(SOON_S) is not None
    assert by == [threading.get_ident()]
    assert worker.status.state == state
    until(lambda: worker.status.state == "degraded", "it is tried again, and as well as a root can be without events")
    job, _ = adding()
    worker.store_now(job)
    assert job.future.result(SOON_S)["receipt"]


def test_a_root_that_went_is_looked_at_by_the_worker(world: World, worker: Worker) -> None:
    until(worker._inbox.borrow, "the worker rests")
    world.root.rename(world.root.with_name("away"))
    worker._inbox.give_back()
    job, by = adding()
    worker.store_now(job)
    assert isinstance(job.future.exception(SOON_S), RootMissingError)
    assert by == [worker._thread.ident]


def test_a_root_that_is_back_is_read_whole_whatever_was_asked_first(world: World, worker: Worker) -> None:
    """Its lock is not to be had at once: a name has just come into the folder."""
    away = world.root.with_name("away")
    world.root.rename(away)
    until(lambda: worker.status.state == "missing", "it is gone")
    with (away / LEARNINGS).open("ab") as file:
        file.write(lines(learning(2)))
    (away / "notes.txt").touch()
    until(worker._inbox.borrow, "the worker rests")
    away.rename(world.root)
    worker._inbox.give_back()
    job = Job("memory.add", {"memory": {"type": "learning"}})
    worker.store_now(job)
    assert "content" in str(job.future.exception(SOON_S))
    assert worker.status.state == "degraded", "it has no events here"
    assert worker.status.memories == 2
    assert b"-446655440002" in (world.root / "index.json").read_bytes()


def test_at_the_end_it_is_refused(world: World) -> None:
    worker = Worker(world.store, Pace(), Clock(), cast("Hints", Silent()), lambda *_: None)
    worker.start()
    assert worker.stop(SOON_S)
    job, _ = adding()
    worker.store_now(job)
    assert isinstance(job.future.exception(SOON_S), ShuttingDownError)


def test_many_threads_store_at_once_and_each_memory_is_there_once(world: World, worker: Worker) -> None:
    def store(number: int) -> None:
        for each in range(20):
            job, _ = adding(f"memory {number} {each}.")
            worker.store_now(job)
            job.future.result(SOON_S)

    threads = [threading.Thread(target=store, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    text = (world.root / LEARNINGS).read_text()
    assert [text.count(f"memory {number} {each}.") for number in range(6) for each in range(20)] == [1] * 120
