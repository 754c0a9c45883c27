"""What events alone achieve: a closed file is searchable before the root has settled, and a sync need not scan."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memoryd.control.methods.method_types import Result
from memoryd.control.methods.status import SyncedRoot, SyncRequest
from memoryd.engine import memories
from memoryd.engine.deadlines import LOOK_S, NEVER, Deadlines
from memoryd.engine.inbox import Pace
from memoryd.engine.interfaces import Change, Clock
from memoryd.engine.jobs import Job
from memoryd.engine.worker import Worker
from memoryd.errors import PausedError
from memoryd.operations import index_files, refresh
from memoryd.service.roots import Roots
from memoryd.service.watching.manager import TroubleCall
from tests.daemon import until
from tests.engine.silent import SILENT
from tests.layouts.samples import learning, lines
from tests.operations.world import LEARNINGS, World

AGES_S = 1e9  # longer than any machine has been running: no change counts as one after a pause
INDEX = "index.json"


class _Services:
    """A watcher that watches every directory; `barrier` answers as told."""

    def __init__(self) -> None:
        self.in_order = True
        self.barriers = 0
        self.missing = 0

    def barrier(self, timeout_s: float) -> bool:
        del timeout_s
        self.barriers += 1
        return self.in_order

    def coverage(self, root: str, directories: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
        del root
        return len(directories), len(directories) - self.missing

    def watch(self, root: str, path: str) -> bool:
        del root, path
        self.missing = 0
        return True

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


class Site:
    """A worker whose root never settles by itself."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.services = _Services()
        pace = Pace(settle_s=AGES_S, settle_cap_s=AGES_S)
        self.worker = Worker(world.store, pace, Clock(), self.services, SILENT, lambda *_: None)
        self.worker.start()
        assert self.worker.ready.wait(30)

    @property
    def path(self) -> Path:
        return Path(self.world.store.path) / LEARNINGS

    def append(self, number: int) -> None:
        with open(self.path, "ab") as file:
            file.write(lines(learning(number)))

    def sync(self) -> SyncedRoot:
        result = self.worker.submit(Job("sync")).result(30)
        assert isinstance(result, SyncedRoot)
        return result

    def known(self) -> int:
        """Memories that a search would find."""
        return sum(row.records for row in self.world.store.catalogue.files().values())

    def listed(self) -> int:
        """Memories in the index file."""
        content = json.loads((Path(self.world.store.path) / INDEX).read_bytes())
        return int(content["statistics"]["total_memories"])

    def during_render(self, act: Callable[[], object], patch: pytest.MonkeyPatch, *, whole: bool = True) -> int:
        """Sync a new memory, and `act` while the index is rendered, as a `whole` or by the change: at the second pause,
        where urgent work goes first. Returns how many memories are known after that work."""
        store = self.world.store
        urgent, known = store.urgent_callback, list[int]()

        def between() -> None:
            if len(known) == 1:
                act()
            urgent()
            known.append(self.known())

        patch.setattr(index_files, "LARGE", 0)
        if whole:
            store.index.update = None
        patch.setattr(store, "urgent_callback", between)
        self.append(2)
        self.worker.touch(LEARNINGS, Change.COMPLETE)
        self.sync()
        return known[1]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    world = World(tmp_path)
    (Path(world.store.path) / LEARNINGS).write_bytes(lines(learning(1)))
    made = Site(world)
    made.sync()
    yield made
    assert made.worker.stop(30)


def wait_for_turn(site: Site) -> None:
    """A command is done after what was due before it."""
    site.worker.submit(Job("catch-up")).result(30)
    site.worker.submit(Job("catch-up")).result(30)


def test_a_closed_file_is_searchable_before_the_root_has_settled(site: Site) -> None:
    index = (Path(site.world.store.path) / INDEX).read_bytes()
    before = site.known()
    site.append(2)
    site.worker.touch(LEARNINGS, Change.COMPLETE)
    for _ in range(1000):
        wait_for_turn(site)
        if site.known() > before:
            break
    assert site.known() == before + 1
    assert (Path(site.world.store.path) / INDEX).read_bytes() == index
    assert site.worker.lag_ms(Clock().monotonic() + 5) >= 5000, "the index file is still to be written"


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "by-the-change"])
def test_files_closed_while_an_index_is_rendered_are_searchable_before_it_is_written(
    site: Site, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    def change() -> None:
        site.append(3)
        site.worker.touch(LEARNINGS, Change.COMPLETE)

    assert site.during_render(change, monkeypatch, whole=whole) == 3
    assert site.listed() == 2, "the index is that of the moment when it was begun"
    assert site.worker.lag_ms(Clock().monotonic() + 5) >= 5000, "the index file is still to be written"
    site.sync()
    assert site.listed() == 3


def test_a_sync_for_the_search_does_not_wait_for_a_large_index(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []

    def change() -> None:
        site.append(3)
        site.worker.touch(LEARNINGS, Change.MODIFIED)
        searchable = site.worker.submit(Job("sync", SyncRequest(search_only=True)))
        searchable.add_done_callback(lambda _: found.extend((site.known(), site.listed())))

    site.during_render(change, monkeypatch)
    assert found == [3, 1]
    site.sync()
    assert site.listed() == 3


def test_a_directory_that_moves_while_its_index_is_written_stays_open_until_then(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, open_still = site.world.store, list[bool]()
    root, urgent = Path(store.path), store.urgent_callback

    def between() -> None:
        root.rename(root.with_name("moved"))
        waiting = site.worker.submit(Job("sync", SyncRequest(search_only=True)))
        urgent()
        open_still.append(store.attached and not waiting.done())
        root.with_name("moved").rename(root)

    monkeypatch.setattr(store, "urgent_callback", between)
    site.append(2)
    site.worker.touch(LEARNINGS, Change.COMPLETE)
    site.sync()
    assert open_still
    assert all(open_still)
    assert site.listed() == 2


def test_a_sync_for_the_search_waits_for_the_index_if_only_a_scan_will_do(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[Future[Result]] = []

    def change() -> None:
        site.append(3)
        site.worker.touch(None)
        waiting.append(site.worker.submit(Job("sync", SyncRequest(search_only=True))))

    assert site.during_render(change, monkeypatch) == 2
    done = waiting[0].result(30)
    assert isinstance(done, SyncedRoot)
    assert (done.scanned, site.listed()) == (True, 3)


def test_a_sync_for_the_search_waits_where_the_root_is_paused_while_its_index_is_rendered(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[Future[Result]] = []

    def change() -> None:
        site.worker.root.health.paused = True
        waiting.append(site.worker.submit(Job("sync", SyncRequest(search_only=True))))

    site.during_render(change, monkeypatch)
    assert site.listed() == 2, "what runs is finished"
    with pytest.raises(PausedError):
        waiting[0].result(30)


def test_a_sync_reads_what_events_named_and_nothing_else(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    before = site.known()
    site.append(2)
    site.worker.touch(LEARNINGS, Change.MODIFIED)
    monkeypatch.setattr(type(site.world.store), "scan", None)  # a scan would fail
    done = site.sync()
    assert (done.scanned, done.written, site.known()) == (False, True, before + 1)
    assert site.services.barriers


def test_a_sync_scans_where_the_barrier_fails(site: Site) -> None:
    before = site.known()
    site.append(2)  # no event is reported
    site.services.in_order = False
    assert (site.sync().scanned, site.known()) == (True, before + 1)


def test_a_sync_scans_where_anything_may_have_changed(site: Site) -> None:
    before = site.known()
    site.append(2)
    site.worker.touch(None)
    done = site.sync()
    assert (done.scanned, site.known()) == (True, before + 1)


def test_a_sync_scans_where_a_file_has_another_name(site: Site, tmp_path: Path) -> None:
    """Whoever writes to the other name causes no event in the root."""
    os.link(site.path, tmp_path / "outside")
    site.worker.touch(None)
    site.sync()
    before = site.known()
    with open(tmp_path / "outside", "ab") as file:
        file.write(lines(learning(3)))
    assert (site.sync().scanned, site.known()) == (True, before + 1)


def test_a_sync_scans_a_linked_file_that_an_event_named(site: Site, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(lines(learning(2)))
    site.path.unlink()
    os.link(outside, site.path)
    site.worker.touch(LEARNINGS, Change.COMPLETE)
    site.sync()
    before = site.known()
    with open(outside, "ab") as file:
        file.write(lines(learning(3)))
    assert (site.sync().scanned, site.known()) == (True, before + 1)


def test_a_sync_scans_once_more_after_missing_watches_were_set_up(site: Site) -> None:
    """What changed between the scan and the new watches caused no event."""
    site.services.missing = 1
    site.services.in_order = False
    site.sync()
    site.services.in_order = True
    before = site.known()
    site.append(2)  # no event is reported
    assert (site.sync().scanned, site.known()) == (True, before + 1)
    assert not site.sync().scanned


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), MemoryError()], ids=repr)
def test_a_sync_scans_after_a_batch_that_failed(site: Site, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Nobody else knows any longer which paths were in it."""

    def fail(*_: object, **__: object) -> None:
        raise error

    before = site.known()
    site.append(2)
    monkeypatch.setattr(Deadlines, "hold_off", lambda *_, **__: None)  # no scan follows by itself
    with monkeypatch.context() as failing:
        failing.setattr(refresh, "index_grown", fail)
        site.worker.inbox.defer([LEARNINGS], 0.0)
        site.worker.inbox.recheck()
        until(lambda: site.worker.status.state == "read_only", "it is reported")
    assert site.worker.lag_ms(Clock().monotonic() + 5) >= 5000, "a search says that it may lack something"
    assert (site.sync().scanned, site.known()) == (True, before + 1)
    assert site.worker.lag_ms(Clock().monotonic() + 5) == 0
    assert not site.sync().scanned


def test_canary_a_sync_that_trusts_events_misses_what_no_event_named(site: Site) -> None:
    before = site.known()
    site.append(2)
    assert (site.sync().scanned, site.known()) == (False, before)


def test_a_sleeping_worker_is_woken_to_look_at_its_path(site: Site) -> None:
    """As when the root was renamed: it would sleep for a minute."""
    site.sync()
    until(lambda: site.worker.root.deadlines.look > time.monotonic() + LOOK_S, "it is calm")
    root = Path(site.world.store.path)
    root.rename(root.with_name("away"))
    assert site.worker.root.health.has_moved()
    site.worker.look_soon()
    until(lambda: site.worker.status.state == "missing", "it is noticed")


def test_a_change_in_a_directory_that_was_moved_away_is_not_followed(site: Site) -> None:
    site.sync()
    root = Path(site.world.store.path)
    away = root.with_name("away")
    root.rename(away)
    with open(away / LEARNINGS, "ab") as file:
        file.write(lines(learning(2)))
    site.worker.root.deadlines.look = 0.0
    site.worker.touch(LEARNINGS, Change.COMPLETE)
    until(lambda: site.worker.status.state == "missing", "it is noticed")
    assert site.known() == 1


def test_a_read_is_counted_by_a_worker_that_sleeps(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memories, "QUIET_S", 0.1)
    site.sync()
    until(lambda: site.worker.root.deadlines.look > time.monotonic() + LOOK_S, "it is calm")
    reads = site.worker.memories.reads
    site.worker.note_read(LEARNINGS, "no such memory")
    until(lambda: reads.next_due() == NEVER, "it has been counted")


def test_a_renamed_or_removed_root_is_looked_at_without_the_main_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[TroubleCall] = []
    monkeypatch.setattr("memoryd.service.roots.Watcher", lambda _touch, trouble, _: reports.append(trouble))
    looked: list[str] = []
    worker = SimpleNamespace(name="one", look_soon=lambda: looked.append("one"), touch=lambda _: None)
    roots = Roots(str(tmp_path), Clock(), lambda: None)
    monkeypatch.setattr(roots, "all", lambda: [worker])
    for trouble, root in (("root-moved", "two"), ("probe", "one"), ("root-moved", "one"), ("root-gone", "one")):
        reports[0](trouble, root)
    assert looked == ["one", "one"]
