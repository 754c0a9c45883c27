"""What an outside look at roots of the other layouts shows: what is told, and to whom."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from memoryd.control.client import Client
from tests.end_to_end.conftest import MakeDaemon
from tests.layouts.json_samples import file, name
from tests.layouts.samples import line, task

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
    assert [(each["code"], each["file"]) for each in held.events() if each.get("event") == "alarm"] == told


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
    assert f"the memories lie in {below}" in row["reasons"][0]
    assert os.listdir(tmp_path / "data") == ["memories"]
    assert os.listdir(below) == [name(1)]


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
