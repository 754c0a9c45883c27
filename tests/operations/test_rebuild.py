"""The last resort: a live file rebuilt from its archived memories."""

from __future__ import annotations

import json

import pytest

from memoryd.core.plan import Kind
from memoryd.errors import UsageError
from memoryd.layouts.codes import REBUILD
from memoryd.operations.repair import repair
from memoryd.operations.undo import undo
from memoryd.operations.upkeep import archive
from tests.layouts.samples import learning, lines, uuid
from tests.operations.world import LEARNINGS, World


def archived(world: World) -> None:
    world.write(LEARNINGS, lines(*(learning(n) for n in range(1, 6))))
    world.look()
    archive(world.store, world.now, by="command", ids=[uuid(1), uuid(2), uuid(3)])
    world.look()


def damage(world: World, content: bytes | None) -> None:
    for name in [each for each in world.names() if each.startswith(".backup/")]:
        world.path(name).unlink()
    if content is None:
        world.path(LEARNINGS).unlink()
    else:
        world.write(LEARNINGS, content)
    world.store.catalogue.clear()
    world.look()


@pytest.mark.parametrize("content", [None, b"", b"{torn\n" * 9 + lines(learning(9))])
def test_archived_memories_are_live_again(world: World, content: bytes | None) -> None:
    archived(world)
    damage(world, content)
    before = world.memories()
    planned = repair(world.store, world.now, codes=["corrupt-file"]).plan
    assert [(note.kind, REBUILD in note.why) for note in planned.notes] == [(Kind.NOTE, True)]
    done = repair(world.store, world.now, codes=[REBUILD])
    assert done.receipt is not None
    after = world.read(LEARNINGS)
    assert after.startswith(content or b"")
    back = [json.loads(line) for line in after[len(content or b"") :].splitlines()]
    assert [(each["id"], each["archived"]) for each in back] == [(uuid(n), False) for n in (1, 2, 3)]
    assert not any(name.startswith("archive/") for name in world.names())
    world.sync()
    assert archive(world.store, world.now, by="schedule").receipt is None, "no schedule takes them back"
    assert not repair(world.store, world.now, codes=[REBUILD]).plan
    undo(world.store, done.receipt, world.now)
    assert {name: each[0] for name, each in world.memories().items() if each[0]} == {
        name: each[0] for name, each in before.items() if each[0]
    }


def test_a_sound_file_is_not_changed(world: World) -> None:
    archived(world)
    assert not repair(world.store, world.now, codes=[REBUILD]).plan


def test_it_cannot_be_combined_with_other_codes(world: World) -> None:
    with pytest.raises(UsageError, match="cannot be combined"):
        repair(world.store, world.now, codes=[REBUILD, "corrupt-file"])
