"""Storing through a root's worker: what is answered, whatever the disk, the lock or the root does meanwhile."""

from __future__ import annotations

import errno
import fcntl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.control.methods.memories import AddRequest, StoredResult
from memoryd.control.methods.recovery import BackupListRequest, BackupsResult
from memoryd.core.defaults import Limit, LimitKind, Policy
from memoryd.core.index import IndexUnavailable
from memoryd.engine.jobs import Job
from memoryd.engine.memories import STORING
from memoryd.engine.worker import Worker
from memoryd.errors import GuardError, LimitExceededError, NotFoundError, RootMissingError, ShuttingDownError
from tests.crowd import by_threads
from tests.daemon import until
from tests.engine.silent import worker_of
from tests.layouts.samples import learning, lines
from tests.operations.world import LEARNINGS, World

SOON_S = 30.0  # more than anything here takes


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.write(LEARNINGS, lines(learning(1)))
    yield made
    made.store.close()


@pytest.fixture
def worker(world: World) -> Iterator[Worker]:
    made = worker_of(world)
    made.start()
    assert made.ready.wait(SOON_S)
    yield made
    assert made.stop(SOON_S)


def adding(content: str = "zebra") -> tuple[Job, list[int]]:
    """A job, and the threads that have answered it."""
    job, by = Job("memory.add", AddRequest(memory={"type": "learning", "content": content})), list[int]()
    job.future.add_done_callback(lambda _: by.append(threading.get_ident()))
    return job, by


def thread_of(worker: Worker) -> int | None:
    """The one that the worker runs on."""
    [thread] = [each for each in threading.enumerate() if each.name == f"memoryd-{worker.name}"]
    return thread.ident


def outcome(job: Job) -> StoredResult:
    """What the job answered with."""
    found = job.future.result(SOON_S)
    assert isinstance(found, StoredResult)
    return found


def test_a_memory_is_stored_by_the_worker_alone(world: World, worker: Worker) -> None:
    job, by = adding()
    worker.submit(job)
    assert outcome(job).receipt
    assert by == [thread_of(worker)]
    assert b"zebra" in (world.root / LEARNINGS).read_bytes()
    until(lambda: worker.memories.behind is None, "the worker takes it in without being asked")


def test_where_another_program_has_the_lock_only_the_worker_waits(world: World, worker: Worker) -> None:
    before = (world.root / LEARNINGS).read_bytes()
    with open(world.root / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        job, by = adding()
        worker.submit(job)
        until(lambda: worker.step == "memory.add", "the worker is at it")
        with pytest.raises(TimeoutError):
            job.future.result(0.1)
        assert (world.root / LEARNINGS).read_bytes() == before
    assert outcome(job).receipt
    assert by == [thread_of(worker)]
    assert (world.root / LEARNINGS).read_bytes().count(b"zebra") == 1


def test_what_a_change_leaves_to_do_is_work_too(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []
    on_timer = worker.root.on_timer

    def noted() -> None:
        steps.append(worker.step)
        on_timer()

    monkeypatch.setattr(worker.root, "on_timer", noted)
    job, _ = adding()
    worker.submit(job)
    until(lambda: "upkeep" in steps, "the worker looks at what is due")
    until(lambda: worker.step == "idle", "the worker waits again")
    assert "idle" not in steps


def test_a_refusal_is_an_answer_as_well(worker: Worker) -> None:
    job = Job("memory.add", AddRequest(memory={"type": "learning"}))
    worker.submit(job)
    error = job.future.exception(SOON_S)
    assert "content" in str(error)
    job, _ = adding()
    worker.submit(job)
    assert outcome(job).receipt


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "read_only"),
        (IndexUnavailable("database is locked"), "read_only"),
        (GuardError("not now"), "degraded"),
        (RuntimeError("a bug"), "degraded"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_whatever_goes_wrong_is_told_and_the_worker_goes_on(
    error: Exception, state: str, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that refuses is tried again."""

    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setitem(STORING, "memory.add", fail)
        job, _ = adding()
        worker.submit(job)
        assert job.future.exception(SOON_S) is not None
    assert worker.status.state == state
    until(lambda: worker.status.state == "degraded", "it is tried again, and as well as a root can be without events")
    job, _ = adding()
    worker.submit(job)
    assert outcome(job).receipt


def test_a_root_that_went_is_told_at_once(world: World, worker: Worker) -> None:
    world.root.rename(world.root.with_name("away"))
    job, _ = adding()
    worker.submit(job)
    assert isinstance(job.future.exception(SOON_S), RootMissingError)


def test_a_root_that_is_back_is_read_whole_whatever_was_asked_first(world: World, worker: Worker) -> None:
    """Its lock is not to be had at once: a name has just come into the directory."""
    away = world.root.with_name("away")
    world.root.rename(away)
    until(lambda: worker.status.state == "missing", "it is gone")
    with (away / LEARNINGS).open("ab") as file:
        file.write(lines(learning(2)))
    (away / "notes.txt").touch()
    away.rename(world.root)
    job = Job("memory.add", AddRequest(memory={"type": "learning"}))
    worker.submit(job)
    assert "content" in str(job.future.exception(SOON_S))
    assert worker.status.state == "degraded", "it has no events here"
    assert worker.status.memories == 2
    assert b"-446655440002" in (world.root / "index.json").read_bytes()


def test_at_the_end_it_is_refused(world: World) -> None:
    worker = worker_of(world)
    worker.start()
    assert worker.stop(SOON_S)
    job, _ = adding()
    worker.submit(job)
    assert isinstance(job.future.exception(SOON_S), ShuttingDownError)


def test_many_threads_store_at_once_and_each_memory_is_there_once(world: World, worker: Worker) -> None:
    def store(number: int) -> None:
        for each in range(20):
            job, _ = adding(f"memory {number} {each}.")
            worker.submit(job)
            job.future.result(SOON_S)

    by_threads(store, range(6))
    text = (world.root / LEARNINGS).read_text()
    assert [text.count(f"memory {number} {each}.") for number in range(6) for each in range(20)] == [1] * 120


def test_many_threads_store_up_to_a_limit_and_no_more(tmp_path: Path) -> None:
    """Some of what counts is not in the catalogue yet."""
    world = World(tmp_path, Policy(limits={LEARNINGS: Limit(LimitKind.HARD, None, 30)}))
    worker = worker_of(world)
    worker.start()
    jobs = [adding(f"memory {number}.")[0] for number in range(60)]

    def store(number: int) -> None:
        for job in jobs[number::6]:
            worker.submit(job)

    by_threads(store, range(6))
    refused = [job.future.exception(SOON_S) for job in jobs]
    assert refused.count(None) == 30
    assert {type(each) for each in refused} == {type(None), LimitExceededError}
    assert (world.root / LEARNINGS).read_bytes().count(b"\n") == 30
    assert worker.stop(SOON_S)


def test_who_gives_a_lock_up_leaves_nothing_of_it(world: World) -> None:
    """Given up at a shutdown, in the moment of settling: a name has just come into the directory."""
    lock, locked = world.root / ".lock", world.store.locked
    for there in (False, True):
        if there:
            lock.write_text("somebody\n")
        (world.root / f"notes-{there}").touch()
        world.store.stopping.set()
        with pytest.raises(ShuttingDownError), locked(SOON_S):
            raise AssertionError("it has not settled")
        assert lock.exists() == there
        with open(lock, "a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert lock.read_text() == "somebody\n"
    world.store.stopping.clear()
    with locked(SOON_S):
        assert lock.exists()


@pytest.mark.parametrize("when", ["record_start", "record_end"])
def test_a_journal_that_takes_no_times_is_told_to_whoever_asked_for_the_job(
    world: World, worker: Worker, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(world.store.journal.jobs, when, full)
        error = worker.run_now("backup").exception(SOON_S)
    assert "No space" in str(error)
    assert worker.run_now("backup").result(SOON_S) is not None


@pytest.mark.parametrize("name", ["backup.list", "backup.verify"])
def test_a_backup_that_does_not_exist_is_not_found(name: str, worker: Worker) -> None:
    """An empty list of damaged backups would mean that this one is sound."""
    assert worker.run_now("backup").result(SOON_S) is not None
    listed = worker.submit(Job(name)).result(SOON_S)
    assert isinstance(listed, BackupsResult)
    known = listed.backups[0].id
    for at in (known, known.rpartition(".")[2]):
        found = worker.submit(Job(name, BackupListRequest(at=at))).result(SOON_S)
        assert isinstance(found, BackupsResult)
        assert [each.id for each in found.backups] == [known]
    error = worker.submit(Job(name, BackupListRequest(at="none"))).exception(SOON_S)
    assert isinstance(error, NotFoundError)
