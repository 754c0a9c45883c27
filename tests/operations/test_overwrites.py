"""Alarms for a document that an agent overwrites from a cache: memories disappear, merges are undone."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.core.defaults import Policy
from memoryd.errors import NotFoundError
from memoryd.layouts.protocol import NewMemory
from memoryd.operations import memories
from memoryd.operations.check import all_findings, check
from memoryd.operations.memories import Context
from memoryd.operations.refresh import refresh
from memoryd.operations.repair import repair
from memoryd.operations.restore import restore
from memoryd.operations.undo import undo
from memoryd.operations.upkeep import dedupe
from memoryd.store import Store

NOW = 1_770_000_000.0
DOCUMENT = "files/u1/__long-memories/data.json"


def document(*contents: str) -> bytes:
    memories: list[dict[str, Any]] = [
        {
            "data": {"id": n, "content": text, "importance": 0.5, "category": "c", "topics": []},
            "embedding": [n + 0.5, 1.0],
        }
        for n, text in enumerate(contents)
    ]
    whole = {"memories": memories, "updated_at": "2025-12-31T12:00:00Z", "last_deduplicated_at": None}
    return json.dumps(whole, separators=(",", ":")).encode()


class Root:
    def __init__(self, base: Path) -> None:
        self.base = base
        self.path = base / "root" / DOCUMENT
        self.path.parent.mkdir(parents=True)
        self.store = self.opened()

    def opened(self) -> Store:
        store = Store("u", str(self.base / "root"), "user-document", Policy(), str(self.base / "state"))
        store.attach()
        return store

    def reopen(self) -> None:
        self.store.close()
        self.store = self.opened()

    def version_of(self, content: bytes) -> str:
        vault = self.store.vault
        return next(version.id for version in vault.versions(DOCUMENT) if vault.content(version) == content)

    def write(self, content: bytes, age_s: float = 60.0) -> None:
        self.path.write_bytes(content)
        os.utime(self.path, (NOW - age_s, NOW - age_s))
        refresh(self.store, None, NOW)

    def codes(self) -> set[str]:
        return {finding.code for finding in all_findings(self.store)}


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    held = Root(tmp_path)
    yield held
    held.store.close()


def test_every_good_change_is_backed_up_before_the_next(root: Root) -> None:
    """The agent overwrites the whole file, so only a version saved at once can restore the previous one."""
    for number in range(7):
        root.write(document(*(f"memory {n}" for n in range(number + 1))), age_s=60 - number)
    contents = [root.store.vault.content(version) for version in root.store.vault.versions(DOCUMENT)]
    assert contents == [document(*(f"memory {n}" for n in range(count))) for count in (7, 6, 5, 4, 1)]


def test_a_file_that_lost_everything_is_reported_and_rotates_nothing_out(root: Root) -> None:
    root.write(document("a", "b", "c"))
    root.write(document(), age_s=30)
    assert "shrunk" in root.codes()
    assert document("a", "b", "c") in [root.store.vault.content(v) for v in root.store.vault.versions(DOCUMENT)]


def test_the_last_good_version_before_a_loss_survives_later_stores(root: Root) -> None:
    """The agent continues to store in the rest; the backup behind the alarm must not rotate out."""
    whole = document("a", "b", "c", "d", "e", "f")
    root.write(whole, age_s=50)
    root.write(document("new"), age_s=40)
    assert "shrunk" in root.codes()
    for number in range(8):
        root.write(document("new", *(f"later {n}" for n in range(number + 1))), age_s=30 - number)
    assert whole in [root.store.vault.content(v) for v in root.store.vault.versions(DOCUMENT)]


def test_losing_a_few_memories_is_no_alarm(root: Root) -> None:
    root.write(document("a", "b", "c", "d"))
    root.write(document("a", "b", "c"), age_s=30)
    assert "shrunk" not in root.codes()


def test_a_merge_that_the_agent_overwrote_is_reported_once(root: Root) -> None:
    """Its cache is older than our change: merged memories reappear."""
    before = document("likes tea", "Likes  TEA", "plays chess")
    root.write(before)
    done = dedupe(root.store, NOW, by="command")
    assert done.receipt is not None
    refresh(root.store, None, NOW)
    assert "change-was-undone" not in root.codes()
    root.write(before, age_s=10)
    assert "change-was-undone" in root.codes()
    root.write(document("likes tea", "Likes  TEA", "plays chess", "new"), age_s=5)
    assert "change-was-undone" not in root.codes()


def test_the_job_only_suggests_also_when_a_person_runs_it(root: Root) -> None:
    """Only `dedupe` itself writes a document that agents cache."""
    before = document(*["likes tea"] * 12)
    root.write(before)
    assert dedupe(root.store, NOW, by="command", as_job=True).receipt is None
    assert root.path.read_bytes() == before
    assert {each.code for each in root.store.root_findings["dedupe"]} == {"possible-duplicate"}
    assert dedupe(root.store, NOW, by="command").receipt is not None


def test_a_stored_memory_that_the_agent_overwrote_is_reported(root: Root) -> None:
    before = document("a", "b", "c", "d")
    root.write(before)
    memory = {"content": "through memoryd", "embedding": [0.5, 0.5]}
    memories.add(root.store, NewMemory(memory), NOW, Context())
    refresh(root.store, None, NOW)
    assert "change-was-undone" not in root.codes()
    root.write(before, age_s=10)
    assert "change-was-undone" in root.codes()


@pytest.mark.parametrize("verb", ["forget", "update"])
def test_a_removed_memory_that_reappears_is_reported(root: Root, verb: str) -> None:
    before = document("a", "b")
    root.write(before)
    (first, *_) = [each.id for each in root.store.catalogue.entries([DOCUMENT])]
    if verb == "forget":
        memories.forget(root.store, first, NOW, Context())
    else:
        memories.update(root.store, first, {"content": "other", "embedding": [1.0, 1.0]}, NOW, Context())
    refresh(root.store, None, NOW)
    root.write(before, age_s=10)
    assert "change-was-undone" in root.codes()


def test_forgetting_most_memories_through_memoryd_is_no_alarm(root: Root) -> None:
    root.write(document("a", "b", "c"))
    for each in [each.id for each in root.store.catalogue.entries([DOCUMENT])]:
        memories.forget(root.store, each, NOW, Context())
        refresh(root.store, None, NOW)
    assert root.codes() == set()


def test_an_undo_is_not_taken_for_an_older_state_of_the_agent(root: Root) -> None:
    root.write(document("a", "b"))
    memory = {"content": "through memoryd", "embedding": [0.5, 0.5]}
    receipt = memories.add(root.store, NewMemory(memory), NOW, Context()).receipt
    refresh(root.store, None, NOW)
    assert receipt is not None
    undo(root.store, receipt, NOW)
    refresh(root.store, None, NOW)
    assert "change-was-undone" not in root.codes()


def test_a_memory_with_an_equal_one_is_restored_once(root: Root) -> None:
    root.write(document("a", "b"))
    (first, *_) = [each.id for each in root.store.catalogue.entries([DOCUMENT])]
    memories.forget(root.store, first, NOW, Context())
    refresh(root.store, None, NOW)
    memories.unarchive(root.store, first, NOW, Context())
    refresh(root.store, None, NOW)
    with pytest.raises(NotFoundError):
        memories.unarchive(root.store, first, NOW, Context())


def test_the_first_memory_of_a_new_document_is_recorded(root: Root) -> None:
    asked = NewMemory({"content": "c", "embedding": [1.0, 0.5]}, {"user": "u1"})
    stored = memories.add(root.store, asked, NOW, Context())
    assert root.store.journal.facts.get("ours", {})[stored.path]["in"] == [stored.id]


def test_undoing_the_first_memory_of_a_user_is_no_loss(root: Root) -> None:
    stored = memories.add(
        root.store, NewMemory({"content": "c", "embedding": [1.0, 0.5]}, {"user": "u1"}), NOW, Context()
    )
    path = root.base / "root" / stored.path
    refresh(root.store, None, NOW)
    undo(root.store, stored.receipt or "", NOW)
    refresh(root.store, None, NOW, deletions_observed=True)
    assert not path.exists()
    assert check(root.store, NOW) == []
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(document("written later by the agent"))
    os.utime(path, (NOW - 60, NOW - 60))
    refresh(root.store, None, NOW)
    path.unlink()
    refresh(root.store, None, NOW, deletions_observed=True)
    [loss] = check(root.store, NOW)
    assert (loss.code, loss.message.split(";")[0]) == ("shrunk", "1 memory became 0")


def torn(root: Root) -> None:
    root.write(root.path.read_bytes()[:60], age_s=50)


def emptied(root: Root) -> None:
    root.write(b"", age_s=50)


def removed(root: Root) -> None:
    root.path.unlink()
    refresh(root.store, None, NOW, deletions_observed=True)
    assert [each.code for each in check(root.store, NOW)] == ["shrunk"]


def nothing(root: Root) -> None:
    """The agent writes over the good document directly."""


@pytest.mark.parametrize("meanwhile", [torn, emptied, removed, nothing])
def test_a_loss_stays_reported_whatever_caused_it_and_is_stored_later(
    root: Root, meanwhile: Callable[[Root], None]
) -> None:
    whole = document(*(f"memory {n}" for n in range(20)))
    root.write(document("first"), age_s=100)
    root.write(whole, age_s=90)
    meanwhile(root)
    for number in range(9):
        root.write(document(*(f"later {n}" for n in range(number + 1))), age_s=40 - number)
        assert "shrunk" in root.codes(), number
    root.reopen()
    refresh(root.store, None, NOW)
    assert "shrunk" in root.codes()
    restore(root.store, NOW, file=DOCUMENT, at=root.version_of(whole))
    refresh(root.store, None, NOW)
    assert "shrunk" not in root.codes()


def test_an_accepted_loss_is_no_longer_reported(root: Root) -> None:
    root.write(document(*(f"memory {n}" for n in range(20))), age_s=90)
    root.write(document("new"), age_s=60)
    assert "shrunk" in root.codes()
    repair(root.store, NOW, codes=["shrunk"])
    assert "shrunk" not in root.codes()
    root.write(document("new", "newer"), age_s=30)
    assert "shrunk" not in root.codes()
    root.write(document(*(f"more {n}" for n in range(9))), age_s=20)
    root.write(document("one"), age_s=10)
    assert "shrunk" in root.codes()
