"""Storing in the JSONL store: one line appended unseen, exact edits, the archive and back, limits, and refusals."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from memoryd.core.dates import iso
from memoryd.core.defaults import Limit, LimitKind, Policy
from memoryd.core.plan import ANY_CONTENT, Kind
from memoryd.core.records import Record
from memoryd.errors import ConflictError, InvalidMemoryError, LimitExceededError, UsageError
from memoryd.layouts.jsonl_store import JSONL_STORE
from memoryd.layouts.jsonl_store.schema import FILE_TYPES, is_uuid4
from memoryd.layouts.protocol import NewMemory
from tests.layouts.contract import NOW, PLANNED, Files
from tests.layouts.samples import DAY, learning, line, lines, memory, task, uuid
from tests.layouts.storehouse import Storehouse, rules
from tests.layouts.test_jsonl_store import CORE, DAMAGED, LEARNINGS, Q4, SHIPPED, TASKS, TENDED

STORE = JSONL_STORE
STAMP = "2026-01-31T10:00:00Z"  # what NOW is in the seed's form
HARD = {CORE: Limit(LimitKind.HARD, 10_000, 3)}


def house(files: Files | None = None, **fields: Any) -> Storehouse:
    return Storehouse(STORE, files or {}, **fields)


def added(memory: dict[str, Any], files: Files | None = None) -> dict[str, Any]:
    """The object on the new line."""
    store = house(files)
    stored = store.add(memory)
    return dict(store.native(stored.id))


def refused(memory: dict[str, Any], files: Files | None = None) -> dict[str, str]:
    store = house(files)
    before = dict(store.files)
    with pytest.raises(InvalidMemoryError) as error:
        store.add(memory)
    assert store.files == before
    first = error.value.data["findings"][0]
    assert error.value.message.startswith(f"{first['field']}: {first['rule']}")
    return rules(error.value)


# --- what a record is searched by


def read_one(native: dict[str, Any], path: str = CORE) -> Record:
    (record,) = house({path: lines(native)}).read(path).records
    return record


class TestWhatIsSearched:
    def test_text_labels_weight_and_uses(self) -> None:
        record = read_one(memory(1, content="first\nsecond é \ud83d", category="fact", importance="medium"))
        assert record.text == "first\nsecond é ?"
        assert record.labels == ("fact",)
        assert (record.weight, record.uses) == (0.5, 5)
        assert (record.owner, record.embedding) == ("", None)

    @pytest.mark.parametrize(("importance", "weight"), [("high", 1.0), ("medium", 0.5), ("low", 0.0), ("huge", 0.5)])
    def test_weight_is_the_importance_in_even_steps(self, importance: str, weight: float) -> None:
        assert read_one(memory(1, importance=importance)).weight == weight

    def test_a_missing_category_gives_no_label_and_counts_stay_in_bounds(self) -> None:
        record = read_one(memory(1, category=None, access_count=10**400))
        assert record.labels == ()
        assert record.uses == 2**53

    def test_the_text_is_never_cut(self) -> None:
        assert read_one(memory(1, content="x" * 5000)).text == "x" * 5000

    def test_the_shipped_form_is_searched_too_and_can_be_shown(self) -> None:
        text = b'{"core_memories": [],\n "learnings": [\n {"content": "a", "id": "l1", "category": "c"}, 7,\n'
        store = house({"agent.json": text + b' {"title": "b\\nc"}]}'})
        first, second = store.read("agent.json").records
        assert (first.text, first.labels, first.weight, first.line) == ("a", ("c",), None, 3)
        assert (second.text, second.line) == ("b\nc", 4)
        assert store.native("l1") == {"content": "a", "id": "l1", "category": "c"}


# --- add


class TestAdd:
    @pytest.mark.parametrize(("kind", "path"), [("core", CORE), ("learning", LEARNINGS), ("task", TASKS)])
    def test_the_type_chooses_the_file(self, kind: str, path: str) -> None:
        store = house(TENDED)
        stored = store.add({"type": kind, "content": "new"})
        assert stored.path == path
        assert store.record(stored.id, path).type == kind
        assert {each for each in store.files if store.files[each] != TENDED[each]} == {path}

    def test_the_line_is_minified_unescaped_utf8_in_the_seeds_order_and_ends_in_a_newline(self) -> None:
        store = house()
        stored = store.add(
            {"tags": ["é"], "content": "zwei\nZeilen 东京 😀 \u2028", "type": "core", "importance": "low"}
        )
        assert store.files[CORE].decode() == (
            f'{{"id":"{stored.id}","type":"core","content":"zwei\\nZeilen 东京 😀 \u2028","created_at":"{STAMP}",'
            f'"updated_at":"{STAMP}","accessed_at":"{STAMP}","access_count":0,"tags":["é"],"importance":"low",'
            '"archived":false}\n'
        )

    def test_the_plan_is_one_append_that_looks_at_no_file(self) -> None:
        store = house(TENDED)
        stored = store.layout.require_writer().add(store.view(), NewMemory({"type": "core", "content": "new"}))
        (action,) = stored.plan.actions
        assert (action.kind, action.path, action.ids, action.base) == (Kind.APPEND, CORE, (stored.id,), ANY_CONTENT)
        assert stored.removed is None
        assert store.opened == []

    def test_defaults_of_what_is_not_given(self) -> None:
        native = added({"type": "learning", "content": "x"})
        assert native == {
            "id": native["id"], "type": "learning", "content": "x", "created_at": STAMP, "updated_at": STAMP,
            "accessed_at": STAMP, "access_count": 0, "tags": [], "importance": "medium", "archived": False,
        }  # fmt: skip

    def test_ids_are_uuids_of_version_4_and_never_the_same(self) -> None:
        store = house()
        ids = {store.add({"type": "core", "content": "the same"}).id for _ in range(50)}
        assert len(ids) == 50
        assert all(map(is_uuid4, ids))

    def test_the_same_number_time_and_content_give_the_same_id_so_that_a_retry_adds_nothing(self) -> None:
        view = house().view()
        first, again = (STORE.require_writer().add(view, NewMemory({"type": "core", "content": "x"})) for _ in range(2))
        other = STORE.require_writer().add(
            replace(view, number=view.number + 1), NewMemory({"type": "core", "content": "x"})
        )
        assert first == again
        assert other.id != first.id

    def test_unknown_fields_are_kept(self) -> None:
        extra = {"source": {"file": "a.py", "lines": [1, 2.5, None]}, "é": "东", "nothing": None}
        native = added({"type": "core", "content": "x", **extra})
        assert {key: native[key] for key in extra} == extra

    def test_known_fields_given_are_kept_and_null_is_not_given(self) -> None:
        given = memory(7, created_at="2025-01-01T00:00:00+02:00", access_count=3)
        assert added(given) == given
        assert added({"type": "core", "content": "x", "category": None, "tags": None})["tags"] == []

    def test_a_file_without_final_newline_gets_one_before_the_line(self) -> None:
        store = house({CORE: line(memory(1))})
        store.add({"type": "core", "content": "x"})
        assert len(store.read(CORE).records) == 2
        assert store.read(CORE).findings == ()

    def test_what_is_stored_is_sound(self) -> None:
        for native in (
            {"type": "core", "content": "x" * 5000, "tags": ["t" * 30] * 10, "category": "c" * 50},
            {"type": "task", "content": "x", "task_metadata": {"status": "in-progress", "more": 1}},
            {"type": "task", "content": "x", "task_metadata": {"status": "blocked", "blockers": []}},
            {"type": "task", "content": "x", "task_metadata": {"status": "completed", "completed_at": STAMP}},
        ):
            store = house()
            assert store.read(store.add(native).path).findings == ()


class TestRefusals:
    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("type", None), ("type", "note"), ("type", ["core"]), ("content", None), ("content", ""), ("content", 7),
            ("content", "é" * 5001), ("category", "c" * 51), ("category", 7), ("tags", ["t"] * 11),
            ("tags", ["t" * 31]), ("tags", "t"), ("tags", [1]), ("importance", "urgent"), ("importance", ["high"]),
            ("access_count", -1), ("access_count", True), ("access_count", 1.0), ("archived", "no"), ("archived", True),
            ("created_at", "yesterday"), ("created_at", "2026-01-01T10:00:00"), ("updated_at", 7), ("accessed_at", ""),
            ("id", "mem-001"), ("id", ""), ("id", 7), ("extra", float("nan")), ("extra", ["\ud83d"]),
            ("extra", object()), ("content", "half \udc00"),
        ],
    )  # fmt: skip
    def test_each_constraint_of_the_seed_names_its_field(self, field: str, value: Any) -> None:
        assert list(refused({"type": "core", "content": "x", field: value})) == [field]

    @pytest.mark.parametrize(
        ("field", "metadata"),
        [
            ("task_metadata", "done"),
            ("task_metadata.status", {}),
            ("task_metadata.status", {"status": "done"}),
            ("task_metadata.status", {"status": ["blocked"]}),
            ("task_metadata.completed_at", {"status": "completed"}),
            ("task_metadata.completed_at", {"status": "completed", "completed_at": "2026-01-01T10:00:00"}),
            ("task_metadata.completed_at", {"status": "in-progress", "completed_at": 7}),
            ("task_metadata.blockers", {"status": "blocked"}),
            ("task_metadata.blockers", {"status": "blocked", "blockers": "x"}),
            ("task_metadata.outcome", {"status": "in-progress", "outcome": 7}),
        ],
    )
    def test_what_a_task_says_about_itself(self, field: str, metadata: Any) -> None:
        assert list(refused({"type": "task", "content": "x", "task_metadata": metadata})) == [field]

    def test_only_a_task_has_task_metadata(self) -> None:
        assert list(refused({"type": "core", "content": "x", "task_metadata": {"status": "blocked"}})) == [
            "task_metadata"
        ]

    def test_characters_and_bytes_must_both_fit(self) -> None:
        assert len(added({"type": "core", "content": "x" * 5000})["content"]) == 5000
        assert list(refused({"type": "core", "content": "东" * 4000})) == ["content"]
        assert list(refused({"type": "core", "content": "x", "more": "y" * 10_240})) == ["content"]

    def test_the_bound_of_a_line_is_exactly_10_kb(self) -> None:
        given = {"type": "core", "content": "x", "more": ""}
        room = 10_240 - len(lines(added(given)).rstrip(b"\n"))
        fits = {**given, "more": "y" * room}
        store = house()
        store.add(fits)
        assert len(store.files[CORE]) == 10_241
        assert list(refused({**given, "more": "y" * (room + 1)})) == ["content"]

    def test_all_are_listed_at_once_and_no_value_is_repeated(self) -> None:
        found = refused({"type": "no-such-type", "content": "", "tags": "no-such-tags", "importance": "no-such"})
        assert list(found) == ["type", "content", "tags", "importance"]
        assert "no-such" not in repr(found)

    def test_bottomless_nesting_and_names_that_are_not_texts(self) -> None:
        deep: list[Any] = []
        for _ in range(100_000):
            deep = [deep]
        assert list(refused({"type": "core", "content": "x", "deep": deep})) == ["deep"]
        assert list(refused({"type": "core", "content": "x", 7: 1})) == ["int"]  # type: ignore[dict-item]  # refused
        assert list(refused({"type": "core", "content": "x", "\ud83d": 1})) == ["?"]

    @pytest.mark.parametrize("place", ["topic", "subtopic", "user", "session"])
    def test_a_place_means_nothing_here(self, place: str) -> None:
        with pytest.raises(UsageError, match=place):
            house().add({"type": "core", "content": "x"}, **{place: "a"})

    @pytest.mark.parametrize("number", [1, 11, 19])
    def test_a_chosen_id_must_be_new_in_live_files_and_archives(self, number: int) -> None:
        assert list(refused(memory(number), TENDED)) == ["id"]
        assert added(memory(99), TENDED)["id"] == uuid(99)


class TestLimits:
    def test_a_hard_limit_of_memories_refuses_and_names_the_oldest_and_least_used(self) -> None:
        stamps = ("2026-01-03T00:00:00Z", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z")
        given = [memory(n, accessed_at=stamp, access_count=9 - n) for n, stamp in enumerate(stamps)]
        store = house({CORE: lines(*given)}, limits=HARD)
        with pytest.raises(LimitExceededError) as error:
            store.add({"type": "core", "content": "x"})
        assert error.value.name == "LIMIT_EXCEEDED"
        assert error.value.data["suggested"] == [uuid(2), uuid(1), uuid(0)]
        assert error.value.hint is not None
        assert f"memoryd archive {uuid(2)}" in error.value.hint
        assert store.files[CORE] == lines(*given)

    def test_what_an_index_does_not_count_takes_no_room(self) -> None:
        given = (memory(1), memory(1), memory(2, archived=True), memory(3))
        store = house({CORE: lines(*given)}, limits=HARD)
        store.add({"type": "core", "content": "x"})
        with pytest.raises(LimitExceededError):
            store.add({"type": "core", "content": "y"})

    def test_a_hard_limit_of_bytes_counts_the_new_line(self) -> None:
        store = house()
        store.add({"type": "core", "content": "x"})
        size = len(store.files[CORE])
        for bound, fits in ((2 * size, True), (2 * size - 1, False), (size, False)):
            tried = house(store.files, limits={CORE: Limit(LimitKind.HARD, bound, None)})
            if fits:
                tried.add({"type": "core", "content": "y"})
                continue
            with pytest.raises(LimitExceededError, match=f"{bound} bytes"):
                tried.add({"type": "core", "content": "y"})

    def test_an_update_may_not_push_a_file_over_a_hard_limit_of_bytes(self) -> None:
        full = lines(memory(1, content="x" * 50), memory(2))
        store = house({CORE: full}, limits={CORE: Limit(LimitKind.HARD, len(full) + 10, None)})
        with pytest.raises(LimitExceededError) as error:
            store.update(uuid(1), content="y" * 200)
        assert error.value.data["suggested"]
        assert store.files[CORE] == full
        store.update(uuid(1), content="z")
        assert len(store.files[CORE]) < len(full)

    def test_at_a_hard_limit_of_memories_an_update_may_not_grow_the_file(self) -> None:
        full = lines(memory(1), memory(2), memory(3))
        store = house({CORE: full}, limits=HARD)
        with pytest.raises(LimitExceededError, match="limit of 3 memories"):
            store.update(uuid(1), content="much longer than it was before")
        assert store.files[CORE] == full
        store.update(uuid(1), content="Memory number 1")
        store.update(uuid(2), content="short")
        assert len(store.files[CORE]) < len(full)

    def test_below_a_hard_limit_no_file_is_read(self) -> None:
        store = house({CORE: lines(memory(1), memory(2))}, limits=HARD)
        store.add({"type": "core", "content": "x"})
        assert store.opened == []

    def test_over_a_soft_limit_it_is_stored_and_a_lifted_limit_is_none(self) -> None:
        soft = {LEARNINGS: Limit(LimitKind.SOFT, 10, 1)}
        store = house({LEARNINGS: lines(learning(1), learning(2))}, limits=soft)
        store.add({"type": "learning", "content": "x"})
        assert len(store.read(LEARNINGS).records) == 3
        house({CORE: lines(memory(1))}, limits={}).add({"type": "core", "content": "x"})

    def test_the_seeds_own_limits(self) -> None:
        full = lines(*(memory(n) for n in range(1000)))
        with pytest.raises(LimitExceededError, match="1000 memories"):
            house({CORE: full}).add({"type": "core", "content": "x"})


# --- update


class TestUpdate:
    def test_only_the_named_values_and_updated_at_change(self) -> None:
        spaced = b'{ "id" : "%s" ,\t"content":"old \\u00e9" , "x": [1,  2], "updated_at" : "2026-01-01T10:00:00Z" }'
        data = spaced % uuid(1).encode() + b"\n"
        store = house({CORE: data})
        store.update(uuid(1), content="new é")
        wanted = data.replace(b'"old \\u00e9"', '"new é"'.encode()).replace(b"2026-01-01", b"2026-01-31")
        assert store.files[CORE] == wanted

    def test_unknown_fields_are_set_kept_and_taken_away(self) -> None:
        store = house({CORE: lines(memory(1, one=1, two=2))})
        store.update(uuid(1), one=None, three={"a": [None]})
        assert store.files[CORE] == lines(memory(1, two=2, updated_at=STAMP, three={"a": [None]}))

    def test_a_repeated_key_goes_whole_and_is_set_where_it_counts(self) -> None:
        data = b'{"id":"%s","content":"a","x":1,"y":1,"x":2,"y":2}\n' % uuid(1).encode()
        store = house({CORE: data})
        store.update(uuid(1), x=None, y=3)
        assert b'"content":"a","y":1,"y":3,"updated_at"' in store.files[CORE]

    def test_optional_fields_can_be_taken_away_and_required_ones_cannot(self) -> None:
        store = house({TASKS: lines(task(1, "blocked", category="c"))})
        store.update(uuid(1), category=None, task_metadata=None)
        assert {"category", "task_metadata"}.isdisjoint(store.native(uuid(1)))
        required = ("id", "type", "content", "created_at", "tags", "importance", "archived", "access_count")
        with pytest.raises(InvalidMemoryError) as error:
            store.update(uuid(1), **dict.fromkeys(required))
        assert set(rules(error.value)) == set(required)

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("id", uuid(2)), ("type", "learning"), ("type", "note"), ("archived", True), ("content", ""),
            ("content", "x" * 5001), ("tags", ["t"] * 11), ("importance", 1), ("access_count", -1),
            ("updated_at", "now"), ("task_metadata", {"status": "blocked"}), ("extra", float("inf")),
        ],
    )  # fmt: skip
    def test_what_a_new_memory_may_not_be_an_old_one_may_not_become(self, field: str, value: Any) -> None:
        store = house({CORE: lines(memory(1))})
        with pytest.raises(InvalidMemoryError) as error:
            store.update(uuid(1), **{field: value})
        assert field in rules(error.value)
        assert store.files[CORE] == lines(memory(1))

    def test_invalid_values_in_other_fields_prevent_no_change(self) -> None:
        odd = memory(1, tags=["t"] * 12, importance="huge", category=7)
        store = house({CORE: lines(odd)})
        store.update(uuid(1), content="new")
        assert store.files[CORE] == lines({**odd, "content": "new", "updated_at": STAMP})

    def test_a_memory_in_the_wrong_file_may_take_the_type_of_its_file(self) -> None:
        store = house({LEARNINGS: lines(memory(1))})
        with pytest.raises(InvalidMemoryError):
            store.update(uuid(1), type="task")
        store.update(uuid(1), type="learning")
        assert store.record(uuid(1)).type == "learning"

    def test_no_line_grows_beyond_10_kb_but_one_that_was_longer_may_shrink(self) -> None:
        store = house({CORE: lines(memory(1, more="x" * 11_000))})
        store.update(uuid(1), more="x" * 10_500)
        with pytest.raises(InvalidMemoryError):
            store.update(uuid(1), more="x" * 10_501)

    def test_nothing_to_change_gives_an_empty_plan(self) -> None:
        store = house({CORE: lines(memory(1))})
        stored = store.update(uuid(1), content="memory number 1", gone=None, access_count=5)
        assert not stored.plan
        assert (stored.id, stored.path) == (uuid(1), CORE)

    def test_true_is_not_one(self) -> None:
        store = house({CORE: lines(memory(1, flag=1))})
        store.update(uuid(1), flag=True)
        assert store.native(uuid(1))["flag"] is True

    @pytest.mark.parametrize(("newline", "end"), [("always", b"\n"), ("keep", b""), ("never", b"")])
    def test_the_final_newline_follows_the_policy(self, newline: str, end: bytes) -> None:
        store = house({CORE: line(memory(1))}, policy=Policy(final_newline=newline))
        store.update(uuid(1), content="x")
        assert store.files[CORE] == line(memory(1, content="x", updated_at=STAMP)) + end

    @pytest.mark.parametrize(("newline", "end"), [("always", b"\n"), ("keep", b"\n"), ("never", b"")])
    def test_only_never_takes_the_final_newline_of_a_changed_file(self, newline: str, end: bytes) -> None:
        store = house({CORE: lines(memory(1))}, policy=Policy(final_newline=newline))
        store.update(uuid(1), content="x")
        assert store.files[CORE] == line(memory(1, content="x", updated_at=STAMP)) + end

    def test_archived_and_shipped_memories_are_not_changed(self) -> None:
        with pytest.raises(UsageError, match="archived"):
            house(TENDED).update(uuid(19), content="x")
        with pytest.raises(UsageError, match="never writes"):
            house(SHIPPED).update("l1", content="x")


# --- forget, unarchive, put back


class TestForgetAndBack:
    def test_forget_moves_the_line_to_its_quarter_and_marks_it(self) -> None:
        store = house(TENDED)
        stored = store.forget(uuid(13))
        assert stored.path == "archive/2026/learnings_2026_Q1.jsonl"
        live = house(TENDED).text(uuid(13))
        assert store.files[stored.path].splitlines()[-1] == live.replace(b'"archived":false', b'"archived":true')
        assert uuid(13) not in [record.id for record in store.read(LEARNINGS).records]
        assert [action.kind for action in stored.plan.actions] == [Kind.APPEND, Kind.REWRITE]
        assert stored.removed is None

    def test_core_is_archived_by_hand_alone_and_this_is_by_hand(self) -> None:
        store = house(TENDED)
        assert store.forget(uuid(1)).path == "archive/2026/core_memories_2026_Q1.jsonl"

    def test_to_forget_what_is_archived_is_nothing(self) -> None:
        store = house(TENDED)
        stored = store.forget(uuid(19))
        assert (bool(stored.plan), stored.path) == (False, Q4)

    def test_unarchive_appends_the_same_bytes_with_the_flag_taken_back_and_empties_the_archive(self) -> None:
        store = house(TENDED)
        before = store.text(uuid(19))
        stored = store.unarchive(uuid(19))
        assert store.files[LEARNINGS] == TENDED[LEARNINGS] + before.replace(b"true", b"false") + b"\n"
        assert store.files[Q4] == TENDED[Q4].replace(before + b"\n", b"")
        assert [action.kind for action in stored.plan.actions] == [Kind.APPEND, Kind.REWRITE]

    @pytest.mark.parametrize("name", ["task_memories_2025_Q4.jsonl", "tasks_2025_Q4.jsonl"])
    def test_both_names_of_an_archive_lead_back_to_their_file(self, name: str) -> None:
        store = house({f"archive/2025/{name}": lines(task(5, archived=True))})
        assert store.unarchive(uuid(5)).path == TASKS
        assert f"archive/2025/{name}" not in store.files, "an empty archive is of no use"

    def test_a_crash_between_the_two_writes_costs_nothing(self) -> None:
        store = house(TENDED)
        stored = store.layout.require_writer().unarchive(store.view(), store.found(uuid(19)))
        store.perform(stored.plan.actions[0])
        again = store.layout.require_writer().unarchive(store.view(), store.found(uuid(19), Q4))
        assert [action.kind for action in again.plan.actions] == [Kind.REWRITE]

    def test_a_live_memory_with_that_id_is_not_doubled(self) -> None:
        store = house({CORE: lines(memory(1)), "archive/2025/core_memories_2025_Q4.jsonl": lines(memory(1, tags=[]))})
        found = store.found(uuid(1), "archive/2025/core_memories_2025_Q4.jsonl")
        with pytest.raises(ConflictError, match=CORE):
            store.layout.require_writer().unarchive(store.view(), found)

    def test_a_hard_limit_holds_for_what_comes_back(self) -> None:
        archive = {"archive/2025/core_memories_2025_Q4.jsonl": lines(memory(9, archived=True))}
        store = house({CORE: lines(memory(1), memory(2), memory(3)), **archive}, limits=HARD)
        with pytest.raises(LimitExceededError):
            store.unarchive(uuid(9))

    def test_a_live_memory_that_is_only_marked_loses_its_mark(self) -> None:
        store = house(TENDED)
        store.unarchive(uuid(2))
        assert store.files[CORE] == TENDED[CORE].replace(b'"archived":true', b'"archived":false')
        assert not store.unarchive(uuid(2)).plan

    def test_forgotten_and_brought_back_it_is_byte_for_byte_the_same(self) -> None:
        for identity in (uuid(1), uuid(13), uuid(22)):
            store = house(TENDED)
            before = store.text(identity)
            path = store.found(identity).path
            store.forget(identity)
            assert store.unarchive(identity).path == path
            assert store.text(identity) == before

    def test_put_back_appends_what_was_kept_once(self) -> None:
        store = house(TENDED)
        for _ in range(2):
            store.put_back(CORE, line(memory(50)) + b"\n")
        assert store.files[CORE] == TENDED[CORE] + lines(memory(50))
        with pytest.raises(UsageError):
            store.put_back(CORE, b"no memory")

    def test_the_shipped_form_is_never_written(self) -> None:
        store = house(SHIPPED)
        for verb in (store.forget, store.unarchive):
            with pytest.raises(UsageError, match="never writes"):
                verb("l1")


# --- touch and native


class TestTouch:
    def test_the_count_grows_and_the_time_moves_on_and_nothing_else_changes(self) -> None:
        store = house(TENDED)
        store.touch(**{uuid(1): (3, NOW + 60), uuid(22): (1, 0.0), "no-such": (1, NOW)})
        assert store.files == {
            **TENDED,
            CORE: lines(memory(1, access_count=8, accessed_at=iso(NOW + 60))) + TENDED[CORE].partition(b"\n")[2],
            TASKS: TENDED[TASKS].replace(line(task(22, "in-progress")), line(task(22, "in-progress", access_count=6))),
        }

    def test_archives_and_the_shipped_form_have_no_statistics_of_ours(self) -> None:
        store = house({**TENDED, **SHIPPED, CORE: lines(memory(2))})
        before = dict(store.files)
        store.touch(**{uuid(19): (1, NOW), "l1": (1, NOW)})
        assert store.files == before

    def test_of_equal_ids_the_first_is_touched_and_a_boundless_count_is_left(self) -> None:
        store = house({CORE: lines(memory(1), memory(1)), LEARNINGS: lines(learning(2, access_count=10**4000))})
        store.touch(**{uuid(1): (1, 0.0), uuid(2): (1, 0.0)})
        assert store.files[CORE] == lines(memory(1, access_count=6), memory(1))
        assert store.files[LEARNINGS] == lines(learning(2, access_count=10**4000))


class TestNative:
    def test_it_is_what_the_parser_read(self) -> None:
        for files in (TENDED, DAMAGED, SHIPPED):
            store = house(files)
            for path in files:
                for record in store.read(path).records:
                    assert repr(store.layout.reader.native(path, record.span.of(files[path]))) == repr(record.native)

    def test_what_is_not_an_object_is_text(self) -> None:
        assert STORE.reader.native(CORE, b"\xff broken") == {"text": "� broken"}


# --- properties

CONTENTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=200)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | CONTENTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(CONTENTS, inner, max_size=3),
    max_leaves=6,
)
MEMORIES = st.builds(
    lambda kind, content, tags, more: {**more, "type": kind, "content": content, "tags": tags},
    st.sampled_from(sorted(FILE_TYPES.values())),
    CONTENTS,
    st.lists(st.text(st.characters(codec="utf-8"), max_size=30), max_size=10),
    st.dictionaries(CONTENTS.map("x_".__add__), VALUES, max_size=4),
)
STORES = st.sampled_from((TENDED, DAMAGED, {}))


class TestProperties:
    @PLANNED
    @given(files=STORES, given=MEMORIES)
    def test_what_is_added_is_read_again_and_nothing_else_changes(self, files: Files, given: dict[str, Any]) -> None:
        store = house(files)
        stored = store.add(given)
        native = store.native(stored.id)
        assert {key: native[key] for key in given} == given
        before = files.get(stored.path, b"")
        lead = b"\n" if before and not before.endswith(b"\n") else b""
        assert store.files[stored.path] == before + lead + store.text(stored.id) + b"\n"
        known = house(files).read(stored.path).records if before else ()
        assert [each.id for each in store.read(stored.path).records] == [*(each.id for each in known), stored.id]

    @PLANNED
    @given(data=st.data(), files=st.sampled_from((TENDED, DAMAGED)))
    def test_an_update_changes_one_record_and_foreign_lines_survive(self, data: st.DataObject, files: Files) -> None:
        store = house(files)
        live = [(path, record) for path in FILE_TYPES if path in files for record in store.read(path).records]
        path, record = data.draw(st.sampled_from(live))
        changes = data.draw(st.dictionaries(CONTENTS.map("x_".__add__), VALUES, max_size=3)) | {
            "content": data.draw(CONTENTS)
        }
        found = store.found(record.id, path)
        stored = store.stored(store.layout.require_writer().update(store.view(), found, changes))
        now, text = store.read(stored.path), store.files[stored.path]
        old = house(files).read(path).records
        place = [each.id for each in old].index(record.id)
        end = b"\n" if stored.plan and not files[path].endswith(b"\n") else b""
        assert text[: old[place].span.start] == files[path][: old[place].span.start]
        assert text[now.records[place].span.end :] == files[path][old[place].span.end :] + end
        native = now.records[place].native
        assert native == {
            **{key: value for key, value in found.record.native.items() if changes.get(key, 1) is not None},
            **{key: value for key, value in changes.items() if value is not None},
            **({"updated_at": STAMP} if stored.plan else {}),
        }

    @PLANNED
    @given(data=st.data(), files=st.sampled_from((TENDED, DAMAGED)))
    def test_forgotten_and_brought_back_only_the_place_differs(self, data: st.DataObject, files: Files) -> None:
        store = house(files)
        path = data.draw(st.sampled_from([path for path in FILE_TYPES if path in files]))
        records = store.read(path).records
        known = [each.id for each in records]
        single = [each for each in records if known.count(each.id) == 1 and each.native.get("archived") is False]
        if not single:
            return
        record = data.draw(st.sampled_from(single))
        if any(record.id in store.files[other].decode("utf-8", "replace") for other in store.files if other != path):
            return  # an older copy is in an archive
        before = record.span.of(files[path]).strip()
        store.forget(record.id)
        store.unarchive(record.id)
        assert store.text(record.id) == before
        assert sorted(each.id for each in store.read(path).records) == sorted(known)

    @PLANNED
    @given(data=st.data(), files=st.sampled_from((TENDED, DAMAGED)), times=st.integers(1, 9), days=st.integers(-99, 99))
    def test_a_touch_changes_two_numbers(self, data: st.DataObject, files: Files, times: int, days: int) -> None:
        store = house(files)
        path = data.draw(st.sampled_from([path for path in FILE_TYPES if path in files]))
        record = data.draw(st.sampled_from(store.read(path).records))
        store.touch(**{record.id: (times, NOW + days * DAY)})
        before, after = house(files).read(path).records, store.read(path).records
        place = [each.id for each in before].index(record.id)
        assert after[place].uses == before[place].uses + times
        assert after[place].facts["accessed"] == max(before[place].facts["accessed"], NOW + days * DAY)
        plain = {"accessed_at", "access_count"}
        assert {k: v for k, v in after[place].native.items() if k not in plain} == {
            k: v for k, v in before[place].native.items() if k not in plain
        }
