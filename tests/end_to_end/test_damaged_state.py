"""The state of one root that cannot be used makes that root `failed`; the others are served."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from memoryd.errors import RootMissingError
from tests.agents import line, memory
from tests.daemon import refused
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
    assert keeping.stop() == 0
