"""What a process uses, read from /proc: memory, processor time, wake-ups."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_KB = re.compile(r"^(VmRSS|VmHWM):\s+(\d+) kB", re.MULTILINE)
_SWITCHES = re.compile(r"^voluntary_ctxt_switches:\s+(\d+)", re.MULTILINE)
QUIET_MS = 20.0  # of processor time in a quiet half second
QUIET_TIMES = 3  # quiet half seconds in a row


def resident_mb(pid: int) -> tuple[float, float]:
    """Megabytes resident now, and the most there ever were."""
    found = dict(_KB.findall(Path(f"/proc/{pid}/status").read_text()))
    return int(found["VmRSS"]) / 1024, int(found["VmHWM"]) / 1024


def bare_interpreter_mb() -> float:
    """Megabytes resident of an interpreter that only waits."""
    words = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as waiting:
        assert waiting.stdout is not None
        waiting.stdout.readline()
        resident = resident_mb(waiting.pid)[0]
        waiting.communicate(b"\n")
    return resident


def processor_s(pid: int) -> float:
    """Seconds that all threads have used, as the scheduler counts them: ticks miss what is shorter than they are."""
    return sum(int(text.split()[0]) for text in _of_threads(pid, "schedstat")) / 1e9


def wakeups(pid: int) -> int:
    """How often threads of the process have waited and were woken."""
    return sum(int(found[1]) for text in _of_threads(pid, "status") if (found := _SWITCHES.search(text)))


def _of_threads(pid: int, name: str) -> Iterable[str]:
    """The file of each thread; one that ends meanwhile is left out."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob(f"*/{name}"):
        with suppress(FileNotFoundError, ProcessLookupError):
            found.append(path.read_text())
    return found


def await_quiet(pid: int, timeout_s: float) -> bool:
    """Wait until the process has nothing to do; False if that never came."""
    deadline, quiet = time.monotonic() + timeout_s, 0
    before = processor_s(pid)
    while quiet < QUIET_TIMES and time.monotonic() < deadline:
        time.sleep(0.5)
        now = processor_s(pid)
        quiet = quiet + 1 if (now - before) * 1000 < QUIET_MS else 0
        before = now
    return quiet >= QUIET_TIMES
