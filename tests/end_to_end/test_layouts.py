"""What an outside look at roots of the other layouts shows: what is told, and to whom."""

from __future__ import annotations

import json
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from memoryd.control.client import Client
from memoryd.errors import BusyError
from tests.daemon import refused
from tests.end_to_end.conftest import MakeDaemon
from tests.layouts.json_samples import file, name
from tests.layouts.samples import line, task

pytestmark = pytest.mark.slow

OFF = '[daemon]\nquiet_s = 0\n[defaults.schedule]\narchive = "off"\nbackup = "off"\ndedupe = "off"\nlocks = "off"\n'
DOCUMENT = "bucket/__long-memories/data.json"


def document(count: int) -> str:
    memories: list[dict[str, Any]] = [
        {"data": {"id": n, "content": f"memory {n}", "importance": 0.5}, "embedding": [n + 0.5, 1.0]}
        for n in range(count)
    ]
    return json.dumps({"memories": memories, "updated_at": "2025-12-31T12:00:00Z", "last_deduplicated_at": None})


def until_change(client: Client, path: str) -> list[dict[str, Any]]:
    """Every event up to the change of that file, which a test makes last: it always comes."""
    seen: list[dict[str, Any]] = []
    for event in client.events():
        seen.append(event)
        if path in event.get("paths", ()):
            return seen
    raise AssertionError(f"the daemon went; seen {seen}")


def test_a_shrunk_and_a_corrupt_document_are_told_at_once(tmp_path: Path, daemon: MakeDaemon) -> None:
    """The agent overwrites everything with its next store, so nobody may have to ask."""
    path = tmp_path / "users" / DOCUMENT
    path.parent.mkdir(parents=True)
    path.write_text(document(9))
    held = daemon(tmp_path / "users", config=OFF, layout="user-document").start()
    with Client(held.socket) as client:
        client.call("subscribe")
        path.write_text(document(2))
        held.rpc("sync")
        path.write_text(document(2)[:40])
        os.utime(path, (time.time() - 60,) * 2)
        held.rpc("sync")
        other = tmp_path / "users/other/__long-memories/data.json"
        other.parent.mkdir(parents=True)
        other.write_text(document(1))
        seen = until_change(client, "other/__long-memories/data.json")
    told = [(each["code"], each["path"]) for each in seen if each["topic"] == "finding"]
    assert told == [("shrunk", DOCUMENT), ("corrupt-file", DOCUMENT)]
    assert [(each["code"], each["path"]) for each in held.events() if each.get("event") == "finding"] == told


def test_that_a_memory_was_read_is_no_news(tmp_path: Path, daemon: MakeDaemon) -> None:
    """The server rewrites a file on each read: counts follow, but nothing is reported as changed."""
    root = tmp_path / "memories"
    root.mkdir()
    (root / name(1)).write_bytes(file(1))
    held = daemon(root, config=OFF, layout="json-files").start()
    with Client(held.socket) as client:
        client.call("subscribe")
        (root / name(1)).write_bytes(file(1, accessCount=7, relevanceScore=0.5))
        held.rpc("sync")
        assert json.loads((root / "_stats.json").read_text())["averageRelevanceScore"] == 0.5
        (root / name(2)).write_bytes(file(2))
        seen = until_change(client, name(2))
    assert [each["paths"] for each in seen if name(1) in each.get("paths", ())] == []


def test_a_root_of_no_or_of_two_shapes_says_how_to_name_it(tmp_path: Path, daemon: MakeDaemon) -> None:
    folders = {"none": {"notes.txt": b""}, "two": {name(1): file(1), "tasks.jsonl": line(task(1)) + b"\n"}}
    for folder, files in folders.items():
        (tmp_path / folder).mkdir()
        for each, content in files.items():
            (tmp_path / folder / each).write_bytes(content)
    held = daemon(tmp_path / "none", tmp_path / "two", config=OFF, layout=None).start()
    none, two = (held.root(folder) for folder in ("none", "two"))
    assert (none["layout"], none["state"], two["layout"], two["state"]) == (None, "degraded", None, "degraded")
    assert 'layout = "markdown-topics"' in none["reasons"][0]
    assert two["reasons"][0].endswith('layout = "json-files" or layout = "jsonl-store"')
    assert "session-files" not in two["reasons"][0]
    assert sorted(os.listdir(tmp_path / "two")) == sorted(folders["two"])


def test_a_directory_around_the_memories_is_answered_with_the_one_that_is_meant(
    tmp_path: Path, daemon: MakeDaemon
) -> None:
    below = tmp_path / "data/memories"
    below.mkdir(parents=True)
    (below / name(1)).write_bytes(file(1))
    held = daemon(tmp_path / "data", config=OFF, layout=None).start()
    row = held.root()
    assert (row["layout"], row["state"]) == (None, "degraded")
    assert f"the memories are in {below}" in row["reasons"][0]
    assert os.listdir(tmp_path / "data") == ["memories"]
    assert os.listdir(below) == [name(1)]


@pytest.mark.parametrize(
    ("layout", "params", "wanted"),
    [
        (
            "markdown-topics",
            {"topic": "n/m", "subtopic": "b", "memory": {"title": "t", "solution": "s"}},
            {"n": 0o775, "n/m": 0o775, "n/m/b.md": 0o664, "index.md": 0o664},
        ),
        ("json-files", {"memory": {"content": "c"}}, {"_index.json": 0o664, "_stats.json": 0o664}),
    ],
)
def test_what_is_new_in_a_shared_store_is_open_to_those_who_share_it(
    layout: str, params: dict[str, Any], wanted: dict[str, int], tmp_path: Path, daemon: MakeDaemon
) -> None:
    root = tmp_path / "memories"
    root.mkdir()
    root.chmod(0o775)
    held = daemon(root, config=OFF, layout=layout).start()
    added = held.rpc("memory.add", **params)
    held.rpc("sync")
    modes = {path: (root / path).stat().st_mode & 0o777 for path in (*wanted, added["path"])}
    assert modes == {**wanted, added["path"]: 0o664}


def test_the_shipped_form_is_counted_and_never_written(tmp_path: Path, daemon: MakeDaemon) -> None:
    root = tmp_path / "memories"
    root.mkdir(mode=0o755)
    shipped = root / "default.json"
    shipped.write_text(json.dumps({"core_memories": [{"content": "a"}], "learnings": [{"content": "b"}], "tasks": []}))
    shipped.chmod(0o644)
    held = daemon(root, config=OFF, layout=None).start()
    held.rpc("root.confirm", name="memories")
    held.rpc("sync")
    held.rpc("jobs.run", name="permissions")
    row = held.root()
    assert (row["layout"], row["state"], row["memories"]) == ("jsonl-store", "ok", 2)
    assert len(held.rpc("memory.list")["memories"]) == 2
    assert os.listdir(root) == ["default.json"]
    assert (shipped.stat().st_mode & 0o777, root.stat().st_mode & 0o777) == (0o644, 0o755)


def test_a_git_operation_that_stops_writing_is_told_with_the_lock_that_shows_it(
    tmp_path: Path, daemon: MakeDaemon
) -> None:
    """In a linked work tree the lock does not lie in the folder of the tree."""
    root, git = tmp_path / "tree/memory", tmp_path / "main/.git/worktrees/tree"
    root.mkdir(parents=True)
    git.mkdir(parents=True)
    (tmp_path / "tree/.git").write_text(f"gitdir: {git}\n")
    held = daemon(root, config=OFF, layout="markdown-topics").start()
    lock = git / "index.lock"
    lock.touch()
    row = held.until_root(lambda row: row["reasons"], "it is told")
    assert row["reasons"] == [
        f"a git command is under way in the git work tree ({lock}); nothing is written until that is over"
    ]
    error = refused(partial(held.rpc, "memory.add", topic="a", memory={"title": "T", "solution": "s"}))
    assert isinstance(error, BusyError)
    assert str(lock) in error.message
    lock.unlink()
    held.until_root(lambda row: not row["reasons"], "it is over")
    held.rpc("memory.add", topic="a", memory={"title": "T", "solution": "s"})
