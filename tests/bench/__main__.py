"""The benchmark: what memoryd does, each case beside the floor that is measured in the same run.

    python -m tests.bench [--cases a,b] [--sizes 1000,10000] [--layouts a,b] [--quick] [--json FILE] [--plot FILE]
    python -m tests.bench --list              what each case measures
    python -m tests.bench --readme FILE       the README's table from a result

Stores are generated below TMPDIR, the same ones each time, and a real daemon runs over them with its limits lifted.
`x floor` is the median as a multiple of the floor's; percentiles are of the nearest rank. What must hardly grow is
measured at all sizes by turns; the exponents of all else have the drift of the machine in them. A run at the default
sizes takes about half an hour, a quick one some minutes; 100,000 and 1,000,000 memories need time and room accordingly.
Exits with 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import memoryd
from tests.bench import plot
from tests.bench.cases import CASES, Case, PlaceCase, StoreCase, StoresCase
from tests.bench.corpora import MOST, WRITTEN
from tests.bench.report import readme, text
from tests.bench.results import Result, Row, growth, load, save
from tests.bench.store import FULL, QUICK, Effort, Place, store

SMALLEST = 50  # memories that hold the needles


def run(cases: Sequence[Case], sizes: Sequence[int], layouts: Sequence[str], effort: Effort) -> Iterator[Row]:
    """Run the cases that share stores layout by layout, with the stores of all sizes open, then the others."""
    for layout in layouts:
        shared = [each for each in cases if not isinstance(each, PlaceCase) and layout in each.layouts]
        fitting = [size for size in sizes if size <= MOST.get(layout, size)]
        if shared and len(fitting) < len(sizes):
            _tell(f"{layout} holds at most {MOST[layout]:,} memories")
        if shared and fitting:
            yield from _run_on_stores(shared, layout, fitting, effort)
    for size in sizes:
        for case in cases:
            if isinstance(case, PlaceCase):
                _tell(f"{case.name}, {size:,} memories")
                with tempfile.TemporaryDirectory(prefix="memoryd-bench-") as base:
                    yield from case.run(Place(Path(base), size, effort))


def _run_on_stores(
    cases: Sequence[StoreCase | StoresCase], layout: str, sizes: Sequence[int], effort: Effort
) -> Iterator[Row]:
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="memoryd-bench-")))
        stores = [stack.enter_context(store(base / f"store-{size}", layout, size, effort)) for size in sizes]
        for case in cases:
            if isinstance(case, StoresCase):
                _tell(f"{case.name}, {layout}, {' and '.join(f'{size:,}' for size in sizes)} memories by turns")
                yield from case.run(stores)
            else:
                for opened in stores:
                    _tell(f"{case.name}, {layout}, {opened.size:,} memories")
                    yield from case.run(opened)


def _tell(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def machine() -> dict[str, str]:
    """Where and on which version is measured."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return {
        "memoryd": f"{memoryd.__version__} {commit}".strip(),
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": str(os.cpu_count()),
        "load at the start": f"{os.getloadavg()[0]:.2f}",
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = _parser()
    wanted = parser.parse_args(argv)
    if wanted.list:
        print("\n".join(f"{each.name:<12} {each.about}" for each in CASES))
        return 0
    if wanted.readme:
        print(readme(load(wanted.readme)), end="")
        return 0
    if wanted.plot:
        try:
            plot.check(wanted.plot)
        except plot.PlotError as error:
            parser.error(str(error))
    result = _measure(wanted)
    print(text(result, {each.name: each.about for each in CASES}))
    if wanted.plot:
        plot.draw(result, wanted.plot)
    missed = sum(each.met is False for each in result.rows) + sum(each.met is False for each in result.growth)
    print(f"\n{missed} goals missed; {', '.join(f'{k} {v}' for k, v in result.machine.items())}"[:100])
    return 1 if missed else 0


def _measure(wanted: argparse.Namespace) -> Result:
    """Run what is wanted. The JSON file has all rows so far after each of them: a case that fails loses no other."""
    result = Result(machine=machine(), quick=wanted.quick, seconds=0.0, rows=(), growth=())
    began = time.monotonic()
    cases = [each for each in CASES if each.name in wanted.cases]
    for each in run(cases, wanted.sizes, wanted.layouts, QUICK if wanted.quick else FULL):
        result.rows = (*result.rows, each)
        result.growth = growth(result.rows)
        result.seconds = round(time.monotonic() - began, 1)
        if wanted.json:
            save(result, wanted.json)
    return result


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=(__doc__ or "").split("\n", 1)[0])
    names = [each.name for each in CASES]
    parser.add_argument("--list", action="store_true", help="say what each case measures, and beside which floor")
    parser.add_argument("--cases", type=_some_of(names), default=names, help="separated by commas (default: all)")
    parser.add_argument("--sizes", type=_sizes, default=[1_000, 10_000], help="memories, separated by commas")
    parser.add_argument("--layouts", type=_some_of(WRITTEN), default=WRITTEN, help="separated by commas (default: all)")
    parser.add_argument("--quick", action="store_true", help="few samples: shows that it works, not how fast it is")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw it, .svg or .png (extra `bench`)")
    parser.add_argument("--readme", type=Path, metavar="FILE", help="print the README's table of a result, and end")
    return parser


def _some_of(names: Sequence[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        given = text.split(",")
        unknown = [each for each in given if each not in names]
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(names)}")
        return given

    return parse


def _sizes(text: str) -> list[int]:
    try:
        sizes = sorted({int(each) for each in text.split(",")})
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not numbers separated by commas") from error
    if sizes[0] < SMALLEST:
        raise argparse.ArgumentTypeError(f"a store has at least {SMALLEST} memories")
    return sizes


if __name__ == "__main__":
    sys.exit(main())
