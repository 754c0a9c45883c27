"""A file whose name is shaped like a token: it is looked after, and its name is never told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.control.client import Client
from tests.daemon import Daemon

TOKEN = "ghp_" + "a1B2" * 9


@pytest.fixture
def tending(tmp_path: Path) -> Iterator[Daemon]:
    root = tmp_path / "topics"
    (root / "a").mkdir(parents=True)
    (root / f"a/{TOKEN}.md").write_text("## 2026-01-30: T\n**Context:** c\n**Problem:** p\n**Solution:** zebra\n---\n")
    with Daemon(tmp_path / "d", root, config='[daemon]\nlog_level = "debug"\n', layout="markdown-topics") as daemon:
        daemon.start()
        yield daemon


def test_a_file_named_like_a_token_shows_nowhere_and_comes_back_by_its_backup(tending: Daemon, tmp_path: Path) -> None:
    file = tmp_path / f"topics/a/{TOKEN}.md"
    tending.rpc("sync")
    before = file.read_bytes()
    tending.rpc("backup.create")
    with Client(tending.socket) as client:
        client.call("subscribe")
        file.write_bytes(b"gone wrong\n")
        tending.rpc("sync")
        asked = [("check", {}), ("status", {}), ("memory.list", {}), ("memory.search", {"query": "zebra"})]
        asked += [("backup.list", {}), ("history.list", {}), ("plan", {})]
        shown = json.dumps([client.call(name, params) for name, params in asked])
    assert TOKEN not in shown
    assert "[redacted:github-token]" in shown
    backups = tending.rpc("backup.list")["backups"]
    at = next(each["id"] for each in backups if "redacted" in str(each["file"]) and each["bytes"] == len(before))
    tending.rpc("backup.restore", at=at)
    assert file.read_bytes() == before
    assert TOKEN not in tending.log.read_text()
