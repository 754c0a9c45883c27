"""One turn at a time, whoever has it; nothing that waits is forgotten, whoever brought it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from memoryd.engine.host import Clock
from memoryd.engine.inbox import Inbox, NextWork, Pace
from memoryd.engine.jobs import Job
from memoryd.errors import ShuttingDownError
from tests.daemon import until

NEVER = float("inf")
SOON_S = 5.0  # more than anything here takes


class Resting:
    """A worker that only waits: what it gets is in `turns`, and `go` lets it ask for the next."""

    def __init__(self, due: Callable[[], float] = lambda: NEVER) -> None:
        self.inbox = Inbox(Pace(), Clock(), due, lambda: 0.0)
        self.turns: list[NextWork | None] = []
        self._go = threading.Semaphore(1)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        until(self.inbox.try_acquire, "it rests")
        self.inbox.release()

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
    made.inbox.release()
    made.end()


def commands(resting: Resting) -> list[str]:
    return [turn.command.name for turn in resting.turns if turn is not None and turn.command is not None]


def test_nobody_else_has_a_borrowed_turn(resting: Resting) -> None:
    assert resting.inbox.try_acquire()
    assert not resting.inbox.try_acquire()
    resting.inbox.submit(Job("sync"))
    time.sleep(0.05)  # nothing may happen, and nothing tells that it did not
    assert resting.turns == []
    resting.inbox.release()
    until(lambda: commands(resting) == ["sync"], "what came meanwhile is done")


def test_no_turn_is_lent_while_the_worker_has_it(resting: Resting) -> None:
    resting.inbox.submit(Job("sync"))
    until(lambda: len(resting.turns) == 1, "it is at work")
    assert not resting.inbox.try_acquire()
    resting.go()
    until(resting.inbox.try_acquire, "it rests again")


def test_no_turn_is_lent_before_the_first_look() -> None:
    assert not Inbox(Pace(), Clock(), lambda: NEVER, lambda: 0.0).try_acquire()


def test_what_waits_comes_first(resting: Resting) -> None:
    assert resting.inbox.try_acquire()
    for name in ("plan", "check"):
        resting.inbox.submit(Job(name))
    resting.inbox.submit(Job("memory.add"), first=True)
    resting.inbox.release()
    resting.go()
    resting.go()
    until(lambda: commands(resting) == ["memory.add", "plan", "check"], "in this order")


def test_no_turn_is_lent_where_something_is_due() -> None:
    at = [NEVER]
    resting = Resting(lambda: at[0])
    assert resting.inbox.try_acquire()
    at[0] = time.monotonic() - 1
    resting.inbox.release()
    until(lambda: resting.turns == [NextWork()], "the worker is woken for it")
    assert not resting.inbox.try_acquire()
    resting.end()


def test_the_end_waits_for_whoever_has_the_turn() -> None:
    resting = Resting()
    assert resting.inbox.try_acquire()
    resting.inbox.end()
    time.sleep(0.05)  # nothing may happen, and nothing tells that it did not
    assert resting.turns == []
    resting.inbox.release()
    until(lambda: resting.turns == [None], "then it is over")
    assert not resting.inbox.try_acquire()
    with pytest.raises(ShuttingDownError):
        resting.inbox.submit(Job("sync")).result(timeout=0)


def test_changes_that_never_cease_do_not_hold_up_a_job() -> None:
    inbox = Inbox(Pace(settle_s=0.0, settle_cap_s=0.0), Clock(), lambda: NEVER, lambda: -NEVER)
    seen = []
    for _ in range(4):
        inbox.touch("a")
        inbox.enqueue_scheduled("backup")
        turn = inbox.next()
        assert turn is not None
        seen.append("batch" if turn.batch else turn.scheduled.name if turn.scheduled else "")
    assert seen == ["batch", "backup", "batch", "backup"]
