"""Changes of memoryd to line-based files cost in proportion to the change, not to the file."""

from __future__ import annotations

import json

import pytest

from memoryd.core.plan import ANY_CONTENT, Action, Kind, Plan
from memoryd.core.spans import Edit, Span, sha256
from memoryd.operations.repair import repair
from memoryd.operations.undo import undo
from memoryd.store.commit import Origin, change
from memoryd.store.layout_views import IndexedFiles
from memoryd.store.pending_changes import PendingChanges
from tests.layouts.samples import line, lines, memory, uuid
from tests.operations.world import CORE, World, whole_reads


def add(world: World, number: int) -> str:
    def decide() -> Plan:
        data = lines(memory(number))
        return Plan((Action(Kind.APPEND, CORE, "stored", (uuid(number),), data=data, base=ANY_CONTENT),))

    done = change(world.store, Origin("add", "command"), decide, now=world.now)
    assert done.receipt is not None
    return done.receipt


def indexed_entries(world: World) -> list[tuple[object, ...]]:
    return [(e.path, e.line, e.id) for e in world.store.catalogue.entries([CORE])]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of the files that are fully read from here on."""
    return whole_reads(monkeypatch)


def test_the_second_append_reads_nothing_and_is_indexed_in_full(world: World, reads: list[str]) -> None:
    world.write(CORE, lines(memory(1)))
    world.look()
    add(world, 2)
    world.look([CORE])
    reads.clear()
    add(world, 3)
    world.look([CORE])
    assert reads == []
    assert world.read(CORE) == lines(memory(1), memory(2), memory(3))
    entries = indexed_entries(world)
    row = world.store.catalogue.file(CORE)
    world.store.catalogue.clear()
    world.look()
    assert indexed_entries(world) == entries
    again = world.store.catalogue.file(CORE)
    assert row is not None
    assert again is not None
    assert (row.digest, row.lines, row.records, row.units) == (again.digest, again.lines, again.records, again.units)


def test_a_line_without_its_newline_is_not_joined(world: World) -> None:
    world.write(CORE, lines(memory(1)).rstrip(b"\n"))
    world.look()
    add(world, 2)
    world.look([CORE])
    assert world.read(CORE) == lines(memory(1), memory(2))
    assert [each[1] for each in indexed_entries(world)] == [1, 2]


def test_a_torn_last_line_is_not_joined_after_a_change_above_it(world: World) -> None:
    """memoryd knows the digest of what it wrote, which does not say how the file ends."""
    torn = line(memory(8))[:-20]
    world.write(CORE, lines(memory(1, updated_at=None), memory(2)) + torn)
    world.look()
    assert repair(world.store, world.now, codes=["corrected-schema"]).receipt is not None
    world.look()
    add(world, 3)
    world.look([CORE])
    assert world.read(CORE).splitlines()[2:] == [torn, line(memory(3))]
    assert [str(each[2]) for each in indexed_entries(world)] == [uuid(1), uuid(2), uuid(3)]


def test_a_foreign_write_between_two_changes_is_read(world: World) -> None:
    world.write(CORE, lines(memory(1)))
    world.look()
    add(world, 2)
    world.look([CORE])
    with (world.root / CORE).open("ab") as file:
        file.write(lines(memory(9)))
    add(world, 3)
    world.look([CORE])
    assert [str(each[2]) for each in indexed_entries(world)] == [uuid(n) for n in (1, 2, 9, 3)]


def test_an_own_change_is_read_once_more_whenever_it_is_indexed(world: World, reads: list[str]) -> None:
    """Another program may write in place right after it, with the same size and the same time stamp."""
    world.write(CORE, lines(memory(1)))
    world.look()
    add(world, 2)
    world.now += 10
    world.look([CORE])
    for wanted in ([CORE], []):
        reads.clear()
        world.now += 10
        world.look()
        assert reads == wanted


def test_a_missing_file_is_created(world: World) -> None:
    add(world, 1)
    assert world.read(CORE) == lines(memory(1))


def test_an_append_is_undone_if_nothing_follows_it(world: World) -> None:
    world.write(CORE, lines(memory(1)))
    world.look()
    add(world, 2)
    undo(world.store, add(world, 3), world.now)
    assert world.read(CORE) == lines(memory(1), memory(2))


def test_after_a_kill_an_append_is_complete_or_absent(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal is not synced before an append, which the file itself proves."""
    world.write(CORE, lines(memory(1)))
    world.look()

    def dies(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(world.store.journal, "finish", dies)
    with pytest.raises(KeyboardInterrupt):
        add(world, 2)
    world.kill()
    messages = world.rise()
    assert any("is now done" in each for each in messages)
    assert world.read(CORE) == lines(memory(1), memory(2))


def rewrite(world: World, *changes: tuple[bytes, bytes]) -> None:
    """Replace the first bytes of each pair by the second, in one change."""

    def decide() -> Plan:
        data = world.read(CORE)
        edits = tuple(Edit(Span(data.index(old), data.index(old) + len(old)), new) for old, new in changes)
        return Plan((Action(Kind.REWRITE, CORE, "changed", edits=edits, base=sha256(data)),))

    change(world.store, Origin("update", "command"), decide, now=world.now)


def indexed_state(world: World) -> list[object]:
    row = world.store.catalogue.file(CORE)
    assert row is not None
    with world.store.catalogue.reader() as reader:
        found = [place for each in reader.entries([CORE]) for place in reader.places(each.id)]
    places = [each._replace(recently_modified=False, key=0) for each in found]  # always set after a change of our own
    counts = (row.digest, row.lines, row.units, row.broken, row.records, row.ends_with_newline)
    return [counts, indexed_entries(world), places, world.store.catalogue.findings()]


BROKEN = b"{broken\n"
FIRST, SECOND, THIRD = (lines(memory(n)) for n in (1, 2, 3))


@pytest.mark.parametrize(
    ("content", "changes"),
    [
        (FIRST + SECOND + THIRD, [(SECOND, b"")]),
        (FIRST + SECOND + THIRD, [(SECOND, lines(memory(2, content="much longer than it was before"), memory(7)))]),
        (FIRST + BROKEN + SECOND + BROKEN, [(SECOND, b"")]),
        (FIRST + BROKEN + SECOND + BROKEN, [(BROKEN, b"")]),
        (FIRST + BROKEN + SECOND, [(b"{broken", b"")]),
        (FIRST + SECOND + THIRD, [(FIRST, b""), (THIRD, lines(memory(3, content="x")))]),
        (FIRST + SECOND + THIRD, [(SECOND + THIRD[:1], THIRD[:1])]),
        (FIRST + SECOND, [(FIRST + SECOND, b"")]),
        (FIRST + SECOND.rstrip(), [(b"}", b"} ")]),
        (FIRST + SECOND, [(FIRST[-2:] + SECOND[:1], b"}" + SECOND[:1])]),
    ],
)
def test_a_rewritten_line_is_indexed_as_if_the_whole_file_had_been_read(
    world: World, content: bytes, changes: list[tuple[bytes, bytes]]
) -> None:
    world.write(CORE, content)
    world.look()
    rewrite(world, *changes)
    world.look([CORE])
    partial = indexed_state(world)
    world.store.catalogue.clear()
    world.store.pending_changes = PendingChanges()
    world.look()
    assert partial == indexed_state(world)


def test_only_the_changed_line_is_parsed(world: World, parsed: list[bytes]) -> None:
    world.write(CORE, FIRST + SECOND + THIRD)
    world.look()
    rewrite(world, (b'"' + uuid(2).encode(), b'"' + uuid(5).encode()))
    parsed.clear()
    world.look([CORE])
    assert parsed == [SECOND, SECOND.replace(uuid(2).encode(), uuid(5).encode())]


def test_consecutive_appends_are_indexed_together(world: World, reads: list[str]) -> None:
    world.write(CORE, lines(memory(1)))
    world.look()
    add(world, 2)
    world.look([CORE])
    reads.clear()
    for number in range(3, 9):
        add(world, number)
    world.look([CORE])
    assert reads == []
    assert [str(each[2]) for each in indexed_entries(world)] == [uuid(number) for number in range(1, 9)]
    partial = indexed_state(world)
    world.store.catalogue.clear()
    world.store.pending_changes = PendingChanges()
    world.look()
    assert partial == indexed_state(world)


@pytest.mark.parametrize("where", [0, 1, 2, 3])
def test_a_foreign_write_among_pending_appends_is_read(world: World, where: int) -> None:
    world.write(CORE, lines(memory(1)))
    world.look()
    for number in range(3):
        if number == where:
            with (world.root / CORE).open("ab") as file:
                file.write(lines(memory(90)))
        add(world, 10 + number)
    if where == 3:
        with (world.root / CORE).open("ab") as file:
            file.write(lines(memory(90)))
    world.look([CORE])
    there = [f"{json.loads(line)['id']}" for line in world.read(CORE).splitlines()]
    assert [str(each[2]) for each in indexed_entries(world)] == there
    assert len(there) == 5


def test_an_update_among_pending_appends_is_read(world: World) -> None:
    world.write(CORE, lines(memory(1)))
    world.look()
    add(world, 2)
    rewrite(world, (b'"' + uuid(1).encode(), b'"' + uuid(5).encode()))
    add(world, 3)
    world.look([CORE])
    assert [str(each[2]) for each in indexed_entries(world)] == [uuid(number) for number in (5, 2, 3)]


def test_pending_appends_count_for_the_next_decision(world: World) -> None:
    world.write(CORE, lines(memory(1)))
    world.look()
    add(world, 2)
    world.look([CORE])
    before = IndexedFiles(world.store)[CORE]
    add(world, 3)
    add(world, 4)
    after = IndexedFiles(world.store)[CORE]
    assert after.records == before.records + 2
    assert after.size == len(world.read(CORE))
    world.look([CORE])
    assert IndexedFiles(world.store)[CORE] == after


def test_after_a_foreign_write_among_pending_appends_the_count_is_unknown(world: World) -> None:
    """A hard limit must not be decided on the last one alone."""
    world.write(CORE, lines(memory(1)))
    world.look()
    add(world, 2)
    assert world.store.pending_changes.pending_append(CORE) is not None
    with (world.root / CORE).open("ab") as file:
        file.write(lines(memory(90)))
    add(world, 3)
    assert world.store.pending_changes.pending_append(CORE) is None
    add(world, 4)
    assert world.store.pending_changes.pending_append(CORE) is None
    world.look([CORE])
    add(world, 5)
    assert world.store.pending_changes.pending_append(CORE) is not None
    assert IndexedFiles(world.store)[CORE].records == 6


def test_a_new_file_is_listed_until_it_is_deleted(world: World) -> None:
    add(world, 1)
    indexed_entries = IndexedFiles(world.store)
    assert CORE in indexed_entries
    assert (indexed_entries[CORE].records, [*indexed_entries]) == (0, [CORE])
    (world.root / CORE).unlink()
    world.look([CORE])
    assert CORE not in IndexedFiles(world.store)
    assert [*IndexedFiles(world.store)] == []
