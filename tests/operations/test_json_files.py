"""The layout json-files on a real disk: the real folder, half-written files, what only an old index told."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.core.policy import DAY, Policy
from memoryd.errors import BusyError, ConflictError, NotFoundError
from memoryd.layouts.json_files import JSON_FILES
from memoryd.layouts.json_files.names import is_memory
from memoryd.layouts.json_files.schema import iso_ms
from memoryd.layouts.registry import LAYOUTS
from memoryd.operations import memories
from memoryd.operations.backup import create_backups
from memoryd.operations.check import check
from memoryd.operations.index_files import IndexUpdate, update_index
from memoryd.operations.lookup import read_memory
from memoryd.operations.memories import Context
from memoryd.operations.refresh import RefreshResult, refresh
from memoryd.operations.repair import repair
from memoryd.operations.undo import undo
from memoryd.operations.upkeep import archive, dedupe
from memoryd.store import Store
from memoryd.store.views import write_view
from tests.layouts.contract import NOW
from tests.layouts.json_samples import CORPUS, corpus, file, identity, memory, name, pretty

INDEX, STATS = "_index.json", "_stats.json"


class Folder:
    """One store with a clock of its own; files are an hour old unless told otherwise."""

    def __init__(self, base: Path, policy: Policy | None = None) -> None:
        self.root = base / "memories"
        self.root.mkdir()
        self.now = NOW
        self.policy = policy or Policy()
        self.state = base / "state"
        self.store = self.open()

    def open(self) -> Store:
        store = Store("m", str(self.root), "json-files", self.policy, str(self.state))
        store.attach()
        return store

    def restart(self) -> None:
        self.store.close()
        self.store = self.open()

    def write(self, path: str, content: bytes, age: float = 3600.0) -> None:
        (self.root / path).write_bytes(content)
        at = int((self.now - age) * 1e9)
        os.utime(self.root / path, ns=(at, at))

    def look(self) -> RefreshResult:
        done = refresh(self.store, None, self.now)
        if done.changed or done.deleted:
            self.store.index.dirty = True
        return done

    def sync(self) -> IndexUpdate:
        self.look()
        return update_index(self.store, self.now, force=True)

    def read(self, path: str) -> dict[str, Any]:
        body: dict[str, Any] = json.loads((self.root / path).read_bytes())
        return body

    def codes(self) -> list[str]:
        return sorted(finding.code for finding in check(self.store, self.now))

    def everything(self) -> dict[str, tuple[bytes, int]]:
        return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in self.root.iterdir()}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    layouts = {**LAYOUTS, "json-files": JSON_FILES}
    monkeypatch.setattr("memoryd.store.store.LAYOUTS", layouts)
    made = Folder(tmp_path)
    yield made
    made.store.close()


def take_real_folder(folder: Folder) -> None:
    for path in CORPUS.iterdir():
        shutil.copy(path, folder.root / path.name)
        os.utime(folder.root / path.name, (NOW - 3600, NOW - 3600))


class TestTheRealFolder:
    def test_four_ids_three_repairable_files_a_total_of_four_and_47_dangling_ids(self, folder: Folder) -> None:
        """Test vector 10; what the lost are is still known after a restart, and by the check after it."""
        take_real_folder(folder)
        assert set(folder.sync().written) == {INDEX, STATS}
        assert len(folder.read(INDEX)["fileIndex"]) == 4
        assert folder.read(STATS)["totalMemories"] == 4
        for _ in range(2):
            findings = check(folder.store, folder.now)
            assert [each.code for each in findings].count("torn-file") == 3
            (lost,) = [each for each in findings if each.code == "lost-to-name-collision"]
            assert lost.message.startswith("lost_to_name_collision: 47;")
            folder.restart()
            folder.now += 60
            folder.sync()

    def test_a_second_pass_writes_nothing(self, folder: Folder) -> None:
        take_real_folder(folder)
        folder.sync()
        before = folder.everything()
        folder.now += 600
        folder.restart()
        folder.look()
        folder.store.index.dirty = True
        assert update_index(folder.store, folder.now, force=True).written == ()
        assert folder.everything() == before

    def test_repair_writes_the_first_values_and_can_be_undone(self, folder: Folder) -> None:
        take_real_folder(folder)
        folder.sync()
        done = repair(folder.store, folder.now)
        assert len(done.plan.actions) == 3
        folder.sync()
        assert folder.codes() == ["lost-to-name-collision"]
        for path in CORPUS.iterdir():
            now = (folder.root / path.name).read_bytes()
            if is_memory(path.name):
                assert now == path.read_bytes().replace(b"}se\n}", b"}")
        assert not repair(folder.store, folder.now).plan
        assert done.receipt is not None
        undo(folder.store, done.receipt, folder.now)
        for told, data in corpus().items():
            if is_memory(told):
                assert (folder.root / told).read_bytes() == data


class TestWriters:
    def test_a_file_that_is_being_written_keeps_its_place_in_the_index(self, folder: Folder) -> None:
        """The server truncates and writes on every read: for that moment the memory is neither gone nor broken."""
        for number in (1, 2):
            folder.write(name(number), file(number))
        folder.sync()
        before = folder.everything()
        for half in (b"", file(1)[:30]):
            folder.write(name(1), half, age=0.1)
            assert folder.look().waiting == (name(1),)
            assert folder.codes() == []
            assert update_index(folder.store, folder.now, force=True).written == ()
            assert folder.everything()[INDEX] == before[INDEX]
        folder.write(name(1), file(1, tags=["new"]), age=0.1)
        folder.sync()
        assert folder.read(INDEX)["tagIndex"]["new"] == [identity(1)]

    def test_a_file_that_stays_broken_leaves_the_index_and_is_reported(self, folder: Folder) -> None:
        for number in (1, 2):
            folder.write(name(number), file(number))
        folder.sync()
        folder.write(name(1), b"{", age=0.1)
        folder.look()
        folder.now += 3
        folder.sync()
        assert list(folder.read(INDEX)["fileIndex"]) == [identity(2)]
        assert folder.codes() == ["corrupt-file"]

    def test_an_access_by_the_server_writes_nothing(self, folder: Folder) -> None:
        folder.write(name(1), file(1))
        folder.sync()
        before = folder.everything()
        folder.write(name(1), file(1, accessCount=1, lastAccessed="2026-01-31T10:00:00.000Z"))
        folder.now += 60
        assert folder.sync().written == ()
        assert {each: before[each] for each in (INDEX, STATS)} == {
            each: folder.everything()[each] for each in (INDEX, STATS)
        }

    def test_an_access_is_no_reason_for_a_backup(self, folder: Folder) -> None:
        """Reading changes the file; only with something else does a new snapshot come."""
        folder.write(name(1), file(1))
        folder.sync()
        assert create_backups(folder.store, folder.now)[0].outcome == "made"
        folder.write(name(1), file(1, accessCount=1, relevanceScore=0.9))
        folder.sync()
        assert create_backups(folder.store, folder.now)[0].outcome == "equal"
        folder.write(name(1), file(1, accessCount=1, summary="said anew"))
        folder.sync()
        assert create_backups(folder.store, folder.now)[0].outcome == "made"

    @pytest.mark.parametrize("path", ["nothing.json", "../../etc/passwd", INDEX, name(9)])
    def test_only_memory_files_are_backed_up_by_name(self, folder: Folder, path: str) -> None:
        folder.write(name(1), file(1))
        folder.sync()
        with pytest.raises(NotFoundError, match="is not a memory file"):
            create_backups(folder.store, folder.now, file=path)

    def test_deleted_added_renamed_and_edited_by_hand(self, folder: Folder) -> None:
        for number in (1, 2, 3):
            folder.write(name(number), file(number))
        folder.sync()
        (folder.root / name(1)).unlink()
        (folder.root / name(2)).rename(folder.root / name(5))
        folder.write(name(3), file(3, projectId="other"))
        folder.write(name(4), file(4))
        folder.sync()
        found = folder.read(INDEX)
        assert found["fileIndex"] == {identity(3): name(3), identity(4): name(4), identity(2): name(5)}
        assert found["projectIndex"]["other"] == [identity(3)]
        assert folder.read(STATS)["totalMemories"] == 3
        assert folder.codes() == []


class TestUpkeep:
    def test_the_flag_by_schedule_where_it_is_turned_on(self, folder: Folder) -> None:
        old = {"created": iso_ms(NOW - 91 * DAY), "relevanceScore": 0.1}
        folder.write(name(1), file(1, **old))
        folder.write(name(2), file(2))
        folder.sync()
        assert not archive(folder.store, folder.now, by="schedule").plan
        folder.store.policy = Policy(archive_flag=True)
        done = archive(folder.store, folder.now, by="schedule")
        assert (folder.root / name(1)).read_bytes() == file(1, **old, archived=True)
        folder.sync()
        assert len(folder.read(INDEX)["fileIndex"]) == 2
        assert done.receipt is not None
        undo(folder.store, done.receipt, folder.now)
        folder.sync()
        assert not archive(folder.store, folder.now, by="schedule").plan  # somebody took it back

    def test_the_flag_by_name(self, folder: Folder) -> None:
        folder.write(name(1), file(1))
        folder.sync()
        archive(folder.store, folder.now, by="command", ids=[identity(1)])
        assert folder.read(name(1)) == memory(1, archived=True)

    def test_duplicates_are_suggested_among_all_memories(self, folder: Folder) -> None:
        text = "create the cache folder before the first run of the build on a fresh machine"
        for number in (1, 2):
            folder.write(name(number), pretty(memory(number, content=text)))
        folder.sync()
        before = folder.everything()
        done = dedupe(folder.store, folder.now, by="command")
        assert [note.ids for note in done.plan.notes] == [(identity(2), identity(1))]
        assert "possible-duplicate" in folder.codes()
        assert folder.everything() == before


def test_that_the_server_counts_a_read_meanwhile_is_no_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It rewrites the file for that; nothing of the memory is changed by it, and its count is kept."""
    folder = Folder(tmp_path)
    folder.write(name(1), file(1))
    folder.look()
    reads = [lambda: folder.write(name(1), file(1, accessCount=7)), lambda: folder.write(name(1), file(1, tags=["x"]))]

    def view(*given: Any, **more: Any) -> Any:
        if reads:
            reads.pop(0)()
        return write_view(*given, **more)

    monkeypatch.setattr(memories, "write_view", view)
    with pytest.raises(ConflictError):
        memories.update(folder.store, identity(1), {"summary": "ours"}, folder.now, memories.Context())
    assert json.loads((folder.root / name(1)).read_bytes())["tags"] == ["x"]
    reads.append(lambda: folder.write(name(1), file(1, tags=["x"], accessCount=8)))
    memories.update(folder.store, identity(1), {"summary": "ours"}, folder.now, memories.Context())
    found = json.loads((folder.root / name(1)).read_bytes())
    assert (found["accessCount"], found["summary"], found["tags"]) == (8, "ours", ["x"])


def test_a_memory_whose_file_is_just_being_written_is_busy_and_not_gone(folder: Folder) -> None:
    folder.write(name(1), file(1))
    folder.sync()
    for half in (b"", file(1)[:40]):
        folder.write(name(1), half, age=0)
        refresh(folder.store, [name(1)], folder.now)
        with pytest.raises(BusyError) as caught:
            memories.update(folder.store, identity(1), {"summary": "new"}, folder.now, Context())
        assert "Errno" not in caught.value.message
        assert f"{name(1)}: the file keeps changing" in caught.value.message
        with pytest.raises(BusyError, match="is being written"):
            read_memory(folder.store, identity(1), folder.now)
    folder.write(name(1), file(1), age=0)
    memories.update(folder.store, identity(1), {"summary": "new"}, folder.now, Context())
