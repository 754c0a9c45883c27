"""One JSON file a memory: the five laws, the server's own shapes to the byte, and its real damage."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from memoryd.core.dates import iso_ms
from memoryd.core.defaults import DAY, Policy
from memoryd.core.plan import Kind, Plan
from memoryd.core.records import FRESH_S, Document, Entry, FileChange, FileStats, Role
from memoryd.core.spans import joined, sha256, splice
from memoryd.layouts.json_files import JSON_FILES
from memoryd.layouts.json_files.names import free_name, sort_key
from memoryd.layouts.json_files.schema import new_id, render_new
from memoryd.layouts.protocol import IndexResult, IndexView, Layout, LoadedFile
from tests.layouts.contract import (
    NOW,
    OLD,
    PLANNED,
    Files,
    LayoutContract,
    WholeIndex,
    carried_out,
    carry_out,
    document,
    index_of,
    upkeep_view,
    whole,
)
from tests.layouts.json_samples import corpus, file, identity, memory, name, pretty, store

JSON = JSON_FILES
INDEX, STATS = "_index.json", "_stats.json"
FLAG = Policy(archive_flag=True)
ONE = name(1)

DUE = file(5, created="2025-01-01T00:00:00.000Z", relevanceScore=0.1, accessCount=1)
TENDED: Files = {
    **store(1, 2, 3),
    name(5): DUE,
    name(6): file(6, tags=[], entities=None, projectId=None, type="new_type", content="é 东京 😀 \u2028 \x7f"),
    name(7): file(7, archived=True, relevanceScore=0.05),
    "memory_20250609163801_1.json": file(8, created="2025-06-09T23:38:20.999Z"),
}
DAMAGED: Files = {
    name(1): file(1) + b"se\n}",
    name(2): file(2) + b"\n" + file(3),
    name(3): b"\xef\xbb\xbf" + file(3),
    name(4): b"",
    name(5): DUE.replace(b"},", b"},,"),
    name(6): file(6, tags="x", created="yesterday", archived="no", version=-1, accessCount=2.5),
    name(7): pretty([memory(7)]),
    name(8): file(1),
    name(9): json.dumps(memory(9)).encode() + b"\n",
    "global_memories.json": b"[]",
    "_backup/memory_20250609163801.json": file(1),
}


class TestContract(LayoutContract):
    layout: ClassVar[Layout] = JSON
    samples: ClassVar[Sequence[Mapping[str, bytes]]] = (TENDED, DAMAGED, corpus())

    def _draw_plan(self, data: st.DataObject) -> tuple[Callable[[Files], Plan], Files]:
        if data.draw(st.booleans()):
            return super()._draw_plan(data)
        return lambda now: JSON.upkeep.archive(upkeep_view(JSON, now, FLAG), None), self._draw_store(data)

    def _archive_plan(self, files: Files) -> Plan:
        return JSON.upkeep.archive(upkeep_view(JSON, files, FLAG), None)

    @PLANNED
    @given(data=st.data())
    def test_surgery_only_what_is_moved_changes(self, data: st.DataObject) -> None:
        """Nothing moves here: of a touched memory only the value of `archived` differs, and nothing beside it."""
        decide, files = self._draw_plan(data)
        for action in decide(files).actions:
            assert action.kind is Kind.REWRITE
            before, after = files[action.path], splice(files[action.path], action.edits)
            (old,), (new,) = document(JSON, action.path, before).records, document(JSON, action.path, after).records
            assert new.archived
            assert not old.archived
            assert {**new.native, "archived": None} == {**old.native, "archived": None}
            assert after[: new.span.start] == before[: old.span.start]
            assert after[new.span.end :] == before[old.span.end :]

    @PLANNED
    @given(data=st.data())
    def test_conservation_no_memory_vanishes_at_any_moment(self, data: st.DataObject) -> None:
        decide, files = self._draw_plan(data)
        ids = sorted(each.id for each in self._live(files))
        for left in carry_out(files, decide(files)):
            assert left.keys() == files.keys()
            assert sorted(each.id for each in self._live(left)) == ids


def codes(found: Document) -> list[str]:
    return [each.code for each in found.findings]


def read(data: bytes, path: str = ONE, **when: float) -> Document:
    return document(JSON, path, data, **when)


def loaded(data: bytes, path: str = ONE) -> LoadedFile:
    return LoadedFile(data, read(data, path), OLD)


def index(result: WholeIndex) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(result.files[INDEX])
    return body


def stats(result: WholeIndex) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(result.files[STATS])
    return body


def settled(files: Files) -> Files:
    """The store with the indices that belong to it."""
    return {**files, **index_of(JSON, files).files}


def written(files: Files) -> set[str]:
    return set(index_of(JSON, files, NOW + 1000).files)


class TestTheRealFolder:
    """Test vector 10."""

    def test_four_ids_three_repairable_files_a_total_of_four_and_47_dangling_ids(self) -> None:
        files = corpus()
        result = index_of(JSON, files)
        assert len(index(result)["fileIndex"]) == 4
        assert sorted(index(result)["fileIndex"].values()) == sorted(JSON.reader.source_paths(files))
        assert stats(result)["totalMemories"] == 4
        assert stats(result)["byType"]["decision"] == 4
        torn = [path for path in JSON.reader.source_paths(files) if codes(read(files[path], path)) == ["torn-file"]]
        assert len(torn) == 3
        (finding,) = result.findings
        assert finding.code == "lost-to-name-collision"
        assert finding.message.startswith("47 memories are lost: their files were")

    def test_a_second_pass_writes_nothing(self) -> None:
        assert written(settled(corpus())) == set()

    def test_overwritten_memories_are_still_reported_once_the_index_lists_them_no_more(self) -> None:
        """Dropped ids must not vanish from the report with the index that named them."""
        files = corpus()
        first = index_of(JSON, files)
        files |= first.files
        again = reindexed(files, first.next_state)
        assert [each.message for each in again.findings] == [each.message for each in first.findings]
        assert again.next_state == first.next_state
        assert len(again.next_state["lost"]) == 47

    def test_a_lost_memory_that_comes_back_is_no_longer_lost(self) -> None:
        files = settled(store(1))
        result = reindexed(files, {"lost": [identity(1), identity(2)]})
        assert result.next_state == {"lost": [identity(2)]}
        assert reindexed(files, {"lost": [identity(1)]}).findings == ()

    def test_repair_leaves_the_exact_bytes_of_the_first_value(self) -> None:
        for path, data in corpus().items():
            if not JSON.reader.source_paths([path]) or not data.endswith(b"}se\n}"):
                continue
            (fix,) = JSON.repair.fixes(path, loaded(data, path), NOW)
            after = splice(data, fix.edits)
            assert after == data[: -len(b"se\n}")]
            assert fix.safe
            assert fix.code == "torn-file"
            assert codes(read(after, path)) == []
            assert JSON.repair.fixes(path, loaded(after, path), NOW) == ()
            assert read(after, path).records == read(data, path).records

    def test_files_of_the_server_are_written_as_the_server_writes_them(self) -> None:
        """Two spaces, no final newline: JSON.stringify(value, null, 2)."""
        files = settled(corpus())
        for path in (INDEX, STATS):
            assert files[path] == pretty(json.loads(files[path]))


def reindexed(files: Files, remembered: Mapping[str, Any]) -> WholeIndex:
    seen: list[Any] = []

    def render(view: Any) -> IndexResult:
        seen.append(view)
        return JSON.index.render(replace(view, state=remembered))

    return index_of(replace(JSON, index=replace(JSON.index, render=render)), files)


class TestNames:
    def test_one_file_is_one_memory_of_the_known_name(self) -> None:
        """Fourteen digits, and the counted form; names with an underscore in front are not memories."""
        for path in (ONE, "memory_20250609163820_1.json", "memory_20250609163820_12.json"):
            assert JSON.reader.role(path) is Role.SOURCE
            assert JSON.reader.source_paths([path]) == (path,)
        for path in (
            "memory_2025060916382.json",
            "memory_202506091638200.json",
            "memory_20250609163820_.json",
            "memory_20250609163820_a.json",
            "memory_２０２５0609163820.json",
            f"sub/{ONE}",
            f"_{ONE}",
            "_config.json",
            "notes.md",
        ):
            assert JSON.reader.role(path) is Role.FOREIGN
            assert JSON.reader.source_paths([path]) == ()
        assert JSON.reader.role(INDEX) is JSON.reader.role(STATS) is Role.INDEX
        assert JSON.reader.role(f"{ONE}.tmp") is Role.TEMP

    def test_live_files_come_in_order_of_time_and_counter(self) -> None:
        names = ["memory_20250609163820_10.json", "memory_20250609163820_2.json", "memory_20250609163820.json"]
        assert JSON.reader.source_paths(names) == tuple(reversed(names))
        assert sort_key("memory_20250609163820_" + "9" * 5000 + ".json")

    @given(
        st.sets(st.tuples(st.sampled_from("012"), st.sampled_from(["", "_0", "_1", "_2", "_9", "_02", "_10", "_010"])))
    )
    def test_the_order_is_that_of_the_key(self, parts: set[tuple[str, str]]) -> None:
        names = [f"memory_2025060916382{second}{counter}.json" for second, counter in parts]
        assert JSON.reader.source_paths(names) == tuple(sorted(names, key=sort_key))

    def test_a_taken_name_is_counted_up(self) -> None:
        """The server writes the bare name without looking, so memoryd never takes that."""
        moment = datetime(2025, 6, 9, 16, 38, 20)  # noqa: DTZ001 - names are in local time
        taken: list[str] = []
        for wanted in ("_1", "_2", "_3"):
            made = free_name(moment, taken.__contains__)
            assert made == f"memory_20250609163820{wanted}.json"
            assert JSON.reader.role(made) is Role.SOURCE
            taken.append(made)

    def test_a_name_among_many_of_the_same_second_costs_few_looks(self) -> None:
        moment, asked = datetime(2026, 1, 31, 10), list[str]()  # noqa: DTZ001 - names are in local time
        taken = {"memory_20260131100000.json"} | {f"memory_20260131100000_{n}.json" for n in range(1, 1000) if n != 77}

        def is_taken(name: str) -> bool:
            asked.append(name)
            return name in taken

        made = free_name(moment, is_taken)
        assert made not in taken
        assert made in asked
        assert len(asked) <= 22

    def test_legacy_files_are_reported_and_are_not_memories(self) -> None:
        files = {
            **store(1),
            "global_memories.json": pretty([memory(2)]),
            "project_a b_memories.json": pretty([memory(3)]),
            f"_backup/{ONE}": file(4),
            "_backup/x/y.json": b"",
        }
        for path in ("global_memories.json", "project_a b_memories.json"):
            assert codes(read(files[path], path)) == ["legacy-file"]
            assert not read(files[path], path).records
        result = index_of(JSON, files)
        assert list(index(result)["fileIndex"]) == [identity(1)]
        assert [(each.code, each.path) for each in result.findings] == [("legacy-file", "_backup")]
        assert result.findings[0].message.startswith("2 files")
        assert set(JSON.reader.source_paths(files)) == {ONE}


class TestMemory:
    def test_the_seeds_own_example_is_sound(self) -> None:
        """It lacks what the server always writes; only `id` is required."""
        example = {
            "content": "When working on localization (i18n) string extraction...",
            "summary": "Use ICU Message Format for i18n projects",
            "type": "pattern",
            "confidence": 0.8,
            "tags": ["i18n", "localization", "ICU", "translation"],
            "entities": ["ICU Message Format", "i18next"],
            "id": "mem_1748681950340_nrs0enwdu",
            "version": 1,
            "created": "2025-05-31T08:59:10.340Z",
            "lastAccessed": "2025-05-31T08:59:10.340Z",
            "accessCount": 0,
            "relevanceScore": 1,
            "archived": False,
        }
        found = read(pretty(example), "memory_20250531014523.json")
        assert not found.findings
        (record,) = found.records
        assert (record.id, record.type, record.title) == (example["id"], "pattern", example["summary"])
        assert record.tags == ("i18n", "localization", "ICU", "translation")
        assert record.facts["timestamp"] == example["created"]  # never the name's 01:45:23

    def test_only_the_id_is_required(self) -> None:
        found = read(b'{"id":"mem_1748681950340_nrs0enwdu"}')
        assert not found.findings
        assert found.records[0].facts["relevance"] == 1
        assert found.records[0].facts["timestamp"] == "2025-05-31T08:59:10.340Z"

    @pytest.mark.parametrize("data", [b"[]", b"null", b"5", b'"x"', b"{}", b'{"id":5}', b'{"id":""}', b'{"id":null}'])
    def test_only_an_object_with_an_id_is_a_memory(self, data: bytes) -> None:
        assert codes(read(data)) == ["invalid-schema"]
        assert not read(data).records
        assert codes(read(data, mtime=NOW)) == ["invalid-schema"]  # it parses, so nobody is waited for

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("content", 1),
            ("summary", []),
            ("type", {}),
            ("confidence", "high"),
            ("tags", "x"),
            ("tags", [1]),
            ("entities", {"a": 1}),
            ("version", "1"),
            ("version", True),
            ("created", "yesterday"),
            ("lastAccessed", 5),
            ("accessCount", -1),
            ("accessCount", 0.5),
            ("relevanceScore", "1"),
            ("archived", "false"),
            ("projectId", 7),
        ],
    )
    def test_a_field_of_another_type_is_reported_and_read_as_missing(self, field: str, value: Any) -> None:
        found = read(file(1, **{field: value}))
        assert codes(found) == ["field-type"]
        assert field in found.findings[0].message
        missing = read(file(1, **{field: None})).records[0]
        assert found.records[0].facts == missing.facts
        assert found.records[0].archived is False

    def test_no_finding_holds_content(self) -> None:
        secret = "ghp_notforthelog"
        for data in (file(1, created=secret), pretty({"id": 1, secret: secret}), f'{{"{secret}": '.encode()):
            for finding in read(data).findings:
                assert secret not in finding.message

    def test_nulls_are_missing_fields(self) -> None:
        data = pretty({**memory(1), "created": None, "relevanceScore": None, "projectId": None})
        assert not read(data).findings

    def test_an_id_of_another_form_is_accepted(self) -> None:
        """`mem_<epoch ms>_<base36>` is the usual one."""
        found = read(file(1, id="my own"))
        assert codes(found) == ["id-form"]
        assert found.records[0].id == "my own"

    def test_the_time_is_created_else_the_ids_else_the_names_else_the_files(
        self, local_zone: Callable[[str], None]
    ) -> None:
        at = "2025-05-31T08:59:10.340Z"
        identity_ = "mem_1748681950340_nrs0enwdu"

        def timestamp(path: str = ONE, **fields: Any) -> Any:
            return read(file(1, **fields), path).records[0].facts["timestamp"]

        assert timestamp(created=at, id="mem_1_a") == at
        assert timestamp(created="2025-05-31T10:59:10.34+02:00") == at
        assert timestamp(created=None, id=identity_) == at
        assert timestamp(created="?", id=identity_) == at
        local_zone("America/Los_Angeles")
        named = timestamp("memory_20250531014523.json", created=None, id="x")
        assert named == "2025-05-31T08:45:23.000Z", "names are in local time"
        assert timestamp("memory_20259931014523.json", created=None, id="x") == iso_ms(OLD)
        local_zone("UTC")
        named = timestamp("memory_20250531014523.json", created=None, id=f"mem_{'9' * 15}_a")
        assert named == "2025-05-31T01:45:23.000Z"

    @pytest.mark.parametrize(
        ("written", "read_as"),
        [
            ("2025-05-31T08:59:10.340Z", "2025-05-31T08:59:10.340Z"),
            ("0001-01-01T00:00:00.001Z", "0001-01-01T00:00:00.001Z"),
            ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
            ("2016-12-31T23:59:60.000Z", "2017-01-01T00:00:00.000Z"),
            ("2025-05-31T08:59:10.3404Z", "2025-05-31T08:59:10.340Z"),
            ("2025-05-31T08:59:10Z", "2025-05-31T08:59:10.000Z"),
            ("2025-05-31 08:59:10.340Z", "2025-05-31T08:59:10.340Z"),
            ("2025-05-31T08:59:10.340+02:00", "2025-05-31T06:59:10.340Z"),
        ],
    )
    def test_the_time_in_the_form_of_the_index(self, written: str, read_as: str) -> None:
        assert read(file(1, created=written)).records[0].facts["timestamp"] == read_as

    def test_a_new_memory(self) -> None:
        """Version 1, never accessed, full relevance, not archived, accessed when created; pretty without newline."""
        made = render_new({"content": "é"}, identity=new_id(1748681950.340, 5), created=1748681950.340)
        native = json.loads(made)
        assert made == pretty(native)
        assert native == {
            "content": "é",
            "id": "mem_1748681950340_000000005",
            "version": 1,
            "created": "2025-05-31T08:59:10.340Z",
            "lastAccessed": "2025-05-31T08:59:10.340Z",
            "accessCount": 0,
            "relevanceScore": 1,
            "archived": False,
        }
        assert not read(made).findings

    def test_reading_by_the_server_is_not_a_change_of_meaning(self) -> None:
        """It rewrites the file on each read: access statistics, order and white space mean nothing."""
        one = read(file(1)).facts["meaning"]
        accessed = file(1, lastAccessed="2026-01-01T00:00:00.000Z", accessCount=7, relevanceScore=0.4)
        assert read(accessed).facts["meaning"] == one
        assert read(json.dumps(dict(reversed(memory(1).items()))).encode()).facts["meaning"] == one
        for changed in (file(1, content="x"), file(1, extra=1), file(1, archived=True), file(1, version=2)):
            assert read(changed).facts["meaning"] != one
        odd = file(1).replace(b'"number 1"', b'"\\ud83d"')
        assert read(odd).facts["meaning"] != one

    def test_a_memory_of_the_future_is_reported(self) -> None:
        ahead = read(file(1, created="2099-01-01T00:00:00.000Z"))
        assert codes(ahead) == ["future-stamp"]
        assert codes(read(file(1, created=iso_ms(NOW + 200)))) == [], "clocks differ a little"

    def test_lone_surrogates_reach_no_index_file(self) -> None:
        files = {ONE: file(1).replace(b'"typescript"', b'"a\\ud83d"')}
        assert read(files[ONE]).records[0].tags == ("a?",)
        assert written(settled(files)) == set()


class TestTorn:
    def test_the_first_value_counts_where_the_rest_is_none(self) -> None:
        for tail in (
            b"se\n}",
            b"}",
            b",",
            b"\0\0\0",
            b'" }',
            b"\x9f\x98\x80 rest",
            b'Z",\n  "accessCount": 0\n}',
            b"5 }",
        ):
            data = file(1) + tail
            found = read(data)
            assert codes(found) == ["torn-file"], tail
            assert [each.id for each in found.records] == [identity(1)]
            (fix,) = JSON.repair.fixes(ONE, loaded(data), NOW)
            assert splice(data, fix.edits) == file(1)
            assert (found.units, found.broken) == (2, 1)  # a backup of it is worse than one of the sound file

    def test_a_tail_that_may_be_a_memory_is_reported_and_preserved(self) -> None:
        tails = (file(2), b"\n" + file(2)[:50], b"5", b"[1]", b'"x"', b"null\n", b"}\n" + file(2), b"{")
        for tail in tails:
            data = file(1) + tail
            assert codes(read(data)) == ["second-object"], tail
            assert [each.id for each in read(data).records] == [identity(1)]
            assert JSON.repair.fixes(ONE, loaded(data), NOW) == ()

    def test_a_first_value_that_breaks_the_schema_is_not_repaired(self) -> None:
        data = file(1, tags="x") + b"se\n}"
        assert codes(read(data)) == ["second-object", "field-type"]
        assert JSON.repair.fixes(ONE, loaded(data), NOW) == ()
        assert codes(read(b'{"a": 1}se\n}')) == ["corrupt-file"]
        assert JSON.repair.fixes(ONE, loaded(b'{"a": 1}se\n}'), NOW) == ()

    def test_white_space_is_not_a_tail(self) -> None:
        for data in (file(1) + b"\n", b"\n\n" + file(1) + b" \r\n\t"):
            assert codes(read(data)) == []

    def test_a_byte_order_mark_is_reported_and_removed_by_a_repair(self) -> None:
        assert codes(read(b"\xef\xbb\xbf" + file(1))) == ["byte-order-mark"]
        data = b"\xef\xbb\xbf" + file(1) + b"}"
        (fix,) = JSON.repair.fixes(ONE, loaded(data), NOW)
        assert splice(data, fix.edits) == file(1)

    @pytest.mark.parametrize("data", [b"", b"\n ", b"\0" * 99, file(1)[:-1], file(1)[:40], b"\xff" + file(1), b"NaN"])
    def test_what_cannot_be_read_waits_while_fresh_and_is_corrupt_then(self, data: bytes) -> None:
        """The server truncates and writes: an empty or cut file is one being written."""
        fresh = read(data, mtime=NOW - FRESH_S + 0.1)
        assert (fresh.findings, fresh.records, fresh.pending) == ((), (), True)
        later = read(data, mtime=NOW - FRESH_S)
        assert (codes(later), later.records, later.pending) == (["corrupt-file"], (), False)
        assert read(data, mtime=NOW + 60).pending is False  # the clock was set back

    def test_a_fresh_torn_file_is_waited_for(self) -> None:
        found = read(file(1) + b"se\n}", mtime=NOW - 0.5)
        assert (codes(found), found.pending, len(found.records)) == ([], True, 1)
        assert read(file(1), mtime=NOW).pending is False

    def test_text_that_is_not_utf8_inside_the_memory(self) -> None:
        assert codes(read(file(1).replace(b"number", b"n\xffmber"))) == ["corrupt-file"]

    def test_a_corrupt_file_gets_its_backup_back_on_request_only(self) -> None:
        fix = JSON.repair.recover(ONE, loaded(file(1)[:40]), file(1), frozenset(), NOW)
        assert fix is not None
        assert splice(file(1)[:40], fix.edits) == file(1)
        assert not fix.safe
        assert JSON.repair.recover(ONE, loaded(file(1)), file(2), frozenset(), NOW) is None
        assert JSON.repair.recover(ONE, loaded(b""), b"{}", frozenset(), NOW) is None


class TestIndex:
    def test_exactly_six_keys_and_all_known_types(self) -> None:
        body = index(index_of(JSON, {INDEX: b"{}"}))
        types: dict[str, list[str]] = {
            kind: []
            for kind in ("breakthrough", "decision", "feedback", "error_recovery", "pattern", "user_preference")
        }
        assert body == {
            "projectIndex": {},
            "typeIndex": types,
            "tagIndex": {},
            "entityIndex": {},
            "temporalIndex": [],
            "fileIndex": {},
        }
        assert list(body) == ["projectIndex", "typeIndex", "tagIndex", "entityIndex", "temporalIndex", "fileIndex"]

    def test_every_map(self) -> None:
        files = {
            name(1): file(1, created="2025-06-01T00:00:00.000Z"),
            name(2): file(2, created="2025-06-03T00:00:00Z", tags=["b", "a", "b"], entities=["E"], projectId=""),
            name(3): file(3, created="2025-06-02T00:00:00.000Z", type="odd", tags=None, entities=None, archived=True),
        }
        one, two, three = map(identity, (1, 2, 3))
        body = index(index_of(JSON, files))
        assert body["projectIndex"] == {"project1": [one, three]}
        assert body["typeIndex"]["decision"] == [one, two]
        assert body["typeIndex"]["odd"] == [three]
        assert body["tagIndex"] == {"typescript": [one], "b": [two], "a": [two]}
        assert body["entityIndex"] == {"userController.ts": [one], "E": [two]}
        assert body["fileIndex"] == {one: name(1), two: name(2), three: name(3)}
        assert body["temporalIndex"] == [
            {"id": two, "timestamp": "2025-06-03T00:00:00.000Z"},
            {"id": three, "timestamp": "2025-06-02T00:00:00.000Z"},
            {"id": one, "timestamp": "2025-06-01T00:00:00.000Z"},
        ]

    @given(st.lists(st.integers(0, 9), min_size=2, max_size=12))
    def test_the_times_of_added_memories_are_where_a_new_render_has_them(self, seconds: list[int]) -> None:
        facts = read(file(1)).records[0].facts
        entries = [
            Entry(name(10 + n), 1, identity(n), "decision", False, {**facts, "timestamp": iso_ms(NOW + created)})
            for n, created in enumerate(seconds)
        ]
        first, wanted = (
            JSON.index.render(IndexView(some, {}, {INDEX: None, STATS: None}, NOW)) for some in (entries[:1], entries)
        )
        grown: IndexResult | None = first
        for entry in entries[1:]:
            assert grown is not None
            assert grown.update is not None
            grown = grown.update({entry.path: FileChange(None, iter([entry]), appended=False)}, NOW)
        assert grown is not None
        assert joined(grown.files[INDEX]) == joined(wanted.files[INDEX])

    def test_edits_by_hand_are_followed(self) -> None:
        """Delete, add, rename and edit a file: index and statistics follow."""
        files = settled(store(1, 2, 3))
        del files[name(1)]
        files[name(4)] = file(4)
        files[name(9)] = files.pop(name(2))
        files[name(3)] = file(3, tags=["new"], type="pattern")
        assert written(files) == {INDEX, STATS}
        after = index_of(JSON, files)
        plain = {path: data for path, data in files.items() if JSON.reader.role(path) is Role.SOURCE}
        assert after.files[INDEX] == index_of(JSON, plain).files[INDEX]
        assert index(after)["fileIndex"] == {identity(3): name(3), identity(4): name(4), identity(2): name(9)}
        assert stats(after)["byType"]["pattern"] == 1
        assert after.findings == ()  # a file deleted or renamed by hand is not a collision

    def test_what_means_the_same_is_not_written(self) -> None:
        """Empty buckets and the order inside a bucket do not count, nor does the style."""
        files = settled(TENDED)
        body = json.loads(files[INDEX])
        body["projectIndex"]["project2"] = []
        body["tagIndex"]["typescript"].reverse()
        del body["typeIndex"]["feedback"]
        body["fileIndex"] = dict(reversed(body["fileIndex"].items()))
        body["temporalIndex"][0]["timestamp"] = body["temporalIndex"][0]["timestamp"].replace("Z", "+00:00")
        said = json.loads(files[STATS])
        said["byProject"]["project2"] = 0
        files |= {INDEX: json.dumps(body).encode(), STATS: json.dumps(said).encode()}
        assert written(files) == set()

    @pytest.mark.parametrize(
        "broken",
        [
            lambda body: body["tagIndex"]["typescript"].pop(),
            lambda body: body["tagIndex"].update(x=[identity(1)]),
            lambda body: body["tagIndex"].update(x="y"),
            lambda body: body.pop("entityIndex"),
            lambda body: body["temporalIndex"].reverse(),
            lambda body: body["temporalIndex"].pop(),
            lambda body: body["temporalIndex"].__setitem__(0, 5),
            lambda body: body["fileIndex"].update({identity(99): "gone.json"}),
            lambda body: body["fileIndex"].pop(identity(1)),
            lambda body: body.update(fileIndex=[]),
        ],
    )
    def test_what_means_something_else_is_written(self, broken: Callable[[dict[str, Any]], object]) -> None:
        files = settled({**store(1), name(2): file(2, created="2025-07-01T00:00:00.000Z")})
        right = files[INDEX]
        body = json.loads(right)
        broken(body)
        files[INDEX] = pretty(body)
        assert index_of(JSON, files).files == {INDEX: right}

    @pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"null", b"[" * 5000])
    def test_a_broken_index_is_rebuilt(self, content: bytes) -> None:
        right = settled(TENDED)
        result = index_of(JSON, {**right, INDEX: content, STATS: content})
        assert dict(result.files) == {INDEX: right[INDEX], STATS: right[STATS]}

    def test_unknown_keys_stay(self) -> None:
        files = settled(store(1))
        body, said = json.loads(files[INDEX]), json.loads(files[STATS])
        files[INDEX] = pretty({"schema": {"v": [1.50, "é"]}, **body, "more": None})
        files[STATS] = pretty({**said, "note": "x"})
        assert written(files) == set()
        result = index_of(JSON, {**files, name(2): file(2)})
        assert index(result)["schema"] == {"v": [1.5, "é"]}
        assert index(result)["more"] is None
        assert stats(result)["note"] == "x"
        assert list(index(result))[:6] == list(body)
        assert result.files[INDEX] == pretty(index(result))

    def test_two_files_with_one_id(self) -> None:
        """The one the index names counts, else the higher version, else the later change; the other is reported."""
        for fields in ({"version": 2}, {"lastUpdated": "2025-07-01T00:00:00Z"}, {"created": "2025-07-01T00:00:00Z"}):
            for winner, loser in ((name(1), name(2)), (name(2), name(1))):
                files = {winner: file(1, **fields), loser: file(1)}
                result = index_of(JSON, files)
                assert index(result)["fileIndex"] == {identity(1): winner}
                assert [(each.code, each.path) for each in result.findings] == [("duplicate-id", loser)]
                assert stats(result)["totalMemories"] == 1
        named = settled({name(2): file(1)})
        both = {**named, name(1): file(1, version=9)}
        assert written(both) == set()
        assert [each.path for each in index_of(JSON, both).findings] == [name(1)]

    def test_dangling_ids_are_lost_only_where_another_memory_has_the_file(self) -> None:
        files = settled(store(1, 2, 3))
        files[name(1)] = file(11, created="2026-01-31T09:59:59.123Z")  # overwritten by a memory of the same second
        del files[name(2)]  # deleted by hand
        files[name(3)] = b"{"  # corrupt: nothing is known
        (finding,) = index_of(JSON, files).findings
        assert finding.message.startswith("1 memory is lost: its file was")

    @pytest.mark.parametrize(
        "tear",
        [
            lambda index: index[:-40],
            lambda index: index + b'"}]\n}',
            lambda index: index.replace(b'"fileIndex": {', b'"fileIndex": {"x": "caf\xe9",'),
        ],
    )
    def test_lost_memories_of_a_torn_index_are_reported(self, tear: Callable[[bytes], bytes]) -> None:
        files = settled(store(1, 2))
        files[name(1)] = file(11, created="2026-01-31T09:59:59.123Z")  # overwritten by a memory of the same second
        files[INDEX] = tear(files[INDEX])
        (finding,) = index_of(JSON, files).findings
        assert finding.message.startswith("1 memory is lost: its file was")

    def test_an_id_that_was_corrected_by_hand_is_not_lost(self) -> None:
        files = settled(store(1))
        files[name(1)] = file(1, id=identity(9))
        result = index_of(JSON, files)
        assert (result.findings, result.next_state) == ((), {})

    def test_strings_are_written_as_javascript_writes_them(self) -> None:
        odd = "".join(map(chr, range(0x20))) + '"\\/\x7f\u2028\u2029é😀'
        files = settled({ONE: file(1, tags=[odd], projectId=odd)})
        assert files[INDEX] == pretty(json.loads(files[INDEX]))
        assert json.loads(files[INDEX])["tagIndex"] == {odd: [identity(1)]}


class TestStats:
    def test_true_numbers_in_the_servers_order(self) -> None:
        """The true mean, and unknown types too; the server writes 0 and forgets them."""
        files = {
            name(1): file(1, relevanceScore=0.5),
            name(2): file(2, relevanceScore=1, type="odd", projectId="p2"),
            name(3): file(3, relevanceScore=None, archived=True),
        }
        result = index_of(JSON, files)
        said = stats(result)
        assert list(said) == ["totalMemories", "byType", "byProject", "averageRelevanceScore", "lastUpdated"]
        assert said["totalMemories"] == 3  # archived memories stay in the statistics
        assert said["byType"] == {
            "breakthrough": 0,
            "decision": 2,
            "feedback": 0,
            "error_recovery": 0,
            "pattern": 0,
            "user_preference": 0,
            "odd": 1,
        }
        assert said["byProject"] == {"project1": 2, "p2": 1}
        assert said["averageRelevanceScore"] == pytest.approx(2.5 / 3)
        assert said["lastUpdated"] == iso_ms(NOW)
        assert (result.memories, result.archived) == (2, 1)

    def test_the_mean_of_the_largest_scores(self) -> None:
        files = settled({name(number): file(number, relevanceScore=1.7e308) for number in (1, 2)})
        assert json.loads(files[STATS])["averageRelevanceScore"] == 1.7e308

    def test_whole_numbers_as_javascript_writes_them(self) -> None:
        assert b'"averageRelevanceScore": 1,' in settled(store(1))[STATS]
        assert b'"averageRelevanceScore": 0,' in settled({STATS: b"{}"})[STATS]

    def test_last_updated_moves_only_with_the_rest(self) -> None:
        files = settled(store(1, 2))
        assert written(files) == set()
        files[name(1)] = file(1, lastAccessed="2026-01-01T00:00:00.000Z", accessCount=3)
        assert written(files) == set()  # an access changes neither file
        files[name(1)] = file(1, relevanceScore=0.5)
        assert written(files) == {STATS}

    @pytest.mark.parametrize(("key", "value"), [("totalMemories", 3), ("averageRelevanceScore", 0), ("byType", {}),
                                                ("byProject", 5), ("lastUpdated", None)])  # fmt: skip
    def test_wrong_numbers_are_put_right(self, key: str, value: Any) -> None:
        files = settled(store(1, 2))
        wrong = pretty({**json.loads(files[STATS]), key: value})
        assert set(index_of(JSON, {**files, STATS: wrong}).files) == {STATS}


class TestArchive:
    def due(self, policy: Policy = FLAG, now: float = NOW, pinned: frozenset[str] = frozenset(), **fields: Any) -> Plan:
        given_ = {"created": iso_ms(NOW - 91 * DAY), "relevanceScore": 0.29, "accessCount": 4, **fields}
        view = upkeep_view(JSON, {ONE: file(1, **given_)}, policy, now)
        return JSON.upkeep.archive(replace(view, pinned=pinned), None)

    def test_the_servers_rule_sets_the_flag_and_nothing_else(self) -> None:
        files = {ONE: file(1, created=iso_ms(NOW - 91 * DAY), relevanceScore=0.29, accessCount=4)}
        plan = JSON.upkeep.archive(upkeep_view(JSON, files, FLAG), None)
        assert len(plan.actions) == 1
        after = carried_out(files, plan)
        assert after == {ONE: files[ONE].replace(b'"archived": false', b'"archived": true')}
        settled_ = settled(after)
        assert json.loads(settled_[INDEX])["fileIndex"] == {identity(1): ONE}  # kept in index and statistics
        assert json.loads(settled_[STATS])["totalMemories"] == 1

    def test_off_by_default(self) -> None:
        assert not self.due(Policy())
        assert Policy().archive_flag is False

    def test_each_bound(self) -> None:
        assert self.due()
        assert not self.due(created=iso_ms(NOW - 90 * DAY))
        assert self.due(created=iso_ms(NOW - 90 * DAY - 1))
        assert not self.due(created=iso_ms(NOW + DAY))
        assert not self.due(relevanceScore=0.3)
        assert not self.due(relevanceScore=None)
        assert not self.due(accessCount=5)
        assert not self.due(archived=True)

    def test_a_memory_taken_back_by_undo_is_left_alone(self) -> None:
        fields: dict[str, Any] = {"created": iso_ms(NOW - 91 * DAY), "relevanceScore": 0.1, "accessCount": 0}
        assert not self.due(pinned=frozenset({sha256(file(1, **fields))}), **fields)

    def test_by_name_whatever_its_age_and_whatever_the_setting(self) -> None:
        files = store(1, 2)
        plan = JSON.upkeep.archive(upkeep_view(JSON, files, Policy()), [identity(2)])
        assert [(action.path, action.ids) for action in plan.actions] == [(name(2), (identity(2),))]
        after = carried_out(files, plan)
        assert document(JSON, name(2), after[name(2)]).records[0].archived
        assert not JSON.upkeep.archive(upkeep_view(JSON, after, Policy()), [identity(2)])

    def test_a_missing_flag_is_added_in_the_files_style(self) -> None:
        files = {ONE: file(1, archived=None)}
        after = carried_out(files, JSON.upkeep.archive(upkeep_view(JSON, files, Policy()), [identity(1)]))
        assert after[ONE] == pretty({**memory(1, archived=None), "archived": True})

    def test_unknown_fields_numbers_and_order_survive(self) -> None:
        data = b'{"z": 1.50, "id": "mem_1_a", "archived":false , "u": "\\u00e9", "a": 1e2}'
        files = {ONE: data}
        after = carried_out(files, JSON.upkeep.archive(upkeep_view(JSON, files, Policy()), ["mem_1_a"]))
        assert after[ONE] == data.replace(b"false", b"true")

    def test_only_files_where_something_can_be_due_are_read(self) -> None:
        facts = {path: read(data, path).facts for path, data in TENDED.items()}
        summaries = {path: _summary(path, facts[path]) for path in TENDED if JSON.reader.role(path) is Role.SOURCE}
        assert JSON.upkeep.paths(summaries) == (name(5),)

    def test_nothing_else_runs_by_schedule(self) -> None:
        view = upkeep_view(JSON, TENDED, FLAG)
        assert not JSON.upkeep.enforce(view, {})
        assert not JSON.upkeep.prune(view)
        assert JSON.files.limits == {}
        assert JSON.files.locks == ()
        assert JSON.files.lock is JSON.files.backup_dir is JSON.index.version(b"{}") is None
        assert not JSON.files.waits_for_git


def _summary(path: str, facts: Mapping[str, Any]) -> Any:
    return FileStats(path, Role.SOURCE, 1, 1, 0, 1, facts)


class TestDedupe:
    text = "the build fails when the cache folder is missing on a fresh machine so create it before the first run"

    def suggested(self, *natives: dict[str, Any], threshold: float | None = None) -> list[tuple[str, ...]]:
        files = {name(number): pretty(native) for number, native in enumerate(natives)}
        plan = JSON.upkeep.dedupe(upkeep_view(JSON, files, Policy()), threshold)
        assert plan.actions == ()  # suggestions only
        assert all(note.kind is Kind.NOTE for note in plan.notes)
        return [tuple(sorted(note.ids)) for note in plan.notes]

    def test_same_type_and_085_of_the_words(self) -> None:
        shared = [f"w{chr(97 + n)}" for n in range(17)]
        one = memory(1, content=" ".join([*shared, "x"]))
        two = memory(2, content=" ".join([*shared, "y", "z"]))
        assert self.suggested(one, two) == [(identity(1), identity(2))]  # 17 of 20 is enough here
        assert self.suggested(one, {**two, "content": two["content"] + " v"}) == []
        assert self.suggested(one, {**two, "type": "pattern"}) == []
        assert self.suggested(one, {**two, "archived": True}) == []
        assert self.suggested(one, two, threshold=0.86) == []

    def test_texts_with_other_numbers_are_not_alike(self) -> None:
        text = self.text
        assert self.suggested(memory(1, content=text + " 10"), memory(2, content=text + " 40")) == []
        assert self.suggested(memory(1, content=text + " 10"), memory(2, content=text + " 10"))

    def test_each_is_reported_once_and_never_with_itself(self) -> None:
        text = self.text
        assert len(self.suggested(*(memory(n, content=text) for n in range(5)))) == 4
        assert self.suggested(memory(1, content=text), memory(1, content=text)) == []

    @given(st.lists(st.lists(st.sampled_from("abcdefghijklmn"), min_size=1, max_size=14), min_size=2, max_size=12))
    def test_nothing_alike_is_missed(self, texts: list[list[str]]) -> None:
        """The short way finds a partner for exactly those that looking at every pair does."""
        sets = [frozenset(text) for text in texts]
        natives = [memory(number, content=" ".join(text)) for number, text in enumerate(texts)]
        told = {identity_ for pair in self.suggested(*natives) for identity_ in pair}
        for number, words in enumerate(sets):
            near = [
                n for n, other in enumerate(sets) if n != number and 20 * len(words & other) >= 17 * len(words | other)
            ]
            if near:
                assert told & {identity(n) for n in (number, *near)}
            else:
                assert identity(number) not in told


class TestSize:
    def test_20_000_memories_are_one_pass_over_what_is_known(self) -> None:
        """Nothing is read again where no id is used twice: the entries come as a stream that can be gone through once
        only."""
        facts = read(file(1)).records[0].facts
        names = [f"memory_{20250101000000 + number}.json" for number in range(20_000)]
        entries = [Entry(path, 1, identity(number), "decision", False, facts) for number, path in enumerate(names)]
        view, pauses = IndexView(iter(entries), {}, {INDEX: None, STATS: None}, NOW), list[None]()
        first = whole(JSON.index.render(replace(view, pause=lambda: pauses.append(None))))
        assert len(pauses) == 3, "after each step"
        assert len(index(first)["fileIndex"]) == 20_000
        assert stats(first)["totalMemories"] == 20_000
        again = JSON.index.render(IndexView(iter(entries), {}, first.files, NOW + 60))
        assert again.files == {}
