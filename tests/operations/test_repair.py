"""Repair makes exact edits, quarantines the original, can be undone, and stops if it is undone repeatedly."""

from __future__ import annotations

from pathlib import Path

import pytest

from memoryd.core.plan import Kind
from memoryd.errors import UsageError
from memoryd.operations.backup import create_backups
from memoryd.operations.check import check
from memoryd.operations.repair import repair
from memoryd.operations.undo import undo
from memoryd.operations.upkeep import archive, dedupe
from tests.layouts.samples import learning, line, lines
from tests.layouts.session_samples import memory, session, text
from tests.operations.world import LEARNINGS, World

GLUED = b'{"content":"no id","odd": 1.50}'


def glued(world: World) -> bytes:
    """Two memories on one line, one without an id, and an unreadable line."""
    first, second = line(learning(1)), line(learning(2))
    data = first + second + b"\n" + GLUED + b"\nnot json at all\n"
    (world.root / LEARNINGS).write_bytes(data)
    world.sync()
    return data


def codes(world: World) -> set[str]:
    world.look(verify=True)
    return {finding.code for finding in check(world.store, world.now)}


def test_fixable_findings_disappear_and_the_rest_stays(world: World) -> None:
    glued(world)
    assert {"joined-lines", "missing-id", "invalid-json"} <= codes(world)
    done = repair(world.store, world.now)
    assert done.receipt is not None
    left = codes(world)
    assert not {"joined-lines", "missing-id", "corrected-schema"} & left
    assert "invalid-json" in left
    after = (world.root / LEARNINGS).read_bytes()
    assert b"not json at all\n" in after
    assert b'"odd": 1.50' in after


def test_a_second_repair_finds_nothing(world: World) -> None:
    glued(world)
    repair(world.store, world.now)
    world.sync()
    before = (world.root / LEARNINGS).stat()
    assert repair(world.store, world.now).receipt is None
    assert (world.root / LEARNINGS).stat() == before


def test_the_original_is_in_quarantine_and_comes_back_by_undo(world: World) -> None:
    data = glued(world)
    done = repair(world.store, world.now)
    assert done.receipt is not None
    kept = [row.sha256 for row in world.store.journal.quarantine.entries()]
    assert world.store.blobs.get(kept[0]) == data
    undo(world.store, done.receipt, world.now)
    assert (world.root / LEARNINGS).read_bytes() == data


def test_a_dry_run_quarantines_and_changes_nothing(world: World) -> None:
    data = glued(world)
    done = repair(world.store, world.now, dry_run=True)
    assert done.plan
    assert done.receipt is None
    assert (world.root / LEARNINGS).read_bytes() == data
    assert world.store.journal.quarantine.entries() == []


def test_only_the_named_code_is_repaired(world: World) -> None:
    glued(world)
    repair(world.store, world.now, codes=["joined-lines"])
    left = codes(world)
    assert "joined-lines" not in left
    assert "missing-id" in left


def test_the_same_repair_is_made_three_times_at_most(world: World) -> None:
    """A program that keeps restoring the damage must not cause endless repairs."""
    data = glued(world)
    for _ in range(3):
        assert repair(world.store, world.now).receipt is not None
        (world.root / LEARNINGS).write_bytes(data)
        world.sync()
    assert repair(world.store, world.now).receipt is None
    assert "repair-given-up" in codes(world)
    assert (world.root / LEARNINGS).read_bytes() == data


def test_an_unknown_code_is_refused(world: World) -> None:
    with pytest.raises(UsageError, match="no such finding code"):
        repair(world.store, world.now, codes=["nonsense"])


def test_a_corrupt_file_recovers_memories_from_its_backup(world: World) -> None:
    """Current valid lines win; missing memories that are not archived are appended, and only on request."""
    path = world.root / LEARNINGS
    natives = [learning(number) for number in (1, 2, 3)]
    old = [line(native) for native in natives]
    path.write_bytes(lines(*natives))
    world.sync()
    create_backups(world.store, world.now)
    today = line(learning(2, content="changed since"))
    path.write_bytes(today + b"\n" + b"\xff\xfe\n" * 5)
    world.sync()
    assert "corrupt-file" in codes(world)
    repair(world.store, world.now)
    assert old[0] not in path.read_bytes()
    done = repair(world.store, world.now, codes=["corrupt-file"])
    assert done.receipt is not None
    found = path.read_bytes().split(b"\n")
    assert found[0] == today
    assert {old[0], old[2]} <= set(found)
    assert old[1] not in found


def test_equal_duplicates_are_removed_and_differing_ones_reported(world: World) -> None:
    path = world.root / LEARNINGS
    read_since = learning(1, access_count=99, accessed_at="2026-01-02T00:00:00Z")
    other = learning(1, content="something else")
    path.write_bytes(lines(learning(1), read_since, other))
    world.sync()
    done = dedupe(world.store, world.now, by="command")
    assert path.read_bytes() == lines(learning(1), other)
    assert [note.kind for note in done.plan.notes] == ["note"]
    assert dedupe(world.store, world.now, by="command").receipt is None


def test_an_unreadable_file_is_not_replaced_by_a_backup_that_is_as_unreadable(tmp_path: Path) -> None:
    world = World(tmp_path, kind="session-files")
    path = "2026-01-30/14-30-00-fix-bug.json"
    try:
        whole = text(session(memory()))
        for size in (90, 40):
            world.write(path, whole[:size])
            world.look()
            create_backups(world.store, world.now)
        world.write(path, whole[:90])
        world.look()
        assert "broken-session" in codes(world)
        [action] = repair(world.store, world.now, codes=["broken-session"], dry_run=True).plan.actions
        assert action.kind is Kind.REMOVE, "to quarantine, as without any backup"
    finally:
        world.store.close()


@pytest.mark.parametrize("damage", [b"garbage\n", b"garbage", b"\0" * 4096, b"\0" * 64 + line(learning(1))[:40]])
def test_a_file_left_with_one_unreadable_line_is_recovered(damage: bytes, world: World) -> None:
    """Also after a repair that removed all that was left of it."""
    world.write(LEARNINGS, lines(learning(1), learning(2)))
    world.sync()
    create_backups(world.store, world.now)
    for repairs_first in (False, True):
        world.write(LEARNINGS, damage)
        world.sync()
        create_backups(world.store, world.now + 60)
        assert "corrupt-file" in codes(world)
        if repairs_first:
            repair(world.store, world.now)
            world.sync()
        damaged = codes(world) & {"corrupt-file", "emptied-file"}
        assert len(damaged) == 1
        assert repair(world.store, world.now, codes=damaged).receipt is not None
        world.sync()
        assert world.index()["statistics"]["total_memories"] == 2


def test_a_new_file_with_one_broken_line_has_lost_nothing(world: World) -> None:
    world.write(LEARNINGS, b"garbage\n")
    world.sync()
    create_backups(world.store, world.now)
    assert codes(world) == {"invalid-json"}


def test_an_unreadable_line_left_by_the_archive_is_no_corruption(world: World) -> None:
    world.write(LEARNINGS, lines(learning(1)) + b"garbage\n")
    world.sync()
    create_backups(world.store, world.now)
    archive(world.store, world.now, by="command", ids=[learning(1)["id"]])
    world.sync()
    assert world.read(LEARNINGS) == b"garbage\n"
    assert "corrupt-file" not in codes(world)
