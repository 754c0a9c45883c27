"""Storing, changing, forgetting and restoring single memories, while other programs write without coordination."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from memoryd.core.defaults import Limit, LimitKind, Policy
from memoryd.core.secrets import SUGGESTION, VIOLATION
from memoryd.disk.journal.database import JournalError
from memoryd.errors import (
    BusyError,
    ConflictError,
    InvalidMemoryError,
    LimitExceededError,
    NotFoundError,
    SensitiveError,
)
from memoryd.layouts.protocol import AccessCount, NewMemory, WriteView
from memoryd.operations import memories
from memoryd.operations.access_counts import count_reads
from memoryd.operations.lookup import LoadedMemory, read_memory
from memoryd.operations.memories import Context, Outcome
from memoryd.operations.undo import undo
from memoryd.operations.upkeep import archive
from memoryd.store import Store
from memoryd.store.layout_views import write_view
from tests.layouts.samples import learning, line, lines, memory, uuid
from tests.operations.conftest import MakeWorld
from tests.operations.world import CORE, LEARNINGS, World, whole_reads

CANARY = "ghp_" + "aB3dE6gH9" * 4
ARCHIVE = "archive/2026/learnings_2026_Q1.jsonl"


def filled(world: World) -> None:
    world.write(CORE, lines(memory(101)))
    world.write(LEARNINGS, b"{not json}\n" + lines(learning(1), learning(2)))
    world.look()


def add(world: World, number: int = 7, **fields: Any) -> Outcome:
    native = {"type": "learning", "content": "what was learnt", **fields}
    done = memories.add(world.store, NewMemory(native), world.now, Context(number))
    world.look(done.paths)
    return done


def update(world: World, asked: str, **changes: Any) -> Outcome:
    return memories.update(world.store, asked, changes, world.now, Context())


def read(world: World, asked: str) -> LoadedMemory | None:
    return read_memory(world.store, asked, world.now)


def meanwhile(monkeypatch: pytest.MonkeyPatch, *acts: Callable[[], object]) -> None:
    """Run each act of another program after one decision, before its commit."""
    left = list(acts)

    def view(store: Store, now: float, **more: Any) -> WriteView:
        made = write_view(store, now, **more)
        if left:
            left.pop(0)()
        return made

    monkeypatch.setattr(memories, "write_view", view)


class TestStoring:
    def test_a_memory_is_stored_at_once_and_an_undo_removes_it(self, world: World) -> None:
        filled(world)
        before = world.read(LEARNINGS)
        done = add(world, tags=["db"])
        found = read(world, done.id)
        assert found is not None
        assert (found.path, found.line, found.native["tags"]) == (LEARNINGS, 4, ["db"])
        assert world.read(LEARNINGS).startswith(before)
        undo(world.store, str(done.receipt), world.now)
        assert world.read(LEARNINGS) == before

    def test_an_update_changes_nothing_but_its_fields(self, world: World) -> None:
        filled(world)
        before = world.read(LEARNINGS)
        done = update(world, uuid(1), importance="low")
        lines_before, lines_after = before.splitlines(), world.read(LEARNINGS).splitlines()
        assert [*lines_after[:1], *lines_after[2:]] == [*lines_before[:1], *lines_before[2:]]
        was, now = json.loads(lines_before[1]), json.loads(lines_after[1])
        assert {key for key in now if now[key] != was[key]} == {"importance", "updated_at"}
        undo(world.store, str(done.receipt), world.now)
        assert world.read(LEARNINGS) == before

    def test_an_update_that_changes_nothing_has_no_receipt_and_touches_nothing(self, world: World) -> None:
        filled(world)
        before = world.memories()
        done = update(world, uuid(1), importance="high")
        assert (done.receipt, done.paths, world.memories()) == (None, (), before)

    def test_a_forgotten_memory_is_archived_and_restored(self, world: World) -> None:
        filled(world)
        gone = memories.forget(world.store, uuid(1), world.now, Context())
        assert gone.path == ARCHIVE
        world.look(gone.paths)
        found = read(world, uuid(1))
        assert found is not None
        assert (found.path, found.archived) == (ARCHIVE, True)
        back = memories.unarchive(world.store, uuid(1), world.now, Context())
        assert (back.path, ARCHIVE in world.names()) == (LEARNINGS, False)
        assert line(learning(1)) in world.read(LEARNINGS).splitlines()

    def test_of_equal_ids_in_an_archive_the_one_named_is_restored(self, world: World) -> None:
        world.write(ARCHIVE, lines(learning(1, content="of old", archived=True)))
        filled(world)
        [live] = [each for each in world.store.catalogue.places(uuid(1)) if each.live]
        memories.forget(world.store, live.unique_id, world.now, Context())
        world.look()
        memories.unarchive(world.store, live.unique_id, world.now, Context())
        assert line(learning(1)) in world.read(LEARNINGS).splitlines()
        assert b"of old" in world.read(ARCHIVE)

    def test_no_schedule_moves_a_restored_memory(self, world: World) -> None:
        """It is as old as before, and its age would move it with the next run."""
        world.write(LEARNINGS, lines(learning(1, "2025-01-01T00:00:00Z")))
        world.look()
        archive(world.store, world.now, by="schedule")
        world.look()
        assert world.read(LEARNINGS) == b""
        memories.unarchive(world.store, uuid(1), world.now, Context())
        world.look()
        assert archive(world.store, world.now, by="schedule").receipt is None
        assert archive(world.store, world.now, by="command", ids=[uuid(1)]).receipt is not None

    def test_refusals(self, make_world: MakeWorld) -> None:
        world = make_world(Policy(limits={CORE: Limit(LimitKind.HARD, None, 1)}))
        filled(world)
        memories.forget(world.store, uuid(2), world.now, Context())
        world.look()
        before = world.memories()
        with pytest.raises(LimitExceededError):
            add(world, type="core")
        with pytest.raises(InvalidMemoryError) as invalid:
            add(world, content="", tags="db")
        assert [each["field"] for each in invalid.value.data["findings"]] == ["content", "tags"]
        with pytest.raises(NotFoundError):
            update(world, uuid(99), importance="low")
        with pytest.raises(NotFoundError) as archived:
            update(world, uuid(2), importance="low")
        assert f"memoryd unarchive {uuid(2)}" in str(archived.value.hint)
        with pytest.raises(NotFoundError):
            memories.unarchive(world.store, uuid(1), world.now, Context())
        assert world.memories() == before


class TestOtherWriters:
    def test_a_foreign_change_of_other_memories_is_preserved(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        filled(world)
        meanwhile(
            monkeypatch,
            lambda: world.append(LEARNINGS, learning(3)),
            lambda: world.replace(LEARNINGS, lines(learning(2, content="changed"), learning(3), learning(1))),
        )
        update(world, uuid(1), importance="low")
        found = [json.loads(each) for each in world.read(LEARNINGS).splitlines()]
        assert [(each["id"], each["content"]) for each in found[:2]] == [
            (uuid(2), "changed"),
            (uuid(3), "memory number 3"),
        ]
        assert found[2]["importance"] == "low"

    @pytest.mark.parametrize("there", [(learning(2), learning(1, content="theirs")), (learning(2),)])
    def test_a_foreign_change_of_the_memory_itself_is_a_conflict(
        self, there: tuple[dict[str, Any], ...], world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        filled(world)
        meanwhile(monkeypatch, lambda: world.replace(LEARNINGS, lines(*there)))
        with pytest.raises(ConflictError) as error:
            update(world, uuid(1), content="ours")
        assert error.value.data["changed"] == [LEARNINGS]
        assert world.read(LEARNINGS) == lines(*there)

    def test_a_foreign_change_is_read_at_once(self, world: World) -> None:
        filled(world)
        world.replace(LEARNINGS, lines(learning(5), learning(1, content="theirs")))
        found = read(world, uuid(1))
        assert found is not None
        assert (found.line, found.native["content"]) == (2, "theirs")
        assert read(world, uuid(2)) is None

    def test_memories_before_a_foreign_append_are_still_read(self, world: World) -> None:
        filled(world)
        world.append(LEARNINGS, learning(5), age=0)
        found = read(world, uuid(2))
        assert found is not None
        assert (found.line, found.native["id"]) == (3, uuid(2))

    def test_an_unchanged_line_is_read_alone(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """Also in a file that was just written, whose stamps prove nothing yet."""
        filled(world)
        world.append(LEARNINGS, learning(5), age=0)
        reads = whole_reads(monkeypatch)
        for number in (1, 2):
            found = read(world, uuid(number))
            assert found is not None
            assert found.native["id"] == uuid(number)
        assert reads == []

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (b'"id":"' + uuid(1).encode(), b'"id":"' + uuid(8).encode()),
            (b'{"id":"' + uuid(1).encode(), b'["id","' + uuid(1).encode()),
            (b'{"id":"' + uuid(1).encode(), b'x"id":"' + uuid(1).encode()),
        ],
        ids=["another memory", "no object", "no JSON"],
    )
    def test_a_line_replaced_within_one_clock_tick_is_not_returned(self, world: World, old: bytes, new: bytes) -> None:
        """As long as before, and by its stamps the same file."""
        world.write(LEARNINGS, lines(learning(3), learning(1), learning(2)))
        world.look()
        there, path = world.read(LEARNINGS), world.root / LEARNINGS
        assert read(world, uuid(1)) is not None
        stamps = path.stat()
        changed = there.replace(old, new)
        assert changed != there
        assert len(changed) == len(there)
        with path.open("r+b") as file:
            file.write(changed)
        os.utime(path, ns=(stamps.st_atime_ns, stamps.st_mtime_ns))
        assert read(world, uuid(1)) is None


class TestSecrets:
    def test_the_canary_is_nowhere(self, world: World) -> None:
        filled(world)
        before = world.memories()
        told = []
        natives: tuple[dict[str, Any], ...] = (
            {"content": f"it is {CANARY}"},
            {"task_metadata": {"deep": [{"er": CANARY}]}},
            {CANARY: "as a name"},
        )
        for native in natives:
            with pytest.raises(SensitiveError) as error:
                memories.add(world.store, NewMemory(native), world.now, Context())
            told.append(error.value)
            with pytest.raises(SensitiveError) as error:
                memories.update(world.store, uuid(1), native, world.now, Context())
            told.append(error.value)
        assert {(each.message, each.hint) for each in told} == {(VIOLATION, SUGGESTION)}
        assert CANARY not in repr([each.data for each in told])
        assert world.memories() == before
        for path in world.state.rglob("*"):
            assert not path.is_file() or CANARY.encode() not in path.read_bytes(), path

    def test_what_only_looks_like_a_secret_is_stored_with_a_warning(self, world: World) -> None:
        done = add(world, content="log in with password=Tr0ub4dor&3xyz", nested={"password": "Tr0ub4dor&3xyz"})
        assert [each.partition(":")[0] for each in done.warnings] == ["content", "nested"]
        assert "Tr0ub4dor" not in repr(done.warnings)
        assert b"Tr0ub4dor" in world.read(LEARNINGS)
        for path in world.state.rglob("catalogue*"):
            assert b"Tr0ub4dor" not in path.read_bytes(), path
        assert update(world, done.id, content="log in with $PASSWORD").warnings == ()
        assert add(world, content="the key to the token is a good password").warnings == ()

    def test_a_slip_in_the_name_of_a_field_is_stored_with_a_warning(self, world: World) -> None:
        done = add(world, contnt="heron", context="river")
        assert done.warnings == ("contnt: stored as it is; did you mean content?",)
        assert b'"contnt":"heron"' in world.read(LEARNINGS)
        changed = update(world, done.id, importence="high")
        assert changed.warnings == ("importence: stored as it is; did you mean importance?",)

    def test_an_error_does_not_quote_its_input(self, world: World) -> None:
        with pytest.raises(NotFoundError) as error:
            update(world, CANARY, importance="low")
        assert CANARY not in str(error.value)

    def test_off_stores_everything_and_errors_still_quote_nothing(self, make_world: MakeWorld) -> None:
        world = make_world(Policy(secrets="off"))
        done = add(world, content=f"it is {CANARY}")
        found = read(world, done.id)
        assert found is not None
        assert CANARY in found.native["content"]
        with pytest.raises(InvalidMemoryError) as error:
            add(world, type=CANARY)
        assert CANARY not in repr((error.value, error.value.hint, error.value.data))
        assert CANARY.encode() not in (world.state / "catalogue.sqlite").read_bytes()

    def test_the_list_of_the_seed_if_configured(self, make_world: MakeWorld) -> None:
        world = make_world(Policy(secrets="seed"))
        with pytest.raises(SensitiveError):
            add(world, content="Key learnings")
        means = Context(3, allow_words=True)
        memories.add(world.store, NewMemory({"type": "core", "content": "Key learnings"}), world.now, means)
        with pytest.raises(SensitiveError):
            memories.add(world.store, NewMemory({"type": "core", "content": "api_key"}), world.now, means)


class TestReads:
    def test_access_counts_are_one_rewrite_without_backup(self, world: World) -> None:
        filled(world)
        backups = world.backups()
        assert count_reads(
            world.store, LEARNINGS, {uuid(1): AccessCount(3, world.now), uuid(2): AccessCount(1, world.now)}, world.now
        )
        found = [json.loads(each) for each in world.read(LEARNINGS).splitlines()[1:]]
        assert [each["access_count"] for each in found] == [8, 6]
        assert world.read(LEARNINGS).startswith(b"{not json}\n")
        assert world.backups() == backups
        assert count_reads(world.store, LEARNINGS, {uuid(77): AccessCount(1, world.now)}, world.now) == ()
        assert world.store.journal.access.counts() == {LEARNINGS: {uuid(77): 1}}

    def test_archived_memories_are_read_when_no_live_one_has_the_id(self, world: World) -> None:
        world.write(ARCHIVE, lines(learning(1, archived=True)))
        world.look()
        old = read(world, uuid(1))
        assert old is not None
        assert old.archived
        world.write(LEARNINGS, lines(learning(1)))
        world.look()
        new = read(world, uuid(1))
        assert new is not None
        assert not new.archived


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), BusyError("in use"), JournalError("damaged")]
)
def test_a_change_that_cannot_be_recorded_as_done_succeeds(
    world: World, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The file is changed by then, and a client that got an error would store the memory twice. The next change records
    it; recovery does so after a crash."""
    filled(world)
    with monkeypatch.context() as patch:

        def refuse(*_: object, **__: object) -> None:
            raise error

        patch.setattr(world.store.journal, "finish", refuse)
        first, second = add(world), add(world)
    assert first.receipt is not None
    assert second.receipt is not None
    assert [world.store.journal.entry(each).state for each in (first.receipt, second.receipt)] == ["done", "done"]
    undo(world.store, second.receipt, world.now)
    assert world.store.journal.entry(second.receipt).state == "undone"
    world.restart()
    assert world.store.journal.entry(first.receipt).state == "done"
    assert world.store.journal.unfinished() == []
