"""Archiving, soft limits, and undoing both byte for byte."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from memoryd.core.dates import iso
from memoryd.core.defaults import Limit, LimitKind, Policy
from memoryd.core.plan import Kind
from memoryd.disk.locks.hold import DirectoryLock
from memoryd.errors import BusyError, ConflictError, GuardError, NotFoundError
from memoryd.operations.check import check
from memoryd.operations.repair import repair
from memoryd.operations.undo import undo
from memoryd.operations.upkeep import archive, enforce_limits, plan_row
from tests.daemon import until
from tests.layouts.samples import DAY, learning, line, lines, memory, task, uuid
from tests.operations.conftest import MakeWorld
from tests.operations.world import CORE, LEARNINGS, LIVE, Q3, TASKS, World, same_meaning

OLD_LEARNING = learning(1, "2025-07-01T00:00:00Z")
SCRAPS = b"{not json}\n\n\xff\n" + lines(memory(90, content=""))


def filled(world: World) -> None:
    world.write(CORE, lines(memory(101), memory(102, archived=True)))
    world.write(LEARNINGS, lines(OLD_LEARNING, learning(2)) + SCRAPS + lines(learning(3, "2025-08-01T00:00:00Z")))
    world.write(TASKS, lines(task(201, "completed", "2025-09-01T00:00:00Z"), task(202, "in-progress")))
    world.look()


class TestArchive:
    def test_only_due_memories_move(self, world: World) -> None:
        filled(world)
        done = archive(world.store, world.now, by="schedule")
        assert done.receipt is not None
        assert world.read(CORE) == lines(memory(101))
        assert world.read(LEARNINGS) == lines(learning(2)) + SCRAPS
        assert world.read(TASKS) == lines(task(202, "in-progress"))
        both = lines(OLD_LEARNING | {"archived": True}, learning(3, "2025-08-01T00:00:00Z", archived=True))
        assert world.read(Q3) == both
        assert json.loads(world.read("archive/2026/core_memories_2026_Q1.jsonl"))["id"] == uuid(102)
        assert json.loads(world.read("archive/2026/tasks_2026_Q1.jsonl"))["id"] == uuid(201)

    def test_a_second_run_changes_no_byte_and_no_stamp(self, world: World) -> None:
        filled(world)
        archive(world.store, world.now, by="schedule")
        world.sync()
        before = world.everything()
        done = archive(world.store, world.now, by="schedule")
        assert (done.receipt, bool(done.plan)) == (None, False)
        enforce_limits(world.store, world.now, by="schedule")
        world.sync()
        assert world.everything() == before

    def test_a_dry_run_changes_nothing_and_lists_every_move(self, world: World) -> None:
        filled(world)
        before = world.everything()
        done = archive(world.store, world.now, by="command", dry_run=True)
        assert done.receipt is None
        assert world.everything() == before
        assert world.store.journal.entries() == []
        wanted = plan_row(archive(world.store, world.now, by="command").plan)
        assert plan_row(done.plan) == wanted

    def test_each_live_file_is_backed_up_first(self, world: World) -> None:
        filled(world)
        before = {name: world.read(name) for name in LIVE}
        archive(world.store, world.now, by="schedule")
        for name in LIVE:
            [backup] = world.backups(name)
            assert world.read(f".backup/{backup}") == before[name]

    def test_files_and_directories_of_the_archive_are_private(self, world: World) -> None:
        filled(world)
        world.path(LEARNINGS).chmod(0o640)
        archive(world.store, world.now, by="schedule")
        modes = {
            name: stat.S_IMODE(os.stat(world.path(name)).st_mode) for name in ("archive", "archive/2025", Q3, LEARNINGS)
        }
        assert modes == {"archive": 0o700, "archive/2025": 0o700, Q3: 0o600, LEARNINGS: 0o640}

    def test_named_memories_move_whatever_their_age(self, world: World) -> None:
        filled(world)
        archive(world.store, world.now, by="command", ids=[uuid(101), uuid(2)])
        assert world.read(CORE) == lines(memory(102, archived=True))
        assert uuid(1) in world.read(LEARNINGS).decode(errors="replace")

    def test_an_unknown_name_moves_nothing(self, world: World) -> None:
        filled(world)
        before = world.everything()
        with pytest.raises(NotFoundError, match="nowhere"):
            archive(world.store, world.now, by="command", ids=[uuid(101), "nowhere"])
        assert world.everything() == before

    def test_archived_and_read_only_memories_are_refused(self, world: World) -> None:
        filled(world)
        archive(world.store, world.now, by="schedule")
        world.write("agent.json", json.dumps({"core_memories": [{"id": "shipped-1", "content": "x"}]}).encode())
        world.look()
        before = world.memories()
        for identity in (uuid(1), "shipped-1"):
            with pytest.raises(NotFoundError):
                archive(world.store, world.now, by="command", ids=[identity])
        assert world.memories() == before

    def test_a_live_memory_whose_id_is_also_in_an_archive(self, world: World) -> None:
        filled(world)
        archive(world.store, world.now, by="schedule")
        kept = world.read(Q3)
        world.append(LEARNINGS, learning(1, "2025-07-02T00:00:00Z", content="a newer wording"))
        world.look()
        [newer] = [each for each in world.store.catalogue.places(uuid(1)) if each.live]
        archive(world.store, world.now, by="command", ids=[newer.unique_id])
        assert world.read(Q3) == kept + lines(
            learning(1, "2025-07-02T00:00:00Z", content="a newer wording", archived=True)
        )

    def test_a_held_lock_makes_it_busy_and_changes_nothing(self, make_world: MakeWorld) -> None:
        world = make_world(Policy(lock_wait_s=0.05))
        filled(world)
        before = world.memories()
        with DirectoryLock(world.store.tree.fd).hold(1.0), pytest.raises(BusyError):
            archive(world.store, world.now, by="schedule")
        assert world.memories() == before
        until(lambda: ".lock" not in world.names(), "the lock file to go")  # the thread that waited removes it

    @pytest.mark.parametrize("doubt", ["jump", "past"])
    def test_a_clock_in_doubt_stops_it_and_is_reported(self, world: World, doubt: str) -> None:
        world.write(LEARNINGS, lines(*(learning(n) for n in range(1, 31))))
        world.sync()
        later = world.now + 100 * DAY
        if doubt == "jump":
            world.store.clock_jump_s = 100 * DAY
        else:
            world.store.journal.jobs.record_start("verify", later + 3600)
            world.store.journal.jobs.record_end("verify", "ok", later + 3600)
        before = world.everything()
        with pytest.raises(GuardError, match="30 of 30") as refused:
            archive(world.store, later, by="schedule")
        assert "jobs run archive" in str(refused.value.hint)
        assert world.everything() == before
        assert [each.code for each in check(world.store, later)] == ["refused-by-guard"]
        assert archive(world.store, later, by="command").receipt is not None
        assert check(world.store, later) == []

    def test_a_pause_of_weeks_is_caught_up_in_batches_oldest_first(self, world: World) -> None:
        """At most half of the store, or twenty memories, at a time; the plan counts those that wait."""
        old = [learning(n, f"2025-0{1 + n % 6}-0{1 + n % 9}T00:00:00Z") for n in range(1, 61)]
        world.write(LEARNINGS, lines(*old, *(learning(n, iso(world.now)) for n in range(61, 66))))
        world.sync()
        moved, waiting = [], []
        for _ in range(4):
            done = archive(world.store, world.now, by="schedule")
            world.sync()
            moved.append([each for action in done.plan.actions if action.kind is Kind.REWRITE for each in action.ids])
            waiting.append(done.plan.waiting)
        assert [len(each) for each in moved] == [32, 20, 8, 0]
        assert waiting == [28, 8, 0, 0]
        created = {each["id"]: each["created_at"] for each in old}
        assert max(created[each] for each in moved[0]) <= min(created[each] for each in moved[1])

    def test_a_bulk_import_is_brought_under_the_soft_limit_at_once(self, world: World) -> None:
        world.write(LEARNINGS, lines(*(learning(n, iso(world.now)) for n in range(1, 1601))))
        world.sync()
        enforce_limits(world.store, world.now, by="schedule")
        assert len(world.read(LEARNINGS).splitlines()) == 500

    def test_odd_files_do_not_stop_the_others(self, world: World, tmp_path: Path) -> None:
        filled(world)
        world.path(TASKS).unlink()
        os.mkfifo(world.path(TASKS))
        world.path(CORE).unlink()
        target = tmp_path / "core.jsonl"
        target.write_bytes(lines(memory(102, archived=True)))
        world.path(CORE).symlink_to(target)
        world.look()
        archive(world.store, world.now, by="schedule")
        assert uuid(1) not in world.read(LEARNINGS).decode(errors="replace")
        assert target.read_bytes() == lines(memory(102, archived=True))

    def test_a_linked_archive_directory_is_not_written_through(self, world: World, tmp_path: Path) -> None:
        filled(world)
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        world.path("archive").symlink_to(elsewhere)
        before = world.memories()
        with pytest.raises(OSError, match="symbolic link"):
            archive(world.store, world.now, by="schedule")
        assert (list(elsewhere.iterdir()), world.memories()) == ([], before)
        assert world.temps() == []


class TestUndo:
    def test_restores_bytes_modes_and_directories(self, world: World) -> None:
        filled(world)
        world.path(LEARNINGS).chmod(0o640)
        before, folders = world.memories(), {name for name in os.listdir(world.root) if name != ".backup"}
        done = archive(world.store, world.now, by="command")
        assert done.receipt is not None
        assert world.memories() != before
        back = undo(world.store, done.receipt, world.now)
        assert world.memories() == before
        world.settle()
        assert {name for name in os.listdir(world.root) if name != ".backup"} == folders
        assert world.store.journal.entry(done.receipt).state == "undone"
        assert world.store.journal.entry(done.receipt).undone_by == back.receipt

    def test_restores_an_archive_that_existed_before(self, world: World) -> None:
        filled(world)
        world.write(Q3, line(learning(50, archived=True)))  # no newline at its end
        world.path(Q3).chmod(0o400)
        before = world.memories()
        done = archive(world.store, world.now, by="command")
        assert world.read(Q3).startswith(line(learning(50, archived=True)) + b"\n")
        undo(world.store, done.receipt or "", world.now)
        assert world.memories() == before

    def test_of_an_undo(self, world: World) -> None:
        filled(world)
        done = archive(world.store, world.now, by="command")
        after = world.memories()
        back = undo(world.store, done.receipt or "", world.now)
        undo(world.store, back.receipt or "", world.now)
        assert {name: content for name, (content, _) in world.memories().items()} == {
            name: content for name, (content, _) in after.items()
        }

    def test_a_dry_run_changes_nothing(self, world: World) -> None:
        filled(world)
        done = archive(world.store, world.now, by="command")
        before = world.everything()
        assert undo(world.store, done.receipt or "", world.now, dry_run=True).plan
        assert world.everything() == before

    def test_later_appends_stay(self, world: World) -> None:
        """In live files and in the archive: agents do not stop writing for an undo."""
        filled(world)
        before = world.memories()
        done = archive(world.store, world.now, by="command")
        world.append(LEARNINGS, learning(77))
        world.append(Q3, learning(78, archived=True))
        undo(world.store, done.receipt or "", world.now)
        after = world.memories()
        assert after[LEARNINGS][0] == before[LEARNINGS][0] + line(learning(77)) + b"\n"
        assert after[Q3][0] == line(learning(78, archived=True)) + b"\n"
        assert {name: after[name] for name in before if name not in (LEARNINGS, Q3)} == {
            name: before[name] for name in before if name not in (LEARNINGS, Q3)
        }
        world.sync()
        assert archive(world.store, world.now, by="schedule").receipt is None, "it would undo the undo"

    def test_a_memory_that_is_live_again_does_not_come_twice(self, world: World) -> None:
        """An agent stored it again, or a backup was restored: the file then only looks as if it had grown."""
        world.write(LEARNINGS, lines(learning(1), learning(2)))
        world.look()
        done = archive(world.store, world.now, by="command", ids=[uuid(1)])
        world.append(LEARNINGS, learning(1))
        world.look()
        undo(world.store, done.receipt or "", world.now)
        assert world.read(LEARNINGS) == lines(learning(2), learning(1))

    def test_a_memory_that_was_marked_and_is_live_again_does_not_come_twice(self, world: World) -> None:
        world.write(LEARNINGS, lines(learning(1, archived=True), learning(2)))
        world.look()
        done = archive(world.store, world.now, by="command")
        world.append(LEARNINGS, learning(1))
        world.look()
        undo(world.store, done.receipt or "", world.now)
        assert world.read(LEARNINGS) == lines(learning(2), learning(1))

    def test_an_undo_of_an_undo_is_refused_where_the_memory_is_back(self, world: World) -> None:
        world.write(LEARNINGS, lines(learning(1), learning(2)))
        world.look()
        done = archive(world.store, world.now, by="command", ids=[uuid(2)])
        back = undo(world.store, done.receipt or "", world.now)
        again = undo(world.store, back.receipt or "", world.now)
        world.append(LEARNINGS, learning(2))
        with pytest.raises(ConflictError):
            undo(world.store, again.receipt or "", world.now)
        assert world.read(LEARNINGS) == lines(learning(1), learning(2))

    def test_restores_each_memory_in_a_rewritten_file(self, world: World) -> None:
        world.write(LEARNINGS, lines(learning(1), learning(2), learning(3)))
        world.look()
        done = archive(world.store, world.now, by="command", ids=[uuid(1), uuid(3)])
        world.write(LEARNINGS, lines(learning(9), learning(2, importance="high")))
        world.look()
        undo(world.store, done.receipt or "", world.now)
        back = (learning(1, archived=False), learning(3, archived=False))
        assert [json.loads(each)["id"] for each in world.read(LEARNINGS).splitlines()] == [
            uuid(9),
            uuid(2),
            *(each["id"] for each in back),
        ]
        assert not any(name.startswith("archive/") for name in world.names())
        assert world.store.journal.entry(done.receipt or "").state == "undone"

    def test_restores_each_memory_in_a_deleted_file(self, world: World) -> None:
        world.write(LEARNINGS, lines(learning(1), learning(2)))
        world.look()
        done = archive(world.store, world.now, by="command", ids=[uuid(1)])
        world.path(LEARNINGS).unlink()
        world.look()
        undo(world.store, done.receipt or "", world.now)
        assert [json.loads(each)["id"] for each in world.read(LEARNINGS).splitlines()] == [uuid(1)]
        assert not any(name.startswith("archive/") for name in world.names())

    def test_is_refused_where_the_archived_memory_itself_has_changed(self, world: World) -> None:
        world.write(LEARNINGS, lines(learning(1), learning(2)))
        world.look()
        done = archive(world.store, world.now, by="command", ids=[uuid(1)])
        [path] = [name for name in world.names() if name.startswith("archive/")]
        world.write(path, world.read(path).replace(b'"content":"', b'"content":"changed '))
        world.write(LEARNINGS, lines(learning(9)))
        before = world.everything()
        with pytest.raises(ConflictError, match="missing or changed"):
            undo(world.store, done.receipt or "", world.now)
        assert world.everything() == before

    def test_is_refused_by_name_when_something_changed(self, world: World) -> None:
        world.write(LEARNINGS, line(learning(1)) + line(learning(2)) + b"\n")
        world.look()
        done = repair(world.store, world.now)
        assert done.receipt is not None
        world.write(LEARNINGS, lines(learning(77)))
        before = world.everything()
        with pytest.raises(ConflictError, match=LEARNINGS) as refused:
            undo(world.store, done.receipt or "", world.now)
        assert refused.value.data == {"changed": [LEARNINGS]}
        assert world.everything() == before

    @pytest.mark.parametrize("what", ["removed", "a folder", "a link"])
    def test_is_refused_when_a_file_is_no_longer_one(self, world: World, what: str) -> None:
        filled(world)
        done = archive(world.store, world.now, by="command")
        world.path(Q3).unlink()
        if what == "a folder":
            world.path(Q3).mkdir()
        elif what == "a link":
            world.path(Q3).symlink_to("/etc/hostname")
        with pytest.raises(ConflictError, match="learnings_2025_Q3"):
            undo(world.store, done.receipt or "", world.now)

    def test_twice_is_refused(self, world: World) -> None:
        filled(world)
        done = archive(world.store, world.now, by="command")
        undo(world.store, done.receipt or "", world.now)
        with pytest.raises(ConflictError, match="undone"):
            undo(world.store, done.receipt or "", world.now)
        with pytest.raises(NotFoundError):
            undo(world.store, "20260101-nothing", world.now)

    def test_survives_a_restart(self, world: World) -> None:
        filled(world)
        before = world.memories()
        done = archive(world.store, world.now, by="schedule")
        assert world.restart() == []
        undo(world.store, done.receipt or "", world.now)
        assert world.memories() == before

    def test_of_a_limit(self, make_world: MakeWorld) -> None:
        world = make_world(Policy(limits={LEARNINGS: Limit(LimitKind.SOFT, None, 1)}))
        filled(world)
        before = world.memories()
        done = enforce_limits(world.store, world.now, by="schedule")
        assert world.memories() != before
        undo(world.store, done.receipt or "", world.now)
        assert world.memories() == before


class TestPins:
    """Memories restored by an undo, which would be due again at once."""

    def undone(self, world: World) -> None:
        filled(world)
        done = archive(world.store, world.now, by="schedule")
        undo(world.store, done.receipt or "", world.now)

    def test_no_schedule_moves_it_again(self, make_world: MakeWorld) -> None:
        world = make_world(Policy(limits={LEARNINGS: Limit(LimitKind.SOFT, None, 0)}))
        self.undone(world)
        before = world.memories()
        assert archive(world.store, world.now, by="schedule").receipt is None
        world.restart()
        assert archive(world.store, world.now + 400 * DAY, by="schedule").plan.actions
        enforce_limits(world.store, world.now, by="schedule")
        assert world.read(TASKS) == before[TASKS][0]
        for number in (1, 3):
            assert uuid(number) in world.read(LEARNINGS).decode(errors="replace")

    def test_a_command_does(self, world: World) -> None:
        self.undone(world)
        archive(world.store, world.now, by="command", ids=[uuid(1)])
        assert uuid(1) not in world.read(LEARNINGS).decode(errors="replace")

    def test_so_does_a_change_of_the_memory(self, world: World) -> None:
        self.undone(world)
        world.write(LEARNINGS, world.read(LEARNINGS).replace(b"memory number 1", b"memory numero 1"))
        archive(world.store, world.now, by="schedule")
        assert uuid(1) not in world.read(LEARNINGS).decode(errors="replace")


class TestLimits:
    def test_a_soft_limit_is_enforced_once(self, make_world: MakeWorld) -> None:
        world = make_world(Policy(limits={LEARNINGS: Limit(LimitKind.SOFT, None, 3)}))
        world.write(LEARNINGS, lines(*(learning(n, f"2026-01-{n:02}T00:00:00Z") for n in range(1, 7))))
        world.sync()
        enforce_limits(world.store, world.now, by="schedule")
        assert [json.loads(each)["id"] for each in world.read(LEARNINGS).splitlines()] == [uuid(4), uuid(5), uuid(6)]
        world.sync()
        assert same_meaning(world.index(), world.rebuilt())
        assert enforce_limits(world.store, world.now, by="schedule").receipt is None

    def test_an_unreachable_limit_is_reported_until_it_is_met(self, make_world: MakeWorld) -> None:
        world = make_world(Policy(limits={TASKS: Limit(LimitKind.SOFT, None, 1)}))
        world.write(
            TASKS, lines(task(1, "in-progress"), task(2, "blocked"), task(3, "completed", "2026-01-30T00:00:00Z"))
        )
        world.look()
        done = enforce_limits(world.store, world.now, by="schedule")
        assert [action.ids for action in done.plan.actions][-1] == (uuid(3),)
        assert [each.code for each in world.store.root_findings["soft-limits"]] == ["soft-limit"]
        world.write(TASKS, lines(task(1, "in-progress")))
        enforce_limits(world.store, world.now, by="schedule")
        assert world.store.root_findings["soft-limits"] == ()

    def test_a_disabled_limit_moves_nothing(self, make_world: MakeWorld) -> None:
        world = make_world(Policy(limits={LEARNINGS: None}))
        world.write(LEARNINGS, lines(*(learning(n) for n in range(1, 600))))
        world.look()
        assert enforce_limits(world.store, world.now, by="schedule").receipt is None

    def test_hard_limits_only_warn(self, make_world: MakeWorld) -> None:
        world = make_world(Policy(limits={CORE: Limit(LimitKind.HARD, None, 1)}))
        filled(world)
        before = world.memories()
        assert enforce_limits(world.store, world.now, by="schedule").receipt is None
        assert world.memories() == before
