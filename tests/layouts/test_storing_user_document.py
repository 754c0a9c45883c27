"""Storing into user documents: whose document it is, and the bytes that are written."""

from __future__ import annotations

import json
import math
from collections.abc import Collection

import pytest
from msgspec.structs import replace

from memoryd.core.plan import Kind
from memoryd.core.spans import splice
from memoryd.errors import BusyError, ConflictError, UsageError
from memoryd.layouts.protocol import LoadedFile, NewMemory
from tests.layouts.contract import NOW, Files, document
from tests.layouts.storehouse import view_of
from tests.layouts.test_user_document import ALICE, BOB, ROOT, doc, item, text
from tests.layouts.user_storing import ODD, PLAIN, STAMP, STORE, VECTOR, add, added, last_of

TEA = {"content": "drinks", "embedding": VECTOR}


class TestRecords:
    def test_what_a_memory_is_searched_by(self) -> None:
        content = "first line\n" + "w" * 100_000 + " end"
        data = text(doc(item(content, (0.1, 1e-05, -3.0), importance=7, category="work", topics=["a", "b"])))
        record = document(STORE, ALICE, data).records[0]
        assert (record.text, record.title) == (content, "first line")
        assert record.labels == ("work", "a", "b")
        assert (record.weight, record.uses, record.owner) == (1.0, 0, "files/alice")
        assert list(record.embedding or ()) == [0.1, 1e-05, -3.0]

    def test_only_vectors_of_the_common_size_that_mean_something(self) -> None:
        """Missing, of another length, all zero, or not finite: text search alone."""
        good = [item("a"), item("b")]
        odd = [item("c", (1.0, 2.0)), item("d", (0.0, 0.0, 0.0)), item("e", None), item("f", [math.inf, 1, 1])]
        records = document(STORE, ALICE, text(doc(*good, *odd))).records
        assert [each.embedding is not None for each in records] == [True, True, False, False, False, False]

    def test_no_secret_is_in_the_text(self) -> None:
        token = "ghp_" + "a1B2" * 9
        record = document(STORE, ALICE, text(doc(item(f"use {token}")))).records[0]
        assert record.text == "use [redacted:github-token]"


class TestWhose:
    """Users are apart by path: no file of another one is read."""

    @pytest.mark.parametrize(
        ("paths", "user", "path"),
        [
            ([], "alice", "alice/" + ROOT),
            ([], "files/alice", ALICE),
            ([ALICE], "", ALICE),
            ([ROOT], "", ROOT),
            ([ALICE], "files/alice", ALICE),
            ([ALICE], "alice", ALICE),
            ([ALICE], "carol", "files/carol/" + ROOT),
            ([ALICE, BOB], "bob", BOB),
            ([ALICE, BOB], "carol", "files/carol/" + ROOT),
            ([BOB], "carol", "files/carol/appdata/agent/" + ROOT),
            ([BOB], "bob", BOB),
            (["alice/" + ROOT], "bob", "bob/" + ROOT),
            (["x/a/y/" + ROOT, "x/b/y/" + ROOT], "c", "x/c/y/" + ROOT),
            (["a/" + ROOT, "team/b/" + ROOT], "team", "team/" + ROOT),
            ([ROOT], "bob", "bob/" + ROOT),
            ([ALICE], "Ольга 東京", "files/Ольга 東京/" + ROOT),
        ],
    )
    def test_the_document(self, paths: list[str], user: str, path: str) -> None:
        files = {each: text(doc(item())) for each in paths}
        view, opened = view_of(STORE, files), []

        def load(asked: str, ids: Collection[str] | None = None) -> LoadedFile | None:
            opened.append(asked)
            return view.load(asked)

        closed = replace(view, load=load, content=lambda _: pytest.fail("nothing else is read"))
        stored = STORE.require_writer().add(closed, NewMemory(TEA, {"user": user}))
        assert stored.path == path
        assert opened == [path]
        assert {action.path for action in stored.plan.actions} == {path}

    @pytest.mark.parametrize("paths", [[], [ALICE, BOB]])
    def test_without_a_name_there_must_be_exactly_one(self, paths: list[str]) -> None:
        """The error lists the users, from which the user of the command has to choose."""
        with pytest.raises(UsageError, match=r"^user: ") as refused:
            add(dict.fromkeys(paths, PLAIN), TEA)
        assert ("files/alice" in str(refused.value)) == bool(paths)

    @pytest.mark.parametrize(
        "user",
        ["..", "../x", "/etc", "a/", "a//b", "a/../b", ".", ".x", "a\\b", "a\n", "a\0b", "\udc80", "x" * 256,
         "__long-memories", "files/__long-memories", " a", "x~", "a.tmp"],
    )  # fmt: skip
    def test_names_that_lead_elsewhere(self, user: str) -> None:
        with pytest.raises(UsageError, match=r"^user: "):
            add({ALICE: PLAIN}, TEA, user)

    def test_several_documents_of_one_user(self) -> None:
        with pytest.raises(UsageError, match="several documents"):
            add({BOB: PLAIN, "files/bob/x/" + ROOT: PLAIN}, TEA, "bob")

    def test_other_places_mean_nothing(self) -> None:
        with pytest.raises(UsageError, match="topic"):
            STORE.require_writer().add(view_of(STORE, {ALICE: PLAIN}), NewMemory(TEA, {"topic": "x"}))


class TestWritten:
    def test_compact_with_the_defaults_and_nothing_else_touched(self) -> None:
        """The id is the Unix second; no space follows a separator; other alphabets are not escaped."""
        data = added({ALICE: PLAIN}, {"content": "東京 é", "embedding": VECTOR})
        element = (
            f'{{"data":{{"id":{int(NOW)},"content":"東京 é","importance":0.5,"category":"general","topics":[]}},'
            '"embedding":[0.25,-1e-05,3]}'
        ).encode()
        wanted = PLAIN.replace(b'],"updated_at"', b"," + element + b'],"updated_at"')
        assert data == wanted.replace(b"2026-01-30T12:00:00Z", STAMP.encode())

    def test_a_new_document_is_as_the_seed_shows_it(self) -> None:
        stored = add({}, TEA, "alice")
        assert [action.kind for action in stored.plan.actions] == [Kind.CREATE]
        data = added({}, TEA, "alice")
        assert data.endswith(b'],"updated_at":"' + STAMP.encode() + b'","last_deduplicated_at":null}')
        assert data == text(json.loads(data))
        assert document(STORE, stored.path, data).findings == ()

    def test_all_fields_and_unknown_ones_are_kept(self) -> None:
        given = {"source": {"b": [1]}, "topics": ["x"], "id": 7, "category": "c", "importance": 1, "content": "t"}
        data = added({ALICE: PLAIN}, {"data": given, "embedding": VECTOR})
        assert last_of(data) == {"data": given, "embedding": VECTOR}
        assert list(last_of(data)["data"]) == ["id", "content", "importance", "category", "topics", "source"]
        assert last_of(added({ALICE: PLAIN}, {**given, "embedding": VECTOR})) == last_of(data)

    def test_null_counts_as_not_given(self) -> None:
        data = added({ALICE: PLAIN}, {**TEA, "importance": None, "topics": None, "id": None, "other": None})
        assert last_of(data)["data"] == {
            "id": int(NOW), "content": "drinks", "importance": 0.5, "category": "general", "topics": [], "other": None,
        }  # fmt: skip

    def test_everything_found_stays_to_the_byte(self) -> None:
        """Numbers, escapes, spaces, byte order mark, elements that are not memories; `updated_at` keeps its form."""
        stored = add({ALICE: ODD}, {**TEA, "content": "é"})
        data = added({ALICE: ODD}, {**TEA, "content": "é"})
        (action,) = stored.plan.actions
        put_in, stamp = sorted(action.edits, key=lambda edit: edit.span)
        assert put_in.new.startswith(b',  {"data":{"id":')
        assert rb"\u00e9" in put_in.new  # as this document writes it
        assert stamp.new == b'"2026-01-31 12:00:00.000000+02:00"'
        assert data.replace(put_in.new, b"").replace(stamp.new, b'"2026-01-21 22:02:47.113258+02:00"') == ODD

    def test_into_an_empty_list(self) -> None:
        for empty in (b"[]", b"[ \n ]"):
            data = text(doc()).replace(b"[]", empty)
            assert len(json.loads(added({ALICE: data}, TEA))["memories"]) == 1

    def test_a_missing_stamp_is_put_in(self) -> None:
        assert json.loads(added({ALICE: b'{"memories":[]}'}, TEA))["updated_at"] == STAMP

    def test_equal_memories_get_different_ids(self) -> None:
        files: Files = {ALICE: added({ALICE: PLAIN}, TEA)}
        first = document(STORE, ALICE, files[ALICE]).records[-1].id
        again = add(files, TEA)
        assert again.id == f"{first}.2"
        files[ALICE] = added(files, TEA)
        assert add(files, TEA).id == f"{first}.3"
        added(files, TEA)

    @pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"memories":3}', PLAIN[:-5], PLAIN + b"}", PLAIN + PLAIN])
    def test_what_cannot_be_read_whole_is_not_written_into(self, data: bytes) -> None:
        """The program would begin an empty document over it; its backup is the only rescue."""
        with pytest.raises(ConflictError, match="not readable as a whole"):
            add({ALICE: data}, TEA)

    def test_what_is_just_being_written_is_waited_for(self) -> None:
        view = view_of(STORE, {ALICE: PLAIN})
        fresh = document(STORE, ALICE, PLAIN[:-5], mtime=NOW)
        busy = replace(view, load=lambda *_: LoadedFile(PLAIN[:-5], fresh))
        with pytest.raises(BusyError):
            STORE.require_writer().add(busy, NewMemory(TEA))


def test_a_plan_is_undone_exactly() -> None:
    """One rewrite of the whole file, decided on its content."""
    (action,) = add({ALICE: PLAIN}, TEA).plan.actions
    assert action.kind is Kind.REWRITE
    assert splice(PLAIN, action.edits) == added({ALICE: PLAIN}, TEA)
