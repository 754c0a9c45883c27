"""Programs that save a file in another format: the memories in it are neither lost nor stored a second time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.errors import NotFoundError
from memoryd.operations import memories
from memoryd.operations.check import check
from memoryd.operations.memories import Context, restore_lost_writes
from memoryd.operations.refresh import refresh
from memoryd.operations.repair import repair
from tests.operations.test_lost_writes import CASES, Case, Site
from tests.operations.test_overwrites import DOCUMENT, document

CODE = "change-was-undone"
STORED = {"content": "a heron at dawn", "importance": 0.5, "topics": ["birds", "größe"], "embedding": [0.5, 0.25]}
SESSION = CASES["session-files"]
FORMATS: dict[str, dict[str, Any]] = {
    "indented": {"indent": 2},
    "spaced": {},
    "sorted": {"sort_keys": True, "separators": (",", ":")},
    "escaped": {"ensure_ascii": True, "separators": (",", ":")},
}


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[str, Case], Site]]:
    made: list[Site] = []

    def site(layout: str, case: Case) -> Site:
        made.append(Site(tmp_path, layout, case))
        return made[-1]

    yield site
    for each in made:
        each.store.close()


@pytest.fixture
def cached(make: Callable[[str, Case], Site]) -> Site:
    """A document that agents cache."""
    return make("user-document", Case(DOCUMENT, document("a", "b"), STORED, {}))


def memories_of(site: Site) -> list[Any]:
    found: list[Any] = json.loads((site.root / site.case.path).read_bytes())["memories"]
    return found


def rewrite(site: Site, change: Callable[[list[Any]], object] = lambda _: None, **form: Any) -> None:
    """Another program loads the file, changes the list of memories, and saves it in its own format."""
    whole = json.loads((site.root / site.case.path).read_bytes())
    change(whole["memories"])
    site.write(site.case.path, json.dumps(whole, **{"ensure_ascii": False, **form}).encode())


def repaired(site: Site) -> str | None:
    receipt = repair(site.store, site.now, codes=[CODE]).receipt
    refresh(site.store, None, site.now)
    return receipt


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_another_format_is_no_loss(cached: Site, form: dict[str, Any]) -> None:
    old = cached.add().id
    rewrite(cached, **form)
    assert old not in {each.id for each in cached.store.catalogue.entries([DOCUMENT])}
    assert cached.findings() == []
    assert repaired(cached) is None
    assert len(memories_of(cached)) == 3


def test_another_format_is_no_loss_of_one_stored_long_ago(cached: Site) -> None:
    cached.add()
    cached.now += 90_000
    rewrite(cached, indent=2)
    assert cached.findings() == []


def test_what_has_another_format_is_still_watched(cached: Site) -> None:
    cached.add()
    rewrite(cached, indent=2)
    rewrite(cached, lambda each: each.pop(), indent=2)
    assert "warning" in cached.findings()
    assert repaired(cached) is not None
    assert [each["data"]["content"] for each in memories_of(cached)] == ["a", "b", STORED["content"]]


def test_another_format_just_before_a_memory_is_stored_is_no_loss(cached: Site) -> None:
    """The file is indexed with both changes at once."""
    cached.add()
    file = cached.root / DOCUMENT
    file.write_bytes(json.dumps(json.loads(file.read_bytes()), indent=2).encode())
    cached.case = cached.case._replace(memory={**STORED, "content": "an owl at dusk"})
    cached.add()
    rewrite(cached, lambda each: each.insert(0, {**each[0], "data": {**each[0]["data"], "content": "c"}}), indent=2)
    assert cached.findings() == []
    assert repaired(cached) is None
    assert len(memories_of(cached)) == 5
    rewrite(cached, lambda each: each.pop(-2), indent=2)
    assert "warning" in cached.findings()


def test_a_memory_dropped_with_the_old_format_is_lost(cached: Site) -> None:
    cached.add()
    cached.case = cached.case._replace(memory={**STORED, "content": "an owl at dusk"})
    cached.add()
    rewrite(cached, lambda each: each.pop(2), indent=2)
    assert "warning" in cached.findings()
    assert repaired(cached) is not None
    contents = [each["data"]["content"] for each in memories_of(cached)]
    assert contents == ["a", "b", "an owl at dusk", STORED["content"]]


def test_one_of_two_with_the_same_text_is_lost(cached: Site) -> None:
    """Counted with the memory of the agent that has the same text."""
    cached.case = cached.case._replace(memory={**STORED, "content": "b"})
    cached.add()
    rewrite(cached, lambda each: each.pop(), indent=2)
    assert repaired(cached) is not None
    assert [each["data"]["content"] for each in memories_of(cached)] == ["a", "b", "b"]


def test_an_update_in_another_format_is_no_loss(cached: Site) -> None:
    (first, *_) = [each.id for each in cached.store.catalogue.entries([DOCUMENT])]
    memories.update(cached.store, first, {"content": "c", "embedding": [1.0, 1.0]}, cached.now, Context())
    refresh(cached.store, None, cached.now)
    rewrite(cached, indent=2)
    assert cached.findings() == []
    assert repaired(cached) is None
    assert [each["data"]["content"] for each in memories_of(cached)] == ["c", "b"]


def test_an_id_from_before_is_not_found(cached: Site) -> None:
    old = cached.add().id
    rewrite(cached, indent=2)
    with pytest.raises(NotFoundError) as caught:
        memories.forget(cached.store, old, cached.now, Context())
    assert caught.value.hint
    assert len(memories_of(cached)) == 3


@pytest.mark.parametrize("neighbour", [True, False], ids=["with one of its title", "alone"])
def test_a_session_in_another_format_is_no_loss(make: Callable[[str, Case], Site], neighbour: bool) -> None:
    """Ids depend on the bytes where two memories have one title."""
    site = make("session-files", SESSION)
    if neighbour:
        rewrite(site, lambda each: each.append({**each[0], **SESSION.memory, "content": "the gull of another agent"}))
    site.add()
    count = len(memories_of(site))
    rewrite(site, indent=4)
    assert restore_lost_writes(site.store, site.now) == []
    assert site.findings() == []
    assert len(memories_of(site)) == count


def test_a_memory_that_gets_a_neighbour_of_its_title_is_not_lost(make: Callable[[str, Case], Site]) -> None:
    site = make("session-files", SESSION)
    site.add()
    rewrite(site, lambda each: each.append({**each[-1], "content": "the gull of another agent"}), indent=2)
    assert restore_lost_writes(site.store, site.now) == []
    rewrite(site, lambda each: each.pop(), indent=2)
    assert restore_lost_writes(site.store, site.now) == []
    assert site.has() == 1


def test_a_session_that_loses_a_memory_with_its_format_gets_it_back(make: Callable[[str, Case], Site]) -> None:
    site = make("session-files", SESSION)
    site.add()
    rewrite(site, lambda each: each.pop(), indent=4)
    assert len(restore_lost_writes(site.store, site.now)) == 1
    assert site.has() == 1


def test_a_topic_entry_that_gets_a_neighbour_of_its_title_is_not_lost(make: Callable[[str, Case], Site]) -> None:
    site = make("markdown-topics", CASES["markdown-topics"])
    made = site.add()
    text = (site.root / made.path).read_bytes()
    heading = next(line for line in text.splitlines() if b"a heron" in line)
    site.write(made.path, text + b"\n" + heading + b"\n\n**Context:** other\n**Problem:** y\n**Solution:** z\n---\n")
    assert made.id not in {each.id for each in site.store.catalogue.entries([made.path])}
    assert restore_lost_writes(site.store, site.now) == []
    assert site.findings() == []


def test_a_memory_file_in_another_format_is_no_loss(make: Callable[[str, Case], Site]) -> None:
    site = make("json-files", CASES["json-files"])
    made = site.add()
    whole = json.loads((site.root / made.path).read_bytes())
    site.write(made.path, json.dumps(whole, indent=4, sort_keys=True).encode())
    assert restore_lost_writes(site.store, site.now) == []
    assert [each for each in check(site.store, site.now) if each.code == CODE] == []


def test_a_line_in_another_format_is_no_loss(make: Callable[[str, Case], Site]) -> None:
    site = make("jsonl-store", CASES["jsonl-store"])
    made = site.add()
    whole = [json.loads(line) for line in (site.root / made.path).read_bytes().splitlines()]
    site.write(made.path, b"".join(json.dumps(each, sort_keys=True).encode() + b"\n" for each in whole))
    assert restore_lost_writes(site.store, site.now) == []
    assert site.findings() == []
