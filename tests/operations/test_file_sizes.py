"""Files above the size limit are in no answer, so memoryd lets none grow above it, and reports those that are."""

from __future__ import annotations

import itertools
from collections import deque
from pathlib import Path

import pytest
from msgspec.structs import replace

from memoryd.core.defaults import MB
from memoryd.errors import LimitExceededError
from memoryd.layouts.protocol import NewMemory
from memoryd.layouts.registry import LAYOUTS
from memoryd.operations import memories
from memoryd.operations.memories import Context
from memoryd.operations.refresh import refresh
from tests.layouts.contract import NOW
from tests.operations.test_batch import WHERE, MakeStore, make_store, native
from tests.search.stored import Stored, memory

__all__ = ["make_store"]
MOST = 3_000  # bytes of a file, in these tests


@pytest.mark.parametrize("layout", ["jsonl-store", "session-files", "user-document"])
def test_storing_is_refused_before_a_file_is_too_large_to_be_read(
    layout: str, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = LAYOUTS[layout]
    smaller = replace(whole, files=replace(whole.files, max_bytes=MOST))
    monkeypatch.setattr("memoryd.store.store.LAYOUTS", {**LAYOUTS, layout: smaller})
    store = make_store(layout)
    stored: list[int] = []

    def store_more(number: int) -> None:
        fields = native(layout, number) | ({"type": "learning"} if layout == "jsonl-store" else {})
        memories.add(store, NewMemory(fields, WHERE[layout]), NOW + number, Context(number=number))
        refresh(store, None, NOW + number)
        stored.append(number)

    with pytest.raises(LimitExceededError, match="not read"):
        deque(map(store_more, itertools.count()), maxlen=0)
    assert len(stored) > 2
    files = [path for path in Path(store.path).rglob("*") if path.is_file()]
    assert max(path.stat().st_size for path in files) <= MOST
    refresh(store, None, NOW + 9_999)
    assert store.root_findings.get("unread", ()) == ()


def test_a_document_of_ten_thousand_memories_may_be_read() -> None:
    most = {name: layout.files.max_bytes for name, layout in LAYOUTS.items()}
    assert most.pop("user-document") == 256 * MB >= 10_000 * 8_000
    assert set(most.values()) == {64 * MB}


def test_an_answer_names_the_files_that_are_not_read(tmp_path: Path) -> None:
    stored = Stored(tmp_path / "c.sqlite", "user-document")
    stored.put(memory("a", "zebra", owner="files/ann"))
    stored.unread = ("files/bob/__long-memories/data.json",)
    found = stored.search("zebra", user="bob")
    assert (found["hits"], found["fresh"]["root"]["state"]) == ([], "stale")
    assert found["fresh"]["root"]["withheld"].startswith("files/bob/__long-memories/data.json: not read")
    hers = stored.search("zebra", user="ann")
    assert len(hers["hits"]) == 1
    assert (hers["fresh"]["root"]["state"], "withheld" in hers["fresh"]["root"]) == ("fresh", False)
    plain = Stored(tmp_path / "d.sqlite", "markdown-topics")
    plain.unread = ("a/b.md", "a/c.md")
    assert plain.search("zebra")["fresh"]["root"]["withheld"].startswith("a/b.md and 1 more: not read")
