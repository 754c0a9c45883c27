"""An agent loses most of a file, or writes to a replaced one: `status` and `check` say so until it is over."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.agents import line, memory
from tests.daemon import Daemon, until
from tests.end_to_end.conftest import MakeDaemon

pytestmark = pytest.mark.slow

OFF = '[daemon]\nquiet_s = 0\n[defaults.schedule]\narchive = "off"\nbackup = "off"\nprune = "off"\n'
ENTRY = "## 2026-01-{day:02}: Title {day}\n**Context:** c\n**Problem:** p\n**Solution:** s\n\n---\n"


def entries(count: int) -> str:
    return "".join(ENTRY.format(day=day) for day in range(count, 0, -1))


def found(daemon: Daemon, code: str) -> list[dict[str, Any]]:
    return [each for each in daemon.rpc("check")["findings"] if each["code"] == code]


def test_a_topic_file_cut_by_an_agent_is_told_and_restored(tmp_path: Path, daemon: MakeDaemon) -> None:
    root = tmp_path / "topics"
    (root / "a").mkdir(parents=True)
    path = root / "a/b.md"
    path.write_text(entries(5))
    held = daemon(root, config=OFF, layout="markdown-topics").start()
    path.write_text(entries(20))
    held.until_root(lambda row: row["memories"] == 20, "all are indexed")
    size = path.stat().st_size

    def saved() -> bool:
        return size in [each["bytes"] for each in held.rpc("backup.list", file="a/b.md")["backups"]]

    until(saved, "the version is saved")
    path.write_text(entries(1))
    row = held.until_root(lambda row: any("became 1" in each for each in row["reasons"]), "the loss is a reason")
    assert "a/b.md: 20 memories became 1; see `memoryd check`" in row["reasons"]
    [loss] = found(held, "shrunk")
    assert (loss["path"], loss["severity"]) == ("a/b.md", "error")
    _, command, _ = loss["message"].split("`", 2)
    done = held.run(*shlex.split(command)[1:])
    assert done.returncode == 0, done.stdout + done.stderr
    assert path.read_text() == entries(20)
    held.until_root(lambda row: row["reasons"] == [], "the reason has gone")
    assert found(held, "shrunk") == []


def test_a_loss_is_told_after_a_restart_too(tmp_path: Path, daemon: MakeDaemon) -> None:
    """The file is cut while no daemon runs, and nobody reads the first look at it."""
    root = tmp_path / "topics"
    (root / "a").mkdir(parents=True)
    path = root / "a/b.md"
    path.write_text(entries(20))
    held = daemon(root, config=OFF, layout="markdown-topics").start()
    assert held.stop() == 0
    path.write_text(entries(3))
    for _ in range(2):
        held.start()
        held.until_root(lambda row: any("20 memories became 3" in each for each in row["reasons"]), "it is told")
        assert held.stop() == 0
    held.start()
    assert held.run("repair", "--code", "shrunk").returncode == 0
    held.until_root(lambda row: row["reasons"] == [], "the loss is accepted")


def test_a_program_that_writes_to_a_replaced_file_is_told(root: Path, daemon: MakeDaemon) -> None:
    learnings = root / "learnings.jsonl"
    learnings.write_text(line(memory(days=400)) + line(memory()))
    held = daemon(root, config=OFF).start()
    with open(learnings, "r+b") as handle:
        assert held.rpc("archive", root="memories")["receipt"]
        handle.write(b" ")
        handle.flush()
        row = held.until_root(lambda row: any("still writes" in each for each in row["reasons"]), "it is a reason")
        [late] = found(held, "late-writes")
        assert row["reasons"] == [f"{late['path']}: {late['message']}"]
        assert late["path"] != "learnings.jsonl"
        assert (root / late["path"]).exists()
    held.until_root(lambda row: row["reasons"] == [], "the handle is closed")
    assert found(held, "late-writes") == []
    kept = [each for each in held.rpc("backup.list")["backups"] if "changed in place" in each.get("reason", "")]
    assert len(kept) == 1, "what was written in place is kept"


def test_a_program_that_writes_to_a_replaced_file_after_a_kill_loses_nothing(root: Path, daemon: MakeDaemon) -> None:
    learnings = root / "learnings.jsonl"
    learnings.write_text(line(memory(days=400)) + line(memory()))
    held = daemon(root, config=OFF).start()
    with open(learnings, "a", encoding="utf-8") as handle:
        assert held.rpc("archive", root="memories")["receipt"]
        held.kill()
        held.start()
        handle.write(line(memory(content="written after the kill")))
        handle.flush()
        until(lambda: "written after the kill" in learnings.read_text(), "it is carried over")
