"""The JSONL store: the five laws, every oddity of a line, the index to the byte, ages and limits to the second."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins

from memoryd.core.dates import iso, parse_stamp, quarter
from memoryd.core.defaults import Limit, LimitKind, Policy
from memoryd.core.json_spans import with_member
from memoryd.core.plan import Kind, Plan
from memoryd.core.records import FRESH_S, Document, ParseOffset, Role
from memoryd.core.spans import sha256
from memoryd.layouts.jsonl_store import JSONL_STORE
from memoryd.layouts.protocol import Layout
from memoryd.operations.upkeep import action_row
from tests.layouts.contract import (
    NOW,
    OLD,
    PARSED,
    Files,
    LayoutContract,
    carried_out,
    index_of,
    upkeep_view,
)
from tests.layouts.samples import DAY, learning, line, lines, memory, task, uuid

STORE = JSONL_STORE
CORE, LEARNINGS, TASKS = "core_memories.jsonl", "learnings.jsonl", "tasks.jsonl"
Q4 = "archive/2025/learnings_2025_Q4.jsonl"

TENDED: Files = {
    CORE: lines(memory(1), memory(2, archived=True), memory(3, tags=[], category=None)),
    LEARNINGS: lines(
        learning(11, "2025-07-01T00:00:00Z"),
        learning(12, "2025-11-30T12:00:00+02:00", importance="low"),
        learning(13, content="zwei Zeilen\nund é, 东京, 😀, \u2028, \x7f"),
        learning(14, "2025-10-01T00:00:00Z", accessed_at="2026-01-30T00:00:00Z"),
    ),
    TASKS: lines(
        task(21, "completed", "2025-12-01T00:00:00Z"),
        task(22, "in-progress"),
        task(23, None),
        task(24, "completed", "2026-01-30T00:00:00Z"),
    ),
    Q4: lines(learning(11, "2025-07-01T00:00:00Z", archived=True), learning(19, archived=True)),
}

DAMAGED: Files = {
    CORE: b"\xef\xbb\xbf"
    + line(memory(1))
    + b"\r\n"
    + line(memory(2))
    + line(memory(3))
    + b"\r\n\0\0\0\n"
    + line(memory(4)),
    LEARNINGS: (
        b"\n\n  \t\n{not json}\n"
        + line(learning(11, "2025-07-01T00:00:00Z"))
        + b"\n[1,2]\n\xff\xfe\n\0\0\0"
        + line(learning(12, "2025-08-01T00:00:00Z"))
        + b"\0\0\n"
        + line(learning(11, "2025-07-01T00:00:00Z"))
        + b"\n"
        + line(memory(13, content=""))
        + b'\n{ "id" : "x" ,\t"content":"spaced \\u00e9" , "\\u0061rchived" : false , "archived": true }\n'
        + line(learning(14, "2025-07-01T00:00:00Z"))[:-20]
    ),
    TASKS: line(task(21, "completed", "2025-06-01T00:00:00Z")) + line(task(22))[:40],
}

SHIPPED: Files = {
    "core_memories.jsonl": lines(memory(1)),
    "python-expert.json": json.dumps(
        {"core_memories": [{"content": "a"}], "learnings": [{"content": "b", "id": "l1"}], "tasks": [], "metadata": {}}
    ).encode(),
}


class TestJsonlStoreContract(LayoutContract):
    layout: ClassVar[Layout] = STORE
    samples: ClassVar[Sequence[Mapping[str, bytes]]] = (TENDED, DAMAGED, SHIPPED)

    def same_memory(self, live: bytes, archived: bytes) -> bool:
        try:
            wanted, found = json.loads(live), json.loads(archived)
        except (ValueError, RecursionError):
            return False
        return json.dumps({**wanted, "archived": True}) == json.dumps(found) or (
            "archived" not in wanted and json.dumps(found) == json.dumps({**wanted, "archived": True})
        )


# --- reading lines


def read(data: bytes, path: str = CORE, *, age: float = 3600.0, now: float = NOW) -> Document:
    return STORE.reader.parse(path, data, now=now, mtime=now - age, base=ParseOffset())


def codes(found: Document) -> list[str]:
    return [finding.code for finding in found.findings]


def ids(found: Document) -> list[str]:
    return [record.id for record in found.records]


class TestLines:
    def test_the_seeds_own_example_is_sound(self) -> None:
        found = read(EXAMPLE_CORE)
        assert ids(found) == ["550e8400-e29b-41d4-a716-446655440000", "550e8400-e29b-41d4-a716-446655440001"]
        assert found.findings == ()
        assert (found.units, found.broken, found.pending) == (2, 0, False)

    @pytest.mark.parametrize("end", [b"", b"\n"])
    def test_a_final_newline_is_neither_demanded_nor_refused(self, end: bytes) -> None:
        assert read(EXAMPLE_CORE.rstrip(b"\n") + end).findings == ()

    def test_byte_order_mark_belongs_to_no_memory(self) -> None:
        data = b"\xef\xbb\xbf" + lines(memory(1), memory(2))
        found = read(data)
        assert codes(found) == ["byte-order-mark"]
        assert found.records[0].span.of(data) == line(memory(1))

    def test_a_byte_order_mark_in_the_middle_comes_from_joined_files(self) -> None:
        """Were it unreadable there, it would become readable when the lines before it leave."""
        data = lines(memory(1)) + b"\xef\xbb\xbf" + lines(memory(2))
        found = read(data)
        assert [(each.code, each.line) for each in found.findings] == [("byte-order-mark", 2)]
        assert [record.span.of(data) for record in found.records] == [line(memory(1)), line(memory(2))]

    def test_crlf_is_reported_once_and_preserved(self) -> None:
        data = lines(memory(1), memory(2)).replace(b"\n", b"\r\n")
        found = read(data)
        assert codes(found) == ["crlf-newlines"]
        assert [record.span.of(data) for record in found.records] == [line(memory(1)), line(memory(2))]

    def test_mixed_line_ends_and_blank_lines(self) -> None:
        data = line(memory(1)) + b"\r\n\r\n\n  \n" + line(memory(2)) + b"\n" + line(memory(3))
        found = read(data)
        assert ids(found) == [uuid(1), uuid(2), uuid(3)]
        assert [record.line for record in found.records] == [1, 5, 6]
        assert (codes(found), found.units) == (["crlf-newlines"], 3)

    def test_a_lone_carriage_return_ends_no_line(self) -> None:
        found = read(line(memory(1)) + b"\r" + line(memory(2)) + b"\n")
        assert ids(found) == [uuid(1), uuid(2)]
        assert codes(found) == ["joined-lines"]

    def test_invalid_utf8_is_skipped_with_its_line(self) -> None:
        data = lines(memory(1)) + line(memory(2)).replace(b"memory", b"m\xe9mory") + b"\n" + lines(memory(3))
        found = read(data)
        assert ids(found) == [uuid(1), uuid(3)]
        assert [(each.code, each.line) for each in found.findings] == [("invalid-encoding", 2)]
        assert found.findings[0].message.startswith("Invalid JSON at line 2: ")

    @pytest.mark.parametrize("tail", [b"\0" * 512, b"\0" * 512 + b"\n", b"\0\n\0\n"])
    def test_nul_tail(self, tail: bytes) -> None:
        found = read(lines(memory(1)) + tail)
        assert ids(found) == [uuid(1)]
        assert set(codes(found)) == {"nul-bytes"}
        assert found.findings[0].line == 2

    def test_nul_block_before_and_behind_a_memory(self) -> None:
        data = lines(memory(1)) + b"\0" * 100 + line(memory(2)) + b"\0" * 100 + b"\n"
        found = read(data)
        assert ids(found) == [uuid(1), uuid(2)]
        assert found.records[1].span.of(data) == line(memory(2))
        assert "nul-bytes" in codes(found)

    def test_nul_inside_a_memory_makes_it_unreadable(self) -> None:
        found = read(line(memory(1)).replace(b"memory", b"mem\0ory") + b"\n" + lines(memory(2)))
        assert ids(found) == [uuid(2)]
        assert codes(found) == ["nul-bytes"]

    @pytest.mark.parametrize("between", [b"", b" ", b"\t \r"])
    def test_joined_lines_are_two_memories(self, between: bytes) -> None:
        data = line(memory(1)) + between + line(memory(2)) + b"\n"
        found = read(data)
        assert ids(found) == [uuid(1), uuid(2)]
        assert [record.span.of(data) for record in found.records] == [line(memory(1)), line(memory(2))]
        assert [record.line for record in found.records] == [1, 1]
        assert (codes(found), found.units, found.broken) == (["joined-lines"], 2, 0)

    def test_joined_with_something_other_than_an_object_gives_nothing(self) -> None:
        for rest in (b"7", b'"text"', b"[]", b"junk", b","):
            found = read(line(memory(1)) + rest + b"\n")
            assert (ids(found), codes(found)) == ([], ["invalid-json"]), rest

    def test_joined_with_a_torn_one_gives_what_is_whole(self) -> None:
        found = read(line(memory(1)) + line(memory(2))[:50])
        assert ids(found) == [uuid(1)]
        assert codes(found) == ["torn-tail"]
        assert (found.units, found.broken, found.pending) == (2, 1, False)

    @pytest.mark.parametrize("cut", [1, 10, 100, 250])
    def test_torn_tail_fresh_is_a_writer_at_work(self, cut: int) -> None:
        data = lines(memory(1)) + line(memory(2))[:cut]
        found = read(data, age=FRESH_S - 0.1)
        assert found.pending
        assert (ids(found), codes(found)) == ([uuid(1)], [])

    @pytest.mark.parametrize("cut", [1, 10, 100, 250])
    def test_torn_tail_old_is_reported(self, cut: int) -> None:
        data = lines(memory(1)) + line(memory(2))[:cut]
        found = read(data, age=FRESH_S)
        assert not found.pending
        assert (ids(found), codes(found), found.findings[0].line) == ([uuid(1)], ["torn-tail"], 2)
        assert found.findings[0].message.startswith("Invalid JSON at line 2: ")

    def test_a_file_from_the_future_is_not_fresh_forever(self) -> None:
        """After the clock was set back, its stamp would make it look half-written for as long as that was."""
        found = read(lines(memory(1)) + b'{"id"', age=-7200.0)
        assert (codes(found), found.pending) == (["torn-tail"], False)
        assert read(lines(memory(1)) + b'{"id"', age=-0.5).pending

    def test_an_ended_bad_line_is_never_waited_for(self) -> None:
        found = read(b'{"id":\n', age=0.0)
        assert (codes(found), found.pending) == (["invalid-json"], False)

    def test_separators_of_unicode_end_no_line(self) -> None:
        for separator in ("\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c"):
            native = memory(1, content=f"a{separator}b")
            data = json.dumps(native, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" + lines(memory(2))
            found = read(data)
            assert ids(found) == [uuid(1), uuid(2)], separator
            assert found.records[0].native["content"] == f"a{separator}b"

    def test_lone_surrogates_are_read(self) -> None:
        data = line(memory(1, content="\ud800 half", tags=["\udc00"], category="\ud83d")) + b"\n"
        found = read(data)
        assert ids(found) == [uuid(1)]
        assert codes(found) == []
        index_of(STORE, {CORE: data})

    def test_a_hundred_thousand_brackets(self) -> None:
        for bad in (b"[" * 100_000, b'{"a":' * 100_000, b'{"content":' + b"[" * 100_000 + b"]" * 100_000 + b"}"):
            found = read(lines(memory(1)) + bad + b"\n" + lines(memory(2)))
            assert ids(found) == [uuid(1), uuid(2)]
            assert found.findings[0].code == "invalid-json"

    def test_deep_but_readable_nesting_is_carried_through_the_archive(self) -> None:
        deep = line(learning(1, "2025-07-01T00:00:00Z"))[:-1] + b',"x":' + b"[" * 900 + b"]" * 900 + b"}"
        files = {LEARNINGS: deep + b"\n"}
        done = carried_out(files, due(files))
        assert (
            done["archive/2025/learnings_2025_Q3.jsonl"]
            == deep.replace(b'"archived":false', b'"archived":true') + b"\n"
        )

    def test_a_number_of_five_thousand_digits(self) -> None:
        """Python refuses it; the line is skipped, its neighbours are not."""
        bad = line(memory(1)).replace(b'"access_count":5', b'"access_count":' + b"9" * 5000)
        found = read(bad + b"\n" + lines(memory(2)))
        assert ids(found) == [uuid(2)]
        assert codes(found) == ["invalid-json"]

    def test_a_count_of_four_hundred_digits(self) -> None:
        """No float holds it, and a soft limit has to sort by it."""
        big = line(learning(1)).replace(b'"access_count":5', b'"access_count":' + b"9" * 400)
        data = big + b"\n" + lines(learning(2))
        assert read(data, LEARNINGS).records[0].facts["access_count"] == 10**400 - 1
        plan = STORE.upkeep.enforce(
            upkeep_view(STORE, {LEARNINGS: data}, Policy()), {LEARNINGS: Limit(LimitKind.SOFT, None, 1)}
        )
        assert plan.actions[-1].ids == (uuid(2),)

    @pytest.mark.parametrize(
        "number", [b"1e999", b"-1e999", b"NaN", b"Infinity", b"-Infinity", b"1.5", b"-1", b"true", b'"5"']
    )
    def test_an_invalid_count(self, number: bytes) -> None:
        data = line(memory(1)).replace(b'"access_count":5', b'"access_count":' + number) + b"\n"
        found = read(data)
        assert found.records[0].facts["access_count"] == 0
        assert codes(found) == ["corrected-schema"]

    @pytest.mark.parametrize("number", [b"1e999", b"NaN", b"9" * 400])
    def test_odd_numbers_in_unknown_fields_travel_verbatim(self, number: bytes) -> None:
        odd = line(learning(1, "2025-07-01T00:00:00Z"))[:-1] + b',"score":' + number + b"}"
        done = carried_out({LEARNINGS: odd + b"\n"}, due({LEARNINGS: odd + b"\n"}))
        assert b'"score":' + number + b"}" in done["archive/2025/learnings_2025_Q3.jsonl"]

    def test_duplicate_keys_the_last_one_counts(self) -> None:
        data = line(memory(1))[:-1] + b',"content":"the last"}\n' + lines(memory(2))
        found = read(data)
        assert codes(found) == ["duplicate-key"]
        assert found.records[0].title == "the last"

    def test_nested_objects_are_not_parsed_twice(self, monkeypatch: pytest.MonkeyPatch) -> None:
        data = lines(task(1))
        monkeypatch.setattr(json, "loads", lambda *_, **__: pytest.fail("parsed again"))
        assert len(read(data, TASKS).records) == 1

    def test_duplicate_keys_below_the_top_are_found_as_well(self) -> None:
        data = line(task(1)).replace(b'"status":"completed"', b'"status":"blocked","status":"completed"') + b"\n"
        found = read(data, TASKS)
        assert "duplicate-key" in codes(found)
        assert found.records[0].facts["status"] == "completed"

    def test_findings_never_quote_a_memory(self) -> None:
        for path, data in DAMAGED.items():
            for finding in read(data.replace(b"memory number", b"hunter2-secret"), path).findings:
                assert "hunter2" not in finding.message

    @PARSED
    @given(
        native=st.dictionaries(
            st.text(max_size=8),
            st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5),
        )
    )
    def test_whatever_the_seeds_reader_takes_is_taken(self, native: dict[str, Any]) -> None:
        """The seed reads with `json.loads`: what that accepts is not a syntax error here, and the value is the same."""
        native |= {"id": uuid(1), "content": "c"}
        for text in (json.dumps(native), json.dumps(native, ensure_ascii=False)):
            try:
                data = text.encode()
            except UnicodeEncodeError:
                continue
            found = read(data + b"\n")
            assert found.records[0].native == json.loads(data)


EXAMPLE_CORE = (
    b'{"id":"550e8400-e29b-41d4-a716-446655440000","type":"core","content":"User prefers pytest over unittest",'
    b'"category":"preference","created_at":"2026-01-01T10:00:00Z","updated_at":"2026-01-01T10:00:00Z",'
    b'"accessed_at":"2026-01-01T10:00:00Z","access_count":5,"tags":["python","testing"],"importance":"high",'
    b'"archived":false}\n'
    b'{"id":"550e8400-e29b-41d4-a716-446655440001","type":"core","content":"Project uses black for formatting with line'
    b' length 88","category":"fact","created_at":"2026-01-01T10:05:00Z","updated_at":"2026-01-01T10:05:00Z",'
    b'"accessed_at":"2026-01-01T10:05:00Z","access_count":3,"tags":["python","formatting","black"],'
    b'"importance":"medium","archived":false}\n'
)


# --- the schema


class TestSchema:
    def test_five_thousand_accented_letters_are_valid_and_make_a_long_line(self) -> None:
        data = json.dumps(memory(1, content="é" * 5000), ensure_ascii=False).encode() + b"\n"
        assert len(data) < 10_500
        found = read(data)
        assert ids(found) == [uuid(1)]
        assert codes(found) == ["line-too-long"]

    def test_a_code_point_more_is_an_error(self) -> None:
        for letter in ("x", "é", "😀"):
            data = json.dumps(memory(1, content=letter * 5001)).encode() + b"\n"
            found = read(data)
            assert ids(found) == []
            assert "invalid-schema" in codes(found)
            said = next(each for each in found.findings if each.code == "invalid-schema")
            assert said.message.startswith("Invalid schema at line 1: content")

    @pytest.mark.parametrize("ascii_only", [True, False])
    def test_five_thousand_emoji_are_valid(self, ascii_only: bool) -> None:
        """10,000 UTF-16 units, 20,000 bytes, 60,000 as the seed's own `json.dumps` writes them."""
        data = json.dumps(memory(1, content="😀" * 5000), ensure_ascii=ascii_only).encode() + b"\n"
        found = read(data)
        assert ids(found) == [uuid(1)]
        assert codes(found) == ["line-too-long"]

    def test_the_bound_of_a_line_is_10240_bytes(self) -> None:
        room = 10_240 - len(line(memory(1, note="")))
        assert codes(read(line(memory(1, note="x" * room)) + b"\n")) == []
        assert codes(read(line(memory(1, note="x" * (room + 1))) + b"\n")) == ["line-too-long"]

    @pytest.mark.parametrize(
        ("field", "value", "fact", "wanted"),
        [
            ("access_count", None, "access_count", 0),
            ("access_count", -1, "access_count", 0),
            ("access_count", 2.0, "access_count", 0),
            ("access_count", True, "access_count", 0),
            ("tags", None, "tags", []),
            ("tags", "python", "tags", []),
            ("tags", {}, "tags", []),
            ("tags", ["a", 7, None, "b"], "tags", ["a", "b"]),
            ("importance", None, "importance", "medium"),
            ("importance", "HIGH", "importance", "medium"),
            ("importance", ["high"], "importance", "medium"),
            ("importance", {}, "importance", "medium"),
            ("archived", None, "archived", False),
            ("archived", "true", "archived", False),
            ("archived", 1, "archived", False),
            ("category", 7, "category", None),
            ("updated_at", None, "updated", parse_stamp("2026-01-01T10:00:00Z")),
            ("updated_at", "yesterday", "updated", parse_stamp("2026-01-01T10:00:00Z")),
            ("accessed_at", 1_700_000_000, "accessed", parse_stamp("2026-01-01T10:00:00Z")),
            ("created_at", "2026-01-01T10:00:00", "created", parse_stamp("2026-01-01T10:00:00Z")),
        ],
    )
    def test_what_can_be_corrected_is_in_memory_only(self, field: str, value: Any, fact: str, wanted: Any) -> None:
        found = read(lines(memory(1, **{field: value})))
        facts = found.records[0].facts
        assert facts[fact] == (wanted.seconds if hasattr(wanted, "seconds") else wanted)
        assert codes(found) == ["corrected-schema"]
        assert found.findings[0].message.startswith("Invalid schema at line 1: ")
        assert JSONL_STORE.findings[found.findings[0].code].fixable

    @pytest.mark.parametrize("kind", [None, "note", "Core", 7, [], {}])
    def test_an_unknown_type_is_that_of_the_file(self, kind: Any) -> None:
        native = memory(1)
        native["type"] = kind
        for path, wanted in ((CORE, "core"), (LEARNINGS, "learning"), (TASKS, "task")):
            found = read(lines(native), path)
            assert found.records[0].type == wanted
            assert codes(found) == ["corrected-schema"]

    def test_a_memory_in_the_file_of_another_type_keeps_its_own(self) -> None:
        found = read(lines(learning(1)), CORE)
        assert (found.records[0].type, codes(found)) == ("learning", ["wrong-type-for-file"])

    def test_created_comes_from_the_earliest_stamp_else_from_the_file(self) -> None:
        found = read(lines(memory(1, created_at=None, updated_at="2025-05-05T00:00:00Z")))
        assert iso(found.records[0].facts["created"]) == "2025-05-05T00:00:00Z"
        bare = read(lines(memory(1, created_at=None, updated_at=None, accessed_at=None)))
        assert bare.records[0].facts["created"] == bare.records[0].facts["accessed"] == OLD

    @pytest.mark.parametrize("content", [None, "", 7, [], {"a": 1}])
    def test_without_content_nothing_can_be_done(self, content: Any) -> None:
        native = memory(1)
        native["content"] = content
        found = read(lines(native, memory(2)))
        assert ids(found) == [uuid(2)]
        assert [(each.code, each.line, each.id) for each in found.findings] == [("invalid-schema", 1, uuid(1))]
        assert (found.units, found.broken) == (2, 0)

    @pytest.mark.parametrize("value", [b"[]", b"7", b'"text"', b"null", b"true", b"[{}]", b"NaN"])
    def test_only_an_object_is_a_memory(self, value: bytes) -> None:
        """The line is JSON, so the seed calls it a schema error; it counts as unreadable all the same."""
        found = read(value + b"\n")
        assert (ids(found), codes(found), found.broken) == ([], ["invalid-schema"], 1)
        assert found.findings[0].message == "Invalid schema at line 1: not a JSON object"

    @pytest.mark.parametrize("identity", [None, "", 7])
    def test_without_id_no_index_can_name_it(self, identity: Any) -> None:
        native = memory(1)
        native["id"] = identity
        found = read(lines(native))
        assert (ids(found), codes(found)) == ([], ["missing-id"])

    @pytest.mark.parametrize("identity", ["mem-001", "550e8400-e29b-11d4-a716-446655440000", "{" + uuid(1) + "}"])
    def test_another_sort_of_id_is_accepted(self, identity: str) -> None:
        found = read(lines(memory(1, id=identity)))
        assert (ids(found), codes(found)) == ([identity], ["id-not-uuid"])

    def test_bounds_that_would_need_cutting_are_only_warned_about(self) -> None:
        wide: list[tuple[str, Any]] = [("tags", ["t"] * 11), ("tags", ["x" * 31]), ("category", "c" * 51)]
        for field, value in wide:
            found = read(lines(memory(1, **{field: value})))
            assert codes(found) == ["schema-bound"]
            assert found.records[0].facts[field] == value
        just: list[tuple[str, Any]] = [("tags", ["t"] * 10), ("tags", ["é" * 30]), ("category", "é" * 50)]
        for field, value in just:
            assert codes(read(lines(memory(1, **{field: value})))) == []

    def test_stamps_from_the_future(self) -> None:
        assert codes(read(lines(memory(1, accessed_at=iso(NOW + 300))))) == []
        assert codes(read(lines(memory(1, accessed_at=iso(NOW + 301))))) == ["future-stamp"]

    @pytest.mark.parametrize(
        ("metadata", "wanted"),
        [
            ({"status": "completed"}, ["completed-without-date"]),
            ({"status": "completed", "completed_at": "soon"}, ["completed-without-date"]),
            ({"status": "completed", "completed_at": "2026-01-01T00:00:00Z", "outcome": "done"}, []),
            ({"status": "in-progress"}, []),
            ({"status": "blocked", "blockers": ["review"]}, []),
            ({"status": "blocked"}, ["task-metadata"]),
            ({"status": "blocked", "blockers": [1]}, ["task-metadata"]),
            ({"status": "done"}, ["task-metadata"]),
            ({"status": []}, ["task-metadata"]),
            ({}, ["task-metadata"]),
            ([], ["task-metadata"]),
            (None, []),
        ],
    )
    def test_task_metadata(self, metadata: Any, wanted: list[str]) -> None:
        native = task(1, None) | {"task_metadata": metadata}
        found = read(lines(native), TASKS)
        assert (ids(found), codes(found)) == ([uuid(1)], wanted)

    def test_archives_are_history_and_not_judged(self) -> None:
        found = STORE.reader.parse(Q4, lines(memory(1, tags="x")) + b"{bad\n", now=NOW, mtime=OLD, base=ParseOffset())
        assert codes(found) == ["invalid-json"]
        assert (found.units, found.broken) == (2, 1)

    def test_a_half_written_archive_line_is_not_counted_as_readable(self) -> None:
        found = STORE.reader.parse(Q4, lines(memory(1)) + b'{"id":', now=NOW, mtime=NOW, base=ParseOffset())
        assert found.pending
        assert found.units - found.broken == 1


# --- what the server really shipped, and roles


class TestShippedForm:
    path = "python-expert.json"

    def test_it_is_read_and_never_in_the_index(self) -> None:
        found = read(SHIPPED[self.path], self.path)
        assert [(each.type, each.title) for each in found.records] == [("core", "a"), ("learning", "b")]
        assert codes(found) == ["shipped-form"]
        assert STORE.reader.role(self.path) is Role.SOURCE
        assert self.path not in STORE.reader.source_paths(SHIPPED)
        body = json.loads(index_of(STORE, SHIPPED).files["index.json"])
        assert body["statistics"]["total_memories"] == 1
        assert body["statistics"]["total_storage_bytes"] == len(SHIPPED[CORE])

    def test_other_json_files_are_not_part_of_the_store(self) -> None:
        for data in (b"{}", b"[]", b"7", b"not json"):
            assert codes(read(data, "package.json")) == ["foreign-file"]

    def test_half_written_waits_and_torn_is_reported(self) -> None:
        torn = SHIPPED[self.path][:-10]
        assert read(torn, self.path, age=0.5).pending
        assert codes(read(torn, self.path)) == ["corrupt-file"]

    def test_elements_that_are_not_memories(self) -> None:
        content: dict[str, Any] = {
            "core_memories": [7, {"content": "x" * 5001}, {"title": "a task"}],
            "learnings": {},
            "tasks": None,
        }
        found = read(json.dumps(content).encode(), self.path)
        assert [each.title for each in found.records] == ["a task"]
        assert codes(found) == ["shipped-form"] + ["invalid-schema"] * 4

    @pytest.mark.parametrize(
        "bad",
        [b"[" * 100_000, b'{"core_memories":' + b"[" * 100_000, b"\xff", b'{"core_memories":[{"content":"\\ud800"}]}'],
    )
    def test_patience(self, bad: bytes) -> None:
        read(bad, self.path)

    def test_neither_index_nor_hidden_nor_nested_files_are_taken_for_it(self) -> None:
        for path in ("index.json", ".hidden.json", "sub/agent.json", ".backup/agent.json", "agent.json.backup"):
            assert STORE.reader.role(path) is not Role.SOURCE


@pytest.mark.parametrize(
    ("path", "role"),
    [
        (CORE, Role.SOURCE),
        (LEARNINGS, Role.SOURCE),
        (TASKS, Role.SOURCE),
        ("index.json", Role.INDEX),
        (".lock", Role.LOCK),
        (".backup/learnings.jsonl.backup", Role.BACKUP),
        (".backup/core_memories.jsonl.backup.20260101_100000", Role.BACKUP),
        (Q4, Role.ARCHIVE),
        ("archive/2025/learning_memories_2025_Q4.jsonl", Role.ARCHIVE),
        ("archive/learnings.jsonl", Role.FOREIGN),
        ("archive/2025/notes.txt", Role.FOREIGN),
        ("learnings.jsonl.tmp", Role.TEMP),
        ("learnings.jsonl.memoryd-12-1.tmp", Role.TEMP),
        ("learnings.jsonl.bak", Role.TEMP),
        ("learnings.jsonl~", Role.TEMP),
        (".learnings.jsonl.swp", Role.TEMP),
        ("learnings.sync-conflict-20260101-1.jsonl", Role.TEMP),
        ("learnings.jsonl.backup", Role.FOREIGN),
        ("sub/learnings.jsonl", Role.FOREIGN),
        ("README.md", Role.FOREIGN),
        ("memory_20250531014523.json.tmp", Role.TEMP),
    ],
)
def test_roles(path: str, role: Role) -> None:
    assert STORE.reader.role(path) is role


# --- the index


def written(files: Files, now: float = NOW) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(index_of(STORE, files, now).files["index.json"])
    return body


class TestIndex:
    def test_exactly_the_seeds_example(self) -> None:
        """Keys, their order, nesting, indentation and the lists on one line are those of the document."""
        example = (
            b'{\n  "version": "1.0.0",\n  "last_updated": "2026-01-31T10:00:00Z",\n  "statistics": {\n'
            b'    "total_memories": 2,\n    "by_type": {\n      "core": 2,\n      "learning": 0,\n      "task": 0'
            b'\n    },\n    "archived_count": 0,\n    "total_storage_bytes": 669\n  },\n  "tags_index": {\n'
            b'    "python": ["550e8400-e29b-41d4-a716-446655440000", "550e8400-e29b-41d4-a716-446655440001"],\n'
            b'    "testing": ["550e8400-e29b-41d4-a716-446655440000"],\n'
            b'    "formatting": ["550e8400-e29b-41d4-a716-446655440001"],\n'
            b'    "black": ["550e8400-e29b-41d4-a716-446655440001"]\n  },\n  "category_index": {\n'
            b'    "preference": ["550e8400-e29b-41d4-a716-446655440000"],\n'
            b'    "fact": ["550e8400-e29b-41d4-a716-446655440001"]\n  },\n  "importance_index": {\n'
            b'    "high": ["550e8400-e29b-41d4-a716-446655440000"],\n'
            b'    "medium": ["550e8400-e29b-41d4-a716-446655440001"],\n    "low": []\n  }\n}'
        )
        assert len(EXAMPLE_CORE) == 669
        assert index_of(STORE, {CORE: EXAMPLE_CORE}).files == {"index.json": example}

    def test_of_an_empty_store(self) -> None:
        assert written({CORE: b""}) == {
            "version": "1.0.0",
            "last_updated": "2026-01-31T10:00:00Z",
            "statistics": {
                "total_memories": 0,
                "by_type": {"core": 0, "learning": 0, "task": 0},
                "archived_count": 0,
                "total_storage_bytes": 0,
            },
            "tags_index": {},
            "category_index": {},
            "importance_index": {"high": [], "medium": [], "low": []},
        }

    def test_statistics_are_true(self) -> None:
        statistics = written(TENDED)["statistics"]
        assert statistics["by_type"] == {"core": 2, "learning": 4, "task": 4}
        assert statistics["total_memories"] == 10
        assert statistics["archived_count"] == 3  # two archive lines, one marked and not yet moved
        assert statistics["total_storage_bytes"] == sum(map(len, TENDED.values()))

    def test_a_damaged_store_counts_what_can_be_used(self) -> None:
        result = index_of(STORE, DAMAGED)
        # "x" is in the learnings with two keys `archived`, the last of which is true.
        assert (result.memories, result.by_type, result.archived) == (7, {"core": 4, "learning": 2, "task": 1}, 1)
        assert [(each.code, each.path, each.id) for each in result.findings] == [("duplicate-id", LEARNINGS, uuid(11))]

    def test_the_first_of_equal_ids_counts_across_files_in_the_seeds_order(self) -> None:
        files = {
            TASKS: lines(task(1, tags=["third"])),
            LEARNINGS: lines(learning(1, tags=["second"])),
            CORE: lines(memory(1, tags=["first"]), memory(1, tags=["again"])),
        }
        result = index_of(STORE, files)
        assert result.by_type == {"core": 1, "learning": 0, "task": 0}
        assert list(written(files)["tags_index"]) == ["first"]
        assert [(each.path, each.line) for each in result.findings] == [(CORE, 2), (LEARNINGS, 1), (TASKS, 1)]

    def test_a_tag_named_twice_lists_the_memory_once(self) -> None:
        assert written({CORE: lines(memory(1, tags=["a", "a"]))})["tags_index"] == {"a": [uuid(1)]}

    def test_tags_are_text_not_syntax(self) -> None:
        odd = ["", '"', "\\", "a\nb", "\u2028", "😀", "\0", "version", "</script>"]
        assert list(written({CORE: lines(memory(1, tags=odd))})["tags_index"]) == odd

    def test_only_a_change_of_meaning_moves_last_updated(self) -> None:
        files = dict(TENDED)
        files |= index_of(STORE, files).files
        assert index_of(STORE, files, NOW + 9999).files == {}
        files[CORE] += lines(memory(99))
        assert written(files, NOW + 9999)["last_updated"] == iso(NOW + 9999)

    def test_an_index_in_another_dress_but_with_the_same_meaning_is_left_alone(self) -> None:
        files = dict(TENDED)
        body = written(files)
        shuffled = {key: body[key] for key in reversed(body)} | {"last_updated": "2020-01-01T00:00:00Z"}
        assert index_of(STORE, {**files, "index.json": json.dumps(shuffled, indent=8).encode()}).files == {}

    @pytest.mark.parametrize(
        "version", ["0.9.0", "1.0", "1.1.0", "banana", "", None, 1, 2.0, [], {}, "-2.0.0", "v2", "9" * 5000 + "x"]
    )
    def test_an_older_or_unreadable_version_is_rebuilt(self, version: Any) -> None:
        body = written(TENDED) | {"version": version}
        result = index_of(STORE, {**TENDED, "index.json": json.dumps(body).encode()})
        assert json.loads(result.files["index.json"])["version"] == "1.0.0"
        assert result.newer is None

    @pytest.mark.parametrize("version", ["2.0.0", "2", "10.0", "99.1.7-beta"])
    def test_a_newer_major_version_is_left_alone(self, version: str) -> None:
        body = written(TENDED) | {"version": version, "statistics": {}}
        result = index_of(STORE, {**TENDED, "index.json": json.dumps(body).encode()})
        assert (dict(result.files), result.newer) == ({}, version)
        assert result.memories == 10

    def test_a_version_number_of_absurd_length_does_not_hurt(self) -> None:
        body = {"version": "9" * 5000 + ".0"}
        index_of(STORE, {"index.json": json.dumps(body).encode()})

    @pytest.mark.parametrize(
        "garbage",
        [b"", b"\0" * 100, b"{", b"[]", b"null", b"\xff\xfe", b'"1.0.0"', b"[" * 100_000, b'{"version":"1.0.0"}',
         b"\xef\xbb\xbf{}",
         b'{"version":"1.0.0","statistics":7,"tags_index":[],"category_index":null,"importance_index":1e999}'],
    )  # fmt: skip
    def test_a_corrupt_index_is_rebuilt(self, garbage: bytes) -> None:
        assert index_of(STORE, {**TENDED, "index.json": garbage}).files == index_of(STORE, TENDED).files

    def test_unknown_keys_are_carried_over(self) -> None:
        extra = {
            "embedding_model": "x",
            "nested": {"a": [1, 2.5, None, {"b": "é"}], "empty": {}, "list": []},
            "n": 10**25,
        }
        files = {**TENDED, "index.json": json.dumps(written(TENDED) | extra).encode()}
        assert index_of(STORE, files).files == {}
        files[CORE] += lines(memory(99))
        again = written(files)
        assert {key: again[key] for key in extra} == extra
        assert again["statistics"]["total_memories"] == 11

    def test_an_index_with_a_further_member_that_is_no_utf8_is_rebuilt(self) -> None:
        index = index_of(STORE, TENDED).files["index.json"]
        torn = index.replace(b"{", b'{"note":"caf\xe9",', 1)
        assert index_of(STORE, {**TENDED, "index.json": torn}).files == {"index.json": index}

    def test_unknown_keys_of_great_depth_do_not_stop_the_index(self) -> None:
        deep = b'{"version":"1.0.0","deep":' + b'{"a":' * 800 + b"1" + b"}" * 800 + b"}"
        result = index_of(STORE, {**TENDED, "index.json": deep})
        assert json.loads(result.files["index.json"])["statistics"]["total_memories"] == 10

    def test_unknown_members_stay_verbatim(self) -> None:
        odd = b'{"x" : [1.0,  1e2,12345678901234567890123,\n"\\u00e9"], "version":"0.9.0", "y":{\n  "a" : 1}}'
        result = index_of(STORE, {**TENDED, "index.json": odd}).files["index.json"]
        assert b'"x": [1.0,  1e2,12345678901234567890123,\n"\\u00e9"],\n  "y": {\n  "a" : 1}\n}' in result

    @given(st.lists(st.text(alphabet='",\\[] a\u2028é\n', min_size=1), min_size=1, unique=True))
    def test_any_id_and_tag_survives_the_index(self, names: list[str]) -> None:
        body = written({CORE: lines(*(memory(1, id=name, tags=[name, "all"]) for name in names))})
        assert body["tags_index"] == {name: [name] for name in names if name != "all"} | {"all": names}
        assert body["importance_index"]["high"] == names

    def test_lone_surrogates_do_not_stop_the_index(self) -> None:
        data = line(memory(1, id="\ud800", tags=["\udc00"], category="\ud83d")) + b"\n"
        assert written({CORE: data})["statistics"]["total_memories"] == 1


# --- the quarter of a memory, and the end of its time


def due(files: Files, now: float = NOW, policy: Policy | None = None, named: Sequence[str] | None = None) -> Plan:
    return STORE.upkeep.archive(upkeep_view(STORE, files, policy or Policy(), now), named)


def moved(plan: Plan) -> list[str]:
    return [each for action in plan.actions if action.kind is Kind.REWRITE for each in action.ids]


def at(text: str) -> float:
    stamp = parse_stamp(text)
    assert stamp is not None
    return stamp.seconds


@pytest.mark.parametrize(
    ("created", "name"),
    [
        ("2025-12-31T23:59:59Z", "archive/2025/learnings_2025_Q4.jsonl"),
        ("2026-01-01T00:30:00+02:00", "archive/2025/learnings_2025_Q4.jsonl"),
        ("2026-01-01T00:00:00Z", "archive/2026/learnings_2026_Q1.jsonl"),
        ("2026-03-31T23:59:59.999999Z", "archive/2026/learnings_2026_Q1.jsonl"),
        ("2026-04-01T00:00:00Z", "archive/2026/learnings_2026_Q2.jsonl"),
        ("2025-12-31T20:00:00-05:00", "archive/2026/learnings_2026_Q1.jsonl"),
        ("1969-12-31T23:59:59Z", "archive/1969/learnings_1969_Q4.jsonl"),
        ("0001-01-01T00:00:00Z", "archive/0001/learnings_0001_Q1.jsonl"),
    ],
)
def test_quarter_is_that_of_creation_in_utc(created: str, name: str) -> None:
    files = {LEARNINGS: lines(learning(1, created_at=created, updated_at=created, accessed_at=created))}
    plan = due(files, now=at("2027-01-01T00:00:00Z"))
    assert [action.path for action in plan.actions] == [name, LEARNINGS]


@pytest.mark.parametrize("stamp", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_moment_outside_the_years_of_utc_is_not_a_stamp(stamp: str) -> None:
    found = read(lines(learning(1, stamp)), LEARNINGS)
    assert "corrected-schema" in codes(found)
    quarter(found.records[0].facts["created"])


class TestAges:
    def test_a_learning_leaves_after_ninety_days_without_access(self) -> None:
        files = {LEARNINGS: lines(learning(1, "2025-06-01T00:00:00Z", accessed_at=iso(NOW - 90 * DAY)))}
        assert moved(due(files, NOW - 1)) == []
        assert moved(due(files, NOW - DAY)) == []
        assert moved(due(files, NOW)) == [uuid(1)]

    @pytest.mark.parametrize("field", ["accessed_at", "updated_at", "created_at"])
    def test_the_latest_of_the_three_stamps_counts(self, field: str) -> None:
        files = {LEARNINGS: lines(learning(1, "2025-01-01T00:00:00Z", **{field: iso(NOW - 10 * DAY)}))}
        assert moved(due(files)) == []

    def test_a_task_leaves_thirty_days_after_completion(self) -> None:
        files = {TASKS: lines(task(1, "completed", iso(NOW - 30 * DAY), created_at="2024-01-01T00:00:00Z"))}
        assert moved(due(files, NOW - 60)) == []  # 29 days, 23 hours, 59 minutes
        assert moved(due(files, NOW - 1)) == []
        assert moved(due(files, NOW)) == [uuid(1)]

    @pytest.mark.parametrize("status", ["in-progress", "blocked", None])
    def test_an_open_task_stays_forever(self, status: str | None) -> None:
        old = iso(NOW - 400 * DAY)
        files = {TASKS: lines(task(1, status, created_at=old, updated_at=old, accessed_at=old))}
        assert moved(due(files)) == []

    def test_a_completed_task_without_date_goes_by_its_last_update(self) -> None:
        for days, wanted in ((29, []), (30, [uuid(1)])):
            native = task(1, "completed", None, created_at="2024-01-01T00:00:00Z", updated_at=iso(NOW - days * DAY))
            assert moved(due({TASKS: lines(native)})) == wanted

    def test_a_stamp_from_the_future_holds_a_learning(self) -> None:
        for field in ("accessed_at", "updated_at", "created_at"):
            files = {LEARNINGS: lines(learning(1, "2024-01-01T00:00:00Z", **{field: iso(NOW + 301)}))}
            assert moved(due(files)) == []

    def test_a_stamp_from_the_future_holds_a_task(self) -> None:
        future = task(1, "completed", iso(NOW + DAY), created_at="2024-01-01T00:00:00Z")
        assert moved(due({TASKS: lines(future)})) == []
        assert moved(due({TASKS: lines(task(1, "completed", iso(NOW - 40 * DAY), updated_at=iso(NOW + 301)))})) == []

    def test_a_completion_in_the_future_holds_a_task_and_is_reported(self) -> None:
        files = {TASKS: lines(task(1, "completed", iso(NOW + DAY)), task(2, "completed", iso(NOW - DAY)))}
        assert moved(due(files)) == []
        plan = enforced(files, 0)
        assert moved(plan) == [uuid(2)]
        assert codes(read(files[TASKS], TASKS)) == ["future-stamp"]

    def test_core_memories_leave_only_by_hand(self) -> None:
        old = "2001-01-01T00:00:00Z"
        files = {CORE: lines(memory(1, created_at=old, updated_at=old, accessed_at=old), memory(2))}
        assert moved(due(files)) == []
        plan = due(files, named=[uuid(1)])
        assert moved(plan) == [uuid(1)]
        assert plan.actions[0].path == "archive/2001/core_memories_2001_Q1.jsonl"

    def test_what_is_marked_archived_leaves_every_file(self) -> None:
        files = {
            CORE: lines(memory(1, archived=True)),
            LEARNINGS: lines(learning(2, archived=True)),
            TASKS: lines(task(3, "in-progress", archived=True)),
        }
        assert moved(due(files)) == [uuid(1), uuid(2), uuid(3)]

    def test_importance_makes_no_difference_unless_asked(self) -> None:
        files = {
            LEARNINGS: lines(
                *(
                    learning(n, "2025-01-01T00:00:00Z", importance=level)
                    for n, level in enumerate(("high", "medium", "low"), 1)
                )
            )
        }
        assert moved(due(files)) == [uuid(1), uuid(2), uuid(3)]
        assert moved(due(files, policy=Policy(keep_importance=("high",)))) == [uuid(2), uuid(3)]

    def test_ages_are_settings(self) -> None:
        policy = Policy(archive_learnings_after_days=7, archive_tasks_after_days=1)
        files = {
            LEARNINGS: lines(learning(1, iso(NOW - 7 * DAY)), learning(2, iso(NOW - 7 * DAY + 1))),
            TASKS: lines(task(3, "completed", iso(NOW - DAY)), task(4, "completed", iso(NOW - DAY + 1))),
        }
        assert moved(due(files, policy=policy)) == [uuid(1), uuid(3)]

    def test_each_memory_has_its_own_reason(self) -> None:
        plan = due(TENDED)
        rewrite = next(action for action in plan.actions if action.path == LEARNINGS)
        assert dict(zip(rewrite.ids, rewrite.reasons, strict=True)) == {uuid(11): "learning not used for 214 days"}
        assert to_builtins(action_row(rewrite))["memories"] == [
            {"id": uuid(11), "why": "learning not used for 214 days"}
        ]

    def test_a_plan_counts_what_it_archives_by_each_rule(self) -> None:
        used = (NOW - (90 + n) * DAY for n in range(5))
        files = {LEARNINGS: lines(*(learning(n, iso(at)) for n, at in enumerate(used)), learning(5, archived=True))}
        assert {action.why for action in due(files).actions} == {
            "copy 5 learnings",
            "copy 1 learning",
            "archive 5 learnings not used for 90 days, 1 learning marked as archived",
        }


class TestArchivedCopy:
    @pytest.mark.parametrize(
        ("text", "wanted"),
        [
            (b'{"id":"a","content":"c","archived":false}', b'{"id":"a","content":"c","archived":true}'),
            (b'{"archived":true,"id":"a"}', b'{"archived":true,"id":"a"}'),
            (b'{ "id" : "a" , "archived" :\tfalse }', b'{ "id" : "a" , "archived" :\ttrue }'),
            (b'{"\\u0061rchived":null,"id":"a"}', b'{"\\u0061rchived":true,"id":"a"}'),
            (b'{"archived":false,"x":1,"archived":false}', b'{"archived":false,"x":1,"archived":true}'),
            (b'{"x":{"archived":false},"archived":[{"archived":1}]}', b'{"x":{"archived":false},"archived":true}'),
            (b'{"id":"a","content":"c"}', b'{"id":"a","content":"c","archived":true}'),
            (b'{"id": "a", "content": "c"}', b'{"id": "a", "content": "c", "archived": true}'),
            (b'{ "id": "a" }', b'{ "id": "a", "archived": true }'),
            (b'{"content":"\\"archived\\":false"}', b'{"content":"\\"archived\\":false","archived":true}'),
            (
                b'{"content":"\xc3\xa9 \xf0\x9f\x98\x80","archived":false,"z":"\xe2\x80\xa8"}',
                b'{"content":"\xc3\xa9 \xf0\x9f\x98\x80","archived":true,"z":"\xe2\x80\xa8"}',
            ),
            (b"{}", b'{"archived":true}'),
            (b'{"a":1e999,"b":NaN,"archived":"no"}', b'{"a":1e999,"b":NaN,"archived":true}'),
        ],
    )
    def test_only_the_flag_changes(self, text: bytes, wanted: bytes) -> None:
        assert with_member(text, "archived", b"true") == wanted
        assert json.loads(wanted)["archived"] is True

    def test_the_line_goes_verbatim_also_from_crlf_and_joined_lines(self) -> None:
        old = learning(1, "2025-07-01T00:00:00Z")
        for data in (
            line(old) + b"\r\n" + lines(learning(2)),
            line(learning(2)) + line(old) + b"\n",
            b"\0\0" + line(old),
        ):
            done = carried_out({LEARNINGS: data}, due({LEARNINGS: data}))
            assert done["archive/2025/learnings_2025_Q3.jsonl"] == lines(old | {"archived": True})
            assert uuid(1) not in ids(read(done[LEARNINGS], LEARNINGS))

    def test_an_archive_without_final_newline_gets_one_first(self) -> None:
        old = learning(1, "2025-10-05T00:00:00Z")
        files = {LEARNINGS: lines(old), Q4: line(learning(9, archived=True))}
        done = carried_out(files, due(files))
        assert done[Q4] == lines(learning(9, archived=True), old | {"archived": True})

    def test_a_copy_that_is_there_is_not_made_again(self) -> None:
        old = learning(1, "2025-10-05T00:00:00Z")
        files = {LEARNINGS: lines(old), Q4: lines(old | {"archived": True})}
        plan = due(files)
        assert [action.kind for action in plan.actions] == [Kind.REWRITE]
        assert carried_out(files, plan) == {LEARNINGS: b"", Q4: files[Q4]}

    def test_an_archived_one_of_other_content_is_not_a_copy(self) -> None:
        old = learning(1, "2025-10-05T00:00:00Z")
        files = {LEARNINGS: lines(old), Q4: lines(old | {"archived": True, "content": "an earlier wording"})}
        assert carried_out(files, due(files))[Q4].count(b"\n") == 2

    @pytest.mark.parametrize(("policy", "end"), [("always", b"\n"), ("keep", b""), ("never", b"")])
    def test_final_newline_of_the_rest(self, policy: str, end: bytes) -> None:
        data = lines(learning(1, "2025-07-01T00:00:00Z")) + line(learning(2))
        done = carried_out({LEARNINGS: data}, due({LEARNINGS: data}, policy=Policy(final_newline=policy)))
        assert done[LEARNINGS] == line(learning(2)) + end

    @pytest.mark.parametrize(("policy", "end"), [("always", b"\n"), ("keep", b""), ("never", b"")])
    def test_final_newline_of_an_archive(self, policy: str, end: bytes) -> None:
        old = learning(1, "2025-10-05T00:00:00Z")
        copy = line(old | {"archived": True})
        files = {LEARNINGS: lines(old), Q4: line(learning(9, archived=True))}
        done = carried_out(files, due(files, policy=Policy(final_newline=policy)))
        assert done[Q4] == lines(learning(9, archived=True)) + copy + end
        done = carried_out({LEARNINGS: lines(old)}, due({LEARNINGS: lines(old)}, policy=Policy(final_newline=policy)))
        assert done[Q4] == copy + (b"" if policy == "never" else b"\n")

    @pytest.mark.parametrize("gone", [(1,), (2,), (3,), (1, 3), (2, 3), (1, 2, 3)])
    @pytest.mark.parametrize("end", [b"", b"\n", b"\n\n"])
    def test_with_never_no_rest_ends_with_a_newline(self, gone: Sequence[int], end: bytes) -> None:
        times = {n: "2025-07-01T00:00:00Z" if n in gone else "2026-01-01T10:00:00Z" for n in (1, 2, 3)}
        data = b"\n\n".join(line(learning(n, at)) for n, at in times.items()) + end
        left = carried_out({LEARNINGS: data}, due({LEARNINGS: data}, policy=Policy(final_newline="never")))[LEARNINGS]
        assert not left.endswith(b"\n")
        kept = [line(learning(n, at)) for n, at in times.items() if n not in gone]
        assert [each for each in left.split(b"\n") if each] == kept

    @pytest.mark.parametrize("gone", [(1,), (2,), (3,), (1, 3), (2, 3), (1, 2, 3)])
    @pytest.mark.parametrize("end", [b"", b"\n", b"\n\n", b" \n", b"\n{broken"])
    def test_what_is_left_ends_in_one_newline_more_only_where_it_had_none(
        self, gone: Sequence[int], end: bytes
    ) -> None:
        data = (
            b"\n".join(
                line(learning(n, "2025-07-01T00:00:00Z" if n in gone else "2026-01-01T10:00:00Z")) for n in (1, 2, 3)
            )
            + end
        )
        left = carried_out({LEARNINGS: data}, due({LEARNINGS: data}))[LEARNINGS]
        rest = data
        for each in gone:
            (whole,) = [one for one in data.splitlines(keepends=True) if uuid(each).encode() in one]
            rest = rest.replace(whole, b"")
        assert left == (rest + b"\n" if rest and not rest.endswith(b"\n") else rest)

    def test_what_cannot_be_read_stays_byte_for_byte_in_its_place(self) -> None:
        done = carried_out(DAMAGED, due(DAMAGED))
        for scrap in (
            b"\n\n  \t\n{not json}\n",
            b"[1,2]\n\xff\xfe\n",
            line(memory(13, content="")),
            line(learning(14, "2025-07-01T00:00:00Z"))[:-20],
        ):
            assert scrap in done[LEARNINGS]
        assert done[TASKS] == line(task(22))[:40] + b"\n"

    def test_the_plan_is_bound_to_what_it_was_decided_on(self) -> None:
        for action in due(TENDED).actions:
            found = TENDED.get(action.path)
            assert action.base == (sha256(found) if found is not None else None)


# --- limits


def enforced(files: Files, count: int | None = None, size: int | None = None, policy: Policy | None = None) -> Plan:
    limits = {path: Limit(LimitKind.SOFT, size, count) for path in files}
    return STORE.upkeep.enforce(upkeep_view(STORE, files, policy or Policy()), limits)


class TestLimits:
    def test_the_seeds_own(self) -> None:
        assert STORE.files.limits == {
            CORE: Limit(LimitKind.HARD, 10 * 1024 * 1024, 1000),
            LEARNINGS: Limit(LimitKind.SOFT, 5 * 1024 * 1024, 500),
            TASKS: Limit(LimitKind.SOFT, 2 * 1024 * 1024, 200),
        }

    def test_down_to_the_limit_and_no_further(self) -> None:
        files = {LEARNINGS: lines(*(learning(n, iso(NOW - n * 60)) for n in range(1, 8)))}
        assert moved(enforced(files, 7)) == []
        assert moved(enforced(files, 6)) == [uuid(7)]
        assert moved(enforced(files, 3)) == [uuid(7), uuid(6), uuid(5), uuid(4)]

    def test_down_to_the_size_and_no_further(self) -> None:
        natives = [learning(n, iso(NOW - n * 60)) for n in range(1, 6)]
        files = {LEARNINGS: lines(*natives)}
        size = len(files[LEARNINGS])
        assert moved(enforced(files, None, size)) == []
        assert moved(enforced(files, None, size - 1)) == [uuid(5)]
        assert moved(enforced(files, None, size - len(lines(natives[4])))) == [uuid(5)]
        assert moved(enforced(files, None, size - len(lines(natives[4])) - 1)) == [uuid(5), uuid(4)]

    def test_learnings_by_access_then_count_then_creation(self) -> None:
        same = iso(NOW - DAY)
        natives = [
            learning(1, same, access_count=2, created_at="2025-12-01T00:00:00Z"),
            learning(2, same, access_count=1, created_at="2025-12-03T00:00:00Z"),
            learning(3, same, access_count=1, created_at="2025-12-02T00:00:00Z"),
            learning(4, same, accessed_at=iso(NOW - 2 * DAY), access_count=99),
            learning(5, same, accessed_at=iso(NOW - 60), access_count=0),
        ]
        assert moved(enforced({LEARNINGS: lines(*natives)}, 0)) == [uuid(4), uuid(3), uuid(2), uuid(1), uuid(5)]

    def test_access_counts_and_not_the_latest_stamp(self) -> None:
        natives = [learning(1, iso(NOW - 9 * DAY), updated_at=iso(NOW)), learning(2, iso(NOW - 8 * DAY))]
        assert moved(enforced({LEARNINGS: lines(*natives)}, 1)) == [uuid(1)]

    def test_tasks_completed_first_by_completion_and_before_thirty_days(self) -> None:
        natives = [
            task(1, "completed", iso(NOW - 60)),
            task(2, "in-progress"),
            task(3, "completed", iso(NOW - 2 * DAY)),
            task(4, "blocked"),
            task(5, None),
        ]
        assert moved(enforced({TASKS: lines(*natives)}, 4)) == [uuid(3)]
        assert moved(enforced({TASKS: lines(*natives)}, 3)) == [uuid(3), uuid(1)]
        short = enforced({TASKS: lines(*natives)}, 2)
        assert moved(short) == [uuid(3), uuid(1)]
        assert [(note.path, note.why) for note in short.notes] == [
            (TASKS, "3 memories (limit 2); no more can be archived automatically: `memoryd archive ID`")
        ]

    def test_hard_limits_are_never_enforced_by_moving(self) -> None:
        files = {CORE: lines(*(memory(n) for n in range(1, 9)))}
        assert not STORE.upkeep.enforce(upkeep_view(STORE, files, Policy()), {CORE: Limit(LimitKind.HARD, 1, 1)})

    def test_kept_importance_and_stamps_from_the_future_stay(self) -> None:
        natives = [
            learning(1, importance="high"),
            learning(2, importance="low"),
            learning(3, accessed_at=iso(NOW + DAY)),
        ]
        plan = enforced({LEARNINGS: lines(*natives)}, 0, policy=Policy(keep_importance=("high",)))
        assert moved(plan) == [uuid(2)]
        assert plan.notes

    def test_what_is_marked_archived_counts_neither_way(self) -> None:
        natives = [learning(1, iso(NOW - DAY), archived=True), learning(2), learning(3)]
        assert moved(enforced({LEARNINGS: lines(*natives)}, 2)) == []

    def test_undone_moves_are_held(self) -> None:
        files = {LEARNINGS: lines(learning(1, "2025-01-01T00:00:00Z"), learning(2, "2025-02-01T00:00:00Z"))}
        view = upkeep_view(STORE, files, Policy())
        held = frozenset({sha256(line(learning(1, "2025-01-01T00:00:00Z")))})
        view = type(view)(view.live, view.archive, view.policy, view.now, held)
        assert moved(STORE.upkeep.archive(view, None)) == [uuid(2)]
        assert moved(STORE.upkeep.enforce(view, {LEARNINGS: Limit(LimitKind.SOFT, None, 0)})) == [uuid(2)]
        assert moved(STORE.upkeep.archive(view, [uuid(1)])) == [uuid(1)]
