"""The README and the man page say what the program says."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib

import click
import pytest

from memoryd.cli.help.tables import TOPICS
from memoryd.cli.program import cli
from tests.readme import MAN_PAGE, README, TABLES, TOP, made, made_man_page, marks
from tests.test_architecture import FLOORS

TEXT = README.read_text(encoding="utf-8")
LONGEST = 250  # lines


def _rows(heading: str) -> list[list[str]]:
    """The cells of the first table whose head begins with `heading`."""
    lines = TEXT.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(f"| {heading} |"))
    rows = []
    for line in lines[at + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def _blocks(language: str) -> list[str]:
    """The fenced blocks of a language ("" for those without), in order."""
    found: list[str] = []
    inside: list[str] | None = None
    for line in TEXT.splitlines(keepends=True):
        if not line.startswith("```"):
            if inside is not None:
                inside.append(line)
        elif inside is None:
            inside, wanted = [], line.strip() == f"```{language}"
        else:
            found += ["".join(inside)] if wanted else []
            inside = None
    return found


def test_the_made_tables_are_as_the_program_is() -> None:
    assert sorted(marks(TEXT)) == sorted(TABLES)
    assert made(TEXT) == TEXT, "write them anew: python -m tests.readme"


def test_a_table_that_is_wrong_would_be_noticed() -> None:
    assert made(TEXT.replace("| `notes` |", "| `nodes` |")) == TEXT


def test_the_man_page_is_as_the_program_is() -> None:
    assert MAN_PAGE.read_text(encoding="utf-8") == made_man_page(), "write it anew: python -m tests.readme"


def test_it_is_short() -> None:
    assert len(TEXT.splitlines()) <= LONGEST


def test_the_topics_of_the_reference_are_all_named() -> None:
    [passage] = re.findall(r"`memoryd help TOPIC` for (.*?), after", TEXT, re.DOTALL)
    assert re.findall(r"`([a-z-]+)`", passage) == list(TOPICS)


@pytest.mark.parametrize("line", re.findall(r"`memoryd ([a-z][^`]*)`", TEXT))
def test_every_command_named_is_one(line: str) -> None:
    assert isinstance(cli, click.Group)
    found: click.Command | None = cli
    context = click.Context(cli)
    words = shlex.split(line)
    while isinstance(found, click.Group) and words:
        found = found.get_command(context, words.pop(0))
    assert found is not None
    options = {each for param in found.params for each in param.opts}
    assert {word for word in words if word.startswith("--")} <= options


def test_the_dependencies_are_all_there() -> None:
    lines = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["dependencies"]
    assert sorted(row[0] for row in _rows("package")) == sorted(re.split("[<>=]", line)[0] for line in lines)


def test_the_extras_are_all_there() -> None:
    extras = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {row[0].strip("`") for row in _rows("extra")} == set(extras) - {"test", "dev"}


@pytest.mark.parametrize("block", _blocks("sh"))
def test_the_shell_blocks_can_be_read_by_a_shell(block: str) -> None:
    assert subprocess.run(["sh", "-n"], input=block, text=True, capture_output=True, timeout=10).returncode == 0


def test_the_two_commands_make_their_environment_first() -> None:
    first, second = (block.strip() for block in _blocks("sh")[:2])
    assert first == "sh .ci/env .venv && .venv/bin/memoryd demo"
    assert second == "sh .ci/env .venv test && .venv/bin/python -m pytest -n 3"


def test_what_it_points_to_is_there() -> None:
    for name in re.findall(r"(?<![\w./-])(?:systemd|launchd|tests|\.ci)/[\w./-]*\w", TEXT):
        assert (TOP / name).exists(), name
    for module in re.findall(r"python -m (tests[\w.]+)", TEXT):
        path = TOP / module.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module


def test_the_floors_are_the_packages() -> None:
    packages = {path.name for path in (TOP / "memoryd").iterdir() if (path / "__init__.py").exists()}
    tree = next(block for block in _blocks("") if block.startswith("memoryd/"))
    told = dict(re.findall(r"(\w+)/ +(\d) ", tree))
    assert told.keys() == packages
    assert {name: int(floor) for name, floor in told.items()} == {name: FLOORS[name] for name in told}


def test_macos_is_no_headline() -> None:
    for line in TEXT.splitlines():
        if "macos" in line.lower() or "launchd, for" in line:
            assert "not yet tried" in line or "written for" in line, line
