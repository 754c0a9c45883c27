"""The agents of the demo: programs that know nothing of memoryd, only the published steps of their format.

`python -I agents.py write ROOT FILE` appends each memory on standard input to a file of a JSONL store, under its lock;
`die ROOT` takes that lock and is killed, `die-archiving ROOT` does so with the `.archive.lock` of session files. Each
step is reported on standard output as a JSON object; `at` and `closed` are seconds of the monotonic clock.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import sys
import time
from datetime import UTC, datetime
from typing import TextIO

POLL_S = 0.02
REPORT_S = 0.3  # a longer wait for the lock is reported
PAUSE_S = 0.2  # between two memories


def report(event: str, **facts: object) -> None:
    """Print one step: its name, the process, the time and what belongs to it."""
    sys.stdout.write(json.dumps({"event": event, "pid": os.getpid(), "at": time.monotonic(), **facts}) + "\n")
    sys.stdout.flush()


def stamp() -> str:
    """Return the current time in the form that the formats use."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def acquire(path: str) -> TextIO:
    """Take the lock as published: wait until no lock file exists, open it, flock it, write PID and time."""
    began, reported = time.monotonic(), False
    while True:
        while os.path.exists(path):
            if not reported and time.monotonic() - began > REPORT_S:
                reported = True
                report("waits")
            time.sleep(POLL_S)
        lock = open(path, "w", encoding="utf-8")  # noqa: SIM115 - open for as long as the lock is held
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.stat(path), os.fstat(lock.fileno())):
                break
        lock.close()  # the previous holder has removed this file; the lock is another file now
    lock.write(f"{os.getpid()} {stamp()}")
    lock.flush()
    return lock


def append(root: str, file: str, memory: dict[str, object]) -> None:
    """Append one memory under the lock, then unlock, close and remove, in the published order."""
    path, now = os.path.join(root, ".lock"), stamp()
    lock = acquire(path)
    with open(os.path.join(root, file), "a", encoding="utf-8") as target:
        native = {**memory, "created_at": now, "updated_at": now, "accessed_at": now}
        target.write(json.dumps(native, separators=(",", ":"), ensure_ascii=False) + "\n")
    closed = time.monotonic()
    fcntl.flock(lock, fcntl.LOCK_UN)
    lock.close()
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)
    report("wrote", id=memory["id"], content=memory["content"], closed=closed)


def main(do: str, root: str, file: str = "") -> None:
    """Do the job. Does not return if the agent is to be killed."""
    if do == "die-archiving":
        with open(os.path.join(root, ".archive.lock"), "x", encoding="utf-8") as lock:
            json.dump({"pid": os.getpid(), "started_at": stamp()}, lock)
    elif do == "die":
        lock_file = acquire(os.path.join(root, ".lock"))
        report("took the lock", fd=lock_file.fileno())
    if do != "write":
        os.kill(os.getpid(), signal.SIGKILL)
    for line in sys.stdin:
        append(root, file, json.loads(line))
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
