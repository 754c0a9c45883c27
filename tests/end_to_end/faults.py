"""Faults from outside, for a daemon that runs."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from memoryd.errors import MemorydError, NoDaemonError
from tests.daemon import Daemon


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


def archive_until(tending: Daemon, call: str, number: int) -> bool:
    """Archive while the daemon is killed before its nth call of one kind; then start it again. False if it survived:
    the run makes fewer calls. What it does after its answer may be the call as well."""
    with Fault(tending.pid, call, "signal=SIGKILL", number):
        refusal(tending)
    try:
        tending.rpc("ping")
    except NoDaemonError:
        tending.wait()
        tending.start()
        return True
    return False


needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


def mounts_work() -> bool:
    """True if this user may mount in a namespace of its own."""
    return os.geteuid() == 0 and os.system("unshare -m --propagation private mount -t tmpfs none /mnt 2>/dev/null") == 0


def refusal(tending: Daemon) -> MemorydError | None:
    """The error that an archive run ends with; None if it succeeds."""
    try:
        tending.rpc("archive")
    except MemorydError as error:
        return error
    return None
