"""A changed user document: only the changed part is parsed, and the result is that of parsing it whole."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple, replace

from memoryd.core.defaults import Policy
from memoryd.core.records import Document, DocumentChange, ParseOffset, Record
from memoryd.core.spans import Span
from memoryd.layouts.user_document import UserDocumentReader, changes
from memoryd.operations.file_versions import save_versions
from memoryd.operations.refresh import refresh
from memoryd.store import Store
from memoryd.store.indexed_files import FilePieces
from tests.examples import examples
from tests.index.records import EVERYTHING
from tests.layouts.contract import NOW

PATH = "alice/__long-memories/data.json"
READER = UserDocumentReader()
ODD: list[dict[str, Any]] = [{"vector": (1.0,)}, {"vector": (0, 0)}, {"importance": 7}, {"content": " "}]
NOISE = [b"", b" ", b",", b"[", b"]", b"}", b'"', b"0", b"\xff", b"\n", b"NaN", b"memories"]
FORMS: list[dict[str, Any]] = [{"separators": (",", ":")}, {}, {"indent": 2}]


@pytest.fixture(autouse=True, scope="module")
def any_size() -> Iterator[None]:
    """Small documents are taken apart as well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes, "MIN_SIZE", 0)
        patch.setattr("memoryd.operations.whole_files.SLOW_TO_PARSE", 0)
        yield


def item(number: int, content: str = "", vector: Any = (1.0, 0.5), **fields: Any) -> dict[str, Any]:
    data = {"id": 1_767_225_600 + number, "content": content or f"likes tea {number}", "importance": 0.5, **fields}
    return {"data": {**data, "category": f"c{number % 3}", "topics": []}, "embedding": list(vector)}


def text(items: list[dict[str, Any]], stamp: str = "2026-01-30T12:00:00Z", **form: Any) -> bytes:
    return json.dumps({"memories": items, "updated_at": stamp}, **form).encode()


def parsed(data: bytes) -> Document:
    return READER.parse(PATH, data, now=NOW, mtime=NOW - 60, base=ParseOffset())


def change_of(before: bytes, after: bytes) -> DocumentChange | None:
    pieces = READER.pieces(before, parsed(before))
    return None if pieces is None else READER.parse_change(PATH, after, pieces)


def applied(before: bytes, change: DocumentChange) -> list[Record]:
    """The records of the old document with the change applied, as an index applies it."""
    span, moved = (
        change.replaced.span,
        change.replaced.new_bytes - (change.replaced.span.end - change.replaced.span.start),
    )
    lower = change.replaced.new_lines - change.replaced.lines
    kept = [each for each in parsed(before).records if not span.start <= each.span.start < span.end]
    above = [each for each in kept if each.span.start < span.start]
    below = [
        replace(each, span=Span(each.span.start + moved, each.span.end + moved), line=each.line + lower)
        for each in kept
        if each.span.start >= span.end
    ]
    return [*above, *change.document.records, *below]


def assert_equals_a_whole_parse(before: bytes, after: bytes, change: DocumentChange) -> None:
    whole = parsed(after)
    assert not whole.pending
    assert applied(before, change) == list(whole.records)
    document = change.document
    assert (document.units, document.broken, document.facts) == (whole.units, whole.broken, whole.facts)
    assert document.findings == whole.findings
    assert change.pieces == READER.pieces(after, whole)


@st.composite
def edits(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A document and what its agent makes of it: memories added, removed, changed and moved, in any form."""
    items = [item(number) for number in range(draw(st.integers(0, 6)))]
    after = list(items)
    for number in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(after)))
        match draw(st.sampled_from(["add", "remove", "change", "twin", "odd"])):
            case "remove" if at < len(after):
                del after[at]
            case "change" if at < len(after):
                after[at] = item(90 + number, draw(st.sampled_from(["x", 'a "b" ]},{', "\u00fc\u4e1c", "y" * 50])))
            case "twin" if items:
                after.insert(at, draw(st.sampled_from(items)))
            case "odd":
                odd: dict[str, Any] = draw(st.sampled_from(ODD))
                after.insert(at, item(80 + number, **odd))
            case _:
                after.insert(at, item(70 + number))
    form, other = draw(st.sampled_from(FORMS)), draw(st.sampled_from([None, None, *FORMS]))
    stamp = draw(st.sampled_from(["2026-01-30T12:00:00Z", "2026-01-30T12:00:01Z", "never", "2026-02-01T00:00:00.5Z"]))
    return text(items, **form), text(after, stamp, **(other or form))


@given(edits())
@settings(max_examples=examples(300))
def test_it_equals_a_whole_parse(edit: tuple[bytes, bytes]) -> None:
    before, after = edit
    change = change_of(before, after)
    if change is not None:
        assert_equals_a_whole_parse(before, after, change)


@given(st.data())
@settings(max_examples=examples(300))
def test_any_bytes_are_parsed_as_a_whole_parse_does(data: st.DataObject) -> None:
    before = text([item(number) for number in range(4)], **data.draw(st.sampled_from(FORMS)))
    start = data.draw(st.integers(0, len(before)))
    end = data.draw(st.integers(start, min(len(before), start + data.draw(st.sampled_from([0, 1, 5, 80])))))
    new = data.draw(st.sampled_from(NOISE))
    after = before[:start] + new + before[end:]
    change = change_of(before, after)
    if change is not None:
        assert_equals_a_whole_parse(before, after, change)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "after",
    [
        [item(0), item(1), item(2), item(3)],
        [item(0), item(9), item(2)],
        [item(0), item(2)],
        [item(0), item(1)],
        [item(9), item(1), item(2)],
        [item(0), item(1), item(2)],
    ],
)
def test_what_agents_do_is_parsed_by_the_change(form: dict[str, Any], after: list[dict[str, Any]]) -> None:
    before = text([item(0), item(1), item(2)], **form)
    new = text(after, "2026-01-30T12:00:09Z", **form)
    change = change_of(before, new)
    assert change is not None
    assert len(change.document.records) <= 1
    assert_equals_a_whole_parse(before, new, change)


@pytest.mark.parametrize(
    "after",
    [
        text([item(0), item(1), item(1)]),  # equal memories have numbered ids
        text([item(0), item(1), item(5, vector=(1.0,))]),
        text([item(0), item(1), {"embedding": [1.0, 0.5]}]),
        text([item(0), item(1), item(2)]) + b"}",
        text([item(0), item(1), item(2)])[:-2],
        text([item(0), item(1), item(2)]).replace(b'"memories"', b'"memorys"'),
        text([item(0), item(1), item(2)], "never"),
        text([]),
        b"",
    ],
)
def test_what_is_unusual_is_parsed_whole(after: bytes) -> None:
    assert change_of(text([item(0), item(1), item(2)]), after) is None


class Site:
    def __init__(self, base: Path) -> None:
        self.file = base / "root" / PATH
        self.file.parent.mkdir(parents=True)
        self.now = NOW
        self.store = Store("m", str(base / "root"), "user-document", Policy(), str(base / "state"))
        self.store.attach()

    def write(self, content: bytes) -> None:
        """As another program does, a minute ago; read by its event."""
        self.now += 100
        new = self.file.with_name("new")
        new.write_bytes(content)
        os.utime(new, (self.now - 60, self.now - 60))
        new.rename(self.file)
        assert refresh(self.store, [PATH], self.now, tails=True).changed

    def seen(self) -> object:
        index = self.store.catalogue
        memories = [replace(each, key=0) for each in index.newest(EVERYTHING, 99)]
        places = [place[:4] for each in memories for place in index.places(each.id)]
        return index.file(PATH), sorted(memories, key=astuple), sorted(places), index.findings()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.store.close()


def test_the_index_equals_a_rebuild(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memoryd.layouts.user_document.schema.RECOMMENDED_SIZE", 4)
    states = [[0, 1, 2], [0, 1, 2, 3], [0, 9, 2, 3], [0, 9, 2, 3, 4, 5], [7, 0, 9, 2, 3, 5, 6]]
    counted = Counted(changes.parse_change)
    monkeypatch.setattr(changes, "parse_change", counted)
    for numbers in states:
        site.write(text([item(number) for number in numbers], indent=1))
        by_change = site.seen()
        site.store.catalogue.forget(PATH)
        site.store.file_pieces.note(PATH, "", None)
        refresh(site.store, [PATH], site.now)
        assert by_change == site.seen()
    assert counted.results == len(states) - 1


def test_the_first_change_after_a_first_index_is_taken_by_itself(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(changes.parse_change)
    monkeypatch.setattr(changes, "parse_change", counted)
    site.file.write_bytes(text([item(number) for number in range(3)]))
    refresh(site.store, None, site.now)
    site.write(text([item(number) for number in range(4)]))
    assert counted.results == 1


def test_the_pieces_of_a_document_that_parses_fast_are_kept_after_a_change(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memoryd.operations.whole_files.SLOW_TO_PARSE", 1024 * 1024)
    path = site.file.relative_to(site.file.parents[2]).as_posix()
    for numbers, kept in ((3, False), (4, True)):
        site.file.write_bytes(text([item(number) for number in range(numbers)]))
        refresh(site.store, None, site.now)
        row = site.store.catalogue.file(path)
        assert row is not None
        assert (site.store.file_pieces.of(row) is not None) is kept


def test_the_pieces_that_are_kept_are_bounded_by_their_number(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [f"user-{number}/__long-memories/data.json" for number in range(12)]
    for path in paths:
        (site.file.parents[2] / path).parent.mkdir(parents=True)
        (site.file.parents[2] / path).write_bytes(text([item(number) for number in range(3)]))

    def kept() -> list[str]:
        known = [(path, site.store.catalogue.file(path)) for path in paths]
        return [path for path, row in known if row is not None and site.store.file_pieces.of(row) is not None]

    refresh(site.store, None, site.now)
    assert kept() == paths
    for bound, number in ((9, 3), (2, 1)):
        monkeypatch.setattr(FilePieces, "MAX_PIECES", bound)
        site.store.catalogue.clear()
        refresh(site.store, None, site.now)
        assert len(kept()) == number


class Counted:
    """Counts the calls that had a result."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self.results = 0

    def __call__(self, *args: Any) -> Any:
        result = self._call(*args)
        self.results += result is not None
        return result


def test_versions_are_saved_and_losses_found_as_before(site: Site) -> None:
    site.write(text([item(number) for number in range(20)]))
    site.write(text([item(number) for number in range(30)]))
    versions = site.store.vault.versions(PATH)
    assert [each.quality.records for each in versions] == [20], "the newest waits until the root has settled"
    site.write(text([item(0)]))
    assert [code for _, code in site.store.catalogue.finding_counts(PATH)] == ["shrunk"]
    [finding] = [each for each in site.store.catalogue.findings() if each.code == "shrunk"]
    assert finding.message.startswith("30 memories became 1")
    assert [each.quality.records for each in site.store.vault.versions(PATH)] == [1, 30, 20]


def test_a_version_is_saved_once_the_root_has_settled(site: Site) -> None:
    site.write(text([item(number) for number in range(3)]))
    site.write(text([item(number) for number in range(4)]))
    save_versions(site.store, site.now)
    assert [each.quality.records for each in site.store.vault.versions(PATH)] == [4, 3]
