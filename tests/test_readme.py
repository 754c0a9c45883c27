"""The README says what the program says."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from memoryd.cli import exits
from memoryd.config.places import find_places
from memoryd.config.reading import load
from memoryd.control.methods import TABLE
from memoryd.control.parameters import checked
from memoryd.core.policy import DEFAULT_SCHEDULE
from memoryd.layouts import LAYOUTS
from tests.readme import README, TABLES, made, marks

TEXT = README.read_text(encoding="utf-8")
TOP = README.parent


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
    assert made(TEXT.replace("| `ping` |", "| `pong` |")) == TEXT


def test_the_layouts_and_their_jobs_are_all_there() -> None:
    told = {row[0].strip("`"): tuple(row[4].split(", ")) for row in _rows("layout")}
    assert told == {name: layout.jobs for name, layout in LAYOUTS.items()}


def test_the_jobs_and_their_times_are_all_there() -> None:
    told = {row[0].strip("`"): row[1] for row in _rows("job") if row[0] != "index"}
    assert set(told) == set(DEFAULT_SCHEDULE)
    words = {"every 1d": "every day", "every 7d": "every week", "adaptive": "at its own pace"}
    for job, schedule in DEFAULT_SCHEDULE.items():
        spoken = words.get(schedule) or re.sub(r"(\d+)", r"\1 ", schedule)
        assert told[job].startswith(spoken), job


def test_the_exit_codes_are_all_there() -> None:
    codes = {value for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)}
    assert [int(row[0]) for row in _rows("exit code")] == sorted(codes)


def test_the_dependencies_are_all_there() -> None:
    lines = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["dependencies"]
    assert sorted(row[0] for row in _rows("package")) == sorted(re.split("[<>=]", line)[0] for line in lines)


def test_the_extras_are_all_there() -> None:
    extras = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {row[0].strip("`") for row in _rows("extra")} == set(extras) - {"test", "dev"}


def test_the_example_configuration_can_be_used(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(_blocks("toml")[0])
    limits = {path: limit for layout in LAYOUTS.values() for path, limit in layout.limits.items()}
    config = load(find_places(config=str(path), state_dir=str(tmp_path / "s")), [], known_limits=limits)
    assert [root.name for root in config.roots] == ["agents"]
    assert config.roots[0].policy.schedule["archive"] == "15 3 * * 1-5"


def test_the_example_session_can_be_typed() -> None:
    lines = [line for line in _blocks("console")[0].splitlines() if not line.startswith("$")]
    for line in lines:
        message = json.loads(line.removeprefix("> "))
        if line.startswith("> "):
            checked(TABLE[message["method"]], message.get("params", {}))
    assert sum(line.startswith("> ") for line in lines) == 3


@pytest.mark.parametrize("block", _blocks("sh"))
def test_the_shell_blocks_can_be_read_by_a_shell(block: str) -> None:
    assert subprocess.run(["sh", "-n"], input=block, text=True, capture_output=True, timeout=10).returncode == 0


def test_the_two_commands_make_their_environment_first() -> None:
    first, second = (block.strip() for block in _blocks("sh")[:2])
    assert first == "sh .ci/env .venv && .venv/bin/memoryd demo"
    assert second == "sh .ci/env .venv test && .venv/bin/python -m pytest -n 2"


def test_what_it_points_to_is_there() -> None:
    for name in re.findall(r"(?<![\w./-])(?:systemd|launchd|tests|\.ci)/[\w./-]*\w", TEXT):
        assert (TOP / name).exists(), name


def test_the_floors_are_the_packages() -> None:
    packages = {path.name for path in (TOP / "memoryd").iterdir() if (path / "__init__.py").exists()}
    tree = next(block for block in _blocks("") if block.startswith("memoryd/"))
    told = {name for line in tree.splitlines()[1:] for name in re.findall(r"(\w+)/(?=\s)", line)}
    assert told == packages
