"""Changing, forgetting and putting back memories of user documents: exact edits, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.core.plan import Kind
from memoryd.core.spans import splice
from memoryd.errors import ConflictError, InvalidMemoryError, NotFoundError
from memoryd.layouts.protocol import AccessCount, LoadedFile, Located
from tests.layouts.contract import NOW, OLD, PLANNED, document, mutilated
from tests.layouts.storehouse import done, find, rules, view_of
from tests.layouts.test_user_document import ALICE, BOB, DAMAGED, TENDED, doc, item, text
from tests.layouts.user_storing import (
    ODD,
    PLAIN,
    STAMP,
    STORE,
    VECTOR,
    add,
    embedder,
    forgotten,
    one,
    put_back,
    updated,
)

OLD_STAMP = b"2026-01-30T12:00:00Z"


def stamped(data: bytes) -> bytes:
    return data.replace(OLD_STAMP, STAMP.encode())


class TestUpdate:
    """Only what is named changes, and `updated_at`."""

    @pytest.mark.parametrize(
        ("changes", "old", "new"),
        [
            ({"importance": 0.9}, b'"importance":0.5', b'"importance":0.9'),
            ({"topics": ["é"]}, b'"topics":["drinks"]', '"topics":["é"]'.encode()),
            ({"data": {"category": "x"}}, b'"category":"general"', b'"category":"x"'),
            ({"category": None}, b',"category":"general"', b""),
            ({"topics": None, "new": 1}, b',"topics":["drinks"]', b',"new":1'),
            ({"embedding": VECTOR}, b"[1.0,0.0,0.0]", b"[0.25,-1e-05,3]"),
        ],
    )
    def test_of_fields(self, changes: dict[str, Any], old: bytes, new: bytes) -> None:
        assert updated(PLAIN, "likes tea", changes) == stamped(PLAIN).replace(old, new, 1)

    def test_new_content_needs_a_new_vector(self) -> None:
        with pytest.raises(InvalidMemoryError, match="embedding") as refused:
            updated(PLAIN, "likes tea", {"content": "likes milk"})
        assert refused.value.hint
        assert refused.value.rpc_code == -32011
        given_one = updated(PLAIN, "likes tea", {"content": "likes milk", "embedding": VECTOR})
        wanted = stamped(PLAIN).replace(b"likes tea", b"likes milk").replace(b"[1.0,0.0,0.0]", b"[0.25,-1e-05,3]")
        assert given_one == wanted
        mine = text(doc(item("likes tea", tuple(embedder("likes tea", 3) or ()))))
        made = json.loads(updated(mine, "likes tea", {"content": "x"}, embed=embedder))["memories"][0]
        assert made["embedding"] == embedder("x", 3)

    def test_the_id_follows_the_bytes(self) -> None:
        files = {ALICE: text(doc(item("a"), item("b"), item("a")))}
        found = find(STORE, files, one(files, "b"))
        stored = STORE.require_writer().update(view_of(STORE, files), found, {"content": "a", "embedding": VECTOR})
        assert stored.id == one(files, "a") + ".2"
        done(STORE, files, stored)

    def test_everything_else_stays_to_the_byte(self) -> None:
        data = updated(ODD, "c", {"topics": ["y"], "content": "é", "embedding": [1, 2, 3]})
        assert data == ODD.replace(b'[ "x" ]', b'["y"]').replace(b'"content":"c"', b'"content":"\\u00e9"').replace(
            b"[0.5,0.5,5e-1]", b"[1,2,3]"
        ).replace(b"2026-01-21 22:02:47.113258", b"2026-01-31 12:00:00.000000")

    @pytest.mark.parametrize("changes", [{"content": "likes tea"}, {"embedding": [1.0, 0.0, 0.0]}, {}, {"gone": None}])
    def test_what_changes_nothing_writes_nothing(self, changes: dict[str, Any]) -> None:
        files = {ALICE: PLAIN}
        found = find(STORE, files, one(files, "likes tea"))
        stored = STORE.require_writer().update(view_of(STORE, files), found, changes)
        assert (stored.plan.actions, stored.id) == ((), found.record.id)

    @pytest.mark.parametrize(
        ("changes", "fields"),
        [
            ({"content": None}, ["content"]),
            ({"content": "", "importance": 2}, ["content", "importance"]),
            ({"embedding": None, "id": None}, ["id", "embedding"]),
            ({"id": 3}, ["id"]),
            ({"embedding": [1]}, ["embedding"]),
            ({"content": "\ud800"}, ["content"]),
        ],
    )
    def test_what_breaks_a_rule_is_named(self, changes: dict[str, Any], fields: list[str]) -> None:
        with pytest.raises(InvalidMemoryError) as refused:
            updated(PLAIN, "likes tea", changes)
        assert list(rules(refused.value)) == fields

    def test_invalid_values_in_other_fields_prevent_no_change(self) -> None:
        data = text(doc(item("a", importance="high", topics=3)))
        assert updated(data, "a", {"category": "x"}) == stamped(data).replace(b"general", b"x")


class TestForget:
    """Out, with its exact bytes kept, and back at the end."""

    @pytest.mark.parametrize("content", ["likes tea", "has a dog"])
    def test_out_and_back(self, content: str) -> None:
        files = {ALICE: PLAIN, BOB: PLAIN}
        identity = next(each.id for each in document(STORE, ALICE, PLAIN).records if each.native["content"] == content)
        record = next(each for each in document(STORE, ALICE, PLAIN).records if each.id == identity)
        stored, between = forgotten(files, identity)
        (action,) = stored.plan.actions
        assert (stored.removed, action.quarantine) == (record.span.of(PLAIN), (record.span,))
        assert (action.kind, action.ids, stored.id) == (Kind.REWRITE, (identity,), identity)
        assert len(json.loads(between[ALICE])["memories"]) == 1
        assert STAMP.encode() in between[ALICE]
        again, after = put_back(between, stored)
        assert again.id == identity
        back = next(each for each in document(STORE, ALICE, after[ALICE]).records if each.id == identity)
        assert back.span.of(after[ALICE]) == stored.removed
        assert after[BOB] == PLAIN

    def test_everything_else_stays_to_the_byte(self) -> None:
        stored, between = forgotten({ALICE: ODD}, one({ALICE: ODD}, "café"))
        kept = stored.removed or b""
        assert kept in ODD
        assert between[ALICE] == ODD.replace(kept + b" ,\n\n  ", b"").replace(
            b"2026-01-21 22:02:47.113258", b"2026-01-31 12:00:00.000000"
        )
        assert b'{"data": {}}' in between[ALICE]

    def test_the_last_one_leaves_an_empty_list(self) -> None:
        data = text(doc(item("a")))
        stored, between = forgotten({ALICE: data}, one({ALICE: data}, "a"))
        assert between[ALICE] == stamped(text(doc()))
        assert put_back(between, stored)[1][ALICE] == stamped(data).replace(b"10:00:00Z", b"10:01:00Z")

    def test_back_into_a_document_that_is_gone(self) -> None:
        stored, _ = forgotten({ALICE: PLAIN}, one({ALICE: PLAIN}, "likes tea"))
        again, after = put_back({}, stored)
        assert (again.id, again.path) == (stored.id, ALICE)
        assert json.loads(after[ALICE])["last_deduplicated_at"] is None

    def test_back_beside_its_equal(self) -> None:
        stored, _ = forgotten({ALICE: PLAIN}, one({ALICE: PLAIN}, "likes tea"))
        assert put_back({ALICE: PLAIN}, stored)[0].id == f"{stored.id}.2"

    def test_nothing_is_done_to_a_document_that_is_damaged(self) -> None:
        data = PLAIN + b"}"
        with pytest.raises(ConflictError):
            forgotten({ALICE: data}, one({ALICE: data}, "likes tea"))
        with pytest.raises(ConflictError):
            STORE.require_writer().restore(view_of(STORE, {ALICE: b"{"}), ALICE, [b'{"data":{"content":"x"}}'])

    def test_there_is_no_archive(self) -> None:
        files = {ALICE: PLAIN}
        with pytest.raises(NotFoundError):
            STORE.require_writer().unarchive(view_of(STORE, files), find(STORE, files, one(files, "likes tea")))


def test_reading_leaves_no_trace() -> None:
    found = find(STORE, {ALICE: PLAIN}, one({ALICE: PLAIN}, "likes tea"))
    assert STORE.require_writer().count_reads(ALICE, found.loaded, {found.record.id: AccessCount(3, NOW)}) == ()


def test_native_is_the_data_without_its_vector() -> None:
    record = document(STORE, ALICE, ODD).records[0]
    assert STORE.reader.native(ALICE, record.span.of(ODD)) == {
        "content": "café", "id": 12345678901234567890, "extra": {"a": 100.0}, "importance": 0.5,
    }  # fmt: skip


SAMPLES = [PLAIN, ODD, *TENDED.values(), *DAMAGED.values()]
values = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5))
fields = st.dictionaries(st.one_of(st.text(max_size=4), st.sampled_from(["category", "topics", "importance"])), values)


class TestLaws:
    @PLANNED
    @given(mutilated(SAMPLES), fields, st.text(min_size=1, max_size=9))
    def test_what_was_added_is_read_and_nothing_else_is_touched(
        self, data: bytes, more: dict[str, Any], said: str
    ) -> None:
        files = {ALICE: data}
        size = document(STORE, ALICE, data).facts.get("dimension") or 3
        try:
            stored = add(files, {**more, "content": said, "embedding": [0.5] * int(size)})
        except (InvalidMemoryError, ConflictError):
            return
        after = done(STORE, files, stored)[ALICE]
        old, new = document(STORE, ALICE, data).records, document(STORE, ALICE, after).records
        assert [each.span.of(after) for each in new[:-1]] == [each.span.of(data) for each in old]
        assert (new[-1].id, new[-1].native["content"]) == (stored.id, said)
        assert new[-1].embedding is not None
        assert outside(data, stored.plan.actions[0].edits) <= 2

    @PLANNED
    @given(mutilated(SAMPLES), fields, st.data())
    def test_changed_out_and_back(self, data: bytes, changes: dict[str, Any], draw: st.DataObject) -> None:
        files = {ALICE: data}
        read = document(STORE, ALICE, data)
        if not read.records:
            return
        number = draw.draw(st.integers(0, len(read.records) - 1))
        found = Located(ALICE, LoadedFile(data, read, OLD), read.records[number])
        try:
            stored = STORE.require_writer().update(view_of(STORE, files), found, changes)
            out = STORE.require_writer().forget(view_of(STORE, files), found)
        except (InvalidMemoryError, ConflictError):
            return
        after = done(STORE, files, stored)[ALICE]
        assert document(STORE, ALICE, after).records[number].id == stored.id
        assert others(after, number) == others(data, number)
        between = {ALICE: splice(data, out.plan.actions[0].edits)}
        assert all_of(between[ALICE]) == others(data, number)
        again, whole = put_back(between, out)
        assert all_of(whole[ALICE]) == [*others(data, number), out.removed]
        assert again.path == ALICE


def outside(data: bytes, edits: Any) -> int:
    """How many places of a document change; all of them are inside it."""
    assert all(0 <= edit.span.start <= edit.span.end <= len(data) for edit in edits)
    return len(edits)


def all_of(data: bytes) -> list[bytes]:
    return [each.span.of(data) for each in document(STORE, ALICE, data).records]


def others(data: bytes, number: int) -> list[bytes]:
    found = all_of(data)
    return found[:number] + found[number + 1 :]
