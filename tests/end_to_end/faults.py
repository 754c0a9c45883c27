"""Faults from outside, for a daemon that runs."""

from __future__ import annotations

import shutil
import subprocess

import pytest


class Fault:
    """Lets a running daemon meet a fault at its nth call of one kind, in whichever thread. `number`: as strace takes
    it, "1+" means every call. `only`: calls on this file, named as in the call."""

    def __init__(self, pid: int, call: str, fault: str, number: int | str, *, only: str | None = None) -> None:
        what = f"inject={call}:{fault}:when={number}"
        command = ["strace", "-f", "-o", "/dev/null", "-e", f"trace={call}", "-e", what, "-p", str(pid)]
        command += ["-P", only] if only else []
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        assert "attached" in self.process.stderr.readline()

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, *unused: object) -> None:
        """What strace holds goes on. Killed, because it waits for ever for a leader that died before its threads."""
        self.process.kill()
        self.process.communicate()


needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
