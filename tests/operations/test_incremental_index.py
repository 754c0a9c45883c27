"""An index file after any series of changes is byte for byte what a store without a catalogue renders."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memoryd.core.defaults import Policy
from memoryd.core.findings import Finding
from memoryd.index.sqlite.reader import EntryCache, SummaryCache
from memoryd.layouts.protocol import IndexResult, IndexView
from memoryd.operations.index_files import INDEX_STATE, update_index
from memoryd.operations.refresh import refresh
from memoryd.store import Store
from tests.examples import examples
from tests.layouts import json_samples, session_samples
from tests.layouts.contract import NOW
from tests.layouts.samples import line, memory

Change = tuple[str, int, int]
CHANGES: st.SearchStrategy[list[Change]] = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "edit", "delete", "touch", "empty", "foreign", "restart"]),
        st.integers(0, 5),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=8,
)
LAYOUTS = ("jsonl-store", "json-files", "markdown-topics")
COUNTED = (*LAYOUTS, "session-files")


class Files:
    """What agents do to the files of one layout; `which` and `what` choose the file and the text."""

    def __init__(self, layout: str, root: Path) -> None:
        self.layout = layout
        self.root = root

    def path(self, which: int) -> str:
        """The path of a file, relative to the root."""
        if self.layout == "jsonl-store":
            return ("core_memories.jsonl", "learnings.jsonl", "tasks.jsonl")[which % 3]
        if self.layout == "json-files":
            return ("memory_20250531015910.json", *(f"memory_20250531015910_{n}.json" for n in (1, 2, 9, 10, 11)))[
                which
            ]
        if self.layout == "session-files":
            return session_samples.path_of(f"2026-01-3{which % 2}-14-30-0{which}-fix")
        return ("base.md", "tools/a.md", "tools/b.md", "tools/deep/c.md", "other/a.md", "other/d.md")[which]

    def text(self, which: int, what: int) -> bytes:
        """The text of a memory; equal ids in different files occur."""
        if self.layout == "jsonl-store":
            kind = ("core", "learning", "task")[which % 3]
            more = {"status": "pending"} if kind == "task" else {}
            return line(memory(which * 3 + what, kind, tags=["a", "b" * what], archived=what == 3, **more))
        if self.layout == "json-files":
            return json_samples.file(which % 4, tags=["a", "b" * what], content=f"text {what}")
        if self.layout == "session-files":
            kinds = ("decision", "insight")[: what + 1]
            memories = [session_samples.memory(f"title {number}", type=kind) for number, kind in enumerate(kinds)]
            return session_samples.text(session_samples.session(*memories, name=f"2026-01-30-14-30-0{which % 4}-fix"))
        return f"## 2026-01-0{what + 1}: topic {which} {what}\n\n**Context:** x\n**Solution:** y\n\n".encode()

    def apply(self, change: Change) -> str | None:
        """Return the path that changed."""
        name, which, what = change
        path = self.path(which)
        file = self.root / path
        if name == "add" and not self.layout.endswith("files") and file.exists():
            self.put(path, file.read_bytes() + self.text(which, what))
        elif name in ("add", "edit"):
            self.put(path, self.text(which, what))
        elif name == "touch" and file.exists():
            self.put(path, file.read_bytes())
        elif name == "empty":
            self.put(path, b"")
        elif name == "delete":
            file.unlink(missing_ok=True)
        elif name == "foreign":
            self.spoil(what)
            return None
        return path

    def put(self, path: str, content: bytes) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    def spoil(self, what: int) -> None:
        """Another program changes the index, but for its keys."""
        for path in self.root.glob("*index.*"):
            content = path.read_bytes()
            if path.suffix == ".json" and content:
                value = json.loads(content)
                value |= {"mine": what, next(iter(value)): {}}
                path.write_text(json.dumps(value))
            else:
                path.write_bytes(content.replace(b"- `a.md`", b"- `gone.md`"))


@contextmanager
def opened(layout: str, root: Path, state: Path) -> Iterator[Store]:
    with closing(Store("m", str(root), layout, Policy(), str(state))) as store:
        store.attach()
        yield store


class State(NamedTuple):
    """The index files, and what is told about the store."""

    files: dict[str, bytes]
    counts: tuple[int, int, Mapping[str, int], frozenset[Finding]]


def sync(store: Store, paths: list[str] | None, now: float) -> State:
    done = refresh(store, paths, now)
    store.index.dirty |= bool(done.changed or done.deleted)
    result = update_index(store, now, force=True).result
    return State(index_files(store), (result.memories, result.archived, result.by_type, frozenset(result.findings)))


def index_files(store: Store) -> dict[str, bytes]:
    assert store.layout is not None
    root = Path(store.path)
    return {path: (root / path).read_bytes() for path in store.layout.index.paths if (root / path).exists()}


def from_scratch(store: Store, base: Path, now: float) -> State:
    """What a store makes of a copy of the directory that has only this store's journal in common."""
    assert store.layout is not None
    shutil.rmtree(base, ignore_errors=True)
    shutil.copytree(store.path, base / "root")
    with opened(store.layout.name, base / "root", base / "state") as fresh:
        fresh.journal.facts.set(INDEX_STATE, store.journal.facts.get(INDEX_STATE, {}))
        return sync(fresh, None, now)


def check(layout: str, base: Path, changes: list[Change]) -> int:
    """Return how many of the changes wrote an index file."""
    root, state, written = base / "root", base / "state", 0
    root.mkdir(mode=0o700)
    files, now = Files(layout, root), NOW
    segments: list[list[Change]] = [[]]
    for change in changes:
        segments.append([]) if change[0] == "restart" else segments[-1].append(change)
    for segment in segments:
        with opened(layout, root, state) as store:
            sync(store, None, now)
            for change in segment:
                now += 10
                path = files.apply(change)
                before = index_files(store)
                expected = from_scratch(store, base / "scratch", now)
                assert sync(store, [path] if path else [], now) == expected, change
                written += before != expected.files
    return written


@pytest.mark.parametrize("layout", COUNTED)
@given(changes=CHANGES)
@settings(max_examples=examples(40), deadline=None)
def test_an_index_by_the_change_equals_one_from_scratch(layout: str, changes: list[Change]) -> None:
    with TemporaryDirectory() as directory:
        check(layout, Path(directory), changes)


HISTORY: list[Change] = [
    *(("add", which, what) for which in range(6) for what in (0, 1)),
    ("foreign", 0, 1),
    ("edit", 2, 3),
    ("delete", 1, 0),
    ("restart", 0, 0),
    ("add", 1, 2),
    ("foreign", 0, 2),
    ("delete", 2, 0),
    ("empty", 4, 0),
    ("touch", 3, 0),
    ("add", 4, 1),
]


@pytest.mark.parametrize("layout", COUNTED)
def test_a_long_history_with_foreign_writes_and_restarts(layout: str, tmp_path: Path) -> None:
    written = check(layout, tmp_path, HISTORY)
    assert written > 8 or (written == 0 and layout == "session-files")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_canary_a_change_that_the_cache_does_not_see(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EntryCache, "note_change", lambda *_: None)
    monkeypatch.setattr(SummaryCache, "note_change", lambda *_: None)
    with pytest.raises(AssertionError):
        check(layout, tmp_path, HISTORY)


@contextmanager
def counted(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[IndexView]]:
    """Yield the list of the whole renders, which grows."""
    assert store.layout is not None
    renders, render = list[IndexView](), store.layout.index.render

    def note(view: IndexView) -> IndexResult:
        renders.append(view)
        return render(view)

    with monkeypatch.context() as patch:
        patch.setattr(store, "layout", replace(store.layout, index=replace(store.layout.index, render=note)))
        yield renders


def test_new_memories_and_changes_that_the_index_does_not_list_are_rendered_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    root.mkdir(mode=0o700)
    files, now = Files("json-files", root), NOW
    steps: list[tuple[str, int, dict[str, object], bool]] = [
        ("add", 1, {}, True),
        ("add", 2, {"tags": ["new"], "created": "2025-06-10T00:00:00.000Z"}, False),
        ("add", 4, {"type": "pattern", "entities": [], "created": "2025-01-01T00:00:00.000Z"}, False),
        ("edit", 2, {"tags": ["new"], "created": "2025-06-10T00:00:00.000Z", "relevanceScore": 0.5}, False),
        ("edit", 4, {"type": "pattern", "entities": [], "created": "2025-01-01T00:00:00.000Z", "version": 2}, False),
        ("edit", 1, {"archived": True}, False),
        ("add", 3, {}, True),  # a name between the others
        ("edit", 1, {"tags": ["other"]}, True),
        ("add", 5, {"tags": ["new"]}, False),
        ("delete", 3, {}, True),
        ("add", 6, {"id": json_samples.identity(5)}, True),  # the id of another memory
        ("delete", 6, {}, True),
        ("add", 6, {}, False),
        ("foreign", 0, {}, True),
        ("add", 7, {}, True),  # the other program's members stay
    ]
    with opened("json-files", root, tmp_path / "state") as store, counted(store, monkeypatch) as renders:
        for name, number, fields, whole in steps:
            now, path = now + 10, json_samples.name(number)
            renders.clear()
            if name == "foreign":
                files.spoil(number)
            elif name == "delete":
                (root / path).unlink()
            else:
                files.put(path, json_samples.file(number, **fields))
            expected = from_scratch(store, tmp_path / "scratch", now)
            assert sync(store, [path], now) == expected, (name, number)
            assert len(renders) == whole, (name, number)


@pytest.mark.parametrize("layout", ["markdown-topics", "session-files"])
def test_a_change_of_a_listed_file_is_counted_alone(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, now = tmp_path / "root", NOW
    root.mkdir(mode=0o700)
    files = Files(layout, root)
    with opened(layout, root, tmp_path / "state") as store, counted(store, monkeypatch) as renders:
        for which in range(3):
            files.put(files.path(which), b"# Title\n\n" * (layout == "markdown-topics") + files.text(which, 0))
        sync(store, None, now)
        for which in (0, 2, 0, 1):
            now += 10
            renders.clear()
            path = files.apply(("add", which, 1))
            expected = from_scratch(store, tmp_path / "scratch", now)
            assert (sync(store, [path or ""], now), renders) == (expected, []), which


def test_an_index_of_json_files_has_the_form_of_json_stringify(tmp_path: Path) -> None:
    root, now = tmp_path / "root", NOW
    root.mkdir(mode=0o700)
    odd = {"tags": [",", 'quo"te', "ü \u2028"], "entities": ["a,b"], "projectId": "\\", "type": "own"}
    memories: list[dict[str, Any]] = [{}, odd, {**odd, "id": ",x"}, {"id": 'y","z', "type": "pattern"}]
    with opened("json-files", root, tmp_path / "state") as store:
        for number, fields in enumerate(memories):
            (root / json_samples.name(number)).write_bytes(json_samples.file(number, **fields))
            now += 10
            for content in sync(store, None, now).files.values():
                assert content.decode() == json.dumps(json.loads(content), indent=2, ensure_ascii=False), number


def test_lines_appended_to_any_file_are_rendered_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "root"
    root.mkdir(mode=0o700)
    files, now = Files("jsonl-store", root), NOW
    appended: list[dict[str, Any]] = [
        {"tags": ["late"]},
        {"tags": ["a", "late", "a"], "category": "new"},
        {"tags": ['quo"te', "ü,", ","], "category": None, "importance": "low"},
        {"archived": True},
    ]
    with opened("jsonl-store", root, tmp_path / "state") as store, counted(store, monkeypatch) as renders:
        for which in (2, 0, 1):
            files.put(files.path(which), files.text(which, 1) + b"\n")
        sync(store, None, now)
        sync(store, [files.path(0)], now)
        for turn, fields in enumerate(appended):
            for which, kind in ((1, "learning"), (2, "task"), (0, "core"), (1, "learning")):
                now, path = now + 10, files.path(which)
                more = {"status": "pending"} if kind == "task" else {}
                new = line(memory(100 + round(now - NOW), kind, **fields, **more)) + b"\n"
                files.put(path, (root / path).read_bytes() + new)
                renders.clear()
                expected = from_scratch(store, tmp_path / "scratch", now)
                assert sync(store, [path], now) == expected, (turn, path)
                assert not renders, (turn, path)
        path, changed = files.path(1), files.text(1, 2) + b"\n"
        for text in (changed, changed + changed):  # an edited memory, and one with the id of another
            now += 10
            renders.clear()
            files.put(path, text)
            expected = from_scratch(store, tmp_path / "scratch", now)
            assert (sync(store, [path], now), len(renders)) == (expected, 1)


def test_a_change_of_topic_files_that_leaves_the_list_as_it_is_is_only_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, state = tmp_path / "root", tmp_path / "state"
    root.mkdir(mode=0o700)
    files, now = Files("markdown-topics", root), NOW
    titled = b"# Title\n\n"
    steps: list[tuple[str, bytes | None, bool]] = [
        ("other/d.md", titled, True),  # after the start: what was restored cannot be counted by the change
        ("base.md", titled + files.text(1, 0) + files.text(1, 1), False),
        ("base.md", titled + b"No entry.\n", False),
        ("tools/a.md", titled + files.text(2, 0), False),
        ("tools/a.md", b"# Another title\n\n" + files.text(2, 0), True),
        ("tools/b.md", titled, True),
        ("tools/b.md", titled + files.text(3, 0), False),
        ("tools/b.md", None, True),
    ]
    for path in ("base.md", "tools/a.md", "other/d.md"):
        files.put(path, titled + files.text(0, 0))
    with opened("markdown-topics", root, state) as store:
        sync(store, None, now)
    with opened("markdown-topics", root, state) as store, counted(store, monkeypatch) as renders:
        for path, content, whole in steps:
            now += 10
            renders.clear()
            if content is None:
                (root / path).unlink()
            else:
                files.put(path, content)
            expected = from_scratch(store, tmp_path / "scratch", now)
            assert (sync(store, [path], now), len(renders)) == (expected, whole), (path, content)
            found = store.index.result
            records = [*store.catalogue.entries([*store.files()])]
            assert found.memories == len(records)
            assert found.by_type == {kind: [each.type for each in records].count(kind) for kind in found.by_type}


def test_a_change_whose_write_failed_is_written_by_the_next_update(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir(mode=0o700)
    files = Files("json-files", root)

    def fail() -> None:
        raise OSError("full")

    with opened("json-files", root, tmp_path / "state") as store:
        files.put(json_samples.name(1), json_samples.file(1))
        sync(store, None, NOW)
        files.put(json_samples.name(2), json_samples.file(2))
        refresh(store, None, NOW)
        with pytest.raises(OSError, match="full"):
            update_index(store, NOW, force=True, before_write=fail)
        assert update_index(store, NOW, force=True).written == ("_index.json", "_stats.json")


def test_only_an_index_that_memoryd_did_not_write_is_decoded_to_tell_whose_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, checked = tmp_path / "root", 0
    root.mkdir(mode=0o700)
    files = Files("jsonl-store", root)

    def is_managed(_path: str, _content: bytes) -> bool:
        nonlocal checked
        checked += 1
        return True

    def checks(store: Store, change: Change, now: float) -> int:
        nonlocal checked
        checked = 0
        files.apply(change)
        sync(store, None, now)
        return checked

    for session in range(2):
        with opened("jsonl-store", root, tmp_path / "state") as store:
            assert store.layout is not None
            renderer = replace(store.layout.index, is_managed=is_managed)
            monkeypatch.setattr(store, "layout", replace(store.layout, index=renderer))
            now = NOW + session * 100
            assert checks(store, ("add", 0, session), now) == 0, "also after an orderly end"
            assert checks(store, ("add", 1, session), now + 1) == 0
            assert checks(store, ("foreign", 0, session), now + 2) == 1
            assert checks(store, ("add", 2, session), now + 3) == 0
