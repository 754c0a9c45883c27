"""One root between its watcher and its disk: what is due when, what is told, and what a worse day does to it."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from memoryd.control.methods.memories import AddRequest, AddResult, UpdateRequest
from memoryd.core.defaults import MB, Policy
from memoryd.core.index import IndexUnavailable
from memoryd.disk import syscalls
from memoryd.disk.tree import Tree
from memoryd.engine import health as root_health
from memoryd.engine.backfill import LATER_S
from memoryd.engine.deadlines import BLIND_SCAN_S, CALM_LOOK_S, LATE_S, LOOK_S, MIN_SCAN_S, NEVER
from memoryd.engine.indexer import Indexer
from memoryd.engine.interfaces import Clock
from memoryd.engine.jobs import Job
from memoryd.engine.root import Root
from memoryd.errors import DiskError, PausedError, RootMissingError
from memoryd.operations.index_files import IndexUpdate
from memoryd.operations.whole_files import RETRY_S
from memoryd.search.embedding.embedder import Embedder
from memoryd.store import Store
from memoryd.store.late_writes import MIN_AGE_S
from tests.engine.numbers import Numbers
from tests.engine.silent import commands_of
from tests.layouts import json_samples
from tests.layouts.samples import learning, lines, uuid
from tests.layouts.test_markdown_topics import entry
from tests.operations.world import LEARNINGS, Q3, World


class Services:
    """The watcher and the timetable. `missing` directories are not watched by the kernel."""

    def __init__(self) -> None:
        self.watched: list[str] = []
        self.missing = 0
        self.refuses = False

    def watch(self, root: str, path: str) -> bool:
        del path
        self.watched += [] if self.refuses else [root]
        return not self.refuses

    def unwatch(self, root: str) -> None:
        self.watched = [each for each in self.watched if each != root]

    def coverage(self, root: str, directories: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
        del root
        return len(directories), len(directories) - self.missing

    def barrier(self, timeout_s: float) -> bool:
        del timeout_s
        return True

    def limit_hint(self) -> str:
        return "raise the limit"

    def retry(self, root: str, job: str, after_s: float) -> None:
        raise AssertionError(f"{root}: {job} after {after_s}")

    def scheduled(self, root: str) -> None:
        del root


class Site:
    """A root with a clock that goes when it is told to, and what it told."""

    def __init__(
        self, base: Path, embedder: Embedder | None = None, kind: str | None = None, policy: Policy | None = None
    ) -> None:
        self.world = World(base, policy, kind)
        self.world.write(LEARNINGS, lines(learning(1)))
        self.now = 1000.0
        self.services = Services()
        self.told: list[tuple[str, dict[str, Any]]] = []
        clock = Clock(wall=lambda: self.world.now, monotonic=lambda: self.now)
        self.root = Root(self.world.store, clock, self.services, self.services, self.tell, embedder=embedder)
        self.commands = commands_of(self.root, clock, self.tell)

    def tell(self, topic: str, event: dict[str, Any]) -> None:
        self.told.append((topic, event))

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.world.now += seconds
        self.root.on_timer()

    def records(self) -> int:
        row = self.world.store.catalogue.file(LEARNINGS)
        return row.records if row is not None else 0

    def topics(self) -> list[str]:
        taken, self.told = self.told, []
        return [topic for topic, _ in taken]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    made.root.begin()
    yield made
    made.root.end()


def test_at_the_beginning_it_is_watched_read_and_indexed(site: Site) -> None:
    assert site.services.watched == ["agents"]
    status = site.root.status
    assert (status.state, status.memories, status.generation) == ("ok", 1, 1)
    assert site.world.path("index.json").exists()
    assert site.root.deadlines.scan == site.now + MIN_SCAN_S
    assert site.root.deadlines.look == site.now + LOOK_S


def test_a_change_that_no_event_told_is_found_by_the_next_scan(site: Site) -> None:
    site.world.write(LEARNINGS, lines(learning(1), learning(2)))
    site.wait(LOOK_S)
    assert site.records() == 1
    site.wait(MIN_SCAN_S)
    assert site.records() == 2
    assert site.root.status.generation == 2


def test_a_directory_that_could_not_be_listed_is_tried_again_for_a_minute(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failing disk refuses for a while; a directory of another user for ever."""
    site.world.write(Q3, lines(learning(3)))
    real, tries = Tree.open_directory, list[float]()

    def refuse(tree: Tree, path: str) -> int:
        if path != "archive":
            return real(tree, path)
        tries.append(site.now)
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def tries_in(seconds: float) -> int:
        tries.clear()
        for _ in range(round(seconds / BLIND_SCAN_S)):
            site.wait(BLIND_SCAN_S)
        return len(tries)

    site.wait(MIN_SCAN_S)
    assert site.root.status.archived == 1
    with monkeypatch.context() as failing:
        failing.setattr(Tree, "open_directory", refuse)
        site.wait(MIN_SCAN_S)
        assert tries_in(RETRY_S) == RETRY_S / BLIND_SCAN_S
        tries_in(BLIND_SCAN_S)
        assert tries_in(4 * MIN_SCAN_S) == 4
        assert site.root.status.archived == 1, "what was known stays"
    site.wait(MIN_SCAN_S)
    assert site.root.deadlines.scan == site.now + MIN_SCAN_S
    assert site.root.status.state == "ok"


def test_what_a_scan_found_is_counted_before_the_index_files_are_written(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    archived = learning(1, archived=True)
    site.world.write(LEARNINGS, lines(archived, learning(2)))
    site.wait(MIN_SCAN_S)
    counted: list[tuple[int, int]] = []
    real = Indexer.write

    def counting(self: Indexer, *, force: bool, wait_s: float) -> IndexUpdate:
        counted.append((site.root.status.memories, site.root.status.archived))
        return real(self, force=force, wait_s=wait_s)

    monkeypatch.setattr(Indexer, "write", counting)
    site.world.write(LEARNINGS, lines(archived, learning(2), learning(3)))
    site.wait(MIN_SCAN_S)
    assert counted == [(2, 1)]
    assert (site.root.status.memories, site.root.status.archived) == (2, 1)


def test_a_few_vectors_wait_until_a_sync_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the index files take: what the writer asks next is answered first."""
    site, real = Site(tmp_path, Numbers(fast=True)), Indexer.write

    def slow(self: Indexer, *, force: bool, wait_s: float) -> IndexUpdate:
        site.now += 1.0
        return real(self, force=force, wait_s=wait_s)

    site.root.begin()
    monkeypatch.setattr(Indexer, "write", slow)
    site.world.write(LEARNINGS, lines(learning(1), learning(2)))
    site.commands.sync_files(20.0, [LEARNINGS])
    assert (site.root.backfill.deferred, site.root.backfill.next_due) == (True, site.now + LATER_S)
    site.root.end()


def test_a_root_with_gaps_in_its_watches_is_watched_anew_and_scanned_often(site: Site) -> None:
    site.services.missing = 1
    site.wait(MIN_SCAN_S)
    assert len(site.services.watched) == 2
    assert site.root.deadlines.scan <= site.now + BLIND_SCAN_S
    assert site.root.status.state == "degraded"
    assert "raise the limit" in " ".join(site.root.status.reasons)


def test_a_root_that_could_not_be_watched_is_watched_once_it_can_be(site: Site) -> None:
    site.services.refuses = True
    site.root.health.watch.renew()
    site.wait(MIN_SCAN_S)
    assert (site.root.status.state, site.root.status.watch.mode) == ("degraded", "scan")
    assert site.root.deadlines.scan <= site.now + BLIND_SCAN_S
    site.services.refuses = False
    site.wait(BLIND_SCAN_S)
    assert (site.root.status.state, site.root.status.watch.mode) == ("ok", "events")
    trusted = [site.root.health.watch.sees_every_change]
    site.wait(BLIND_SCAN_S)
    trusted.append(site.root.health.watch.sees_every_change)
    assert trusted == [False, True], "what changed before the new watches caused no event"
    assert site.root.deadlines.scan >= site.now + MIN_SCAN_S


def test_a_root_that_goes_away_rests_and_is_read_anew_when_it_is_back(site: Site) -> None:
    aside = site.world.root.with_name("aside")
    site.world.root.rename(aside)
    site.wait(LOOK_S)
    assert site.root.status.state == "missing"
    assert site.services.watched == []
    assert site.root.deadlines.scan == site.root.deadlines.index == NEVER
    with pytest.raises(RootMissingError):
        site.commands.run(Job("backup"))
    assert site.records() == 1, "missing is not empty"
    aside.rename(site.world.root)
    site.world.write(LEARNINGS, lines(learning(1), learning(2)))
    site.wait(LOOK_S)
    assert site.root.status.state == "ok"
    assert site.services.watched == ["agents"]
    assert site.records() == 2


def test_a_root_that_is_removed_during_a_scan_is_missing_at_once(site: Site) -> None:
    """Its disk does not fail, although the files in it cannot be opened."""
    shutil.rmtree(site.world.root)
    site.told.clear()
    removed = FileNotFoundError(errno.ENOENT, "the root was removed", str(site.world.root))
    assert isinstance(site.root.trouble(removed), RootMissingError)
    site.wait(0)
    assert site.root.status.state == "missing"
    assert [topic for topic in site.topics() if topic == "health"] == []
    assert site.records() == 1, "missing is not empty"


def test_a_look_that_fails_does_not_follow_itself_at_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """As while the root is away and the disk of the state is full."""

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("memoryd.engine.root.check_root", fail)
    for _ in range(2):
        with pytest.raises(OSError, match="No space"):
            site.root.look()
        site.root.trouble(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert site.root.deadlines.look == site.now + LOOK_S


def test_the_path_is_looked_at_as_soon_as_the_disk_fails(site: Site) -> None:
    site.root.trouble(OSError(errno.EIO, os.strerror(errno.EIO)))
    assert site.root.status.state == "read_only"
    shutil.rmtree(site.world.root)
    site.wait(0)
    assert site.root.status.state == "missing"


def test_a_calm_root_is_looked_at_when_something_is_new_at_its_path(site: Site) -> None:
    site.wait(LOOK_S)
    assert site.root.health.is_calm
    assert site.root.deadlines.look == site.now + CALM_LOOK_S
    assert not site.root.health.has_moved()
    aside = site.world.root.with_name("aside")
    site.world.root.rename(aside)
    assert site.root.health.has_moved(), "it is gone"
    aside.mkdir(exist_ok=True)
    site.world.root.mkdir()
    assert site.root.health.has_moved(), "it is another one"
    site.world.root.rmdir()
    site.world.root.symlink_to(aside)
    assert site.root.health.has_moved(), "it is the same one behind a link"


@pytest.mark.parametrize("trouble", ["gap", "lost", "blocked", "paused"])
def test_a_root_that_is_not_calm_is_looked_at_every_two_seconds(
    trouble: str, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.wait(LOOK_S)
    assert site.root.health.is_calm
    if trouble == "gap":
        site.services.missing = 1
        site.root.process(None, site.now)
    elif trouble == "lost":
        site.world.root.rename(site.world.root.with_name("aside"))
    elif trouble == "blocked":
        monkeypatch.setattr(Store, "blocked", lambda _: "a rebase")
        assert site.root.health.has_moved()
    else:
        site.root.health.paused = True
    site.root.deadlines.look = 0.0
    for _ in range(3):
        site.wait(LOOK_S)
        assert site.root.deadlines.look == site.now + LOOK_S


def test_a_disk_that_refuses_makes_it_read_only_until_it_takes_a_write(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")

    def refuse(directory: str) -> None:
        raise full

    assert isinstance(site.root.trouble(full), DiskError)
    assert site.root.status.state == "read_only"
    assert site.root.deadlines.index == site.now + 1.0
    with monkeypatch.context() as patch:
        patch.setattr(root_health, "probe_write", refuse)
        site.now += 2.0
        with pytest.raises(OSError, match="No space"):
            site.root.on_timer()
        site.root.trouble(full)
    site.wait(10.0)  # the scan comes first
    site.wait(0.1)
    assert site.root.status.state == "ok"


def test_what_is_stored_by_command_is_told_and_is_no_sign_of_other_writers(site: Site) -> None:
    before = site.root.last_change
    site.topics()
    done = site.commands.run(Job("memory.add", AddRequest(memory={"type": "learning", "content": "zebra"})))
    assert isinstance(done, AddResult)
    assert site.topics() == [], "the catalogue follows when nothing more comes"
    site.wait(LOOK_S / 2)
    assert site.records() == 2
    assert site.root.last_change == before
    assert site.root.unsettled == {LEARNINGS}
    told = [event.get("receipt") for topic, event in site.told if topic == "change"]
    assert done.receipt in told


def test_a_paused_root_does_nothing_and_goes_on_when_it_is_resumed(site: Site) -> None:
    site.root.health.paused = True
    site.root.pause()
    assert site.root.status.state == "paused"
    site.world.write(LEARNINGS, lines(learning(1), learning(2)))
    site.wait(MIN_SCAN_S)
    assert site.records() == 1
    with pytest.raises(PausedError):
        site.commands.run(Job("backup"))
    site.root.health.paused = False
    site.root.resume()
    assert (site.root.status.state, site.records()) == ("ok", 2)


def test_a_late_writer_that_closed_its_file_is_told_of_no_longer(site: Site) -> None:
    """Also where the next change released what it wrote to."""

    def rewrite(importance: str) -> None:
        changed = UpdateRequest(id=uuid(1), changes={"importance": importance})
        site.commands.run(Job("memory.update", changed))

    with site.world.path(LEARNINGS).open("ab", buffering=0) as writer:
        rewrite("medium")
        writer.write(lines(learning(2)))
        site.wait(MIN_AGE_S)  # the change is indexed
        site.wait(MIN_AGE_S)
        assert [each.partition(": ")[2][:16] for each in site.root.status.reasons] == ["a program still "]
    rewrite("low")
    assert site.world.store.late_writes.waiting == []
    site.wait(LATE_S)
    assert (site.root.status.state, site.root.status.reasons) == ("ok", ())


def test_reindexing_forgets_nothing(site: Site) -> None:
    site.world.path("index.json").unlink()
    site.world.store.index.written.clear()
    site.commands.reindex(dry_run=True)
    assert not site.world.path("index.json").exists()
    site.commands.reindex(dry_run=False)
    assert site.world.path("index.json").exists()
    assert site.records() == 1


def refuse_versions(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_versions_that_cannot_be_saved_are_reported_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path, kind="markdown-topics", policy=Policy(schedule={"rescan": "off"}))
    vault = site.world.store.vault
    site.world.write("a/b.md", entry("2026-01-30", "kept"))

    with monkeypatch.context() as patch:
        patch.setattr(vault, "add_versions", refuse_versions)
        site.root.begin()
        assert site.root.status.state == "degraded"
        [reason] = site.root.status.reasons
        assert reason.startswith("1 version of a file cannot be saved; memoryd tries again by itself")
        assert [event["code"] for topic, event in site.told if topic == "finding"] == ["versions-unsaved"]
        site.wait(MIN_SCAN_S)
        assert site.root.status.state == "degraded"
    site.wait(MIN_SCAN_S)
    assert (site.root.status.state, site.root.status.reasons) == ("ok", ())
    assert [version.file for version in vault.versions()] == ["a/b.md"]
    site.root.end()


def test_versions_that_are_lost_at_the_end_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path, kind="markdown-topics")
    site.root.begin()
    site.world.write("a/b.md", entry("2026-01-30", "lost"))
    site.root.index_for_search(["a/b.md"], site.now)

    monkeypatch.setattr(site.world.store.vault, "add_versions", refuse_versions)
    site.topics()
    site.root.end()
    assert [event["code"] for topic, event in site.told if topic == "finding"] == ["versions-unsaved"]


@pytest.mark.parametrize("shared", [False, True], ids=["exchanged", "replaced"])
@pytest.mark.parametrize(
    "change", [{json_samples.name(2): json_samples.file(2)}, {"_index.json": b"{}", "_stats.json": b"{}"}]
)
def test_index_files_that_may_not_be_on_the_disk_are_written_again(
    change: Mapping[str, bytes], shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed sync of the directory may leave the old files there after a power failure."""
    monkeypatch.setattr("memoryd.operations.index_files.is_exported", lambda _: shared)
    site = Site(tmp_path, kind="json-files")
    site.world.write(json_samples.name(1), json_samples.file(1))
    site.root.begin()
    for path, content in change.items():
        site.world.write(path, content)
    genuine = syscalls.sync_directory

    def refuse(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(syscalls, "sync_directory", refuse)
        for _ in range(2):
            with pytest.raises(OSError, match=os.strerror(errno.EIO)) as failed:
                site.commands.sync_files(5.0, None)
            site.root.trouble(failed.value)
            assert site.root.status.state == "read_only"
    site.topics()
    synced: list[int] = []

    def sync_directory(fd: int) -> None:
        synced.append(fd)
        genuine(fd)

    monkeypatch.setattr(syscalls, "sync_directory", sync_directory)
    site.commands.sync_files(5.0, None)
    assert synced
    assert site.root.status.state == "ok"
    site.commands.reindex(dry_run=False)
    written = [event["paths"] for topic, event in site.told if topic == "change" and event.get("index")]
    assert [sorted(paths) for paths in written] == [["_index.json", "_stats.json"]], "once is enough"
    site.root.end()


def test_the_status_shows_trouble_also_if_the_index_cannot_be_read(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = IndexUnavailable(errno.EIO, os.strerror(errno.EIO))

    def refuse() -> tuple[int, int]:
        raise broken

    before = site.root.status
    monkeypatch.setattr(site.world.store.catalogue, "totals", refuse)
    site.root.trouble(broken)
    status = site.root.status
    assert (status.state, status.memories) == ("read_only", before.memories)
    assert os.strerror(errno.EIO) in status.reasons[0]


def test_the_status_says_that_locks_and_backups_cannot_be_listed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), ".backup")

    site.topics()
    with monkeypatch.context() as patch:
        patch.setattr("memoryd.engine.status.count_backups", refuse)
        site.root.cares_for(".backup/learnings.jsonl.backup.20260130_120000")
        site.root.publish()
        site.root.publish()
    assert site.root.status.state == "degraded"
    assert site.root.status.reasons[0].startswith("locks and backups cannot be listed: [Errno 13]")
    assert [event["code"] for topic, event in site.told if topic == "finding"] == ["unreadable"]
    site.root.publish()
    assert site.root.status.state == "ok"


def test_an_index_file_that_is_too_large_is_reported_until_it_is_moved_away(tmp_path: Path) -> None:
    site = Site(tmp_path, kind="json-files")
    site.world.write(json_samples.name(1), json_samples.file(1))
    site.root.begin()
    large = site.world.path("_index.json")
    os.truncate(large, 1025 * MB)
    site.commands.sync_files(5.0, None)
    assert site.root.status.state == "degraded"
    reason = f"_index.json has {1025 * MB} bytes, and more than 1024 MB are not read;"
    assert site.root.status.reasons[0].startswith(reason)
    assert [(event["code"], event["path"]) for topic, event in site.told if topic == "finding"] == [
        ("too-large", "_index.json")
    ]
    large.unlink()
    site.commands.sync_files(5.0, None)
    assert (site.root.status.state, site.root.status.reasons) == ("ok", ())
    assert json_samples.identity(1) in large.read_text()
    site.root.end()


@pytest.mark.parametrize(("kind", "index"), [("json-files", "_index.json"), ("jsonl-store", "index.json")])
def test_an_index_file_may_be_larger_than_files_of_memories(tmp_path: Path, kind: str, index: str) -> None:
    before = Site(tmp_path, kind=kind)
    before.world.write(json_samples.name(1), json_samples.file(1))
    before.root.begin()
    before.root.end()
    with open(before.world.path(index), "ab") as file:
        file.write(b" " * 65 * MB)
    site = Site(tmp_path, kind=kind)
    site.root.begin()
    assert (site.root.status.state, site.root.status.reasons) == ("ok", ())
    job = Job("memory.add", AddRequest(memory={"type": "learning", "content": "One of very many."}))
    result = site.commands.run(job)
    assert isinstance(result, AddResult)
    site.commands.sync_files(5.0, None)
    assert result.id in before.world.path(index).read_text()
    site.root.end()


def test_a_degraded_root_is_reported_once_although_no_finding_says_so(site: Site) -> None:
    site.topics()
    site.services.missing = 1
    site.wait(MIN_SCAN_S)
    assert site.root.status.state == "degraded"
    site.root.publish()
    [(topic, event)] = site.told
    assert (topic, event["root"], event["reason"]) == ("health", "agents", site.root.status.reasons[0])
    site.topics()
    site.services.missing = 0
    site.wait(BLIND_SCAN_S)
    assert site.root.status.state == "ok"
    assert site.told == [("health", {"root": "agents", "reason": None})]


def test_a_root_that_is_well_again_after_a_pause_is_reported(site: Site) -> None:
    site.services.missing = 1
    site.wait(MIN_SCAN_S)
    assert site.root.status.state == "degraded"
    site.root.health.paused = True
    site.root.pause()
    site.topics()
    site.services.missing = 0
    site.root.health.paused = False
    site.root.resume()
    assert site.root.status.state == "ok"
    assert ("health", {"root": "agents", "reason": None}) in site.told


def test_a_status_that_lacks_something_is_made_again_at_the_next_look(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), ".backup")

    with monkeypatch.context() as patch:
        patch.setattr("memoryd.engine.status.count_backups", refuse)
        site.root.cares_for(".backup/learnings.jsonl.backup.20260130_120000")
        site.root.publish()
    assert site.root.status.state == "degraded"
    site.wait(LOOK_S)
    assert site.root.status.state == "ok"
