"""Layouts are recognised by the contents of files, never by their names alone."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from memoryd.config.roots import too_wide
from memoryd.disk.tree import Tree
from memoryd.layouts.directory import HEAD_SIZE, MARKERS, MAX_HEADS, Directory, first_value
from memoryd.layouts.registry import recognise
from memoryd.operations import recognition
from memoryd.operations.recognition import recognise_layout
from tests.layouts.contract import Files, directory_of
from tests.layouts.json_samples import corpus, file
from tests.layouts.samples import learning, line
from tests.layouts.session_samples import memory, session, text

ENTRY = b"## 2025-01-01: Title\n**Context:** c\n**Problem:** p\n**Solution:** s\n---\n"
DATED = b"## 2025-01-02: Release\n\n- some text\n"
INDEX = b"# Memory Index\n\n## Topics\n"
DAY = "2026-01-30/14-30-00-fix-bug.json"
MEMORY = "memory_20250609163820.json"
USER = "alice/__long-memories/data.json"


def native(content: Any) -> bytes:
    return json.dumps(content).encode()


STORES: list[tuple[str, Files, str]] = [
    ("json-files", {"_index.json": native({"fileIndex": {}, "temporalIndex": []})}, "fileIndex"),
    ("json-files", {MEMORY: file(1)}, MEMORY),
    ("json-files", {MEMORY: native({"id": "a", "content": "b", "type": "decision"})}, MEMORY),
    ("json-files", {MEMORY: file(1) + b"}se\n}"}, MEMORY),
    (
        "json-files",
        {MEMORY: file(1, content="x" * HEAD_SIZE, id=None) + b"", "memory_20250609163821_3.json": file(2)},
        "_3",
    ),
    ("json-files", corpus(), "fileIndex"),
    ("markdown-topics", {"index.md": INDEX}, "index.md"),
    ("markdown-topics", {"a/b.md": b"# T\n\n" + ENTRY}, "a/b.md:3"),
    ("markdown-topics", {"a/b/c.md": ENTRY + DATED + ENTRY}, "a/b/c.md:1"),
    ("markdown-topics", {"a/b.md": DATED.replace(b"- some text", b"*Memory stored: 2025-01-02*")}, "a/b.md:1"),
    ("markdown-topics", {"a/b.md": ENTRY, "a/site/_config.yml": b"", "a/site/c.md": DATED * 9}, "a/b.md"),
    ("user-document", {USER: native({"memories": [], "updated_at": "x"})}, USER),
    ("user-document", {USER: native({"memories": [{"data": {"content": "x" * HEAD_SIZE}, "embedding": [0.5]}]})}, USER),
    ("session-files", {DAY: text(session(memory()))}, DAY),
    ("session-files", {DAY: text(session())}, DAY),
    ("jsonl-store", {"learnings.jsonl": line(learning(1)) + b"\n"}, "learnings.jsonl:1"),
    (
        "jsonl-store",
        {"tasks.jsonl": b"", "learnings.jsonl": b"\n{torn\n" + 2 * (line(learning(1)) + b"\n")},
        "learnings",
    ),
    ("jsonl-store", {"tasks.jsonl": b"", "index.json": native({"statistics": {"by_type": {}}})}, "index.json"),
    ("jsonl-store", {"default.json": native({"core_memories": [], "learnings": [], "tasks": []})}, "default.json"),
]

OTHERS: list[Files] = [
    {},
    {"_index.json": native({"version": 2, "items": []})},
    {"_index.json": native(["de", "en"]), "de.json": native({"hello": "Hallo"})},
    {"_stats.json": native({"peak": 1}), "memory_20240101120000.json": native({"heap": [1, 2], "id": "x"})},
    {MEMORY: native({"id": "a", "content": "b", "type": "video"})},
    {MEMORY: native({"id": 3, "content": "b", "summary": "c"})},
    {f"sub/{MEMORY}": file(1)},
    {"docs/changelog.md": DATED * 30},
    {"docs/changelog.md": DATED + ENTRY},
    {"docs/changelog.md": b"```\n" + ENTRY + b"```\n"},
    {"b.md": ENTRY},
    {"a/b.md": ENTRY.replace(b"01-01", b"02-30")},
    {"a/b.txt": ENTRY},
    {".hidden/b.md": ENTRY},
    {"index.md": b"# Home\n\nSee the [Memory Index](alloc.md).\n\n## Topics\n"},
    {"index.md": b"# Memory Index\n\n- decisions/a.json\n"},
    {"index.md": b"# Notes\n\n```\n" + INDEX + b"```\n"},
    {"data.json": native({"memories": []})},
    {USER: native({"photos": []})},
    {USER: b"{"},
    {DAY: native({"title": "beach", "memories": [{"type": "a", "title": "b"}]})},
    {DAY: native({"session_id": "x", "memories": ["sun", "sea"]})},
    {DAY: native({"session_id": "x", "memories": []})},
    {"tasks.jsonl": native({"task_id": "HumanEval/0", "prompt": "def f():"}) + b"\n"},
    {"learnings.jsonl": native({"epoch": 1, "loss": 0.5}) + b"\n"},
    {"learnings.jsonl": line(learning(1)) + b"\n" + native({"epoch": 1}) + b"\n"},
    {"tasks.jsonl": b"", "index.json": native([{"title": "a"}])},
    {"learnings.jsonl": b"", "README.md": b"empty"},
    {"settings.json": native({"learnings": [], "tasks": []})},
]


@pytest.mark.parametrize(("name", "files", "shown"), STORES)
def test_a_store_is_recognised_and_it_is_said_by_what(name: str, files: Files, shown: str) -> None:
    seen = recognise(directory_of(files))
    assert list(seen) == [name]
    assert shown in seen[name]


@pytest.mark.parametrize("files", OTHERS)
def test_what_only_looks_alike_is_not(files: Files) -> None:
    assert recognise(directory_of(files)) == {}


@pytest.mark.parametrize("marker", sorted(MARKERS))
def test_a_repository_a_vault_or_a_site_holds_no_topics(marker: str) -> None:
    files = {"index.md": INDEX, "a/b.md": ENTRY}
    folder = directory_of(files)
    assert list(recognise(folder)) == ["markdown-topics"]
    as_file, as_folder = {**files, marker: b""}, [*folder.directories, marker]
    assert recognise(directory_of(as_file)) == recognise(Directory(files, as_folder, folder.head)) == {}


def test_what_is_said_has_no_secrets_and_nothing_that_a_terminal_obeys(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    path = tmp_path / f"\x1b]0;x\x07{token}" / "b.md"
    path.parent.mkdir()
    path.write_bytes(ENTRY)
    with Tree(str(tmp_path)) as tree:
        why = recognise_layout(tree).matches["markdown-topics"]
    assert why.isprintable()
    assert token not in why


def test_what_is_left_alone_shows_nothing_but_that_it_is_there(tmp_path: Path) -> None:
    for path in ("node_modules/p/docs/a.md", "venv/a/b.md", "notes/b.md"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(ENTRY)
    with Tree(str(tmp_path)) as tree:
        assert list(recognise_layout(tree).matches.values()) == ["notes/b.md:1 has the labels of a memory"]
        assert recognise_layout(tree, ("notes",)).matches == {}
        (tmp_path / ".git").mkdir()
        assert recognise_layout(tree).matches == {}


def test_a_directory_of_very_many_files_is_not_looked_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recognition, "MAX_FILES", 10)
    (tmp_path / "learnings.jsonl").write_bytes(line(learning(1)))
    for number in range(9):
        (tmp_path / f"{number}.txt").touch()
    with Tree(str(tmp_path)) as tree:
        assert recognise_layout(tree).layout == "jsonl-store"
        (tmp_path / "10.txt").touch()
        seen = recognise_layout(tree)
    assert (seen.layout, seen.refusal) == (None, "contains more than 10 files")


@pytest.mark.parametrize(
    ("path", "why"),
    [("", "home directory"), ("/..", "contains home"), ("/.claude", "other programs"), ("/.config", "other programs")],
)
def test_no_layout_is_looked_for_in_a_home(
    path: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "me"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    assert why in str(too_wide(os.path.normpath(f"{home}{path}")))
    assert too_wide("/")
    for inside in (home / ".claude/memory", home / "memories", tmp_path / "other"):
        assert too_wide(str(inside)) is None


def test_two_possible_layouts_are_both_reported() -> None:
    assert list(recognise(directory_of({MEMORY: file(1), "index.md": INDEX}))) == ["json-files", "markdown-topics"]


def test_few_files_are_read_and_none_to_its_end() -> None:
    files = {f"t/{number:04}.md": DATED for number in range(2000)}
    files |= {f"memory_{20250609163820 + number}.json": b"{}" for number in range(2000)}
    asked: list[str] = []

    def head(path: str) -> bytes:
        asked.append(path)
        return files[path]

    assert recognise(Directory(files, (), head)) == {}
    assert 2 <= len(asked) <= 5 * MAX_HEADS


def test_only_the_head_of_a_long_file_is_read() -> None:
    whole = native({"a": [1, {"b": "x"}, [], None, "y" * HEAD_SIZE], "c": 1})
    assert directory_of({"x": whole}).json("x") == {"a": [1, {"b": "x"}, [], None]}
    assert first_value(whole[: len(whole) // 2]) is None
    assert first_value(b'\xef\xbb\xbf {"a": 1} {"b"') == {"a": 1}
    assert first_value(b"[" * 100_000) is None
