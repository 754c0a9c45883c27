"""The writer's entries and summaries in memory equal what the database says, and cost what changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.core.index import FileRow
from memoryd.core.records import Document, Entry, FileStats, Record, ReplacedRange
from memoryd.core.spans import Fingerprint, Span
from memoryd.index.sqlite import SqliteIndex, memories, reader
from memoryd.index.sqlite.database import Database, Row
from tests.examples import examples
from tests.index.records import put, record, row

PATHS = ("a", "b", "c/d", "\udcff")
Step = tuple[str, str, int, int]
STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(
        st.sampled_from(["replace", "append", "range", "restamp", "forget", "clear", "fail", "look"]),
        st.sampled_from(PATHS),
        st.integers(0, 3),
        st.integers(0, 3),
    ),
    max_size=12,
)


def records(first: int, count: int, mark: int) -> tuple[Record, ...]:
    """Records of ten bytes each, from number `first` on."""
    return tuple(record(number, f"text {mark}", facts={"mark": mark}) for number in range(first, first + count))


class Driver:
    """Changes an index; every file consists of lines of ten bytes."""

    def __init__(self, index: SqliteIndex) -> None:
        self.index = index
        self.lines: dict[str, int] = {}
        self.mark = 0

    def row(self, path: str, lines: int) -> FileRow:
        size = Fingerprint(1, 1, lines * 10, self.mark, 1)
        return FileRow(path, "source", size, str(self.mark), records=lines, facts={"mark": self.mark})

    def play(self, step: Step) -> None:
        name, path, at, count = step
        self.mark += 1
        known = self.lines.get(path)
        if name == "fail":
            self._fail(path)
        elif name == "replace" or (known is None and name in ("append", "range")):
            self.lines[path] = count
            self.index.replace(self.row(path, count), Document(path, records(0, count, self.mark)))
        elif name == "append" and known is not None:
            self.lines[path] = known + count
            tail = Document(path, records(known, count, self.mark))
            self.index.append(self.row(path, known + count), tail)
        elif name == "range" and known is not None:
            self._range(path, known, min(at, known), count)
        elif name == "restamp" and known is not None:
            self.index.restamp(self.row(path, known))
        elif name == "forget":
            self.lines.pop(path, None)
            self.index.forget(path)
        elif name == "clear":
            self.lines.clear()
            self.index.clear()

    def _range(self, path: str, known: int, at: int, count: int) -> None:
        """Put `count` lines in place of the one at `at`, or at the end."""
        old = min(1, known - at)
        change = ReplacedRange(Span(at * 10, (at + old) * 10), old, count * 10, count)
        self.lines[path] = known - old + count
        document = Document(path, records(at, count, self.mark))
        self.index.replace_range(self.row(path, self.lines[path]), change, document)

    def _fail(self, path: str) -> None:
        """Roll back a change that was read before it was committed."""
        with suppress(TypeError), self.index.batch():
            self.index.replace(self.row(path, 1), Document(path, records(0, 1, self.mark)))
            answers(self.index)
            self.index.replace(self.row(path, 1), Document(path, (record(0, facts={"mark": object()}),)))


def answers(index: SqliteIndex) -> tuple[list[Entry], list[Entry], list[FileStats]]:
    return list(index.entries(PATHS[::-1])), list(index.entries(PATHS[1:2])), list(index.summaries())


def check(directory: Path, steps: list[Step]) -> None:
    path = str(directory / "index")
    with closing(SqliteIndex(path)) as index:
        driver = Driver(index)
        for step in steps:
            driver.play(step)
            if step[0] == "look":
                compare(index)
        compare(index)


def compare(index: SqliteIndex) -> None:
    with index.reader() as lent:
        fresh = list(lent.entries(PATHS[::-1])), list(lent.entries(PATHS[1:2])), list(lent.summaries())
    assert answers(index) == fresh


@given(steps=STEPS)
@settings(max_examples=examples(60), deadline=None)
def test_what_is_in_memory_equals_the_database(steps: list[Step]) -> None:
    with TemporaryDirectory() as directory:
        check(Path(directory), steps)


HISTORY: list[Step] = [
    *(("replace", path, 0, 3) for path in PATHS),
    ("look", "a", 0, 0),
    ("append", "a", 0, 2),
    ("look", "a", 0, 0),
    ("range", "b", 1, 2),
    ("append", "b", 0, 1),
    ("look", "a", 0, 0),
    ("fail", "c/d", 0, 0),
    ("look", "a", 0, 0),
    ("restamp", "c/d", 0, 0),
    ("forget", "\udcff", 0, 0),
    ("look", "a", 0, 0),
    ("replace", "\udcff", 0, 1),
]


@pytest.mark.parametrize("limit", [1000, 3])
def test_also_of_an_index_too_large_to_keep(limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "CACHED_RECORDS", limit)
    monkeypatch.setattr(reader, "CACHED_FILES", limit)
    check(tmp_path, HISTORY)


@pytest.mark.parametrize("part", [reader.EntryCache, reader.SummaryCache])
def test_canary_a_change_that_is_not_noted(part: type[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, "note_change", lambda *_: None)
    with pytest.raises(AssertionError):
        check(tmp_path, HISTORY)


def test_canary_a_failed_change_that_is_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader.EntryCache, "clear", lambda _: None)
    with pytest.raises(AssertionError):
        check(tmp_path, HISTORY)


@contextmanager
def rows_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """The number of rows that were streamed since the last call."""
    count, genuine = 0, Database.stream

    def counting(self: Database, query: str, values: tuple[object, ...] = ()) -> Iterator[Row]:
        nonlocal count
        for each in genuine(self, query, values):
            count += 1
            yield each

    def taken() -> int:
        nonlocal count
        taken, count = count, 0
        return taken

    with monkeypatch.context() as patch:
        patch.setattr(Database, "stream", counting)
        yield taken


def test_only_what_changed_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(SqliteIndex(str(tmp_path / "index"))) as index, rows_read(monkeypatch) as taken:
        for name in "ab":
            put(index, name, *records(0, 200, 0))

        def look() -> int:
            list(index.entries(["a", "b"]))
            list(index.summaries())
            return taken()

        taken()
        assert (look(), look(), look()) == (402, 400, 0), "entries are kept from the second request on"
        index.append(row("a", 201), Document("a", records(200, 1, 1)))
        assert look() == 1
        change = ReplacedRange(Span(1980, 1990), 1, 10, 1)
        taken()
        index.replace_range(row("b", 200), change, Document("b", records(198, 1, 2)))
        taken()
        assert look() == 2, "the changed line and the one below it"
        index.restamp(row("a", 201))
        assert look() == 0
        put(index, "b", *records(0, 150, 3))
        taken()
        assert look() == 150


def test_memories_of_the_last_questions_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, genuine = list[object](), Database.rows

    def reading(self: Database, query: str, values: Sequence[object] = ()) -> list[Row]:
        read.extend(values if "r.key IN" in query else ())
        return genuine(self, query, values)

    monkeypatch.setattr(Database, "rows", reading)
    with closing(SqliteIndex(str(tmp_path / "index"))) as index:

        def look(*keys: int) -> list[object]:
            read.clear()
            with index.reader() as lent:
                uses.update((key, each.uses) for key, each in lent.memories(keys).items())
            return [*read]

        uses: dict[int, int] = {}
        put(index, "a", *records(0, 3, 0))
        assert (look(1, 2), look(2, 3), look(3, 1)) == ([1, 2], [3], [])
        index.set_access("a", {"m1": 5})
        assert look(1, 2) == [1, 2], "after a change"
        assert uses == {1: 0, 2: 5, 3: 0}
        monkeypatch.setattr(memories, "MAX_CACHED", 5)
        assert (look(3), look(3)) == ([3], [3]), "above the limit"
