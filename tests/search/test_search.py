"""Search as a whole: no file is opened, users stay apart, answers say how fresh they are and fit a budget."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from memoryd.control.methods import TABLE
from memoryd.control.methods.memories import Freshness
from memoryd.control.parameters import check_params
from memoryd.core.records import Document
from memoryd.errors import UsageError
from memoryd.operations.search import SearchQuery, pack_context, search
from memoryd.operations.search_scope import SearchRoot, freshness, resolve_scope, user_in
from memoryd.search.snippets import WIDTH
from tests.operations.world import World
from tests.parameters import given
from tests.search.stored import Stored, memory, row_of, search_all

TOKEN = "ghp_" + "a1B2c3D4" * 5


class TestNoFileIsOpened:
    """A query uses the index alone (seed 002 and every other)."""

    @pytest.fixture
    def opened(self) -> Iterator[list[Any]]:
        """Record the opened files by an audit hook, which cannot be removed."""
        seen: list[Any] = []
        watching = [True]

        def told(event: str, given: tuple[Any, ...]) -> None:
            if watching and event in ("open", "os.scandir", "os.listdir"):
                seen.append((event, given[0]))

        sys.addaudithook(told)
        yield seen
        watching.clear()

    def test_by_a_search(self, stored: Stored, opened: list[Any]) -> None:
        stored.texts("zebra", "giraffe")
        for first in ("zebra", "unknown"):  # what is loaded for the first one is no memory file
            stored.search(first, max_tokens=100)
        opened.clear()
        for query in ("zebra", "zebras giraffes", "unknown", "ebr", "???"):
            stored.search(query, max_tokens=100)
        assert opened == []

    def test_the_count_counts(self, tmp_path: Path, opened: list[Any]) -> None:
        (tmp_path / "file").write_text("x")
        os.close(os.open(tmp_path / "file", os.O_RDONLY))
        assert [event for event, path in opened if str(path) == str(tmp_path / "file")] == ["open"] * 2


def test_a_root_as_the_worker_reads_it(tmp_path: Path) -> None:
    """From the file to the hit, with place and time."""
    world = World(tmp_path)
    line = (
        '{"id":"11111111-1111-4111-8111-111111111111","type":"core","content":"Zebras cross here.",'
        '"created_at":"2025-01-02T03:04:05Z","tags":["animals"],"importance":"high"}'
    )
    (world.root / "core_memories.jsonl").write_text(f"{line}\n")
    world.look()
    place = SearchRoot("agents", world.store.catalogue, "jsonl-store", "ok", 1, 0)
    [hit] = search([place], SearchQuery("zebra", mode="text"), now=world.now, clock=lambda: 0.0).hits
    assert (hit.root, hit.path, hit.line) == ("agents", "core_memories.jsonl", 1)
    assert (hit.type, hit.tags, hit.created) == ("core", ["animals"], "2025-01-02T03:04:05Z")
    assert hit.snippet == "Zebras cross here."
    world.store.close()


class TestUsers:
    @pytest.fixture
    def users(self, stored: Stored) -> Stored:
        stored.layout = "user-document"
        stored.put(memory("ann/1", "zebra", owner="ann"), memory("bob/1", "zebra", owner="bob"))
        return stored

    def test_nothing_of_several_unless_one_is_named(self, users: Stored) -> None:
        found = users.search("zebra")
        assert found["hits"] == []
        assert "(ann, bob)" in found["fresh"]["root"]["withheld"]

    def test_the_name_by_which_a_memory_is_stored_finds_it(self, stored: Stored) -> None:
        """The user's own part of the path, as for `add`, or the whole path."""
        stored.layout = "user-document"
        stored.put(memory("files/ann/1", "zebra", owner="files/ann"), memory("files/bob/1", "zebra", owner="files/bob"))
        assert stored.ids("zebra", user="ann") == stored.ids("zebra", user="files/ann") == ["files/ann/1"]

    def test_a_document_in_the_root_is_a_user_of_its_own(self, stored: Stored) -> None:
        stored.layout = "user-document"
        stored.put(memory("1", "zebra", owner=""), memory("ann/1", "zebra", owner="ann"))
        assert stored.ids("zebra") == []
        assert stored.ids("zebra", user="ann") == ["ann/1"]

    def test_in_a_layout_without_users_no_memory_of_a_user_is_shown(self, stored: Stored) -> None:
        """The index may still have some of the layout that the root had before."""
        stored.put(memory("1", "zebra"), memory("ann/1", "zebra", owner="ann"))
        assert stored.ids("zebra") == stored.listed() == ["1"]

    def test_two_roots_of_one_user_each_are_not_answered_together(self) -> None:
        one, other = {"a": ["ann"], "b": ["bob"], "c": []}, {"a": ["ann"], "b": ["ann"]}
        fresh = {name: Freshness(state="fresh", generation=1, lag_ms=0) for name in "abc"}
        assert resolve_scope(one, None, fresh) == {"c": None}
        assert [name for name in "abc" if fresh[name].withheld is not UNSET] == ["a", "b"]
        assert resolve_scope(other, None, fresh) == {"a": "ann", "b": "ann"}
        assert resolve_scope(one, "bob", fresh) == {"b": "bob"}

    @pytest.mark.parametrize("vector", [[0.5, 1], [], ["0.5"], [True], "x"])
    def test_a_vector_is_a_list_of_numbers(self, vector: object) -> None:
        if vector in ([0.5, 1], []):
            assert given(check_params(TABLE["memory.search"], {"vector": vector}))["vector"] == vector
            return
        with pytest.raises(UsageError, match="a list of finite numbers"):
            check_params(TABLE["memory.search"], {"vector": vector})

    def test_the_user_of_an_id_is_in_it(self) -> None:
        owners = {"a": ["files/ann", "files/bob"]}
        assert user_in(owners, "files/ann/5a66") == "files/ann"
        assert user_in(owners, "5a66") is None

    def test_only_the_named_one(self, users: Stored) -> None:
        assert users.ids("zebra", user="ann") == ["ann/1"]
        assert users.ids("zebra", user="bob") == ["bob/1"]
        for nobody in ("carl", "an"):
            with pytest.raises(UsageError) as refused:
                users.ids("zebra", user=nobody)
            assert refused.value.hint == "users: ann, bob"
        assert users.ids("zebr", user="ann") == ["ann/1"]

    def test_a_single_one_needs_no_name(self, stored: Stored) -> None:
        stored.layout = "user-document"
        stored.put(memory("ann/1", "zebra", owner="ann"), memory("ann/2", "zebra", owner="ann"))
        assert stored.ids("zebra") == ["ann/2", "ann/1"]
        assert stored.hits("zebra")[0]["user"] == "ann"

    def test_who_is_there_is_known_anew_after_every_change(self, stored: Stored) -> None:
        """One connection answers all of these: what it remembers of the users holds as long as nothing changes."""
        stored.layout, catalogue = "user-document", stored.catalogue
        with catalogue.reader() as lent:
            pass

        def told() -> list[str]:
            found = stored.search("zebra")
            with catalogue.reader() as reader:
                assert reader is lent
            assert ("withheld" in found["fresh"]["root"]) == (not found["hits"])
            return [hit["id"] for hit in found["hits"]]

        stored.put(memory("ann/1", "zebra", owner="ann"))
        assert [told(), told()] == [["ann/1"]] * 2
        stored.put(memory("bob/1", "zebra", owner="bob"))
        assert [told(), told()] == [[]] * 2
        catalogue.forget("ann/1.json")
        assert told() == ["bob/1"]
        catalogue.append(row_of("bob/1.json"), Document("bob/1.json", (memory("ann/2", "zebra", owner="ann"),)))
        assert told() == []
        with catalogue.reader() as inside:
            assert inside.owners() == ("ann", "bob")
            catalogue.clear()
            assert inside.owners() == ("ann", "bob")  # as all else of its state
        stored.put(memory("carl/1", "zebra", owner="carl"))
        assert told() == ["carl/1"]
        stored.put(memory("1", "zebra", owner=""))  # a document in the root itself
        assert told() == []

    def test_a_user_who_came_between_two_queries_is_not_revealed(self, users: Stored) -> None:
        """Neither by a list nor by a query of another thread: each reader reads for itself."""
        users.catalogue.forget("bob/1.json")
        with users.catalogue.reader(), users.catalogue.reader():
            assert users.ids("zebra") == ["ann/1"] == users.listed()
        users.put(memory("bob/2", "zebra", owner="bob"))
        for _ in range(3):
            assert users.ids("zebra") == [] == users.listed()
            with users.catalogue.reader(), users.catalogue.reader():
                assert users.ids("zebra") == [] == users.listed()

    def test_who_names_a_user_gets_nobody_elses(self, users: Stored, tmp_path: Path) -> None:
        other = Stored(tmp_path / "other", name="other")
        other.texts("zebra")
        assert [hit["id"] for hit in search_all([users, other], "zebra", user="ann")["hits"]] == ["ann/1"]
        assert [hit["id"] for hit in search_all([users, other], "zebra")["hits"]] == ["m0"]


class TestFreshness:
    @pytest.mark.parametrize(
        ("state", "lag_ms", "fresh"),
        [
            ("ok", 0, "fresh"),
            ("ok", 12, "stale"),
            ("degraded", 0, "fresh"),
            ("read_only", 0, "fresh"),
            ("paused", 0, "stale"),
            ("scanning", 0, "stale"),
            ("starting", 0, "unknown"),
            ("missing", 0, "unknown"),
            ("suspect", 0, "unknown"),
            ("failed", 0, "unknown"),
        ],
    )
    def test_of_each_state(self, stored: Stored, state: str, lag_ms: int, fresh: str) -> None:
        """The known results are returned all the same."""
        stored.texts("zebra")
        stored.state, stored.lag_ms = state, lag_ms
        reason = state if state in ("paused", "missing") else UNSET
        assert freshness(stored.place) == Freshness(state=fresh, generation=3, lag_ms=lag_ms, reason=reason)
        found = stored.search("zebra")
        assert found["fresh"]["root"]["state"] == fresh
        assert len(found["hits"]) == 1

    def test_a_catalogue_that_cannot_be_read_spoils_no_other_answer(self, stored: Stored, tmp_path: Path) -> None:
        other = Stored(tmp_path / "other", name="other")
        other.texts("zebra")
        stored.texts("zebra")
        stored.close()
        for file in tmp_path.glob("catalogue.sqlite*"):
            file.write_bytes(b"no database at all, " * 400)
        found = search_all([stored, other], "zebra")
        assert [hit["root"] for hit in found["hits"]] == ["other"]
        assert found["fresh"]["root"]["state"] == "unknown"
        assert found["fresh"]["other"]["state"] == "fresh"

    def test_a_root_that_was_taken_away_meanwhile(self, stored: Stored, tmp_path: Path) -> None:
        stored.texts("zebra")
        stored.close()
        for file in tmp_path.glob("catalogue.sqlite*"):
            file.unlink()
        assert stored.search("zebra")["fresh"]["root"]["state"] == "unknown"


class TestBudget:
    def test_whole_memories_the_best_first_with_their_source(self, stored: Stored) -> None:
        stored.put(
            memory("b", "A zebra somewhere in a longer story about the town and its river.", age=2),
            memory("a", "zebra crossing", age=1, line=7),
        )
        found = stored.search("zebra crossing", max_tokens=1000)
        text = found["embedding"]
        assert text.startswith("[root: a, a.json:7, 2027-01-14]\nzebra crossing\n\n[root: b, b.json:1, ")
        assert text.endswith("the town and its river.")
        assert found["tokens"] == -(-len(text) // 4)
        assert [hit["id"] for hit in found["hits"]] == ["a", "b"]

    @pytest.mark.parametrize("budget", [1, 10, 20, 30, 50, 100, 200, 1000])
    def test_never_more_than_the_budget(self, stored: Stored, budget: int) -> None:
        stored.texts(*(f"zebra {'word ' * number}\nsecond line {number}" for number in range(1, 60, 7)))
        found = stored.search("zebra", max_tokens=budget)
        assert found["tokens"] <= budget
        assert len(found["embedding"]) <= budget * 4
        for hit in found["hits"][1:]:
            assert f"second line {int(hit['id'][1:]) * 7 + 1}" in found["embedding"], "whole"

    def test_the_first_too_long_is_cut_at_the_end_of_a_line(self, stored: Stored) -> None:
        stored.texts("zebra\n" + "\n".join(f"line {number}" for number in range(500)))
        found = stored.search("zebra", max_tokens=50)
        lines = found["embedding"].split("\n")
        assert lines[1] == "zebra"
        assert lines[-1] == f"line {len(lines) - 3}"
        assert 150 < len(found["embedding"]) <= 200

    def test_a_shorter_memory_replaces_one_that_does_not_fit(self, stored: Stored) -> None:
        stored.put(memory("long", "zebra stripes " + "many words " * 300), memory("short", "zebra", age=900))
        stored.put(memory("first", "zebra stripes zebra stripes"))
        assert [hit["id"] for hit in stored.search("zebra stripes", max_tokens=60)["hits"]] == ["first", "short"]

    def test_nothing_found_is_an_empty_text(self, stored: Stored) -> None:
        assert stored.search("zebra", max_tokens=10)["embedding"] == ""
        assert pack_context([], 10) == ("", [])

    def test_the_title_is_said_once(self, stored: Stored) -> None:
        stored.put(memory("a", "## 2025-01-01: Zebras\n\nText.", title="Zebras"), memory("b", "text", title="Zebra b"))
        text = stored.search("zebra text", max_tokens=100)["embedding"]
        assert text.count("Zebras") == 1
        assert "Zebra b\ntext" in text


class TestSnippets:
    def test_around_what_was_found(self, stored: Stored) -> None:
        stored.texts("word " * 200 + "a zebra crossing here " + "word " * 200)
        [hit] = stored.hits("zebra crossing")
        assert "a zebra crossing here" in hit["snippet"]
        assert hit["snippet"].startswith("…")
        assert hit["snippet"].endswith("…")
        assert len(hit["snippet"]) <= WIDTH

    def test_where_most_of_the_words_stand(self, stored: Stored) -> None:
        stored.texts("zebra " + "word " * 200 + "zebra giraffe lion " + "word " * 100)
        assert "zebra giraffe lion" in stored.hits("lion giraffe zebra")[0]["snippet"]

    def test_words_that_are_together_however_far_down(self, stored: Stored) -> None:
        """Even if one of them is alone long before: a long text is not searched completely."""
        stored.texts("zebra " + "word " * 2_000 + "a giraffe saw the zebra " + "word " * 2_000)
        assert "a giraffe saw the zebra" in stored.hits("zebra giraffe")[0]["snippet"]

    @pytest.mark.parametrize("before", range(60, 260, 3))
    def test_never_half_a_mark_and_never_a_secret(self, stored: Stored, before: int) -> None:
        stored.texts("x" * before + f" {TOKEN} zebra " + "y " * 20 + f"{TOKEN} " + "z" * 300)
        [hit] = stored.hits("zebra")
        snippet = hit["snippet"]
        assert TOKEN[8:] not in str(hit)
        assert snippet.count("[redacted:") == snippet.count("]")
        assert "redacted:" not in snippet.replace("[redacted:", "")

    def test_on_one_line_and_by_whole_characters(self, stored: Stored) -> None:
        stored.texts("日本語の" * 200 + "\n\n探す\t言葉" + "です。" * 200)
        [hit] = stored.hits("探す")
        assert "探す 言葉" in hit["snippet"]
        assert len(hit["snippet"]) <= WIDTH

    def test_of_a_match_in_the_title_alone(self, stored: Stored) -> None:
        stored.put(memory("a", "Body of it.", title="Zebra"), memory("b", "", title="Zebra b"))
        assert {hit["id"]: hit["snippet"] for hit in stored.hits("zebra")} == {"a": "Body of it.", "b": "Zebra b"}
