"""What a process uses, read from /proc: memory, processor time, wake-ups."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter
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
    return sum(int(text.split()[0]) for text in _of_threads(pid, "schedstat").values()) / 1e9


def wakeups(pid: int) -> Counter[str]:
    """How often each thread of the process has waited and was woken.

    The difference of two counters leaves out a thread that has ended in between; the difference of two sums would take
    away all that it ever counted.
    """
    texts = _of_threads(pid, "status").items()
    return Counter({thread: int(found[1]) for thread, text in texts if (found := _SWITCHES.search(text))})


def _of_threads(pid: int, name: str) -> dict[str, str]:
    """The file of each thread; one that ends meanwhile is left out."""
    found = {}
    for path in Path(f"/proc/{pid}/task").glob(f"*/{name}"):
        with suppress(FileNotFoundError, ProcessLookupError):
            found[path.parent.name] = path.read_text()
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
