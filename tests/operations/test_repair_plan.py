"""A repair lists everything it does: the dry run shows the same actions and writes nothing, and each change has a
receipt."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.core.defaults import Policy
from memoryd.core.plan import Kind
from memoryd.engine.jobs import OPERATIONS, Job
from memoryd.errors import BusyError, InvalidMemoryError
from memoryd.layouts.protocol import NewMemory
from memoryd.operations import memories
from memoryd.operations.check import check
from memoryd.operations.memories import Context
from memoryd.operations.refresh import refresh
from memoryd.operations.repair import Repaired, repair
from memoryd.operations.undo import undo
from memoryd.store import Store
from tests.layouts.samples import learning, line, lines
from tests.operations.conftest import MakeWorld
from tests.operations.test_overwrites import DOCUMENT, document
from tests.operations.world import LEARNINGS, World

JOINED = line(learning(1)) + line(learning(2)) + b"\n"
SAID = "a heron at dawn"
DEAD = """
import os
print(os.getpid())
"""


def described(done: Repaired) -> list[tuple[str, str]]:
    return [(str(action.kind), action.path) for action in done.plan.actions]


def operations(store: Store) -> list[str]:
    """Return the operations in the journal, the oldest first."""
    return [entry.operation for entry in reversed(store.journal.entries(10))]


def repair_as_planned(world: World | Document, codes: list[str] | None = None) -> Repaired:
    """Repair after a dry run, which must show the same actions and write nothing."""
    before, entries = world.everything(), operations(world.store)
    planned = repair(world.store, world.now, codes=codes, dry_run=True)
    assert (world.everything(), operations(world.store)) == (before, entries)
    assert (planned.receipt, planned.receipts) == (None, ())
    done = repair(world.store, world.now, codes=codes)
    assert described(done) == described(planned)
    assert [action.why for action in done.plan.actions] == [action.why for action in planned.plan.actions]
    made = operations(world.store)[len(entries) :]
    assert [world.store.journal.entry(each).operation for each in done.receipts] == made
    return done


def modes(world: World) -> list[int]:
    return [stat.S_IMODE(path.stat().st_mode) for path in (world.root, world.path(LEARNINGS))]


def open_to_all(world: World) -> None:
    world.root.chmod(0o755)
    world.path(LEARNINGS).chmod(0o644)


def leave_stale_lock(world: World) -> None:
    """Leave a lock whose holder has ended."""
    ended = subprocess.run([sys.executable, "-c", DEAD], capture_output=True, check=True, text=True)
    lock = world.path(".lock")
    lock.touch(0o600)
    lock.write_text(json.dumps({"pid": int(ended.stdout), "timestamp": "2026-01-01T00:00:00Z"}))
    os.utime(lock, (world.now - 3600, world.now - 3600))


def test_modes_are_in_the_plan_and_come_back_by_their_receipt(world: World) -> None:
    world.write(LEARNINGS, lines(learning(1)))
    open_to_all(world)
    world.sync()
    done = repair_as_planned(world)
    assert described(done) == [("chmod", ""), ("chmod", LEARNINGS)]
    assert modes(world) == [0o700, 0o600]
    assert done.receipt is not None
    undo(world.store, done.receipt, world.now)
    assert modes(world) == [0o755, 0o644]


def test_each_repair_of_a_root_has_a_receipt(world: World) -> None:
    world.write(LEARNINGS, JOINED)
    open_to_all(world)
    leave_stale_lock(world)
    world.sync()
    done = repair_as_planned(world)
    assert [world.store.journal.entry(each).operation for each in done.receipts] == [
        "repair",
        "permissions",
        "lock-clear",
    ]
    assert done.receipt == done.receipts[0]
    assert modes(world) == [0o700, 0o600]
    for receipt in done.receipts[:2]:
        undo(world.store, receipt, world.now)
    assert modes(world) == [0o755, 0o644]
    assert world.read(LEARNINGS) == JOINED


def test_a_stale_lock_is_in_the_plan(world: World) -> None:
    world.write(LEARNINGS, lines(learning(1)))
    world.sync()
    leave_stale_lock(world)
    done = repair_as_planned(world)
    assert described(done) == [("remove", ".lock")]
    assert "stale lock: 3600 s old, names process" in done.plan.actions[0].why
    assert done.receipt is not None
    assert not world.path(".lock").exists()


def test_only_the_named_repairs_are_planned(world: World) -> None:
    world.write(LEARNINGS, JOINED)
    open_to_all(world)
    leave_stale_lock(world)
    world.sync()
    done = repair_as_planned(world, ["stale-lock"])
    assert described(done) == [("remove", ".lock")]
    assert modes(world) == [0o755, 0o644]


def test_an_update_stored_again_is_in_the_plan(world: World) -> None:
    world.write(LEARNINGS, lines(learning(1), learning(2)))
    world.sync()
    stale = world.read(LEARNINGS)
    identity = str(learning(1)["id"])
    memories.update(world.store, identity, {"content": SAID}, world.now, Context())
    world.look()
    world.now += 5
    world.replace(LEARNINGS, stale, age=1)
    world.look()
    done = repair_as_planned(world, ["change-was-undone"])
    [action] = done.plan.actions
    assert (action.kind, action.path, action.ids) == (Kind.REWRITE, LEARNINGS, (identity,))
    assert "stores an update again" in action.why
    assert SAID.encode() in world.read(LEARNINGS)


class Document:
    """A store of one user's document, which another program overwrites."""

    def __init__(self, base: Path) -> None:
        self.root = base / "root"
        self.path = self.root / DOCUMENT
        self.path.parent.mkdir(parents=True)
        self.now = 1_770_000_000.0
        self.store = Store("m", str(self.root), "user-document", Policy(), str(base / "state"))
        self.store.attach()

    def write(self, content: bytes) -> None:
        self.now += 100
        self.path.write_bytes(content)
        os.utime(self.path, (self.now - 60, self.now - 60))
        refresh(self.store, None, self.now)

    def lose_two(self) -> None:
        """Store two memories, which another program then overwrites with what it read before."""
        stale = document("a", "b")
        self.write(stale)
        for number in (1, 2):
            new = NewMemory({"content": f"{SAID} {number}", "embedding": [0.5, number]}, {"user": "u1"})
            memories.add(self.store, new, self.now, Context(number))
            refresh(self.store, None, self.now)
        self.write(stale)

    def everything(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in self.root.rglob("*") if path.is_file()}

    def codes(self) -> list[str]:
        return [each.code for each in check(self.store, self.now)]


@pytest.fixture
def user(tmp_path: Path) -> Iterator[Document]:
    made = Document(tmp_path)
    yield made
    made.store.close()


def test_memories_stored_again_are_in_the_plan_with_a_receipt_each(user: Document) -> None:
    user.lose_two()
    done = repair_as_planned(user, ["change-was-undone"])
    assert described(done) == [("rewrite", DOCUMENT)] * 2
    assert all("stores a memory again" in action.why and action.ids for action in done.plan.actions)
    assert len(done.receipts) == 2
    content = user.path.read_text()
    assert f"{SAID} 1" in content
    assert f"{SAID} 2" in content


def test_a_memory_that_cannot_be_stored_again_is_named(user: Document, monkeypatch: pytest.MonkeyPatch) -> None:
    user.lose_two()

    def refuse(*given: object, **options: object) -> memories.Outcome:
        raise InvalidMemoryError("the embedding has another size")

    monkeypatch.setattr(memories, "add", refuse)
    planned = repair(user.store, user.now, codes=["change-was-undone"], dry_run=True)
    done = repair(user.store, user.now, codes=["change-was-undone"])
    assert planned.plan == done.plan
    assert [action.why for action in done.plan.actions] == [
        "cannot be stored again: the embedding has another size"
    ] * 2
    assert all(action.kind is Kind.NOTE for action in done.plan.actions)
    assert done.receipts == ()


def test_a_memory_whose_file_is_busy_is_named_and_stays_waiting(
    user: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    user.lose_two()

    def wait(*given: object, **options: object) -> memories.Outcome:
        raise BusyError("another program holds the lock")

    with monkeypatch.context() as patch:
        patch.setattr(memories, "add", wait)
        done = repair(user.store, user.now, codes=["change-was-undone"])
    assert "another program holds the lock" in done.plan.actions[0].why
    assert len(repair(user.store, user.now, codes=["change-was-undone"]).receipts) == 2


def test_an_accepted_loss_is_in_the_plan(user: Document) -> None:
    user.write(document(*(f"memory {number}" for number in range(20))))
    user.write(document("new"))
    assert "shrunk" in user.codes()
    done = repair_as_planned(user, ["shrunk"])
    [action] = done.plan.actions
    assert (action.kind, action.path) == (Kind.ACCEPT, DOCUMENT)
    assert "20 memories became 1" in action.why
    assert operations(user.store)[-1] == "accept-loss"
    assert "shrunk" not in user.codes()
    again = repair(user.store, user.now, codes=["shrunk"])
    assert (again.plan.actions, again.receipt) == ((), None)


PLANNED = {"archive", "permissions"}  # the jobs that have something to do there


@pytest.mark.parametrize("off", ["", *sorted(PLANNED)])
def test_the_plan_leaves_out_jobs_that_the_schedule_turns_off(off: str, make_world: MakeWorld) -> None:
    schedule = dict(Policy().schedule) | ({off: "Off"} if off else {})
    world = make_world(Policy(schedule=schedule))
    world.write(LEARNINGS, lines(learning(1, "2025-01-01T00:00:00Z"), learning(2)))
    open_to_all(world)
    world.sync()
    planned: Any = OPERATIONS["plan"](world.store, Job("plan"), world.now)
    assert {action.job for action in planned.actions} == PLANNED - {off}
