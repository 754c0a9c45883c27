"""Limits to roots, merged answers, pages, URIs and arguments, without the protocol."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from memoryd.errors import ConflictError, MemorydError, NotFoundError, PausedError, UnknownRootError, UsageError
from memoryd.mcp import schemas
from memoryd.mcp.memories import Memories, memory_uri, parse_uri
from memoryd.mcp.tools import TOOLS, content_of, describe, error_text, internal_error, run_tool
from tests.mcp.fake import FakeDaemon

Values = dict[str, Any]

FIVE: dict[str, dict[str, Values]] = {
    root: {f"{root}{i}": {"content": f"pool {root} {'size ' * (i % 2)}{i}"} for i in range(7)}
    for root in ("agents", "notes", "private", "d", "e")
}


@pytest.fixture
def daemon() -> FakeDaemon:
    return FakeDaemon(**{root: dict(rows) for root, rows in FIVE.items()})


def limited_to(daemon: FakeDaemon, *roots: str) -> Memories:
    return Memories(daemon, roots)


class TestTwoRootsOfFive:
    def test_a_search_covers_both_roots(self, daemon: FakeDaemon) -> None:
        result = limited_to(daemon, "agents", "e").search({"query": "pool size", "limit": 8})
        assert daemon.calls_of("memory.search") == [{"query": "pool size", "limit": 8, "roots": ["agents", "e"]}]
        assert {hit["root"] for hit in result["hits"]} == {"agents", "e"}
        assert set(result["fresh"]) == {"agents", "e"}
        one = limited_to(daemon, "agents", "e").search({"query": "pool", "root": "e"})
        assert {hit["root"] for hit in one["hits"]} == {"e"}

    def test_a_missing_root_is_reported_without_naming_the_others(self, daemon: FakeDaemon) -> None:
        del daemon.memories["e"]
        with pytest.raises(UnknownRootError, match="'e'") as refused:
            limited_to(daemon, "agents", "e").search({"query": "pool"})
        assert "notes" not in error_text(refused.value)
        assert limited_to(daemon, "agents", "e").status({})["missing"] == ["e"]

    def test_pages_cover_both_roots_with_each_memory_once(self, daemon: FakeDaemon) -> None:
        memories = limited_to(daemon, "agents", "e")
        ids: list[str] = []
        cursor: str | None = None
        for _ in range(20):
            page = memories.page({"limit": 3} | ({"cursor": cursor} if cursor else {}))
            ids += [row["id"] for row in page["memories"]]
            cursor = page.get("next_cursor")
            if cursor is None:
                break
        assert ids == [*FIVE["agents"], *FIVE["e"]]

    def test_an_id_is_searched_in_both_roots_only(self, daemon: FakeDaemon) -> None:
        memories = limited_to(daemon, "agents", "e")
        assert memories.get({"id": "e3"})["root"] == "e"
        with pytest.raises(NotFoundError):
            memories.get({"id": "notes3"})
        with pytest.raises(UnknownRootError):
            memories.get({"id": "notes3", "root": "notes"})
        assert {params["root"] for params in daemon.calls_of("memory.get")} == {"agents", "e"}

    def test_a_root_that_cannot_be_read_does_not_hide_the_memory_of_another(self, daemon: FakeDaemon) -> None:
        def paused(method: str, params: Any) -> Values:
            if params.get("root") == "agents":
                raise PausedError("root agents is paused")
            return daemon(method, params)

        memories = Memories(paused, ("agents", "e"))
        assert memories.get({"id": "e3"})["root"] == "e"
        with pytest.raises(PausedError):
            memories.get({"id": "agents1"})

    def test_an_id_in_both_roots_is_ambiguous(self, daemon: FakeDaemon) -> None:
        daemon.memories["e"]["agents1"] = {"content": "same id"}
        with pytest.raises(ConflictError) as refused:
            limited_to(daemon, "agents", "e").get({"id": "agents1"})
        assert refused.value.data["roots"] == ["agents", "e"]
        with pytest.raises(ConflictError):
            limited_to(daemon, "agents", "e").forget({"id": "agents1"})
        assert not daemon.calls_of("memory.forget")

    def test_a_change_goes_to_the_root_of_the_id(self, daemon: FakeDaemon) -> None:
        changed = limited_to(daemon, "agents", "e").update({"id": "e1", "changes": {"content": "new"}})
        assert changed["uri"] == "memory://e/e1"
        assert daemon.calls_of("memory.update") == [{"id": "e1", "root": "e", "changes": {"content": "new"}}]

    def test_results_from_other_roots_are_dropped(self, daemon: FakeDaemon) -> None:
        def leaky(method: str, params: Any) -> Values:
            return daemon(method, {name: value for name, value in params.items() if name not in ("root", "roots")})

        memories = Memories(leaky, ("agents", "e"))
        assert {hit["root"] for hit in memories.search({"query": "pool"})["hits"]} <= {"agents", "e"}
        assert {row["root"] for row in memories.page({})["memories"]} <= {"agents", "e"}
        with pytest.raises(NotFoundError):
            memories.get({"id": "notes3"})


class TestStoring:
    def test_the_only_root_need_not_be_named(self, daemon: FakeDaemon) -> None:
        assert limited_to(daemon, "d").add({"memory": {"content": "x"}})["root"] == "d"
        with pytest.raises(UsageError, match="specify the root to store in") as refused:
            limited_to(daemon, "d", "e").add({"memory": {"content": "x"}})
        assert "d (unknown)" in str(refused.value.hint) or "d" in str(refused.value.hint)
        alone = FakeDaemon()
        alone.memories = {"agents": {}}
        assert limited_to(alone).add({"memory": {"content": "x"}})["root"] == "agents"

    def test_a_touch_counts_a_use_and_changes_nothing_else(self, daemon: FakeDaemon) -> None:
        limited_to(daemon).update({"id": "e1", "touch": True})
        assert daemon.calls_of("memory.get")[-1] == {"id": "e1", "root": "e", "touch": True}
        assert not daemon.calls_of("memory.update")
        with pytest.raises(UsageError, match="no changes given"):
            limited_to(daemon).update({"id": "e1"})

    def test_no_reading_tool_asks_for_more_than_reading(self, daemon: FakeDaemon) -> None:
        given = {
            "search_memories": {"query": "x"},
            "get_memory": {"id": "e1"},
            "list_memories": {},
            "memory_status": {},
        }
        for name, tool in TOOLS.items():
            if not tool.writes:
                run_tool(tool, limited_to(daemon), given[name], read_only=True)
        assert not any(params.get("touch") for _, params in daemon.calls)
        assert {method for method, _ in daemon.calls} <= {"status", "memory.search", "memory.get", "memory.list"}


class TestVectors:
    def test_they_are_left_out_unless_requested(self, daemon: FakeDaemon) -> None:
        native = {"data": {"content": "tea"}, "embedding": [0.5] * 384}
        daemon.memories["private"]["u"] = native
        short = limited_to(daemon).get({"id": "u"})
        assert short["memory"] == {"data": {"content": "tea"}}
        assert short["left_out"] == ["embedding"]
        assert limited_to(daemon).get({"id": "u", "embedding": True})["memory"] == native


@given(root=st.text(min_size=1), memory=st.text(min_size=1))
def test_every_id_survives_its_uri(root: str, memory: str) -> None:
    uri = memory_uri(root, memory)
    assert uri.isascii()
    assert uri.count("/") == 3
    assert parse_uri(uri) == (root, memory)


class TestArguments:
    @pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: str(tool.name))
    def test_the_schema_has_no_references(self, tool: Any) -> None:
        assert "$ref" not in str(schemas.arguments_schema(tool.arguments))

    def test_loosely_typed_arguments_are_converted(self) -> None:
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
        ("sent", "expected"),
        [
            ({}, "query"),
            ({"query": ""}, "query"),
            ({"query": "x", "limit": 0}, "limit"),
            ({"query": "x", "mode": "canary-7f3"}, "`mode` is one of hybrid, semantic, text"),
            ({"query": "x", "rerank": "canary-7f3 `$.mode`"}, "`rerank` is one of minilm, off"),
            ({"query": "x", "canary-7f3": 1}, "unknown argument"),
            ({"query": "x", "tags": "canary-7f3"}, "tags"),
            ({"query": "x", "tags": {"canary-7f3": 1}}, "tags"),
        ],
    )
    def test_what_is_wrong_is_named_without_its_value(self, sent: Values, expected: str) -> None:
        with pytest.raises(UsageError, match=expected) as refused:
            schemas.check_arguments(schemas.Search, sent)
        assert "canary" not in error_text(refused.value)

    @pytest.mark.parametrize(("kind", "fields"), [(schemas.Add, "memory"), (schemas.Update, "changes")])
    def test_a_field_beside_the_memory_is_sent_to_its_place(self, kind: type[Struct], fields: str) -> None:
        with pytest.raises(UsageError, match="unknown argument") as refused:
            schemas.check_arguments(kind, {"content": "x"})
        assert refused.value.hint == f"give the fields of the memory in `{fields}`"


class TestTexts:
    def test_roots_that_cannot_store_are_marked(self) -> None:
        text = describe(TOOLS["add_memory"], {"a": "jsonl-store", "n": "notes", "new": "unknown"})
        assert text.endswith("Roots: a (jsonl-store), n (notes, read-only), new (unknown).")

    def test_a_bug_is_reported_by_its_place_alone(self) -> None:
        with pytest.raises(ValueError, match="content of a memory") as fault:
            int("content of a memory")
        text = error_text(internal_error(fault.value))
        assert "content of a memory" not in text
        assert "test_memories.py" in text

    def test_only_a_bare_text_is_markdown(self) -> None:
        assert content_of({"text": "## x"}) == ("text/markdown", "## x")
        assert content_of({"text": "x", "id": 1})[0] == "application/json"

    def test_no_error_repeats_what_looks_like_a_secret(self) -> None:
        secret = "ghp_" + "a1B2c3D4" * 5
        error = MemorydError(f"bad {secret}", hint=f"not {secret}", data={"findings": [{"field": secret}]})
        assert secret not in error_text(error)
