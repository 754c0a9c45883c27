"""A memory that is live and archived at once is reported until one of the two is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from memoryd.core.findings import Finding
from memoryd.operations.check import all_findings, check
from memoryd.operations.refresh import refresh
from memoryd.operations.upkeep import archive
from tests.layouts import session_samples
from tests.layouts.samples import learning, lines
from tests.layouts.test_markdown_topics import entry
from tests.operations.world import LEARNINGS, World

SESSION = session_samples.session(session_samples.memory("Kept"), session_samples.memory("Moved"))
FILES = {
    "jsonl-store": (LEARNINGS, lines(learning(1), learning(2))),
    "markdown-topics": ("a/b.md", b"# B\n\n" + entry("2026-01-30", "Kept") + entry("2026-01-29", "Moved")),
    "session-files": ("2026-01-30/14-30-00-fix-bug.json", session_samples.text(SESSION)),
}


def twice(world: World) -> list[Finding]:
    """Return what is reported without a further check."""
    return [each for each in all_findings(world.store) if each.code == "also-archived"]


@pytest.mark.parametrize("layout", FILES)
def test_a_live_file_that_came_back_is_reported_until_it_is_archived_again(layout: str, tmp_path: Path) -> None:
    path, content = FILES[layout]
    world = World(tmp_path, kind=layout)
    world.write(path, content)
    world.sync()
    moved = [each.id for each in world.store.catalogue.entries([path])][1]
    archive(world.store, world.now, by="command", ids=[moved])
    world.sync()
    assert twice(world) == []
    archived = {name: world.read(name) for name in world.names() if name.startswith("archive/")}
    world.write(path, content)
    world.look()
    [finding] = twice(world)
    assert (finding.path, finding.id) == (path, moved)
    assert finding in check(world.store, world.now)
    world.restart()
    world.look()
    assert twice(world) == [finding], "also after a restart that finds nothing changed"
    archive(world.store, world.now, by="command", ids=[moved])
    world.look()
    assert twice(world) == []
    assert {name: world.read(name) for name in archived} == archived, "no second copy"
    world.store.close()


def test_the_report_ends_with_the_live_memory(tmp_path: Path) -> None:
    path, content = FILES["jsonl-store"]
    world = World(tmp_path)
    world.write(path, content)
    world.sync()
    moved = [each.id for each in world.store.catalogue.entries([path])][1]
    archive(world.store, world.now, by="command", ids=[moved])
    world.write(path, content)
    world.look()
    assert [each.id for each in twice(world)] == [moved]
    world.write(path, lines(learning(1)))
    refresh(world.store, [path], world.now)
    assert twice(world) == []
    world.store.close()
