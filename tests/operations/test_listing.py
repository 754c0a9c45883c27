"""Lists: newest first over all roots, a page at a time; nothing twice, nothing left out."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from memoryd.core.query import Filters
from memoryd.errors import UsageError
from memoryd.operations.listing import list_memories
from tests.search.stored import NOW, Stored, all_closed, memory


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    with all_closed():
        yield


@pytest.fixture
def roots(tmp_path: Path) -> list[Stored]:
    chance = random.Random(5)
    made = [Stored(tmp_path / name, name=name) for name in ("b", "a", "c")]
    for root in made:
        root.put(*(memory(f"m{number}", "x", age=chance.choice([None, 1, 2, 3, 50])) for number in range(40)))
    return made


def listed(*asked: Any, **more: Any) -> dict[str, Any]:
    """List memories; return the answer as its reader gets it."""
    found: dict[str, Any] = to_builtins(list_memories(*asked, **more))
    return found


def pages(roots: Sequence[Stored], limit: int, filters: Filters | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = listed([each.place for each in roots], filters or Filters(), limit=limit, cursor=cursor)
        assert len(page["memories"]) <= limit
        found += page["memories"]
        cursor = page.get("next_cursor")
        if cursor is None:
            return found
        assert len(page["memories"]) == limit


def names(found: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["root"], each["id"]) for each in found]


@pytest.mark.parametrize("limit", [1, 7, 40, 119, 120, 500])
def test_the_pages_cover_every_memory(roots: list[Stored], limit: int) -> None:
    found = names(pages(roots, limit))
    assert len(found) == len(set(found)) == 120
    assert found == names(pages(roots, 1000))


def test_newest_first_and_undated_last(roots: list[Stored]) -> None:
    times = [each["created"] for each in pages(roots, 1000)]
    dated = [each for each in times if each is not None]
    assert dated == sorted(dated, reverse=True)
    assert times[: len(dated)] == dated
    assert 0 < len(dated) < 120


def test_memories_stored_between_two_pages_shift_nothing(roots: list[Stored]) -> None:
    whole = names(pages(roots, 1000))
    places = [each.place for each in roots]
    first = listed(places, Filters(), limit=50)
    roots[0].put(memory("later", "x", age=0))
    roots[1].put(memory("m0", "changed", age=1))
    rest = listed(places, Filters(), limit=500, cursor=first["next_cursor"])
    kept = [each for each in names([*first["memories"], *rest["memories"]]) if each != ("a", "m0")]
    assert kept == [each for each in whole if each != ("a", "m0")]


def test_filters(tmp_path: Path) -> None:
    root = Stored(tmp_path / "c")
    root.put(
        memory("a", "x", tags=("test",), type="task"),
        memory("b", "x", tags=("testing",), archived=True),
        memory("c", "x", age=50),
    )
    assert root.listed() == ["a", "c"]
    assert root.listed(archived=True) == ["b", "a", "c"]
    assert root.listed(tags=("test",), archived=True) == ["a"]
    assert root.listed(type="task") == ["a"]
    assert root.listed(since=NOW - 10 * 86_400) == ["a"]


def test_users_are_separate(tmp_path: Path) -> None:
    root = Stored(tmp_path / "c", "user-document")
    root.put(memory("ann/1", "x", owner="ann"), memory("bob/1", "x", owner="bob"))
    nobody = listed([root.place], Filters())
    assert nobody["memories"] == []
    assert "user" in nobody["fresh"]["root"]["withheld"]
    assert names(listed([root.place], Filters(), user="ann")["memories"]) == [("root", "ann/1")]


def test_the_fields_of_a_row(tmp_path: Path) -> None:
    root = Stored(tmp_path / "c")
    root.put(memory("a", "x", title="Title", tags=("t",), line=4))
    found = listed([root.place], Filters())
    assert found["fresh"] == {"root": {"state": "fresh", "generation": 3, "lag_ms": 0}}
    [one] = found["memories"]
    assert one == {
        "root": "root",
        "id": "a",
        "path": "a.json",
        "line": 4,
        "title": "Title",
        "type": "note",
        "tags": ["t"],
        "created": "2027-01-14T08:00:00Z",
        "archived": False,
        "layout": "jsonl-store",
    }


@pytest.mark.parametrize(
    "cursor", ["", "x", "é", "\ud800", "bm90aGluZw", "W251bGwsMSwyLDNd", "AAAA", "W251bGwsImEiLCJiIiwxZTMwXQ"]
)
def test_an_invalid_cursor_is_refused(tmp_path: Path, cursor: str) -> None:
    root = Stored(tmp_path / "c")
    with pytest.raises(UsageError):
        listed([root.place], Filters(), cursor=cursor)


def test_all_are_counted_by_month_with_a_page_of_any_length(roots: list[Stored]) -> None:
    places = [each.place for each in roots]
    page = listed(places, Filters(archived=True), limit=1, months=True)
    created = Counter(each["created"] and each["created"][:7] for each in pages(roots, 1000, Filters(archived=True)))
    months = {each["month"]: each["memories"] + each["archived"] for each in page["months"]}
    assert months == created
    assert list(months) == [*sorted(filter(None, created), reverse=True), None]
    assert "months" not in listed(places, Filters(), limit=1)


def test_the_counts_are_of_every_user_unless_one_is_named(tmp_path: Path) -> None:
    root = Stored(tmp_path / "users", layout="user-document")
    root.put(memory("one", "x", owner="ann"), memory("two", "x", owner="bob"), memory("three", "x", owner="bob"))
    withheld = listed([root.place], Filters(), months=True)
    assert withheld["memories"] == []
    assert [each["memories"] for each in withheld["months"]] == [3]
    assert [each["memories"] for each in listed([root.place], Filters(), user="bob", months=True)["months"]] == [2]
