"""The index on disk: correct, written only if its meaning differs, and never in a fight with another program."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from memoryd.core.defaults import Mode, Policy
from memoryd.core.spans import Fingerprint
from memoryd.disk import atomic, processes
from memoryd.disk.locks.hold import DirectoryLock
from memoryd.layouts.codes import severity
from memoryd.layouts.protocol import IndexResult, IndexView
from memoryd.operations.check import all_findings
from memoryd.operations.index_files import update_index
from memoryd.operations.index_ownership import reclaim
from memoryd.operations.refresh import refresh
from memoryd.operations.undo import undo
from memoryd.store import Store
from memoryd.store.index_state import CONTENTION_S, QUIET_S
from tests.layouts.contract import NOW
from tests.layouts.samples import learning, lines, memory
from tests.operations.conftest import MakeWorld
from tests.operations.world import CORE, LEARNINGS, World, same_meaning


def foreign(world: World, age: float = 0.0, **fields: Any) -> None:
    """Another program writes the index its own way."""
    body = {"version": "1.0.0", "last_updated": "2020-01-01T00:00:00Z", "statistics": {"total_memories": -1}, **fields}
    world.write("index.json", json.dumps(body).encode(), age)


def differs(world: World) -> bool:
    return not same_meaning(world.index(), world.rebuilt())


class TestFirstWrite:
    """The first write over an index of another program, which can be undone."""

    def world_with_foreign_index(self, world: World) -> tuple[bytes, str]:
        foreign(world, 60, mine="kept")
        before = world.read("index.json")
        world.write(CORE, lines(memory(1)))
        world.sync()
        [entry] = world.store.journal.entries()
        assert (entry.operation, entry.by) == ("index", "watch")
        return before, entry.receipt

    def test_an_undo_restores_it_and_releases_it_until_reindex(self, world: World) -> None:
        before, receipt = self.world_with_foreign_index(world)
        world.write(LEARNINGS, lines(learning(2)))
        world.sync()
        assert len(world.store.journal.entries()) == 1, "only the first write is told"
        undo(world.store, receipt, world.now)
        assert world.read("index.json") == before
        for number in (3, 4):
            world.append(CORE, memory(number))
            done = world.sync()
            assert (done.written, "reindex" in (done.blocked_reason or "")) == ((), True)
            assert world.read("index.json") == before
            [finding] = world.store.root_findings["index"]
            assert (finding.code, str(severity(finding)), finding.path) == ("index-unmanaged", "info", "index.json")
            world.restart()
        reclaim(world.store)
        assert world.sync().written == ("index.json",)
        assert world.store.root_findings["index"] == ()

    def test_an_undo_restores_also_an_index_that_is_larger_than_any_other_file(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before, receipt = self.world_with_foreign_index(world)
        monkeypatch.setattr(Store, "max_bytes", len(before) - 1)
        world.restart()
        assert world.store.tree.max_bytes < len(before) < len(world.read("index.json"))
        undo(world.store, receipt, world.now)
        assert world.read("index.json") == before

    def test_it_is_journalled_once_also_across_restarts(self, world: World) -> None:
        self.world_with_foreign_index(world)
        world.restart()
        world.append(CORE, memory(4))
        assert world.sync().written == ("index.json",)
        assert len(world.store.journal.entries()) == 1

    def test_an_index_of_memoryd_is_no_foreign_index(self, world: World) -> None:
        world.write(CORE, lines(memory(1)))
        world.sync()
        world.append(CORE, memory(2))
        world.sync()
        assert world.store.journal.entries() == []


class TestDeletions:
    """While files are being deleted, the whole directory may be about to be removed."""

    def test_no_index_is_written_until_a_second_without_a_deletion(self, world: World) -> None:
        for path in (CORE, LEARNINGS):
            world.write(path, lines(memory(1)))
        world.sync()
        world.path(CORE).unlink()
        world.look()
        done = update_index(world.store, world.now)
        assert (done.written, done.retry_at) == ((), world.now + 1)
        world.now += 1
        assert update_index(world.store, world.now).written == ("index.json",)

    def test_nor_while_events_announce_more_deletions(self, world: World) -> None:
        """Deleted files may still wait to be indexed when the second is over."""
        for path in (CORE, LEARNINGS):
            world.write(path, lines(memory(1)))
        world.sync()
        world.path(CORE).unlink()
        world.look()
        assert update_index(world.store, world.now).written == ()
        world.store.index.deletion_event = world.now + 0.9
        world.now += 1
        done = update_index(world.store, world.now)
        assert (done.written, done.retry_at) == ((), world.now + 0.9)
        world.now += 0.9
        assert update_index(world.store, world.now).written == ("index.json",)

    def test_nor_after_the_index_itself_was_deleted(self, world: World) -> None:
        """It may be the first of many."""
        world.write(CORE, lines(memory(1)))
        world.sync()
        world.path("index.json").unlink()
        assert update_index(world.store, world.now).written == ()
        world.now += 1
        assert update_index(world.store, world.now).written == ("index.json",)

    def test_but_for_at_most_ten_seconds(self, world: World) -> None:
        state, began = world.store.index, world.now
        for step in range(12):
            state.note_deletion(began + step * 0.9)
        assert state.hold_until(began + 9.95) == began + 10
        assert state.hold_until(began + 10) is None
        state.note_deletion(began + 10.5)
        assert state.hold_until(began + 10.6) == began + 11.5

    def test_an_explicit_sync_does_not_wait(self, world: World) -> None:
        for path in (CORE, LEARNINGS):
            world.write(path, lines(memory(1)))
        world.sync()
        world.path(CORE).unlink()
        world.look()
        assert update_index(world.store, world.now, force=True).written == ("index.json",)


class TestWriting:
    def test_first_and_then_only_with_a_new_meaning(self, world: World) -> None:
        world.write(CORE, lines(memory(1)))
        assert world.sync().written == ("index.json",)
        assert same_meaning(world.index(), world.rebuilt())
        before = world.everything()
        world.now += 3600
        assert world.sync().written == ()
        world.replace(CORE, lines(memory(1)))
        assert world.sync().written == ()
        assert world.everything()["index.json"] == before["index.json"]

    def test_a_second_pass_changes_no_byte_and_no_stamp(self, world: World) -> None:
        world.write(CORE, lines(memory(1), memory(2)))
        world.sync()
        before = world.everything()
        world.now += 100
        world.sync()
        world.restart()
        world.sync()
        assert world.everything() == before

    def test_its_mode_is_preserved_and_a_new_one_is_private(self, world: World) -> None:
        world.write(CORE, lines(memory(1)))
        world.sync()
        assert world.path("index.json").stat().st_mode & 0o777 == 0o600
        world.path("index.json").chmod(0o640)
        world.append(CORE, memory(2))
        world.sync()
        assert world.path("index.json").stat().st_mode & 0o777 == 0o640

    def test_a_removed_index_comes_back(self, world: World) -> None:
        world.write(CORE, lines(memory(1)))
        world.sync()
        world.path("index.json").unlink()
        update_index(world.store, world.now)
        world.now += 1
        assert update_index(world.store, world.now).written == ("index.json",)

    @pytest.mark.parametrize("garbage", [b"", b"{", b"\0" * 100, b"[]", b'{"version":"0.9.0"}'])
    def test_a_corrupt_or_older_one_is_rebuilt_at_start(self, world: World, garbage: bytes) -> None:
        world.write(CORE, lines(memory(1)))
        world.write("index.json", garbage)
        world.sync()
        assert same_meaning(world.index(), world.rebuilt())

    def test_a_pipe_in_its_place_is_not_replaced_but_reported_until_it_is_gone(self, world: World) -> None:
        world.write(CORE, lines(memory(1)))
        os.mkfifo(world.path("index.json"))
        done = world.sync()
        assert "in place of an index file" in str(done.blocked_reason)
        assert [(each.code, each.path) for each in all_findings(world.store)] == [("not-a-regular-file", "index.json")]
        assert world.path("index.json").is_fifo()
        world.path("index.json").unlink()
        assert world.sync().written == ("index.json",)
        assert all_findings(world.store) == []

    def test_both_of_two_index_files_count_as_written_by_memoryd(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An index mistaken for that of another program would be read again, and later delayed for a minute."""
        root = tmp_path / "root"
        root.mkdir(mode=0o700)
        content = {"id": "mem_1748681950340_nrs0enwdu", "content": "x", "created": "2025-05-31T08:59:10.340Z"}
        (root / "memory_20250531015910.json").write_text(json.dumps(content))
        store = Store("files", str(root), "json-files", Policy(), str(tmp_path / "state"))
        store.attach()
        refresh(store, None, NOW)
        assert sorted(update_index(store, NOW, force=True).written) == ["_index.json", "_stats.json"]
        assert store.layout is not None
        rendered: list[IndexView] = []
        original = store.layout.index.render

        def counted(view: IndexView) -> IndexResult:
            rendered.append(view)
            return original(view)

        counting = replace(store.layout.index, render=counted)
        monkeypatch.setattr(store, "layout", replace(store.layout, index=counting))
        assert update_index(store, NOW).written == ()
        assert rendered == []
        store.close()


FOREIGN = (
    '[{"title": "a"}]',
    '{"next_id": 41}',
    '{"version": "1.0.0", "items": []}',
    '{"version": 2, "ite',
    '{"version": "1.0.0", "items": [',
    "3",
)

DAMAGED = (
    "",
    " \n",
    "{",
    "{}",
    '{"statistics": {"tot',
    "\0\0\0",
    '{"tags_index": 1}',
    '{"version": "1.0.0", ',
    '{"version": "1.0.0", "last_updated": "2026-01-01T10:00:00Z", "stati',
    "\ufeff" + '{"version": "1.0.0"}',
    "not json",
    "{ this is not json }",
    "null",
)


class TestNotWriting:
    @pytest.mark.parametrize("content", FOREIGN)
    def test_another_programs_index_is_left_until_it_is_moved_away(self, content: str, world: World) -> None:
        world.write(CORE, lines(memory(1)))
        world.write("index.json", content.encode())
        before = world.everything()
        for _ in range(2):
            done = world.sync()
            assert (done.written, done.result.memories) == ((), 1)
            assert "move it away" in str(done.blocked_reason)
            assert [(each.code, each.path) for each in world.store.root_findings["index"]] == [
                ("index-unmanaged", "index.json")
            ]
        assert world.everything() == before
        world.path("index.json").unlink()
        assert world.sync().written == ("index.json",)
        assert world.store.root_findings["index"] == ()

    @pytest.mark.parametrize("content", DAMAGED)
    def test_a_damaged_or_empty_index_is_rebuilt(self, content: str, world: World) -> None:
        world.write(CORE, lines(memory(1)))
        world.write("index.json", content.encode())
        assert world.sync().written == ("index.json",)

    @pytest.mark.parametrize("path", ["_index.json", "_stats.json"])
    @pytest.mark.parametrize("content", ['{"version": 2, "items": []}', '["de", "en"]', '{"peak": {"heap": 1}}'])
    def test_no_other_index_file_is_written_next_to_one(self, path: str, content: str, tmp_path: Path) -> None:
        root = tmp_path / "root"
        root.mkdir(mode=0o700)
        (root / "memory_20250531015910.json").write_text('{"id": "mem_1", "content": "x"}')
        (root / path).write_text(content)
        store = Store("files", str(root), "json-files", Policy(), str(tmp_path / "state"))
        store.attach()
        refresh(store, None, NOW)
        assert update_index(store, NOW, force=True).written == ()
        assert (root / path).read_text() == content
        assert len(list(root.iterdir())) == 2
        store.close()

    def test_observe_mode_writes_nothing_at_all(self, make_world: MakeWorld) -> None:
        world = make_world(Policy(mode=Mode.OBSERVE))
        world.write(CORE, lines(memory(1)))
        world.write("index.json", b"{")
        before = world.everything()
        done = world.sync()
        assert (done.written, done.result.memories) == ((), 1)
        assert done.blocked_reason == "the root is in observe mode"
        assert world.everything() == before

    def test_a_newer_index_makes_the_directory_read_only(self, world: World) -> None:
        world.write(CORE, lines(memory(1)))
        foreign(world, 3600, version="2.0.0")
        before = world.everything()
        done = world.sync()
        assert done.written == ()
        assert done.blocked_reason is not None
        assert "2.0.0" in done.blocked_reason
        assert done.result.memories == 1
        assert world.everything() == before

    def test_unless_the_literal_behaviour_of_the_seed_is_configured(self, make_world: MakeWorld) -> None:
        world = make_world(Policy(newer_index="rebuild"))
        world.write(CORE, lines(memory(1)))
        foreign(world, 3600, version="2.0.0")
        assert world.sync().written == ("index.json",)
        assert world.index()["version"] == "1.0.0"

    def test_what_another_program_writes_meanwhile_stays(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        def replace_after_another_program(*given: Any, **named: Any) -> Fingerprint:
            foreign(world)
            return real_replace(*given, **named)

        real_replace = atomic.replace_derived
        monkeypatch.setattr(atomic, "replace_derived", replace_after_another_program)
        foreign(world, 60)
        world.write(CORE, lines(memory(1)))
        done = world.sync()
        assert done.delay_reason == "the index changed while it was written"
        assert world.index()["statistics"]["total_memories"] == -1

    @pytest.mark.parametrize("way", ["mounted", "exported"])
    def test_no_version_is_overwritten_that_another_machine_may_read(
        self, way: str, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if way == "mounted":
            world.store.network_fs = "virtiofs"
        else:
            (tmp_path / "etab").write_text(f"{os.path.dirname(world.store.path)}\t*(rw,sync)\n")
            monkeypatch.setattr(processes, "EXPORTS", (str(tmp_path / "etab"),))
        for number in range(1, 4):
            world.write(CORE, lines(*(memory(each) for each in range(number))))
            assert world.sync().written == ("index.json",)
            assert not os.path.exists(os.path.join(world.store.state_dir, "index.json.spare"))

    def test_nothing_goes_first_while_agents_may_wait_for_the_lock(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store, first = world.store, list[str]()
        monkeypatch.setattr(store.searches, "give_way", lambda: first.append("search"))
        monkeypatch.setattr(store, "urgent_callback", lambda: first.append("change"))
        with store.locked(0):
            store.pause()
        assert first == []
        with pytest.raises(OSError, match="full"), store.locked(0):
            raise OSError("full")
        store.pause()
        assert first == ["search", "change"]

    def test_a_held_lock_makes_it_wait(self, world: World) -> None:
        world.write(CORE, lines(memory(1)))
        with DirectoryLock(world.store.tree.fd).hold(1.0):
            world.look()
            done = update_index(world.store, world.now, wait_s=0.0)
        assert done.written == ()
        assert done.delay_reason is not None
        assert done.retry_at == world.now + 0.2
        assert update_index(world.store, world.now).written == ("index.json",)


class TestAgainstAnotherWriter:
    def start(self, world: World) -> None:
        world.write(CORE, lines(memory(1)))
        world.sync()

    def test_two_seconds_of_quiet(self, world: World) -> None:
        self.start(world)
        world.now += 10
        foreign(world, age=0.5)
        done = update_index(world.store, world.now)
        assert (done.written, done.retry_at) == ((), world.now - 0.5 + QUIET_S)
        world.now += 1.4
        assert update_index(world.store, world.now).written == ()
        world.now += 0.2
        assert update_index(world.store, world.now).written == ("index.json",)
        assert not differs(world)

    def test_one_of_equal_meaning_is_not_rewritten(self, world: World) -> None:
        self.start(world)
        body = world.index()
        world.write("index.json", json.dumps(body, indent=4).encode(), 0.0)
        assert update_index(world.store, world.now) == update_index(world.store, world.now)
        assert world.read("index.json") == json.dumps(body, indent=4).encode()

    def test_at_most_once_a_minute_while_it_is_changed_back(self, world: World) -> None:
        self.start(world)
        world.age("index.json", 10.0)
        written: list[float] = []
        begin = world.now
        for _ in range(600):  # for ten minutes
            world.now += 1.0
            if world.now - os.stat(world.path("index.json")).st_mtime > 5:  # by this clock it is long quiet
                foreign(world, age=3.0)
            if update_index(world.store, world.now).written:
                written.append(world.now - begin)
                world.age("index.json", 10.0)
        assert 9 <= len(written) <= 12
        assert all(later - earlier >= CONTENTION_S for earlier, later in pairwise(written[1:]))

    def test_an_explicit_sync_does_not_wait(self, world: World) -> None:
        self.start(world)
        for _ in range(3):
            world.now += 0.1
            foreign(world)
            assert world.sync().written == ("index.json",)
            assert not differs(world)

    def test_a_quiet_period_resets_the_count(self, world: World) -> None:
        self.start(world)
        for _ in range(2):
            foreign(world)
            world.sync()
        world.now += 3 * CONTENTION_S
        foreign(world, age=3.0)
        assert update_index(world.store, world.now).written == ("index.json",)

    def test_an_mtime_in_the_future_delays_only_once(self, world: World) -> None:
        """After the clock was set back, a foreign index may look new for hours."""
        self.start(world)
        foreign(world, age=-7200.0)
        done = update_index(world.store, world.now)
        assert done.retry_at is not None
        world.now = done.retry_at
        assert update_index(world.store, world.now).written == ("index.json",)

    def test_a_clock_set_back_does_not_prolong_contention(self, world: World) -> None:
        self.start(world)
        for _ in range(2):
            foreign(world)
            world.sync()
        world.now -= 86_400
        foreign(world, age=3.0)
        waited = 0.0
        while not update_index(world.store, world.now).written:
            world.now += 1.0
            waited += 1.0
            assert waited <= CONTENTION_S + 1


class TestIncremental:
    def test_every_kind_of_change_gives_the_index_of_a_rebuild(self, world: World) -> None:
        steps: list[Callable[[], object]] = [
            lambda: world.write(CORE, lines(memory(1), memory(2, tags=["x"]))),
            lambda: world.append(CORE, memory(3, category="new")),
            lambda: world.write(LEARNINGS, lines(learning(1), learning(4))),  # an id of the core file again
            lambda: world.replace(CORE, lines(memory(2))),  # now the learning is the first of its id
            lambda: world.write(LEARNINGS, b"{broken\n" + lines(learning(4, archived=True))),
            lambda: world.write("archive/2024/learnings_2024_Q1.jsonl", lines(learning(9)) + b"junk\n"),
            lambda: world.path(CORE).unlink(),
            lambda: world.write(CORE, b""),
        ]
        for step in steps:
            step()
            world.now += 5
            world.sync()
            assert not differs(world)
