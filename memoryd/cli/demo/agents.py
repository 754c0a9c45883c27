"""The agents of the demo: programs of their own that know nothing of memoryd, only the JSONL store's published
steps: take `.lock`, append one line, give `.lock` back. The index they leave to memoryd. One is the archiver of
session files, which makes `.archive.lock` and never looks at one that is there.

Run as `python -I agents.py JOB`, where JOB is JSON: {"do": "write", "root", "file", "batches", "think"},
{"do": "die", "root"} or {"do": "die archiving", "root"}. `batches` are lists of memories; before each one the agent
waits for a line on standard input. Everything it does it tells on standard output, one JSON object a line; times
there are seconds of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import signal
import sys
import time
from datetime import UTC, datetime
from typing import Any, TextIO

LOOK_S = 0.02
PATIENCE_S = 0.3  # a wait for the lock that is longer than this is worth telling


def tell(event: str, **facts: Any) -> None:
    told = {"event": event, "pid": os.getpid(), "at": time.monotonic(), **facts}
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def stamp() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def acquire(path: str) -> TextIO:
    """The published way, `open('.lock', 'w')` and flock, once no lock file is there: its existence counts."""
    began, told = time.monotonic(), False
    while True:
        while os.path.exists(path):
            if not told and time.monotonic() - began > PATIENCE_S:
                told = True
                tell("waits", since=began)
            time.sleep(LOOK_S)
        lock = open(path, "w", encoding="utf-8")  # noqa: SIM115 - it stays open for as long as the lock is held
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _names(path, lock):
            break
        lock.close()  # whoever held it has removed the file: the lock is now another file, or none
    lock.write(f"{os.getpid()} {stamp()}")
    lock.flush()
    if told:
        tell("goes on", waited=time.monotonic() - began)
    return lock


def _names(path: str, lock: TextIO) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.stat(path), os.fstat(lock.fileno()))
    return False


def release(path: str, lock: TextIO) -> None:
    """In the published order: unlock, close, then remove."""
    fcntl.flock(lock, fcntl.LOCK_UN)
    lock.close()
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)


def write(root: str, file: str, memory: dict[str, Any]) -> None:
    now = stamp()
    native = {**memory, "created_at": now, "updated_at": now, "accessed_at": now}
    lock = acquire(os.path.join(root, ".lock"))
    with open(os.path.join(root, file), "a", encoding="utf-8") as target:
        target.write(json.dumps(native, separators=(",", ":"), ensure_ascii=False) + "\n")
    closed = time.monotonic()
    release(os.path.join(root, ".lock"), lock)
    tell("wrote", id=native["id"], file=file, closed=closed)


def archive(root: str) -> None:
    """Begin as the archiver does, and come no further."""
    with open(os.path.join(root, ".archive.lock"), "x", encoding="utf-8") as lock:
        json.dump({"pid": os.getpid(), "started_at": stamp()}, lock)
    tell("took the lock")
    os.kill(os.getpid(), signal.SIGKILL)


def main(job: dict[str, Any]) -> None:
    if job["do"] == "die archiving":
        archive(job["root"])
    if job["do"] == "die":
        lock = acquire(os.path.join(job["root"], ".lock"))
        tell("took the lock")
        os.kill(os.getpid(), signal.SIGKILL)
        release(os.path.join(job["root"], ".lock"), lock)  # never reached, which is the point
    for batch in job["batches"]:
        if not sys.stdin.readline():
            return  # whoever plays the demo has gone
        for memory in batch:
            write(job["root"], job["file"], memory)
            time.sleep(random.uniform(*job["think"]))  # noqa: S311 - a pause, no secret
        tell("done")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
