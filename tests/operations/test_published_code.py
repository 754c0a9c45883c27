"""The published code of the seed, run on files that memoryd has changed."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memoryd.core.defaults import Limit, LimitKind, Policy
from memoryd.operations.backup import create_backups
from memoryd.operations.restore import restore
from memoryd.operations.upkeep import archive, enforce_limits
from tests.layouts.samples import learning, line, lines, memory, task, uuid
from tests.operations.conftest import MakeWorld
from tests.operations.world import CORE, LEARNINGS, LIVE, TASKS, World


def append_memory(native: dict[str, Any], filepath: Path) -> None:
    """Append as published: lock, minify, append with a newline, unlock, remove the lock."""
    lock = (filepath.parent / ".lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    json_line = json.dumps(native, separators=(",", ":"))
    with filepath.open("a", encoding="utf-8") as file:
        file.write(json_line + "\n")
    fcntl.flock(lock, fcntl.LOCK_UN)
    lock.close()
    os.remove(filepath.parent / ".lock")


def read_memories(filepath: Path) -> list[dict[str, Any]]:
    """Read as published, except that a bad line is an error."""
    with filepath.open(encoding="utf-8") as file:
        return [json.loads(text) for text in file]


def archived(world: World) -> None:
    archive(world.store, world.now, by="schedule")


def limited(world: World) -> None:
    enforce_limits(world.store, world.now, by="schedule")


def named(world: World) -> None:
    archive(world.store, world.now, by="command", ids=[uuid(1), uuid(11), uuid(21)])


def restored(world: World) -> None:
    create_backups(world.store, world.now)
    for name in LIVE:
        world.write(name, b"{broken")
        restore(world.store, world.now + 60, file=name)


@pytest.mark.parametrize("rewrite", [archived, limited, named, restored])
@pytest.mark.parametrize("end", [b"\n", b""])
def test_an_append_after_each_rewrite_adds_one_line_and_all_parse(
    make_world: MakeWorld, rewrite: Callable[[World], None], end: bytes
) -> None:
    """A file left without a final newline would glue the next memory to the last one."""
    soft = Limit(LimitKind.SOFT, None, 1)
    world = make_world(Policy(limits=dict.fromkeys(LIVE, soft)))
    learned = [learning(n, "2025-07-01T00:00:00Z") for n in (10, 11)]
    ended = [task(n, "completed", "2025-07-01T00:00:00Z") for n in (20, 21)]
    world.write(CORE, lines(memory(1), learning(2, archived=True), learning(3)) + line(memory(4)) + end)
    world.write(LEARNINGS, lines(*learned) + line(learning(12)) + end)
    world.write(TASKS, lines(*ended) + line(task(22, "in-progress")) + end)
    world.look()
    before = {name: world.read(name) for name in LIVE}
    rewrite(world)
    rewritten = [name for name in world.memories() if rewrite is restored or world.read(name) != before.get(name)]
    assert {CORE, LEARNINGS, TASKS} <= set(rewritten)
    for number, name in enumerate(rewritten):
        count = len(read_memories(world.path(name)))
        append_memory(memory(800 + number), world.path(name))
        assert len(read_memories(world.path(name))) == count + 1
        assert world.read(name).count(b"\n") == count + 1
    world.sync()
    assert [each.code for each in world.store.catalogue.findings() if each.code != "wrong-type-for-file"] == []


def test_the_published_reader_reads_every_archive(world: World) -> None:
    world.write(LEARNINGS, lines(*(learning(n, f"2025-0{n}-01T00:00:00Z", content="é\u2028😀") for n in range(1, 10))))
    world.look()
    archive(world.store, world.now, by="schedule")
    kept = [each for name in world.names() if name.startswith("archive/") for each in read_memories(world.path(name))]
    assert sorted(each["id"] for each in kept) == [uuid(n) for n in range(1, 10)]
    assert all(each["archived"] is True for each in kept)
