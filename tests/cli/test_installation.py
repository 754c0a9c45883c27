"""The install command of an extra: it uses the tool of this installation, and never a package named memoryd."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memoryd.cli.exits import command_for, packages_of, report_error
from memoryd.errors import InvalidMemoryError
from memoryd.mcp.tools import error_data, error_text

LISTED = ["numpy>=2", 'mcp<3,>=2.3; extra == "mcp"', "onnxruntime>=1.20; extra == 'minilm'", 'x==1; extra == "minilm"']


def test_the_packages_of_an_extra() -> None:
    assert packages_of("minilm", LISTED) == ["onnxruntime>=1.20", "x==1"]
    assert packages_of("mcp", LISTED) == ["mcp<3,>=2.3"]
    assert packages_of("mcp")[0].startswith("mcp"), "according to the metadata of this installation"


@pytest.mark.parametrize(
    ("receipt", "begins"),
    [
        ("pipx_metadata.json", "pipx inject memoryd "),
        ("uv-receipt.toml", "uv pip install --python /x/python "),
        ("pyvenv.cfg", "/x/python -m pip install "),
    ],
)
def test_by_the_tool_that_made_it_wherever_it_keeps_its_environments(tmp_path: Path, receipt: str, begins: str) -> None:
    prefix = tmp_path / "memoryd"
    prefix.mkdir()
    (prefix / receipt).touch()
    command = command_for("mcp", str(prefix), "/x/python")
    assert command.startswith(begins)
    assert "memoryd[" not in command


def test_the_install_command_is_for_people_not_agents(capsys: pytest.CaptureFixture[str]) -> None:
    error = InvalidMemoryError("no embedder", hint="give a vector", data={"extra": "minilm"})
    report_error(error, as_json=False)
    assert "onnxruntime" in capsys.readouterr().err
    assert "install" not in error_text(error) + json.dumps(error_data(error))


def test_no_text_of_the_program_names_memoryd_in_the_package_index() -> None:
    source = Path(__file__).parents[2]
    texts = [*(source / "memoryd").rglob("*.py"), source / "README.md"]
    assert [str(path) for path in texts if "install 'memoryd[" in path.read_text()] == []
