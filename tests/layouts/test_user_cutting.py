"""User documents cut in one pass: what is found is what cutting value by value finds, whatever the form; and storing,
which looks no further, decides as the full reading would."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from memoryd.core.json_spans import find_document, is_utf8
from memoryd.core.records import Document, ParseOffset
from memoryd.core.retention import Quality
from memoryd.core.spans import Span, splice
from memoryd.errors import BusyError, ConflictError
from memoryd.layouts.protocol import LoadedFile, NewMemory
from memoryd.layouts.user_document import split
from memoryd.layouts.user_document.embeddings import decode_vector, embedding_size, inspect, inspect_with_numbers
from tests.layouts.contract import NOW, document
from tests.layouts.storehouse import view_of
from tests.layouts.test_user_document import ALICE, doc, item, text
from tests.layouts.user_storing import ODD, PLAIN, STORE, VECTOR


def test_what_is_readable_is_counted_as_the_full_reading_counts_it() -> None:
    whole = text(doc(item("a"), item("b")))
    odd = whole.replace(b'"memories":[', b'"memories":[7,{"data":{}},', 1)
    for data in (whole, odd, whole + b"}]", whole[:-9], b"", b"{}", b"\xff", b'{"memories":[]}', b'{"memories":{}}'):
        told = STORE.reader.parse(ALICE, data, now=NOW, mtime=0.0, base=ParseOffset())
        assert STORE.reader.quality(ALICE, data, now=NOW) == Quality(told.units, len(told.records)), data
    assert STORE.reader.quality(ALICE, odd, now=NOW) == Quality(4, 2)


SPACES = st.sampled_from(["", "", "", " ", "\n  ", "\t", "\r\n"])
DATA = [
    '{"id":1,"content":"likes tea"}',
    '{"id":1,"content":"likes tea"}',
    '{"content":"naïve 東京","topics":["x"]}',
    '{"content":"caf\\u00e9"}',
    '{"content":"half \\ud800"}',
    '{"content":"a","content":"b"}',
    '{"content":"a","n":NaN}',
    '{"content":"a","n":1e999}',
    '{"content":""}',
    "{}",
    "[]",
    "null",
    "17",
    '"text"',
    '{"data":{"content":"inner"},"embedding":[1]}',
]
VECTORS = [
    "[1,0,0]",
    "[1, 0.5,\n-1e-5]",
    "[0.1,0.2]",
    "[]",
    "[ ]",
    "null",
    "1",
    "12",
    '"x"',
    "[[1],2]",
    "[1e999]",
    "{}",
]
KEYS = ["data", "embedding", "x", "d\\u0061ta", "memories", ""]


@st.composite
def elements(draw: st.DrawFn) -> str:
    """Mostly in the form of the program."""
    if not draw(st.integers(0, 19)):
        return draw(st.sampled_from(["17", "[]", "null", '"data"', "{}"]))
    pairs = [("data", draw(st.sampled_from(DATA))), ("embedding", draw(st.sampled_from(VECTORS)))]
    if not draw(st.integers(0, 7)):
        pairs.append((draw(st.sampled_from(KEYS)), draw(st.sampled_from([*DATA, *VECTORS]))))
        pairs = draw(st.permutations(pairs))
    if not draw(st.integers(0, 9)):
        pairs = pairs[: draw(st.integers(0, len(pairs)))]
    return _object(draw, pairs)


def _object(draw: st.DrawFn, pairs: list[tuple[str, str]]) -> str:
    a, b, c, d = (draw(SPACES) for _ in range(4))
    return "{" + ",".join(f'{a}"{key}"{b}:{c}{value}{d}' for key, value in pairs) + "}"


@st.composite
def files(draw: st.DrawFn) -> bytes:
    gap = draw(SPACES)
    array = "[" + gap + f"{gap},{gap}".join(draw(st.lists(elements(), max_size=6))) + gap + "]"
    pairs = [("memories", array), ("updated_at", '"2026-01-21T22:02:47Z"'), ("last_deduplicated_at", "null")]
    if not draw(st.integers(0, 5)):
        more = draw(st.sampled_from(["memories", "mem\\u006fries", "version", "updated_at", "é"]))
        pairs.append((more, draw(st.sampled_from(["[]", "null", array, '{"a":[1,"]"]}']))))
        pairs = draw(st.permutations(pairs))
    before, after = draw(st.sampled_from(["", "", "\ufeff", " \n"])), draw(st.sampled_from(["", "", "\n", "}", "\0"]))
    data = (before + _object(draw, pairs) + after).encode()
    if not draw(st.integers(0, 9)):
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.sampled_from([b"", b"\xff", b",", b'"', b"\xc3"])) + data[at + 1 :]
    return data


def slowly(data: bytes) -> tuple[Any, Any]:
    whole = find_document(data)
    return whole, split.split_document(data, whole.value) if whole.value is not None else None


class TestCutting:
    @given(files())
    @example(b'{"memories":[{"data":{"content":"a"},"data":{"content":"b"},"embedding":[1]}]}')
    @example(b'{"memories":[{"data":{"content":"a"},"embedding":12,"embedding":1}]}')
    @example(b'{"memories":[{"data":{"content":"a"},"embedding":[{"a":1}],"embedding":[1,2,3]}]}')
    @example(b'{"memories":[{"data":[{"content":"a","embedding":[1]}],"data":{"content":"b"},"embedding":[1]}]}')
    @example(b'{"memories":[{"data":{"content":"a"}}],"memories":[{"data":{"content":"a"}}]}')
    @example(b'{"memories":[{"data":{"content":"a"}}],"memories":[]}')
    @example(b'{"memories":[{"data":{"content":"\xff"}}]}')
    @example(b'{"memories":[{"data":{"content":"a"},"embedding":["\xff"]}]}')
    @example(ODD)
    @example(PLAIN)
    def test_one_pass_finds_what_cutting_value_by_value_finds(self, data: bytes) -> None:
        # Repr, since a number that is none does not equal itself.
        assert repr(split.parse_document(data)) == repr(slowly(data))

    @pytest.mark.parametrize("indent", [None, 2])
    def test_the_form_of_the_program_takes_one_pass(self, indent: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(split, "split_document", lambda *_: pytest.fail("cut value by value"))
        data = json.dumps(doc(item("a"), item("b", None)), indent=indent).encode()
        whole, taken = split.parse_document(data)
        assert whole.value == Span(0, len(data))
        assert taken is not None
        assert [each.native["content"] for each in taken.items if each is not None] == ["a", "b"]

    @given(st.binary(max_size=40), st.sampled_from([0, 1, 16_380, 16_383, 16_384, 16_390]))
    @example(b"\xc3a\xa9", 16_383)
    @example("é".encode(), 16_383)
    def test_the_encoding_is_that_of_the_whole(self, some: bytes, before: int) -> None:
        data = b"a" * before + some + b"z" * 20_000
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            assert not is_utf8(data)
        else:
            assert is_utf8(data)


class TestStoring:
    """Against the full reading, which names every memory and counts every embedding."""

    @given(files(), st.sampled_from(["likes tea", "a", "b", "naïve 東京"]), st.sampled_from([NOW, NOW - 9]))
    def test_id_and_refusal_are_those_of_the_full_reading(self, data: bytes, content: str, mtime: float) -> None:
        read = document(STORE, ALICE, data, mtime=mtime)
        view = view_of(STORE, {ALICE: data})
        view = replace(view, load=lambda *_: LoadedFile(data, lambda: read, mtime))
        whole = find_document(data)
        sound = whole.value is not None and whole.rest is None and "wrong-shape" not in {f.code for f in read.findings}
        size = read.facts.get("dimension") or 3
        asked = NewMemory({"id": 1, "content": content, "embedding": [1.0] * size}, {"user": "files/alice"})
        if read.pending or not sound:
            with pytest.raises(BusyError if read.pending else ConflictError):
                STORE.require_writer().add(view, asked)
            return
        stored = STORE.require_writer().add(view, asked)
        before = {record.id for record in read.records}
        (action,) = stored.plan.actions
        after = document(STORE, ALICE, splice(data, action.edits), mtime=mtime)
        assert {record.id for record in after.records} - before == {stored.id}

    def test_no_memory_is_read_for_a_new_one(self) -> None:
        view = view_of(STORE, {ALICE: PLAIN})
        unread = replace(view, load=lambda *_: LoadedFile(PLAIN, lambda: pytest.fail("the document is parsed")))
        stored = STORE.require_writer().add(unread, NewMemory({"content": "new", "embedding": VECTOR}))
        assert stored.path == ALICE

    def test_a_document_is_read_once_and_not_before_it_is_asked_for(self) -> None:
        asked: list[Document] = []

        def parse() -> Document:
            asked.append(document(STORE, ALICE, PLAIN))
            return asked[-1]

        loaded = LoadedFile(PLAIN, parse)
        assert asked == []
        assert loaded.document is loaded.document
        assert len(asked) == 1

    def test_of_equal_memories_each_gets_its_own_id(self) -> None:
        data = text(doc(item("other")))
        asked = NewMemory({"id": 5, "content": "twice", "embedding": VECTOR})
        ids = []
        for _ in range(3):
            stored = STORE.require_writer().add(view_of(STORE, {ALICE: data}), asked)
            ids.append(stored.id)
            data = splice(data, stored.plan.actions[0].edits)
        assert ids == [ids[0], f"{ids[0]}.2", f"{ids[0]}.3"]
        assert ids == [record.id for record in document(STORE, ALICE, data).records[1:]]

    @given(st.sampled_from(VECTORS))
    def test_the_size_of_an_embedding_is_what_looking_into_it_says(self, vector: str) -> None:
        data = vector.encode()
        assert embedding_size(data, Span(0, len(data))) == inspect(data, Span(0, len(data))).size


NUMBERS = st.one_of(
    st.sampled_from(["0", "-0", "0.0", "1e309", "-1E999", "1e-400", "0e5", "1" * 400, "0." + "0" * 400 + "1e402"]),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers().map(str),
)


class TestEmbeddings:
    @given(st.lists(NUMBERS, max_size=5), SPACES)
    @example(["1e308", "1e308"], "")
    @example(["1e-400"], "")
    def test_what_the_numbers_show_is_what_their_text_shows(self, numbers: list[str], space: str) -> None:
        data = f"[{space}{f'{space},'.join(numbers)}]".encode()
        found, numbers_found = inspect_with_numbers(data, Span(0, len(data)))
        assert found == inspect(data, Span(0, len(data)))
        assert numbers_found is None or (numbers_found == decode_vector(data) and not found.fault)

    @given(st.sampled_from(VECTORS))
    def test_so_it_is_with_what_is_not_a_list_of_numbers(self, text: str) -> None:
        data = text.encode()
        assert inspect_with_numbers(data, Span(0, len(data)))[0] == inspect(data, Span(0, len(data)))
