"""Storing in json-files: a free name and a fresh id for each memory, exact edits, the flag, and what is refused."""

from __future__ import annotations

import json
from datetime import timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.core.plan import Kind
from memoryd.core.records import Record
from memoryd.errors import ConflictError, InvalidMemoryError, UsageError
from memoryd.layouts.json_files import JSON_FILES
from memoryd.layouts.json_files.schema import is_memory_id
from memoryd.layouts.protocol import NewMemory
from tests.layouts.contract import NOW, PLANNED, Files
from tests.layouts.json_samples import corpus, file, identity, memory, name, pretty, store
from tests.layouts.storehouse import Storehouse, rules
from tests.layouts.test_storing_jsonl import CONTENTS, VALUES

LAYOUT = JSON_FILES
STAMP = "2026-01-31T10:00:00.000Z"
NAME = "memory_20260131100000_1.json"


def house(files: Files | None = None, **fields: Any) -> Storehouse:
    return Storehouse(LAYOUT, files or {}, **fields)


def refused(native: dict[str, Any], files: Files | None = None) -> dict[str, str]:
    tried = house(files)
    with pytest.raises(InvalidMemoryError) as error:
        tried.add(native)
    assert tried.files == (files or {})
    return rules(error.value)


def read_one(**fields: Any) -> Record:
    text = json.dumps(memory(1, **fields)).encode()
    (record,) = house({NAME: text}).read(NAME).records
    return record


class TestWhatIsSearched:
    def test_text_labels_weight_and_uses(self) -> None:
        record = read_one(content="all\nof it \ud83d", summary="short", relevanceScore=0.25, accessCount=7)
        assert (record.title, record.text) == ("short", "all\nof it ?")
        assert record.labels == ("userController.ts", "decision")
        assert (record.weight, record.uses) == (0.25, 7)

    def test_a_summary_that_the_title_cuts_is_in_the_text(self) -> None:
        assert read_one(content="c", summary="x" * 200).text == "c\n" + "x" * 200
        assert read_one(content="c", summary="a\nb").text == "c\na\nb"
        assert read_one(content="c" * 5000, summary=None).text == "c" * 5000

    @pytest.mark.parametrize(("score", "weight"), [(-1, 0.0), (7, 1.0), (None, 1.0), ("high", 1.0)])
    def test_weight_is_the_relevance_between_0_and_1(self, score: Any, weight: float) -> None:
        assert read_one(relevanceScore=score, confidence=0.1).weight == weight


class TestAdd:
    def test_one_new_file_in_the_servers_form_with_what_every_new_memory_has(self) -> None:
        made = house(store(1))
        stored = made.add({"content": "When\nworking é", "tags": ["i18n"], "confidence": 0.9, "entities": ["ICU"]})
        (action,) = stored.plan.actions
        assert (action.kind, action.path, action.base) == (Kind.CREATE, NAME, None)
        native = {
            "content": "When\nworking é", "summary": "When", "type": "pattern", "confidence": 0.9, "tags": ["i18n"],
            "entities": ["ICU"], "id": stored.id, "version": 1, "created": STAMP, "lastAccessed": STAMP,
            "accessCount": 0, "relevanceScore": 1, "archived": False,
        }  # fmt: skip
        assert made.files == {**store(1), NAME: pretty(native)}
        assert made.read(NAME).findings == ()

    def test_an_id_has_the_milliseconds_and_a_random_end(self) -> None:
        made = house()
        ids = {made.add({"content": "the same"}).id for _ in range(50)}
        assert len(ids) == 50
        assert all(map(is_memory_id, ids))
        assert {each.split("_")[1] for each in ids} == {str(int(NOW * 1000))}

    def test_a_name_is_never_taken_twice(self) -> None:
        made = house()
        paths = [made.add({"content": "x"}).path for _ in range(4)]
        assert paths == [NAME, *(NAME.replace("_1.json", f"_{n}.json") for n in (2, 3, 4))]

    def test_a_file_the_catalogue_does_not_know_yet_keeps_its_name(self) -> None:
        made = house({NAME: file(1)})
        made.summaries = dict  # type: ignore[method-assign]  # nothing is known
        assert made.add({"content": "x"}).path == NAME.replace("_1.json", "_2.json")

    def test_no_other_file_is_read(self) -> None:
        made = house(store(1, 2, 3))
        made.layout.require_writer().add(made.view(), NewMemory({"content": "x"}))
        assert set(made.opened) == {NAME}

    def test_names_tell_the_local_second_as_the_server_writes_them(self) -> None:
        made = house()
        made.zone = timezone(timedelta(hours=-7))
        assert made.add({"content": "x"}).path == "memory_20260131030000_1.json"

    def test_unknown_fields_are_where_the_server_puts_them_and_null_counts_as_missing(self) -> None:
        made = house()
        stored = made.add({"projectId": "p", "metadata": {"a": None}, "content": "x", "tags": None, "summary": None})
        keys = list(json.loads(made.files[stored.path]))
        assert keys[:9] == [
            "content", "summary", "type", "confidence", "tags", "entities", "projectId", "metadata", "id"
        ]  # fmt: skip
        assert made.native(stored.id)["metadata"] == {"a": None}

    def test_known_fields_given_are_kept(self) -> None:
        given = memory(7, accessCount=3, version=2, lastUpdated="2025-06-10T00:00:00.000Z")
        made = house()
        assert made.native(made.add(given).id) == given
        past = made.native(made.add({"content": "x", "created": "2025-01-01T00:00:00.000Z"}).id)
        assert past["created"] == past["lastAccessed"] == "2025-01-01T00:00:00.000Z"

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("content", None), ("content", " \n"), ("content", 7), ("summary", 7), ("type", []), ("confidence", "high"),
            ("confidence", True), ("tags", "t"), ("tags", [7]), ("entities", {}), ("id", "x"), ("id", 7),
            ("version", -1), ("version", 1.5), ("created", "yesterday"), ("lastAccessed", 7), ("accessCount", -1),
            ("relevanceScore", "1"), ("archived", 0), ("archived", True), ("projectId", 7), ("lastUpdated", ""),
            ("more", float("nan")), ("more", "\ud83d"), ("confidence", 7), ("confidence", -0.1),
        ],
    )  # fmt: skip
    def test_each_type_names_its_field(self, field: str, value: Any) -> None:
        assert list(refused({"content": "x", field: value})) == [field]

    def test_all_are_listed_at_once(self) -> None:
        assert list(refused({"summary": 1, "tags": 2, "more": float("inf")})) == ["more", "content", "summary", "tags"]

    def test_a_chosen_id_must_be_new(self) -> None:
        index = {"_index.json": b'{"fileIndex": {"%s": "%s"}}' % (identity(1).encode(), name(1).encode())}
        assert list(refused(memory(1), index)) == ["id"]
        assert house(index).add(memory(2)).id == identity(2)
        assert house({"_index.json": b"broken"}).add(memory(1)).id == identity(1)

    def test_a_place_means_nothing_here(self) -> None:
        with pytest.raises(UsageError, match="topic"):
            house().add({"content": "x"}, topic="a")


class TestUpdate:
    def test_only_the_named_values_the_version_and_the_stamp_change(self) -> None:
        data = b'{\n  "z": [1,2],\n  "id": "%s",\n  "content": "old",\n  "version": 3\n}' % identity(1).encode()
        made = house({NAME: data})
        made.update(identity(1), content="new é", more={"a": [1]})
        wanted = data.replace(b'"old"', '"new é"'.encode()).replace(b"3\n}", b"4")
        more = b'"more": {\n    "a": [\n      1\n    ]\n  },\n  "lastUpdated": "%s"\n}' % STAMP.encode()
        assert made.files[NAME] == wanted + b",\n  " + more

    def test_a_missing_version_counts_as_1(self) -> None:
        made = house({NAME: file(1, version=None)})
        made.update(identity(1), content="x")
        assert made.native(identity(1))["version"] == 2

    def test_unknown_fields_are_kept_and_taken_away(self) -> None:
        made = house({NAME: file(1)})
        made.update(identity(1), metadata=None, projectId=None)
        wanted = memory(1, metadata=None, projectId=None, version=2, lastUpdated=STAMP)
        assert made.files[NAME] == pretty(wanted)

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("id", identity(2)), ("id", None), ("version", 7), ("lastUpdated", "2026-01-01T00:00:00.000Z"),
            ("content", None), ("summary", None), ("tags", None), ("archived", None), ("content", ""), ("tags", [1]),
            ("archived", "yes"), ("accessCount", -1), ("more", float("nan")),
        ],
    )  # fmt: skip
    def test_what_is_refused(self, field: str, value: Any) -> None:
        made = house({NAME: file(1)})
        with pytest.raises(InvalidMemoryError) as error:
            made.update(identity(1), **{field: value})
        assert list(rules(error.value)) == [field]
        assert made.files[NAME] == file(1)

    def test_invalid_values_in_other_fields_prevent_no_change(self) -> None:
        made = house({NAME: file(1, tags="odd", confidence="high")})
        made.update(identity(1), content="x")
        assert made.native(identity(1))["tags"] == "odd"

    def test_the_whole_memory_given_back_with_one_change_is_that_change(self) -> None:
        made = house({NAME: file(1)})
        made.update(identity(1), **{**memory(1), "summary": "new"})
        assert made.files[NAME] == pretty({**memory(1), "summary": "new", "version": 2, "lastUpdated": STAMP})
        assert not made.update(identity(1), summary="new").plan

    def test_a_torn_file_keeps_its_tail(self) -> None:
        made = house(corpus())
        torn = next(path for path in sorted(made.files) if "torn-file" in [f.code for f in made.read(path).findings])
        before, record = made.files[torn], made.read(torn).records[0]
        stored = made.carried_out(
            made.layout.require_writer().update(made.view(), made.found(record.id, torn), {"summary": "x"})
        )
        assert made.files[stored.path].endswith(before[record.span.end :])


class TestForgetAndBack:
    def test_forget_sets_the_flag_in_place_and_nothing_else(self) -> None:
        made = house(store(1, 2))
        stored = made.forget(identity(1))
        assert (stored.id, stored.path, stored.removed) == (identity(1), name(1), None)
        assert made.files == {**store(1, 2), name(1): file(1, archived=True)}
        assert made.record(identity(1)).archived is True

    def test_a_missing_flag_is_added(self) -> None:
        made = house({NAME: file(1, archived=None)})
        made.forget(identity(1))
        assert made.native(identity(1))["archived"] is True

    def test_unarchive_gives_the_same_bytes_again_and_both_are_fixpoints(self) -> None:
        made = house(store(1))
        assert not made.unarchive(identity(1)).plan
        made.forget(identity(1))
        assert not made.forget(identity(1)).plan
        made.unarchive(identity(1))
        assert made.files == store(1)

    def test_restore_creates_the_file_again_but_overwrites_none(self) -> None:
        made = house()
        for _ in range(2):
            made.put_back(NAME, file(1))
        assert made.files == {NAME: file(1)}
        stored = made.put_back(NAME, file(2))
        assert made.files == {NAME: file(1), stored.path: file(2)}
        made.files[NAME] = file(1)[:-9]
        with pytest.raises(ConflictError, match="not a readable memory"):
            made.put_back(NAME, file(2))
        with pytest.raises(InvalidMemoryError):
            made.put_back("memory_20260131100001.json", b"{}")


class TestTouch:
    def test_as_the_servers_own_reading_does(self) -> None:
        made = house(store(1, 2))
        made.touch(**{identity(1): (2, NOW)})
        assert made.files == {**store(1, 2), name(1): file(1, accessCount=2, lastAccessed=STAMP)}
        made.touch(**{identity(1): (1, NOW - 99)})
        assert made.files[name(1)] == file(1, accessCount=3, lastAccessed=STAMP)

    def test_missing_statistics_are_added(self) -> None:
        made = house({NAME: file(1, accessCount=None, lastAccessed=None)})
        made.touch(**{identity(1): (1, NOW)})
        assert made.files[NAME] == pretty(
            {**memory(1, accessCount=None, lastAccessed=None), "accessCount": 1, "lastAccessed": STAMP}
        )


class TestNative:
    def test_it_is_what_the_parser_read(self) -> None:
        odd = b'{"id": "x", "id": "y", "n": 123456789012345678901234567890, "s": "\\ud83d"}'
        made = house({**corpus(), NAME: odd})
        for path, data in made.files.items():
            for record in made.read(path).records:
                assert made.layout.reader.native(path, record.span.of(data)) == record.native
        assert LAYOUT.reader.native(NAME, b"[]") == {"text": "[]"}


MEMORIES = st.builds(
    lambda content, tags, more: {**more, "content": content, "tags": tags},
    CONTENTS.filter(str.strip),
    st.lists(CONTENTS, max_size=4),
    st.dictionaries(CONTENTS.map("x_".__add__), VALUES, max_size=4),
)


class TestProperties:
    @PLANNED
    @given(native=MEMORIES)
    def test_what_is_added_is_read_again_and_nothing_else_changes(self, native: dict[str, Any]) -> None:
        made = house(corpus())
        stored = made.add(native)
        assert {key: made.native(stored.id)[key] for key in native} == native
        assert {path: data for path, data in made.files.items() if path != stored.path} == corpus()
        assert len(made.read(stored.path).records) == 1

    @PLANNED
    @given(data=st.data(), changes=MEMORIES)
    def test_an_update_keeps_every_other_byte(self, data: st.DataObject, changes: dict[str, Any]) -> None:
        made = house({**corpus(), **store(1)})
        before = dict(made.files)
        path = data.draw(
            st.sampled_from([path for path in sorted(before) if made.layout.reader.role(path) == "source"])
        )
        record = made.read(path).records[0]
        gone = data.draw(st.sets(st.sampled_from(["projectId", "metadata", "author"])))
        stored = made.stored(
            made.layout.require_writer().update(
                made.view(), made.found(record.id, path), {**changes, **dict.fromkeys(gone)}
            )
        )
        now = made.read(path).records[0]
        assert made.files[path][: now.span.start] == before[path][: record.span.start]
        assert made.files[path][now.span.end :] == before[path][record.span.end :]
        wanted = {
            key: value for key, value in record.native.items() if key not in gone and changes.get(key, 1) is not None
        }
        wanted |= {key: value for key, value in changes.items() if value is not None}
        wanted |= {"version": record.native["version"] + 1, "lastUpdated": STAMP}
        assert now.native == wanted
        assert {each for each in made.files if made.files[each] != before[each]} == {stored.path}

    @PLANNED
    @given(data=st.data())
    def test_forgotten_and_brought_back_every_byte_is_as_before(self, data: st.DataObject) -> None:
        made = house({**corpus(), **store(1, 2)})
        before = dict(made.files)
        path = data.draw(
            st.sampled_from([path for path in sorted(before) if made.layout.reader.role(path) == "source"])
        )
        chosen = made.read(path).records[0].id
        made.forget(chosen)
        assert made.files != before
        made.unarchive(chosen)
        assert made.files == before
