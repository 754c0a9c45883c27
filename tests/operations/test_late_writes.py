"""A program that has a file open for days after memoryd replaced it: nothing that it writes is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memoryd.core.plan import Kind
from memoryd.disk.journal import Step
from memoryd.operations.upkeep import prune
from tests.layouts.test_markdown_topics import entry
from tests.operations.world import World

LATER_CHANGES = 250
LATE = entry("2025-01-20", "Late")


@contextmanager
def open_since_a_rewrite(base: Path, path: str) -> Iterator[World]:
    """A world where a program has this file open since memoryd rewrote it, many changes ago. It appends at the end of
    the block."""
    world = World(base, kind="markdown-topics")
    world.write(path, b"".join(entry(f"2025-01-{day:02}") for day in range(12, 0, -1)))
    world.sync()
    with world.path(path).open("ab", buffering=0) as agent:
        assert prune(world.store, world.now, by="schedule").receipt is not None
        for _ in range(LATER_CHANGES):
            step = Step(Kind.APPEND, "topic/other.md", before_size=0)
            world.store.journal.finish(world.store.journal.begin("add", "command", "", [step], world.now), "done")
        yield world
        agent.write(LATE)


@pytest.mark.parametrize("length", [9, 252], ids=["short name", "longest name"])
def test_a_late_append_is_merged_after_a_kill(tmp_path: Path, length: int) -> None:
    path = f"topic/{'x' * length}.md"
    with open_since_a_rewrite(tmp_path, path) as world:
        world.kill()
    world.rise()
    assert world.path(path).read_bytes().endswith(LATE)
    assert world.temps() == []
    world.store.close()


def test_a_late_append_is_in_quarantine_where_the_journal_has_dropped_the_rewrite(tmp_path: Path) -> None:
    with open_since_a_rewrite(tmp_path, "topic/a.md") as world:
        world.store.journal.prune(keep=0)
        world.kill()
    messages = world.rise()
    [kept] = world.store.journal.quarantine.entries()
    assert (kept.file, kept.reason) == ("topic/a.md", "replaced by a change that is long past")
    assert world.store.blobs.get(kept.blob).endswith(LATE)
    assert [message.endswith("its content is in quarantine") for message in messages] == [True]
    assert world.temps() == []
    world.store.close()


def test_a_late_append_is_merged_where_the_journal_has_dropped_the_rewrite(tmp_path: Path) -> None:
    with open_since_a_rewrite(tmp_path, "topic/a.md") as world:
        world.store.journal.prune(keep=0)
    assert world.store.late_writes.merge(world.store.tree, world.now) == len(LATE)
    assert world.path("topic/a.md").read_bytes().endswith(LATE)
    world.store.close()
