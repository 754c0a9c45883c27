"""The nearest vectors: exact, filtered before the best are taken, in step with the catalogue, given back when idle."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from memoryd.core.query import Filters
from memoryd.core.records import Record
from memoryd.core.spans import Span
from memoryd.core.vectors import Doubles, cosine, pack_floats, positions, unpack
from memoryd.index.matrix import IDLE_S, MatrixCache, Similarities, Vectors
from memoryd.index.sqlite import SqliteIndex
from memoryd.index.sqlite.reader import SqliteReader
from memoryd.search.embedding.static import pack_bytes
from tests.index.records import put

SIZE = 16
MODEL = "m"
EVERYTHING = Filters(archived=True)


def vector(seed: int) -> bytes:
    source = random.Random(seed)
    return pack_bytes([source.randint(-1000, 1000) for _ in range(SIZE)])


def record(number: int, text: str, *, tags: tuple[str, ...] = (), archived: bool = False) -> Record:
    return Record(Span(number, number + 1), 1, f"m{number}", "note", "", 1.0, 1.0, tags, archived, {}, text=text)


def fill(catalogue: SqliteIndex) -> list[int]:
    """A vector by its key for each memory that has none; the keys."""
    keys = [key for key, _ in catalogue.missing_vectors(MODEL, 0, 100_000)]
    catalogue.put_vectors(MODEL, [(key, vector(key)) for key in keys])
    return keys


def alike(found: dict[int, float], expected: dict[int, float]) -> bool:
    """Equal memories in equal order; cosines but for the rounding of 32 bits."""
    return [*found] == [*expected] and all(abs(found[key] - expected[key]) < 1e-5 for key in expected)


@pytest.fixture
def catalogue(tmp_path: Path) -> Iterator[SqliteIndex]:
    made = SqliteIndex(str(tmp_path / "c.db"))
    records = [
        record(number, f"text {number}", tags=("rare",) if number % 50 == 0 else (), archived=number % 3 == 0)
        for number in range(500)
    ]
    put(made, "a.jsonl", *records)
    fill(made)
    yield made
    made.close()


def measured(shelf: MatrixCache, catalogue: SqliteReader, asked: bytes) -> Similarities:
    return shelf.compare(catalogue.vectors, MODEL, unpack(asked, SIZE))


def by_hand(catalogue: SqliteReader, asked: bytes, filters: Filters, limit: int) -> dict[int, float]:
    allowed = set(catalogue.vectors.all_allowed(filters))
    found = [
        (-cosine(unpack(asked, SIZE), unpack(each, SIZE)), -key)
        for key, each in catalogue.vectors.load(MODEL, 0)
        if key in allowed
    ]
    return {-key: -distance for distance, key in sorted(found)[:limit]}


@pytest.mark.parametrize(
    "filters",
    [EVERYTHING, Filters(), Filters(tags=("rare",)), Filters(tags=("rare",), archived=True), Filters(type="none")],
    ids=str,
)
@pytest.mark.parametrize("limit", [1, 7, 600])
def test_it_is_exact_under_any_filter(catalogue: SqliteIndex, filters: Filters, limit: int) -> None:
    shelf = MatrixCache()
    for seed in range(5):
        expected = by_hand(catalogue, vector(seed + 9000), filters, limit)
        found = measured(shelf, catalogue, vector(seed + 9000)).best(catalogue.vectors, filters, limit)
        assert alike(found, expected)


@pytest.mark.parametrize("limit", [1, 9, 200])
def test_of_equals_the_last_that_came_in_is_first(catalogue: SqliteIndex, limit: int) -> None:
    """However many there are."""
    put(catalogue, "b.jsonl", *[record(number, f"same {number}") for number in range(200)])
    keys = [key for key, _ in catalogue.missing_vectors(MODEL, 0, 200)]
    catalogue.put_vectors(MODEL, [(key, vector(77_777)) for key in keys])
    found = measured(MatrixCache(), catalogue, vector(77_777)).best(catalogue.vectors, EVERYTHING, limit)
    assert [*found] == keys[: -limit - 1 : -1]


def test_few_are_looked_up_if_most_pass_the_filters(catalogue: SqliteIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    allowed = catalogue.vectors.allowed

    def counting(filters: Filters, keys: Sequence[int]) -> set[int]:
        asked.append(len(keys))
        return allowed(filters, keys)

    monkeypatch.setattr(catalogue.vectors, "allowed", counting)
    near = measured(MatrixCache(), catalogue, vector(1))
    for filters, expected in ((EVERYTHING, [50]), (Filters(), [50, 160]), (Filters(tags=("rare",)), [50, 160])):
        asked.clear()
        assert alike(near.best(catalogue.vectors, filters, 40), by_hand(catalogue, vector(1), filters, 40))
        assert asked == expected


def test_what_comes_and_goes_is_followed(catalogue: SqliteIndex) -> None:
    shelf = MatrixCache()
    measured(shelf, catalogue, vector(1))
    put(catalogue, "b.jsonl", *[record(number, f"new {number}") for number in range(40)])
    new = fill(catalogue)
    found = measured(shelf, catalogue, vector(new[5])).best(catalogue.vectors, EVERYTHING, 1)
    assert alike(found, {new[5]: 1.0})
    catalogue.forget("b.jsonl")
    found = measured(shelf, catalogue, vector(new[5])).best(catalogue.vectors, EVERYTHING, 500)
    assert len(found) == 500
    assert not found.keys() & set(new), "a vector dies with its memory"


def test_the_cosines_of_some(catalogue: SqliteIndex) -> None:
    found = measured(MatrixCache(), catalogue, vector(3)).of([3, 10**9, 499, 0])
    assert set(found) == {3, 499}
    assert found[3] == pytest.approx(1, abs=1e-5)


def test_many_changes_do_not_pile_up(catalogue: SqliteIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has gone leaves the matrix when there is more of it than of what is there."""
    monkeypatch.setattr("memoryd.index.matrix.CHUNK", 50)
    shelf = MatrixCache()
    for turn in range(40):
        put(catalogue, "b.jsonl", *[record(number, f"turn {turn} {number}") for number in range(60)])
        fill(catalogue)
        measured(shelf, catalogue, vector(turn))
        assert shelf.row_counts()[MODEL] <= 2 * 560 + 50 + 60
        found = measured(shelf, catalogue, vector(turn)).best(catalogue.vectors, EVERYTHING, 20)
        assert alike(found, by_hand(catalogue, vector(turn), EVERYTHING, 20))


def test_the_best_of_many_are_not_looked_for_among_all(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = [(key, vector(key)) for key in range(20_000)]
    source = cast("Vectors", SimpleNamespace(changes=0, load=lambda model, after: iter(stored)))
    near, looked_at = MatrixCache().compare(source, MODEL, unpack(vector(5), SIZE)), list[int]()

    def counted(numbers: Doubles, least: float) -> list[int]:
        rows = positions(numbers, least)
        looked_at.append(len(rows))
        return rows

    monkeypatch.setattr("memoryd.index.matrix.positions", counted)
    found = near.highest(80)
    assert near.highest(20_000) == dict(sorted(near.of(range(20_000)).items(), key=lambda each: (-each[1], -each[0])))
    assert [*found] == [*near.highest(20_000)][:80]
    assert 80 <= looked_at[0] < 1_000


@pytest.mark.parametrize("size", [1, 3, 128, 384])
def test_the_largest_numbers_fit(size: int) -> None:
    rows = [bytes([128]) * size, bytes([127]) * size, bytes([1] + [0] * (size - 1)), bytes([128, 127] * size)[:size]]
    stored = list(enumerate(rows))
    source = cast("Vectors", SimpleNamespace(changes=0, load=lambda model, after: iter(stored)))
    for row in rows:
        given = unpack(row, size)
        expected = {key: pytest.approx(cosine(given, unpack(each, size)), abs=1e-4) for key, each in stored}
        assert MatrixCache().compare(source, MODEL, given).of(range(len(rows))) == expected


def test_idle_matrices_are_dropped(catalogue: SqliteIndex) -> None:
    shelf = MatrixCache()
    measured(shelf, catalogue, vector(1))
    shelf.release_idle(1000.0)
    shelf.release_idle(1000.0 + IDLE_S)
    assert len(shelf.row_counts()) == 1
    measured(shelf, catalogue, vector(1))
    shelf.release_idle(1001.0 + IDLE_S)
    assert len(shelf.row_counts()) == 1, "it was needed meanwhile"
    shelf.release_idle(1002.0 + 2 * IDLE_S)
    assert shelf.row_counts() == {}
    assert len(measured(shelf, catalogue, vector(1)).best(catalogue.vectors, EVERYTHING, 5)) == 5


def test_vectors_of_32_bits(catalogue: SqliteIndex) -> None:
    asked = pack_floats([1.0, 0.0, 0.5])
    keys = catalogue.vectors.all_allowed(EVERYTHING)[:2]
    catalogue.put_vectors("f", [(keys[0], asked), (keys[1], pack_floats([-1.0, 0.0, -0.5]))])
    found = MatrixCache().compare(catalogue.vectors, "f", unpack(asked, 3)).best(catalogue.vectors, EVERYTHING, 5)
    assert alike(found, {keys[0]: 1.0, keys[1]: -1.0})


def test_vectors_without_direction_are_near_to_nothing(catalogue: SqliteIndex) -> None:
    key = catalogue.vectors.all_allowed(EVERYTHING)[0]
    catalogue.put_vectors("z", [(key, bytes(SIZE))])
    assert MatrixCache().compare(catalogue.vectors, "z", unpack(vector(1), SIZE)).of([key]) == {key: 0.0}


@pytest.mark.parametrize("opened_again", [False, True])
def test_vectors_that_come_out_of_order_are_compared(catalogue: SqliteIndex, opened_again: bool) -> None:
    first, second, *_, last = sorted(catalogue.vectors.all_allowed(EVERYTHING))
    catalogue.put_vectors("late", [(last, vector(1))])
    index = SqliteIndex(catalogue.path) if opened_again else catalogue
    for number, key in enumerate((first, second, 0), start=1):
        found = index.nearest(unpack(vector(1), SIZE), "late", EVERYTHING, 5)
        assert found is not None
        assert len(found) == number
        index.put_vectors("late", [(key, vector(1))])
    if opened_again:
        index.close()


def test_loading_takes_little_more_memory_than_the_vectors() -> None:
    """The heap would keep the rest for long."""
    count, size = 4_000, 128
    stored = [(key, bytes([key % 100 + 1]) * size) for key in range(count)]
    source = cast("Vectors", SimpleNamespace(changes=0, load=lambda model, after: (each for each in stored)))
    MatrixCache().compare(source, MODEL, [1.0] * size)  # simsimd is imported
    tracemalloc.start()
    found = MatrixCache().compare(source, MODEL, [1.0] * size)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found) == count
    assert peak < 4 * count * size


def test_an_empty_catalogue(tmp_path: Path) -> None:
    empty = SqliteIndex(str(tmp_path / "empty.db"))
    found = measured(MatrixCache(), empty, vector(1))
    assert found.best(empty.vectors, EVERYTHING, 5) == {}
    assert found.of([1, 2]) == {}
    empty.close()


def test_many_threads_ask_while_memories_come(catalogue: SqliteIndex) -> None:
    shelf = MatrixCache()

    def ask(seed: int) -> bool:
        with catalogue.reader() as reader:
            assert isinstance(reader, SqliteReader)
            found = measured(shelf, reader, vector(seed)).best(reader.vectors, EVERYTHING, 10)
            # A vector that came just after this reader began may be known already: of the others none is missed.
            seen = {key for key, _ in reader.vectors.load(MODEL, 0)}
            found = {key: found[key] for key in found if key in seen}
            return alike(found, by_hand(reader, vector(seed), EVERYTHING, len(found)))

    with ThreadPoolExecutor(4) as pool:
        asking = []
        for turn in range(30):
            asking += [pool.submit(ask, turn * 4 + each) for each in range(4)]
            put(catalogue, f"more{turn}.jsonl", *[record(number, f"{turn} {number}") for number in range(20)])
            fill(catalogue)
        assert all(each.result() for each in asking)
