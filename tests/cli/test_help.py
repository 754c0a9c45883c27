"""`memoryd help`: complete, made from the tables, readable at 80 columns."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from memoryd import errors
from memoryd.cli import exits
from memoryd.cli.help import prose
from memoryd.cli.help.render import Entry, Section, as_man_page, as_text
from memoryd.cli.help.tables import TOPICS
from memoryd.cli.main import run
from memoryd.cli.program import cli
from memoryd.config.keys import DAEMON, ENDPOINT, MEMORY_CONFIGURATION, POLICY, ROOT, SCHEDULE, SEARCH
from memoryd.config.load import load
from memoryd.config.places import find_places
from memoryd.control.methods import METHODS, TABLE
from memoryd.control.methods.method_types import TOPICS as EVENT_TOPICS
from memoryd.control.parameters import check_params
from memoryd.core.defaults import DEFAULT_SCHEDULE
from memoryd.errors import MemorydError
from memoryd.layouts.codes import CODES
from memoryd.layouts.registry import LAYOUTS, known_limits
from tests.readme import MAN_PAGE

NEEDED = {"keys", "findings", "methods", "layouts", "jobs", "exit-codes", "files", "commands", "ranking", "decisions"}


def topic(name: str) -> str:
    result = CliRunner().invoke(cli, ["help", name], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def terms(name: str) -> list[str]:
    assert isinstance(cli, click.Group)
    return [entry.term for section in TOPICS[name].sections(cli) for entry in section.entries]


def first_words(name: str) -> list[str]:
    return [re.split(r"[ (]", term)[0] for term in terms(name)]


def test_every_topic_is_listed() -> None:
    assert set(TOPICS) >= NEEDED
    listed = CliRunner().invoke(cli, ["help"]).output
    assert all(re.search(rf"^  {name} +\S", listed, re.MULTILINE) for name in TOPICS)


@pytest.mark.parametrize("name", TOPICS)
def test_a_topic_fits_80_columns(name: str) -> None:
    assert isinstance(cli, click.Group)
    assert [line for line in as_text(TOPICS[name].sections(cli)).splitlines() if len(line) > 80] == []


def command_lines() -> list[list[str]]:
    """Every command, and every command of a group."""
    assert isinstance(cli, click.Group)
    ctx = click.Context(cli)
    lines: list[list[str]] = [[]]
    for name in cli.list_commands(ctx):
        command = cli.get_command(ctx, name)
        lines += [[name], *([name, inner] for inner in getattr(command, "commands", ()))]
    return lines


@pytest.mark.parametrize("words", command_lines(), ids=" ".join)
def test_the_help_of_a_command_fits_80_columns_and_is_not_cut(words: list[str]) -> None:
    printed = CliRunner().invoke(cli, [*words, "--help"], catch_exceptions=False, terminal_width=80).output
    assert [line for line in printed.splitlines() if len(line) > 80] == []
    assert not re.search(r"\w\.\.\.$", printed.partition("Commands:")[2], re.MULTILINE)


def test_the_findings_are_all_there() -> None:
    assert first_words("findings") == list(CODES)
    fixable = {re.split(r"[ (]", term)[0] for term in terms("findings") if "fixable" in term}
    assert fixable == {name for name, code in CODES.items() if code.fixable}


def test_the_methods_and_their_errors_are_all_there() -> None:
    assert first_words("methods")[: len(METHODS)] == [method.name for method in METHODS]
    text = " ".join(topic("methods").split())
    for method in METHODS:
        for param in method.params:
            assert f"{param.name}{'' if param.required else '?'} (" in text
            assert param.help in text
    assert f"Topics: {', '.join(EVENT_TOPICS)}." in text
    kinds = (each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, MemorydError))
    codes = {str(kind.rpc_code) for kind in kinds}
    assert set(first_words("methods")[len(METHODS) :]) == codes


def test_the_keys_are_all_there() -> None:
    tables = (DAEMON, SEARCH, ENDPOINT, POLICY, SCHEDULE, ROOT, MEMORY_CONFIGURATION)
    assert set(first_words("keys")) == {"secrets"}.union(*tables)
    assert "archive_tasks_after_days = 30" in terms("keys")


def test_the_layouts_and_their_jobs_are_all_there() -> None:
    text = topic("layouts")
    for name, layout in LAYOUTS.items():
        assert f"\n{name}\n" in text
        assert f"Scheduled jobs: {', '.join(layout.jobs)}." in text
    assert set(first_words("layouts")) == {field for layout in LAYOUTS.values() for field in layout.fields}


def test_the_jobs_and_their_times_are_all_there() -> None:
    assert terms("jobs")[1:] == [f"{job} ({schedule})" for job, schedule in DEFAULT_SCHEDULE.items()]


def test_the_exit_codes_are_all_there() -> None:
    codes = {value for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)}
    assert [int(term) for term in terms("exit-codes")] == sorted(codes)


def test_the_example_configuration_can_be_used(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(prose.KEYS_EXAMPLE)
    config = load(find_places(config=str(path), state_dir=str(tmp_path / "s")), [], known_limits=known_limits())
    assert [root.name for root in config.roots] == ["agents"]
    assert config.roots[0].policy.schedule["archive"] == "15 3 * * 1-5"


def test_the_example_session_can_be_typed() -> None:
    unwrapped = prose.SOCKET_EXAMPLE.strip().replace("\n  ", "")
    lines = [line for line in unwrapped.splitlines() if not line.startswith("$")]
    for line in lines:
        message = json.loads(line.removeprefix("> "))
        if line.startswith("> "):
            check_params(TABLE[message["method"]], message.get("params", {}))
    assert sum(line.startswith("> ") for line in lines) == 3


def test_a_command_has_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["help", "archive"]) == 0
    assert "Usage: memoryd archive" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["add", "update"])
def test_a_command_that_takes_fields_lists_those_of_each_layout(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "--help"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for name, layout in LAYOUTS.items():
        assert not layout.fields or f"{name} {', '.join(layout.fields)}" in printed


def test_an_unknown_topic_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["help", "findngs"]) == exits.USAGE
    assert "findings" in capsys.readouterr().err


def test_roff_takes_no_character_for_a_request() -> None:
    page = as_man_page([Section("a", "-x 'y' `z` \\", (Entry(".lock", ".TH"),))], version="1", summary="does it")
    assert ".B \\&.lock\n\\&.TH\n" in page
    assert "\\-x \\(aqy\\(aq \\(gaz\\(ga \\e" in page


def test_man_renders_the_page_without_a_warning() -> None:
    if shutil.which("man") is None:
        pytest.skip("man is not installed")
    env = {**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8"}
    words = ["man", "--warnings", "-l", str(MAN_PAGE)]
    done = subprocess.run(words, capture_output=True, text=True, env=env, timeout=60, check=True)
    assert done.stderr == ""
    assert "memoryd service install" in done.stdout
