"""Memories with the same id: each has a unique id that is printed and accepted; the id itself is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memoryd.core.query import Filters
from memoryd.errors import ConflictError, NotFoundError
from memoryd.layouts.protocol import Located
from memoryd.operations import lookup, memories
from memoryd.operations.listing import list_memories
from memoryd.operations.lookup import MAX_CANDIDATES, find_live, read_memory
from memoryd.operations.memories import Context
from memoryd.operations.search import SearchQuery, search, similar_to_memory
from memoryd.operations.search_scope import SearchRoot
from memoryd.operations.undo import undo
from memoryd.operations.upkeep import archive
from tests.layouts import json_samples
from tests.layouts.samples import learning, line, lines, memory, uuid
from tests.operations.world import CORE, LEARNINGS, World

ARCHIVE = "archive/2026/learnings_2026_Q1.jsonl"
ALPHA, OMEGA = learning(1, content="the alpha"), learning(1, content="the omega")


@pytest.fixture
def lines_of_one_id(world: World) -> World:
    world.write(LEARNINGS, lines(learning(2), ALPHA, OMEGA))
    world.look()
    return world


def roots(world: World) -> list[SearchRoot]:
    return [SearchRoot(world.store.name, world.store.catalogue, world.kind, "ok", 1, 0)]


def printed(world: World, word: str, *, archived: bool = False) -> str:
    """Return the id that a search prints for the only memory with this word."""
    request = SearchQuery(word, Filters(archived=archived), "text")
    [hit] = search(roots(world), request, now=world.now, clock=lambda: 0.0).hits
    return hit.id


def listed(world: World, limit: int = 50) -> list[str]:
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = list_memories(roots(world), Filters(archived=True), limit=limit, cursor=cursor)
        found += [each.id for each in page.memories]
        if not isinstance(page.next_cursor, str):
            return sorted(found)
        cursor = page.next_cursor


def content(world: World, identity: str) -> Any:
    found = read_memory(world.store, identity, world.now)
    assert found is not None
    return found.native["content"]


def contents(world: World, path: str) -> list[str]:
    return [json.loads(each)["content"] for each in world.read(path).splitlines()]


Act = Callable[[World, str], object]
ACTS: dict[str, Act] = {
    "get": lambda world, each: read_memory(world.store, each, world.now),
    "update": lambda world, each: memories.update(world.store, each, {"content": "new"}, world.now, Context()),
    "forget": lambda world, each: memories.forget(world.store, each, world.now, Context()),
    "archive": lambda world, each: archive(world.store, world.now, by="command", ids=[each]),
    "unarchive": lambda world, each: memories.unarchive(world.store, each, world.now, Context()),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("path", [LEARNINGS, CORE, ARCHIVE])
def test_the_id_of_several_memories_is_refused_with_those_that_are_accepted(world: World, act: str, path: str) -> None:
    if path == LEARNINGS:
        world.write(LEARNINGS, lines(ALPHA, OMEGA))
    else:
        world.write(LEARNINGS, lines(ALPHA))
        world.write(path, lines({**OMEGA, "archived": path == ARCHIVE}))
    world.look()
    before = world.memories()
    with pytest.raises(ConflictError) as refused:
        ACTS[act](world, uuid(1))
    assert world.memories() == before
    ids = sorted(each["id"] for each in refused.value.data["candidates"])
    assert ids == sorted([printed(world, "alpha", archived=True), printed(world, "omega", archived=True)])
    assert ids == listed(world) == listed(world, limit=1)
    assert [content(world, printed(world, word, archived=True)) for word in ("alpha", "omega")] == [
        "the alpha",
        "the omega",
    ]


def test_the_ids_do_not_depend_on_the_place(lines_of_one_id: World) -> None:
    world = lines_of_one_id
    before = listed(world)
    world.write(LEARNINGS, lines({**OMEGA, "access_count": 9}, learning(2)))
    world.write(CORE, lines(ALPHA))
    world.look()
    assert listed(world) == before == sorted([uuid(2), printed(world, "alpha"), printed(world, "omega")])


def test_an_update_changes_the_memory_named_and_returns_its_new_id(lines_of_one_id: World) -> None:
    world = lines_of_one_id
    done = memories.update(world.store, printed(world, "omega"), {"content": "the zulu"}, world.now, Context())
    world.look()
    assert contents(world, LEARNINGS) == ["memory number 2", "the alpha", "the zulu"]
    assert done.id == printed(world, "zulu")


@pytest.mark.parametrize("leave", ["forget", "archive"])
@pytest.mark.parametrize(("gone", "left"), [("alpha", "omega"), ("omega", "alpha")])
def test_only_the_memory_named_leaves_and_comes_back(lines_of_one_id: World, leave: str, gone: str, left: str) -> None:
    world = lines_of_one_id
    identity, other, before = printed(world, gone), printed(world, left), world.read(LEARNINGS)
    done: Any = ACTS[leave](world, identity)
    world.look()
    assert contents(world, LEARNINGS) == ["memory number 2", f"the {left}"]
    assert contents(world, ARCHIVE) == [f"the {gone}"]
    assert (printed(world, gone, archived=True), printed(world, left)) == (identity, other)
    assert getattr(done, "id", identity) == identity
    back = memories.unarchive(world.store, identity, world.now, Context())
    world.look()
    assert back.id == identity
    assert contents(world, LEARNINGS) == ["memory number 2", f"the {left}", f"the {gone}"]
    undo(world.store, str(back.receipt), world.now)
    undo(world.store, str(done.receipt), world.now)
    assert world.read(LEARNINGS) == before


def test_the_last_one_with_the_id_keeps_its_printed_id_and_gets_the_short_one(lines_of_one_id: World) -> None:
    world = lines_of_one_id
    identity = printed(world, "omega")
    world.write(LEARNINGS, lines(learning(2), OMEGA))
    world.look()
    assert printed(world, "omega") == uuid(1)
    assert content(world, uuid(1)) == content(world, identity) == "the omega"
    assert archive(world.store, world.now, by="command", ids=[identity]).receipt is not None
    with pytest.raises(NotFoundError):
        archive(world.store, world.now, by="command", ids=[f"{uuid(1)}~000000"])


def test_equal_memories_are_numbered(world: World) -> None:
    world.write(LEARNINGS, lines(ALPHA, learning(2), ALPHA))
    world.look()
    first, second = [each for each in listed(world) if each != uuid(2)]
    assert second == f"{first}.2"
    assert [found(world, each).line for each in (first, second)] == [1, 3]
    memories.forget(world.store, second, world.now, Context())
    assert world.read(LEARNINGS) == lines(ALPHA, learning(2))


def found(world: World, identity: str) -> lookup.LoadedMemory:
    memory_found = read_memory(world.store, identity, world.now)
    assert memory_found is not None
    return memory_found


def test_the_same_memory_in_the_archive_is_no_other_one(world: World) -> None:
    """As after a crash between the copy and the removal."""
    world.write(LEARNINGS, lines(ALPHA))
    world.write(ARCHIVE, lines({**ALPHA, "archived": True}))
    world.look()
    assert listed(world) == [uuid(1), uuid(1)]
    assert not found(world, uuid(1)).archived
    memories.forget(world.store, uuid(1), world.now, Context())
    assert (world.read(LEARNINGS), contents(world, ARCHIVE)) == (b"", ["the alpha"])


def test_another_memory_that_took_the_place_is_never_changed(lines_of_one_id: World) -> None:
    """The file changed and the index does not know it yet."""
    world = lines_of_one_id
    identity = printed(world, "omega")
    world.write(LEARNINGS, lines(learning(2), OMEGA, ALPHA))
    located: Located = find_live(world.store, identity, world.now)
    assert located.record.text == "the omega"
    assert content(world, identity) == "the omega"
    world.write(LEARNINGS, lines(learning(2), ALPHA))
    with pytest.raises(NotFoundError):
        find_live(world.store, identity, world.now)
    assert read_memory(world.store, identity, world.now) is None


def test_a_line_in_the_place_of_another_of_equal_length_is_not_read_for_it(world: World) -> None:
    world.write(CORE, lines(memory(1, content="one"), memory(1, content="two")))
    world.look()
    identity = printed(world, "one")
    world.write(CORE, lines(memory(1, content="two"), memory(1, content="one")), age=0.0)
    assert content(world, identity) == "one"


def test_a_read_of_one_of_several_is_not_counted_for_another(lines_of_one_id: World) -> None:
    world = lines_of_one_id
    assert found(world, printed(world, "omega")).record_id == ""
    assert found(world, uuid(2)).record_id == uuid(2)


@pytest.mark.parametrize("act", ["get", "update", "forget", "archive"])
def test_copied_files(tmp_path: Path, act: str) -> None:
    world = World(tmp_path, kind="json-files")
    native = json_samples.memory(1)
    names = [json_samples.name(1), json_samples.name(2)]
    for path, text in zip(names, ("the alpha", "the omega"), strict=True):
        world.write(path, json_samples.pretty({**native, "content": text, "summary": text}))
    world.sync()
    before = world.memories()
    index = world.read("_index.json")
    with pytest.raises(ConflictError):
        ACTS[act](world, native["id"])
    assert world.memories() == before
    identity = printed(world, "omega")
    assert found(world, identity).path == names[1]
    ACTS[act](world, identity)
    assert world.read(names[0]) == before[names[0]][0]
    assert (world.read(names[1]) == before[names[1]][0]) == (act == "get")
    assert index == world.read("_index.json")
    assert json.loads(world.read(names[1]))["id"] == native["id"]
    world.store.close()


def test_many_memories_with_an_id_do_not_make_an_endless_error(world: World) -> None:
    world.write(LEARNINGS, lines(*(learning(1, content=f"number {n}") for n in range(MAX_CANDIDATES + 1))))
    world.look()
    with pytest.raises(ConflictError, match=f"{MAX_CANDIDATES + 1} memories") as refused:
        read_memory(world.store, uuid(1), world.now)
    assert len(refused.value.data["candidates"]) == MAX_CANDIDATES


def test_a_search_for_similar_memories_takes_the_ids_that_are_printed(lines_of_one_id: World) -> None:
    world = lines_of_one_id
    keys = [each.key for each in sorted(world.store.catalogue.places(uuid(1)))]
    world.store.catalogue.put_vectors("model", [(key, b"\0\0\x80?") for key in keys])
    assert similar_to_memory(roots(world), printed(world, "omega"), None)[1] == (world.store.name, keys[1])
    with pytest.raises(ConflictError):
        similar_to_memory(roots(world), uuid(1), None)


def test_the_line_of_a_forgotten_memory_is_the_one_named(lines_of_one_id: World) -> None:
    world = lines_of_one_id
    memories.forget(world.store, printed(world, "omega"), world.now, Context())
    assert world.read(LEARNINGS) == line(learning(2)) + b"\n" + line(ALPHA) + b"\n"
