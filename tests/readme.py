"""What is made from the program: the marked tables of the README, and the man page.

python -m tests.readme        writes both
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import click

from memoryd.cli.help import man_page
from memoryd.cli.program import cli
from memoryd.layouts.registry import LAYOUTS
from tests.bench.quality import FIGURES
from tests.bench.report import readme as figures
from tests.bench.results import load
from tests.secrets import measure

TOP = Path(__file__).parents[1]
README = TOP / "README.md"
BENCHMARK = TOP / "tests/bench/figures.json"
MAN_PAGE = TOP / "memoryd/cli/help/memoryd.1"
_MARKED = re.compile(r"(<!-- made: (?P<name>[a-z.-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def layouts() -> str:
    """Each layout with its summary and its index files."""
    rows = (
        (f"`{name}`", layout.summary, ", ".join(f"`{path}`" for path in layout.index.paths) or "none")
        for name, layout in LAYOUTS.items()
    )
    return _table(("layout", "what it is", "index files"), rows)


def quality() -> str:
    """How well search finds, by the figures that are kept beside the table of vectors."""
    figures = json.loads(FIGURES.read_text(encoding="utf-8"))["figures"]
    modes = list(next(iter(figures.values())))
    rows = ((name, *(f"{found[mode]['mrr']:.2f}" for mode in modes)) for name, found in figures.items())
    return _table(("questions", *(f"`--mode {mode}`" for mode in modes)), rows)


TABLES: Mapping[str, Callable[[], str]] = {
    "layouts": layouts,
    "figures": lambda: figures(load(BENCHMARK)),
    "quality": quality,
    "secrets": lambda: _table(("half of the corpus", "secrets found", "false alarms"), measure.rows()),
}


def made(text: str) -> str:
    """The README with every marked table as it should be; KeyError for a mark that names no table."""
    return _MARKED.sub(lambda found: f"{found[1]}{TABLES[found['name']]()}{found[3]}", text)


def marks(text: str) -> list[str]:
    """The names of the marked tables, in order."""
    return [found["name"] for found in _MARKED.finditer(text)]


def made_man_page() -> str:
    """The man page as it should be."""
    assert isinstance(cli, click.Group)
    return man_page(cli)


if __name__ == "__main__":
    README.write_text(made(README.read_text(encoding="utf-8")), encoding="utf-8")
    MAN_PAGE.write_text(made_man_page(), encoding="utf-8")
