"""Backups: five good ones, in order, restorable by `cp` and by command; a restore first backs up the live file."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from memoryd.core.dates import compact
from memoryd.core.defaults import Policy
from memoryd.core.spans import sha256
from memoryd.disk.blobs import quarantine
from memoryd.engine.jobs import OPERATIONS, Job
from memoryd.errors import ConflictError, NotFoundError, UsageError
from memoryd.operations.backup import create_backups, list_backups, prune_state
from memoryd.operations.file_versions import save_versions
from memoryd.operations.refresh import refresh
from memoryd.operations.restore import restore
from memoryd.operations.undo import undo
from memoryd.operations.upkeep import archive, plan_row
from memoryd.store import Store
from tests.layouts import json_samples
from tests.layouts.contract import NOW
from tests.layouts.samples import learning, lines, memory, task, uuid
from tests.layouts.session_samples import session
from tests.operations.conftest import MakeWorld
from tests.operations.world import CORE, LEARNINGS, LIVE, TASKS, World


def save(world: World, number: int, later: float = 60.0) -> None:
    """Store one more memory and make one more backup."""
    world.now += later
    world.append(CORE, memory(number))
    create_backups(world.store, world.now, file=CORE)


class TestCreate:
    def test_an_emptied_file_does_not_touch_the_directory(self, world: World) -> None:
        """An unnecessary lock would change the mtime of the directory at each run."""
        world.write(CORE, lines(memory(1)))
        create_backups(world.store, world.now)
        world.write(CORE, b"")
        before = world.path("").stat().st_mtime_ns
        assert [each.outcome for each in create_backups(world.store, world.now)] == ["empty"]
        assert world.path("").stat().st_mtime_ns == before
        assert len(world.backups()) == 1

    def test_of_every_live_file_under_the_name_of_the_seed(self, world: World) -> None:
        for name, content in ((CORE, lines(memory(1))), (LEARNINGS, lines(learning(2)))):
            world.write(name, content)
        made = create_backups(world.store, world.now)
        assert world.backups() == [f"{CORE}.backup.20260131_100000", f"{LEARNINGS}.backup.20260131_100000"]
        assert [(each.file, each.outcome) for each in made] == [(CORE, "made"), (LEARNINGS, "made")]
        for name in (CORE, LEARNINGS):
            backup = world.path(f".backup/{name}.backup.20260131_100000")
            assert backup.read_bytes() == world.read(name)
            assert backup.stat().st_mode & 0o777 == 0o600
        assert world.path(".backup").stat().st_mode & 0o777 == 0o700

    def test_equal_content_makes_no_new_one(self, world: World) -> None:
        world.write(CORE, lines(memory(1)))
        create_backups(world.store, world.now)
        before = world.everything()
        assert [each.outcome for each in create_backups(world.store, world.now + 86_400)] == ["equal"]
        assert world.everything() == before

    def test_at_most_five_of_a_file(self, world: World) -> None:
        world.write(CORE, b"")
        for number in range(1, 9):
            save(world, number)
        world.write(LEARNINGS, lines(learning(1)))
        create_backups(world.store, world.now)
        kept = world.backups(CORE)
        assert len(kept) == 5
        assert [world.read(f".backup/{name}").count(b"\n") for name in kept] == [1, 5, 6, 7, 8]
        assert len(world.backups(LEARNINGS)) == 1

    def test_seven_with_three_old_names_among_them_leave_the_five_newest(self, world: World) -> None:
        """Cover the published names: without stamp, with the type, with the stamp of a copy by hand."""
        world.write(CORE, lines(memory(1)))
        names = [f"{CORE}.backup", "core_memories.jsonl.backup.20260101_100000", f"{CORE}.backup.20260102_100000"]
        for age, name in zip((40, 30, 29), names, strict=True):
            world.write(f".backup/{name}", lines(memory(age)), age=age * 86_400.0)
        for number in range(2, 6):
            save(world, number)
        assert len(world.backups()) == 5
        assert names[0] not in world.backups()
        assert names[1] not in world.backups()
        assert names[2] in world.backups()

    def test_within_one_second_they_keep_their_order(self, world: World) -> None:
        world.write(CORE, b"")
        for number in range(1, 5):
            save(world, number, later=0.1)
        base = f"{CORE}.backup.{compact(world.now)}"
        assert world.backups() == [base, f"{base}_001", f"{base}_002", f"{base}_003"]
        assert [world.read(f".backup/{name}").count(b"\n") for name in world.backups()] == [1, 2, 3, 4]

    def test_a_clock_set_back_makes_no_newest_an_oldest(self, world: World) -> None:
        world.write(CORE, b"")
        for number in range(1, 6):
            save(world, number)
        world.now -= 30 * 86_400
        save(world, 6)
        kept = [world.read(f".backup/{name}").count(b"\n") for name in world.backups()]
        assert sorted(kept) == [1, 3, 4, 5, 6]

    def test_a_damaged_file_never_rotates_out_a_good_backup(self, world: World) -> None:
        world.write(CORE, b"")
        for number in range(1, 6):
            save(world, number)
        good = world.backups()
        for number in range(10):
            world.now += 60
            world.write(CORE, b"{damaged %d\n" % number * 50 + lines(memory(1)))
            create_backups(world.store, world.now)
        assert good[-1] in world.backups()
        assert len(world.backups()) == 6

    def test_a_torn_line_does_not_stop_backups(self, world: World) -> None:
        """Later memories are backed up, and a restore of the emptied file recovers all of them."""
        world.write(CORE, lines(*map(memory, range(1, 5))))
        create_backups(world.store, world.now)
        grown = lines(*map(memory, range(1, 5))) + b'{"torn": \n' + lines(*map(memory, range(5, 305)))
        world.write(CORE, grown)
        world.now += 60
        assert create_backups(world.store, world.now)[0].outcome == "made"
        world.write(CORE, lines(memory(1)))
        world.now += 60
        create_backups(world.store, world.now)
        restore(world.store, world.now, file=CORE)
        assert world.read(CORE) == grown

    def test_an_interrupted_rotation_is_finished_although_nothing_changed(self, world: World) -> None:
        for number in range(1, 6):
            save(world, number)
        extra = world.path(f".backup/{CORE}.backup")
        extra.write_bytes(lines(memory(1)))
        os.utime(extra, (world.now - 1000, world.now - 1000))
        assert create_backups(world.store, world.now, file=CORE)[0].outcome == "equal"
        assert len(world.backups()) == 5

    def test_a_corrupt_newest_backup_is_replaced(self, world: World) -> None:
        world.write(CORE, lines(memory(1)))
        create_backups(world.store, world.now)
        [name] = world.backups()
        world.path(f".backup/{name}").write_bytes(b"rotten")
        assert [each.valid for each in list_backups(world.store, world.now, verify=True)] == [False]
        create_backups(world.store, world.now + 60)
        assert [each.valid for each in list_backups(world.store, world.now, verify=True)] == [True, False]

    def test_an_unknown_file_is_refused(self, world: World) -> None:
        with pytest.raises(NotFoundError, match=r"index\.json"):
            create_backups(world.store, world.now, file="index.json")

    @pytest.mark.parametrize("kind", ["jsonl-store", "json-files"])
    def test_a_link_in_place_of_one_file_keeps_no_other_from_its_backup(self, kind: str, tmp_path: Path) -> None:
        world = World(tmp_path, kind=kind)
        if kind == "jsonl-store":
            files = {CORE: lines(memory(1)), LEARNINGS: lines(learning(2))}
        else:
            files = {json_samples.name(number): json_samples.file(number) for number in (1, 2)}
        for name, content in files.items():
            world.write(name, content)
        world.look()
        linked, other = files
        world.path(linked).rename(tmp_path / "elsewhere")
        world.path(linked).symlink_to(tmp_path / "elsewhere")
        create_backups(world.store, world.now)
        assert {each.sha256 for each in list_backups(world.store, world.now, file=other)} == {sha256(files[other])}
        assert linked not in {each.file for each in list_backups(world.store, world.now)}
        world.store.close()

    def test_a_link_in_place_of_the_directory_is_not_followed(self, world: World, tmp_path: Path) -> None:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        world.write(CORE, lines(memory(1)))
        world.path(".backup").symlink_to(elsewhere)
        with pytest.raises(OSError, match="symbolic link"):
            create_backups(world.store, world.now)
        assert list(elsewhere.iterdir()) == []


class TestRestore:
    def two(self, world: World) -> None:
        world.write(CORE, lines(memory(1)))
        create_backups(world.store, world.now)
        save(world, 2)
        world.write(CORE, lines(memory(3)))

    def test_the_newest_by_default_and_the_live_file_is_backed_up(self, world: World) -> None:
        self.two(world)
        done, said = restore(world.store, world.now + 60, file=CORE)
        assert world.read(CORE) == lines(memory(1), memory(2))
        newest = world.backups()[-1]
        assert world.read(f".backup/{newest}") == lines(memory(3))
        assert done.receipt is not None
        assert (said.difference.lost, said.difference.gained) == (1, 2)

    def test_a_dry_run_shows_the_difference_and_changes_nothing(self, world: World) -> None:
        self.two(world)
        before = world.everything()
        done, said = restore(world.store, world.now, file=CORE, dry_run=True)
        assert done.receipt is None
        assert (said.file, said.difference.lost, said.difference.gained) == (CORE, 1, 2)
        assert [action.kind for action in plan_row(done.plan).actions] == ["rewrite"]
        assert world.everything() == before

    @pytest.mark.parametrize("how", ["id", "stamp"])
    def test_a_named_one(self, world: World, how: str) -> None:
        self.two(world)
        oldest = world.backups()[0]
        restore(world.store, world.now, file=None, at=oldest if how == "id" else oldest.rpartition(".")[2])
        assert world.read(CORE) == lines(memory(1))

    def test_undo_of_a_restore(self, world: World) -> None:
        self.two(world)
        before = world.memories()
        done, _ = restore(world.store, world.now, file=CORE)
        undo(world.store, done.receipt or "", world.now)
        assert world.memories() == before

    def test_of_a_deleted_file_and_its_undo(self, world: World) -> None:
        self.two(world)
        world.path(CORE).unlink()
        done, said = restore(world.store, world.now, file=CORE)
        assert (world.read(CORE), said.difference.gained) == (lines(memory(1), memory(2)), 2)
        assert world.path(CORE).stat().st_mode & 0o777 == 0o600
        undo(world.store, done.receipt or "", world.now)
        assert not world.path(CORE).exists()

    def test_of_an_empty_file_and_its_undo(self, world: World) -> None:
        self.two(world)
        world.write(CORE, b"")
        done, _ = restore(world.store, world.now, file=CORE)
        assert world.read(CORE) == lines(memory(1), memory(2))
        undo(world.store, done.receipt or "", world.now)
        assert world.read(CORE) == b""

    def test_of_equal_content_does_nothing(self, world: World) -> None:
        world.write(CORE, lines(memory(1)))
        create_backups(world.store, world.now)
        done, _ = restore(world.store, world.now, file=CORE)
        assert (done.receipt, bool(done.plan)) == (None, False)

    def test_a_copy_by_hand_next_to_the_data(self, world: World) -> None:
        world.write(CORE, lines(memory(1)))
        shutil.copy2(world.path(CORE), world.path(f"{CORE}.backup"))
        world.write(CORE, b"{broken")
        restore(world.store, world.now, file=CORE)
        assert world.read(CORE) == lines(memory(1))
        assert f"{CORE}.backup" in world.names()

    def test_a_corrupt_one_is_refused_and_skipped(self, world: World) -> None:
        self.two(world)
        oldest, newest = world.backups()
        world.path(f".backup/{newest}").write_bytes(b"rotten")
        with pytest.raises(ConflictError):
            restore(world.store, world.now, file=CORE, at=newest)
        list_backups(world.store, world.now, verify=True)
        restore(world.store, world.now, file=CORE)
        assert world.read(CORE) == lines(memory(1))
        assert oldest in world.backups()

    def test_without_a_name_or_a_backup(self, world: World) -> None:
        world.write(CORE, lines(memory(1)))
        with pytest.raises(UsageError):
            restore(world.store, world.now, file=None)
        with pytest.raises(NotFoundError, match=f"no backup of {CORE}$"):
            restore(world.store, world.now, file=CORE)
        with pytest.raises(NotFoundError):
            restore(world.store, world.now, file=CORE, at="20200101_000000")
        assert list_backups(world.store, world.now, file=CORE) == []

    def test_of_a_misspelt_file_the_right_name_is_the_hint(self, world: World) -> None:
        world.write(LEARNINGS, lines(learning(1)))
        create_backups(world.store, world.now)
        for ask in (restore, list_backups):
            with pytest.raises(NotFoundError, match=r"no backup of learning\.jsonl$") as caught:
                ask(world.store, world.now, file="learning.jsonl")
            assert caught.value.hint == f"did you mean {LEARNINGS}?"

    def test_by_the_published_command(self, world: World) -> None:
        """`cp .backup/<name> <file>`."""
        self.two(world)
        shutil.copy(world.path(f".backup/{world.backups()[0]}"), world.path(CORE))
        assert world.read(CORE) == lines(memory(1))


class TestEmptied:
    def test_a_truncated_file_alerts_and_waits(self, world: World) -> None:
        world.write(CORE, lines(memory(1)))
        create_backups(world.store, world.now)
        world.write(CORE, b"")
        world.sync()
        assert [each.code for each in world.store.catalogue.findings()] == ["emptied-file"]
        assert world.read(CORE) == b""
        create_backups(world.store, world.now + 60)
        assert world.read(f".backup/{world.backups()[0]}") == lines(memory(1))
        restore(world.store, world.now, file=CORE)
        world.sync()
        assert world.store.catalogue.findings() == []

    def test_one_that_memoryd_emptied_itself_is_fine(self, world: World) -> None:
        world.write(TASKS, lines(task(1, "completed", "2025-01-01T00:00:00Z")))
        create_backups(world.store, world.now)
        archive(world.store, world.now, by="schedule")
        assert world.read(TASKS) == b""
        world.sync()
        assert world.store.catalogue.findings() == []


class TestVerify:
    def test_finds_corruption_without_a_new_time_stamp(self, world: World) -> None:
        """A bit that flips on the disk changes neither size nor time."""
        world.write(CORE, lines(memory(1)))
        world.look()
        world.now += 60
        world.look()
        row = world.store.catalogue.file(CORE)
        assert row is not None
        spoiled = world.read(CORE).replace(b"memory number 1", b"memory numbex 1")
        world.write(CORE, spoiled, age=3660.0)
        found = world.store.tree.stat(CORE)
        assert found is not None
        world.store.catalogue.restamp(row._replace(fingerprint=found))
        assert refresh(world.store, None, world.now).changed == ()
        assert refresh(world.store, None, world.now, verify=True).changed == (CORE,)

    def test_unreferenced_blobs_are_removed(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("memoryd.operations.backup.MAX_UNDO_ENTRIES", 2)
        monkeypatch.setattr("memoryd.store.undo_content.MAX_INLINE", 0)  # so that each change has blobs
        world.write(CORE, lines(*(memory(n) for n in range(1, 6))))
        world.look()
        receipts = [archive(world.store, world.now + n, by="command", ids=[uuid(n)]).receipt or "" for n in range(1, 6)]
        blobs = list((world.state / "blobs").iterdir())
        orphan = world.store.blobs.put(b"what a crash left before the journal named it")
        assert prune_state(world.store) > 1
        assert not world.store.blobs.has(orphan)
        orphans = [world.store.blobs.put(text) for text in (b"one more", b"and another")]
        monkeypatch.setattr("memoryd.operations.backup.MAX_SWEPT", 1)
        OPERATIONS["backup"](world.store, Job("backup", by="schedule"), world.now)
        assert sum(map(world.store.blobs.has, orphans)) == 1, "a few at once, with every daily backup"
        OPERATIONS["backup"](world.store, Job("backup", by="schedule"), world.now)
        assert sum(map(world.store.blobs.has, orphans)) == 0
        assert len(list((world.state / "blobs").iterdir())) < len(blobs)
        assert [each.receipt for each in world.store.journal.entries()] == receipts[:2:-1]
        undo(world.store, receipts[-1], world.now)
        with pytest.raises(NotFoundError):
            undo(world.store, receipts[0], world.now)


def test_the_number_of_backups_is_a_setting(make_world: MakeWorld) -> None:
    world = make_world(Policy(backups=2))
    world.write(CORE, b"")
    for number in range(1, 6):
        save(world, number)
    assert len(world.backups()) == 2


def test_every_live_file_has_its_own_rotation(world: World) -> None:
    for number in range(1, 4):
        for name in LIVE:
            world.write(name, lines(*(memory(n) for n in range(1, number + 1))))
        create_backups(world.store, world.now + number)
    assert {name: len(world.backups(name)) for name in LIVE} == dict.fromkeys(LIVE, 3)


class TestRestoreSources:
    def test_each_listed_id_can_be_restored(self, world: World) -> None:
        """Backups in their directory and next to the data, an index of another program, quarantined content."""
        world.write(CORE, lines(memory(1)))
        create_backups(world.store, world.now)
        world.path(f"{CORE}.backup").write_bytes(lines(memory(1), memory(2)))
        world.write("index.json", b'{"statistics": {"by_type": {}}, "mine": 1}')
        world.sync()
        content = b"cut out"
        quarantine(world.store.journal, world.store.blobs, CORE, content, "before repair", now=world.now)
        listed = list_backups(world.store, world.now)
        ids = [each.id for each in listed]
        assert len(ids) == len(set(ids)) == 4
        assert f"./{CORE}.backup" in ids
        assert {each.file for each in listed} == {CORE, "index.json"}
        for each in listed:
            restore(world.store, world.now, file=None, at=each.id)
            assert each.file is not None
            restored = world.read(each.file).strip()
            assert sha256(restored) == each.sha256 or sha256(restored + b"\n") == each.sha256
        foreign = restore(world.store, world.now, file="index.json")[1]
        assert foreign.file == "index.json"

    def test_in_a_vault_the_versions_of_each_file_are_listed_with_the_snapshots(self, tmp_path: Path) -> None:
        root = tmp_path / "root"
        root.mkdir()
        store = Store("m", str(root), "json-files", Policy(), str(tmp_path / "state"))
        store.attach()
        for number in (1, 2):
            (root / json_samples.name(number)).write_bytes(json_samples.file(number))
        refresh(store, None, NOW)
        create_backups(store, NOW)
        listed = list_backups(store, NOW)
        assert [each.file for each in listed] == [None, json_samples.name(1), json_samples.name(2)]
        (root / json_samples.name(1)).unlink()
        restore(store, NOW, file=None, at=listed[1].id)
        assert (root / json_samples.name(1)).read_bytes() == json_samples.file(1)
        store.close()


def test_a_named_version_is_restored_before_newer_ones_rotate_it_out(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir(mode=0o700)
    path = root / "a" / "b.md"
    path.parent.mkdir()
    store = Store("m", str(root), "markdown-topics", Policy(backups=1), str(tmp_path / "state"))
    store.attach()
    try:
        wanted = b"## 2026-01-02: One\n**Context:** c\n**Problem:** p\n---\n"
        for number, content in enumerate((wanted, wanted * 2)):
            path.write_bytes(content)
            os.utime(path, (NOW - 60 + number, NOW - 60 + number))
            refresh(store, None, NOW + number)
            if not number:
                save_versions(store, NOW)
        assert store.unsaved_versions.states()
        [version] = list_backups(store, NOW + 2, file="a/b.md")
        restore(store, NOW + 2, file=None, at=version.id, dry_run=True)
        restore(store, NOW + 2, file=None, at=version.id)
        assert path.read_bytes() == wanted
    finally:
        store.close()


def test_there_is_no_snapshot_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    store = Store("m", str(tmp_path / "root"), "json-files", Policy(), str(tmp_path / "state"))
    store.attach()
    try:
        refresh(store, None, NOW)
        for dry_run in (True, False):
            assert [each.outcome for each in create_backups(store, NOW, dry_run=dry_run)] == ["empty"]
        assert list_backups(store, NOW) == []
    finally:
        store.close()


def test_an_empty_file_needs_no_backup(world: World) -> None:
    world.write(CORE, b"")
    for dry_run in (True, False):
        assert [each.outcome for each in create_backups(world.store, world.now, dry_run=dry_run)] == ["empty"]


def test_a_version_is_chosen_by_the_file_as_it_is_now(tmp_path: Path) -> None:
    """While a file may be half-written the catalogue has its old state, which must not rule out the newest version."""
    store = Store("m", str(tmp_path / "root"), "json-files", Policy(), str(tmp_path / "state"))
    path = tmp_path / "root" / json_samples.name(1)
    path.parent.mkdir(mode=0o700)
    store.attach()
    try:
        for number in (1, 2):
            path.write_bytes(json_samples.file(1, content=f"version {number}"))
            os.utime(path, (NOW - 60, NOW - 60))
            refresh(store, None, NOW + number, verify=True)
            create_backups(store, NOW + number)
        path.write_bytes(b"")
        os.utime(path, (NOW + 2, NOW + 2))
        refresh(store, None, NOW + 2.5)
        restore(store, NOW + 2.5, file=path.name)
        assert path.read_bytes() == json_samples.file(1, content="version 2")
    finally:
        store.close()


def test_a_copy_of_a_damage_replaces_no_readable_file(tmp_path: Path) -> None:
    world = World(tmp_path, kind="session-files")
    path, good = "2026-01-30/14-30-00-fix-bug.json", json.dumps(session({"title": "x"})).encode()
    for number, content in enumerate((good, b"garbage", good)):
        world.write(path, content)
        world.now += 60
        world.look(verify=True)
        create_backups(world.store, world.now)
        assert len(list_backups(world.store, world.now, file=path)) == number + 1
    restore(world.store, world.now, file=path)
    assert world.read(path) == good
    world.write(path, b"rubbish")
    world.look(verify=True)
    restore(world.store, world.now, file=path)
    assert world.read(path) == good, "the newest one that differs is garbage"
    world.store.close()


def test_where_every_copy_is_damaged_the_file_is_left_and_the_reason_is_given(tmp_path: Path) -> None:
    world = World(tmp_path, kind="session-files")
    path, good = "2026-01-30/14-30-00-fix-bug.json", json.dumps(session({"title": "x"})).encode()
    world.write(path, b"garbage")
    world.look(verify=True)
    create_backups(world.store, world.now)
    world.write(path, good)
    with pytest.raises(NotFoundError, match=f"no backup of {path} has memories and differs") as caught:
        restore(world.store, world.now, file=path)
    assert "--at ID" in (caught.value.hint or "")
    assert world.read(path) == good
    world.store.close()


def test_quarantined_content_that_is_damaged_is_not_called_valid(world: World) -> None:
    """Only whether its file exists was looked at."""
    digest = quarantine(world.store.journal, world.store.blobs, CORE, lines(memory(1)), "repair", now=world.now)
    blob = Path(world.store.state_dir) / "blobs" / f"{digest}.z"
    assert [each.valid for each in list_backups(world.store, world.now, verify=True)] == [True]
    blob.write_bytes(blob.read_bytes()[:-1])
    assert [each.valid for each in list_backups(world.store, world.now, verify=True)] == [False]
