"""Commands in a process that has the program loaded: they do what they do in one that imports it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.program import run_program


def start_program(*argv: str, env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "memoryd", *argv]
    return subprocess.run(
        command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["try", "store"], 0),
        (["check", "--offline", "store"], 1),
        (["init", "--dry-run"], 0),
        (["config", "show"], 0),
        (["plan"], 69),
        (["serach"], 2),
    ],
)
def test_a_loaded_program_answers_as_a_started_one(tmp_path: Path, words: list[str], code: int) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "learnings.jsonl").write_text('{"id": "a", "content": "b", "type": "learning"}\n{broken\n')
    env = {**os.environ, "HOME": str(tmp_path), "MEMORYD_SOCKET": str(tmp_path / "none"), "COLUMNS": "70"}
    loaded, started = (run(*words, env=env, cwd=tmp_path) for run in (run_program, start_program))
    assert (loaded.returncode, loaded.stdout, loaded.stderr) == (code, started.stdout, started.stderr)
    assert started.returncode == code


def test_one_command_leaves_nothing_to_the_next(tmp_path: Path) -> None:
    """Its environment and its directory are its own."""
    (tmp_path / "c.toml").write_text("[daemon]\nx = 1\n")
    env = {**os.environ, "MEMORYD_CONFIG": "c.toml"}
    assert run_program("config", "validate", env=env, cwd=tmp_path).returncode == 78
    assert run_program("config", "validate", env={**os.environ, "HOME": str(tmp_path)}).returncode == 0


def test_a_command_that_takes_too_long_is_killed() -> None:
    with socket.socket(socket.AF_UNIX) as silent, tempfile.TemporaryDirectory(prefix="md-") as short:
        silent.bind(f"{short}/c")
        silent.listen(1)
        assert run_program("--socket", f"{short}/c", "ping", timeout=0.1).returncode == -signal.SIGKILL
    assert run_program("version").returncode == 0
