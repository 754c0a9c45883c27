"""How long `memoryd stop` waits, and when a process counts as dead."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from memoryd.cli import calls
from memoryd.disk import processes
from memoryd.errors import MemorydError
from tests.daemon import PATIENCE_S, until

EXIT = {"x86_64": 60, "aarch64": 93}  # the system call that ends one thread
# Its first thread ends before the other, which waits for a line.
PROGRAM = """
import ctypes, sys, threading
threading.Thread(target=sys.stdin.readline).start()
ctypes.CDLL(None).syscall(int(sys.argv[1]), 0)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in EXIT, reason="no number of the system call is known"
)
def test_a_process_has_not_ended_before_its_last_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a daemon of which one thread still writes, or of a program that still holds a lock."""
    command = [sys.executable, "-c", PROGRAM, str(EXIT[platform.machine()])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as process:
        watched = psutil.Process(process.pid)
        until(lambda: watched.status() == psutil.STATUS_ZOMBIE, "its first thread has ended")
        assert processes.liveness(process.pid)[0] == "alive"
        monkeypatch.setattr(calls, "STOP_WAIT_S", 0.1)
        with pytest.raises(MemorydError, match="still stopping"):
            calls.wait_until_stopped("", process.pid)
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        monkeypatch.setattr(calls, "STOP_WAIT_S", PATIENCE_S)
        calls.wait_until_stopped("", process.pid)
        assert process.poll() == 0


def test_a_daemon_with_the_pid_of_the_client_has_stopped_once_nothing_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are process 1, each of its own container."""
    monkeypatch.setattr(calls, "STOP_WAIT_S", 0.1)
    calls.wait_until_stopped(str(tmp_path / "socket"), os.getpid())
