"""Deaths at every changing call of a commit: after the recovery nothing is lost, doubled or left over, and the next
run ends where an undisturbed one would have."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memoryd.core.defaults import Policy
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.spans import sha256
from memoryd.disk import atomic
from memoryd.disk.atomic import StoreChangedError
from memoryd.disk.locks import file as lockfile
from memoryd.operations import memories
from memoryd.operations.backup import create_backups
from memoryd.operations.locks import clear_lock
from memoryd.operations.memories import Context
from memoryd.operations.restore import restore
from memoryd.operations.undo import undo
from memoryd.operations.upkeep import archive, prune
from memoryd.store import Store
from memoryd.store.commit import Origin, change
from tests.layouts.samples import learning, lines, memory, task, uuid
from tests.layouts.test_markdown_topics import entry
from tests.operations.death import dying
from tests.operations.world import CORE, LEARNINGS, LIVE, Q3, TASKS, World, same_meaning

pytestmark = pytest.mark.slow

MOST = 400  # more calls than any operation here makes


def filled(world: World) -> None:
    world.write(CORE, lines(memory(101)))
    world.write(LEARNINGS, lines(learning(1, "2025-07-01T00:00:00Z"), learning(2)) + b"{scrap\n")
    world.write(TASKS, lines(task(201, "completed", "2025-09-01T00:00:00Z")))  # the file empties
    world.write(Q3, lines(learning(31, archived=True)))
    world.sync()


def contents(world: World) -> dict[str, bytes]:
    return {name: content for name, (content, _) in world.memories().items()}


def ids(world: World, *names: str) -> list[str]:
    found: list[str] = []
    for name in names or contents(world):
        for each in world.read(name).splitlines():
            found += [json.loads(each)["id"]] if each.startswith(b'{"id"') else []
    return sorted(found)


def prepared(base: Path, prepare: Callable[[World], object]) -> Iterator[World]:
    """A function that returns the same store each time, in a new directory; made once and copied without syncs."""
    template = World(base / "template")
    prepare(template)
    template.settle()
    template.store.close()
    for at in range(MOST):
        place = base / str(at)
        shutil.copytree(base / "template", place)
        world = World(place)
        world.now = template.now
        try:
            yield world
        finally:  # also of the last one, where the caller breaks off
            world.store.close()
            shutil.rmtree(place)
    raise AssertionError("it never ended")


def sweep(
    base: Path,
    operate: Callable[[World], object],
    prepare: Callable[[World], object],
    check: Callable[[World, World], None],
) -> int:
    """Let `operate` die at its first call, its second, and so on; return the number of deaths."""
    calm = World(base / "calm")
    try:
        prepare(calm)
        calm.settle()
        operate(calm)
        for at, world in enumerate(prepared(base, prepare), 1):
            with dying(at) as death:
                operate(world)
            world.kill()
            world.rise()
            if not death.reached:
                break
            try:
                assert world.temps() == []
                check(world, calm)
            except AssertionError as error:
                error.add_note(f"it died at call {at}, {death.call}")
                raise
        return at - 1
    finally:
        calm.store.close()


class TestArchive:
    def test_dying_at_every_call(self, quick_path: Path) -> None:
        before = sorted([uuid(1), uuid(2), uuid(31), uuid(101), uuid(201)])

        def check(world: World, calm: World) -> None:
            assert ids(world) == before  # the recovery leaves no copy behind either
            world.sync()
            assert same_meaning(world.index(), world.rebuilt())
            assert {each.state for each in world.store.journal.entries()} <= {"done", "rolled_back", "interrupted"}
            archive(world.store, world.now, by="schedule")
            assert contents(world) == contents(calm)
            assert archive(world.store, world.now, by="schedule").receipt is None

        died = sweep(quick_path, lambda world: archive(world.store, world.now, by="schedule"), filled, check)
        assert died > 30

    def test_an_agent_that_appends_before_the_restart_loses_nothing(self, quick_path: Path) -> None:
        for at, world in enumerate(prepared(quick_path, filled), 1):
            with dying(at) as death:
                archive(world.store, world.now, by="schedule")
            world.kill()
            world.append(LEARNINGS, learning(998))
            world.append(TASKS, task(999, "in-progress"))
            world.rise()
            assert world.temps() == []
            archive(world.store, world.now, by="schedule")
            assert ids(world) == sorted([uuid(n) for n in (1, 2, 31, 101, 201, 998, 999)]), (at, death.call)
            if not death.reached:
                break


class TestOtherOperations:
    def test_undo_dying_at_every_call(self, quick_path: Path) -> None:
        def prepare(world: World) -> None:
            filled(world)
            archive(world.store, world.now, by="command")

        def operate(world: World) -> None:
            entry = next(each for each in world.store.journal.entries() if each.operation == "archive")
            undo(world.store, entry.receipt, world.now)

        def check(world: World, calm: World) -> None:
            assert ids(world) == sorted([uuid(n) for n in (1, 2, 31, 101, 201)])
            back = {uuid(1), uuid(201)} & set(ids(world, LEARNINGS, TASKS))
            archive(world.store, world.now, by="schedule")
            assert back <= set(ids(world, LEARNINGS, TASKS)), "the schedule took back what an undo had brought back"

        assert sweep(quick_path, operate, prepare, check) > 20

    def test_undo_of_one_file_from_three_archives_dying_at_every_call(self, quick_path: Path) -> None:
        stamps = ("2025-02-01T00:00:00Z", "2025-05-01T00:00:00Z", "2025-08-01T00:00:00Z")

        def prepare(world: World) -> None:
            world.write(LEARNINGS, lines(*(learning(n, stamp) for n, stamp in enumerate(stamps))))
            world.write(Q3, lines(learning(31, archived=True)))
            world.sync()
            archive(world.store, world.now, by="command")

        def operate(world: World) -> None:
            entry = next(each for each in world.store.journal.entries() if each.operation == "archive")
            undo(world.store, entry.receipt, world.now)

        def check(world: World, calm: World) -> None:
            assert ids(world) == sorted([uuid(0), uuid(1), uuid(2), uuid(31)])
            if uuid(0) not in ids(world, LEARNINGS):
                operate(world)
            assert contents(world) == contents(calm)

        assert sweep(quick_path, operate, prepare, check) > 20

    def test_restore_dying_at_every_call(self, quick_path: Path) -> None:
        def prepare(world: World) -> None:
            filled(world)
            create_backups(world.store, world.now)
            world.append(CORE, memory(102))

        def operate(world: World) -> None:
            restore(world.store, world.now + 60, file=CORE)

        def check(world: World, calm: World) -> None:
            assert world.read(CORE) in (lines(memory(101)), lines(memory(101), memory(102)))
            backups = [world.read(f".backup/{name}") for name in world.backups(CORE)]
            assert world.read(CORE) != lines(memory(101)) or lines(memory(101), memory(102)) in backups
            if world.read(CORE) != lines(memory(101)):
                restore(world.store, world.now + 60, file=CORE, at=world.backups(CORE)[0])
                assert world.read(CORE) == lines(memory(101))

        assert sweep(quick_path, operate, prepare, check) > 15

    def test_the_index_dying_at_every_call(self, quick_path: Path) -> None:
        def prepare(world: World) -> None:
            filled(world)
            world.append(CORE, memory(102))
            world.look()

        def check(world: World, calm: World) -> None:
            json.loads(world.read("index.json"))
            world.sync()
            assert same_meaning(world.index(), calm.index())

        assert sweep(quick_path, lambda world: world.sync(), prepare, check) >= 5

    def test_a_backup_dying_at_every_call(self, quick_path: Path) -> None:
        def check(world: World, calm: World) -> None:
            create_backups(world.store, world.now)
            for name in LIVE:
                assert world.read(name) in [world.read(f".backup/{each}") for each in world.backups(name)]

        assert sweep(quick_path, lambda world: create_backups(world.store, world.now), filled, check) > 10

    def test_an_append_alone_dying_at_every_call(self, quick_path: Path) -> None:
        """It is torn in the middle when it dies in the write."""
        added = lines(memory(102))

        def operate(world: World) -> None:
            def decide() -> Plan:
                base = sha256(world.read(CORE))
                return Plan((Action(Kind.APPEND, CORE, "add", (uuid(102),), data=added, base=base),))

            change(world.store, Origin("add", "command"), decide, now=world.now)

        def check(world: World, calm: World) -> None:
            assert world.read(CORE) in (lines(memory(101)), lines(memory(101)) + added)
            assert {each.state for each in world.store.journal.entries()} <= {"done", "rolled_back"}

        assert sweep(quick_path, operate, filled, check) >= 6


class TestCanary:
    def test_a_writer_without_journal_and_rename_is_caught(self, quick_path: Path) -> None:
        """An archiver that moves memories carelessly must be detected by this sweep."""

        def careless(world: World) -> None:
            keep, moved = lines(learning(2)) + b"{scrap\n", lines(learning(1, "2025-07-01T00:00:00Z", archived=True))
            tree = world.store.tree
            expected = tree.stat(LEARNINGS)
            assert expected is not None
            atomic.replace(tree, LEARNINGS, keep, expected=expected)  # the removal comes first
            atomic.append(tree, Q3, moved, expected=tree.stat(Q3))

        def check(world: World, calm: World) -> None:
            assert uuid(1) in ids(world)

        with pytest.raises(AssertionError):
            sweep(quick_path, careless, filled, check)


class TestFailing:
    """An error instead of a death: the commit itself rolls back and reports it."""

    def test_a_failed_rewrite_rolls_its_copies_back(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        filled(world)
        before = contents(world)
        real, calls = atomic.replace, []

        def failing(tree: object, path: str, *rest: object, **more: object) -> object:
            if path == LEARNINGS:
                calls.append(path)
                raise OSError(28, "No space left on device", path)
            return real(tree, path, *rest, **more)  # type: ignore[arg-type]  # handed through as it came

        with monkeypatch.context() as patch:
            patch.setattr(atomic, "replace", failing)
            with pytest.raises(OSError, match="No space"):
                archive(world.store, world.now, by="schedule")
        assert calls == [LEARNINGS]
        assert contents(world) == before
        [entry] = world.store.journal.entries()
        assert (entry.state, entry.error) == ("rolled_back", "[Errno 28] No space left on device: 'learnings.jsonl'")
        archive(world.store, world.now, by="schedule")
        assert ids(world).count(uuid(1)) == 1
        assert world.read(Q3) == lines(learning(31, archived=True), learning(1, "2025-07-01T00:00:00Z", archived=True))

    def test_a_full_disk_leaves_no_lock_behind(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """The record cannot be written: a flock kept for that would bar every agent for the life of memoryd."""
        filled(world)

        def full(fd: int, record: bytes) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(lockfile, "write_record", full)
            with pytest.raises(OSError, match="No space"):
                archive(world.store, world.now, by="schedule")
        assert ".lock" not in world.names()
        with world.store.locked(0.0):
            pass

    def test_a_crash_between_copy_and_removal(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """As the seed's layout demands: the copy that is there is not made again, also when nobody recovered."""
        filled(world)
        world.write(Q3, world.read(Q3) + lines(learning(1, "2025-07-01T00:00:00Z", archived=True)))
        archive(world.store, world.now, by="schedule")
        assert ids(world).count(uuid(1)) == 1

    def test_a_foreign_rewrite_in_the_middle_wins_and_the_change_is_planned_again(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        filled(world)
        real, news = atomic.replace, lines(learning(1, "2025-07-01T00:00:00Z"), learning(2), learning(3))

        def meddled(tree: object, path: str, *rest: object, **more: object) -> object:
            if path == LEARNINGS and news:
                monkeypatch.setattr(atomic, "replace", real)
                world.replace(LEARNINGS, news)
            return real(tree, path, *rest, **more)  # type: ignore[arg-type]  # handed through as it came

        monkeypatch.setattr(atomic, "replace", meddled)
        archive(world.store, world.now, by="schedule")
        assert world.read(LEARNINGS) == lines(learning(2), learning(3))
        assert ids(world).count(uuid(1)) == 1

    def test_removing_the_last_memories_of_a_changed_file_is_no_success(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The rewrite would have emptied the file, and "begins with nothing" is true of every content."""
        world.write(TASKS, lines(task(201, "completed", "2025-09-01T00:00:00Z")))
        world.look()

        def meddled(tree: object, path: str, *rest: object, **more: object) -> object:
            world.replace(TASKS, lines(task(202, "in-progress")))
            raise StoreChangedError(path)

        with monkeypatch.context() as patch:
            patch.setattr(atomic, "replace", meddled)
            assert archive(world.store, world.now, by="schedule").receipt is None
        assert [each.state for each in world.store.journal.entries()] == ["interrupted"]


def test_memories_removed_before_the_last_rewrite_do_not_come_back(world: World) -> None:
    """Two rewrites in a row leave two replaced inodes; the older one ends with memories that the first removed."""
    world.write(LEARNINGS, lines(learning(1), learning(2)))
    world.sync()
    with world.path(LEARNINGS).open("rb"):  # an agent has both open and may still write
        archive(world.store, world.now, by="command", ids=[uuid(2)])
        with world.path(LEARNINGS).open("rb"):
            memories.update(world.store, uuid(1), {"importance": "low"}, world.now, Context())
    assert len(world.temps()) == 2
    expected = contents(world)
    world.kill()
    world.rise()
    assert (contents(world), world.temps()) == (expected, [])
    assert world.store.journal.quarantine.entries() == []


def test_a_replaced_file_without_openers_leaves_no_temporary_file(world: World) -> None:
    filled(world)
    archive(world.store, world.now, by="schedule")
    assert world.temps() == []
    assert world.store.late_writes.waiting == []


def test_late_appends_to_a_replaced_file_are_merged(world: World) -> None:
    """A writer that had the file open before our rename goes on writing into the old one."""
    filled(world)
    with world.path(LEARNINGS).open("ab") as agent:
        done = archive(world.store, world.now, by="schedule")
        agent.write(lines(learning(500)))
        agent.flush()
        world.store.late_writes.merge(world.store.tree, world.now)
        assert uuid(500) in ids(world, LEARNINGS)
        agent.write(lines(learning(501)))
    world.settle()
    world.settle()
    assert ids(world, LEARNINGS) == sorted([uuid(2), uuid(500), uuid(501)])
    assert world.temps() == []
    undo(world.store, done.receipt or "", world.now)
    assert ids(world, LEARNINGS) == sorted([uuid(1), uuid(2), uuid(500), uuid(501)])


def test_late_appends_are_merged_after_a_kill(world: World) -> None:
    filled(world)
    with world.path(LEARNINGS).open("ab") as agent:
        archive(world.store, world.now, by="schedule")
        world.kill()
        agent.write(lines(learning(500)))
    messages = world.rise()
    assert uuid(500) in ids(world, LEARNINGS)
    assert any("late bytes" in each for each in messages)
    assert world.temps() == []


@pytest.mark.parametrize("killed", [False, True])
def test_a_file_with_the_longest_name_is_rewritten_like_any_other(tmp_path: Path, killed: bool) -> None:
    """Also for a writer that still has it open; its temporary name cannot contain the whole name."""
    world = World(tmp_path, kind="markdown-topics")
    path = f"topic/{'x' * 252}.md"
    world.write(path, b"".join(entry(f"2025-01-{day:02}") for day in range(12, 0, -1)))
    world.sync()
    with world.path(path).open("ab", buffering=0) as agent:
        assert prune(world.store, world.now, by="schedule").receipt is not None
        if killed:
            world.kill()
        agent.write(entry("2025-01-20", "Late"))
    if killed:
        world.rise()
    else:
        for _ in range(2):  # the second one releases what the first one has merged
            world.store.late_writes.merge(world.store.tree, world.now)
    pruned = world.path(path).read_bytes()
    assert pruned.count(b"## 2025-01-") == 11
    assert pruned.endswith(entry("2025-01-20", "Late"))
    assert world.temps() == []
    world.store.close()


@pytest.mark.parametrize("between", [0, 1])
def test_a_writer_that_outlives_a_kill_loses_nothing(world: World, between: int) -> None:
    """It still has the replaced file open when memoryd has recovered, and goes on writing."""
    filled(world)
    with world.path(LEARNINGS).open("ab") as agent:
        archive(world.store, world.now, by="schedule")
        world.kill()
        if between:
            agent.write(lines(learning(500)))
            agent.flush()
        messages = world.rise()
        assert any("still has it open" in each for each in messages)
        agent.write(lines(learning(501)))
        agent.flush()
        world.settle()
        assert uuid(501) in ids(world, LEARNINGS)
        agent.write(lines(learning(502)))
    world.settle()
    world.settle()
    expected = [uuid(2), *([uuid(500)] if between else []), uuid(501), uuid(502)]
    assert ids(world, LEARNINGS) == sorted(expected)
    assert world.temps() == []


def test_a_change_in_place_after_a_kill_is_kept(world: World) -> None:
    filled(world)
    with world.path(LEARNINGS).open("r+b") as agent:
        archive(world.store, world.now, by="schedule")
        world.kill()
        world.rise()
        agent.write(b"{ ")
    world.settle()
    [kept] = world.store.journal.quarantine.entries()
    assert kept.file == LEARNINGS
    assert world.temps() == []


def test_a_lock_is_cleared_before_any_look_at_locks(world: World) -> None:
    filled(world)
    world.path(".lock").write_bytes(b"")
    [report] = clear_lock(world.store, world.now, path=".lock", force=True)
    assert (report.action, world.path(".lock").exists()) == ("removed", False)


def test_recovery_of_a_clean_store_reports_nothing(world: World) -> None:
    filled(world)
    archive(world.store, world.now, by="schedule")
    world.settle()
    assert world.restart() == []
    before = world.everything()
    assert world.restart() == []
    assert world.everything() == before


def test_foreign_temporary_files_survive_a_recovery(world: World) -> None:
    filled(world)
    names = ["learnings.jsonl.tmp", "x.memoryd-1.tmp", "memoryd-1-1.tmp", ".learnings.jsonl.swp"]
    for name in names:
        world.write(name, b"theirs")
    world.write("learnings.jsonl.memoryd-1-1.tmp", b"ours")
    world.restart()
    assert [name for name in names if name in world.names()] == names
    assert world.temps() == []


def test_memories_survive_the_loss_of_the_state_directory(tmp_path: Path) -> None:
    """The state directory may be lost, but not the memories."""
    world = World(tmp_path)
    filled(world)
    archive(world.store, world.now, by="schedule")
    world.store.close()
    shutil.rmtree(world.state)
    world.rise()
    assert isinstance(world.store, Store)
    world.sync()
    assert same_meaning(world.index(), world.rebuilt())
    [entry] = world.store.journal.entries()
    assert entry.operation == "index", "of the index nobody remembers writing"
    assert Policy().backups == 5
    world.store.close()
