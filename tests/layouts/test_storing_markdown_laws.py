"""Storing into topic files of any content: nothing but the memory itself changes."""

from __future__ import annotations

from datetime import date
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memoryd.errors import ConflictError, InvalidMemoryError, UsageError
from memoryd.layouts.markdown_topics.outline import outline
from memoryd.layouts.protocol import LoadedFile, Located
from tests.layouts.contract import OLD, PLANNED, Files, document
from tests.layouts.markdown_storing import (
    PATH,
    REAL,
    TOPICS,
    add,
    back,
)
from tests.layouts.storehouse import done, view_of
from tests.layouts.test_markdown_topics import LONG

LINES = ("", "text", "---", "```", "~~~", "# H", "## 2025-01-01: other", "## Not dated", "**Context:** z",
         "<!-- from: x.md -->", "  - a", "*Stored: x*", "**A b:**", "`` ` ``", "\ufeff", "東京 é", "\x0b")  # fmt: skip
texts = st.lists(st.sampled_from(LINES), max_size=6).map("\n".join)
memories = st.fixed_dictionaries(
    {"title": st.one_of(st.text(min_size=1, max_size=20), st.sampled_from(LINES))},
    optional=dict.fromkeys(("context", "problem", "solution", "code", "root_cause", "Key Insight"), texts)
    | {"date": st.dates(date(1, 1, 1)).map(date.isoformat)},
)
bodies = st.one_of(
    st.sampled_from([b"", REAL, REAL.replace(b"\n", b"\r\n"), b"# T", b"\xef\xbb\xbf# T\n", *LONG.values()]),
    st.tuples(texts, st.sampled_from(["\n", "\r\n"]), memories).map(
        lambda each: (each[0] + "\n## 2025-02-02: mine\n" + each[0]).replace("\n", each[1]).encode()
    ),
)


def spans(path: str, data: bytes) -> list[bytes]:
    return [each.span.of(data) for each in document(TOPICS, path, data).records]


class TestLaws:
    @PLANNED
    @given(bodies, memories)
    def test_what_was_added_is_read_and_nothing_else_is_touched(self, data: bytes, memory: dict[str, Any]) -> None:
        files = {PATH: data}
        try:
            stored = add(files, memory)
        except (InvalidMemoryError, UsageError):
            return
        after = done(TOPICS, files, stored)
        archive = b"".join(text for path, text in after.items() if path != PATH)
        before = outline(data).sections
        new = outline(after[PATH]).sections
        gone = [each for each in before if data[each.start : each.end].rstrip() not in after[PATH]]
        assert all(data[each.start : each.end].rstrip() in archive for each in gone)
        if not archive:
            assert len(new) == len(before) + 1
            (edit,) = stored.plan.actions[-1].edits
            assert after[PATH] == data[: edit.span.start] + edit.new + data[edit.span.start :]
            top = before[0].start if before else len(data)
            assert edit.span.start == top

    @PLANNED
    @given(bodies, memories, st.data())
    def test_an_update_stays_inside_its_entry(self, data: bytes, memory: dict[str, Any], draw: st.DataObject) -> None:
        files = {PATH: data}
        found = list(document(TOPICS, PATH, data).records)
        if not found:
            return
        number = draw.draw(st.integers(0, len(found) - 1))
        changes: dict[str, Any] = draw.draw(st.one_of(st.just(memory), texts.map(lambda text: {"text": text})))
        chosen = Located(PATH, LoadedFile(data, document(TOPICS, PATH, data), OLD), found[number])
        try:
            stored = TOPICS.require_writer().update(view_of(TOPICS, files), chosen, changes)
        except (InvalidMemoryError, UsageError):
            return
        after = done(TOPICS, files, stored)[PATH]
        span = found[number].span
        assert after.startswith(data[: span.start])
        assert after.endswith(data[span.end :])
        old, new = spans(PATH, data), spans(PATH, after)
        assert new[:number] + new[number + 1 :] == old[:number] + old[number + 1 :]
        assert document(TOPICS, PATH, after).records[number].id == stored.id

    @PLANNED
    @given(bodies, st.data())
    def test_there_and_back_no_record_changes_a_byte(self, data: bytes, draw: st.DataObject) -> None:
        files: Files = {PATH: data}
        found = [each for each in document(TOPICS, PATH, data).records if each.type == "entry"]
        if not found:
            return
        record = draw.draw(st.sampled_from(found))
        loaded = LoadedFile(data, document(TOPICS, PATH, data), OLD)
        try:
            stored = TOPICS.require_writer().forget(view_of(TOPICS, files), Located(PATH, loaded, record))
        except ConflictError:
            return
        between = done(TOPICS, files, stored, archived=True)
        assert len(spans(PATH, between[PATH])) <= len(spans(PATH, data))
        try:
            _, after = back(between, stored.id)
        except ConflictError:
            return
        # One of two equal texts is enough.
        assert {text.rstrip() for text in spans(PATH, after[PATH])} == {text.rstrip() for text in spans(PATH, data)}
        assert list(after) == [PATH]
