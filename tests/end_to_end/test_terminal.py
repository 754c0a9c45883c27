"""What a command prints on a terminal does not control it, wherever the text comes from."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import time
from pathlib import Path

import pytest

from tests.agents import line, memory
from tests.daemon import Daemon
from tests.end_to_end.conftest import MakeDaemon

pytestmark = pytest.mark.slow

EVIL = "\x1b]0;OWNED\x07\x1b[2Jx"  # sets the title, rings, clears the screen
MISSING = f"no-{EVIL}"
COMMANDS = (
    ["forget", MISSING],
    ["get", MISSING],
    ["unarchive", MISSING],
    ["archive", MISSING],
    ["undo", MISSING],
    ["update", MISSING, "content=x"],
    ["search", "--root", MISSING, "x"],
    ["sync", "--root", MISSING],
    ["backup", "restore", MISSING],
    ["lock", "clear", "--force", MISSING],
    ["jobs", "run", MISSING],
    ["check", "--offline", MISSING],
    ["add", "--file", MISSING],
    ["get", EVIL],
    ["forget", EVIL],
    ["list"],
    ["search", "heron"],
    ["check"],
    ["history"],
)


def on_a_terminal(tending: Daemon, *words: str) -> tuple[int, bytes]:
    """Run a command with its standard output and error on a terminal: its exit code and every byte of it."""
    ours, its = pty.openpty()
    env = {**tending.env, "TERM": "xterm-256color", "COLUMNS": "200"}
    child = subprocess.Popen(tending.command(*words), stdin=subprocess.DEVNULL, stdout=its, stderr=its, env=env)
    os.close(its)
    out, end = b"", time.monotonic() + 60
    while select.select([ours], [], [], max(0, end - time.monotonic()))[0]:
        try:
            out += os.read(ours, 65_536)
        except OSError:  # the command has ended
            break
    os.close(ours)
    return child.wait(60), out


def test_no_command_passes_a_control_sequence_on(root: Path, daemon: MakeDaemon, tmp_path: Path) -> None:
    evil = {**memory(), "id": EVIL, "content": f"a heron {EVIL}", "category": EVIL, "tags": [EVIL]}
    (root / "learnings.jsonl").write_text(line(evil) + line(memory()))
    tending = daemon(root).start()
    tending.rpc("sync")
    assert json.loads(tending.run("list", "--json", "--limit", "9").stdout)["memories"]
    shown = 0
    for words in COMMANDS:
        _, out = on_a_terminal(tending, *words)
        assert b"Traceback" not in out, (words, out)
        assert b"\x1b]" not in out, (words, out)
        assert b"\x1b[2J" not in out, (words, out)
        assert b"\x07" not in out, (words, out)
        shown += b"OWNED" in out
    assert shown > len(COMMANDS) // 2, "the text itself is shown, escaped"
