"""Only the lines of one memory are parsed, and decisions are those that the whole file would have led to."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memoryd.core.spans import sha256
from memoryd.disk import atomic
from memoryd.disk.syscalls import ChangingError
from memoryd.errors import MemorydError, UsageError
from memoryd.layouts.protocol import AccessCount
from memoryd.operations import memories
from memoryd.operations.access_counts import count_reads
from memoryd.operations.lookup import find_archived, find_live
from memoryd.operations.memories import Context
from memoryd.operations.upkeep import archive
from memoryd.store import store as whole_store
from memoryd.store.layout_views import upkeep_view, write_view
from tests.examples import examples
from tests.layouts.samples import learning, line, lines, uuid
from tests.operations.world import LEARNINGS, World

ARCHIVE = "archive/2026/learnings_2026_Q1.jsonl"
FIRST, SECOND, THIRD = (lines(learning(number)) for number in (1, 2, 3))

IDS = [*map(uuid, range(1, 5)), "ä", "no uuid"]
NATIVES = st.builds(
    lambda fields, more: {**learning(1), **fields, **more},
    st.fixed_dictionaries(
        {
            "id": st.sampled_from(IDS),
            "content": st.sampled_from(["a", "b", "ö\n\u2028"]),
            "archived": st.booleans(),
        }
    ),
    st.sampled_from([{}, {"created_at": None}, {"content": ""}, {"id": None}, {"importance": "huge", "x": {"y": []}}]),
)
MEMORY = st.builds(lambda native, raw: json.dumps(native, ensure_ascii=raw).encode(), NATIVES, st.booleans())
ODD = st.sampled_from(
    [b"", b" \t", b"{broken", b"[1]", b"\xff\xfe", b"\0\0", b'{"id":', b'{"id":"a"}', b"{}", FIRST[:-1], FIRST[:-9]]
)
PIECE = st.one_of(MEMORY, MEMORY, MEMORY, ODD, st.builds(lambda one, other: one + b" " + other, MEMORY, MEMORY))
LINE = st.builds(
    lambda before, piece, after: before + piece + after,
    st.sampled_from([b"", b"", b"", b"\xef\xbb\xbf", b"\0\0", b"  "]),
    PIECE,
    st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b" \n", b"\n\n"]),
)
CONTENT = st.builds(
    lambda bom, all_lines, tail: bom + b"".join(all_lines) + tail,
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.lists(LINE, min_size=1, max_size=6),
    st.one_of(st.just(b""), PIECE),
)


def same(content: bytes) -> bytes:
    return content


# Changes to the file since it was indexed.
SINCE: st.SearchStrategy[Callable[[bytes], bytes]] = st.one_of(
    st.just(same),
    st.builds(lambda tail: lambda content: content + tail, CONTENT),
    st.builds(lambda head: lambda content: head + content, LINE),
    st.builds(lambda there: lambda _: there, CONTENT),
    st.just(lambda content: content.replace(b'"a"', b'"b"').replace(uuid(1).encode(), uuid(2).encode())),
    st.just(lambda content: content[: len(content) // 2]),
)


@contextmanager
def parsed_whole() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whole_store, "partial_parse", lambda *_: None)
        yield


def decisions(world: World, identity: str) -> list[object]:
    """Return all decisions about one memory, each as the plan or the refusal."""
    store, now = world.store, world.now
    layout, view = store.known_layout, write_view(store, now, number=1)
    touches = {identity: AccessCount(2, now), uuid(1): AccessCount(1, now)}

    def unarchived() -> object:
        found = find_archived(store, identity, now)
        return layout.require_writer().unarchive(view, found) if found is not None else None

    def touched(path: str) -> object:
        source = store.load(path, now, touches)
        assert source is not None
        return layout.require_writer().count_reads(path, source.loaded, touches)

    wanted: list[Callable[[], object]] = [
        lambda: find_live(store, identity, now).record,
        lambda: layout.require_writer().update(
            view, find_live(store, identity, now), {"importance": "low", "content": "c"}
        ),
        lambda: layout.require_writer().update(view, find_live(store, identity, now), {"content": "b"}),
        lambda: layout.require_writer().forget(view, find_live(store, identity, now)),
        lambda: (
            store.layout.upkeep.archive(upkeep_view(store, now, ids=[identity]), [identity]) if store.layout else None
        ),
        unarchived,
        lambda: touched(LEARNINGS),
    ]
    return [outcome_of(each) for each in wanted]


def outcome_of(act: Callable[[], object]) -> object:
    try:
        return act()
    except MemorydError as error:
        return type(error), error.message, error.data
    except ChangingError as error:
        return type(error), error.filename


@pytest.mark.slow
@settings(max_examples=examples(120), suppress_health_check=[HealthCheck.function_scoped_fixture])  # a store for each
@given(st.data())
def test_decisions_equal_those_from_the_whole_file(quick_path: Path, data: st.DataObject) -> None:
    """Also if others wrote since, if ids are equal, and if lines are broken, joined, unfinished or odd."""
    world = World(quick_path / os.urandom(8).hex())
    try:
        world.write(LEARNINGS, data.draw(CONTENT), age=data.draw(st.sampled_from([0.0, 3600.0])))
        world.write(ARCHIVE, data.draw(CONTENT))
        world.look()
        for path in (LEARNINGS, ARCHIVE):
            world.write(path, data.draw(SINCE)(world.read(path)), age=data.draw(st.sampled_from([0.0, 3600.0])))
        for identity in IDS:
            short = decisions(world, identity)
            with parsed_whole():
                assert short == decisions(world, identity)
    finally:
        world.store.close()


# --- only part of the file is parsed


def forget(world: World, number: int) -> None:
    memories.forget(world.store, uuid(number), world.now, Context())


CHANGES: dict[str, Callable[[World], object]] = {
    "update": lambda world: memories.update(world.store, uuid(2), {"importance": "low"}, world.now, Context()),
    "forget": lambda world: forget(world, 2),
    "archive": lambda world: archive(world.store, world.now, by="command", ids=[uuid(2)]),
    "touch": lambda world: count_reads(world.store, LEARNINGS, {uuid(2): AccessCount(1, world.now)}, world.now),
}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("age", [0.0, 3600.0])
def test_one_line_alone_is_parsed(world: World, parsed: list[bytes], what: str, age: float) -> None:
    world.write(LEARNINGS, FIRST + SECOND + THIRD, age=age)
    world.look()
    parsed.clear()
    CHANGES[what](world)
    assert set(parsed) == {SECOND}
    assert SECOND not in world.read(LEARNINGS)


@pytest.mark.parametrize("what", CHANGES)
def test_lines_appended_since_are_parsed_too(world: World, parsed: list[bytes], what: str) -> None:
    world.write(LEARNINGS, FIRST + SECOND)
    world.look()
    world.append(LEARNINGS, learning(3))
    parsed.clear()
    CHANGES[what](world)
    assert parsed[:2] == [SECOND, THIRD]  # later ones are for the backup, which parses the whole file


def test_a_restored_memory_is_parsed_alone(world: World, parsed: list[bytes]) -> None:
    """In the archive, among the live ones, and once it is restored."""
    away = {number: line(learning(number, archived=True)) + b"\n" for number in (7, 8)}
    world.write(LEARNINGS, FIRST + SECOND)
    world.write(ARCHIVE, away[7] + away[8])
    world.look()
    parsed.clear()
    memories.unarchive(world.store, uuid(8), world.now, Context())
    assert set(parsed) == {away[8], lines(learning(8))}
    assert world.store.pinned() == {sha256(line(learning(8)))}


@pytest.mark.parametrize("what", CHANGES)
def test_after_an_unnoticed_change_the_whole_file_is_parsed(world: World, parsed: list[bytes], what: str) -> None:
    """The size and the stamps are as before, but the digest differs."""
    world.write(LEARNINGS, FIRST + SECOND + THIRD)
    world.look()
    stamps = world.path(LEARNINGS).stat()
    there = THIRD + SECOND + FIRST
    with world.path(LEARNINGS).open("r+b") as file:
        file.write(there)
    os.utime(world.path(LEARNINGS), ns=(stamps.st_atime_ns, stamps.st_mtime_ns))
    parsed.clear()
    CHANGES[what](world)
    assert there in parsed
    assert [json.loads(each)["id"] for each in world.read(LEARNINGS).splitlines() if uuid(2).encode() not in each] == [
        uuid(3),
        uuid(1),
    ]


def test_of_two_memories_with_an_id_the_one_named_leaves(world: World, parsed: list[bytes]) -> None:
    twin = lines(learning(1, content="another"))
    world.write(LEARNINGS, FIRST + SECOND + twin)
    world.look()
    [_, other] = sorted(world.store.catalogue.places(uuid(1)))
    parsed.clear()
    memories.forget(world.store, other.unique_id, world.now, Context())
    assert parsed == [FIRST, twin]
    assert world.read(LEARNINGS) == FIRST + SECOND
    assert [json.loads(each)["content"] for each in world.read(ARCHIVE).splitlines()] == ["another"]


def test_a_line_that_is_being_written_gets_no_newline_from_a_change_above_it(world: World, parsed: list[bytes]) -> None:
    world.write(LEARNINGS, FIRST + SECOND + THIRD[:20], age=0.0)
    world.look()
    parsed.clear()
    memories.update(world.store, uuid(1), {"importance": "low"}, world.now, Context())
    assert parsed[:2] == [FIRST, THIRD[:20]]
    assert world.read(LEARNINGS).endswith(SECOND + THIRD[:20])


@pytest.mark.parametrize("leave", ["forget", "archive"])
def test_a_line_that_is_being_written_gets_no_newline_when_one_above_it_leaves(world: World, leave: str) -> None:
    world.write(LEARNINGS, FIRST + SECOND + THIRD[:20], age=0.0)
    world.look()
    CHANGES[leave](world)
    assert world.read(LEARNINGS) == FIRST + THIRD[:20]


def test_a_file_that_is_not_line_based_is_parsed_whole(world: World, parsed: list[bytes]) -> None:
    world.write(LEARNINGS, FIRST + SECOND)
    world.look()
    parsed.clear()
    layout = world.store.layout
    assert layout is not None
    world.store.layout = replace(layout, files=replace(layout.files, append_only=False))
    find_live(world.store, uuid(2), world.now)
    assert parsed == [FIRST + SECOND]


def test_a_form_that_is_not_parsed_line_by_line_is_parsed_whole(world: World) -> None:
    """The document of the shipped server, which has one memory per line."""
    entries: list[dict[str, Any]] = [learning(1), learning(2, content="has\nlines")]
    text = b'{"core_memories": [],\n"tasks": [], "learnings": [\n' + b",\n".join(map(line, entries)) + b"\n]}\n"
    world.write("agent.json", text)
    world.look()
    source = world.store.load("agent.json", world.now, [uuid(2)])
    assert source is not None
    assert [each.id for each in source.loaded.document.records] == [uuid(1), uuid(2)]
    with pytest.raises(UsageError, match="is read-only"):
        find_live(world.store, uuid(2), world.now)


def test_a_write_in_place_within_one_tick_of_the_decision_is_not_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its stamps it is the file that was planned on, by the digest it is not."""
    world.write(LEARNINGS, FIRST + SECOND)
    world.look()
    theirs, real = FIRST + SECOND.replace(b"number 2", b"number 7"), atomic.replace

    def replace(*args: Any, **how: Any) -> atomic.ReplaceResult:
        stamps = world.path(LEARNINGS).stat()
        with world.path(LEARNINGS).open("r+b") as file:
            file.write(theirs)
        os.utime(world.path(LEARNINGS), ns=(stamps.st_atime_ns, stamps.st_mtime_ns))
        return real(*args, **how)

    monkeypatch.setattr(atomic, "replace", replace)
    memories.update(world.store, uuid(1), {"importance": "low"}, world.now, Context())
    world.settle()
    (kept,) = world.store.journal.quarantine.entries()
    assert world.store.blobs.get(kept.blob) == theirs
