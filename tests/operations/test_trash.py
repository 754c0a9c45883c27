"""Memories forgotten without an archive: each can be restored, even if another has its id since."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.disk.blobs import quarantine
from memoryd.disk.journal.backups import PART
from memoryd.errors import ConflictError, InvalidMemoryError, NotFoundError
from memoryd.layouts.protocol import NewMemory
from memoryd.operations import memories
from memoryd.operations.backup import list_backups
from memoryd.operations.memories import Context, Outcome
from memoryd.operations.refresh import refresh
from memoryd.operations.restore import restore
from memoryd.operations.undo import undo
from tests.operations.test_memory_deaths import CASES, LATER, Case, Site


@pytest.fixture
def site(quick_path: Path) -> Iterator[Site]:
    """A root of session files."""
    made = Site(quick_path, CASES[3])
    made.add(0)
    yield made
    made.kill()


def pool(site: Site, content: str) -> Outcome:
    """Store a memory whose id does not depend on its content."""
    native: dict[str, Any] = {**site.case.native(1), "title": "Pool", "content": content}
    return site.took(memories.add(site.store, NewMemory(native, site.case.where), LATER, Context()))


def forget(site: Site, identity: str) -> Outcome:
    return site.took(memories.forget(site.store, identity, LATER, Context()))


def unarchive(site: Site, identity: str) -> Outcome:
    return site.took(memories.unarchive(site.store, identity, LATER, Context()))


def content(site: Site) -> bytes:
    return b"".join(site.contents().values())


def test_two_memories_forgotten_under_one_id_are_both_restored(site: Site) -> None:
    one = forget(site, pool(site, "the first").id)
    other = forget(site, pool(site, "another").id)
    assert one.id == other.id
    with pytest.raises(ConflictError) as refused:
        unarchive(site, one.id)
    candidates = [each["id"] for each in refused.value.data["candidates"]]
    assert len(set(candidates)) == 2
    for identity in candidates:
        assert unarchive(site, identity).receipt is not None
    assert (content(site).count(b'"the first"'), content(site).count(b'"another"')) == (1, 1)
    with pytest.raises(NotFoundError):
        unarchive(site, candidates[0])


def test_a_new_memory_with_the_id_is_not_in_the_way(site: Site) -> None:
    gone = forget(site, pool(site, "the first").id)
    assert pool(site, "another").id == gone.id
    assert unarchive(site, gone.id).receipt is not None
    assert (content(site).count(b'"the first"'), content(site).count(b'"another"')) == (1, 1)


def test_a_memory_that_is_live_again_under_another_id_is_not_stored_twice(site: Site) -> None:
    """A backup of its file was restored, in which no other memory has its id."""
    first = pool(site, "the first")
    path = site.root / first.path
    before = path.read_bytes()
    pool(site, "another")
    suffixed, _ = [each.id for each in site.store.catalogue.entries([first.path]) if each.id.startswith(first.id)]
    forget(site, suffixed)
    assert b"the first" not in path.read_bytes()
    path.write_bytes(before)
    refresh(site.store, None, LATER)
    with pytest.raises(NotFoundError):
        unarchive(site, suffixed)
    assert path.read_bytes() == before


def test_an_undo_removes_the_memory_from_the_trash(site: Site) -> None:
    added = pool(site, "the first")
    undo(site.store, forget(site, added.id).receipt or "", LATER)
    site.took(added)
    with pytest.raises(NotFoundError):
        unarchive(site, added.id)
    changed = site.took(memories.update(site.store, added.id, {"reasoning": "r"}, LATER, Context()))
    forget(site, changed.id)
    assert unarchive(site, changed.id).receipt is not None
    assert content(site).count(b'"the first"') == 1


@pytest.mark.parametrize("case", [CASES[3], CASES[4]], ids=lambda case: case.layout)
def test_a_forgotten_memory_in_quarantine_is_added_to_its_file(case: Case, quick_path: Path) -> None:
    """It is not the content of the whole file: the other memories stay."""
    site = Site(quick_path, case)
    try:
        one, other = site.add(0), site.add(1)
        forget(site, other.id)
        [entry] = [each for each in list_backups(site.store, LATER) if each.id.startswith("q")]
        shown = restore(site.store, LATER, file=None, at=entry.id, dry_run=True)[1]
        assert "number 1" in shown.difference.text
        assert b"number 1" not in content(site)
        assert restore(site.store, LATER, file=None, at=entry.id)[0].receipt is not None
        assert (content(site).count(b'"number 0"'), content(site).count(b'"number 1"')) == (1, 1)
        refresh(site.store, None, LATER)
        assert {each.id for each in site.store.catalogue.entries([one.path])} == {one.id, other.id}
        assert not restore(site.store, LATER, file=None, at=entry.id)[0].plan.actions  # it is there already
    finally:
        site.kill()


@pytest.mark.parametrize("case", [CASES[3], CASES[4]], ids=lambda case: case.layout)
def test_several_memories_in_quarantine_do_not_replace_their_file(case: Case, quick_path: Path) -> None:
    site = Site(quick_path, case)
    try:
        path = site.add(0).path
        before = content(site)
        store = site.store
        quarantine(store.journal, store.blobs, path, b'{"n":1}\n{"n":2}', f"{PART}merge 2 duplicates", now=LATER)
        [entry] = [each for each in list_backups(store, LATER) if each.id.startswith("q")]
        with pytest.raises(InvalidMemoryError) as refused:
            restore(store, LATER, file=None, at=entry.id)
        assert "undo" in (refused.value.hint or "")
        assert content(site) == before
    finally:
        site.kill()
