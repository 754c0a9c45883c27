"""A start that finds the index files as they were left renders nothing, and never trusts what it may not trust."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from memoryd.core.records import Entry
from memoryd.errors import BusyError
from memoryd.operations.index_files import update_index
from memoryd.operations.refresh import refresh
from tests.layouts.samples import learning, lines
from tests.operations.world import LEARNINGS, World

INDEX = "index.json"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.write(LEARNINGS, lines(learning(1), learning(2)))
    assert made.sync().written == (INDEX,)
    yield made
    made.store.close()


def renders(world: World, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often the entries of the index are read for one look at everything."""
    entries, calls = world.store.catalogue.entries, list[Sequence[str]]()

    def count(paths: Sequence[str]) -> Iterator[Entry]:
        calls.append(paths)
        return entries(paths)

    with monkeypatch.context() as patch:
        patch.setattr(world.store.catalogue, "entries", count)
        world.look()
        update_index(world.store, world.now)
    return len(calls)


def listed(world: World) -> bytes:
    return world.path(INDEX).read_bytes()


def test_after_an_orderly_end_nothing_is_rendered(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    before = world.store.index.result
    for _ in range(2):
        world.restart()
        assert renders(world, monkeypatch) == 0
        found = world.store.index.result
        assert (found.memories, found.archived, found.by_type) == (2, before.archived, before.by_type)


def test_after_an_orderly_end_an_index_of_memoryd_is_not_backed_up(world: World) -> None:
    world.restart()
    change_a_file(world)
    assert world.sync().written == (INDEX,)
    assert world.store.vault.versions(INDEX) == []
    world.restart()
    world.write(INDEX, listed(world).replace(b"learning", b"teaching"), age=60)
    assert world.sync().written == (INDEX,)
    assert len(world.store.vault.versions(INDEX)) == 1, "another program changed it since"


def test_headings_that_memoryd_wrote_need_no_render(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, kind="markdown-topics")
    world.write("tools/git.md", b"# Git\n\ntext\n")
    world.sync()
    assert world.store.index.result.next_state == {"headings": ["Tools"]}
    world.restart()
    assert renders(world, monkeypatch) == 0
    world.path("tools/git.md").unlink()
    world.now += 60
    world.sync()
    assert b"Tools" not in world.read("index.md"), "they are known all the same"
    world.store.close()


@pytest.mark.parametrize(
    ("version", "told"), [(b'"0.9.0"', "its version was 0.9.0;"), (b"null", "its version was unreadable;"), (None, "")]
)
def test_an_index_of_another_version_is_kept_rebuilt_and_logged(
    world: World, monkeypatch: pytest.MonkeyPatch, version: bytes | None, told: str
) -> None:
    lines_logged: list[str] = []
    monkeypatch.setattr(
        "memoryd.operations.index_files.log.info", lambda event, **rest: lines_logged.append(rest["why"])
    )
    good = listed(world)
    old = good.replace(b'"1.0.0"', version) if version else good.replace(b"learning", b"teaching")
    world.write(INDEX, old, age=60)
    world.now += 60
    assert world.sync().written == (INDEX,)
    assert world.index()["version"] == "1.0.0"
    assert [world.store.vault.content(each) for each in world.store.vault.versions(INDEX)] == [old]
    assert [each.partition(" `")[0] for each in lines_logged] == ([told] if told else [])
    world.now += 60
    assert world.sync().written == ()
    assert len(lines_logged) == bool(told), "once"


def test_a_generated_heading_goes_also_where_the_write_is_delayed(tmp_path: Path) -> None:
    world = World(tmp_path, kind="markdown-topics")
    world.write("tools/git.md", b"# Git\n\ntext\n")
    world.sync()
    before = world.read("index.md")
    world.write("zoo/x.md", b"# Zebra\n\ntext\n")
    world.sync()
    world.path("zoo/x.md").unlink()
    world.look()

    def fail() -> None:
        raise BusyError("later")

    with pytest.raises(BusyError):
        update_index(world.store, world.now, force=True, before_write=fail)
    world.sync()
    assert world.read("index.md") == before
    world.store.close()


def change_a_file(world: World) -> None:
    world.write(LEARNINGS, lines(learning(1), learning(2), learning(3)))


def remove_the_index(world: World) -> None:
    world.path(INDEX).unlink()


def spoil_the_index(world: World) -> None:
    world.write(INDEX, listed(world).replace(b"learning", b"teaching"))


def change_the_catalogue(world: World) -> None:
    """As `memoryd dedupe --dry-run` does in a process of its own, which writes no index."""
    change_a_file(world)
    store = world.open()
    refresh(store, None, world.now)
    store.close()


@pytest.mark.parametrize("happens", [change_a_file, remove_the_index, spoil_the_index, change_the_catalogue])
def test_what_changes_meanwhile_is_noticed(
    world: World, monkeypatch: pytest.MonkeyPatch, happens: Callable[[World], None]
) -> None:
    world.store.close()
    happens(world)
    world.rise()
    assert renders(world, monkeypatch) == 1
    world.now += 120
    world.sync()
    kept = listed(world)
    world.store.catalogue.clear()
    world.store.index.dirty = True
    world.sync()
    assert listed(world) == kept, "an index made from nothing is the same"


def test_after_a_crash_or_under_other_rules_it_is_rendered(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.kill()
    world.rise()
    assert renders(world, monkeypatch) == 1
    world.policy = replace(world.policy, newer_index="rebuild")
    world.restart()
    assert renders(world, monkeypatch) == 1


def test_an_index_that_was_not_written_is_not_taken_for_current(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    change_a_file(world)
    world.look()
    world.restart()
    assert renders(world, monkeypatch) == 1
