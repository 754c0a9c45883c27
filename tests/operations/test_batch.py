"""Several memories in one call, in every layout: all of them or none, one receipt, the files as one by one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.control.methods import TABLE
from memoryd.control.parameters import check_params
from memoryd.core.defaults import Limit, LimitKind, Policy
from memoryd.errors import InvalidMemoryError, LimitExceededError, SensitiveError, UsageError
from memoryd.layouts.protocol import NewMemory
from memoryd.operations import memories
from memoryd.operations.memories import Context, Outcome
from memoryd.operations.refresh import refresh
from memoryd.operations.undo import undo
from memoryd.store import Store
from tests.layouts.contract import NOW
from tests.layouts.samples import learning, lines, memory

MakeStore = Callable[..., Store]
SESSION = "2026-01-30-14-30-00-fix-bug"

WHERE: dict[str, dict[str, str]] = {
    "jsonl-store": {},
    "json-files": {},
    "markdown-topics": {"topic": "db", "subtopic": "pool"},
    "session-files": {"session": SESSION},
    "user-document": {"user": "alice"},
}


def native(layout: str, number: int) -> dict[str, Any]:
    text = f"what was learnt in case {number}: {'abcdefgh'[number % 8] * 9}"
    fields: dict[str, dict[str, Any]] = {
        "jsonl-store": {"type": ("learning", "core")[number % 2], "content": text},
        "json-files": {"content": text},
        "markdown-topics": {"title": f"Case {number % 3}", "context": text, "problem": "p", "solution": "s"},
        "session-files": {"type": "learning", "title": f"Case {number}", "content": text, "confidence_score": 80},
        "user-document": {"content": text, "embedding": [1.0, float(number)]},
    }
    return fields[layout]


@pytest.fixture
def make_store(tmp_path: Path) -> Iterator[MakeStore]:
    made: list[Store] = []

    def make(layout: str, place: str = "root", policy: Policy | None = None) -> Store:
        (tmp_path / place).mkdir(mode=0o700)
        store = Store("m", str(tmp_path / place), layout, policy or Policy(), str(tmp_path / f"{place}-state"))
        store.attach()
        made.append(store)
        return store

    yield make
    for store in made:
        store.close()


def files(store: Store) -> dict[str, bytes]:
    root = Path(store.path)
    found = (path for path in sorted(root.rglob("*")) if path.is_file() and ".backup" not in path.parts)
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def new_memories(layout: str, *numbers: int) -> list[NewMemory]:
    return [NewMemory(native(layout, number), WHERE[layout]) for number in numbers]


def add_several(store: Store, given: list[NewMemory]) -> Outcome:
    done = memories.add_several(store, given, NOW, Context(7))
    refresh(store, None, NOW)
    return done


@pytest.mark.parametrize("layout", WHERE)
def test_each_is_stored_and_one_receipt_undoes_all(make_store: MakeStore, layout: str) -> None:
    store = make_store(layout)
    memories.add(store, new_memories(layout, 9)[0], NOW, Context(1))
    refresh(store, None, NOW)
    before = files(store)
    done = add_several(store, new_memories(layout, 1, 2, 3, 4))
    assert len(done.stored) == len(dict.fromkeys(done.stored)) == 4
    entries = {entry.id: entry.path for entry in store.catalogue.entries(list(store.files()))}
    assert {identity: entries.get(identity) for identity, _ in done.stored} == dict(done.stored)
    assert len(entries) == 5
    assert len(store.journal.entries()) == 2
    assert done.receipt is not None
    undo(store, done.receipt, NOW)
    assert files(store) == before


@pytest.mark.parametrize("layout", ["jsonl-store", "markdown-topics"])
def test_the_files_are_as_if_stored_one_by_one(make_store: MakeStore, layout: str) -> None:
    one, other = make_store(layout, "one"), make_store(layout, "other")
    given = new_memories(layout, 1, 2, 3)
    if layout == "jsonl-store":
        given = [NewMemory({**each.memory, "id": memory(n)["id"]}, each.location) for n, each in enumerate(given)]
    add_several(one, given)
    for each in given:
        memories.add(other, each, NOW, Context(7))
        refresh(other, None, NOW)
    assert files(one) == files(other)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({}, "one of memory, memories must be given"),
        ({"memory": {}, "memories": [{}]}, "only one of memory, memories"),
        ({"memories": []}, "a non-empty list of objects"),
        ({"memories": ["x"]}, "a non-empty list of objects"),
    ],
)
def test_anything_but_a_list_of_memories_is_refused(params: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_params(TABLE["memory.add"], params)


def test_in_a_session_it_is_one_extraction(make_store: MakeStore) -> None:
    store = make_store("session-files")
    add_several(store, new_memories("session-files", 1, 2, 3))
    [content] = [json.loads(each) for each in files(store).values()]
    assert (content["extraction_count"], len(content["memories"])) == (1, 3)
    add_several(store, new_memories("session-files", 4, 5))
    [content] = [json.loads(each) for each in files(store).values()]
    assert (content["extraction_count"], len(content["memories"])) == (2, 5)


def test_a_memory_replaced_by_a_surer_one_of_the_call_is_quarantined(make_store: MakeStore) -> None:
    store = make_store("session-files")
    first = native("session-files", 1)
    add_several(store, [NewMemory(first, WHERE["session-files"])])
    surer = [NewMemory({**first, "confidence_score": score}, WHERE["session-files"]) for score in (90, 95)]
    done = add_several(store, surer)
    [content] = [json.loads(each) for each in files(store).values()]
    assert [each["confidence_score"] for each in content["memories"]] == [95]
    assert dict(done.stored).keys() == {done.id}
    [kept] = store.journal.quarantine.entries()
    assert b'"confidence_score": 80' in store.blobs.get(kept.blob)


def test_one_invalid_memory_stores_none(make_store: MakeStore) -> None:
    store = make_store("jsonl-store")
    with pytest.raises(InvalidMemoryError) as error:
        add_several(
            store,
            [*new_memories("jsonl-store", 1, 2), NewMemory({"type": "learning"}), *new_memories("jsonl-store", 3)],
        )
    assert error.value.data["memory"] == 2
    token = "ghp_" + "a1B2" * 9
    with pytest.raises(SensitiveError) as refused:
        add_several(store, [*new_memories("jsonl-store", 1), NewMemory({"type": "learning", "content": token})])
    assert refused.value.data["memory"] == 1
    assert files(store) == {}


def test_a_limit_counts_earlier_memories_of_the_call(make_store: MakeStore) -> None:
    limits = {"learnings.jsonl": Limit(LimitKind.HARD, None, 3)}
    store = make_store("jsonl-store", policy=Policy(limits=limits))
    (Path(store.path) / "learnings.jsonl").write_bytes(lines(learning(1)))
    refresh(store, None, NOW)
    with pytest.raises(LimitExceededError):
        add_several(store, new_memories("jsonl-store", 0, 2, 4))
    assert len(add_several(store, new_memories("jsonl-store", 0, 2)).stored) == 2


def test_an_id_may_not_come_twice_in_one_call(make_store: MakeStore) -> None:
    store = make_store("jsonl-store")
    twice = [NewMemory({**native("jsonl-store", n), "id": memory(5)["id"]}) for n in (1, 2)]
    with pytest.raises(InvalidMemoryError):
        add_several(store, twice)
    assert files(store) == {}


def test_a_thousand_lines_are_one_write(make_store: MakeStore) -> None:
    store = make_store("jsonl-store")
    (Path(store.path) / "learnings.jsonl").write_bytes(lines(learning(1)))
    refresh(store, None, NOW)
    inode = os.stat(f"{store.path}/learnings.jsonl").st_ino
    done = add_several(store, new_memories("jsonl-store", *range(0, 2000, 2)))
    assert len(done.stored) == 1000
    [entry] = store.journal.entries()
    assert [step.kind for step in entry.steps] == ["append"]
    assert os.stat(f"{store.path}/learnings.jsonl").st_ino == inode


def test_findings_of_the_new_memories_are_reported_at_once(make_store: MakeStore) -> None:
    """Otherwise the finding stays and nobody knows its cause."""
    store, means = make_store("markdown-topics"), Context()
    told = "the entry lacks Problem and Solution; `check` reports it as missing-labels"
    bare = NewMemory({"title": "Case", "context": "always"}, {"topic": "db"})
    assert memories.add(store, bare, NOW, means).warnings == (told,)
    several = [bare, NewMemory(native("markdown-topics", 1), {"topic": "db"})]
    assert memories.add_several(store, several, NOW + 1, means).warnings == (told,)
    assert memories.add(store, several[1], NOW + 2, means).warnings == ()


@pytest.mark.parametrize("final_newline", ["always", "keep", "never"])
@pytest.mark.parametrize("end", [None, b"", b"\n"])
def test_appended_lines_end_as_the_policy_says(make_store: MakeStore, final_newline: str, end: bytes | None) -> None:
    """One add, then two in a call; nothing is joined, and undo restores the bytes."""
    store = make_store("jsonl-store", policy=Policy(final_newline=final_newline))
    path = Path(store.path, "learnings.jsonl")
    if end is not None:
        path.write_bytes(lines(learning(1)).rstrip(b"\n") + end)
    refresh(store, None, NOW)
    before = path.read_bytes() if end is not None else None
    ends_in_newline = final_newline == "always" or (final_newline == "keep" and end != b"")
    receipts: list[str] = []
    for numbers in ((0,), (2, 4), (6,)):
        receipts.append(str(add_several(store, new_memories("jsonl-store", *numbers)).receipt))
        assert path.read_bytes().endswith(b"\n") == ends_in_newline
        assert b"\n\n" not in path.read_bytes()
    count = 4 + (end is not None)
    assert len([json.loads(each) for each in path.read_bytes().splitlines()]) == count
    assert [each.line for each in store.catalogue.entries(["learnings.jsonl"])] == list(range(1, count + 1))
    for receipt in reversed(receipts):
        undo(store, receipt, now=NOW)
    assert (path.read_bytes() if path.exists() else None) == before
