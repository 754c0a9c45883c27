"""The layout notes: read and searched only, wanted by name only, in one file and one line of the registry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from inspect import getsource
from pathlib import Path
from typing import Any, ClassVar

import pytest

from memoryd.core.dates import parse_stamp
from memoryd.core.defaults import Policy
from memoryd.core.query import Filters
from memoryd.core.records import Role
from memoryd.errors import UsageError
from memoryd.layouts import notes
from memoryd.layouts.notes import NOTES
from memoryd.layouts.protocol import AccessCount, Layout, NewMemory
from memoryd.layouts.registry import LAYOUTS, recognise
from memoryd.operations import memories
from memoryd.operations.access_counts import count_reads
from memoryd.operations.check import all_findings
from memoryd.operations.index_files import update_index
from memoryd.operations.memories import Context
from memoryd.operations.refresh import refresh
from memoryd.operations.search import SearchQuery, search
from memoryd.operations.search_scope import SearchRoot
from memoryd.store import Store
from tests.layouts.contract import NOW, OLD, Files, LayoutContract, directory_of, document

NOTE = (
    b"---\ntitle: On locks\ntags: [locking, 'flock']\ncreated: 2026-01-02\nupdated: 2026-01-03T04:05:06Z\n---\nBody\n"
)
PLAIN = b"Some words\n\n# A heading #\nmore\n"
SAMPLE: Files = {"a/locks.md": NOTE, "plain.md": PLAIN, "other.txt": b"x"}


class TestNotesContract(LayoutContract):
    layout: ClassVar[Layout] = NOTES
    samples: ClassVar[Sequence[Mapping[str, bytes]]] = (SAMPLE,)

    def no_memory(self, text: bytes) -> bool:
        return not text.strip(b"\0") or b"\xff" in text  # any other text is a note

    def test_samples_are_recognised_and_hold_memories(self) -> None:
        """They are never recognised, and nothing leaves them."""
        assert len(self._live(SAMPLE)) == 2
        assert not self._archive_plan(SAMPLE)


def test_front_matter_tells_title_tags_and_times() -> None:
    [record] = document(NOTES, "a/locks.md", NOTE).records
    assert (record.id, record.type, record.title, record.tags) == ("a/locks", "note", "On locks", ("locking", "flock"))
    stamps = parse_stamp("2026-01-02"), parse_stamp("2026-01-03T04:05:06Z")
    assert (record.created, record.used) == tuple(stamp.seconds for stamp in stamps if stamp)
    assert record.text == "Body\n"
    assert record.span.of(NOTE) == NOTE


def test_without_it_the_heading_is_the_title_else_the_name() -> None:
    [heading], [name] = (document(NOTES, path, data).records for path, data in (("p.md", PLAIN), ("b/q.md", b"text")))
    assert (heading.title, heading.created, heading.used, heading.tags) == ("A heading", None, None, ())
    assert name.title == "b/q"


def test_what_is_not_text_is_waited_for_and_reported() -> None:
    assert [each.code for each in document(NOTES, "x.md", b"\xff").findings] == ["corrupt-file"]
    assert document(NOTES, "x.md", b"\xff", mtime=NOW).pending
    assert document(NOTES, "x.md", b" \n").records == ()


def test_secrets_stay_out_of_what_is_listed() -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    [record] = document(NOTES, "x.md", f"---\ntitle: {token}\ntags: [{token}]\n---\n".encode()).records
    assert token not in record.title + record.tags[0]


@pytest.mark.parametrize("path", ["x.txt", ".git/x.md", "a/.x.md", "x.md~", ".x.md.tmp"])
def test_everything_else_is_left_alone(path: str) -> None:
    assert NOTES.reader.role(path) is Role.FOREIGN


def test_it_is_never_picked_by_itself() -> None:
    assert recognise(directory_of({"a.md": NOTE, "b.md": PLAIN})) == {}
    assert LAYOUTS["notes"] is NOTES


def test_a_layout_that_is_read_fits_one_file() -> None:
    assert getsource(notes).count("\n") <= 60


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    root = tmp_path / "notes"
    for path, data in SAMPLE.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    store = Store("n", str(root), "notes", Policy(), str(tmp_path / "state"))
    store.attach()
    refresh(store, None, NOW)
    yield store
    store.close()


def content(store: Store) -> dict[str, bytes]:
    root = Path(store.path)
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_it_is_indexed_checked_and_found(store: Store) -> None:
    update_index(store, NOW)
    assert (store.index.result.memories, store.index.result.by_type) == (2, {"note": 2})
    assert all_findings(store) == []
    place = SearchRoot("n", store.catalogue, "notes", "ok", 1, 0)
    hits = search([place], SearchQuery("locking body", Filters(), "text"), now=NOW, clock=lambda: 0.0).hits
    assert [(hit.id, hit.layout) for hit in hits] == [("a/locks", "notes")]
    assert content(store) == SAMPLE


def test_there_is_nothing_to_schedule_but_what_every_root_has() -> None:
    assert NOTES.jobs == ("backup", "verify", "rescan")


def writes(store: Store) -> list[Any]:
    means = Context()
    return [
        lambda: memories.add(store, NewMemory({"text": "x"}), NOW, means),
        lambda: memories.update(store, "plain", {"title": "x"}, NOW, means),
        lambda: memories.forget(store, "plain", NOW, means),
    ]


@pytest.mark.parametrize("way", range(3), ids=["add", "update", "forget"])
def test_writing_is_refused(way: int, store: Store) -> None:
    with pytest.raises(UsageError, match="layout notes is read-only"):
        writes(store)[way]()
    assert content(store) == SAMPLE


def test_reads_are_counted_outside(store: Store) -> None:
    assert count_reads(store, "plain.md", {"plain": AccessCount(2, OLD)}, NOW) == ()
    assert content(store) == SAMPLE
    assert store.access_counts == {"plain.md": {"plain": 2}}
