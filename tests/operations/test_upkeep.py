"""Modes, findings, levels, locks and schema changes of a store."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from memoryd.control.methods.status import Counts
from memoryd.core.defaults import Limit, LimitKind, Mode, Policy
from memoryd.core.json_spans import members, with_member
from memoryd.core.spans import Edit, Span
from memoryd.errors import GuardError, NotFoundError
from memoryd.layouts.jsonl_store import JSONL_STORE
from memoryd.layouts.protocol import Migration
from memoryd.layouts.registry import LAYOUTS
from memoryd.operations.backup import create_backups
from memoryd.operations.check import check, finding_counts
from memoryd.operations.limits import limit_levels, note_limits
from memoryd.operations.locks import clear_lock, list_locks, sweep_locks
from memoryd.operations.migrate import migrate
from memoryd.operations.permissions import tighten
from memoryd.operations.undo import undo
from memoryd.operations.upkeep import archive, enforce_limits
from tests.layouts.samples import learning, line, lines, memory, task, uuid
from tests.operations.conftest import MakeWorld
from tests.operations.world import CORE, LEARNINGS, LIVE, Q3, TASKS, World


def filled(world: World) -> None:
    world.write(CORE, lines(memory(1)))
    world.write(LEARNINGS, lines(learning(11)))
    world.write(TASKS, lines(task(21, "in-progress")))
    world.write(Q3, lines(learning(31, archived=True)))


def modes(world: World) -> dict[str, int]:
    names = [".", *world.names(), *{str(Path(name).parent) for name in world.names()}]
    return {name: stat.S_IMODE(os.lstat(world.path(name)).st_mode) for name in names}


class TestPermissions:
    def test_open_files_and_directories_are_tightened(self, world: World) -> None:
        filled(world)
        world.sync()
        create_backups(world.store, world.now)
        for folder in (world.root, world.path("archive"), world.path("archive/2025"), world.path(".backup")):
            folder.chmod(0o755)
        for name in world.names():
            world.path(name).chmod(0o644)
        done = tighten(world.store, world.now, by="schedule")
        assert done.receipt is not None
        assert set(modes(world).values()) == {0o700, 0o600}

    def test_only_ever_tightened(self, world: World) -> None:
        filled(world)
        wanted = {CORE: (0o400, 0o400), LEARNINGS: (0o640, 0o600), TASKS: (0o755, 0o700), Q3: (0o004, 0o000)}
        for name, (mode, _) in wanted.items():
            world.path(name).chmod(mode)
        world.root.chmod(0o500)
        tighten(world.store, world.now, by="schedule")
        found = modes(world)
        assert {name: found[name] for name in wanted} == {name: mode for name, (_, mode) in wanted.items()}
        assert found["."] == 0o500

    def test_nothing_to_do_does_nothing(self, world: World) -> None:
        filled(world)
        before = world.everything()
        assert tighten(world.store, world.now, by="schedule").receipt is None
        assert world.everything() == before

    def test_links_foreign_files_and_hard_links_are_not_changed(self, world: World, tmp_path: Path) -> None:
        filled(world)
        outside = tmp_path / "outside"
        outside.mkdir(mode=0o755)
        (outside / "secret").write_text("x")
        (outside / "secret").chmod(0o644)
        world.path("archive/2024").symlink_to(outside)
        world.path("agent.json").symlink_to(outside / "secret")
        world.path("notes").mkdir(mode=0o755)
        world.write("notes/README.md", b"x")
        world.write("README.md", b"x")
        world.write("x.jsonl.tmp", b"x")
        for name in ("notes/README.md", "README.md", "x.jsonl.tmp"):
            world.path(name).chmod(0o644)
        os.link(world.path(LEARNINGS), tmp_path / "second name")
        world.path(LEARNINGS).chmod(0o644)
        before = modes(world)
        assert tighten(world.store, world.now, by="schedule").receipt is None
        assert modes(world) == before
        assert stat.S_IMODE((outside / "secret").stat().st_mode) == 0o644

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
    def test_a_directory_of_another_user_is_not_changed(self, world: World) -> None:
        filled(world)
        world.root.chmod(0o755)
        os.chown(world.root, 12345, -1)
        world.path(CORE).chmod(0o644)
        tighten(world.store, world.now, by="schedule")
        found = modes(world)
        assert (found["."], found[CORE]) == (0o755, 0o600)

    def test_can_be_turned_off_and_is_then_reported(self, make_world: MakeWorld) -> None:
        world = make_world(Policy(fix_permissions=False))
        filled(world)
        world.path(CORE).chmod(0o644)
        assert tighten(world.store, world.now, by="schedule").receipt is None
        assert [(each.code, each.path) for each in world.store.root_findings["permissions"]] == [
            ("wide-permissions", CORE)
        ]

    def test_undo_restores_the_modes(self, world: World) -> None:
        filled(world)
        world.path(CORE).chmod(0o644)
        world.root.chmod(0o755)
        before = modes(world)
        done = tighten(world.store, world.now, by="command")
        undo(world.store, done.receipt or "", world.now)
        assert modes(world) == before

    def test_undo_leaves_out_what_is_gone(self, world: World) -> None:
        filled(world)
        for name in (CORE, LEARNINGS):
            world.path(name).chmod(0o644)
        done = tighten(world.store, world.now, by="command")
        world.path(CORE).unlink()
        undo(world.store, done.receipt or "", world.now)
        assert stat.S_IMODE(world.path(LEARNINGS).stat().st_mode) == 0o644
        assert not world.path(CORE).exists()


class TestCheck:
    def test_a_sound_store_has_no_findings(self, world: World) -> None:
        filled(world)
        world.sync()
        assert check(world.store, world.now) == []
        assert finding_counts(world.store) == Counts(error=0, warning=0, info=0)

    def test_exactly_the_planted_defects(self, make_world: MakeWorld, tmp_path: Path) -> None:
        world = make_world(Policy(mode=Mode.OBSERVE, limits={TASKS: Limit(LimitKind.SOFT, None, 5)}))
        good = [memory(n) for n in range(1, 11)]
        world.write(
            CORE,
            b"\xef\xbb\xbf"
            + lines(*good)
            + b"{bad json\n"
            + b"\xff\xfe\n"
            + line(memory(12))
            + line(memory(13))
            + b"\n"
            + lines(memory(14, content=""))
            + lines(memory(15, importance=None))
            + lines(memory(16, tags=["x" * 31]))
            + lines(memory(17, id=None))
            + lines(memory(18, id="mem-18"))
            + lines(memory(19, accessed_at="2027-01-01T00:00:00Z"))
            + lines(memory(1))
            + line(memory(20))[:-1]
            + b',"archived":false}\n'
            + lines(memory(21, note="x" * 11_000)),
        )
        world.write(LEARNINGS, line(learning(31)) + b"\r\n" + lines(memory(32)) + b"\0\0\n" + line(learning(33))[:50])
        world.write(TASKS, lines(task(41, "completed"), *(task(n, "in-progress") for n in range(42, 46))))
        world.write("agent.json", b'{"core_memories":[]}')
        world.write("package.json", b"{}")
        os.mkfifo(world.path("fifo.json"))
        world.path(CORE).chmod(0o644)
        world.write("index.json", b'{"version":"2.0.0"}')
        world.write(".lock", json.dumps({"pid": dead_pid(), "timestamp": stamp(world.now - 60)}).encode(), age=60)
        before = world.everything()
        world.sync()
        found = {(each.code, each.path, each.line, each.id) for each in check(world.store, world.now)}
        assert found == {
            ("byte-order-mark", CORE, 1, None),
            ("invalid-json", CORE, 11, None),
            ("invalid-encoding", CORE, 12, None),
            ("joined-lines", CORE, 13, None),
            ("invalid-schema", CORE, 14, uuid(14)),
            ("corrected-schema", CORE, 15, uuid(15)),
            ("schema-bound", CORE, 16, uuid(16)),
            ("missing-id", CORE, 17, None),
            ("id-not-uuid", CORE, 18, "mem-18"),
            ("future-stamp", CORE, 19, uuid(19)),
            ("duplicate-id", CORE, 20, uuid(1)),
            ("duplicate-key", CORE, 21, uuid(20)),
            ("line-too-long", CORE, 22, None),
            ("wide-permissions", CORE, None, None),
            ("crlf-newlines", LEARNINGS, 1, None),
            ("wrong-type-for-file", LEARNINGS, 2, uuid(32)),
            ("nul-bytes", LEARNINGS, 3, None),
            ("torn-tail", LEARNINGS, 4, None),
            ("completed-without-date", TASKS, 1, uuid(41)),
            ("near-limit", TASKS, None, None),
            ("shipped-form", "agent.json", None, None),
            ("foreign-file", "package.json", None, None),
            ("not-a-regular-file", "fifo.json", None, None),
            ("index-newer", "index.json", None, None),
            ("stale-lock", ".lock", None, None),
        }
        assert world.everything() == before


class TestLevels:
    def levels(self, world: World) -> dict[str, str]:
        world.look()
        return {each.file: each.level for each in limit_levels(world.store)}

    @pytest.mark.parametrize(
        ("kind", "count", "level"),
        [("soft", 16, "ok"), ("soft", 17, "near"), ("soft", 20, "near"), ("soft", 21, "over"),
         ("hard", 16, "ok"), ("hard", 17, "near"), ("hard", 19, "near"), ("hard", 20, "over")],
    )  # fmt: skip
    def test_from_85_per_cent_near_and_hard_ones_over_when_reached(
        self, make_world: MakeWorld, kind: str, count: int, level: str
    ) -> None:
        world = make_world(Policy(limits={CORE: Limit(LimitKind(kind), None, 20)}))
        world.write(CORE, lines(*(memory(n) for n in range(count))))
        assert self.levels(world)[CORE] == level

    def test_bytes_count_as_well(self, make_world: MakeWorld) -> None:
        size = len(lines(memory(1)))
        world = make_world(Policy(limits={CORE: Limit(LimitKind.SOFT, size, None)}))
        world.write(CORE, lines(memory(1)))
        assert self.levels(world)[CORE] == "near"
        world.append(CORE, memory(2))
        assert self.levels(world)[CORE] == "over"

    def test_duplicates_and_marked_ones_do_not_make_a_file_full(self, make_world: MakeWorld) -> None:
        """A limit that can never be met must not be reported on every change."""
        world = make_world(Policy(limits={LEARNINGS: Limit(LimitKind.SOFT, None, 2)}))
        world.write(LEARNINGS, lines(learning(1), learning(1), learning(2), learning(3, archived=True)))
        assert [each.count for each in limit_levels(world.store) if each.file == LEARNINGS] == [0]
        assert self.levels(world)[LEARNINGS] == "near"
        assert note_limits(world.store) == ([], False)
        assert not enforce_limits(world.store, world.now, by="schedule").plan

    def test_a_crossing_of_a_hard_limit_is_reported_once_also_across_restarts(self, make_world: MakeWorld) -> None:
        world = make_world(Policy(limits={CORE: Limit(LimitKind.HARD, None, 2)}))
        world.write(CORE, lines(memory(1)))
        world.look()
        assert crossed(world) == []
        world.append(CORE, memory(2, accessed_at="2025-01-01T00:00:00Z"))
        world.look()
        assert crossed(world) == [("hard-limit", CORE)]
        world.append(CORE, memory(3))
        world.look()
        assert crossed(world) == []
        world.restart()
        world.look()
        assert crossed(world) == []
        [finding] = world.store.root_findings["limits"]
        assert finding.code == "hard-limit"
        assert finding.message.endswith(f"memoryd archive {uuid(2)} {uuid(1)} {uuid(3)}")
        archive(world.store, world.now, by="command", ids=[uuid(2), uuid(3)])
        world.look()
        assert crossed(world) == []
        world.append(CORE, memory(4))
        world.look()
        assert crossed(world) == [("hard-limit", CORE)]

    def test_a_crossing_of_a_soft_limit_is_reported_once_with_suggestions(self, make_world: MakeWorld) -> None:
        world = make_world(Policy(limits={LEARNINGS: Limit(LimitKind.SOFT, None, 1)}))
        world.write(LEARNINGS, lines(learning(1), learning(2)))
        world.look()
        [finding], soft = note_limits(world.store)
        assert soft
        assert (finding.code, finding.path) == ("soft-limit", LEARNINGS)
        assert f"memoryd archive {uuid(1)}" in finding.message
        world.restart()
        world.append(LEARNINGS, learning(3))
        world.look()
        assert note_limits(world.store) == ([], True)


def crossed(world: World) -> list[tuple[str, str]]:
    found, _ = note_limits(world.store)
    return [(each.code, each.path) for each in found]


def dead_pid() -> int:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


class TestLocks:
    """Staleness itself is tested with the locks; these tests cover what a store does with it."""

    def leave(self, world: World, pid: int, age: float) -> None:
        world.write(".lock", json.dumps({"pid": pid, "timestamp": stamp(world.now - age)}).encode(), age)

    def test_a_dead_holder_is_cleared_with_evidence_in_the_history(self, world: World) -> None:
        filled(world)
        self.leave(world, dead_pid(), 31.0)
        [report] = sweep_locks(world.store, world.now)
        assert report.action == "removed"
        assert ".lock" not in world.names()
        [entry] = world.store.journal.entries()
        assert (entry.operation, entry.by, entry.state) == ("lock-clear", "schedule", "done")
        assert report.evidence in entry.summary
        assert world.store.root_findings["locks"] == ()

    @pytest.mark.parametrize("age", [0.0, 29.0, 30.0])
    def test_a_recent_lock_stays(self, world: World, age: float) -> None:
        self.leave(world, dead_pid(), age)
        assert sweep_locks(world.store, world.now) == []
        assert ".lock" in world.names()

    def test_the_lock_of_a_live_holder_stays_and_is_listed(self, world: World) -> None:
        with subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        ) as holder:
            world.now = float(int(datetime.now(UTC).timestamp())) + 40.0
            self.leave(world, holder.pid, 31.0)
            assert sweep_locks(world.store, world.now) == []
            [report] = list_locks(world.store, world.now)
            assert (report.state, report.pid) == ("held", holder.pid)
            with pytest.raises(NotFoundError):
                clear_lock(world.store, world.now, path="other.lock", force=True)
            holder.communicate(b"\n")

    def test_force_does_not_take_a_held_flock(self, world: World) -> None:
        with world.store.locked(1.0), pytest.raises(GuardError):
            clear_lock(world.store, world.now, path=".lock", force=True)


class TestMigration:
    """Version 1.0.0 is the only one yet, so these tests define a migration after the example of the seed."""

    @pytest.fixture(autouse=True)
    def migration(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def edits(text: bytes) -> Iterator[Edit]:
            if not any(each.key == "new_field" for each in members(text, 0)):
                yield Edit(Span(0, len(text)), with_member(text, "new_field", b'"default_value"'))

        index = replace(JSONL_STORE.index, migrations=(Migration("0.9.0", "1.0.0", edits),))
        layouts = {**LAYOUTS, JSONL_STORE.name: replace(JSONL_STORE, index=index)}
        monkeypatch.setattr("memoryd.store.store.LAYOUTS", layouts)

    def start(self, world: World) -> None:
        filled(world)
        world.write(LEARNINGS, lines(learning(11)) + b"{scrap\n" + lines(learning(12)))
        world.write("index.json", b'{"version":"0.9.0"}')

    def test_backup_first_then_exact_edits_then_the_version(self, world: World) -> None:
        self.start(world)
        before = {name: world.read(name) for name in LIVE}
        [said] = migrate(world.store, world.now)
        assert "from version 0.9.0 to 1.0.0, receipt" in said
        for name in LIVE:
            [backup] = world.backups(name)
            assert world.read(f".backup/{backup}") == before[name]
        new = [learning(n) | {"new_field": "default_value"} for n in (11, 12)]
        assert world.read(LEARNINGS) == lines(new[0]) + b"{scrap\n" + lines(new[1])
        assert world.read(Q3) == lines(learning(31, archived=True))
        world.sync()
        assert world.index()["version"] == "1.0.0"
        assert migrate(world.store, world.now) == []

    def test_it_is_undone_like_every_change(self, world: World) -> None:
        self.start(world)
        before = world.memories()
        migrate(world.store, world.now)
        [entry] = world.store.journal.entries()
        assert (entry.operation, entry.by) == ("migrate", "start")
        undo(world.store, entry.receipt, world.now)
        assert world.memories() == before

    def test_an_interrupted_migration_continues(self, world: World) -> None:
        self.start(world)
        world.write(CORE, lines(memory(1) | {"new_field": "default_value"}))  # as far as it got
        migrate(world.store, world.now)
        assert world.read(CORE) == lines(memory(1) | {"new_field": "default_value"})
        assert b"new_field" in world.read(TASKS)

    @pytest.mark.parametrize("index", [b'{"version":"1.0.0"}', b'{"version":"2.0.0"}', b"garbage", None])
    def test_only_from_its_own_version(self, world: World, index: bytes | None) -> None:
        self.start(world)
        world.path("index.json").unlink()
        if index is not None:
            world.write("index.json", index)
        before = world.everything()
        assert migrate(world.store, world.now) == []
        assert world.everything() == before

    def test_success_and_failure_are_logged(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        told: list[str] = []
        monkeypatch.setattr("memoryd.operations.migrate.log.exception", lambda event, **_: told.append(event))
        self.start(world)
        world.path(".backup").symlink_to("/nowhere")
        with pytest.raises(OSError, match="symbolic link"):
            migrate(world.store, world.now)
        assert told == ["migration failed"]
        assert world.read(CORE) == lines(memory(1))
