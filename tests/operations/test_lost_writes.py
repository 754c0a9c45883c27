"""Agents that overwrite stored memories with an older state: the memories are restored once, or offered."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from memoryd.control.methods.status import FindingRow
from memoryd.core.defaults import Policy
from memoryd.disk.tree import Tree
from memoryd.layouts.codes import severity
from memoryd.layouts.protocol import NewMemory
from memoryd.operations import memories, whole_files
from memoryd.operations.check import check, finding_row
from memoryd.operations.memories import Context, restore_lost_writes
from memoryd.operations.overwrites import WATCHED_S
from memoryd.operations.permissions import tighten
from memoryd.operations.refresh import refresh
from memoryd.operations.repair import repair
from memoryd.operations.undo import undo
from memoryd.store import Store
from tests.layouts import json_samples
from tests.layouts.samples import learning, lines
from tests.layouts.session_samples import memory as session_memory
from tests.layouts.session_samples import session
from tests.layouts.session_samples import text as session_text
from tests.operations.test_overwrites import DOCUMENT, document

NOW = 1_770_000_000.0
SAID = b"a heron at dawn"


class Case(NamedTuple):
    path: str
    stale: bytes
    memory: dict[str, Any]
    where: dict[str, str]


SESSION = "2026-01-30/14-30-00-fix-bug.json"
ENTRY = b"## 2026-01-02: Older\n\n**Context:** x\n**Problem:** y\n**Solution:** z\n---\n"
CASES = {
    "jsonl-store": Case(
        "learnings.jsonl", lines(learning(1), learning(2)), {"type": "learning", "content": SAID.decode()}, {}
    ),
    "json-files": Case(json_samples.name(1), json_samples.file(1), {"type": "decision", "content": SAID.decode()}, {}),
    "session-files": Case(
        SESSION,
        session_text(session(session_memory())),
        {"type": "insight", "title": "Birds", "content": SAID.decode()},
        {"session": "2026-01-30-14-30-00-fix-bug"},
    ),
    "markdown-topics": Case(
        "auth/jwt.md",
        ENTRY,
        {"title": SAID.decode(), "context": "a", "problem": "b", "solution": "c"},
        {"topic": "auth", "subtopic": "jwt"},
    ),
}


class Site:
    def __init__(self, base: Path, layout: str, case: Case) -> None:
        self.root = base / "root"
        self.root.mkdir()
        self.now = NOW
        self.case = case
        self.store = Store("m", str(self.root), layout, Policy(), str(base / "state"))
        self.store.attach()
        self.write(self.case.path, self.case.stale)

    def write(self, path: str, content: bytes) -> None:
        self.now += 5
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name("new")
        new.write_bytes(content)
        os.utime(new, (self.now - 4, self.now - 4))
        new.rename(file)
        refresh(self.store, None, self.now)

    def add(self) -> memories.Outcome:
        made = self.add_unseen()
        refresh(self.store, None, self.now)
        return made

    def add_unseen(self) -> memories.Outcome:
        """Add a memory that the index does not have yet."""
        return memories.add(self.store, NewMemory(self.case.memory, self.case.where), self.now, Context(7))

    def restart(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Stop in an orderly way, let an agent act, and start again."""
        name, state = self.store.layout, self.store.state_dir
        assert name is not None
        self.store.close()
        meanwhile()
        self.store = Store("m", str(self.root), name.name, Policy(), state)
        self.store.attach()
        refresh(self.store, None, self.now)

    def write_stale_state(self, made: memories.Outcome) -> None:
        """The agent read before the add, and writes what it read. A memory in a file of its own is written over by
        another one, as of a program that does not look."""
        stale = self.case.stale if made.path == self.case.path else json_samples.file(9)
        self.write(made.path, stale)

    def has(self) -> int:
        return sum(file.read_bytes().count(SAID) for file in self.root.rglob("*.*") if ".backup" not in str(file))

    def findings(self) -> list[str]:
        return [str(severity(each)) for each in check(self.store, self.now) if each.code == "change-was-undone"]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[str], Site]]:
    made: list[Site] = []

    def site(layout: str) -> Site:
        made.append(Site(tmp_path, layout, CASES[layout]))
        return made[-1]

    yield site
    for each in made:
        each.store.close()


@pytest.mark.parametrize("layout", CASES)
def test_an_overwritten_add_is_restored_once(layout: str, make: Callable[[str], Site]) -> None:
    site = make(layout)
    made = site.add()
    once = site.has()
    site.write_stale_state(made)
    assert site.has() == 0
    (back,) = restore_lost_writes(site.store, site.now)
    refresh(site.store, None, site.now)
    assert back.receipt
    assert site.has() == once
    assert site.findings() == ["info"]
    where = {each.id for each in site.store.catalogue.entries(sorted(site.store.catalogue.files()))}
    assert back.id in where
    site.write(back.path if back.path == site.case.path else site.case.path, site.case.stale)
    assert restore_lost_writes(site.store, site.now) == []
    site.now += 90_000
    site.write(site.case.path, site.case.stale + b"\n")
    assert site.findings() in ([], ["info"])


@pytest.mark.parametrize("layout", CASES)
def test_an_add_that_is_overwritten_before_it_is_indexed_is_restored(layout: str, make: Callable[[str], Site]) -> None:
    """The agent renames right after the reply. The file is then as the index knows it."""
    site = make(layout)
    site.write_stale_state(site.add_unseen())
    assert site.has() == 0
    (back,) = restore_lost_writes(site.store, site.now)
    assert back.receipt
    assert site.has() == 1 + (layout == "json-files")  # title and content
    refresh(site.store, None, site.now)
    assert site.findings() == ["info"]


@pytest.mark.parametrize("tails", [False, True])
def test_lines_of_the_agent_are_not_taken_for_those_of_an_add(make: Callable[[str], Site], tails: bool) -> None:
    """What the agent wrote looks like lines appended to the file that the index knows."""
    site = make("jsonl-store")
    site.add_unseen()
    new = site.root / "new"
    new.write_bytes(site.case.stale + lines(learning(3)))
    new.rename(site.root / site.case.path)
    refresh(site.store, [site.case.path], site.now, tails=tails)
    assert len(restore_lost_writes(site.store, site.now)) == site.has() == 1


@pytest.mark.parametrize("tails", [False, True])
def test_lines_appended_after_those_of_an_add_are_no_loss(
    make: Callable[[str], Site], tails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make("jsonl-store")
    for number in (3, 4):
        site.add_unseen()
        with (site.root / site.case.path).open("ab") as file:
            file.write(lines(learning(number)))
    monkeypatch.setattr(Tree, "read", None)  # nor is the file read whole
    refresh(site.store, [site.case.path], site.now, tails=tails)
    assert restore_lost_writes(site.store, site.now) == []
    assert len(list(site.store.catalogue.entries([site.case.path]))) == 6


@pytest.mark.parametrize("seen", [False, True])
def test_an_overwritten_change_of_a_large_file_is_noticed(
    make: Callable[[str], Site], monkeypatch: pytest.MonkeyPatch, seen: bool
) -> None:
    """A large file is indexed in parts."""
    monkeypatch.setattr(whole_files, "CHUNK_SIZE", 100)
    site = make("jsonl-store")
    made = site.add() if seen else site.add_unseen()
    memories.update(site.store, learning(1)["id"], {"content": "a stork"}, site.now, Context())
    site.write_stale_state(made)
    assert [each.id for each in restore_lost_writes(site.store, site.now)] == [made.id]
    refresh(site.store, None, site.now)
    assert sorted(site.findings()) == ["info", "warning"]


def test_it_is_watched_after_its_mode_was_changed(make: Callable[[str], Site]) -> None:
    site = make("jsonl-store")
    made = site.add()
    (site.root / made.path).chmod(0o644)
    assert tighten(site.store, site.now, by="schedule").receipt is not None
    site.write_stale_state(made)
    assert [each.id for each in restore_lost_writes(site.store, site.now)] == [made.id]


@pytest.mark.parametrize("layout", CASES)
def test_it_is_watched_across_a_restart(layout: str, make: Callable[[str], Site]) -> None:
    site = make(layout)
    made = site.add()
    site.restart()
    site.write_stale_state(made)
    assert site.has() == 0
    (back,) = restore_lost_writes(site.store, site.now)
    assert back.receipt
    site.restart()
    assert restore_lost_writes(site.store, site.now) == []


def test_an_older_state_may_also_be_written_while_memoryd_is_down(make: Callable[[str], Site]) -> None:
    site = make("jsonl-store")
    site.add()
    path = site.root / site.case.path
    site.now += 5

    def write_over() -> None:
        path.unlink()
        path.write_bytes(site.case.stale)

    site.restart(write_over)
    (back,) = restore_lost_writes(site.store, site.now)
    assert back.receipt
    assert SAID in path.read_bytes()


@pytest.mark.parametrize("layout", CASES)
def test_memories_removed_by_memoryd_do_not_come_back(layout: str, make: Callable[[str], Site]) -> None:
    site = make(layout)
    made = site.add()
    memories.forget(site.store, made.id, site.now, Context())
    refresh(site.store, None, site.now)
    again = site.add()
    assert again.receipt is not None
    undo(site.store, again.receipt, site.now)
    refresh(site.store, None, site.now)
    if made.path == site.case.path:
        site.write_stale_state(made)
    assert restore_lost_writes(site.store, site.now) == []
    assert site.findings() == []


@pytest.mark.parametrize("layout", CASES)
def test_watching_ends_after_two_writes_or_ten_minutes(layout: str, make: Callable[[str], Site]) -> None:
    site = make(layout)
    made = site.add()
    site.now += 601
    site.write_stale_state(made)
    assert restore_lost_writes(site.store, site.now) == []
    assert site.findings() == []


def test_an_overwritten_update_waits_for_repair(make: Callable[[str], Site]) -> None:
    site = make("jsonl-store")
    (first, *_) = [each.id for each in site.store.catalogue.entries([site.case.path])]
    done = memories.update(site.store, first, {"content": SAID.decode()}, site.now, Context())
    refresh(site.store, None, site.now)
    site.write(done.path, site.case.stale)
    assert restore_lost_writes(site.store, site.now) == []
    assert site.findings() == ["warning"]
    assert repair(site.store, site.now, codes=["change-was-undone"]).receipt is not None
    refresh(site.store, None, site.now)
    assert site.has() == 1
    assert site.findings() == ["info"]


def undone(site: Site) -> list[FindingRow]:
    return [finding_row("m", each) for each in check(site.store, site.now) if each.code == "change-was-undone"]


@pytest.fixture
def cached(tmp_path: Path) -> Iterator[Site]:
    """A document that its agents cache and overwrite."""
    stored = {"content": SAID.decode(), "embedding": [0.5, 0.5]}
    site = Site(tmp_path, "user-document", Case(DOCUMENT, document("a", "b"), stored, {}))
    yield site
    site.store.close()


@pytest.mark.parametrize("verb", ["add", "update"])
def test_in_a_document_that_agents_cache_it_waits_for_repair(cached: Site, verb: str) -> None:
    if verb == "add":
        cached.add()
    else:
        (first, *_) = [each.id for each in cached.store.catalogue.entries([DOCUMENT])]
        memories.update(cached.store, first, cached.case.memory, cached.now, Context())
        refresh(cached.store, None, cached.now)
    cached.write(DOCUMENT, cached.case.stale)
    assert restore_lost_writes(cached.store, cached.now) == []
    [finding] = undone(cached)
    assert (finding.severity, finding.fixable) == ("warning", True)
    assert repair(cached.store, cached.now, codes=["change-was-undone"]).receipt is not None
    assert cached.store.journal.entries(1)[0].by == "command"
    refresh(cached.store, None, cached.now)
    assert cached.has() == 1
    [finding] = undone(cached)
    assert (finding.severity, finding.fixable) == ("info", False)


def test_a_removal_that_agents_undid_is_no_matter_of_repair(cached: Site) -> None:
    (first, *_) = [each.id for each in cached.store.catalogue.entries([DOCUMENT])]
    memories.forget(cached.store, first, cached.now, Context())
    refresh(cached.store, None, cached.now)
    cached.write(DOCUMENT, cached.case.stale)
    [finding] = undone(cached)
    assert finding.message.startswith("1 memory that was removed is back: ")
    assert not finding.fixable


def test_what_is_lost_too_late_to_be_stored_again_is_reported(cached: Site) -> None:
    cached.add()
    cached.now += WATCHED_S
    cached.write(DOCUMENT, cached.case.stale)
    [finding] = undone(cached)
    assert finding.message.startswith("1 memory stored through memoryd is gone: ")
    assert not finding.fixable


def test_history_names_memoryd_for_what_it_stored_again_itself(make: Callable[[str], Site]) -> None:
    site = make("jsonl-store")
    site.write_stale_state(site.add())
    [again] = restore_lost_writes(site.store, site.now)
    first, second = reversed(site.store.journal.entries(2))
    assert (second.receipt, second.operation) == (again.receipt, "add")
    assert (first.by, second.by) == ("command", "watch")
