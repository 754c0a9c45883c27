"""What the benchmark reckons with and prints, checked on numbers known beforehand; no time is asserted here."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from memoryd.core.records import ParseOffset
from memoryd.layouts.registry import LAYOUTS
from memoryd.search.spelling import is_one_letter_apart
from tests.bench import goals, plot
from tests.bench.__main__ import main, run
from tests.bench.agent_writes import LARGE, Agent, put_large_document, word
from tests.bench.cases import CASES, StoresCase, freshness
from tests.bench.corpora import WRITTEN, Corpus, generate
from tests.bench.floors import READERS, FtsTable, MinimalIndexer, is_source, read_texts, scan
from tests.bench.inotify import CLOSE_WRITE, MOVED_TO, Inotify
from tests.bench.report import COLUMNS, FIGURES, number, readme, table, text
from tests.bench.results import Result, Row, exponent, growth, load, percentile, rounded, row, save
from tests.bench.rig import installed_env
from tests.bench.store import QUICK, Store

# --- arithmetic


def test_percentiles_are_of_the_nearest_rank() -> None:
    hundred = [float(each) for each in range(100, 0, -1)]
    assert percentile(hundred, 50) == 50
    assert percentile(hundred, 99) == 99
    assert percentile(hundred, 100) == 100
    assert percentile([7.0], 50) == percentile([7.0], 99) == 7
    assert percentile([1.0, 2.0, 3.0], 99) == 3
    assert math.isnan(percentile([], 50))


@pytest.mark.parametrize("power", [-0.5, 0.0, 0.1, 1.0, 2.0])
def test_the_exponent_of_a_power_is_found(power: float) -> None:
    assert exponent([(x, 3.0 * x**power) for x in (1_000, 10_000, 100_000)]) == pytest.approx(power)


def test_the_exponent_is_the_best_line_through_points_beside_it() -> None:
    """log10: (3, 0), (4, 2), (5, 1): least squares give a slope of one half."""
    assert exponent([(1e3, 1.0), (1e4, 100.0), (1e5, 10.0)]) == pytest.approx(0.5)


def test_growth_needs_two_sizes_and_keeps_layouts_apart() -> None:
    rows = [
        row(goals.SYNC, "nothing to do", "json-files", 1_000, [1.0]),
        row(goals.SYNC, "nothing to do", "json-files", 10_000, [10.0]),
        row(goals.SYNC, "nothing to do", "jsonl-store", 1_000, [1.0]),
        row(goals.SYNC, "nothing to do", "session-files", 1_000, []),
        row(goals.SYNC, "nothing to do", "session-files", 10_000, [1.0]),
    ]
    (found,) = growth(rows)
    assert (found.layout, found.sizes, found.exponent) == ("json-files", (1_000, 10_000), 1.0)
    assert (found.goal, found.met, found.floor) == (0.1, False, None)


def test_the_floor_has_an_exponent_of_its_own() -> None:
    rows = [
        row(goals.SYNC, "after one write", "json-files", size, [1.0], floor=[floor])
        for size, floor in ((1_000, 0.5), (10_000, 5.0))
    ]
    fitted = growth(rows)
    assert [(each.exponent, each.floor) for each in fitted] == [(0.0, 1.0)]
    result = Result(machine={}, quick=True, seconds=0.0, rows=tuple(rows), growth=fitted)
    assert "json-files 0 (floor 1)" in text(result, {goals.SYNC: ""})


def test_figures_have_three_significant_digits() -> None:
    assert [rounded(each) for each in (0.0, 0.0012345, 1.2345, 123456.0)] == [0.0, 0.00123, 1.23, 123000.0]
    assert [number(each) for each in (None, math.nan, 0.0, 0.00123, 5.0, 119.6, 20_400.0)] == [
        *("-", "-", "0", "0.00123", "5", "120", "20,400"),
    ]


# --- goals


def test_a_goal_limits_both_percentiles_and_the_multiple_of_the_floor() -> None:
    goal = goals.Goal(p50=5, p99=25)
    assert goal.allows(5, 25, None)
    assert not goal.allows(5.1, 25, None)
    assert not goal.allows(5, 26, None)
    burst = goals.Goal(times=1.5, plus=2)
    assert burst.allows(5, 99, 2)
    assert not burst.allows(5.1, 99, 2)
    assert not burst.allows(0.1, 0.1, None)
    assert (goal.text("ms"), burst.text("s")) == ("<= 5 ms, p99 <= 25", "<= 1.5 x floor + 2 s")


def test_a_goal_is_that_of_the_next_size_up() -> None:
    def p50(case: str, variant: str, size: int) -> float | None:
        found = goals.goal_of(case, variant, "jsonl-store", size)
        return found.p50 if found else None

    sizes = (50, 1_000, 1_001, 10_000, 100_000, 100_001)
    assert [p50(goals.SEARCH, "text", size) for size in sizes] == [0.5, 0.5, 0.8, 0.8, 3, None]
    assert goals.goal_of(goals.FIRST_INDEX, "searchable", "json-files", 1_000) is None
    assert goals.goal_of(goals.FIRST_INDEX, "searchable", "json-files", 10_000) == goals.Goal(times=3)
    assert goals.goal_of(goals.KNOWN_START, "searchable", "jsonl-store", 100_000) is None


def test_what_is_lost_meets_no_goal() -> None:
    assert row(goals.SEARCHABLE, "", "json-files", 1_000, [1.0]).met is True
    assert row(goals.SEARCHABLE, "", "json-files", 1_000, [1.0], lost=1).met is False
    assert row(goals.STORE, "add", "json-files", 1_000, [1.0]).met is None
    assert row(goals.STORE, "add", "json-files", 1_000, [1.0], lost=1).met is False


def test_every_goal_and_figure_is_of_a_case() -> None:
    names = {each.name for each in CASES}
    assert {case for case, _ in (*goals.GOALS, *goals.GROWTH)} <= names
    assert {case for figure in FIGURES for case, _ in figure.quantities} <= names


# --- order


def test_growth_is_measured_with_all_sizes_open_and_by_turns() -> None:
    taken: list[tuple[str, int]] = []

    class Noted:
        """A sampler that measures nothing."""

        def __init__(self, store: Store) -> None:
            self._size = store.size

        def sample(self) -> None:
            taken.append(("sample", self._size))

        def rows(self) -> Iterator[Row]:
            yield row(goals.SYNC, "", "jsonl-store", self._size, [1.0])

        def close(self) -> None:
            taken.append(("close", self._size))

    case = StoresCase(goals.SYNC, "", partial(freshness.by_turns, Noted))
    rows = [*run([case], [50, 60], ["jsonl-store"], QUICK._replace(writes=3))]
    assert taken == [*[("sample", 50), ("sample", 60)] * 3, ("close", 60), ("close", 50)]
    assert [each.size for each in rows] == [50, 60]


def test_every_quantity_with_a_limit_of_growth_is_measured_by_turns() -> None:
    assert {case for case, _ in goals.GROWTH} <= {each.name for each in CASES if isinstance(each, StoresCase)}


# --- output


@pytest.fixture
def result() -> Result:
    def sync(layout: str, size: int, took: float) -> Row:
        return row(goals.SYNC, "after one write", layout, size, [took], floor=[took / 2])

    rows = (
        *(sync(layout, size, 1.0) for layout in WRITTEN for size in (1_000, 10_000)),
        sync("json-files", 100_000, 70.25),
        row(goals.SYNC, "nothing to do", "json-files", 1_000, [0.5]),
        row(goals.BURST, "files", "json-files", 10_000, [1234.5678], floor=[100.0], unit="s", lost=20_000),
    )
    return Result(machine={"python": "3.11"}, quick=True, seconds=1.5, rows=rows, growth=growth(rows))


def test_a_result_is_read_as_it_was_written(result: Result, tmp_path: Path) -> None:
    save(result, tmp_path / "result.json")
    assert load(tmp_path / "result.json") == result


def test_tables_fit_into_100_columns(result: Result) -> None:
    lines = text(result, {each.name: each.about for each in CASES}).splitlines()
    assert max(len(line) for line in lines) <= COLUMNS
    assert any(line.startswith("json-files") and line.endswith("NO, 20000 lost") for line in lines)
    assert any("json-files 0.92 (NO, floor 0.92)" in line for line in lines)


def test_the_longest_cells_fit_as_well() -> None:
    rows = tuple(
        row(case, variant, "markdown-topics", size, [1234.5], floor=[0.0123], lost=20_000)
        for case, variant in goals.GOALS
        for size in (1_000, 10_000, 100_000, 1_000_000)
    )
    found = Result(machine={}, quick=False, seconds=0.0, rows=rows, growth=())
    assert max(len(line) for line in text(found, {each.name: each.about for each in CASES}).splitlines()) <= COLUMNS


def test_a_table_has_columns() -> None:
    assert table([("a", "b"), ("long", "1"), ("x", "100")]) == "a       b\nlong    1\nx     100"


def test_the_readme_names_the_slowest_layout_its_floor_and_what_is_missed(result: Result) -> None:
    cells = "| 1 ms (0.5); -; 0.5 ms | 1 ms (0.5); -; - | 70.2 ms (35.1) **missed**; -; - | ≤ 6 ms; -; ≤ 2 ms"
    burst = "| -; - | 1,230 s (100) **missed** and 20,000 lost; - | -; - | ≤ 1.5 × floor + 2 s; -"
    assert readme(result).splitlines() == [
        "| median (floor) | 1,000 memories | 10,000 memories | 100,000 memories | goal | why it is missed |",
        "| --- | --- | --- | --- | --- | --- |",
        f"| {FIGURES[2].label} {cells} | {FIGURES[2].takes} |",
        f"| {FIGURES[6].label} {burst} | {FIGURES[6].takes} |",
    ]


def test_the_readme_says_at_which_sizes_a_goal_holds() -> None:
    rows = tuple(
        row(goals.FIRST_INDEX, "searchable", "json-files", size, [1.0], floor=[0.5]) for size in (1_000, 10_000)
    )
    found = Result(machine={}, quick=False, seconds=0.0, rows=rows, growth=())
    assert "| - / ≤ 3 × floor; - |" in readme(found)


def test_the_command_line_prints_the_readme_table(
    result: Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(result, tmp_path / "r.json")
    assert main(["--readme", str(tmp_path / "r.json")]) == 0
    assert capsys.readouterr().out == readme(result)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--cases", "sync,sing"), "'sing' is none of first-index,"),
        (("--layouts", "notes"), "'notes' is none of"),
        (("--sizes", "49"), "at least 50"),
        (("--sizes", "many"), "not numbers"),
        (("--plot", "a.pdf"), "a plot is one of .svg, .png"),
    ],
)
def test_wrong_options_are_refused(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert said in capsys.readouterr().err


def test_a_store_whose_files_would_be_too_large_to_be_read_is_not_measured(capsys: pytest.CaptureFixture[str]) -> None:
    first = [each for each in CASES if each.name == goals.FIRST_INDEX]
    assert [*run(first, [250_001], ["jsonl-store"], QUICK)] == []
    assert "jsonl-store holds at most 250,000 memories" in capsys.readouterr().err


def test_a_plot_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(plot.PlotError, match=r"pip install -e '\.\[bench\]'"):
        plot.check(Path("a.svg"))


def test_a_plot_is_drawn(result: Result, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `bench` is not installed")
    plot.check(tmp_path / "a.svg")
    plot.draw(result, tmp_path / "a.svg")
    assert "</svg>" in (tmp_path / "a.svg").read_text()


# --- floors and writers


@pytest.fixture(params=sorted(WRITTEN))
def corpus(request: pytest.FixtureRequest, tmp_path: Path) -> Corpus:
    made = generate(request.param, tmp_path / "root", 120, each=1)
    if made.layout == "user-document":
        put_large_document(made.root)
    return made


def memories(corpus: Corpus) -> list[str]:
    """The texts as the layout itself reads them."""
    layout, found = LAYOUTS[corpus.layout], []
    for path in sorted(each for each in corpus.root.rglob("*") if each.is_file()):
        name = path.relative_to(corpus.root).as_posix()
        content, now = path.read_bytes(), time.time()
        records = layout.reader.parse(name, content, now=now, mtime=now - 60, base=ParseOffset()).records
        found += [each.text for each in records]
    return found


def test_the_floor_reads_every_memory_and_scans_every_file(corpus: Corpus, tmp_path: Path) -> None:
    texts = [*read_texts(corpus.layout, corpus.root)]
    assert len(texts) == len(memories(corpus))
    assert scan(corpus.root) == sum(each.is_file() for each in corpus.root.rglob("*"))
    with closing(FtsTable(tmp_path / "raw")) as raw:
        raw.insert(texts)
        rare = next(each.needle.query for each in corpus.planted if each.needle.kind == "rare word in body")
        assert len(raw.search(rare)) == 1


def test_index_files_are_no_source() -> None:
    names = {path for layout in LAYOUTS.values() for path in layout.index.paths}
    assert not [(layout, name) for layout in READERS for name in names if is_source(layout, name)]


@pytest.mark.parametrize("new_files", [False, True])
def test_an_agent_adds_one_memory_with_its_word(corpus: Corpus, new_files: bool) -> None:
    agent = Agent(corpus, "agent", new_files=new_files)
    before = len(memories(corpus))
    words = []
    for _ in range(3):
        change = agent.next()
        change.carry_out(corpus.root)
        words.append(change.word)
    after = memories(corpus)
    assert len(after) == before + 3
    assert [sum(each in text for text in after) for each in words] == [1, 1, 1]


def test_the_large_document_has_7_mb(tmp_path: Path) -> None:
    corpus = generate("user-document", tmp_path / "root", 60, each=1)
    assert put_large_document(corpus.root) == LARGE
    assert 6.5e6 < max(each.stat().st_size for each in corpus.root.rglob("*.json")) < 7.5e6


def test_words_of_changes_differ() -> None:
    made = [word(number) for number in range(20_000)]
    assert len({*made}) == len(made)
    assert not any(
        is_one_letter_apart(made[at], made[at + by]) for by in (1, 19, 20, 400) for at in range(0, 10_000, 7)
    )


def test_the_minimal_indexer_finds_each_change(corpus: Corpus, tmp_path: Path) -> None:
    agent, offset = Agent(corpus, "agent"), 0
    with closing(MinimalIndexer(tmp_path / "minimal", corpus.layout)) as minimal:
        for _ in range(2):
            change = agent.next()
            event, answer = minimal.measure(change.copy_to, change.name, change.word, offset)
            assert 0 <= event <= answer
            change.carry_out(corpus.root)
            offset += len(change.content) if change.form == "append" else 0


def test_raw_inotify_reports_closes_and_renames(tmp_path: Path) -> None:
    events = Inotify(str(tmp_path))
    try:
        assert events.wait(0) == []
        (tmp_path / "ä x").write_bytes(b"1")
        os.rename(tmp_path / "ä x", tmp_path / "y")
        found = events.wait(10)
        assert [(mask, name) for _, mask, name in found] == [(CLOSE_WRITE, "ä x"), (MOVED_TO, "y")]
    finally:
        events.close()


@pytest.mark.slow
def test_a_quick_run_measures_and_loses_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of time nothing is asked, but that it was measured."""
    out = str(tmp_path / "r.json")
    main(["--quick", "--sizes", "50,60", "--layouts", "jsonl-store", "--cases", "searchable,sync", "--json", out])
    found = load(Path(out))
    assert [(each.case, each.variant, each.size, each.n, each.lost) for each in found.rows] == [
        *((goals.SEARCHABLE, variant, size, 5, 0) for size in (50, 60) for variant in ("", "raw inotify event")),
        *(
            (goals.SYNC, variant, size, 5, 0)
            for size in (50, 60)
            for variant in ("after one write", "search only, after one write", "nothing to do")
        ),
    ]
    assert all(each.p99 >= each.p50 >= 0 for each in found.rows)  # an event may be there before anybody waits for it
    assert {(each.case, each.variant) for each in found.growth} >= {*goals.GROWTH}
    assert "searchable (ms)" in capsys.readouterr().out


def test_the_program_is_compiled_before_it_is_measured() -> None:
    env = installed_env()
    compiled = list(Path(env["PYTHONPYCACHEPREFIX"]).rglob("memoryd/service/daemon.*.pyc"))
    assert len(compiled) == 1
    assert not env["PYTHONDONTWRITEBYTECODE"]
