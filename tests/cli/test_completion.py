"""Completion in the real shells, with the script that `memoryd completion` prints."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.daemon import Daemon

BASH = """
source <(memoryd completion bash)
COMP_WORDS=({line}); COMP_CWORD=$(({count}))
complete -p memoryd > /dev/null && _memoryd_completion memoryd; printf '%s\n' "${{COMPREPLY[@]}}"
"""
FISH = 'memoryd completion fish | source; complete -C "{line}"'

# zsh completes in a terminal only: one zsh types into another, presses TAB and reads until the word appears.
ZSH = """
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'PS1=; autoload -Uz compinit; compinit -u -d {dump}; eval "$(memoryd completion zsh)"; echo RE""ADY'
zpty -r -m shell ready '*READY*'
zpty -w -n shell '{line}'$'\\t'
zpty -r -m shell shown '*{word}*'
"""


def bash(line: str) -> str:
    words = line.split(" ")
    return BASH.format(line=" ".join(word or "''" for word in words), count=len(words) - 1)


SHELLS: dict[str, Callable[[str], str]] = {"bash": bash, "fish": lambda line: FISH.format(line=line)}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment whose `memoryd` is the one that is tested."""
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "memoryd"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m memoryd "$@"\n')
    program.chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(Path(__file__).parents[2]), "HOME": str(tmp_path)}


def complete(shell: str, line: str, environment: dict[str, str]) -> list[str]:
    """Type the line into the shell, press TAB, and return the words that it offers."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    command = [shell, "-c", SHELLS[shell](line)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    return [each.partition("\t")[0].rpartition(",")[2] for each in done.stdout.split("\n")]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("memoryd ba", ["backup"]),
        ("memoryd backup ", ["create", "list", "restore", "verify"]),
        ("memoryd repair --code torn-", ["torn-file", "torn-tail"]),
        ("memoryd search --type brea", ["breakthrough"]),
        ("memoryd log-level d", ["debug"]),
    ],
)
def test_words_of_the_program_are_completed(
    shell: str, line: str, offered: list[str], environment: dict[str, str]
) -> None:
    assert set(offered) <= set(complete(shell, line, environment))


@pytest.mark.parametrize("shell", SHELLS)
def test_roots_and_receipts_are_those_of_the_daemon(shell: str, tmp_path: Path, environment: dict[str, str]) -> None:
    root = tmp_path / "orchard"
    root.mkdir()
    with Daemon(tmp_path / "d", root).start() as daemon:
        daemon.run("add", "type=core", "content=a")
        [receipt] = [each["receipt"] for each in daemon.rpc("history.list")["entries"] if each["operation"] == "add"]
        asking = {**environment, "MEMORYD_SOCKET": daemon.socket}
        assert "orchard" in complete(shell, "memoryd status or", asking)
        assert receipt in complete(shell, "memoryd undo ", asking)


@pytest.mark.parametrize(
    ("line", "word"),
    [("memoryd backup ", "verify"), ("memoryd ba", "ckup"), ("memoryd repair --code torn-", "torn-tail")],
)
def test_zsh_lists_or_inserts_the_words(line: str, word: str, tmp_path: Path, environment: dict[str, str]) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    script = ZSH.format(line=line, word=word, dump=tmp_path / "dump")
    subprocess.run(["zsh", "-f", "-c", script], env=environment, capture_output=True, timeout=60, check=True)


@pytest.mark.slow
def test_zsh_offers_no_word_that_does_not_exist(tmp_path: Path, environment: dict[str, str]) -> None:
    """Shows that the test above can fail."""
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    script = ZSH.format(line="memoryd backup ", word="nonsense", dump=tmp_path / "dump")
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(["zsh", "-f", "-c", script], env=environment, capture_output=True, timeout=3, check=False)
