"""Storing in session files: merged by key, words and confidence, changed in place, taken out and put in again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.core.defaults import Policy
from memoryd.core.plan import Kind
from memoryd.core.records import Record
from memoryd.errors import BusyError, ConflictError, InvalidMemoryError, UsageError
from memoryd.layouts.protocol import LoadedFile, Located, NewMemory
from memoryd.layouts.session_files import SESSION_FILES
from tests.layouts.contract import NOW, PLANNED, Files, carried_out, document, upkeep_view
from tests.layouts.session_samples import TWENTY, memory, path_of, session, text
from tests.layouts.storehouse import Storehouse, rules
from tests.layouts.test_storing_jsonl import CONTENTS, VALUES

LAYOUT = SESSION_FILES
STAMP = "2026-01-31T10:00:00Z"
NAME = "2026-01-30-14-30-00-fix-bug"
PATH = path_of(NAME)
COLONS = "2026-01-30/14:30:00-fix-bug.json"
ARCHIVED = f"archive/2026-01/{NAME}.json"
NEW = {"type": "insight", "title": "Say it short", "content": "Short texts are read."}


def house(files: Files | None = None, **fields: Any) -> Storehouse:
    return Storehouse(LAYOUT, files or {}, **fields)


def one(*memories: Any, **fields: Any) -> Storehouse:
    return house({PATH: text(session(*memories, **fields))})


def refused(native: dict[str, Any]) -> dict[str, str]:
    made = one(memory())
    before = dict(made.files)
    with pytest.raises(InvalidMemoryError) as error:
        made.add(native, session=NAME)
    assert made.files == before
    return rules(error.value)


def read_one(**fields: Any) -> Record:
    data = json.dumps(session(memory(**fields))).encode()
    return document(LAYOUT, PATH, data).records[0]


class TestWhatIsSearched:
    def test_text_is_all_that_is_said_beside_the_title(self) -> None:
        record = read_one(content="c\ud83d", source_chunk="s")
        assert record.text == "c?\nmeasured\ns\njson\nslower\nmsgspec"
        assert read_one(content="x" * 9000, reasoning=None, source_chunk="").text.startswith("x" * 9000 + "\njson")

    def test_labels_are_category_entities_tools_addresses_and_agents(self) -> None:
        found = read_one(related_entities=[{"type": "project", "raw": "Memory D", "slug": "memoryd"}, 7])
        assert found.labels == ("technical", "Memory D", "memoryd", "pytest", "https://example.org", "reviewer")
        assert found.tags == ("pytest", "memoryd")
        assert read_one(category=7, related_entities={}, tools_mentioned="x", target_agents=[1]).labels == (
            "https://example.org",
        )

    @pytest.mark.parametrize(
        ("score", "weight"),
        [
            (80, 0.8),
            (50.5, 0.505),
            (-7, 0.0),
            pytest.param(10**400, 1.0, id="boundless"),
            ("80", None),
            (True, None),
            (None, None),
        ],
    )
    def test_weight_is_the_confidence(self, score: Any, weight: float | None) -> None:
        assert read_one(confidence_score=score).weight == weight


class TestAddAnew:
    def test_a_missing_session_is_made_under_its_day_in_the_seeds_form(self) -> None:
        made = house()
        stored = made.add({**NEW, "more": {"é": 1}, "confidence_score": 77}, session=NAME)
        (action,) = stored.plan.actions
        assert (action.kind, action.path, action.base) == (Kind.CREATE, PATH, None)
        native = {
            "type": "insight", "category": "", "title": "Say it short", "content": "Short texts are read.",
            "source_chunk": "", "alternatives": [], "confidence_score": 77, "related_entities": [],
            "tools_mentioned": [], "urls_mentioned": [], "target_agents": [], "more": {"é": 1},
        }  # fmt: skip
        assert made.files == {PATH: text(session(native, last_updated=STAMP))}
        assert stored.id == f"{NAME}#insight:say-it-short"
        assert made.read(PATH).findings == ()

    def test_without_a_confidence_it_has_the_least_there_is(self) -> None:
        made = house()
        assert made.native(made.add(NEW, session=NAME).id)["confidence_score"] == 50

    @pytest.mark.parametrize("path", [PATH, COLONS])
    def test_a_session_that_is_there_is_used_under_either_form_of_its_name(self, path: str) -> None:
        made = house({path: text(session(memory()))})
        assert made.add(NEW, session=NAME).path == path
        assert list(made.files) == [path]

    @pytest.mark.parametrize(
        "name",
        ["", "fix-bug", "2026-01-30", "2026-01-30-14-30-00", "2026-01-30-14-30-00-", "2026-02-31-14-30-00-x",
         "2026-01-30-25-30-00-x", "2026-01-30T14:30:00-x", "2026-01-30-14-30-00-a/b", "2026-01-30-14-30-00-a\0b",
         "2026-01-30-14-30-00-a\nb", "2026-01-30-14-30-00-a\x1b[31m",
         "2026-01-30-14-30-00-x.tmp.y", "2026-01-30-14-30-00-" + "é" * 100, "2026-01-30-14-30-00-\ud83d",
         "../../etc-passwd"],
    )  # fmt: skip
    def test_what_is_not_a_session_id_is_refused_with_the_form(self, name: str) -> None:
        made = house()
        with pytest.raises(UsageError, match="session"):
            made.add(NEW, session=name)
        assert made.files == {}

    def test_a_missing_session_is_answered_with_the_option(self) -> None:
        with pytest.raises(UsageError, match="missing") as caught:
            house().add(NEW)
        assert "--session" in str(caught.value.hint)

    def test_another_place_means_nothing_here(self) -> None:
        with pytest.raises(UsageError, match="topic"):
            house().add(NEW, session=NAME, topic="a")

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("type", None), ("type", " "), ("title", None), ("title", ""), ("title", "t" * 101), ("title", 7),
            ("content", None), ("content", ""), ("category", 7), ("source_chunk", []), ("reasoning", 7),
            ("selected_option", []), ("alternatives", "x"), ("alternatives", [{"option": "x"}]),
            ("confidence_score", 49), ("confidence_score", 101), ("confidence_score", "80"), ("confidence_score", True),
            ("related_entities", [{"type": "person"}]), ("related_entities", {}), ("tools_mentioned", "x"),
            ("urls_mentioned", [7]), ("target_agents", [None]), ("more", float("nan")), ("more", "\ud83d"),
        ],
    )  # fmt: skip
    def test_each_rule_names_its_field(self, field: str, value: Any) -> None:
        assert list(refused({**NEW, field: value})) == [field]

    def test_bounds_are_within(self) -> None:
        for fields in (
            {"title": "t" * 100},
            {"confidence_score": 50},
            {"confidence_score": 100},
            {"type": "of my own"},
        ):
            house().add({**NEW, **fields}, session=NAME)

    def test_all_are_listed_at_once(self) -> None:
        assert list(refused({"confidence_score": 1, "tools_mentioned": 2})) == [
            "type", "title", "content", "confidence_score", "tools_mentioned"
        ]  # fmt: skip


class TestMerging:
    def test_another_key_is_added_at_the_end_and_counts_as_an_extraction(self) -> None:
        old = session(memory(), "no memory", extraction_count=4)
        made = house({PATH: text(old)})
        stored = made.add(memory("New", "Another."), session=NAME)
        wanted = session(memory(), "no memory", memory("New", "Another."), extraction_count=5, last_updated=STAMP)
        assert made.files[PATH] == text(wanted)
        assert stored.plan.actions[0].quarantine == ()

    def test_a_surer_duplicate_replaces_the_memory_and_the_old_bytes_are_quarantined(self) -> None:
        old = memory("T", TWENTY, confidence_score=70)
        made = one(old, memory())
        before = made.files[PATH]
        stored = made.add(memory("T", TWENTY, confidence_score=71, more=1), session=NAME)
        wanted = session(
            memory("T", TWENTY, confidence_score=71, more=1), memory(), extraction_count=2, last_updated=STAMP
        )
        assert made.files[PATH] == text(wanted)
        (action,) = stored.plan.actions
        (span,) = action.quarantine
        assert json.loads(span.of(before)) == old

    @pytest.mark.parametrize("score", [70, 69, 50])
    def test_the_one_that_is_there_stays_when_it_is_as_sure_and_it_is_an_extraction_all_the_same(
        self, score: int
    ) -> None:
        made = one(memory("T", TWENTY, confidence_score=70))
        stored = made.add(memory("T", TWENTY, confidence_score=score, reasoning="other"), session=NAME)
        wanted = session(memory("T", TWENTY, confidence_score=70), extraction_count=2, last_updated=STAMP)
        assert made.files[PATH] == text(wanted)
        assert stored.id == f"{NAME}#decision:t"

    @pytest.mark.parametrize(
        ("content", "count"),
        [
            (TWENTY.replace(" wordt", ""), 1),  # 19 of 20
            (" ".join(TWENTY.split()[:17]), 2),  # 17 of 20 is 0.85, and not above
            (" ".join(TWENTY.split()[:18]), 1),  # 18 of 20
            (TWENTY + " 7", 2),  # a number more is another thing
        ],
    )
    def test_words_decide_at_more_than_0_85(self, content: str, count: int) -> None:
        made = one(memory("T", TWENTY, confidence_score=70))
        made.add(memory("T", content, confidence_score=90), session=NAME)
        assert len(made.read(PATH).records) == count

    @pytest.mark.parametrize("other", [{"type": "insight"}, {"title": "t"}])
    def test_another_type_or_title_is_another_memory(self, other: dict[str, Any]) -> None:
        made = one(memory("T", TWENTY))
        made.add({**memory("T", TWENTY, confidence_score=90), **other}, session=NAME)
        assert len(made.read(PATH).records) == 2

    def test_ids_of_equal_titles_are_those_the_reader_gives(self) -> None:
        made = one(memory("T", "First of all."))
        stored = made.add(memory("T", "Quite another."), session=NAME)
        assert stored.id in [record.id for record in made.read(PATH).records]
        assert stored.id.startswith(f"{NAME}#decision:t~")

    def test_what_is_written_by_others_keeps_its_bytes(self) -> None:
        data = (
            b'{"session_id":"%s","memories":[ {"title":"x","z":[1,  2]} ,7],"extraction_count":"many"}' % NAME.encode()
        )
        made = house({PATH: data})
        made.add(memory(), session=NAME)
        assert data[: data.index(b",7]") + 2] in made.files[PATH]
        assert json.loads(made.files[PATH])["extraction_count"] == 1

    @pytest.mark.parametrize("data", [b"[]", b"{}", b"", b'{"memories": [', text(session(memory())) + b"se\n}"])
    def test_a_file_that_is_not_a_session_is_not_overwritten(self, data: bytes) -> None:
        made = house({PATH: data})
        with pytest.raises(ConflictError, match=PATH):
            made.add(memory(), session=NAME)
        assert made.files == {PATH: data}

    def test_a_file_that_is_being_written_is_waited_for(self) -> None:
        made = house({PATH: b'{"memories": ['})
        made.read = lambda path: document(LAYOUT, path, made.files[path], mtime=NOW)  # type: ignore[method-assign]  # fresh
        with pytest.raises(BusyError):
            made.add(memory(), session=NAME)


class TestUpdate:
    def test_only_the_named_fields_and_last_updated_change_since_it_is_not_an_extraction(self) -> None:
        made = one(memory(more=1), memory("Other"), "no memory", extraction_count=3)
        stored = made.update(f"{NAME}#decision:use-msgspec", content="New é", more=None, extra={"a": [1]})
        changed = {**memory(content="New é"), "extra": {"a": [1]}}
        wanted = session(changed, memory("Other"), "no memory", extraction_count=3, last_updated=STAMP)
        assert made.files[PATH] == text(wanted)
        assert stored.id == f"{NAME}#decision:use-msgspec"

    def test_a_new_title_is_a_new_id(self) -> None:
        made = one(memory(), memory("Other"))
        assert made.update(f"{NAME}#decision:use-msgspec", title="Otherwise").id == f"{NAME}#decision:otherwise"
        collides = made.update(f"{NAME}#decision:otherwise", title="Other")
        assert collides.id.startswith(f"{NAME}#decision:other~")

    def test_a_session_written_on_one_line_stays_on_it(self) -> None:
        made = house({PATH: json.dumps(session(memory())).encode()})
        made.update(f"{NAME}#decision:use-msgspec", extra={"a": [1]})
        changed = {**memory(), "extra": {"a": [1]}}
        assert made.files[PATH] == json.dumps(session(changed, last_updated=STAMP)).encode()

    def test_a_memory_of_no_fields_can_be_filled(self) -> None:
        made = one({})
        made.update(f"{NAME}#unknown:untitled", title="T", content="c", type="insight")
        assert json.loads(made.files[PATH])["memories"] == [{"title": "T", "content": "c", "type": "insight"}]

    @pytest.mark.parametrize(
        ("field", "value"),
        [("type", None), ("title", None), ("content", None), ("title", "t" * 101), ("confidence_score", 49),
         ("confidence_score", None), ("content", ""), ("tools_mentioned", [1]), ("more", float("inf"))],
    )  # fmt: skip
    def test_what_is_refused(self, field: str, value: Any) -> None:
        made = one(memory())
        with pytest.raises(InvalidMemoryError) as error:
            made.update(f"{NAME}#decision:use-msgspec", **{field: value})
        assert list(rules(error.value)) == [field]
        assert made.files[PATH] == text(session(memory()))

    def test_optional_fields_can_be_removed_and_odd_ones_prevent_no_change(self) -> None:
        made = one(memory(confidence_score=7, category=7))
        made.update(f"{NAME}#decision:use-msgspec", reasoning=None, selected_option=None)
        wanted = memory(confidence_score=7, category=7, reasoning=None, selected_option=None)
        assert made.files[PATH] == text(session(wanted, last_updated=STAMP))

    def test_nothing_to_change_gives_an_empty_plan(self) -> None:
        assert not one(memory()).update(f"{NAME}#decision:use-msgspec", content="It is fast.", gone=None).plan

    def test_archived_and_damaged_sessions_are_not_changed(self) -> None:
        with pytest.raises(UsageError, match="archived"):
            house({ARCHIVED: text(session(memory()))}).update(f"{NAME}#decision:use-msgspec", content="x")
        with pytest.raises(ConflictError):
            house({PATH: text(session(memory())) + b"e\n}"}).update(f"{NAME}#decision:use-msgspec", content="x")


class TestForgetAndBack:
    def test_forget_takes_the_memory_out_and_keeps_its_bytes(self) -> None:
        made = one(memory(), memory("Other"), extraction_count=3)
        before, span = made.files[PATH], made.record(f"{NAME}#decision:use-msgspec").span
        stored = made.forget(f"{NAME}#decision:use-msgspec")
        assert made.files[PATH] == text(session(memory("Other"), extraction_count=3))
        assert stored.removed == span.of(before)
        assert stored.plan.actions[0].quarantine == (span,)

    def test_put_back_gives_the_same_bytes_again_once(self) -> None:
        made = one(memory(), memory("Other"))
        kept = made.forget(f"{NAME}#decision:use-msgspec").removed
        assert kept is not None
        stored = made.put_back(PATH, kept)
        assert made.text(stored.id) == kept
        assert made.files[PATH] == text(session(memory("Other"), memory()))
        again = made.put_back(PATH, kept)
        assert (bool(again.plan), again.id) == (False, stored.id)

    def test_put_back_into_a_session_left_empty_or_gone(self) -> None:
        made = one(memory())
        kept = made.forget(f"{NAME}#decision:use-msgspec").removed
        assert kept is not None
        assert json.loads(made.files[PATH])["memories"] == []
        made.put_back(PATH, kept)
        assert made.files[PATH] == text(session(memory()))
        gone = house()
        gone.put_back(PATH, kept)
        assert gone.files[PATH] == text(session(memory(), last_updated=STAMP))
        with pytest.raises(InvalidMemoryError):
            gone.put_back(PATH, b"7")

    def test_to_forget_what_is_archived_is_nothing(self) -> None:
        made = house({ARCHIVED: text(session(memory()))})
        assert not made.forget(f"{NAME}#decision:use-msgspec").plan

    def test_of_twins_one_goes(self) -> None:
        made = one(memory(), memory(), memory())
        second = made.read(PATH).records[1].id
        made.forget(second)
        assert len(made.read(PATH).records) == 2

    def test_a_damaged_session_is_left(self) -> None:
        with pytest.raises(ConflictError):
            house({PATH: text(session(memory())) + b"e\n}"}).forget(f"{NAME}#decision:use-msgspec")


class TestUnarchive:
    def test_a_session_whose_live_file_is_gone_comes_back_whole_byte_for_byte(self) -> None:
        data = text(session(memory(), memory("Other"), "no memory"))
        made = house({ARCHIVED: data})
        stored = made.unarchive(f"{NAME}#decision:other")
        assert made.files == {PATH: data}
        assert (stored.id, stored.path) == (f"{NAME}#decision:other", PATH)
        assert [(action.kind, action.copy) for action in stored.plan.actions] == [
            (Kind.CREATE, True),
            (Kind.REMOVE, False),
        ]
        assert len(stored.plan.groups()) == 1
        assert not made.unarchive(f"{NAME}#decision:other").plan

    @pytest.mark.parametrize("live", [PATH, COLONS])
    def test_into_a_live_session_the_memory_alone_goes(self, live: str) -> None:
        made = house({ARCHIVED: text(session(memory(), memory("Other"))), live: text(session(memory("New")))})
        stored = made.unarchive(f"{NAME}#decision:other")
        assert made.files == {
            ARCHIVED: text(session(memory())),
            live: text(session(memory("New"), memory("Other"))),
        }
        assert [(action.kind, action.copy) for action in stored.plan.actions] == [
            (Kind.REWRITE, True),
            (Kind.REWRITE, False),
        ]
        assert len(stored.plan.groups()) == 1

    def test_an_archived_file_left_empty_goes(self) -> None:
        made = house({ARCHIVED: text(session(memory())), PATH: text(session(memory("New")))})
        made.unarchive(f"{NAME}#decision:use-msgspec")
        assert made.files == {PATH: text(session(memory("New"), memory()))}

    def test_a_crash_between_the_two_writes_costs_nothing(self) -> None:
        made = house({ARCHIVED: text(session(memory(), memory("Other"))), PATH: text(session(memory("New")))})
        found = made.found(f"{NAME}#decision:other")
        made.perform(LAYOUT.require_writer().unarchive(made.view(), found).plan.actions[0])
        again = LAYOUT.require_writer().unarchive(made.view(), found)
        assert [action.path for action in again.plan.actions] == [ARCHIVED]

    def test_what_the_archive_command_moved_comes_back(self) -> None:
        files = {PATH: text(session(memory(), memory("Other")))}
        plan = LAYOUT.upkeep.archive(upkeep_view(LAYOUT, files, Policy()), {f"{NAME}#decision:other"})
        made = house(carried_out(files, plan))
        assert [each.id for each in made.read(PATH).records] == [f"{NAME}#decision:use-msgspec"]
        made.unarchive(f"{NAME}#decision:other")
        assert made.files[PATH] == files[PATH]

    @pytest.mark.parametrize(
        ("path", "name"),
        [("archive/2026-01/2026-01-30-14-30-00-fix-bug-1.json", NAME), (ARCHIVED, ""),
         ("archive/2026-01-30/14-30-00-fix-bug.json", "")],
    )  # fmt: skip
    def test_the_path_comes_from_the_id_else_from_the_name(self, path: str, name: str) -> None:
        made = house({path: text(session(memory(), session_id=name))})
        assert made.unarchive(made.read(path).records[0].id).path == PATH

    def test_a_session_of_no_place_is_left(self) -> None:
        made = house({"archive/2026-01/odd.json": text(session(memory(), session_id="odd"))})
        with pytest.raises(ConflictError, match="neither"):
            made.unarchive("odd#decision:use-msgspec")


class TestTouchAndNative:
    def test_reads_are_not_counted_here(self) -> None:
        made = one(memory())
        before = dict(made.files)
        made.touch(**{f"{NAME}#decision:use-msgspec": (1, NOW)})
        assert made.files == before

    def test_native_is_what_the_parser_read(self) -> None:
        odd = b'{"memories": [{"a": 1, "a": 2, "n": 123456789012345678901234567890, "s": "\\ud83d", "f": Infinity}, 7]}'
        for data in (odd, text(session(memory()))):
            for record in document(LAYOUT, PATH, data).records:
                assert LAYOUT.reader.native(PATH, record.span.of(data)) == record.native
        assert LAYOUT.reader.native(PATH, b"7") == {"text": "7"}


# --- properties

MEMORIES = st.builds(
    lambda kind, title, content, score, more: {
        **more, "type": kind, "title": title, "content": content, "confidence_score": score
    },
    st.sampled_from(("decision", "insight", "of my own")),
    st.sampled_from(("Use msgspec", "Other", "New", "Überall 东京")),
    st.sampled_from((TWENTY, "It is fast.", " ".join(TWENTY.split()[:17]))) | CONTENTS.filter(str.strip),
    st.integers(50, 100),
    st.dictionaries(CONTENTS.map("x_".__add__), VALUES, max_size=3),
)  # fmt: skip
DATA = (
    text(session(memory(), memory("Other", TWENTY), "no memory", memory("Other", "Same title."), extra=[1])),
    json.dumps(session(memory(), {}, 7, memory())).encode(),
    b'\xef\xbb\xbf{ "memories" : [ ],\n\t"suggestions":[{"type" :"extraction_issue"}]  }\r\n',
    b'{"memories":[{"title":"\\ud83d","type":"insight","content":"c","n":1e5}]}',
)


class TestProperties:
    @PLANNED
    @given(data=st.sampled_from(DATA), native=MEMORIES)
    def test_an_added_memory_is_present_and_every_other_memory_keeps_its_bytes(
        self, data: bytes, native: dict[str, Any]
    ) -> None:
        made = house({PATH: data})
        before = [record.span.of(data) for record in made.read(PATH).records]
        stored = made.add(native, session=NAME)
        record = made.record(stored.id)
        assert (record.type, record.native["title"]) == (native["type"], native["title"])
        after = [each.span.of(made.files[PATH]) for each in made.read(PATH).records]
        place = after.index(made.text(stored.id))
        if len(after) > len(before):
            assert after == [*before, after[place]]
        else:
            assert after[:place] + after[place + 1 :] == before[:place] + before[place + 1 :]
        if after != before:
            assert {key: record.native[key] for key in native} == native
        assert made.add(native, session=NAME).id == stored.id  # once more changes no memory
        assert [each.span.of(made.files[PATH]) for each in made.read(PATH).records] == after

    @PLANNED
    @given(data=st.sampled_from(DATA), changes=MEMORIES, draw=st.data())
    def test_an_update_changes_one_memory_and_the_stamp(
        self, data: bytes, changes: dict[str, Any], draw: st.DataObject
    ) -> None:
        made = house({PATH: data})
        records = made.read(PATH).records
        if not records:
            return
        place = draw.draw(st.integers(0, len(records) - 1))
        found = Located(PATH, LoadedFile(data, made.read(PATH)), records[place])
        stored = made.stored(LAYOUT.require_writer().update(made.view(), found, changes))
        now, after = made.read(PATH).records, made.files[PATH]
        assert now[place].id == stored.id
        wanted = {key: value for key, value in records[place].native.items() if changes.get(key, 1) is not None}
        assert now[place].native == wanted | {key: value for key, value in changes.items() if value is not None}
        others = [(was, each) for number, (was, each) in enumerate(zip(records, now, strict=True)) if number != place]
        assert all(was.span.of(data) == each.span.of(after) for was, each in others)
        old, new = json.loads(data), json.loads(after)
        assert new["last_updated"] == STAMP
        plain = ("memories", "last_updated")
        assert {k: v for k, v in old.items() if k not in plain} == {k: v for k, v in new.items() if k not in plain}

    @PLANNED
    @given(data=st.sampled_from(DATA), draw=st.data())
    def test_forgotten_and_put_back_the_memory_has_its_bytes_and_the_others_never_moved(
        self, data: bytes, draw: st.DataObject
    ) -> None:
        made = house({PATH: data})
        records = made.read(PATH).records
        if not records:
            return
        record = draw.draw(st.sampled_from(records))
        texts = [each.span.of(data) for each in records]
        stored = made.forget(record.id)
        assert stored.removed == record.span.of(data)
        left = [each.span.of(made.files[PATH]) for each in made.read(PATH).records]
        texts.remove(stored.removed)
        assert sorted(left) == sorted(texts)
        back = made.put_back(PATH, stored.removed)
        assert made.text(back.id) == stored.removed

    @PLANNED
    @given(data=st.sampled_from(DATA), live=st.sampled_from((None, *DATA)), draw=st.data())
    def test_brought_back_it_is_live_with_its_bytes_and_nothing_is_lost(
        self, data: bytes, live: bytes | None, draw: st.DataObject
    ) -> None:
        made = house({ARCHIVED: data} | ({PATH: live} if live is not None else {}))
        records = made.read(ARCHIVED).records
        if not records:
            return
        record = draw.draw(st.sampled_from(records))

        def everything() -> set[bytes]:
            return {each.span.of(made.files[path]) for path in made.files for each in made.read(path).records}

        before = everything()
        stored = made.stored(LAYOUT.require_writer().unarchive(made.view(), made.found(record.id, ARCHIVED)))
        assert stored.path == PATH
        assert made.text(stored.id, PATH) == record.span.of(data)
        assert everything() == before

    def test_a_layout_is_asked_as_the_protocol_says(self) -> None:
        stored = LAYOUT.require_writer().add(house().view(), NewMemory(NEW, {"session": NAME}))
        assert stored.removed is None


def test_the_name_of_a_new_session_is_normalised_and_one_that_is_there_kept() -> None:
    made = house()
    stored = made.add(NEW, session="2026-01-30-14-30-00-Ünïcode  Näme!")
    assert stored.path == "2026-01-30/14-30-00-ünïcode-näme.json"
    assert json.loads(made.files[stored.path])["session_id"] == "2026-01-30-14-30-00-ünïcode-näme"
    odd = "2026-01-30/14-30-00-Fix_Bug.json"
    there = house({odd: text(session(memory(), name="2026-01-30-14-30-00-Fix_Bug"))})
    assert there.add(NEW, session="2026-01-30-14-30-00-Fix_Bug").path == odd
