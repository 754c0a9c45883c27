"""`.ci/env` on machines that lack something, played by a small shell script in the place of Python."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "env"

# Answers as Python would. LACKS names what it cannot do: ensurepip, venv, pip. An environment has pip once the file
# `has-pip` lies in it. Every call is written down.
PLAYED = """#!/bin/sh
here=$(dirname "$(dirname "$0")")
echo "$*" >> "$CALLS"
lacks() { case " $LACKS " in *" $1 "*) return 0 ;; esac; return 1; }
make() {
    mkdir -p "$1/bin"
    : > "$1/pyvenv.cfg"
    cp "$0" "$1/bin/python"
}
case "$*" in
    -c*) echo "${VERSION-3.11}" ;;
    "-m venv --without-pip "*) lacks venv && exit 1; make "$4" ;;
    "-m venv "*) lacks venv && exit 1; make "$3"; lacks ensurepip && exit 1; : > "$3/has-pip" ;;
    "-m pip --python "*) lacks pip && exit 1; : > "$(dirname "$(dirname "$4")")/has-pip" ;;
    "-m pip install --quiet --target "*) lacks pip && exit 1; exit 0 ;;
    "-m virtualenv "*) make "$4"; : > "$4/has-pip" ;;
    "-m pip --version") [ -f "$here/has-pip" ] ;;
    "-m pip install "*) exit 0 ;;
    *) exit 64 ;;
esac
"""


class Machine:
    def __init__(self, base: Path) -> None:
        self.base = base
        self.python = base / "played" / "python3"
        self.python.parent.mkdir()
        self.python.write_text(PLAYED)
        self.python.chmod(0o755)
        self.calls = base / "calls"

    def make(self, *words: str, lacks: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        env = {"PYTHON": str(self.python), "LACKS": lacks, "CALLS": str(self.calls)} | env
        return subprocess.run(
            ["sh", str(SCRIPT), *words], env={**os.environ, **env}, capture_output=True, text=True, timeout=60
        )

    def last_call(self) -> str:
        return self.calls.read_text().splitlines()[-1]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("lacks", ["", "ensurepip", "venv ensurepip"])
def test_an_environment_is_made_whatever_is_missing(machine: Machine, lacks: str) -> None:
    done = machine.make(str(machine.base / "v"), "test", lacks=lacks)
    assert (done.returncode, done.stderr) == (0, "")
    assert (machine.base / "v" / "has-pip").exists()
    assert machine.last_call().endswith("-e .[test]")


def test_without_an_extra_it_installs_the_package_alone(machine: Machine) -> None:
    assert machine.make(str(machine.base / "v")).returncode == 0
    assert machine.last_call().endswith("-e .")


def test_an_environment_that_works_is_kept(machine: Machine) -> None:
    directory = machine.base / "v"
    machine.make(str(directory))
    (directory / "kept").touch()
    assert machine.make(str(directory)).returncode == 0
    assert (directory / "kept").exists()


def test_a_directory_of_somebody_is_left_as_it_is(machine: Machine) -> None:
    directory = machine.base / "papers"
    directory.mkdir()
    (directory / "letter").write_text("dear")
    done = machine.make(str(directory))
    assert done.returncode == 1
    assert "is no virtual environment" in done.stderr
    assert (directory / "letter").read_text() == "dear"


def test_when_nothing_helps_it_says_what_to_do(machine: Machine) -> None:
    done = machine.make(str(machine.base / "v"), lacks="pip venv ensurepip")
    assert done.returncode == 1
    assert "python3-venv" in done.stderr


def test_without_a_python_that_is_new_enough_it_says_so(machine: Machine) -> None:
    done = machine.make(str(machine.base / "v"), VERSION="")
    assert done.returncode == 1
    assert "no Python 3.11 or newer" in done.stderr


def test_the_interpreters_of_this_machine_are_listed(machine: Machine) -> None:
    done = machine.make("--pythons", VERSION="3.12")
    assert done.stdout == f"3.12 {machine.python}\n"
