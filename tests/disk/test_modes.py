"""New files and directories of a shared store can be used by everyone with access to the store."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.disk.modes import shared_directory_mode, shared_file_mode
from memoryd.disk.tree import Tree


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir()
    path.chmod(0o775)
    return path


@pytest.fixture
def tree(root: Path) -> Iterator[Tree]:
    with Tree(str(root)) as tree:
        yield tree


def laid(path: Path, mode: int) -> None:
    path.touch()
    path.chmod(mode)


def test_a_file_takes_the_mode_of_most_siblings_of_its_kind(root: Path, tree: Tree) -> None:
    assert shared_file_mode(tree, "a.md") == 0o664, "that of the root where it has none"
    laid(root / "note.txt", 0o600)
    laid(root / "b.md", 0o640)
    assert shared_file_mode(tree, "a.md") == 0o640
    for name in ("c.md", "d.md"):
        laid(root / name, 0o4755)
    assert shared_file_mode(tree, "a.md") == 0o644, "never to be run, never as another user"
    (root / "link.md").symlink_to("/dev/null")
    assert shared_file_mode(tree, "a.md") == 0o644


def test_a_folder_takes_the_mode_of_the_folders_beside_it(root: Path, tree: Tree) -> None:
    (root / ".git").mkdir(mode=0o700)
    assert shared_directory_mode(tree, "topic") == 0o775
    (root / "other").mkdir()
    (root / "other").chmod(0o750)
    assert shared_directory_mode(tree, "topic") == 0o750


def test_in_a_private_folder_everything_stays_private(root: Path, tree: Tree) -> None:
    (root / "own").mkdir(mode=0o700)
    laid(root / "own/a.md", 0o644)
    assert (shared_file_mode(tree, "own/b.md"), shared_directory_mode(tree, "own/c")) == (0o600, 0o700)


def test_a_folder_gets_its_mode_past_the_umask_and_keeps_the_group(root: Path, tree: Tree) -> None:
    root.chmod(0o2775)
    before = os.umask(0o077)
    try:
        tree.mkdir("a/b", lambda path: 0o770 if path == "a" else 0o755)
    finally:
        os.umask(before)
    made = [stat.S_IMODE((root / name).stat().st_mode) for name in ("a", "a/b")]
    assert made == [0o2770, 0o2755]
