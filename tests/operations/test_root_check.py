"""Missing is not empty, and another directory is not the same."""

from __future__ import annotations

import shutil

import pytest

from memoryd.core.policy import Policy
from memoryd.errors import RootMissingError
from memoryd.operations.backup import create_backups
from memoryd.operations.refresh import refresh
from memoryd.operations.root_check import TRUST_S, RootCheck, accept, accept_all, check_root, mark_suspect
from tests.layouts.samples import learning, lines, memory, task
from tests.operations.conftest import MakeWorld
from tests.operations.world import CORE, LEARNINGS, LIVE, TASKS, World

OK = RootCheck("ok")


@pytest.fixture
def known(world: World) -> World:
    """A store that has been seen and read."""
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
    def test_it_is_told_and_nothing_is_forgotten(self, known: World) -> None:
        move_away(known)
        found = check_root(known.store, known.now)
        assert found.state == "missing"
        assert not known.store.attached
        with pytest.raises(RootMissingError):
            known.look()
        assert sorted(known.store.catalogue.files()) == sorted(LIVE)

    def test_the_same_directory_resumes_at_once(self, known: World) -> None:
        move_away(known)
        assert state(known) == "missing"
        move_back(known)
        assert check_root(known.store, known.now) == OK

    def test_also_when_memoryd_was_restarted_meanwhile(self, known: World) -> None:
        move_away(known)
        known.store.close()
        known.store = type(known.store)("agents", str(known.root), "jsonl-store", known.policy, str(known.state))
        assert state(known) == "missing"
        move_back(known)
        assert state(known) == "ok"

    def test_a_file_at_the_path(self, known: World) -> None:
        move_away(known)
        known.root.write_text("not a directory")
        assert state(known) == "failed"
        known.root.unlink()
        assert state(known) == "missing"

    def test_a_path_never_seen_before_is_not_suspect(self, world: World) -> None:
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

    def test_an_empty_one_stays_suspect_for_ever(self, known: World) -> None:
        self.replace(known)
        for _ in range(20):
            assert state(known) == "suspect"
            known.now += TRUST_S
        assert sorted(known.store.catalogue.files()) == sorted(LIVE)

    def test_so_does_one_with_the_right_names_and_nothing_in_them(self, known: World) -> None:
        """A server that sets its folder up anew makes just that."""
        self.replace(known)
        for name in LIVE:
            known.write(name, b"")
        for _ in range(5):
            assert state(known) == "suspect"
            known.now += TRUST_S

    def test_most_of_the_known_files_make_it_the_root_again(self, known: World) -> None:
        self.replace(known)
        known.write(CORE, lines(memory(1)))
        assert state(known) == "suspect"
        known.write(TASKS, lines(task(21, "in-progress")))
        assert state(known) == "ok"

    def test_another_store_with_the_same_names_is_not_the_root(self, known: World) -> None:
        """Every store of a layout has the same few names: a link switched to another one is no return."""
        self.replace(known)
        known.write(CORE, lines(memory(51)))
        known.write(LEARNINGS, lines(learning(52)))
        known.write(TASKS, lines(task(53, "in-progress")))
        assert state(known) == "suspect"

    def test_one_that_was_written_on_is(self, known: World) -> None:
        self.replace(known)
        known.write(CORE, lines(memory(1), memory(2)))
        known.write(LEARNINGS, lines(learning(11, content="changed")))
        assert state(known) == "ok"

    def test_so_does_a_minute_of_valid_memories(self, known: World) -> None:
        self.replace(known)
        known.write("core_memories.jsonl", lines(memory(99)))
        assert state(known) == "suspect"
        known.now += TRUST_S - 1
        assert state(known) == "suspect"
        known.now += 1
        assert state(known) == "ok"

    def test_the_minute_begins_anew_when_they_vanish(self, known: World) -> None:
        self.replace(known)
        known.write(CORE, lines(memory(99)))
        assert state(known) == "suspect"
        known.now += 50
        known.path(CORE).unlink()
        assert state(known) == "suspect"
        known.write(CORE, lines(memory(99)))
        known.now += 5
        assert state(known) == "suspect"
        known.now += 50
        assert state(known) == "suspect"
        known.now += 10
        assert state(known) == "ok"

    def test_a_clock_set_back_does_not_prolong_it(self, known: World) -> None:
        self.replace(known)
        known.write(CORE, lines(memory(99)))
        assert state(known) == "suspect"
        known.now -= 86_400
        assert state(known) == "suspect"
        known.now += TRUST_S
        assert state(known) == "ok"

    def test_the_first_one_back_is_the_root_at_once(self, known: World) -> None:
        self.replace(known)
        assert state(known) == "suspect"
        move_back(known)
        assert state(known) == "ok"

    def test_it_is_still_suspect_after_a_restart(self, known: World) -> None:
        self.replace(known)
        assert state(known) == "suspect"
        known.restart()
        assert state(known) == "suspect"

    def test_a_command_accepts_what_is_there(self, known: World) -> None:
        self.replace(known)
        assert state(known) == "suspect"
        accept(known.store)
        assert state(known) == "ok"
        done = known.sync()
        assert known.store.catalogue.files() == {}
        assert (done.result.memories, known.names()) == (0, []), "an empty folder gets no index"


class TestLoss:
    def test_only_the_files_are_an_answer(self, known: World) -> None:
        kept = known.read(CORE)
        known.path(CORE).unlink()
        mark_suspect(known.store, "26 of 30 memories are gone")
        for _ in range(5):
            found = check_root(known.store, known.now)
            assert found.state == "suspect"
            assert "26 of 30" in (found.reason or "")
            known.now += TRUST_S
        known.write(CORE, kept)
        assert state(known) == "ok"


def test_a_loss_that_a_person_accepted_is_not_found_again(known: World) -> None:
    """Neither by the next scan nor after a restart."""
    known.write(LEARNINGS, lines(*(learning(n) for n in range(100, 140))))
    known.sync()
    known.path(LEARNINGS).unlink()
    loss = refresh(known.store, None, known.now, deletions_observed=False).loss
    assert loss is not None
    mark_suspect(known.store, loss)
    assert state(known) == "suspect"
    accept_all(known.store)
    assert state(known) == "ok"
    assert refresh(known.store, None, known.now, deletions_observed=False).loss is None
