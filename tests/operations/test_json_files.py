"""The layout json-files on a real disk: a real directory, half-written files, ids known only from an old index."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.core.dates import iso_ms
from memoryd.core.defaults import DAY, Policy
from memoryd.disk import syscalls
from memoryd.errors import BusyError, ConflictError, NotFoundError
from memoryd.layouts.json_files.names import is_memory
from memoryd.operations import memories
from memoryd.operations.backup import create_backups
from memoryd.operations.check import check
from memoryd.operations.index_files import update_index
from memoryd.operations.lookup import read_memory
from memoryd.operations.memories import Context
from memoryd.operations.refresh import refresh
from memoryd.operations.repair import repair
from memoryd.operations.undo import undo
from memoryd.operations.upkeep import archive, dedupe
from memoryd.store.layout_views import write_view
from tests.layouts.contract import NOW
from tests.layouts.json_samples import CORPUS, corpus, file, identity, memory, name, pretty
from tests.operations.world import World

INDEX, STATS = "_index.json", "_stats.json"


class Site(World):
    """A store of JSON files."""

    kind = "json-files"

    def body(self, path: str) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.read(path))
        return body

    def codes(self) -> list[str]:
        return sorted(finding.code for finding in check(self.store, self.now))

    def files(self) -> dict[str, tuple[bytes, int]]:
        return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in self.root.iterdir()}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.store.close()


@pytest.mark.usefixtures("leases")
def test_both_index_files_are_on_the_disk_after_one_sync_of_the_directory(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.write(name(1), file(1))
    site.sync()
    counts = list[tuple[int, int]]()

    def note(_: int) -> None:
        counts.append((len(site.body(INDEX)["fileIndex"]), site.body(STATS)["totalMemories"]))

    monkeypatch.setattr(syscalls, "sync_directory", note)
    site.write(name(2), file(2))
    assert site.sync().written == (INDEX, STATS)
    assert counts == [(2, 2)]


def copy_real_directory(site: Site) -> None:
    for path in CORPUS.iterdir():
        shutil.copy(path, site.root / path.name)
        os.utime(site.root / path.name, (NOW - 3600, NOW - 3600))


class TestRealDirectory:
    def test_four_ids_three_repairable_files_a_total_of_four_and_47_dangling_ids(self, site: Site) -> None:
        """Test vector 10; the lost ids are still known after a restart, and to the check after it."""
        copy_real_directory(site)
        assert set(site.sync().written) == {INDEX, STATS}
        assert len(site.body(INDEX)["fileIndex"]) == 4
        assert site.body(STATS)["totalMemories"] == 4
        for _ in range(2):
            findings = check(site.store, site.now)
            assert [each.code for each in findings].count("torn-file") == 3
            (lost,) = [each for each in findings if each.code == "lost-to-name-collision"]
            assert lost.message.startswith("47 memories are lost: their files were")
            site.restart()
            site.now += 60
            site.sync()

    def test_lost_ids_can_be_accepted(self, site: Site) -> None:
        """Also when a running server writes its old index again; what is lost later is reported."""
        copy_real_directory(site)
        old_index = site.read(INDEX)
        site.sync()
        before = site.files()
        repair(site.store, site.now)
        tried = repair(site.store, site.now, codes=["lost-to-name-collision"], dry_run=True)
        site.sync()
        assert site.codes() == ["lost-to-name-collision"]
        done = repair(site.store, site.now, codes=["lost-to-name-collision"])
        assert [each.why for each in done.plan.actions] == [
            "47 memories are lost: their files were overwritten by memories of the same second"
        ]
        assert (tried.plan, tried.receipt, bool(done.receipt)) == (done.plan, None, True)
        assert site.sync().written == ()
        assert site.codes() == []
        assert site.files().keys() == before.keys()
        site.restart()
        site.now += 600
        site.write(INDEX, old_index, age=60)
        assert INDEX in site.sync().written
        assert site.codes() == []
        path = next(iter(site.body(INDEX)["fileIndex"].values()))
        site.write(path, file(7, created="2026-01-01T00:00:00.000Z"), age=30)
        site.sync()
        (lost,) = check(site.store, site.now)
        assert lost.message.startswith("1 memory is lost")
        assert "`memoryd repair --code lost-to-name-collision`" in lost.message

    def test_a_second_pass_writes_nothing(self, site: Site) -> None:
        copy_real_directory(site)
        site.sync()
        before = site.files()
        site.now += 600
        site.restart()
        site.look()
        site.store.index.dirty = True
        assert update_index(site.store, site.now, force=True).written == ()
        assert site.files() == before

    def test_repair_writes_the_first_values_and_can_be_undone(self, site: Site) -> None:
        copy_real_directory(site)
        site.sync()
        done = repair(site.store, site.now)
        assert len(done.plan.actions) == 3
        site.sync()
        assert site.codes() == ["lost-to-name-collision"]
        for path in CORPUS.iterdir():
            now = (site.root / path.name).read_bytes()
            if is_memory(path.name):
                assert now == path.read_bytes().replace(b"}se\n}", b"}")
        assert not repair(site.store, site.now).plan
        assert done.receipt is not None
        undo(site.store, done.receipt, site.now)
        for told, data in corpus().items():
            if is_memory(told):
                assert (site.root / told).read_bytes() == data


class TestWriters:
    def test_a_file_that_is_being_written_stays_in_the_index(self, site: Site) -> None:
        """The server truncates and writes on every read: for that moment the memory is neither missing nor broken."""
        for number in (1, 2):
            site.write(name(number), file(number))
        site.sync()
        before = site.files()
        for half in (b"", file(1)[:30]):
            site.write(name(1), half, age=0.1)
            assert site.look().waiting == (name(1),)
            assert site.codes() == []
            assert update_index(site.store, site.now, force=True).written == ()
            assert site.files()[INDEX] == before[INDEX]
        site.write(name(1), file(1, tags=["new"]), age=0.1)
        site.sync()
        assert site.body(INDEX)["tagIndex"]["new"] == [identity(1)]

    def test_a_file_that_stays_broken_leaves_the_index_and_is_reported(self, site: Site) -> None:
        for number in (1, 2):
            site.write(name(number), file(number))
        site.sync()
        site.write(name(1), b"{", age=0.1)
        site.look()
        site.now += 3
        site.sync()
        assert list(site.body(INDEX)["fileIndex"]) == [identity(2)]
        assert site.codes() == ["corrupt-file"]

    def test_an_access_by_the_server_writes_nothing(self, site: Site) -> None:
        site.write(name(1), file(1))
        site.sync()
        before = site.files()
        site.write(name(1), file(1, accessCount=1, lastAccessed="2026-01-31T10:00:00.000Z"))
        site.now += 60
        assert site.sync().written == ()
        assert {each: before[each] for each in (INDEX, STATS)} == {each: site.files()[each] for each in (INDEX, STATS)}

    def test_an_access_makes_no_backup(self, site: Site) -> None:
        """Reading changes the file; only with something else does a new snapshot come."""
        site.write(name(1), file(1))
        site.sync()
        assert create_backups(site.store, site.now)[0].outcome == "made"
        site.write(name(1), file(1, accessCount=1, relevanceScore=0.9))
        site.sync()
        assert create_backups(site.store, site.now)[0].outcome == "equal"
        site.write(name(1), file(1, accessCount=1, summary="said anew"))
        site.sync()
        assert create_backups(site.store, site.now)[0].outcome == "made"

    @pytest.mark.parametrize("path", ["nothing.json", "../../etc/passwd", INDEX, name(9)])
    def test_only_memory_files_are_backed_up_by_name(self, site: Site, path: str) -> None:
        site.write(name(1), file(1))
        site.sync()
        with pytest.raises(NotFoundError, match="is not a memory file"):
            create_backups(site.store, site.now, file=path)

    def test_deleted_added_renamed_and_edited_by_hand(self, site: Site) -> None:
        for number in (1, 2, 3):
            site.write(name(number), file(number))
        site.sync()
        (site.root / name(1)).unlink()
        (site.root / name(2)).rename(site.root / name(5))
        site.write(name(3), file(3, projectId="other"))
        site.write(name(4), file(4))
        site.sync()
        found = site.body(INDEX)
        assert found["fileIndex"] == {identity(3): name(3), identity(4): name(4), identity(2): name(5)}
        assert found["projectIndex"]["other"] == [identity(3)]
        assert site.body(STATS)["totalMemories"] == 3
        assert site.codes() == []


class TestUpkeep:
    def test_the_flag_by_schedule_if_enabled(self, site: Site) -> None:
        old = {"created": iso_ms(NOW - 91 * DAY), "relevanceScore": 0.1}
        site.write(name(1), file(1, **old))
        site.write(name(2), file(2))
        site.sync()
        assert not archive(site.store, site.now, by="schedule").plan
        site.store.policy = Policy(archive_flag=True)
        done = archive(site.store, site.now, by="schedule")
        assert (site.root / name(1)).read_bytes() == file(1, **old, archived=True)
        site.sync()
        assert len(site.body(INDEX)["fileIndex"]) == 2
        assert done.receipt is not None
        undo(site.store, done.receipt, site.now)
        site.sync()
        assert not archive(site.store, site.now, by="schedule").plan  # somebody took it back

    def test_the_flag_by_name(self, site: Site) -> None:
        site.write(name(1), file(1))
        site.sync()
        archive(site.store, site.now, by="command", ids=[identity(1)])
        assert site.body(name(1)) == memory(1, archived=True)

    def test_duplicates_are_suggested_among_all_memories(self, site: Site) -> None:
        text = "create the cache folder before the first run of the build on a fresh machine"
        for number in (1, 2):
            site.write(name(number), pretty(memory(number, content=text)))
        site.sync()
        before = site.files()
        done = dedupe(site.store, site.now, by="command")
        assert [note.ids for note in done.plan.notes] == [(identity(2), identity(1))]
        assert "possible-duplicate" in site.codes()
        assert site.files() == before


def test_an_access_count_written_meanwhile_is_no_conflict(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server rewrites the file for the count, which does not change the memory and is preserved."""
    site.write(name(1), file(1))
    site.look()
    reads = [lambda: site.write(name(1), file(1, accessCount=7)), lambda: site.write(name(1), file(1, tags=["x"]))]

    def view(*given: Any, **more: Any) -> Any:
        if reads:
            reads.pop(0)()
        return write_view(*given, **more)

    monkeypatch.setattr(memories, "write_view", view)
    with pytest.raises(ConflictError):
        memories.update(site.store, identity(1), {"summary": "ours"}, site.now, memories.Context())
    assert json.loads((site.root / name(1)).read_bytes())["tags"] == ["x"]
    reads.append(lambda: site.write(name(1), file(1, tags=["x"], accessCount=8)))
    memories.update(site.store, identity(1), {"summary": "ours"}, site.now, memories.Context())
    found = json.loads((site.root / name(1)).read_bytes())
    assert (found["accessCount"], found["summary"], found["tags"]) == (8, "ours", ["x"])


def test_a_memory_whose_file_is_being_written_is_busy_and_not_missing(site: Site) -> None:
    site.write(name(1), file(1))
    site.sync()
    for half in (b"", file(1)[:40]):
        site.write(name(1), half, age=0)
        refresh(site.store, [name(1)], site.now)
        with pytest.raises(BusyError) as caught:
            memories.update(site.store, identity(1), {"summary": "new"}, site.now, Context())
        assert "Errno" not in caught.value.message
        assert f"{name(1)}: the file keeps changing" in caught.value.message
        with pytest.raises(BusyError, match="is being written"):
            read_memory(site.store, identity(1), site.now)
    site.write(name(1), file(1), age=0)
    memories.update(site.store, identity(1), {"summary": "new"}, site.now, Context())
