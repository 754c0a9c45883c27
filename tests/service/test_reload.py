"""What clients are answered while a reload restarts or removes the roots they ask."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from memoryd.config.places import Places
from memoryd.control.methods.memories import AddRequest, GetRequest, ListRequest, MemoryRequest, SearchRequest
from memoryd.control.methods.method_types import Result
from memoryd.control.methods.recovery import HistoryListRequest, UndoRequest
from memoryd.control.methods.status import RootAddRequest, RootRequest
from memoryd.disk.daemon_lock import lock_directory
from memoryd.disk.journal.database import JournalError
from memoryd.disk.tree import Tree
from memoryd.engine.inbox import Pace
from memoryd.engine.jobs import OPERATIONS, Job
from memoryd.engine.root import Root
from memoryd.engine.worker import Worker
from memoryd.errors import (
    AlreadyRunningError,
    BusyError,
    ConfigError,
    DiskError,
    PausedError,
    RootMissingError,
    ShuttingDownError,
    UnknownRootError,
    UsageError,
)
from memoryd.operations.lookup import LoadedMemory, read_memory
from memoryd.service.daemon import Daemon
from memoryd.service.handlers.memories import MemoryHandlers
from memoryd.service.handlers.roots import RootHandlers
from memoryd.service.handlers.upkeep import UpkeepHandlers
from memoryd.service.roots import Roots
from memoryd.store import Store
from tests.daemon import PATIENCE_S, until
from tests.layouts.samples import learning, lines
from tests.operations.world import LEARNINGS

MEMORY = {"type": "learning", "content": "Stored during a reload."}


@pytest.fixture
def places(tmp_path: Path) -> Places:
    tables = []
    for number, name in enumerate(("a", "b"), 1):
        (tmp_path / name).mkdir()
        (tmp_path / name / LEARNINGS).write_bytes(lines(learning(number)))
        tables.append(f'[[root]]\npath = "{tmp_path / name}"\nlayout = "jsonl-store"\n')
    path = tmp_path / "config.toml"
    path.write_text("\n".join(tables))
    (tmp_path / "state").mkdir(mode=0o700)
    return Places(str(path), str(tmp_path / "state"), str(tmp_path / "socket"), str(path))


@pytest.fixture
def daemon(places: Places) -> Iterator[Daemon]:
    """A daemon that serves its roots, without a socket."""
    made = Daemon(places, [], lambda _: {})
    made.roots.apply(made.config, Pace(), ["a", "b"], ())
    for worker in made.roots.all():
        assert worker.ready.wait(PATIENCE_S)
    yield made
    made.roots.stop()


@pytest.fixture
def roots(daemon: Daemon) -> Roots:
    return daemon.roots


@pytest.fixture
def reload(daemon: Daemon, roots: Roots, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A reload that restarts both roots, or removes some; while the block runs, the first of them does not end."""

    @contextmanager
    def reloading(*removed: str) -> Iterator[Worker]:
        first, goes_on = roots.named(removed[0] if removed else "a")[0], threading.Event()
        end = first.root.end
        monkeypatch.setattr(first.root, "end", lambda: (goes_on.wait(PATIENCE_S), end()))

        def apply() -> None:
            with roots.changing():
                roots.apply(daemon.config, Pace(), [name for name in ("a", "b") if name not in removed], removed)

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


def restart_all(places: Places) -> None:
    """Change the configuration so that a reload restarts every root."""
    assert places.config is not None
    path = Path(places.config)
    path.write_text(f"[daemon]\nquiet_s = 11\n{path.read_text()}")


def test_a_memory_is_not_stored_in_another_root_while_its_own_restarts(daemon: Daemon, reload: Any) -> None:
    """With one root there is no doubt where it belongs; with two there is."""
    with reload(), pytest.raises(UsageError, match="specify the root"):
        MemoryHandlers(daemon).add(AddRequest(memory=MEMORY))


def test_no_answer_leaves_out_a_root_that_restarts(daemon: Daemon, reload: Any) -> None:
    with reload(), pytest.raises(BusyError, match="root a is being restarted"):
        MemoryHandlers(daemon).page(ListRequest())
    assert {memory.root for memory in MemoryHandlers(daemon).page(ListRequest()).memories} == {"a", "b"}


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


def full(*_: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_reload_that_the_disk_would_stop_half_way_does_not_begin(
    daemon: Daemon, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = daemon.roots.all()
    restart_all(places)
    with monkeypatch.context() as patch:
        patch.setattr("memoryd.service.daemon.probe_write", full)
        with pytest.raises(DiskError, match="cannot be written: No space left") as refused:
            daemon.reload()
    assert "nothing was changed" in str(refused.value.hint)
    assert daemon.roots.all() == before
    assert not any(worker.ends for worker in before)
    daemon.reload()
    assert not {*daemon.roots.all()} & {*before}, "the next reload finds what has changed since the start"


def test_a_root_that_gets_no_thread_has_failed_and_starts_at_the_next_reload(
    daemon: Daemon, roots: Roots, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, told = threading.Thread.start, []

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "memoryd-a":
            raise RuntimeError("can't start new thread")
        start(thread)

    roots.tell = lambda topic, event: told.append((topic, event.get("root")))
    restart_all(places)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        daemon.reload()
    assert [worker.name for worker in roots.all()] == ["b"]
    [failed] = roots.broken()
    assert (failed.name, "thread" in failed.reason) == ("a", True)
    assert ("health", "a") in told
    with pytest.raises(RootMissingError, match="can't start new thread"):
        MemoryHandlers(daemon).add(AddRequest(memory=MEMORY, root="a"))
    daemon.reload()
    assert not roots.broken()
    [worker] = roots.named("a")
    assert worker.ready.wait(PATIENCE_S)
    assert MemoryHandlers(daemon).search(SearchRequest(query="uuid", root="a")) is not None


def test_roots_whose_state_the_disk_refuses_start_at_the_next_reload(
    daemon: Daemon, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would be gone until the daemon is started again; after SIGHUP the daemon would end."""
    restart_all(places)
    with monkeypatch.context() as patch:
        patch.setattr("memoryd.service.roots.Store", full)
        daemon.reload()
    assert daemon.roots.all() == []
    with pytest.raises(RootMissingError, match="No space left") as refused:
        daemon.roots.named("a")
    assert refused.value.hint == "free some space or repair the disk, then `memoryd reload`"
    daemon.reload()
    assert [worker.name for worker in daemon.roots.all()] == ["a", "b"]
    assert daemon.roots.broken() == []


def test_a_root_that_cannot_be_added_is_not_left_in_the_configuration(
    daemon: Daemon, places: Places, tmp_path: Path
) -> None:
    """The next start of the daemon would fail because of it."""
    assert places.config is not None
    before = Path(places.config).read_text()
    (tmp_path / "other").mkdir()
    request = RootAddRequest(path=str(tmp_path / "other"), layout="jsonl-store")
    with Tree(str(tmp_path / "other")) as tree, lock_directory(tree.fd, tree.path), pytest.raises(AlreadyRunningError):
        RootHandlers(daemon).add(request)
    assert Path(places.config).read_text() == before
    assert RootHandlers(daemon).add(request).result(PATIENCE_S)
    assert len(daemon.roots.all()) == 3


def test_a_new_root_on_a_server_that_is_gone_ends_no_reload(
    daemon: Daemon, places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After SIGHUP it would have ended the daemon, and no start would have succeeded until its server is back."""

    def gone(path: str) -> Tree:
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected", path)

    (tmp_path / "c").mkdir()
    assert places.config is not None
    with Path(places.config).open("a") as file:
        file.write(f'[[root]]\npath = "{tmp_path / "c"}"\nlayout = "jsonl-store"\n')
    monkeypatch.setattr("memoryd.service.roots.Tree", gone)
    monkeypatch.setattr("memoryd.store.store.Tree", gone)
    daemon.reload()
    [worker] = daemon.roots.named("c")
    assert worker.ready.wait(PATIENCE_S)
    assert worker.status.state == "failed"
    assert "not connected" in worker.status.reasons[0]


def test_a_root_that_cannot_be_removed_stays_in_the_configuration(
    daemon: Daemon, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert places.config is not None
    before = Path(places.config).read_text()
    broken = DiskError("the disk refused")

    def refuse(*_: Any) -> None:
        raise broken

    with monkeypatch.context() as patch:
        patch.setattr(daemon.roots, "check_owners", refuse)
        with pytest.raises(DiskError):
            RootHandlers(daemon).remove(RootRequest(name="a"))
    assert Path(places.config).read_text() == before
    assert [worker.name for worker in daemon.roots.all()] == ["a", "b"]
    RootHandlers(daemon).remove(RootRequest(name="a"))
    assert [worker.name for worker in daemon.roots.all()] == ["b"]


def test_a_paused_root_stays_paused_until_it_is_resumed(daemon: Daemon, places: Places) -> None:
    handlers = RootHandlers(daemon)
    [row] = cast("Any", handlers.pause(RootRequest(name="a")).result(PATIENCE_S)).roots
    assert row.state == "paused"
    restart_all(places)
    daemon.reload()
    [worker] = daemon.roots.named("a")
    assert worker.ready.wait(PATIENCE_S)
    assert worker.status.state == "paused"
    with pytest.raises(PausedError):
        worker.submit(Job("memory.add", AddRequest(memory=MEMORY))).result(PATIENCE_S)
    [row] = cast("Any", handlers.resume(RootRequest(name="a")).result(PATIENCE_S)).roots
    assert row.state != "paused"
    assert cast("Any", worker.submit(Job("memory.add", AddRequest(memory=MEMORY))).result(PATIENCE_S)).receipt


def test_a_pause_takes_effect_though_its_root_restarts_meanwhile(daemon: Daemon, reload: Any) -> None:
    with reload():
        answer = RootHandlers(daemon).pause(RootRequest(name="a"))
    [row] = cast("Any", answer.result(PATIENCE_S)).roots
    assert (row.name, row.state) == ("a", "paused")
    [worker] = daemon.roots.named("a")
    assert worker.root.health.paused


@pytest.fixture
def first_check(daemon: Daemon, places: Places, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """An event that lets the first check of the roots go on, after a reload has restarted all of them."""
    goes_on, begin = threading.Event(), Root.begin

    def late(root: Root) -> None:
        assert goes_on.wait(PATIENCE_S)
        begin(root)

    monkeypatch.setattr(Root, "begin", late)
    restart_all(places)
    daemon.reload()
    yield goes_on
    goes_on.set()


@pytest.mark.parametrize("root", [None, "a"])
def test_a_memory_is_not_called_missing_before_its_root_was_read(
    root: str | None, daemon: Daemon, first_check: threading.Event
) -> None:
    answer = MemoryHandlers(daemon).get(GetRequest(id=learning(1)["id"], root=root))
    assert isinstance(answer, Future)
    first_check.set()
    assert cast("Any", answer.result(PATIENCE_S)).root == "a"


def test_a_change_of_a_memory_that_no_root_may_have_read_yet_is_refused_as_busy(
    daemon: Daemon, first_check: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memoryd.service.handlers.base.FLUSH_WAIT_S", 0.0)
    for worker in daemon.roots.all():
        worker.store.catalogue.clear()  # as after a kill, which its last changes do not always survive
    forget, request = MemoryHandlers(daemon).change("memory.forget"), MemoryRequest(id=learning(1)["id"])
    with pytest.raises(BusyError, match="root a is still being read"):
        forget(request)
    first_check.set()
    for worker in daemon.roots.all():
        assert worker.ready.wait(PATIENCE_S)
    assert cast("Any", forget(request)).result(PATIENCE_S).receipt


def test_a_memory_that_a_root_is_known_to_have_is_changed_without_waiting_for_the_others(
    daemon: Daemon, first_check: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first check of a large root takes minutes, and each change by an id would take a second longer."""

    def wait(timeout_s: float) -> bool:
        raise AssertionError(f"a root that is not asked is waited for, {timeout_s} s")

    for worker in daemon.roots.all():
        monkeypatch.setattr(worker.ready, "wait", wait)
    answer = cast("Any", MemoryHandlers(daemon).change("memory.forget")(MemoryRequest(id=learning(1)["id"])))
    monkeypatch.undo()
    first_check.set()
    assert answer.result(PATIENCE_S).root == "a"


def test_history_is_read_again_where_a_reload_closes_the_journal(
    daemon: Daemon, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    [worker] = daemon.roots.named("a")
    journal = worker.store.journal
    added = cast("Any", worker.submit(Job("memory.add", AddRequest(memory=MEMORY))).result(PATIENCE_S))

    def close_first(limit: int) -> list[Any]:
        restart_all(places)
        daemon.reload()
        return type(journal).entries(journal, limit)

    monkeypatch.setattr(journal, "entries", close_first)
    entries = UpkeepHandlers(daemon).history(HistoryListRequest()).entries
    assert added.receipt in [entry.receipt for entry in entries]


def test_history_says_that_the_daemon_stops_and_not_that_the_journal_is_closed(daemon: Daemon) -> None:
    daemon.roots.stop()
    with pytest.raises(ShuttingDownError):
        UpkeepHandlers(daemon).history(HistoryListRequest())
    answer = cast("Any", MemoryHandlers(daemon).get(GetRequest(id=learning(1)["id"])))
    with pytest.raises(ShuttingDownError):
        answer.result(PATIENCE_S)


def test_a_change_that_was_made_is_not_called_stopped(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end comes while memoryd reads what it has just written."""
    [worker] = daemon.roots.named("a")
    added = cast("Any", worker.submit(Job("memory.add", AddRequest(memory=MEMORY))).result(PATIENCE_S))
    undo = OPERATIONS["undo"]

    def stopped(store: Store, job: Job, now: float) -> Result:
        result = undo(store, job, now)
        store.stopping.set()
        return result

    monkeypatch.setitem(cast("Any", OPERATIONS), "undo", stopped)
    done = cast("Any", worker.submit(Job("undo", UndoRequest(receipt=added.receipt))).result(PATIENCE_S))
    assert done.receipt
    assert worker.store.journal.entry(added.receipt).state == "undone"


def test_a_memory_is_looked_for_again_though_its_root_was_ready_a_moment_later(
    daemon: Daemon, first_check: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_early(store: Store, identity: str, now: float) -> LoadedMemory | None:
        try:
            return read_memory(store, identity, now)
        finally:
            first_check.set()
            for worker in daemon.roots.all():
                assert worker.ready.wait(PATIENCE_S)

    monkeypatch.setattr("memoryd.service.handlers.memories.read_memory", read_early)
    answer = cast("Any", MemoryHandlers(daemon).get(GetRequest(id=learning(1)["id"])))
    assert answer.result(PATIENCE_S).root == "a"


def test_a_memory_is_not_called_missing_where_its_root_restarts_again(
    daemon: Daemon, first_check: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = cast("Any", MemoryHandlers(daemon).get(GetRequest(id=learning(1)["id"])))
    monkeypatch.setattr(Worker, "ends", True)
    monkeypatch.setattr("memoryd.service.handlers.memories.read_memory", lambda *_: None)
    first_check.set()
    with pytest.raises(BusyError, match="restarted by a reload"):
        answer.result(PATIENCE_S)


def test_a_root_whose_last_work_goes_on_blames_no_other_memoryd(
    daemon: Daemon, reload: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memoryd.service.roots.STOP_S", 0.0)
    with reload() as before:
        [worker] = until(lambda: [each for each in daemon.roots.named("a") if each is not before], "its successor")
        assert worker.ready.wait(PATIENCE_S)
        assert "what ran here before the last reload" in worker.status.reasons[0]
    until(lambda: not before.alive, "the last work has ended")
    worker.look_soon()
    until(lambda: worker.status.state != "failed", "it goes on by itself")


def test_work_that_ends_too_late_ends_no_watch_of_its_successor(
    daemon: Daemon, places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The root has the same name, but another directory, which need not wait for the old one."""
    daemon.roots.start()
    [before], goes_on = daemon.roots.named("b"), threading.Event()
    end = before.root.end
    monkeypatch.setattr(before.root, "end", lambda: (goes_on.wait(PATIENCE_S), end()))
    monkeypatch.setattr("memoryd.service.roots.STOP_S", 0.0)
    moved = tmp_path / "elsewhere" / "b"
    moved.mkdir(parents=True)
    assert places.config is not None
    path = Path(places.config)
    path.write_text(path.read_text().replace(str(tmp_path / "b"), str(moved)))
    daemon.reload()
    [worker] = daemon.roots.named("b")
    assert worker.ready.wait(PATIENCE_S)
    found = moved.stat()
    directories = {"": (found.st_dev, found.st_ino)}
    assert daemon.roots.watcher.coverage("b", directories) == (1, 1)
    goes_on.set()
    until(lambda: not before.alive, "the last work has ended")
    assert daemon.roots.watcher.coverage("b", directories) == (1, 1)


def test_what_waits_for_a_refused_command_may_submit_another(roots: Roots, reload: Any) -> None:
    again: list[Future[Result]] = []
    with reload("a") as worker:
        refused = worker.submit(Job("sync"))
        refused.add_done_callback(lambda _: again.append(worker.submit(Job("sync"))))
    with pytest.raises(UnknownRootError):
        again[0].result(PATIENCE_S)
    assert [each.name for each in roots.all()] == ["b"]


def test_a_reload_that_failed_is_in_the_status_until_one_succeeds(daemon: Daemon, places: Places) -> None:
    """Only the failure of a reload by signal was."""
    assert places.config is not None
    good = Path(places.config).read_text()
    Path(places.config).write_text(good + "[daemon]\nlog_levle = 1\n")
    notices: list[str | None] = []
    for dry_run in (True, False):
        with pytest.raises(ConfigError, match="log_levle") as refused:
            daemon.reload(dry_run=dry_run)
        notices.append(daemon.notice)
    Path(places.config).write_text(good)
    daemon.reload()
    assert [*notices, daemon.notice] == [None, f"the last reload failed: {refused.value.message}", None]
