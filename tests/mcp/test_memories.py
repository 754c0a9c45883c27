"""Limits to roots, merged answers, pages, addresses and arguments, without a protocol around them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.errors import ConflictError, MemorydError, NotFoundError, UnknownRootError, UsageError
from memoryd.mcp import schemas
from memoryd.mcp.memories import Memories, Scope, address, parts
from memoryd.mcp.tools import TOOLS, carry_out, content_of, error_text, internal
from tests.mcp.fake import FakeDaemon

Values = dict[str, Any]

FIVE: dict[str, dict[str, Values]] = {
    root: {f"{root}{i}": {"content": f"pool {root} {'size ' * (i % 2)}{i}"} for i in range(7)}
    for root in ("agents", "notes", "private", "d", "e")
}


@pytest.fixture
def daemon() -> FakeDaemon:
    return FakeDaemon(**{root: dict(rows) for root, rows in FIVE.items()})


def of(daemon: FakeDaemon, *roots: str) -> Memories:
    return Memories(daemon, Scope(roots))


class TestTwoRootsOfFive:
    def test_a_search_is_of_both(self, daemon: FakeDaemon) -> None:
        found = of(daemon, "agents", "e").search({"query": "pool size", "limit": 8})
        assert daemon.asked("memory.search") == [{"query": "pool size", "limit": 8, "roots": ["agents", "e"]}]
        assert {hit["root"] for hit in found["hits"]} == {"agents", "e"}
        assert set(found["fresh"]) == {"agents", "e"}
        one = of(daemon, "agents", "e").search({"query": "pool", "root": "e"})
        assert {hit["root"] for hit in one["hits"]} == {"e"}

    def test_a_root_that_is_not_there_is_told_without_naming_the_others(self, daemon: FakeDaemon) -> None:
        del daemon.memories["e"]
        with pytest.raises(UnknownRootError, match="'e'") as refused:
            of(daemon, "agents", "e").search({"query": "pool"})
        assert "notes" not in error_text(refused.value)
        assert of(daemon, "agents", "e").status({})["missing"] == ["e"]

    def test_pages_go_through_both_and_meet_each_memory_once(self, daemon: FakeDaemon) -> None:
        memories = of(daemon, "agents", "e")
        seen: list[str] = []
        cursor: str | None = None
        for _ in range(20):
            page = memories.page({"limit": 3} | ({"cursor": cursor} if cursor else {}))
            seen += [row["id"] for row in page["memories"]]
            cursor = page.get("next_cursor")
            if cursor is None:
                break
        assert seen == [*FIVE["agents"], *FIVE["e"]]

    def test_an_id_is_looked_for_in_both_and_only_there(self, daemon: FakeDaemon) -> None:
        memories = of(daemon, "agents", "e")
        assert memories.get({"id": "e3"})["root"] == "e"
        with pytest.raises(NotFoundError):
            memories.get({"id": "notes3"})
        with pytest.raises(UnknownRootError):
            memories.get({"id": "notes3", "root": "notes"})
        assert {params["root"] for params in daemon.asked("memory.get")} == {"agents", "e"}

    def test_an_id_of_both_is_not_guessed(self, daemon: FakeDaemon) -> None:
        daemon.memories["e"]["agents1"] = {"content": "same id"}
        with pytest.raises(ConflictError) as refused:
            of(daemon, "agents", "e").get({"id": "agents1"})
        assert refused.value.data["roots"] == ["agents", "e"]
        with pytest.raises(ConflictError):
            of(daemon, "agents", "e").forget({"id": "agents1"})
        assert not daemon.asked("memory.forget")

    def test_a_change_goes_to_the_root_of_the_id(self, daemon: FakeDaemon) -> None:
        changed = of(daemon, "agents", "e").update({"id": "e1", "changes": {"content": "new"}})
        assert changed["uri"] == "memory://e/e1"
        assert daemon.asked("memory.update") == [{"id": "e1", "root": "e", "changes": {"content": "new"}}]

    def test_what_a_daemon_sends_of_another_root_is_not_passed_on(self, daemon: FakeDaemon) -> None:
        def leaky(method: str, params: Any) -> Values:
            return daemon(method, {name: value for name, value in params.items() if name not in ("root", "roots")})

        memories = Memories(leaky, Scope(("agents", "e")))
        assert {hit["root"] for hit in memories.search({"query": "pool"})["hits"]} <= {"agents", "e"}
        assert {row["root"] for row in memories.page({})["memories"]} <= {"agents", "e"}
        with pytest.raises(NotFoundError):
            memories.get({"id": "notes3"})


class TestStoring:
    def test_the_only_root_need_not_be_named(self, daemon: FakeDaemon) -> None:
        assert of(daemon, "d").add({"memory": {"content": "x"}})["root"] == "d"
        with pytest.raises(UsageError, match="specify the root to store in") as refused:
            of(daemon, "d", "e").add({"memory": {"content": "x"}})
        assert "d (unknown)" in str(refused.value.hint) or "d" in str(refused.value.hint)
        alone = FakeDaemon()
        alone.memories = {"agents": {}}
        assert of(alone).add({"memory": {"content": "x"}})["root"] == "agents"

    def test_a_touch_counts_a_use_and_changes_nothing_else(self, daemon: FakeDaemon) -> None:
        of(daemon).update({"id": "e1", "touch": True})
        assert daemon.asked("memory.get")[-1] == {"id": "e1", "root": "e", "touch": True}
        assert not daemon.asked("memory.update")
        with pytest.raises(UsageError, match="no changes given"):
            of(daemon).update({"id": "e1"})

    def test_no_reading_tool_asks_for_more_than_reading(self, daemon: FakeDaemon) -> None:
        given = {
            "search_memories": {"query": "x"},
            "get_memory": {"id": "e1"},
            "list_memories": {},
            "memory_status": {},
        }
        for name, tool in TOOLS.items():
            if not tool.writes:
                carry_out(tool, of(daemon), given[name], read_only=True)
        assert not any(params.get("touch") for _, params in daemon.calls)
        assert {method for method, _ in daemon.calls} <= {"status", "memory.search", "memory.get", "memory.list"}


class TestVectors:
    def test_they_are_left_out_unless_asked_for(self, daemon: FakeDaemon) -> None:
        native = {"data": {"content": "tea"}, "embedding": [0.5] * 384}
        daemon.memories["private"]["u"] = native
        short = of(daemon).get({"id": "u"})
        assert short["memory"] == {"data": {"content": "tea"}}
        assert short["left_out"] == ["embedding"]
        assert of(daemon).get({"id": "u", "embedding": True})["memory"] == native


@given(root=st.text(min_size=1), memory=st.text(min_size=1))
def test_every_id_has_an_address_and_comes_back_from_it(root: str, memory: str) -> None:
    uri = address(root, memory)
    assert uri.isascii()
    assert uri.count("/") == 3
    assert parts(uri) == (root, memory)


class TestArguments:
    @pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: str(tool.name))
    def test_the_schema_needs_nothing_from_elsewhere(self, tool: Any) -> None:
        assert "$ref" not in str(schemas.arguments_schema(tool.takes))

    def test_what_agents_send_is_taken_for_what_they_mean(self) -> None:
        sent = {"query": "x", "limit": "5", "tags": '["a"]', "root": None, "archived": "true"}
        assert schemas.check_arguments(schemas.Search, sent) == {
            "query": "x",
            "limit": 5,
            "tags": ["a"],
            "archived": True,
        }
        sent = {"root": "a", "memory": '{"content": "x", "n": null}'}
        assert schemas.check_arguments(schemas.Add, sent)["memory"] == {"content": "x", "n": None}

    @pytest.mark.parametrize(
        ("sent", "told"),
        [
            ({}, "query"),
            ({"query": ""}, "query"),
            ({"query": "x", "limit": 0}, "limit"),
            ({"query": "x", "mode": "canary-7f3"}, "hybrid, semantic, text"),
            ({"query": "x", "canary-7f3": 1}, "unknown argument"),
            ({"query": "x", "tags": "canary-7f3"}, "tags"),
            ({"query": "x", "tags": {"canary-7f3": 1}}, "tags"),
        ],
    )
    def test_what_is_wrong_is_named_without_its_value(self, sent: Values, told: str) -> None:
        with pytest.raises(UsageError, match=told) as refused:
            schemas.check_arguments(schemas.Search, sent)
        assert "canary" not in error_text(refused.value)


class TestTelling:
    def test_a_fault_of_ours_is_told_by_its_place_alone(self) -> None:
        with pytest.raises(ValueError, match="content of a memory") as fault:
            int("content of a memory")
        text = error_text(internal(fault.value))
        assert "content of a memory" not in text
        assert "test_memories.py" in text

    def test_only_a_bare_text_is_markdown(self) -> None:
        assert content_of({"text": "## x"}) == ("text/markdown", "## x")
        assert content_of({"text": "x", "id": 1})[0] == "application/json"

    def test_no_error_repeats_what_looks_like_a_secret(self) -> None:
        secret = "ghp_" + "a1B2c3D4" * 5
        error = MemorydError(f"bad {secret}", hint=f"not {secret}", data={"findings": [{"field": secret}]})
        assert secret not in error_text(error)
