"""The state of one root that cannot be used makes that root `failed`; the others are served. State that is lost while
the daemon has it open is made anew and reported."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from memoryd.errors import RootMissingError
from tests.agents import line, memory
from tests.daemon import Daemon, refused, until
from tests.end_to_end.conftest import MakeDaemon

pytestmark = pytest.mark.slow


def garbage(journal: Path) -> None:
    journal.write_bytes(b"SQLite format 3\0" + b"x" * 5000)


def half(journal: Path) -> None:
    content = journal.read_bytes()
    journal.write_bytes(content[: len(content) // 2])


def newer(journal: Path) -> None:
    db = sqlite3.connect(journal)
    db.execute("PRAGMA user_version = 999")
    db.close()


def folder(journal: Path) -> None:
    journal.unlink()
    journal.mkdir()


@pytest.mark.parametrize("damage", [garbage, half, newer, folder])
def test_one_damaged_journal_stops_no_other_root(damage: object, tmp_path: Path, daemon: MakeDaemon) -> None:
    assert callable(damage)
    roots = [tmp_path / name for name in ("a", "b")]
    for root in roots:
        root.mkdir(mode=0o700)
        (root / "learnings.jsonl").write_text(line(memory()), encoding="utf-8")
    keeping = daemon(*roots).start()
    assert keeping.stop() == 0
    for left in keeping.state.glob("roots/*/journal.sqlite-*"):
        left.unlink()
    (journal,) = keeping.state.glob("roots/a-*/journal.sqlite")
    damage(journal)
    keeping.start()
    rows = {row["name"]: row for row in keeping.rpc("status")["roots"]}
    assert rows["b"]["state"] == "ok"
    assert rows["a"]["state"] == "failed"
    assert str(journal.parent) in rows["a"]["reasons"][0]
    assert keeping.rpc("status")["state"] == "failed"
    error = refused(lambda: keeping.rpc("memory.add", root="a", memory={"type": "core", "content": "x"}))
    assert isinstance(error, RootMissingError)
    assert error.hint
    added = keeping.rpc("memory.add", root="b", memory={"type": "core", "content": "a heron"})
    assert added["receipt"]
    checked = keeping.rpc("check")
    assert "a" in checked["errors"]
    for found in (keeping.rpc("memory.search", query="heron"), keeping.rpc("memory.list")):
        assert found["fresh"]["a"]["reason"] == "failed"
        assert str(journal.parent) in found["fresh"]["a"]["withheld"]
    unnamed = refused(lambda: keeping.rpc("memory.add", memory={"type": "core", "content": "x"}))
    assert "roots: b, a" in (unnamed.hint or "")
    assert keeping.stop() == 0


def _hits(keeping: Daemon) -> list[str]:
    return [hit["title"] for hit in keeping.rpc("memory.search", query="heron")["hits"]]


def _overwrite_pages(database: Path) -> None:
    """Overwrite part of each page, as a failing disk would, also of those that are only in the log so far."""
    for path in (database, database.with_name(f"{database.name}-wal")):
        with open(path, "r+b") as file:
            for offset in range(100, path.stat().st_size, 4096):
                os.pwrite(file.fileno(), b"\xa5" * 300, offset)


@pytest.mark.parametrize("damage", [_overwrite_pages, Path.unlink, lambda path: os.truncate(path, 0)])
def test_an_index_that_is_damaged_in_use_is_built_anew(damage: object, root: Path, daemon: MakeDaemon) -> None:
    assert callable(damage)
    (root / "learnings.jsonl").write_text("".join(line(memory()) for _ in range(300)), encoding="utf-8")
    keeping = daemon(root).start()
    keeping.rpc("memory.add", memory={"type": "learning", "content": "a heron"})
    (index,) = keeping.state.glob("roots/*/catalogue.sqlite")
    damage(index)
    assert until(lambda: _hits(keeping), "the memory is found again") == ["a heron"]
    assert "state lost" in {each["event"] for each in keeping.events()}
    assert keeping.stop() == 0


def test_state_that_is_deleted_in_use_is_made_anew_and_reported(root: Path, daemon: MakeDaemon) -> None:
    """What the daemon recorded in a deleted file would be gone at its end, although it had given a receipt for it."""
    (root / "learnings.jsonl").write_text(line(memory()), encoding="utf-8")
    keeping = daemon(root).start()
    keeping.rpc("memory.add", memory={"type": "learning", "content": "a heron"})
    shutil.rmtree(keeping.state)
    found = until(lambda: keeping.rpc("check")["findings"], "the loss is found")
    assert ("state-lost", "warning") in {(each["code"], each["severity"]) for each in found}
    assert any(each.get("code") == "state-lost" for each in keeping.events())
    second = keeping.run("--socket", f"{keeping.socket}2", "run", str(root))
    assert "is held by another memoryd" in second.stderr
    added = keeping.rpc("memory.add", memory={"type": "learning", "content": "a stork"})
    assert keeping.stop() == 0
    keeping.start()
    assert added["receipt"] in {each["receipt"] for each in keeping.rpc("history.list")["entries"]}
    assert "a heron" in _hits(keeping)
    keeping.rpc("undo", receipt=added["receipt"])
    assert not keeping.bugs()
    assert keeping.stop() == 0
