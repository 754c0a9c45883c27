"""Ignored paths below a root."""

from __future__ import annotations

import pytest

from memoryd.core.ignore import TOOL_DIRECTORIES, is_ignored, is_temp


@pytest.mark.parametrize("folder", TOOL_DIRECTORIES)
def test_the_folders_of_tools_are_left_alone_wherever_they_lie(folder: str) -> None:
    for path in (f"{folder}/", f"a/{folder}/", f"a/{folder}/b/c.md", f"{folder}/x"):
        assert is_ignored(path)
    for path in (folder, f"a/{folder}", f"a{folder}/b.md", f"{folder}x/b.md", "a/b.md", ""):
        assert not is_ignored(path)


@pytest.mark.parametrize(
    ("glob", "left", "kept"),
    [
        ("*.draft.md", ["x.draft.md", "a/b/y.draft.md"], ["x.md", "draft.md", "a.draft.md.txt"]),
        ("private/", ["private/", "private/x.md", "a/private/x.md"], ["private", "privates/x.md"]),
        ("private", ["private", "private/", "a/private/x.md"], ["privates"]),
        ("/top", ["top", "top/x.md"], ["a/top"]),
        ("notes/old", ["notes/old", "notes/old/x.md"], ["a/notes/old", "notes/older"]),
        ("notes/*/x.md", ["notes/a/x.md"], ["notes/a/b/x.md", "notes/x.md"]),
        ("notes/**/x.md", ["notes/a/b/x.md"], ["a/notes/b/x.md"]),
        ("?.md", ["a.md", "b/c.md"], ["ab.md"]),
        ("a[1].md", ["a[1].md"], ["a1.md"]),
        ("a\nb", ["a\nb"], ["a", "b"]),
    ],
)
def test_a_glob(glob: str, left: list[str], kept: list[str]) -> None:
    assert [path for path in left if not is_ignored(path, (glob,))] == []
    assert [path for path in kept if is_ignored(path, (glob,))] == []
    assert [path for path in left if is_ignored(path)] == []


def test_several_globs_are_all_matched_against_a_path() -> None:
    assert [path for path in ("a.x", "b.y", "c.z", ".git/c.z") if is_ignored(path, ("*.x", "*.y"))] == [
        "a.x",
        "b.y",
        ".git/c.z",
    ]


@pytest.mark.parametrize(
    "name",
    [
        *("x.json.tmp", "x.tmp.json", ".tmp-x", ".fs-0a1b.tmp", f"x.{'0a' * 16}.tmp", "x.bak", "x.md~", ".#x"),
        *("x.swp", ".x.swx", "x.sync-conflict-20260130.md", "x (conflicted copy).md", ".nfs0a1b"),
    ],
)
def test_a_temporary_name(name: str) -> None:
    assert is_temp(name)
    assert is_temp(f"a/{name}")
    assert not is_temp(f"{name}/x.md"), "the name of a directory"


@pytest.mark.parametrize(
    "name",
    [
        "x.md",
        "x.tmpl",
        "x.tmp-y",
        "x.#y",
        "x.nfs0a1b",
        ".nfs",
        ".nfs0a1b.md",
        "x~y",
        "x.swift",
        "tmp",
        "conflicted copy",
    ],
)
def test_another_name(name: str) -> None:
    assert not is_temp(name)
