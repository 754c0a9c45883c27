"""One piece of work at a time, in order; nothing that waits is forgotten, whoever brought it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from memoryd.engine.inbox import MAX_WAIT_S, Inbox, NextWork, Pace
from memoryd.engine.interfaces import Clock
from memoryd.engine.jobs import Job
from memoryd.errors import ShuttingDownError
from tests.daemon import until

NEVER = float("inf")
SOON_S = 30.0  # more than anything here takes, and less than `MAX_WAIT_S`


class Taker:
    """A worker that does nothing with what it takes: that is in `turns`, and `go` lets it take the next."""

    def __init__(self, due: Callable[[], float] = lambda: NEVER) -> None:
        self.inbox = Inbox(Pace(), Clock(), due, lambda: 0.0)
        self.turns: list[NextWork | None] = []
        self._go = threading.Semaphore(1)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not (self.turns and self.turns[-1] is None):
            self._go.acquire()
            self.turns.append(self.inbox.next())

    def go(self) -> None:
        self._go.release()

    def commands(self) -> list[str]:
        return [turn.command.name for turn in self.turns if turn is not None and turn.command is not None]

    def end(self) -> None:
        self.inbox.end()
        self._go.release(2)
        self._thread.join(SOON_S)
        assert not self._thread.is_alive()


@pytest.fixture
def taker() -> Iterator[Taker]:
    made = Taker()
    yield made
    made.end()


def test_who_rests_is_woken_by_a_command(taker: Taker) -> None:
    for name in ("sync", "plan"):
        time.sleep(0.05)  # it rests
        taker.inbox.submit(Job(name))
        until(lambda name=name: taker.commands()[-1:] == [name], "it is taken", SOON_S)  # type: ignore[misc]  # bound at once
        taker.go()


def test_commands_are_taken_in_the_order_they_came(taker: Taker) -> None:
    taker.inbox.submit(Job("sync"))
    until(lambda: taker.commands() == ["sync"], "it is at work")
    for name in ("plan", "memory.add", "check"):
        taker.inbox.submit(Job(name))
    assert taker.commands() == ["sync"]
    for _ in range(3):
        taker.go()
    until(lambda: taker.commands() == ["sync", "plan", "memory.add", "check"], "what came meanwhile is done")


def test_who_rests_is_woken_for_what_is_due() -> None:
    at = time.monotonic() + 0.1
    taker = Taker(lambda: at)
    until(lambda: taker.turns == [NextWork()], "it is woken for it")
    assert time.monotonic() >= at
    taker.end()


def test_a_due_time_that_was_brought_forward_counts_when_it_is_rechecked() -> None:
    due = [NEVER]
    taker = Taker(lambda: due[0])
    time.sleep(0.05)  # it rests
    due[0] = time.monotonic()
    taker.inbox.recheck()
    until(lambda: taker.turns == [NextWork()], "it is woken", SOON_S)
    taker.end()


def test_a_job_that_waits_for_a_pause_of_the_writers_is_woken_by_it_alone() -> None:
    """Nothing else is due for a minute."""
    changed_at = time.monotonic()
    inbox = Inbox(Pace(quiet_s=0.1), Clock(), lambda: NEVER, lambda: changed_at)
    inbox.enqueue_scheduled("archive")
    turn = inbox.next()
    taken_at = time.monotonic()
    assert turn is not None
    assert turn.scheduled is not None
    assert changed_at + 0.1 <= taken_at < changed_at + SOON_S < changed_at + MAX_WAIT_S


def test_the_end_wakes_who_rests() -> None:
    taker = Taker()
    time.sleep(0.05)  # it rests
    assert taker.turns == []
    taker.inbox.end()
    until(lambda: taker.turns == [None], "it is over", SOON_S)
    with pytest.raises(ShuttingDownError):
        taker.inbox.submit(Job("sync")).result(timeout=0)


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


def test_closed_files_come_after_commands_and_before_the_batch() -> None:
    inbox = Inbox(Pace(settle_s=0.0, settle_cap_s=0.0), Clock(), lambda: NEVER, lambda: -NEVER)
    inbox.touch("a", at_once=True)
    inbox.submit(Job("sync"))
    assert [turn and (turn.command is not None, turn.closed) for turn in (inbox.next(), inbox.next())] == [
        (True, frozenset()),
        (False, {"a"}),
    ]
    turn = inbox.next()
    assert turn is not None
    assert turn.batch is not None
    assert turn.batch.paths == {"a"}


def test_a_reader_waits_for_a_file_closed_while_the_worker_rests_until_it_can_be_found() -> None:
    looks: list[None] = []

    def due() -> float:
        looks.append(None)
        return NEVER

    taker = Taker(due)
    assert taker.inbox.await_closed(0)
    until(lambda: len(looks) > 1, "it has seen that nothing is due, and holds the lock until it rests", SOON_S)
    taker.inbox.touch("a", at_once=True)
    until(lambda: taker.turns, "it is taken", SOON_S)
    assert not taker.inbox.await_closed(0)
    taker.inbox.note_closed_duration(0.0)
    assert taker.inbox.await_closed(0)
    taker.end()


def test_a_reader_waits_for_no_file_while_the_worker_does_something_else() -> None:
    inbox = Inbox(Pace(), Clock(), lambda: NEVER, lambda: -NEVER)
    inbox.touch("a", at_once=True)
    assert inbox.await_closed(0)


def test_a_touch_tells_whether_a_scan_was_due_already() -> None:
    inbox = Inbox(Pace(settle_s=60.0), Clock(), lambda: NEVER, lambda: -NEVER)
    assert [inbox.touch("a"), inbox.touch(None), inbox.touch("b"), inbox.touch(None)] == [False, False, True, True]
    assert inbox.take_hints() is None
    assert [inbox.touch("a"), inbox.touch("b")] == [False, False]


def test_a_search_waits_for_a_file_that_was_closed_between_the_parts_of_long_work() -> None:
    inbox = Inbox(Pace(), Clock(), lambda: NEVER, lambda: -NEVER)
    assert inbox.take_closed() == frozenset()
    inbox.touch("a", at_once=True)
    assert not inbox.await_closed(0.0)
    assert inbox.take_closed() == {"a"}
    inbox.note_closed_duration(0.0)
    assert inbox.await_closed(0.0)


def test_pending_paths_are_taken_before_they_settle() -> None:
    inbox = Inbox(Pace(settle_s=60.0), Clock(), lambda: NEVER, lambda: -NEVER)
    assert inbox.take_hints() == frozenset()
    inbox.touch("a")
    inbox.touch("b", at_once=True)
    inbox.defer(["c"], 1e9)
    assert inbox.take_hints() == frozenset("abc")
    assert inbox.take_hints() == frozenset()
    inbox.touch(None)
    assert inbox.take_hints() is None
