"""The contract of a layout: five laws, checked for each layout by one suite.

A subclass names the layout and gives samples: whole stores as `{path: bytes}`. Every law is then tried on the
samples and on thousands of mutilations of them. A store is a plain dictionary here; `carry_out` applies a plan
to it as a commit would, action by action, so that each moment of a crash can be looked at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import field
from msgspec.structs import replace

from memoryd.core.defaults import Limit, LimitKind, Policy
from memoryd.core.findings import SHARED_CODES
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import Document, Entry, FileStats, ParseOffset, Record, Role
from memoryd.core.spans import Edit, inverse, joined, sha256, splice
from memoryd.disk.temps import is_our_temp
from memoryd.layouts.directory import HEAD_SIZE, Directory
from memoryd.layouts.protocol import IndexResult, IndexView, Layout, LoadedFile, UpkeepView
from memoryd.operations.refresh import refresh
from memoryd.operations.upkeep import plan_row
from memoryd.store import Store
from tests.examples import DEEP, examples

Files = dict[str, bytes]

NOW = 1_769_853_600.0  # 2026-01-31T10:00:00Z
OLD = NOW - 3600.0  # a modification time at which nobody is writing any more

# What breaks readers: line ends, encodings, residue of power cuts, numbers without bounds, half an object.
SHARDS = (
    b"\n", b"\r\n", b"\r", b"\n\n", b" ", b"\t", b"\0", b"\0" * 64, b"\xff", b"\xef\xbb\xbf", b"\xe2\x80\xa8",
    b"\xed\xa0\x80", b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b"null", b"true", b"NaN", b"-Infinity", b"1e999",
    b"9" * 5000, b"9" * 400, b"[" * 3000, b'{"a":' * 400, b"\\ud800", b"\\udc00", b"\\u0000", b'"archived":true,',
    b'"archived":"x",', b'"id":"",',
    b'"id":"\\ud83d",', b'"created_at":"0001-01-01T00:00:00+14:00",', b'"created_at":"9999-12-31T23:59:59-14:00",',
    b'"access_count":' + b"9" * 400 + b",", b'"tags":["\\ud800"],', b'"type":[],', b'"type":{},', b'"importance":[],',
    b"## 2026-01-01: A", b"---", b"```", b"{}", b"{}{}",
)  # fmt: skip


def _settings(number: int) -> settings:
    return settings(
        max_examples=examples(number),
        deadline=None,
        derandomize=not DEEP,
        suppress_health_check=list(HealthCheck),
    )


PARSED, PLANNED = _settings(150), _settings(100)


@st.composite
def mutilated(draw: st.DrawFn, samples: Sequence[bytes]) -> bytes:
    """A sample after up to six accidents."""
    data = draw(st.sampled_from(samples))
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(data)))
        end = draw(st.integers(at, min(len(data), at + 400)))
        kind = draw(st.sampled_from(("cut", "shard", "shard", "again", "byte", "torn", "other")))
        if kind == "cut":
            data = data[:at] + data[end:]
        elif kind == "shard":
            data = data[:at] + draw(st.sampled_from(SHARDS)) + data[at:]
        elif kind == "again":
            data = data[:end] + data[at:end] + data[end:]
        elif kind == "byte":
            data = data[:at] + draw(st.binary(min_size=1, max_size=3)) + data[at + 1 :]
        elif kind == "torn":
            data = data[:at]
        else:
            data = data[:at] + draw(st.sampled_from(samples))
    return data


def document(layout: Layout, path: str, data: bytes, *, now: float = NOW, mtime: float = OLD) -> Document:
    return layout.reader.parse(path, data, now=now, mtime=mtime, base=ParseOffset())


def upkeep_view(layout: Layout, files: Files, policy: Policy, now: float = NOW) -> UpkeepView:
    live = {
        path: LoadedFile(files[path], document(layout, path, files[path], now=now))
        for path in layout.reader.source_paths(files)
        if path in files
    }
    return UpkeepView(live, files.get, policy, now)


class WholeIndex(IndexResult, frozen=True):
    """An index whose files are whole and do not change with the next update."""

    files: Mapping[str, bytes] = field(default_factory=dict)


def whole(index: IndexResult) -> WholeIndex:
    files = {path: joined(content) for path, content in index.files.items()}
    return WholeIndex(files, *(getattr(index, name) for name in IndexResult.__match_args__[1:]))


def index_of(layout: Layout, files: Files, now: float = NOW) -> WholeIndex:
    """The index as a rebuild from nothing but the files renders it."""
    documents = {path: document(layout, path, data, now=now) for path, data in files.items() if _read(layout, path)}
    entries = [
        Entry(path, each.line, each.id, each.type, each.archived, each.facts)
        for path in layout.reader.source_paths(files)
        if path in documents
        for each in documents[path].records
    ]
    summaries = {
        path: FileStats(path, layout.reader.role(path), len(files[path]), d.units, d.broken, len(d.records), d.facts)
        for path, d in documents.items()
    }
    previous = {path: files.get(path) for path in layout.index.paths}
    return whole(layout.index.render(IndexView(entries, summaries, previous, now)))


def _read(layout: Layout, path: str) -> bool:
    return layout.reader.role(path) in (Role.SOURCE, Role.ARCHIVE)


def perform(files: Files, action: Action) -> None:
    """One action, as a commit does it: only on the content it was decided on."""
    before = files.get(action.path)
    assert action.base == (sha256(before) if before is not None else None), action
    if action.kind is Kind.APPEND:
        files[action.path] = (before or b"") + action.data
    elif action.kind is Kind.REWRITE:
        assert before is not None
        files[action.path] = splice(before, action.edits)
    elif action.kind is Kind.CREATE:
        assert before is None
        files[action.path] = action.data
    elif action.kind is Kind.REMOVE:
        del files[action.path]
    else:
        raise AssertionError(f"no plan may hold {action.kind}")


def carry_out(files: Files, plan: Plan) -> Iterator[Files]:
    """The store after each action: what a crash at that moment would leave."""
    now = dict(files)
    for action in plan.actions:
        perform(now, action)
        yield dict(now)


def carried_out(files: Files, plan: Plan) -> Files:
    return [dict(files), *carry_out(files, plan)][-1]


def directory_of(files: Mapping[str, bytes]) -> Directory:
    """As a look at the disk shows it."""
    above = {path.rpartition("/")[0] for path in files}
    return Directory(files, above | {""}, lambda path: files[path][:HEAD_SIZE])


@contextmanager
def stores_on_disk(layout: Layout, base: Path, policy: Policy) -> Iterator[Callable[..., Store]]:
    """Make stores of real files, as old as the test's clock tells: `make(files, policy)`."""

    def make(files: Files, policy: Policy = policy) -> Store:
        for path, data in files.items():
            place = base / "root" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
            os.utime(place, (OLD, OLD))
        store = Store("root", str(base / "root"), layout.name, policy, str(base / "state"))
        store.attach()
        opened.callback(store.close)
        refresh(store, None, NOW)
        return store

    with ExitStack() as opened:
        yield make


def on_disk(store: Store) -> Files:
    """Without the replaced files that are kept a while for late writers."""
    found = store.tree.scan(lambda _: False).files
    return {path: store.tree.read(path)[0] for path in found if not is_our_temp(path)}


class LayoutContract:
    """Subclasses are named `Test…`."""

    layout: ClassVar[Layout]
    samples: ClassVar[Sequence[Mapping[str, bytes]]]

    # --- what a layout may say differently

    def same_memory(self, live: bytes, archived: bytes) -> bool:
        """Is this archive text the copy of that live text?"""
        raise NotImplementedError

    def archived_texts(self, path: str, archive: bytes) -> list[bytes]:
        """The texts of an archive that may be copies of memories."""
        del path
        return archive.split(b"\n")

    def alone(self, record: Record) -> str:
        """The id of a record when its text is read alone."""
        return record.id

    def comes_up(self, record: Record) -> bool:
        """May this record be there only since others left its file?"""
        del record
        return False

    def no_memory(self, text: bytes) -> bool:
        """Is this hopeless content one in which no memory can be found?"""
        del text
        return True

    def gap_bytes(self, data: bytes) -> bytes:
        """What of the text between records must survive each rewrite; white space may go with its record."""
        return re.sub(rb"\s", b"", data)

    # --- drawing

    def _contents(self) -> list[bytes]:
        return [data for files in self.samples for path, data in files.items() if _read(self.layout, path)]

    def _paths(self) -> list[str]:
        return sorted({path for files in self.samples for path in files if _read(self.layout, path)})

    def _draw_file(self, data: st.DataObject) -> tuple[str, bytes]:
        return data.draw(st.sampled_from(self._paths())), data.draw(mutilated(self._contents()))

    def _draw_store(self, data: st.DataObject) -> Files:
        files = dict(data.draw(st.sampled_from(self.samples)))
        for path in sorted(files):
            if _read(self.layout, path) and data.draw(st.booleans()):
                files[path] = data.draw(mutilated(self._contents()))
        return files

    def _draw_plan(self, data: st.DataObject) -> tuple[Callable[[Files], Plan], Files]:
        """A way to decide (by age, by name or by limit) and a store to decide on."""
        files = self._draw_store(data)
        newline = data.draw(st.sampled_from(("always", "keep", "never")))
        policy = Policy(final_newline=newline, archive_learnings_after_days=data.draw(st.sampled_from((0.5, 90))))
        way = data.draw(st.sampled_from(("age", "ids", "limit", "prune")))
        if way == "prune":
            return lambda now: self.layout.upkeep.prune(upkeep_view(self.layout, now, policy)), files
        if way == "limit":
            bound = data.draw(st.integers(0, 6))
            size = data.draw(st.sampled_from((None, 0, 700, 5000)))
            limits = {path: Limit(LimitKind.SOFT, size, bound) for path in self.layout.files.limits}
            return lambda now: self.layout.upkeep.enforce(upkeep_view(self.layout, now, policy), limits), files
        if way == "age":
            return lambda now: self.layout.upkeep.archive(upkeep_view(self.layout, now, policy), None), files
        known = [each.id for each in self._live(files)] or ["none"]
        ids = data.draw(st.sets(st.sampled_from(known)))
        return lambda now: self.layout.upkeep.archive(upkeep_view(self.layout, now, policy), ids), files

    def _live(self, files: Files) -> list[Record]:
        paths = [path for path in self.layout.reader.source_paths(files) if path in files]
        return [each for path in paths for each in document(self.layout, path, files[path]).records]

    # --- patience

    @PARSED
    @given(data=st.data())
    def test_patience_parse_never_raises(self, data: st.DataObject) -> None:
        path, text = self._draw_file(data)
        fresh = data.draw(st.booleans())
        found = document(self.layout, path, text, mtime=NOW - 0.5 if fresh else OLD)
        for finding in found.findings:
            assert finding.code in {*SHARED_CODES, *self.layout.findings}
            assert finding.path == path
            assert finding.line is None or finding.line >= 1
        assert 0 <= found.broken <= found.units
        assert len(found.records) <= found.units

    @PARSED
    @given(data=st.data())
    def test_patience_upkeep_and_index_never_raise(self, data: st.DataObject) -> None:
        decide, files = self._draw_plan(data)
        plan_row(decide(files))
        index_of(self.layout, files)

    def test_patience_hopeless_bytes(self) -> None:
        for text in (
            b"",
            b"\0" * 4096,
            b"\xff\xfe" * 100,
            b"[" * 100_000,
            b"{" * 100_000,
            b'{"a":' * 100_000,
            b"9" * 5000,
        ):
            for path in self._paths():
                found = document(self.layout, path, text)
                assert found.records == () or not self.no_memory(text)

    # --- tiling

    @PARSED
    @given(data=st.data())
    def test_tiling_spans_are_in_order_and_gaps_fill_the_rest(self, data: st.DataObject) -> None:
        path, text = self._draw_file(data)
        if path not in self.layout.reader.source_paths([path]):
            return  # read only: nothing in it is ever edited by span
        at, pieces = 0, []
        for record in document(self.layout, path, text).records:
            assert at <= record.span.start < record.span.end <= len(text)
            pieces += [text[at : record.span.start], record.span.of(text)]
            at = record.span.end
        assert b"".join([*pieces, text[at:]]) == text

    @PARSED
    @given(data=st.data())
    def test_tiling_a_span_alone_reads_as_its_record(self, data: st.DataObject) -> None:
        path, text = self._draw_file(data)
        if path not in self.layout.reader.source_paths([path]):
            return
        for record in document(self.layout, path, text).records:
            again = document(self.layout, path, record.span.of(text)).records
            assert [(each.id, each.type, _plain(each.facts)) for each in again] == [
                (self.alone(record), record.type, _plain(record.facts))
            ]

    @PARSED
    @given(data=st.data())
    def test_tiling_a_tail_reads_as_it_does_in_the_whole(self, data: st.DataObject) -> None:
        path, text = self._draw_file(data)
        ends = [match.end() for match in re.finditer(rb"\n", text)]
        if not self.layout.files.append_only or path not in self.layout.reader.source_paths([path]) or not ends:
            return
        cut = data.draw(st.sampled_from(ends))
        whole = document(self.layout, path, text)
        head = document(self.layout, path, text[:cut])
        base = ParseOffset(cut, text[:cut].count(b"\n") + 1)
        tail = self.layout.reader.parse(path, text[cut:], now=NOW, mtime=OLD, base=base)
        assert [_known(each) for each in (*head.records, *tail.records)] == [_known(each) for each in whole.records]
        assert (head.units + tail.units, head.broken + tail.broken) == (whole.units, whole.broken)
        once = {"crlf-newlines"}  # reported at the first line of each parse
        both = [each for each in (*head.findings, *tail.findings) if each.code not in once]
        assert both == [each for each in whole.findings if each.code not in once]
        assert {each.code for each in (*head.findings, *tail.findings)} == {each.code for each in whole.findings}

    # --- surgery

    @PLANNED
    @given(data=st.data())
    def test_surgery_only_what_is_moved_changes(self, data: st.DataObject) -> None:
        decide, files = self._draw_plan(data)
        plan = decide(files)
        after = carried_out(files, plan)
        for action in plan.actions:
            if action.kind is Kind.APPEND:
                assert after[action.path].startswith(files.get(action.path, b""))
                continue
            if action.copy or action.kind is Kind.CREATE:
                assert all(edit.span.start == edit.span.end for edit in action.edits)  # copies only put in
                continue
            before = document(self.layout, action.path, files[action.path])
            now = document(self.layout, action.path, after[action.path])
            now = replace(now, records=tuple(each for each in now.records if not self.comes_up(each)))
            moved = [each for each in before.records if any(_inside(each, edit) for edit in action.edits)]
            assert sorted(each.id for each in moved) == sorted(action.ids)
            stay = [each.span.of(files[action.path]) for each in before.records if each not in moved]
            assert [each.span.of(after[action.path]) for each in now.records] == stay
            assert self._gaps(now, after[action.path]) == self._gaps(before, files[action.path])
            assert splice(after[action.path], inverse(files[action.path], action.edits)) == files[action.path]
        changed = {action.path for action in plan.actions}
        assert {path for path in after if after[path] != files.get(path)} <= changed

    def _gaps(self, found: Document, text: bytes) -> bytes:
        at, pieces = 0, []
        for record in found.records:
            pieces.append(text[at : record.span.start])
            at = record.span.end
        return self.gap_bytes(b"".join([*pieces, text[at:]]))

    # --- fixpoint

    @PLANNED
    @given(data=st.data())
    def test_fixpoint_twice_is_once_also_after_a_crash(self, data: st.DataObject) -> None:
        decide, files = self._draw_plan(data)
        plan = decide(files)
        done = carried_out(files, plan)
        assert not decide(done)
        for left in carry_out(files, plan):
            assert carried_out(left, decide(left)) == done

    @PLANNED
    @given(data=st.data())
    def test_fixpoint_an_index_just_written_is_not_written_again(self, data: st.DataObject) -> None:
        files = self._draw_store(data)
        first = index_of(self.layout, files)
        files |= first.files
        assert dict(index_of(self.layout, files, NOW + 1000).files) == {}

    # --- conservation

    @PLANNED
    @given(data=st.data())
    def test_conservation_no_memory_vanishes_at_any_moment(self, data: st.DataObject) -> None:
        decide, files = self._draw_plan(data)
        plan = decide(files)
        before = [text for path in self.layout.reader.source_paths(files) if path in files
                  for text in _texts(document(self.layout, path, files[path]), files[path])]  # fmt: skip
        for left in carry_out(files, plan):
            live = {text for path in self.layout.reader.source_paths(left) if path in left
                    for text in _texts(document(self.layout, path, left[path]), left[path])}  # fmt: skip
            gone = {text for text in before if text not in live}
            archives = [path for path in left if self.layout.reader.role(path) is Role.ARCHIVE]
            kept = [text for path in archives for text in self.archived_texts(path, left[path])]
            for text in gone:
                assert any(self.same_memory(text, line) for line in kept)

    # --- the samples themselves

    def test_samples_are_recognised_and_hold_memories(self) -> None:
        for files in self.samples:
            assert self.layout.reader.recognise(directory_of(files))
        assert any(self._live(dict(files)) for files in self.samples)
        assert any(self._archive_plan(dict(files)) for files in self.samples), "no sample has anything due"

    def _archive_plan(self, files: Files) -> Plan:
        return self.layout.upkeep.archive(upkeep_view(self.layout, files, Policy()), None)


def _texts(found: Document, text: bytes) -> list[bytes]:
    return [record.span.of(text) for record in found.records]


def _inside(record: Record, edit: Edit) -> bool:
    return edit.span.start <= record.span.start and record.span.end <= edit.span.end


def _known(record: Record) -> tuple[Any, ...]:
    return record.span, record.line, record.id, record.type, record.archived, _plain(record.facts)


def _plain(facts: Mapping[str, Any]) -> str:
    return repr(sorted(facts.items()))  # NaN equals itself here
