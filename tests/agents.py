"""Agents that work on a JSONL store by the seed's published steps, to the letter, as processes of their own.

The steps are unsafe (unlock, close, then remove lets two writers in at once) and stay so: these are the
programs memoryd has to live beside. Each one tells in a report what it did, one JSON line a section:

    {"id", "file", "began", "ended", "before", "after", "renamed", "dropped"}

`id`: of the memory whose write returned. `began`, `ended`: monotonic nanoseconds between the flock and its
release. `before`, `after`: the inodes of the live file and of `index.json` at both ends. `renamed`: inode of
the rewrite that this section put in place, `dropped`: ids that stood in what it replaced and not in the rewrite.

As a program: `python tests/agents.py ROOT REPORT [options]`; it ends by SIGTERM, and then exits with 0.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

RENAME_EXCHANGE = 2
AT_FDCWD = -100
FILE = "learnings.jsonl"


def memory(*, days: float = 0, kind: str = "learning", **more: Any) -> dict[str, Any]:
    """A memory as the seed writes it, last used so many days ago."""
    at = (datetime.now(UTC) - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "id": str(uuid.uuid4()),
        "type": kind,
        "content": f"what was learnt at {at} in Zürich 東京",
        "category": random.choice(["fact", "preference", "Ä/ö"]),
        "created_at": at,
        "updated_at": at,
        "accessed_at": at,
        "access_count": random.randrange(9),
        "tags": random.sample(["python", "testing", "東京", "a b"], random.randrange(3)),
        "importance": random.choice(["high", "medium", "low"]),
        "archived": False,
        **more,
    }


def line(native: dict[str, Any]) -> str:
    return json.dumps(native, separators=(",", ":")) + "\n"


class Agent:
    """One writer. `root` is its working directory: the steps name `.lock` without a path."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.report = os.open(options.report, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.updates = os.open(f"{os.path.dirname(options.report)}/updates.lock", os.O_WRONLY | os.O_CREAT, 0o600)
        self.replaced: list[tuple[dict[str, Any], int, set[str]]] = []
        self.ended = False

    def run(self) -> None:
        signal.signal(signal.SIGTERM, self._end)
        os.chdir(self.options.root)
        low, high = self.options.think_ms
        while not self.ended:
            self._tell(self._section())
            if high:
                time.sleep(random.uniform(low, high) / 1000)
        for told, fd, _ in self.replaced:
            self._settle(told, fd)

    def hold(self) -> None:
        """Take the lock, say so, and keep it for as long as the process lives."""
        os.chdir(self.options.root)
        self.held = self._lock()
        print("held", flush=True)
        while True:
            signal.pause()

    def _end(self, number: int, frame: object) -> None:
        self.ended = True

    def _tell(self, told: dict[str, Any]) -> None:
        os.write(self.report, line(told).encode())

    # --- the published steps

    def _lock(self) -> Any:
        if self.options.style == "exists":
            while True:
                try:
                    made = os.open(".lock", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                except FileExistsError:
                    time.sleep(0.002)
                    continue
                os.write(made, f"{os.getpid()} {datetime.now(UTC).isoformat()}\n".encode())
                os.close(made)
                return None
        fd = open(".lock", "w")  # noqa: SIM115 - the seed's own line
        fcntl.flock(fd, fcntl.LOCK_EX)
        if self.options.named:  # "contains PID and timestamp"
            fd.write(f"{os.getpid()} {datetime.now(UTC).isoformat()}\n")
            fd.flush()
        return fd

    def _unlock(self, fd: Any) -> None:
        if fd is not None:
            fcntl.flock(fd, fcntl.LOCK_UN)
            fd.close()
        with contextlib.suppress(FileNotFoundError):
            os.remove(".lock")

    def _section(self) -> dict[str, Any]:
        native = memory(days=random.uniform(100, 400) if random.random() < self.options.old else 0)
        update = random.random() < self.options.update
        fd = self._lock()
        began, before = time.monotonic_ns(), _inodes()
        with open(FILE, "a", encoding="utf-8") as file:
            file.write(line(native))
        told: dict[str, Any] = {"id": native["id"], "file": FILE, "renamed": None, "dropped": []}
        if update:
            self._update(told)
        if self.options.linger_ms:
            time.sleep(self.options.linger_ms / 1000)
        told |= {"began": began, "ended": time.monotonic_ns(), "before": before, "after": _inodes()}
        self._unlock(fd)
        return told

    def _update(self, told: dict[str, Any]) -> None:
        """Read all, back up, write `file.jsonl.tmp`, rename.

        Two things beside the steps make the report exact: agents that update do not update at once (each
        other's `file.jsonl.tmp` is their own affair), and the rename exchanges, so that what it replaced
        can be read afterwards, with what others append to it late."""
        fcntl.flock(self.updates, fcntl.LOCK_EX)
        try:
            lines = Path(FILE).read_text(encoding="utf-8").splitlines(keepends=True)
            changed = [_touched(text) if number == len(lines) // 2 else text for number, text in enumerate(lines)]
            Path(f"{FILE}.backup").write_text("".join(lines), encoding="utf-8")
            Path(f"{FILE}.tmp").write_text("".join(changed), encoding="utf-8")
            private = f".agent-{os.getpid()}.tmp"
            os.rename(f"{FILE}.tmp", private)
            told["renamed"] = os.stat(private).st_ino
            if _exchange(private, FILE):
                self.replaced.append((told, os.open(private, os.O_RDONLY), _ids(changed)))
                os.unlink(private)
            else:
                os.rename(private, FILE)
        finally:
            fcntl.flock(self.updates, fcntl.LOCK_UN)

    def _settle(self, told: dict[str, Any], fd: int) -> None:
        written = next(ids for other, _, ids in self.replaced if other is told)
        found = _ids(os.pread(fd, os.fstat(fd).st_size, 0).decode("utf-8", "replace").splitlines())
        self._tell(told | {"id": None, "dropped": sorted(found - written)})


def _touched(text: str) -> str:
    try:
        native = json.loads(text)
    except ValueError:
        return text
    return line(native | {"access_count": native["access_count"] + 1})


def _ids(lines: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for text in lines:
        try:
            found.add(json.loads(text)["id"])
        except (ValueError, KeyError, TypeError):
            continue
    return found


def _inodes() -> list[int]:
    return [_inode(FILE), _inode("index.json")]


def _inode(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return 0


def _exchange(one: str, other: str) -> bool:
    """False where the other name does not exist."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(AT_FDCWD, one.encode(), AT_FDCWD, other.encode(), RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number == 2:
        return False
    raise OSError(number, os.strerror(number), other)


def naive_archiver(root: str) -> None:
    """The canary: moves what is old by reading, rewriting and renaming, without any lock."""
    os.chdir(root)
    os.makedirs("archive/2025", exist_ok=True)
    while True:
        lines = Path(FILE).read_text(encoding="utf-8").splitlines(keepends=True)
        old = [text for text in lines if '"created_at":"20' in text and text.endswith("\n") and hash(text) % 3 == 0]
        with open("archive/2025/learnings_2025_Q1.jsonl", "a", encoding="utf-8") as file:
            file.writelines(old)
        gone = set(old)
        Path("naive.tmp").write_text("".join(text for text in lines if text not in gone), encoding="utf-8")
        os.rename("naive.tmp", FILE)
        time.sleep(0.02)


# --- for the tests


@dataclass(frozen=True, slots=True)
class Section:
    """One lock section of an agent."""

    began: int
    ended: int
    before: tuple[int, int]
    after: tuple[int, int]
    renamed: int | None


@dataclass(frozen=True, slots=True)
class Told:
    """What all agents of a run report: ids whose write returned, ids a foreign rewrite dropped, sections."""

    ids: frozenset[str]
    dropped: frozenset[str]
    sections: tuple[Section, ...]

    def intrusions(self) -> list[Section]:
        """Sections in which a live file or the index became another one by nobody's rename but a stranger's."""
        renames = [(each.renamed, each.began, each.ended) for each in self.sections if each.renamed]

        def explained(each: Section) -> bool:
            """Two agents are inside at once now and then; their renames are their own affair."""
            return any(ino == each.after[0] and b <= each.ended and e >= each.began for ino, b, e in renames)

        return [
            each
            for each in self.sections
            if each.before[1] != each.after[1]
            or (each.before[0] not in (0, each.after[0]) and each.renamed != each.after[0] and not explained(each))
        ]


class Agents:
    """Agents at work on one root; ends them on leaving."""

    def __init__(self, root: Path, reports: Path) -> None:
        self.root = root
        self.reports = reports
        self.running: list[subprocess.Popen[str]] = []
        reports.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Agents:
        return self

    def __exit__(self, *unused: object) -> None:
        for process in self.running:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()

    def start(
        self,
        count: int = 1,
        *,
        think_ms: tuple[float, float] = (5, 20),
        old: float = 0.0,
        update: float = 0.0,
        linger_ms: float = 0.0,
        named: bool = False,
        style: str = "flock",
    ) -> list[subprocess.Popen[str]]:
        more = ["--named"] if named else []
        more += ["--old", str(old), "--update", str(update), "--linger-ms", str(linger_ms), "--style", style]
        more += ["--think-ms", *map(str, think_ms)]
        return [self._spawn(more) for _ in range(count)]

    def holder(self, *, style: str = "flock", named: bool = True) -> subprocess.Popen[str]:
        """An agent that has taken the lock and stays inside."""
        process = self._spawn(["--hold", "--style", style, *(["--named"] if named else [])])
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        return process

    def naive(self) -> subprocess.Popen[str]:
        return self._spawn(["--naive"])

    def _spawn(self, more: Sequence[str]) -> subprocess.Popen[str]:
        report = self.reports / f"agent-{len(self.running)}.jsonl"
        command = [sys.executable, __file__, str(self.root), str(report), *more]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.running.append(process)
        return process

    def stop(self) -> Told:
        """End all agents in order; one that failed by itself is an error of the test."""
        for process in self.running:
            if process.poll() is None:
                process.terminate()
        codes = [process.wait(30) for process in self.running]
        assert all(code in (0, -signal.SIGTERM, -signal.SIGKILL) for code in codes), codes
        return self.told()

    def told(self) -> Told:
        rows = [
            json.loads(text)
            for report in sorted(self.reports.glob("agent-*.jsonl"))
            for text in report.read_text().splitlines(keepends=True)
            if text.endswith("\n")  # the last line may still be under way
        ]
        return Told(
            frozenset(row["id"] for row in rows if row["id"]),
            frozenset(dropped for row in rows for dropped in row["dropped"]),
            tuple(
                Section(row["began"], row["ended"], tuple(row["before"]), tuple(row["after"]), row["renamed"])
                for row in rows
                if row["id"]
            ),
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("report")
    parser.add_argument("--think-ms", type=float, nargs=2, default=(5, 20))
    parser.add_argument("--old", type=float, default=0.0)
    parser.add_argument("--update", type=float, default=0.0)
    parser.add_argument("--linger-ms", type=float, default=0.0)
    parser.add_argument("--style", choices=("flock", "exists"), default="flock")
    parser.add_argument("--named", action="store_true")
    parser.add_argument("--hold", action="store_true")
    parser.add_argument("--naive", action="store_true")
    options = parser.parse_args()
    if options.naive:
        naive_archiver(options.root)
    elif options.hold:
        Agent(options).hold()
    else:
        Agent(options).run()


if __name__ == "__main__":
    main()
