"""Commands of the program in processes of their own that need not import it: short commands hardly do anything else.

A server imports the program once and forks for each command. The fork has its own arguments, environment, directory and
streams, and ends as any other process does. Tests of imports, signals and shells start `python -m memoryd` themselves.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Timer

from memoryd.cli.main import main

TOP = Path(__file__).parents[1]
LOADED = [
    *(f"memoryd.cli.{name}" for name in ("program", "first_contact", "local_commands", "progress_bar", "views")),
    *(f"memoryd.config.{name}" for name in ("detect", "edit", "show", "template")),
    *("memoryd.engine.preview", "memoryd.layouts.codes", "memoryd.operations.offline"),
]
"""Modules that commands import only where they need them."""

_idle: list[subprocess.Popen[str]] = []


def run_program(
    *argv: str,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    stdin: str = os.devnull,
    timeout: float = 60.0,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. `stdin` is the path of a file or a terminal. Too late, the command is killed."""
    server = _idle.pop() if _idle else _start()
    with tempfile.TemporaryDirectory(prefix="md-") as place:
        streams = [stdin, f"{place}/out", f"{place}/err"]
        code = _ask(server, [argv, dict(os.environ if env is None else env), str(cwd or Path.cwd()), streams], timeout)
        out, err = (Path(path).read_text(encoding="utf-8") for path in streams[1:])
    _idle.append(server)
    return subprocess.CompletedProcess(argv, code, out, err)


def _start() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.program"]
    started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=TOP)
    atexit.register(started.communicate)
    return started


def _ask(server: subprocess.Popen[str], request: object, timeout: float) -> int:
    """Return the exit code of the command, as `Popen` has it."""
    assert server.stdin
    assert server.stdout
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    late = Timer(timeout, os.kill, (int(server.stdout.readline()), signal.SIGKILL))
    late.start()
    code = int(server.stdout.readline())
    late.cancel()
    return code


def _serve() -> None:
    """Answer each request with the process id of its command, and then with its exit code."""
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _become(*json.loads(line))
            return main()
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    return None


def _become(argv: list[str], env: dict[str, str], cwd: str, streams: list[str]) -> None:
    for number, path in enumerate(streams):
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOCTTY, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - stays open, as a stream does
    sys.argv[1:] = argv
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()


if __name__ == "__main__":
    sys.argv[0] = str(TOP / "memoryd" / "__main__.py")
    for module in LOADED:
        importlib.import_module(module)
    gc.freeze()
    _serve()
