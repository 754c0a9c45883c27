"""User documents: the laws, embeddings left as text, users kept apart, and merging that only a person asks for."""

from __future__ import annotations

import json
import math
import random
import re
import sys
import tracemalloc
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.core.dates import iso, parse_stamp
from memoryd.core.defaults import Policy
from memoryd.core.plan import Kind, Plan
from memoryd.core.records import Document, FileStats, Role
from memoryd.core.spans import Span, splice
from memoryd.errors import MemorydError
from memoryd.layouts.codes import CODES
from memoryd.layouts.protocol import Layout, LoadedFile, UpkeepView
from memoryd.layouts.user_document import USER_DOCUMENT, UserDocumentReader, embeddings
from memoryd.layouts.user_document.embeddings import cosine, inspect, unit_vector
from memoryd.layouts.user_document.parser import shrink_alarm
from memoryd.layouts.user_document.timestamps import format_like
from memoryd.operations.check import all_findings
from memoryd.operations.refresh import refresh
from memoryd.operations.repair import repair
from memoryd.operations.undo import undo
from memoryd.operations.upkeep import dedupe
from memoryd.store import Store
from tests.layouts.contract import (
    NOW,
    OLD,
    PARSED,
    PLANNED,
    Files,
    LayoutContract,
    carried_out,
    document,
    index_of,
    on_disk,
    stores_on_disk,
    upkeep_view,
)

STORE = USER_DOCUMENT
DAY = 86_400
ALICE = "files/alice/__long-memories/data.json"
BOB = "files/bob/appdata/agent/__long-memories/data.json"
ROOT = "__long-memories/data.json"


def item(content: Any = "likes tea", vector: Any = (1.0, 0.0, 0.0), **fields: Any) -> dict[str, Any]:
    data = {"id": 1_767_225_600, "content": content, "importance": 0.5, "category": "general", "topics": ["drinks"]}
    made = {key: value for key, value in {**data, **fields}.items() if value is not None}
    return {"data": made, "embedding": list(vector) if isinstance(vector, tuple) else vector}


def doc(*items: Any, **fields: Any) -> dict[str, Any]:
    return {"memories": list(items), "updated_at": "2026-01-30T12:00:00Z", "last_deduplicated_at": None, **fields}


def text(native: Any) -> bytes:
    """As the program writes it: compact, unescaped, no final newline."""
    return json.dumps(native, separators=(",", ":"), ensure_ascii=False).encode()


def angle(degrees: float) -> tuple[float, float, float]:
    return (math.cos(math.radians(degrees)), math.sin(math.radians(degrees)), 0.0)


TENDED: Files = {
    ALICE: text(doc(item(), item("LIKES  tea ", angle(40)), item("東京 é 😀", angle(90)), item("works", angle(12)))),
    BOB: text(doc(item(), item("has a dog", angle(80)), updated_at="2026-01-21T22:02:47.113258+00:00")),
    ROOT: text(doc()),
}
DAMAGED: Files = {
    ALICE: json.dumps(
        doc(item(), 3, {"data": {}}, item("b", [1, 2]), item("b", [1, 2]), item("c", None)), indent=1
    ).encode(),
    BOB: b"\xef\xbb\xbf" + text(doc(item("x", [float("nan"), 1, 2]), item("x", [0, 0, 0]))) + b"se\n}",
    ROOT: text(doc(item()))[:-30],
}


def view(files: Files, *, unattended: bool = False, now: float = NOW) -> UpkeepView:
    live = upkeep_view(STORE, files, Policy(), now).live
    return UpkeepView(live, lambda _: None, Policy(), now, unattended=unattended)


def dedupe_of(files: Files, threshold: float | None = None, now: float = NOW) -> Plan:
    return STORE.upkeep.dedupe(view(files, now=now), threshold)


class TestContract(LayoutContract):
    layout: ClassVar[Layout] = STORE
    samples: ClassVar[Sequence[Mapping[str, bytes]]] = (TENDED, DAMAGED)

    def _archive_plan(self, files: Files) -> Plan:
        return dedupe_of(files)  # there is no archive: merging is all that takes a memory out

    def _draw_plan(self, data: st.DataObject) -> tuple[Callable[[Files], Plan], Files]:
        threshold = data.draw(st.sampled_from((None, 0.75, 0.99)))
        return lambda now: dedupe_of(now, threshold), self._draw_store(data)

    @PARSED
    @given(data=st.data())
    def test_tiling_a_span_alone_reads_as_its_record(self, data: st.DataObject) -> None:
        """A memory put alone into its document is read as it was, but for what compares it with the others."""
        path, source = self._draw_file(data)
        for record in document(STORE, path, source).records:
            (again,) = document(STORE, path, b'{"memories":[' + record.span.of(source) + b"]}").records
            assert re.sub(r"\.\d+$", "", record.id) == again.id
            assert (again.type, again.title, again.tags) == (record.type, record.title, record.tags)
            assert record.facts["embedding"] in (0, again.facts["embedding"])

    @PLANNED
    @given(data=st.data())
    def test_surgery_only_what_is_moved_changes(self, data: st.DataObject) -> None:
        """In what stays only topics grow; beside the memories only the two stamps differ."""
        decide, files = self._draw_plan(data)
        plan = decide(files)
        after = carried_out(files, plan)
        for action in plan.actions:
            before, now = (document(STORE, action.path, each[action.path]) for each in (files, after))
            stay = [each for each in before.records if each.id not in action.ids]
            for old, new in zip(stay, now.records, strict=True):
                was, is_ = old.span.of(files[action.path]), new.span.of(after[action.path])
                assert was == is_ or _without_topics(was) == _without_topics(is_)
                assert set(old.tags) <= set(new.tags)
            first = (before.records[0].span.start, now.records[0].span.start)
            head = [
                _without_stamps(each[:at])
                for each, at in zip((files[action.path], after[action.path]), first, strict=True)
            ]
            assert head[0] == head[1]

    @PLANNED
    @given(data=st.data())
    def test_conservation_no_memory_vanishes_at_any_moment(self, data: st.DataObject) -> None:
        """Removed memories go to quarantine whole."""
        decide, files = self._draw_plan(data)
        for action in decide(files).actions:
            source = files[action.path]
            by_id = {each.id: each.span for each in document(STORE, action.path, source).records}
            assert [by_id[each] for each in action.ids] == list(action.quarantine)


def _without_topics(element: bytes) -> bytes:
    return re.sub(rb',?"topics"\s*:\s*\[[^\]]*\]', b"", element)


def _without_stamps(part: bytes) -> bytes:
    return re.sub(rb'"(updated_at|last_deduplicated_at)"\s*:\s*("[^"]*"|null)', b"", part)


def read(native: Any, path: str = ALICE, **when: float) -> Document:
    return document(STORE, path, native if isinstance(native, bytes) else text(native), **when)


def codes(found: Document) -> list[str]:
    return [finding.code for finding in found.findings]


# --- whose document


class TestUsers:
    @pytest.mark.parametrize(
        ("path", "user"),
        [
            (ALICE, "files/alice"),
            (BOB, "files/bob/appdata/agent"),
            (ROOT, ""),
            ("a b/東/__long-memories/data.json", "a b/東"),
        ],
    )
    def test_the_user_is_the_path_before(self, path: str, user: str) -> None:
        found = read(doc(item()), path)
        assert STORE.reader.role(path) is Role.SOURCE
        assert (found.facts["user"], found.records[0].facts["user"]) == (user, user)
        assert found.records[0].id.startswith(f"{user}/" if user else "")

    @pytest.mark.parametrize(
        "path",
        ["data.json", "x__long-memories/data.json", "a/__long-memories/other.json", "a/__long-memories/x/data.json"],
    )
    def test_anything_else_is_foreign(self, path: str) -> None:
        assert STORE.reader.role(path) is Role.FOREIGN

    def test_half_written_files_of_others_are_left(self) -> None:
        assert STORE.reader.role("a/__long-memories/data.json.tmp") is Role.TEMP

    def test_nothing_crosses_from_user_to_user(self) -> None:
        """A memory that two users have is two memories, with two ids, and no duplicate."""
        files = {ALICE: text(doc(item(), item("x", angle(90)))), BOB: text(doc(item(), item("y", angle(90))))}
        ids = [read(data, path).records[0].id for path, data in files.items()]
        assert len(set(ids)) == 2
        assert all(action.ids == () for action in dedupe_of(files).actions)
        for path, data in files.items():
            assert [each.path for each in dedupe_of({path: data}).actions] == [path]

    def test_what_runs_by_itself(self) -> None:
        assert STORE.jobs == ("dedupe", "backup", "verify", "rescan")
        assert (STORE.files.lock, STORE.files.locks, STORE.files.backup_dir, STORE.index.paths) == (None, (), None, ())


# --- reading


class TestReading:
    def test_a_document_as_the_seed_shows_it_is_sound(self) -> None:
        found = read(doc(item(), item("b", angle(50), topics=["é", "x"], category="work", importance=1)))
        assert found.findings == ()
        assert (found.units, found.broken, found.pending) == (2, 0, False)
        record = found.records[1]
        assert (record.type, record.title, record.tags, record.created) == ("work", "b", ("é", "x"), 1_767_225_600.0)
        assert record.facts == {"user": "files/alice", "number": 1_767_225_600, "importance": 1.0, "embedding": 3}
        assert found.facts["dimension"] == 3

    def test_any_style_is_read(self) -> None:
        native = doc(item(), item("b", angle(50)))
        found = document(STORE, ALICE, json.dumps(native, indent=4).encode())
        assert [each.native["content"] for each in found.records] == ["likes tea", "b"]
        assert [each.line for each in found.records] == [3, 19]

    def test_an_id_does_not_depend_on_the_place(self) -> None:
        a, b = item(), item("b")
        first, second = read(doc(a, b)), read(doc(b, a))
        assert [each.id for each in first.records] == [each.id for each in reversed(second.records)]
        assert re.fullmatch(r"files/alice/[0-9a-f]{12}", first.records[0].id)

    def test_equal_ids_of_the_program_are_not_errors(self) -> None:
        """They are the second of storing, and calls run in parallel."""
        found = read(doc(item("a"), item("b"), item("a")))
        assert found.findings == ()
        first, second, third = (each.id for each in found.records)
        assert first != second
        assert third == f"{first}.2"

    def test_embeddings_never_become_floats(self) -> None:
        found = read(doc(item()))
        assert "embedding" not in found.records[0].native

    @pytest.mark.parametrize("data", [b"", b"{", b"\0\0", text(doc(item()))[:-20], b"nonsense"])
    def test_what_cannot_be_read_is_waited_for_then_reported(self, data: bytes) -> None:
        fresh = read(data, mtime=NOW - 1)
        assert (fresh.pending, fresh.findings) == (True, ())
        assert codes(read(data)) == ["corrupt-file"]
        assert str(CODES["corrupt-file"].severity) == "error"

    @pytest.mark.parametrize("data", [b"[]", b"{}", b'{"memories":null}', b'{"memories":{}}'])
    def test_the_wrong_shape_is_reported(self, data: bytes) -> None:
        assert codes(read(data)) == ["wrong-shape"]

    @pytest.mark.parametrize(
        "bad", [3, {}, {"data": 3}, {"data": {}}, item(""), item(content=None), {"data": {"content": 3}}]
    )
    def test_an_element_that_is_not_a_memory_is_skipped_and_preserved(self, bad: Any) -> None:
        found = read(doc(item(), bad))
        assert codes(found) == ["invalid-schema"]
        assert (found.units, found.broken, len(found.records)) == (2, 1, 1)

    @pytest.mark.parametrize(
        ("fields", "code"),
        [
            ({"id": "1"}, "field-type"),
            ({"id": None}, "field-type"),
            ({"importance": "high"}, "field-type"),
            ({"importance": 1.5}, "schema-bound"),
            ({"importance": -0.1}, "schema-bound"),
            ({"category": 3}, "field-type"),
            ({"topics": "x"}, "field-type"),
            ({"topics": [3]}, "field-type"),
        ],
    )
    def test_fields_out_of_form_are_reported_and_the_memory_preserved(self, fields: dict[str, Any], code: str) -> None:
        found = read(doc(item(**fields)))
        assert codes(found) == [code]
        assert len(found.records) == 1

    def test_optional_fields_have_defaults(self) -> None:
        found = read(doc(item(importance=None, category=None, topics=None)))
        assert found.findings == ()
        assert (found.records[0].type, found.records[0].facts["importance"]) == ("general", 0.5)

    @pytest.mark.parametrize("fields", [{"updated_at": "now"}, {"updated_at": None}, {"last_deduplicated_at": 3}])
    def test_the_documents_own_stamps(self, fields: dict[str, Any]) -> None:
        assert codes(read(doc(item(), **fields))) == ["field-type"]

    @pytest.mark.parametrize(("count", "warned"), [(999, 0), (1000, 1), (9_999, 1), (10_000, 1)])
    def test_sizes_it_was_not_made_for(self, count: int, warned: int) -> None:
        found = read(doc(*[item("x", (1,))] * count))
        assert codes(found) == ["many-memories"] * warned
        if warned:
            assert ("10000" in found.findings[0].message) is (count >= 10_000)

    def test_no_message_holds_what_a_memory_says(self) -> None:
        secret = "hunter2"
        bad = item(secret, secret, id=secret, importance=secret, category=[secret], topics=secret)
        found = read(doc(bad, {"data": {"content": [secret]}}, secret, updated_at=secret, last_deduplicated_at=secret))
        assert len(found.findings) >= 8
        assert not any(secret in finding.message for finding in found.findings)

    def test_counts(self) -> None:
        result = index_of(STORE, TENDED)
        assert (result.memories, result.archived, dict(result.by_type), dict(result.files)) == (
            6,
            0,
            {"general": 6},
            {},
        )


class TestEmbeddings:
    @pytest.mark.parametrize(
        ("vector", "size", "fault"),
        [
            (b"[1,2,3]", 3, False),
            (b"[ 1.5e-05 ,\n-2E-3, 0 ]", 3, False),
            (b"[]", 0, False),
            (b"[ ]", 0, False),
            (b"null", 0, False),
            (b'"text"', 0, False),
            (b"{}", 0, False),
            (b"[1,null]", 2, True),
            (b"[1,NaN,-Infinity]", 3, True),
            (b'[1,"2"]', 2, True),
            (b"[[1],[2],[3]]", 3, True),
            (b"[1,1e999]", 2, True),
            (b"[1,1e308]", 2, False),
            (b"[1,1E+5]", 2, False),
            (b"[1," + b"9" * 400 + b"]", 2, True),
            (b"[0,0.0,-0]", 3, True),
            (b"[0e5,0.0E-7]", 2, True),
            (b"[0,0.001]", 2, False),
            (b"[0,-10]", 2, False),
        ],
    )
    def test_inspected_as_text(self, vector: bytes, size: int, fault: bool) -> None:
        found = inspect(b"xx" + vector + b"yy", Span(2, 2 + len(vector)))
        assert (found.size, bool(found.fault)) == (size, fault)

    @given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30))
    def test_as_the_parser_counts(self, numbers: list[float]) -> None:
        data = json.dumps(numbers).encode()
        found = inspect(data, Span(0, len(data)))
        assert found.size == len(numbers)
        assert bool(found.fault) is (not any(numbers))

    def test_most_have_one_length_the_others_are_left_out(self) -> None:
        """Not the first, not the longest: the most common one. None is dropped or recomputed."""
        data = text(doc(item("a", (1.0, 2.0)), item("b"), item("c"), item("d", (1.0,) * 9), item("e", None)))
        found = read(data)
        assert [(each.code, each.id) for each in found.findings] == [
            ("embedding-size", found.records[number].id) for number in (0, 3, 4)
        ]
        assert [each.facts["embedding"] for each in found.records] == [0, 3, 3, 0, 0]

    def test_what_is_not_finite_or_all_zero_is_left_out(self) -> None:
        found = read(doc(item("a"), item("b", [1.0, float("nan"), 0.0]), item("c", (0.0, 0.0, 0.0))))
        assert codes(found) == ["embedding-not-finite"] * 2
        assert [each.facts["embedding"] for each in found.records] == [3, 0, 0]

    def test_an_embedding_of_none_at_all(self) -> None:
        native = doc({"data": item()["data"]})
        assert codes(read(native)) == ["embedding-size"]


# --- duplicates


def merge(*items: dict[str, Any], threshold: float | None = None, **fields: Any) -> tuple[list[Any], Plan]:
    files = {ALICE: text(doc(*items, **fields))}
    plan = dedupe_of(files, threshold)
    return json.loads(carried_out(files, plan)[ALICE])["memories"], plan


class TestDedupe:
    @pytest.mark.parametrize(
        ("a", "b"), [("likes tea", " Likes\n TEA"), ("ﬁne Straße", "fine STRASSE"), ("Ｔｅａ", "tea")]
    )
    def test_equal_text_is_a_duplicate_whatever_the_embedding(self, a: str, b: str) -> None:
        assert merge(item(a), item(b, angle(90)))[0] == [item(a)]
        assert merge(item(a), item(b, None))[0] == [item(a)]

    @pytest.mark.parametrize(("degrees", "gone"), [(18.1, True), (18.3, False)])
    def test_a_cosine_of_at_least_095(self, degrees: float, gone: bool) -> None:
        assert len(merge(item("a"), item("b", angle(degrees)))[0]) == (1 if gone else 2)

    def test_095_itself_counts(self) -> None:
        assert len(merge(item("a"), item("b", (0.95, math.sqrt(1 - 0.95**2), 0.0)))[0]) == 1

    def test_from_075_on_it_is_only_suggested(self) -> None:
        for degrees, named in ((41, 1), (42, 0)):
            kept, plan = merge(item("a"), item("b", angle(degrees)))
            assert len(kept) == 2
            assert len(plan.notes) == named
            assert all(note.kind is Kind.NOTE and len(note.ids) == 2 for note in plan.notes)

    def test_the_bound_is_a_setting(self) -> None:
        """0.75 gives the published program's result."""
        assert len(merge(item("a"), item("b", angle(41)), threshold=0.75)[0]) == 1
        assert len(merge(item("a"), item("b", angle(15)), threshold=0.99)[0]) == 2

    def test_the_more_important_one_stays(self) -> None:
        low, high = item("a", importance=0.4), item("b", importance=0.41)
        assert merge(low, high)[0] == [high]
        assert merge(high, low)[0] == [high]
        assert merge(item("a", importance=None), item("b", importance=0.5))[0] == [item("a", importance=None)]

    def test_in_a_tie_the_earlier_one_and_never_both(self) -> None:
        a, b = item("a"), item("b")
        assert merge(a, b)[0] == [a]

    def test_topics_become_the_union_and_content_is_not_touched(self) -> None:
        a = item("a", topics=["x", "é"])
        b = item("b", topics=["y", "x"])
        c = item("c", topics=["\U0001f600", "y"])
        assert merge(a, b, c)[0] == [item("a", topics=["x", "é", "y", "\U0001f600"])]
        assert merge(item("a", topics=[]), b)[0] == [item("a", topics=["y", "x"])]
        assert merge(item("a", topics=None), b)[0] == [item("a", topics=["y", "x"])]
        assert merge(item("a", topics="odd"), b)[0] == [item("a", topics="odd")]
        assert merge(a, item("b", topics=None))[0] == [a]

    def test_no_chains(self) -> None:
        """The middle one is like both ends, the ends are not like each other."""
        ends = [item("a"), item("b", angle(17)), item("c", angle(34))]
        assert [each["data"]["content"] for each in merge(*ends)[0]] == ["a", "c"]
        ends[1]["data"]["importance"] = 0.9
        assert [each["data"]["content"] for each in merge(*ends)[0]] == ["b"]

    def test_what_may_not_be_compared_is_left(self) -> None:
        others = [item("x", angle(90)), item("y", angle(180)), item("z", angle(270))]
        for vector in ((0.0, 0.0, 0.0), (1.0, 0.0), [1.0, float("inf"), 0.0], None):
            assert len(merge(*others, item("a", vector), item("b", vector))[0]) == 5

    def test_numbers_and_everything_else_stay_to_the_byte(self) -> None:
        """A file written back from floats would lose 1.10, 1e2 and the twenty digits."""
        source = (
            b'{"version":1.10,"memories":[{"data":{"id":1,"content":"\\u00e9","x":1e2},"embedding":[0.10,12345678901234567890]},'
            b'{"embedding":[0.1,-12345678901234567890],"data":{"content":"b","id":2}},{"data":{"id":1,"content":"\xc3\x89"}}],'
            b'"updated_at":"2026-01-30T12:00:00.120+01:00","last_deduplicated_at":null,"z":{"a": 1.0}}'
        )
        files = {ALICE: source}
        assert carried_out(files, dedupe_of(files))[ALICE] == (
            b'{"version":1.10,"memories":[{"data":{"id":1,"content":"\\u00e9","x":1e2},"embedding":[0.10,12345678901234567890]},'
            b'{"embedding":[0.1,-12345678901234567890],"data":{"content":"b","id":2}}],'
            b'"updated_at":"2026-01-31T11:00:00.000+01:00","last_deduplicated_at":"2026-01-31T11:00:00.000+01:00",'
            b'"z":{"a": 1.0}}'
        )

    def test_the_compact_style_is_kept(self) -> None:
        files = {ALICE: TENDED[ALICE]}
        after = carried_out(files, dedupe_of(files))[ALICE]
        stamp = "2026-01-31T10:00:00Z"
        wanted = doc(item(), item("東京 é 😀", angle(90)), updated_at=stamp, last_deduplicated_at=stamp)
        assert after == text(wanted)

    def test_a_run_that_removes_nothing_is_stamped_as_well(self) -> None:
        """`updated_at` changes with every save, `last_deduplicated_at` with every run."""
        kept, plan = merge(item("a"), item("b", angle(90)))
        assert len(kept) == 2
        (action,) = plan.actions
        assert (action.ids, action.quarantine, len(action.edits)) == ((), (), 2)
        files = {ALICE: text(doc(item("a"), item("b", angle(90))))}
        after = json.loads(carried_out(files, plan)[ALICE])
        assert after["updated_at"] == after["last_deduplicated_at"] == "2026-01-31T10:00:00Z"

    def test_missing_stamps_are_added(self) -> None:
        files = {ALICE: text({"memories": [item("a"), item("b")]})}
        after = carried_out(files, dedupe_of(files))[ALICE]
        stamp = "2026-01-31T10:00:00Z"
        assert after == text({"memories": [item("a")], "updated_at": stamp, "last_deduplicated_at": stamp})

    def test_a_second_run_at_that_moment_has_nothing_to_do(self) -> None:
        done = carried_out(TENDED, dedupe_of(TENDED))
        assert not dedupe_of(done)

    def test_a_damaged_document_is_left(self) -> None:
        assert not dedupe_of({ALICE: TENDED[ALICE] + b"se}"})

    def test_unattended_it_only_suggests(self) -> None:
        """The agents keep a cache: a change nobody asked for would be undone at their next store."""
        many = [item(f"fact {chr(97 + n)}", angle(30 * n)) for n in range(9)]
        files = {ALICE: text(doc(*many, item("same", (0.0, 0.0, 1.0)), item("same", (0.0, 0.0, 1.0))))}
        plan = STORE.upkeep.dedupe(view(files, unattended=True), None)
        assert plan.actions == ()
        assert plan.notes[0].why == f"same text as {plan.notes[0].ids[1]}: `memoryd dedupe` merges them"
        assert re.fullmatch(r"similar to \S+ \(cosine 0\.866\): if one is enough, .*", plan.notes[1].why)
        assert STORE.upkeep.dedupe(view(files), None).actions

    @pytest.mark.parametrize(
        ("count", "last_run", "due"),
        [
            (10, None, False),
            (11, None, True),
            (11, NOW - DAY, False),
            (11, NOW - DAY - 1, True),
            (11, NOW + DAY, False),
        ],
    )
    def test_unattended_it_looks_when_the_program_would(self, count: int, last_run: float | None, due: bool) -> None:
        """More than ten memories, and more than a day since the last run."""
        stamp = iso(last_run) if last_run is not None else None
        files = {ALICE: text(doc(*[item("same")] * count, last_deduplicated_at=stamp))}
        assert bool(STORE.upkeep.dedupe(view(files, unattended=True), None).notes) is due

    def test_a_library_that_is_missing_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        near = embeddings.similarity_search([array("d", [1.0]), array("d", [1.0])])
        monkeypatch.setitem(sys.modules, "simsimd", None)  # as if it were not installed
        with pytest.raises(MemorydError, match="simsimd") as raised:
            near(0, 0.5)
        assert raised.value.hint == "reinstall memoryd"

    def test_every_pair_is_found(self) -> None:
        dice = random.Random(5)
        base = [[dice.gauss(0, 1) for _ in range(24)] for _ in range(12)]
        vectors = [[x + dice.gauss(0, 0.25) for x in base[n % 12]] for n in range(200)]
        units = [embeddings.unit_vector(json.dumps(each).encode()) for each in vectors]
        near = embeddings.similarity_search(units)
        for row, unit in enumerate(units):
            expected = [(other, cosine(unit, units[other])) for other in range(row + 1, len(units))]
            assert near(row, 0.9) == [(other, value) for other, value in expected if value >= 0.9]

    def test_suggestions_are_bounded(self) -> None:
        items = [item(f"fact {n}", (1.0, *[0.5 if m == n else 0.0 for m in range(40)])) for n in range(40)]
        kept, plan = merge(*items)
        assert len(kept) == 40
        assert len(plan.notes) == 11
        assert plan.notes[-1].why.startswith("770 more")

    def test_upkeep_reads_documents_with_something_to_compare(self) -> None:
        def summary(path: str, records: int) -> FileStats:
            return FileStats(path, Role.SOURCE, 9, records, 0, records, {})

        files = {path: summary(path, records) for path, records in ((BOB, 2), (ALICE, 3), (ROOT, 1))}
        assert STORE.upkeep.paths(files) == (ALICE, BOB)


class TestVectors:
    def test_extreme_lengths(self) -> None:
        for text_ in (b"[1e-200,1e-200]", b"[1e200,1e200]", b"[1,1]"):
            assert cosine(unit_vector(text_), unit_vector(b"[2,2]")) == pytest.approx(1.0)
        assert cosine(unit_vector(b"[1e-400,0]"), unit_vector(b"[1,0]")) == 0.0


class TestStamps:
    @pytest.mark.parametrize(
        ("example", "written"),
        [
            ("2025-12-31T12:00:00Z", "2026-01-31T10:00:00Z"),
            ("2026-11-21T22:02:47.113258+00:00", "2026-01-31T10:00:00.250000+00:00"),
            ("2026-11-21T22:02:47+00:00", "2026-01-31T10:00:00+00:00"),
            ("2026-11-21T22:02:47.113Z", "2026-01-31T10:00:00.250Z"),
            ("2026-11-21T22:02:47+05:30", "2026-01-31T15:30:00+05:30"),
            ("2026-11-21T22:02:47-0330", "2026-01-31T06:30:00-0330"),
            ("2026-11-21 22:02:47", "2026-01-31 10:00:00"),
            ("yesterday", "2026-01-31T10:00:00Z"),
            (None, "2026-01-31T10:00:00Z"),
        ],
    )
    def test_the_form_found_is_kept(self, example: object, written: str) -> None:
        assert format_like(example, NOW + 0.25) == written
        assert parse_stamp(written) is not None


# --- alarms


def summary(records: int, path: str = ALICE, **facts: Any) -> FileStats:
    return FileStats(path, Role.SOURCE, 100, records, 0, records, {"damaged": False, **facts})


class TestAlarms:
    @pytest.mark.parametrize(
        ("before", "after", "alarm"),
        [
            (10, 5, False),
            (10, 4, True),
            (10, 0, True),
            (1, 0, True),
            (0, 0, False),
            (2, 1, False),
            (3, 1, True),
            (5, 9, False),
        ],
    )
    def test_more_than_half_gone_or_all(self, before: int, after: int, alarm: bool) -> None:
        found = shrink_alarm(summary(before), summary(after))
        assert (found is not None) is alarm
        if found is not None:
            assert (found.code, found.path) == ("shrunk", ALICE)

    def test_a_first_version_cannot_have_shrunk(self) -> None:
        assert shrink_alarm(None, summary(0)) is None

    def test_a_document_that_cannot_be_read_has_an_alarm_of_its_own(self) -> None:
        unread = FileStats(ALICE, Role.SOURCE, 100, 1, 1, 0, {})
        assert shrink_alarm(summary(10), unread) is None


# --- healing


class TestRepair:
    def test_the_end_of_an_older_text_goes(self) -> None:
        data = text(doc(item())) + b'"}]}'
        found = read(data)
        assert codes(found) == ["torn-file"]
        (fix,) = STORE.repair.fixes(ALICE, LoadedFile(data, found, OLD), NOW)
        assert splice(data, fix.edits) == text(doc(item()))

    def test_a_corrupt_document_gets_its_backup_on_request(self) -> None:
        good = text(doc(item()))
        fix = STORE.repair.recover(ALICE, LoadedFile(good[:-9], read(good[:-9]), OLD), good, frozenset(), NOW)
        assert fix is not None
        assert (splice(good[:-9], fix.edits), fix.safe, fix.code) == (good, False, "corrupt-file")
        assert STORE.repair.fixes(ALICE, LoadedFile(good[:-9], read(good[:-9]), OLD), NOW) == ()
        assert STORE.repair.recover(ALICE, LoadedFile(good, read(good), OLD), good, frozenset(), NOW) is None


# --- many documents


def test_memory_stays_flat_over_many_large_documents() -> None:
    """Vectors as Python floats would cost 100 × 384 × 24 bytes, as a list of objects more; kept text as much as the
    files. The canary keeps them."""
    dice = random.Random(7)
    data = text(doc(*[item(f"fact {n}", [dice.gauss(0, 0.05) for _ in range(384)]) for n in range(100)]))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(20):
            found = read(data, f"user{number}/__long-memories/data.json")
            assert len(found.records) == 100
        peak = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.reset_peak()
        canary = [json.loads(data) for _ in range(2)]
        greedy = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert peak < 3.5 * len(data)
    assert greedy > 2 * peak, len(canary)


# --- on a real disk


@pytest.fixture
def buckets(tmp_path: Path) -> Iterator[Callable[..., Store]]:
    """A store of user documents."""
    with stores_on_disk(STORE, tmp_path, Policy()) as make:
        yield make


class TestOnDisk:
    def test_a_command_merges_a_schedule_only_suggests(self, buckets: Callable[..., Store]) -> None:
        many = [item(f"fact {chr(97 + n)}", angle(30 * n)) for n in range(9)]
        files = {
            ALICE: text(doc(*many, item("same", (0.0, 0.0, 1.0)), item("same", (0.0, 0.0, 1.0)))),
            BOB: TENDED[BOB],
        }
        store = buckets(files)
        assert dedupe(store, NOW, by="schedule").receipt is None
        assert on_disk(store) == files
        assert {each.code for each in all_findings(store)} == {"possible-duplicate"}
        done = dedupe(store, NOW, by="command")
        assert done.receipt
        assert on_disk(store) == carried_out(files, dedupe_of(files))
        (kept,) = store.journal.quarantine.entries()
        assert item("same")["data"]["content"].encode() in store.blobs.get(kept.blob)
        undo(store, done.receipt, NOW)
        assert on_disk(store) == files

    def test_repair_by_command(self, buckets: Callable[..., Store]) -> None:
        store = buckets({ALICE: TENDED[ALICE] + b"x}"})
        assert repair(store, NOW).receipt
        assert on_disk(store) == {ALICE: TENDED[ALICE]}
        refresh(store, None, NOW)
        assert not repair(store, NOW).plan

    def test_one_change_is_read_alone(self, buckets: Callable[..., Store], monkeypatch: pytest.MonkeyPatch) -> None:
        store = buckets({f"u{n}/__long-memories/data.json": text(doc(item(f"of {n}"))) for n in range(30)})
        place = Path(store.path) / "u7/__long-memories/data.json"
        place.write_bytes(text(doc(item("new"))))
        seen: list[str] = []
        parse = UserDocumentReader.parse

        def counted(self: UserDocumentReader, path: str, data: bytes, **more: Any) -> Document:
            seen.append(path)
            return parse(self, path, data, **more)

        monkeypatch.setattr(UserDocumentReader, "parse", counted)
        assert refresh(store, None, NOW).changed == ("u7/__long-memories/data.json",)
        assert seen == ["u7/__long-memories/data.json"]
