"""A missing root is not an empty one, and another directory is not the root."""

from __future__ import annotations

import shutil

import pytest

from memoryd.core.defaults import Policy
from memoryd.errors import RootMissingError
from memoryd.operations.backup import create_backups
from memoryd.operations.refresh import refresh
from memoryd.operations.root_check import TRUST_S, RootCheck, accept, accept_all, check_root, mark_suspect
from memoryd.operations.upkeep import archive
from memoryd.store.recovery import recover
from tests.layouts.samples import learning, lines, memory, task, uuid
from tests.operations.conftest import MakeWorld
from tests.operations.world import CORE, LEARNINGS, LIVE, TASKS, World

OK = RootCheck("ok")


@pytest.fixture
def indexed_world(world: World) -> World:
    """A store that has been indexed."""
    world.write(CORE, lines(memory(1)))
    world.write(LEARNINGS, lines(learning(11)))
    world.write(TASKS, lines(task(21, "in-progress")))
    assert check_root(world.store, world.now) == OK
    world.sync()
    return world


def state(world: World) -> str:
    return check_root(world.store, world.now).state


def move_away(world: World) -> None:
    world.root.rename(world.root.with_name("away"))


def move_back(world: World) -> None:
    if world.root.exists():
        shutil.rmtree(world.root)
    world.root.with_name("away").rename(world.root)


class TestMissing:
    def test_it_is_reported_and_stays_indexed(self, indexed_world: World) -> None:
        move_away(indexed_world)
        found = check_root(indexed_world.store, indexed_world.now)
        assert found.state == "missing"
        assert not indexed_world.store.attached
        with pytest.raises(RootMissingError):
            indexed_world.look()
        assert sorted(indexed_world.store.catalogue.files()) == sorted(LIVE)

    def test_the_same_directory_resumes_at_once(self, indexed_world: World) -> None:
        move_away(indexed_world)
        assert state(indexed_world) == "missing"
        move_back(indexed_world)
        assert check_root(indexed_world.store, indexed_world.now) == OK

    def test_a_writer_of_a_replaced_file_is_watched_once_and_let_go(self, indexed_world: World) -> None:
        """The recovery took memoryd's own descriptor for another program's, and the two waited for each other."""
        world = indexed_world
        with world.path(LEARNINGS).open("ab", buffering=0) as agent:
            assert archive(world.store, world.now, ids=[uuid(11)], by="command").receipt is not None
            for number in range(2):
                move_away(world)
                assert state(world) == "missing"
                move_back(world)
                assert state(world) == "ok"
                recover(world.store, world.now)
                agent.write(lines(learning(12 + number)))
                world.store.merge_late_writes(world.now)
        world.settle()
        assert world.store.late_writes.waiting == []
        assert world.temps() == []
        assert world.path(LEARNINGS).read_bytes() == lines(learning(12), learning(13))

    def test_also_when_memoryd_was_restarted_meanwhile(self, indexed_world: World) -> None:
        move_away(indexed_world)
        indexed_world.store.close()
        indexed_world.store = type(indexed_world.store)(
            "agents", str(indexed_world.root), "jsonl-store", indexed_world.policy, str(indexed_world.state)
        )
        assert state(indexed_world) == "missing"
        move_back(indexed_world)
        assert state(indexed_world) == "ok"

    def test_a_file_at_the_path(self, indexed_world: World) -> None:
        move_away(indexed_world)
        indexed_world.root.write_text("not a directory")
        assert state(indexed_world) == "failed"
        indexed_world.root.unlink()
        assert state(indexed_world) == "missing"

    def test_a_new_path_is_not_suspect(self, world: World) -> None:
        assert check_root(world.store, world.now) == OK

    def test_the_newest_backups_are_pinned(self, make_world: MakeWorld) -> None:
        world = make_world(Policy(backups=1))
        check_root(world.store, world.now)
        world.write(CORE, lines(memory(1)))
        world.sync()
        create_backups(world.store, world.now)
        pinned = world.backups()
        move_away(world)
        check_root(world.store, world.now)
        world.root.mkdir(mode=0o700)
        shutil.copytree(world.root.with_name("away"), world.root, dirs_exist_ok=True)
        check_root(world.store, world.now)
        for number in range(2, 6):
            world.now += 60
            world.append(CORE, memory(number))
            create_backups(world.store, world.now)
        assert set(pinned) < set(world.backups())


class TestReplaced:
    def replace(self, world: World) -> None:
        move_away(world)
        world.root.mkdir(mode=0o700)

    def test_an_empty_one_stays_suspect(self, indexed_world: World) -> None:
        self.replace(indexed_world)
        for _ in range(20):
            assert state(indexed_world) == "suspect"
            indexed_world.now += TRUST_S
        assert sorted(indexed_world.store.catalogue.files()) == sorted(LIVE)

    def test_so_does_one_with_the_known_names_but_empty_files(self, indexed_world: World) -> None:
        """A server that sets up its directory again creates just that."""
        self.replace(indexed_world)
        for name in LIVE:
            indexed_world.write(name, b"")
        for _ in range(5):
            assert state(indexed_world) == "suspect"
            indexed_world.now += TRUST_S

    def test_most_of_the_known_files_make_it_the_root_again(self, indexed_world: World) -> None:
        self.replace(indexed_world)
        indexed_world.write(CORE, lines(memory(1)))
        assert state(indexed_world) == "suspect"
        indexed_world.write(TASKS, lines(task(21, "in-progress")))
        assert state(indexed_world) == "ok"

    def test_the_directory_itself_is_back_whatever_it_holds_by_then(self, indexed_world: World) -> None:
        """Programs that work in it go on while another one has its path."""
        self.replace(indexed_world)
        assert state(indexed_world) == "suspect"
        move_back(indexed_world)
        for number, name in enumerate(LIVE):
            indexed_world.write(name, lines(memory(60 + number)))
        assert check_root(indexed_world.store, indexed_world.now) == OK

    def test_another_store_with_the_same_names_is_not_the_root(self, indexed_world: World) -> None:
        """Every store of a layout has the same few names: a link switched to another store is not the root."""
        self.replace(indexed_world)
        indexed_world.write(CORE, lines(memory(51)))
        indexed_world.write(LEARNINGS, lines(learning(52)))
        indexed_world.write(TASKS, lines(task(53, "in-progress")))
        assert state(indexed_world) == "suspect"

    def test_one_with_later_writes_is(self, indexed_world: World) -> None:
        self.replace(indexed_world)
        indexed_world.write(CORE, lines(memory(1), memory(2)))
        indexed_world.write(LEARNINGS, lines(learning(11, content="changed")))
        assert state(indexed_world) == "ok"

    def test_so_does_a_minute_of_valid_memories(self, indexed_world: World) -> None:
        self.replace(indexed_world)
        indexed_world.write("core_memories.jsonl", lines(memory(99)))
        assert state(indexed_world) == "suspect"
        indexed_world.now += TRUST_S - 1
        assert state(indexed_world) == "suspect"
        indexed_world.now += 1
        assert state(indexed_world) == "ok"

    def test_the_minute_starts_again_when_they_disappear(self, indexed_world: World) -> None:
        self.replace(indexed_world)
        indexed_world.write(CORE, lines(memory(99)))
        assert state(indexed_world) == "suspect"
        indexed_world.now += 50
        indexed_world.path(CORE).unlink()
        assert state(indexed_world) == "suspect"
        indexed_world.write(CORE, lines(memory(99)))
        indexed_world.now += 5
        assert state(indexed_world) == "suspect"
        indexed_world.now += 50
        assert state(indexed_world) == "suspect"
        indexed_world.now += 10
        assert state(indexed_world) == "ok"

    def test_a_clock_set_back_does_not_prolong_it(self, indexed_world: World) -> None:
        self.replace(indexed_world)
        indexed_world.write(CORE, lines(memory(99)))
        assert state(indexed_world) == "suspect"
        indexed_world.now -= 86_400
        assert state(indexed_world) == "suspect"
        indexed_world.now += TRUST_S
        assert state(indexed_world) == "ok"

    def test_the_original_directory_is_the_root_at_once(self, indexed_world: World) -> None:
        self.replace(indexed_world)
        assert state(indexed_world) == "suspect"
        move_back(indexed_world)
        assert state(indexed_world) == "ok"

    def test_it_is_still_suspect_after_a_restart(self, indexed_world: World) -> None:
        self.replace(indexed_world)
        assert state(indexed_world) == "suspect"
        indexed_world.restart()
        assert state(indexed_world) == "suspect"

    def test_a_command_accepts_the_directory(self, indexed_world: World) -> None:
        self.replace(indexed_world)
        assert state(indexed_world) == "suspect"
        accept(indexed_world.store)
        assert state(indexed_world) == "ok"
        done = indexed_world.sync()
        assert indexed_world.store.catalogue.files() == {}
        assert (done.result.memories, indexed_world.names()) == (0, []), "an empty folder gets no index"


class TestLoss:
    def test_only_the_return_of_the_files_ends_it(self, indexed_world: World) -> None:
        content = indexed_world.read(CORE)
        indexed_world.path(CORE).unlink()
        mark_suspect(indexed_world.store, "26 of 30 memories are gone")
        for _ in range(5):
            found = check_root(indexed_world.store, indexed_world.now)
            assert found.state == "suspect"
            assert "26 of 30" in (found.reason or "")
            indexed_world.now += TRUST_S
        indexed_world.write(CORE, content)
        assert state(indexed_world) == "ok"


def test_an_accepted_loss_is_not_reported_again(indexed_world: World) -> None:
    """It is reported neither by the next scan nor after a restart."""
    indexed_world.write(LEARNINGS, lines(*(learning(n) for n in range(100, 140))))
    indexed_world.sync()
    indexed_world.path(LEARNINGS).unlink()
    loss = refresh(indexed_world.store, None, indexed_world.now, deletions_observed=False).loss
    assert loss is not None
    mark_suspect(indexed_world.store, loss)
    assert state(indexed_world) == "suspect"
    accept_all(indexed_world.store)
    assert state(indexed_world) == "ok"
    assert refresh(indexed_world.store, None, indexed_world.now, deletions_observed=False).loss is None
